"""What is wrong with a table, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class TableError(ValueError):
    """A table that cannot be read, or not be used as it is; the message says what to do."""


def shown(names: Sequence[Any], at_most: int = 10) -> str:
    """Some names or values for a message: in quotes, without control characters, not too long."""
    short = [f"{name[:57]}..." if isinstance(name, str) and len(name) > 60 else name for name in names[:at_most]]
    texts = [repr(name) if isinstance(name, str) else str(name)[:60] for name in short]
    return ", ".join(texts) + (f" and {len(names) - at_most} more" if len(names) > at_most else "")
