"""The LMNN problem: target neighbours are pulled near, and points of other classes pushed out of a margin around them.

    minimise over L   (1 - mu) sum_(i,j) d_ij + mu sum_(i,j) sum_l [1 + d_ij - d_il]_+ ,      d_ij = |L (x_i - x_j)|^2,

where j runs over the target neighbours of i and l over the points of other classes (Weinberger & Saul 2009). In M = L'L this is
convex with the dual

    maximise   sum_t alpha_t    subject to   0 <= alpha_t <= mu,   (1 - mu) P + sum_t alpha_t D_t >= 0,

with the scatter P of all target differences and D_t = (x_i - x_j)(x_i - x_j)' - (x_i - x_l)(x_i - x_l)' for a triplet t. The hinge
has kinks just where the optimum lies, so that its gradient does not vanish there. It is therefore minimised with rounded kinks, and
the slopes of the rounded hinge are the alpha_t that bound the optimum of the unrounded one from below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.spatial
from sklearn.utils import gen_batches

from outmetric.foundation import Array, storable

# Distances, or differences of coordinates, held at once.
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
# Squared distances up to this are round-off, where points have unit variance.
COINCIDENT = 1e-20


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


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The objective at some L: as published, and with rounded kinks, the latter with its gradient."""

    objective: float
    rounded: float
    gradient: Array
    active: int

    def steepness(self, L: Array) -> float:
        """|gradient| |L| / objective: how far from stationary, whatever the units of the data."""
        return float(np.linalg.norm(self.gradient) * np.linalg.norm(L) / max(self.rounded, np.finfo(float).tiny))


class Margins:
    """The objective as a function of L, with bounded memory.

    An edge of weight w between points a and b contributes w |L (x_a - x_b)|^2. So the gradient is 2 (W X L')' X with the Laplacian
    W of a sparse graph: no d x d matrix is formed for any pair, and no list of triplets.

    L is taken in the coordinates ``X`` in which the points have unit variance in every direction that they span. The problem does
    not depend on the coordinates, but descent methods do: this makes them several times faster.

    Parameters
    ----------
    X : array of shape (n, d)
    labels : array of shape (n,)
        Class indices.
    targets : array of shape (n, k)
        Target neighbours by index, -1 for none.
    push_weight : float
        mu.
    """

    def __init__(self, X: Array, labels: Array, targets: Array, push_weight: float) -> None:
        order = np.argsort(labels, kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        centred = X[order] - X.mean(axis=0)
        units = np.sqrt(np.einsum("ij,ij->j", centred, centred))
        units[units <= len(X) * np.finfo(float).eps * np.abs(X).max(axis=0)] = np.inf  # constant up to round-off
        left, singular, right = scipy.linalg.svd(centred / units, full_matrices=False)
        spanned = singular > singular[0] * max(X.shape) * np.finfo(float).eps
        if not spanned.any():
            raise ValueError("all training points coincide; there is nothing to learn from.")
        self.X = left[:, spanned] * np.sqrt(len(X))
        self._deviations = singular[spanned] / np.sqrt(len(X))
        self._directions, self._units = right[spanned], units
        self.push_weight = push_weight
        self._present = targets[order] >= 0
        # A loop stands for a target that is not there: it contributes nothing.
        self._targets = np.where(self._present, position[targets[order]], np.arange(len(X))[:, None])
        self._search = ImpostorSearch(labels[order])

    @property
    def n_targets(self) -> int:
        return int(np.count_nonzero(self._present))

    def inner(self, factor: Array) -> Array:
        """L for the coordinates ``X``, from L for the data."""
        finite = np.isfinite(self._units)
        return np.asarray((factor[:, finite] * self._units[finite]) @ self._directions[:, finite].T * self._deviations)

    def outer(self, L: Array, start: Array) -> Array:
        """L for the data, from that for the coordinates ``X``; as ``start`` on directions that the data do not span."""
        return np.asarray(start + ((L - self.inner(start)) / self._deviations) @ self._directions / self._units)

    def evaluate(self, L: Array, rounding: float = 0.0) -> Evaluation:
        """The objective with kinks rounded over a width of ``rounding``."""
        Z = self.X @ L.T
        sums = self._sum(Z, rounding, Z)
        pull = self._target_laplacian(Z, 1 - self.push_weight + self.push_weight * sums.target_slopes)
        forces = pull - self.push_weight * sums.repulsion
        return Evaluation(sums.objective, sums.rounded, 2 * forces.T @ self.X, sums.active)

    def lower_bound(self, L: Array, rounding: float) -> float:
        """A bound from below on the objective of every metric, best where L minimises the objective with this rounding."""
        return self.certify(L, rounding).bound

    def certify(self, L: Array, rounding: float) -> Certificate:
        """How far from the optimum over all metrics L can be.

        The slopes of the hinges, times mu, are in the box of the dual. With the pull P and the slopes' sum Q of D_t, they are
        feasible once scaled by the largest s <= 1 for which P + s Q >= 0, and the dual objective is s times their sum.

        A direction v in which all targets coincide asks for -sum_t alpha_t (v'(x_i - x_l))^2 >= 0: triplets whose impostor differs
        from i in such a direction must have the slope zero. The bound is zero if targets coincide in v up to a little more than
        round-off: then no s > 0 can be trusted.
        """
        Z, pull = self.X @ L.T, self._pull
        sums = allowed = self._sum(Z, rounding, self.X)
        push = self._push(sums)
        gradient = pull.matrix + push
        if pull.coincident is not None:
            allowed = self._sum(Z, rounding, self.X, pull.coincident)
            push = self._push(allowed)
        steepest = np.linalg.eigvalsh(-pull.units.T @ push @ pull.units).max(initial=1.0) if pull.is_exact else np.inf
        bound = self.push_weight * allowed.target_slopes.sum()
        # With slopes q, the rounded objective is <P + Q, M> + mu sum_t (q_t + h/2 q_t (1 - q_t)), the last being that of its dual.
        rounded_bound = allowed.rounded - np.sum((L @ (pull.matrix + push)) * L)
        return Certificate(sums.objective, sums.rounded, float(bound / steepest), float(rounded_bound / steepest), gradient)

    @cached_property
    def _pull(self) -> _Pull:
        X = self.X
        matrix = np.zeros((X.shape[1], X.shape[1]))
        for column in self._targets.T:
            differences = X - X[column]
            matrix += (1 - self.push_weight) * differences.T @ differences
        values, vectors = scipy.linalg.eigh(matrix)
        regular = values > 1e-12 * values[-1]
        units = vectors[:, regular] / np.sqrt(values[regular])
        if regular.all():
            return _Pull(matrix, units, None, True)
        others = X @ vectors[:, ~regular]
        furthest = max(squared_distances(others, np.arange(len(X)), column).max() for column in self._targets.T)
        return _Pull(matrix, units, others, bool(furthest <= COINCIDENT))

    def _push(self, sums: _Sums) -> Array:
        """Q, the sum of mu slope_t D_t, from sums with the points as vectors."""
        push = -self.X.T @ sums.repulsion
        for column, slopes in zip(self._targets.T, sums.target_slopes.T, strict=True):
            differences = self.X - self.X[column]
            push += differences.T @ (slopes[:, None] * differences)
        return np.asarray(self.push_weight * (push + push.T) / 2)

    def _sum(self, Z: Array, rounding: float, vectors: Array, places: Array | None = None) -> _Sums:
        """The sums over all triplets, for the points mapped to Z; with ``places``, those with the impostor at the same place."""
        n, mu = len(Z), self.push_weight
        pulled = np.stack([squared_distances(Z, np.arange(n), column) for column in self._targets.T], axis=1)
        edges = np.where(self._present, 1 + pulled, -np.inf)
        radii = np.maximum(edges.max(axis=1) + rounding / 2, 0)
        objective = rounded = (1 - mu) * float(pulled.sum())
        target_slopes, degrees, attraction = np.zeros_like(pulled), np.zeros(n), np.zeros_like(vectors)
        active = 0
        for block, rows, columns, distances in self._search.pairs(Z, radii):
            if places is not None:
                together = squared_distances(places, rows, columns) <= COINCIDENT
                rows, columns, distances = rows[together], columns[together], distances[together]
            weights = np.zeros(len(rows))
            for column, edge in enumerate(edges.T):
                violation = edge[rows] - distances
                slope, loss = _rounded_hinge(violation, rounding)
                objective += mu * float(np.maximum(violation, 0).sum())
                rounded += mu * float(loss.sum())
                active += int(np.count_nonzero(violation > 0))
                target_slopes[:, column] += np.bincount(rows, slope, minlength=n)
                weights += slope
            starts = np.searchsorted(rows, np.arange(block.start, block.stop + 1))
            graph = scipy.sparse.csr_array((weights, columns, starts), shape=(block.stop - block.start, n))
            degrees += np.bincount(rows, weights, minlength=n) + np.bincount(columns, weights, minlength=n)
            attraction[block] += graph @ vectors
            attraction += graph.T @ vectors[block]
        return _Sums(objective, rounded, active, target_slopes, degrees[:, None] * vectors - attraction)

    def _target_laplacian(self, vectors: Array, weights: Array) -> Array:
        """W times the vectors, for the graph of target neighbours with these weights."""
        n, k = self._targets.shape
        graph = scipy.sparse.csr_array((weights.ravel(), self._targets.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
        degrees = weights.sum(axis=1) + np.bincount(self._targets.ravel(), weights.ravel(), minlength=n)
        return np.asarray(degrees[:, None] * vectors - graph @ vectors - graph.T @ vectors)


@dataclass(frozen=True, eq=False)
class Certificate:
    """The objective at some L, as published and rounded, with bounds from below on those of all metrics.

    ``gradient`` is that of the rounded objective in M = L'L, of shape (d, d): L is optimal only if it has no negative eigenvalue.
    """

    objective: float
    rounded: float
    bound: float
    rounded_bound: float
    gradient: Array


@dataclass(frozen=True, eq=False)
class _Pull:
    """P, directions in which it is the identity, and the points' coordinates in those where it is zero, exactly or nearly."""

    matrix: Array
    units: Array
    coincident: Array | None
    is_exact: bool


@dataclass(frozen=True, eq=False)
class _Sums:
    """``target_slopes[i, j]`` is the hinges' slope summed over impostors; ``repulsion`` the impostors' Laplacian times vectors."""

    objective: float
    rounded: float
    active: int
    target_slopes: Array
    repulsion: Array


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


def squared_distances(Z: Array, rows: Array, columns: Array) -> Array:
    """|Z[i] - Z[l]|^2 for each pair (i, l), shape (pairs,)."""
    distances = np.empty(len(rows))
    step = max(1, BLOCK // max(1, Z.shape[1]))
    for start in range(0, len(rows), step):  # there may be none, which `gen_batches` refuses
        part = slice(start, start + step)
        differences = Z[rows[part]] - Z[columns[part]]
        distances[part] = np.einsum("ij,ij->i", differences, differences)
    return distances


def _rounded_hinge(violation: Array, rounding: float) -> tuple[Array, Array]:
    """(slope q, loss) of [z]_+ with its kink rounded: the largest q z + h/2 q (1 - q) over 0 <= q <= 1, above it by h/8 at most."""
    if rounding == 0:
        return (violation > 0).astype(float), np.maximum(violation, 0)
    slope = np.clip(violation / rounding + 0.5, 0, 1)
    # Where the slope is 0 so is the loss, even if the violation is -inf.
    return slope, np.where(slope > 0, slope * (np.maximum(violation, -rounding) + rounding / 2 * (1 - slope)), 0)


def _row_blocks(n: int) -> list[slice]:
    return list(gen_batches(n, max(1, BLOCK // n)))
