"""The LMNN problem: target neighbours are pulled near, and points of other classes pushed out of a margin around them.

    minimise over L   (1 - mu) sum_(i,j) d_ij + mu sum_(i,j) sum_l [1 + d_ij - d_il]_+ ,      d_ij = |L (x_i - x_j)|^2,

where j runs over the target neighbours of i and l over the points of other classes (Weinberger & Saul 2009): the loss of
`outmetric.baselines.hinges`, with all triplets (i, j, l) as comparisons, of which no list is made. With weights w_i of points, the
terms of i are multiplied by w_i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.spatial
from sklearn.utils import gen_batches

from outmetric.baselines.hinges import COINCIDENT, HingeLoss, HingeSums, rounded_hinge, squared_distances
from outmetric.foundation import Array, storable

# Distances held at once.
BLOCK = 2**18
# Pairs remembered as possible impostors; those beyond are sought again at each evaluation.
REMEMBERED = 2**23
# Where more than this share of all pairs are near, finding them anew is faster than following a list.
DENSE = 0.03
# Pairs are remembered up to this much beyond the margin, relative to its radius: with more, many are followed in vain; with less,
# the list is outdated sooner.
SKIN = 0.1
# |x|^2 - 2 x'z + |z|^2 is wrong by less than this times the largest |x|^2.
CANCELLATION = 16 * np.finfo(float).eps


def target_neighbours(X: Array, labels: Array, count: int) -> Array:
    """The nearest points of the same class, by index, shape (n, count); -1 where the class has no more."""
    neighbours = np.full((len(X), count), -1)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        available = min(count, len(members) - 1)
        points = X[members] - X[members].mean(axis=0)
        norms = np.einsum("ij,ij->i", points, points)
        for part in _row_blocks(len(members)) if available else ():
            own = np.arange(part.start, part.stop)
            distances = norms - 2 * points[part] @ points.T + norms[part, None]
            distances[own - part.start, own] = np.inf
            # A few more than needed, put in order by distance and then by index.
            some = min(available + 8, len(members) - 1)
            near = np.sort(np.argpartition(distances, some - 1, axis=1)[:, :some], axis=1)
            found = np.take_along_axis(distances, near, axis=1)
            order = np.argsort(found, axis=1, kind="stable")[:, :available]
            nearest = np.take_along_axis(near, order, axis=1)
            if CANCELLATION * norms.max() > 1e-8 * np.median(np.take_along_axis(found, order[:, -1:], axis=1)):
                nearest = _exact_neighbours(points, own, available)
            neighbours[members[part], :available] = members[nearest]
    return neighbours


def _exact_neighbours(points: Array, own: Array, count: int) -> Array:
    """The same by differences of coordinates: slower, but exact where groups of points are far apart."""
    found = np.atleast_2d(scipy.spatial.cKDTree(points).query(points[own], count + 1)[1])
    itself = found == own[:, None]
    itself[~itself.any(axis=1), -1] = True  # hidden behind points that coincide with it
    return np.asarray(found[~itself].reshape(len(own), count))


class ImpostorSearch:
    """Finds all pairs of points from different classes that are nearer than the first one's radius.

    Pairs a little further apart are remembered. A distance changes by no more than its two points have moved: the memory of point
    i stays complete while sqrt(radius_i) + moved_i + max moved is at most the distance up to which it was made. So the result is
    exact, whatever is remembered, and while the points move slowly it costs a multiple of the number of pairs, not n^2.

    Parameters
    ----------
    labels : array of shape (n,)
        Class indices in ascending order, so that a class is a slice.
    """

    def __init__(self, labels: Array) -> None:
        starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
        self._classes = [slice(a, b) for a, b in zip(starts, [*starts[1:], len(labels)], strict=True)]
        self._blocks = _row_blocks(len(labels))
        self._memory: list[tuple[Array, Array] | None] = [None] * len(self._blocks)
        self._made_at: Array | None = None
        self._reach = np.zeros(len(labels))
        self.searches = 0

    def pairs(self, Z: Array, radii: Array) -> Iterator[tuple[slice, Array, Array, Array]]:
        """All pairs with squared distance < radii[row]: for blocks of rows, (block, rows ascending, columns, squared distances)."""
        remember = self._is_outdated(Z, radii)
        if remember:
            self._memory = [None] * len(self._blocks)
            self._made_at, self._reach = Z, (1 + SKIN) * np.sqrt(radii)
            self.searches += 1
        norms = np.einsum("ij,ij->i", Z, Z)
        error = CANCELLATION * norms.max()
        room = REMEMBERED
        for index, block in enumerate(self._blocks):
            known = self._memory[index]
            if known is not None:
                rows, columns = known
                distances = squared_distances(Z, rows, columns)
            else:
                table = Z[block] @ (-2 * Z.T)
                table += norms
                table += norms[block, None]
                self._leave_out_own_class(table, block)
                reach = self._reach[block, None] ** 2 if remember else radii[block, None]
                rows, columns = np.nonzero(table < reach + error)
                distances = table[rows, columns]
                rows += block.start
                if error > 1e-9:  # of a margin
                    distances = squared_distances(Z, rows, columns)
                if remember and len(rows) <= min(room, DENSE * table.size):
                    room -= len(rows)
                    self._memory[index] = rows, columns
            near = distances < radii[rows]
            yield block, rows[near], columns[near], distances[near]

    def _is_outdated(self, Z: Array, radii: Array) -> bool:
        if self._made_at is None or Z.shape != self._made_at.shape:
            return True
        moved = np.linalg.norm(Z - self._made_at, axis=1)
        outgrown = np.sqrt(radii) + moved + moved.max() > self._reach
        return bool(np.any(outgrown & (radii > 0)))  # points without targets have no margin

    def _leave_out_own_class(self, table: Array, block: slice) -> None:
        for members in self._classes:
            rows = slice(max(members.start - block.start, 0), max(members.stop - block.start, 0))
            table[rows, members] = np.inf


class Margins(HingeLoss):
    """The objective as a function of L, with bounded memory.

    Parameters
    ----------
    X : array of shape (n, d)
    labels : array of shape (n,)
        Class indices.
    targets : array of shape (n, k)
        Target neighbours by index, -1 for none.
    push_weight : float
        mu.
    weights : array of shape (n,), optional
        w_i, positive.
    """

    def __init__(self, X: Array, labels: Array, targets: Array, push_weight: float, weights: Array | None = None) -> None:
        order = np.argsort(labels, kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        own = None if weights is None else weights[order]
        super().__init__(X[order], push_weight, None if own is None else np.repeat(own[:, None], targets.shape[1], axis=1))
        self._weights = own
        self._present = targets[order] >= 0
        # A loop stands for a target that is not there: it contributes nothing.
        self._targets = np.where(self._present, position[targets[order]], np.arange(len(X))[:, None])
        self._search = ImpostorSearch(labels[order])

    @property
    def n_targets(self) -> float:
        return float(np.count_nonzero(self._present) if self.target_weights is None else self.target_weights[self._present].sum())

    def _target_differences(self) -> Iterator[tuple[Array, Any]]:
        for place, column in enumerate(self._targets.T):
            yield self.X - self.X[column], (slice(None), place)

    def _sum(self, Z: Array, rounding: float, vectors: Array, places: Array | None = None) -> HingeSums:
        n, mu = len(Z), self.push_weight
        pulled = np.stack([squared_distances(Z, np.arange(n), column) for column in self._targets.T], axis=1)
        edges = np.where(self._present, 1 + pulled, -np.inf)
        radii = np.maximum(edges.max(axis=1) + rounding / 2, 0)
        own = self._weights
        objective = rounded = (1 - mu) * float(pulled.sum() if own is None else own @ pulled.sum(axis=1))
        target_slopes, degrees, attraction = np.zeros_like(pulled), np.zeros(n), np.zeros_like(vectors)
        active = 0
        for block, rows, columns, distances in self._search.pairs(Z, radii):
            if places is not None:
                together = squared_distances(places, rows, columns) <= COINCIDENT
                rows, columns, distances = rows[together], columns[together], distances[together]
            importance = 1.0 if own is None else own[rows]
            weights = np.zeros(len(rows))
            for column, edge in enumerate(edges.T):
                violation = edge[rows] - distances
                slope, loss = rounded_hinge(violation, rounding)
                slope = importance * slope
                objective += mu * float(np.sum(importance * np.maximum(violation, 0)))
                rounded += mu * float(np.sum(importance * loss))
                active += int(np.count_nonzero(violation > 0))
                target_slopes[:, column] += np.bincount(rows, slope, minlength=n)
                weights += slope
            starts = np.searchsorted(rows, np.arange(block.start, block.stop + 1))
            graph = scipy.sparse.csr_array((weights, columns, starts), shape=(block.stop - block.start, n))
            degrees += np.bincount(rows, weights, minlength=n) + np.bincount(columns, weights, minlength=n)
            attraction[block] += graph @ vectors
            attraction += graph.T @ vectors[block]
        return HingeSums(objective, rounded, active, target_slopes, degrees[:, None] * vectors - attraction)

    def _target_laplacian(self, vectors: Array, weights: Array) -> Array:
        n, k = self._targets.shape
        graph = scipy.sparse.csr_array((weights.ravel(), self._targets.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
        degrees = weights.sum(axis=1) + np.bincount(self._targets.ravel(), weights.ravel(), minlength=n)
        return np.asarray(degrees[:, None] * vectors - graph @ vectors - graph.T @ vectors)


@storable("MarginRecord")
@dataclass(frozen=True)
class MarginRecord:
    """One iteration: the published objective, the one with kinks rounded over ``rounding``, and the steepness of the latter."""

    iteration: int
    objective: float
    rounded: float
    rounding: float
    steepness: float
    active: int
    seconds: float


Record = MarginRecord  # its name in pickles of version 0.1


def _row_blocks(n: int) -> list[slice]:
    return list(gen_batches(n, max(1, BLOCK // n)))
