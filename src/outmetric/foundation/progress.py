"""How long work tells of its progress: to a function, or to people on stderr. Nothing else in the library prints."""

from __future__ import annotations

import sys
from collections.abc import Callable

# (done, total, text)
Tell = Callable[[int, int, str], object]


def announce(who: str, text: str, *, again: bool = False, end: str = "\n") -> None:
    """A line on stderr; ``again``: in the place of the one before, which ended without a line end."""
    print(f"{chr(13) if again else ''}[{who}] {text}", end=end, file=sys.stderr)
