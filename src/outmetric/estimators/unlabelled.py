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
from outmetric.foundation import Array, check_sample_weight, n_points
from outmetric.kernels import Takes
from outmetric.rows import LandmarkMap, NeighbourGraph

# Rows up to which all become landmarks, unless a number of landmarks is asked for.
EXACT_ROWS = 2000


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


def graph_problem(estimator: Any, settings: Settings, data: PartlyLabelled) -> LandmarkProblem:
    """The problem of all rows, with their neighbour graph."""
    weights = settings.row_weights(data.weights, data.y, data.labelled)
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
