"""Long work: what people are told of it, on stderr, where nothing else in the library prints, and how much time it may take."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

# (done, total, text)
Tell = Callable[[int, int, str], object]
# What all budgets go by; tests put another in its place.
clock = time.perf_counter
# Whose functions may lie between a warning of ours and the line that it is about.
BETWEEN = {"outmetric", "sklearn", "joblib", "contextlib"}


def now() -> float:
    """Seconds since some moment in the past."""
    return clock()


@dataclass(frozen=True)
class Budget:
    """Seconds that some work may take, from the moment when this is made.

    Parameters
    ----------
    seconds : float or None
        None: as many as it needs.
    kept : float
        How many of them are kept back for what comes later.
    """

    seconds: float | None = None
    kept: float = 0.0
    began: float = field(default_factory=now)

    @property
    def limited(self) -> bool:
        return self.seconds is not None

    @property
    def spent(self) -> float:
        return now() - self.began

    @property
    def left(self) -> float:
        """Below 0 once more was taken than there was."""
        return float("inf") if self.seconds is None else self.seconds - self.kept - self.spent

    def allows(self, seconds: float) -> bool:
        """Whether work that will take so long may begin; without an estimate, 0, whether time is left."""
        return not self.limited or 0 < self.left >= seconds

    def keeping(self, seconds: float) -> Budget:
        """The same, with so many seconds kept back."""
        return replace(self, kept=self.kept + seconds)


def announce(who: str, text: str, *, again: bool = False, end: str = "\n") -> None:
    """A line on stderr; ``again``: in the place of the one before, which ended without a line end."""
    print(f"{chr(13) if again else ''}[{who}] {text}", end=end, file=sys.stderr)


def warn_caller(text: str) -> None:
    """A UserWarning that points at the line that called the library, however many functions and decorators lie between."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)


def printable(text: Any) -> str:
    """Text from a file that cannot do anything to a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(text))
