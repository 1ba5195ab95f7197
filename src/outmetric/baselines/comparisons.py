"""The LMNN problem on given comparisons: each asks for d(a, b) < d(c, e), by a margin, of four points that are given by row number.

    minimise over L   (1 - mu) sum_(a,b) d_ab + mu sum_t [1 + d_ab - d_ce]_+ ,

where (a, b) runs over the distinct near pairs and t over all comparisons, so that one that is given twice counts twice. A triplet
(anchor, near, far) is the comparison (anchor, near, anchor, far); with all triplets of LMNN this is LMNN.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from outmetric.baselines.hinges import BLOCK, COINCIDENT, HingeLoss, HingeSums, rounded_hinge, squared_distances
from outmetric.foundation import Array


class Comparisons(HingeLoss):
    """The objective as a function of L.

    Parameters
    ----------
    points : array of shape (n, d)
    quadruplets : array of shape (n_comparisons, 4)
        Row numbers of points: the near pair, and the far one.
    push_weight : float
        mu.
    """

    def __init__(self, points: Array, quadruplets: Array, push_weight: float) -> None:
        super().__init__(points, push_weight)
        self._near, near_of = np.unique(quadruplets[:, :2], axis=0, return_inverse=True)
        self._near_of = near_of.ravel()
        self._far = quadruplets[:, 2:]

    @property
    def n_targets(self) -> float:
        return len(self._near)

    def _sum(self, Z: Array, rounding: float, vectors: Array, places: Array | None = None) -> HingeSums:
        mu, far = self.push_weight, self._far
        pulled = squared_distances(Z, *self._near.T)
        violation = 1 + pulled[self._near_of] - squared_distances(Z, *far.T)
        if places is not None:
            violation[squared_distances(places, *far.T) > COINCIDENT] = -np.inf
        slopes, losses = rounded_hinge(violation, rounding)
        pull = (1 - mu) * float(pulled.sum())
        return HingeSums(
            objective=pull + mu * float(np.maximum(violation, 0).sum()),
            rounded=pull + mu * float(losses.sum()),
            active=int(np.count_nonzero(violation > 0)),
            target_slopes=np.bincount(self._near_of, slopes, minlength=len(self._near)),
            repulsion=_laplacian(far[slopes > 0], slopes[slopes > 0], vectors),
        )

    def _target_differences(self) -> Iterator[tuple[Array, Any]]:
        step = max(1, BLOCK // self.X.shape[1])
        for start in range(0, len(self._near), step):
            part = slice(start, start + step)
            one, other = self._near[part].T
            yield self.X[one] - self.X[other], part

    def _target_laplacian(self, vectors: Array, weights: Array) -> Array:
        return _laplacian(self._near, weights, vectors)


def _laplacian(pairs: Array, weights: Array, vectors: Array) -> Array:
    """W times the vectors, for the graph of these pairs with these weights."""
    n = len(vectors)
    one, other = pairs.T
    graph = scipy.sparse.coo_array((weights, (one, other)), shape=(n, n)).tocsr()
    degrees = np.bincount(one, weights, minlength=n) + np.bincount(other, weights, minlength=n)
    return np.asarray(degrees[:, None] * vectors - graph @ vectors - graph.T @ vectors)
