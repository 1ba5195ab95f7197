"""Points by row number: what a preprocessor makes of row numbers, and tuples of points as row numbers of distinct points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from outmetric.estimators import TUPLES, points_of_tuples
from outmetric.foundation import Array, objects


def formed(preprocessor: Any, given: Any, n_axes: int) -> Any:
    """``given`` with points in the place of row numbers, if it holds these: with a preprocessor, whatever has ``n_axes`` axes does.

    Parameters
    ----------
    preprocessor : None, array-like of points, or function
        A function gets an array of all row numbers, or of whatever stands for points, and returns the points, one for each.
    given : row numbers, or points
    n_axes : int
        Of row numbers: 1 for points, 2 for tuples of points.
    """
    if preprocessor is None:
        return given
    check_preprocessor(preprocessor)
    numbers = _numbers(given, n_axes)
    if numbers is None:
        return given
    points = preprocessor(numbers.ravel()) if callable(preprocessor) else _rows(preprocessor, numbers.ravel())
    found = points.shape[0] if hasattr(points, "shape") else len(points)
    if found != numbers.size:
        raise ValueError(f"preprocessor returned {found} points for {numbers.size} row numbers; it must return one for each.")
    return points if n_axes == 1 else _in_tuples(points, numbers.shape)


def check_preprocessor(preprocessor: Any) -> None:
    """Raise ValueError unless it is None, a function, or can be a matrix, table or sequence of points."""
    is_sequence = isinstance(preprocessor, Sequence) and not isinstance(preprocessor, str | bytes)
    if preprocessor is None or callable(preprocessor) or is_sequence or len(getattr(preprocessor, "shape", ())):
        return
    raise ValueError(
        "preprocessor must be None, the points that row numbers refer to, or a function from row numbers to points; it is a "
        f"{type(preprocessor).__name__}."
    )


def _numbers(given: Any, n_axes: int) -> Array | None:
    """Row numbers, or what else stands for points; None if points came."""
    if scipy.sparse.issparse(given):
        return None
    try:
        values = np.asarray(given)
    except ValueError:  # ragged
        return None
    return values if values.ndim == n_axes else None


def _rows(points: Any, numbers: Array) -> Any:
    """Rows of a matrix, a table or a sequence."""
    n = points.shape[0] if hasattr(points, "shape") else len(points)
    if numbers.dtype.kind not in "iu" or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < n):
        raise ValueError(
            f"row numbers of the preprocessor must be whole numbers from 0 to {n - 1}; they are {numbers.dtype}"
            + (f" from {numbers.min()} to {numbers.max()}." if numbers.dtype.kind in "iuf" and len(numbers) else ".")
        )
    if hasattr(points, "iloc"):
        return points.iloc[numbers]
    if hasattr(points, "tocsr"):
        return points.tocsr()[numbers]
    return np.asarray(points)[numbers]


def _in_tuples(points: Any, shape: tuple[int, ...]) -> Any:
    rows = points.toarray() if hasattr(points, "toarray") else np.asarray(points)
    if rows.ndim > 1:
        return rows.reshape(*shape, *rows.shape[1:])
    ordered = iter(rows)
    return [[next(ordered) for _ in range(shape[1])] for _ in range(shape[0])]


def numbered(tuples: Any, size: int, X: Any = None) -> tuple[Any, Array]:
    """Points, and tuples of row numbers of them, shape (n_tuples, size), not checked.

    Without X the tuples are of points: these are made distinct, in the order in which they first appear. With X they are of its row
    numbers already.
    """
    if X is not None:
        return X, np.asarray(tuples)
    try:
        values = np.asarray(tuples)
    except ValueError:  # ragged
        values = objects(tuples)
    if values.dtype.kind not in "fiub":
        points = points_of_tuples(tuples, size, None)
    elif values.ndim == 2:
        name = TUPLES[size]
        raise ValueError(f"{name} of points have the shape (n_{name}, {size}, d); theirs is {values.shape}. Row numbers need X.")
    else:
        points = points_of_tuples(values.astype(np.float64), size, "d")
    firsts: dict[Any, int] = {}
    numbers = [firsts.setdefault(_identity(point), len(firsts)) for point in points]
    rows = np.unique(numbers, return_index=True)[1]
    return points[rows], np.array(numbers).reshape(-1, size)


def _identity(point: Any) -> Any:
    """What is equal for equal points: numbers by value, objects by equality if they know theirs, else by being the same."""
    if isinstance(point, np.ndarray):
        return (point.shape, (point + 0.0).tobytes()) if point.dtype.kind == "f" else id(point)  # 0.0 and -0.0 are equal
    try:
        hash(point)
    except TypeError:
        return id(point)
    return point


def check_numbers(numbers: Array, size: int, n_points: int) -> None:
    """Raise ValueError unless these are tuples of row numbers of so many points."""
    name = TUPLES[size]
    if numbers.ndim != 2 or numbers.shape[1] != size or numbers.dtype.kind not in "iu":
        raise ValueError(f"{name} must be (n_{name}, {size}) whole row numbers; they are {numbers.dtype} of shape {numbers.shape}.")
    if not len(numbers) or numbers.min() < 0 or numbers.max() >= n_points:
        raise ValueError(f"{name} must be row numbers from 0 to {n_points - 1}, and at least one {name[:-1]}.")
