"""Rows without a label or target: what they look like, and fits that use them through the neighbour graph of all rows.

The map of such a fit is made of kernel functions at landmarks among all rows, labelled or not; up to some number of rows these are
all of them, and the fit is exact.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outmetric.estimators.fitting import LandmarkProblem, landmark_map
from outmetric.estimators.settings import Settings
from outmetric.estimators.streaming import with_checked_landmarks
from outmetric.foundation import Array, check_sample_weight, combined_weights, is_missing, n_points
from outmetric.kernels import Takes
from outmetric.rows import LandmarkMap, NeighbourGraph

# Rows up to which all become landmarks, unless a number of landmarks is asked for.
EXACT_ROWS = 2000


def gaps(y: Any) -> Array:
    """Which rows have no label or target: -1 among whole numbers, NaN among others, None or NaN among words and objects."""
    values = np.asarray(y)
    if values.dtype.kind in "iu":
        missing = values == -1
    elif values.dtype.kind == "f":
        missing = np.isnan(values)
    elif values.dtype.kind == "O":
        found = [is_missing(value) or (isinstance(value, int | np.integer) and value == -1) for value in values.ravel()]
        missing = np.array(found, dtype=bool).reshape(values.shape)
    else:
        return np.zeros(len(values), dtype=bool)
    if missing.ndim == 1:
        return np.asarray(missing)
    if values.dtype.kind in "iu":
        return np.asarray(missing.all(axis=1))
    partly = missing.any(axis=1) & ~missing.all(axis=1)
    if partly.any():
        raise ValueError(f"row {np.flatnonzero(partly)[0]} of y has some of its targets and lacks others; give all or none.")
    return np.asarray(missing.any(axis=1))


def without_gaps(y: Any, missing: Array) -> Array:
    """The labels or targets of the other rows, as numbers if they are such."""
    known = np.asarray(y)[~missing]
    if not len(known):
        raise ValueError("y holds no label at all: every entry says that there is none.")
    return np.array(known.tolist()) if known.dtype.kind == "O" else known


@dataclass(frozen=True, eq=False)
class PartlyLabelled:
    """Rows of which some have labels or targets.

    Attributes
    ----------
    points : all rows, checked
    takes : Takes
    missing : array of bool
        Which rows have none.
    y, labelled : of the other rows, checked
    weights : array or None
        Of the other rows.
    """

    points: Any
    takes: Takes
    missing: Array
    y: Array
    labelled: bool
    weights: Array | None

    @property
    def rows(self) -> Array:
        """Those that have."""
        return np.flatnonzero(~self.missing)

    def landmarks(self, estimator: Any, settings: Settings) -> LandmarkMap:
        """Among all rows."""
        settings = with_checked_landmarks(estimator, settings)
        if not settings.kernel.has_features:
            raise ValueError("unlabeled='graph' needs a kernel k(x, x') B or diag(k_1, ..., k_m); use unlabeled='ignore'.")
        if settings.kernel.supervised:
            resolved = settings.kernel.resolve(self.points[self.rows], settings.generator(), self.y)
            settings = replace(settings, kernel=resolved)
        n = n_points(self.points)
        if settings.n_landmarks is None and not settings.has_given_landmarks and n <= EXACT_ROWS:
            settings = replace(settings, n_landmarks=n)
        return landmark_map(settings, self.points, self.takes, labelled=self.labelled)

    def graph(self, settings: Settings, found: LandmarkMap) -> NeighbourGraph:
        """Of all rows."""
        return NeighbourGraph.of(self.points, settings.graph_neighbors, self.takes, found.kernel.scalars[0])


def partly_labelled(points: Any, takes: Takes, missing: Array, known: Array, labelled: bool, sample_weight: Any) -> PartlyLabelled:
    """With the weights of the rows that have labels; rows with weight 0 are left out, labelled or not."""
    weights = check_sample_weight(sample_weight, n_points(points))
    if weights is None:
        return PartlyLabelled(points, takes, missing, known, labelled, None)
    there = weights > 0
    if takes == "kernel values" and not there.all():
        raise ValueError("with a kernel matrix rows cannot be left out by a weight of 0; give the matrix of the others.")
    own = weights[~missing]
    return PartlyLabelled(points[there], takes, missing[there], known[own > 0], labelled, own[own > 0])


def left_out(y: Any, missing: Array, sample_weight: Any) -> tuple[Any, Any]:
    """Labels and weights for a fit that ignores rows without labels: their weights are 0, and their labels do not matter."""
    if not missing.any():
        return y, sample_weight
    known = without_gaps(y, missing)
    filled = np.repeat(known[:1], len(missing), axis=0)
    filled[~missing] = known
    weights = check_sample_weight(sample_weight, len(missing))
    return filled, np.where(missing, 0.0, 1.0 if weights is None else weights)


def graph_problem(estimator: Any, settings: Settings, data: PartlyLabelled) -> LandmarkProblem:
    """The problem of all rows, with their neighbour graph."""
    weights = combined_weights(data.weights, settings.class_weight, data.y) if data.labelled else data.weights
    targets, similarity = settings.supervise(data.y, data.labelled, weights)
    settings.kernel_for(targets.values.shape[1])  # raises if outputs and components do not match
    found = data.landmarks(estimator, settings)
    graph = data.graph(settings, found)
    unreached = int(graph.unreached(data.rows).sum())
    if unreached:
        warnings.warn(
            f"{unreached} rows are in parts of the neighbour graph without any labelled row, so that no label reaches them through "
            "it; more graph_neighbors join the parts.",
            UserWarning,
            stacklevel=4,
        )
    return LandmarkProblem(data.points, found, targets, similarity, weights, data.rows, graph)
