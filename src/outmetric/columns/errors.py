"""What is wrong with a table, in words, and what would mend it, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Remedy:
    """What would mend a table or what was asked of it, for programs that have their own words for it.

    Attributes
    ----------
    way : "leave_out", "decimal", "encoding", "model", "automatic", "blocks" or "real"
        Leave out columns, say the decimal mark or the encoding, choose another model or the automatic one, read in blocks, or take
        whole numbers in the target for numbers.
    columns : tuple of str
        Those to leave out.
    """

    way: Literal["leave_out", "decimal", "encoding", "model", "automatic", "blocks", "real"]
    columns: tuple[str, ...] = ()


class TableError(ValueError):
    """A table that cannot be read, or not be used as it is; the message says what to do.

    Attributes
    ----------
    remedies : tuple of Remedy
        Any of these may mend it.
    """

    def __init__(self, message: str, *remedies: Remedy) -> None:
        super().__init__(message)
        self.remedies = remedies


def shown(names: Sequence[Any], at_most: int = 10) -> str:
    """Some names or values for a message: in quotes, without control characters, not too long."""
    short = [f"{name[:57]}..." if isinstance(name, str) and len(name) > 60 else name for name in names[:at_most]]
    texts = [repr(name) if isinstance(name, str) else str(name)[:60] for name in short]
    return ", ".join(texts) + (f" and {len(names) - at_most} more" if len(names) > at_most else "")
