"""Distances by whatever is a metric: an estimator that knows pairs, one that has coordinates, or a function of two points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_array

from outmetric.foundation import Array, n_points, objects
from outmetric.kernels import MatrixKernel, ScalarKernel


def pair_distances(metric: Any, pairs: Any) -> Array:
    """The distance of each pair, shape (n_pairs,).

    Parameters
    ----------
    metric : object with `pair_distance`, `transform` or `coordinates`; function of two points; or None
        Asked in this order; of what has coordinates the distance is Euclidean, and with None pairs are given by coordinates.
    pairs : array of shape (n_pairs, 2, d), or sequence of pairs of objects

    Raises
    ------
    TypeError
        If the metric is none.
    ValueError
        If there are no pairs, or their shape is another, or a distance is no finite number.
    """
    check_metric(metric)
    if not hasattr(pairs, "__len__") or not len(pairs):
        raise ValueError("there are no pairs; at least one is needed.")
    if hasattr(metric, "pair_distance"):
        distances = metric.pair_distance(pairs)
    elif metric is None or hasattr(metric, "transform") or hasattr(metric, "coordinates"):
        points = _coordinates(metric, _points(pairs))
        distances = np.linalg.norm(points[::2] - points[1::2], axis=1)
    else:
        points = _points(pairs)
        distances = [metric(one, other) for one, other in zip(points[::2], points[1::2], strict=True)]
    return _checked(distances, len(pairs))


def distances_from(metric: Any, X: Any, gallery: Any) -> Callable[[int], Array]:
    """A function that gives the distances of a row of X, by its number, to all rows of a gallery."""
    check_metric(metric)
    if metric is None or hasattr(metric, "transform") or hasattr(metric, "coordinates"):
        queries = _coordinates(metric, X)
        others = queries if gallery is X else _coordinates(metric, gallery)
        # Not by products, whose rounding would tell rows apart that are equally far.
        return lambda number: _checked(cdist(queries[number : number + 1], others)[0], len(others))
    rows, others = _rows(X), _rows(gallery)
    if hasattr(metric, "pair_distance"):
        return lambda number: _checked(metric.pair_distance([(rows[number], other) for other in others]), len(others))
    return lambda number: _checked([metric(rows[number], other) for other in others], len(others))


def check_metric(metric: Any) -> None:
    """Raise TypeError for what gives no distances."""
    if isinstance(metric, MatrixKernel | ScalarKernel) or getattr(metric, "pairwise", True) is False:  # as of kernels of strings
        raise TypeError(
            f"metric is a kernel ({type(metric).__name__}), which is larger for pairs that are alike; fit a model with it."
        )
    usable = any(hasattr(metric, name) for name in ("pair_distance", "transform", "coordinates")) or callable(metric)
    if isinstance(metric, type) or (metric is not None and not usable):
        name = metric.__name__ if isinstance(metric, type) else type(metric).__name__
        raise TypeError(
            f"metric must be fitted and have pair_distance or transform, or be a function of two points; {name} is neither. Of a "
            "Pipeline that ends in a classifier give all steps but the last: pipeline[:-1]."
        )


def _points(pairs: Any) -> Any:
    """Both points of the first pair, both of the second, ...: rows of an array, or objects."""
    values = _array(pairs)
    if values is not None and values.ndim == 3 and values.shape[1] == 2:
        return values.reshape(-1, values.shape[2])
    if values is not None and values.dtype.kind in "fiub":
        raise ValueError(f"pairs must have the shape (n_pairs, 2, d); theirs is {values.shape}.")
    if any(isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != 2 for pair in pairs):
        raise ValueError("pairs must be an array of shape (n_pairs, 2, d), or a sequence of pairs (x, x') of objects.")
    return objects([point for pair in pairs for point in pair])


def _rows(X: Any) -> Any:
    values = _array(X)
    return objects(list(X)) if values is None or values.ndim != 2 else values


def _array(values: Any) -> Array | None:
    """None for what is ragged."""
    try:
        return np.asarray(values)
    except ValueError:
        return None


def _coordinates(metric: Any, X: Any) -> Array:
    if metric is None:
        return np.asarray(check_array(X, dtype=np.float64, input_name="the coordinates"))
    found = metric.transform(X) if hasattr(metric, "transform") else metric.coordinates(X)
    found = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
    if found.ndim != 2 or len(found) != n_points(X):
        raise ValueError(f"the metric's coordinates of {n_points(X)} points have the shape {found.shape}, not one row for each.")
    return found


def _checked(distances: Any, count: int) -> Array:
    found = np.asarray(distances, dtype=np.float64)
    if found.shape != (count,):
        raise ValueError(f"the metric gives distances of shape {found.shape} for {count} pairs.")
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        raise ValueError(
            f"the metric gives {found[wrong[0]]} for pair {wrong[0]}, and for {len(wrong)} pairs no finite number. Do the rows "
            "have gaps (NaN)?"
        )
    return found
