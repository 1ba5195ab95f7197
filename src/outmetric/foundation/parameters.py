"""Checks of parameters, and where randomness comes from.

scikit-learn's `check_scalar` is not used: it takes NaN, infinity and truth values for numbers, and raises two kinds of errors.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state


def check_number(name: str, value: Any, *, positive: bool = False, word: str | None = None) -> None:
    """Raise ValueError unless the parameter is a finite number >= 0 (> 0), or the given word."""
    if word is not None and isinstance(value, str) and value == word:
        return
    number = isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    if not number or value < 0 or (positive and value == 0):
        kind = "a finite number > 0" if positive else "a finite number >= 0"
        raise ValueError(f"{name} must be {kind}{f' or {word!r}' if word else ''}, not {described(value)}.")


def check_integer(name: str, value: Any, *, least: int = 1, optional: bool = False) -> None:
    """Raise ValueError unless the parameter is an integer that is not below ``least``; ``optional``: or None."""
    if optional and value is None:
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be {'None or ' if optional else ''}an integer >= {least}, not {described(value)}.")


def described(value: Any) -> str:
    """A value for messages; of an estimator its class only, since all of one that holds others many times over takes for ever."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
    told = not any(isinstance(item, BaseEstimator | list | tuple | dict) for item in items)
    return repr(value) if told else f"a {type(value).__name__}"


def generator(random_state: Any) -> np.random.Generator:
    """What an estimator draws from; ``random_state`` is scikit-learn's."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31))
