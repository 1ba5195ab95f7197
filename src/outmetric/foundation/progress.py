"""What people are told: progress of long work, to a function or on stderr, where nothing else in the library prints; and how."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# (done, total, text)
Tell = Callable[[int, int, str], object]


def announce(who: str, text: str, *, again: bool = False, end: str = "\n") -> None:
    """A line on stderr; ``again``: in the place of the one before, which ended without a line end."""
    print(f"{chr(13) if again else ''}[{who}] {text}", end=end, file=sys.stderr)


def printable(text: Any) -> str:
    """Text from a file that cannot do anything to a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(text))
