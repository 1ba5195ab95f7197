"""A second axis for models of one learned coordinate: what varies most among the rows beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outmetric.estimators import OutputMetric
from outmetric.foundation import Array, storable, to_array
from outmetric.layouts.fitted import Fitted

# Points with which rows are compared if they have no features of their own.
POINTS = 500
# The spread of the axis, beside that of the learned coordinate: the first thing to be seen is what was learned.
SHARE = 0.5


@storable("Beside")
@dataclass(frozen=True, eq=False)
class Beside:
    """Principal components of the rows' features, or of their kernel values if they have none, without the learned coordinates.

    Labels have no part in them, so that they cannot show what is not there.

    Parameters
    ----------
    points : array or None
        Row numbers of the model's points with which rows are compared; None: rows have features.
    centre, scale : arrays of shape (p,)
        Of the features, or kernel values.
    slopes : array of shape (1 + m, p)
        Of these in the learned coordinates.
    directions : array of shape (p, r)
    """

    points: Array | None
    centre: Array = field(repr=False)
    scale: Array = field(repr=False)
    slopes: Array = field(repr=False)
    directions: Array = field(repr=False)

    @classmethod
    def learn(cls, fitted: Fitted, X: Any, coordinates: Array, count: int, seed: int) -> Beside | None:
        """So many components; None if none are wanted."""
        if count < 1:
            return None
        points = None
        if _features(fitted, X) is None:
            n = len(_model(fitted).coefficients)
            points = np.sort(np.random.default_rng(seed).permutation(n)[:POINTS])
        values = _values(fitted, X, points)
        centre, scale = values.mean(axis=0), values.std(axis=0)
        scale[scale == 0] = 1.0
        values = (values - centre) / scale
        known = _with_ones(coordinates)
        slopes = np.linalg.lstsq(known, values, rcond=None)[0]
        rest = values - known @ slopes
        _, sizes, turned = np.linalg.svd(rest, full_matrices=False)
        directions = np.zeros((values.shape[1], count))
        found = min(count, int(np.sum(sizes > 1e-10 * max(sizes[0], 1e-300))))
        spread = float(coordinates.std(axis=0).max())
        directions[:, :found] = SHARE * spread * np.sqrt(len(values)) * turned[:found].T / sizes[:found]
        # A direction has no sign of its own.
        largest = np.abs(directions).argmax(axis=0)
        directions *= np.where(directions[largest, range(count)] < 0, -1, 1)
        return cls(points, centre, scale, slopes, directions)

    def of(self, fitted: Fitted, X: Any, coordinates: Array) -> Array:
        """The components of rows with these learned coordinates, (n, r)."""
        values = (_values(fitted, X, self.points) - self.centre) / self.scale
        return np.asarray((values - _with_ones(coordinates) @ self.slopes) @ self.directions)


def _values(fitted: Fitted, X: Any, points: Array | None) -> Array:
    if points is None:
        found = _features(fitted, X)
        assert found is not None, "rows of a model have features, or none has"
        return found
    metric = _model(fitted)
    return np.asarray(to_array(metric.kernel.scalars[0].cross(fitted.prepared(X), metric.points))[:, points])


def _model(fitted: Fitted) -> OutputMetric:
    metric = fitted.metric.metric_
    assert isinstance(metric, OutputMetric), "linear metrics take features"
    return metric


def _features(fitted: Fitted, X: Any) -> Array | None:
    """The numbers that the metric gets; None for objects, strings and precomputed kernels."""
    metric = fitted.metric.metric_
    if isinstance(metric, OutputMetric) and metric.kernel.takes not in ("arrays", "sparse"):
        return None
    return to_array(fitted.prepared(X)).astype(np.float64)


def _with_ones(coordinates: Array) -> Array:
    return np.column_stack([np.ones(len(coordinates)), coordinates])
