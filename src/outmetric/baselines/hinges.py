"""A sum of hinges over comparisons of distances, as a function of L: its value, its gradient, and a bound from below.

    minimise over L   (1 - mu) sum_(a,b) d_ab + mu sum_t [1 + d_ab - d_ce]_+ ,      d_ab = |L (x_a - x_b)|^2,

where each comparison t asks a target pair (a, b) to be nearer than another pair (c, e) by a margin of 1, and each target pair is
pulled together once. Target pairs may have weights, by which their distances and the hinges of their comparisons are multiplied,
and so is the bound mu of the latter's alpha_t. In M = L'L this is convex with the dual

    maximise   sum_t alpha_t    subject to   0 <= alpha_t <= mu,   (1 - mu) P + sum_t alpha_t D_t >= 0,

with the scatter P of the differences of all target pairs and D_t = (x_a - x_b)(x_a - x_b)' - (x_c - x_e)(x_c - x_e)'. The hinge has
kinks just where the optimum lies, so that its gradient does not vanish there. It is therefore minimised with rounded kinks, and the
slopes of the rounded hinge are the alpha_t that bound the optimum of the unrounded one from below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from outmetric.foundation import Array

# Differences of coordinates held at once.
BLOCK = 2**18
# Squared distances up to this are round-off, where points have unit variance.
COINCIDENT = 1e-20


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
class HingeSums:
    """Sums over all comparisons, weighted if their target pairs are.

    ``target_slopes`` has for each target pair the slopes of its hinges, summed; ``repulsion`` is the Laplacian of the other pairs,
    weighted by the slopes, times vectors.
    """

    objective: float
    rounded: float
    active: int
    target_slopes: Array
    repulsion: Array


class HingeLoss(ABC):
    """The objective as a function of L.

    An edge of weight w between points a and b contributes w |L (x_a - x_b)|^2. So the gradient is 2 (W X L')' X with the Laplacian
    W of a sparse graph: no d x d matrix is formed for any pair.

    L is taken in the coordinates ``X`` in which the points have unit variance in every direction that they span. The problem does
    not depend on the coordinates, but descent methods do: this makes them several times faster.

    Parameters
    ----------
    points : array of shape (n, d)
    push_weight : float
        mu.
    target_weights : array, optional
        Those of the target pairs, in the shape of ``target_slopes``.
    """

    def __init__(self, points: Array, push_weight: float, target_weights: Array | None = None) -> None:
        n = len(points)
        centred = points - points.mean(axis=0)
        units = np.sqrt(np.einsum("ij,ij->j", centred, centred))
        units[units <= n * np.finfo(float).eps * np.abs(points).max(axis=0)] = np.inf  # constant up to round-off
        left, singular, right = scipy.linalg.svd(centred / units, full_matrices=False)
        spanned = singular > singular[0] * max(points.shape) * np.finfo(float).eps
        if not spanned.any():
            raise ValueError("all training points coincide; there is nothing to learn from.")
        self.X = left[:, spanned] * np.sqrt(n)
        self.push_weight = push_weight
        self.target_weights = target_weights
        self._deviations = singular[spanned] / np.sqrt(n)
        self._directions, self._units = right[spanned], units

    @property
    @abstractmethod
    def n_targets(self) -> float:
        """How many target pairs there are, or what they weigh."""

    @abstractmethod
    def _sum(self, Z: Array, rounding: float, vectors: Array, places: Array | None = None) -> HingeSums:
        """The sums, for the points mapped to Z; with ``places``, of comparisons whose other pair is at the same place only."""

    @abstractmethod
    def _target_differences(self) -> Iterator[tuple[Array, Any]]:
        """The differences of target pairs in the coordinates ``X``, part by part, each with its index in ``target_slopes``."""

    @abstractmethod
    def _target_laplacian(self, vectors: Array, weights: Array) -> Array:
        """W times the vectors, for the graph of target pairs with these weights."""

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
        own = 1.0 if self.target_weights is None else self.target_weights
        pull = self._target_laplacian(Z, (1 - self.push_weight) * own + self.push_weight * sums.target_slopes)
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
        matrix = np.zeros((self.X.shape[1], self.X.shape[1]))
        for differences, place in self._target_differences():
            if self.target_weights is not None:
                differences = np.sqrt(self.target_weights[place])[:, None] * differences
            matrix += (1 - self.push_weight) * differences.T @ differences
        values, vectors = scipy.linalg.eigh(matrix)
        regular = values > 1e-12 * values[-1]
        units = vectors[:, regular] / np.sqrt(values[regular])
        if regular.all():
            return _Pull(matrix, units, None, True)
        others = vectors[:, ~regular]
        furthest = max(np.sum((part @ others) ** 2, axis=1).max() for part, _ in self._target_differences())
        return _Pull(matrix, units, self.X @ others, bool(furthest <= COINCIDENT))

    def _push(self, sums: HingeSums) -> Array:
        """Q, the sum of mu slope_t D_t, from sums with the points as vectors."""
        push = -self.X.T @ sums.repulsion
        for differences, place in self._target_differences():
            push += differences.T @ (sums.target_slopes[place][:, None] * differences)
        return np.asarray(self.push_weight * (push + push.T) / 2)


@dataclass(frozen=True, eq=False)
class _Pull:
    """P, directions in which it is the identity, and the points' coordinates in those where it is zero, exactly or nearly."""

    matrix: Array
    units: Array
    coincident: Array | None
    is_exact: bool


def squared_distances(Z: Array, rows: Array, columns: Array) -> Array:
    """|Z[i] - Z[l]|^2 for each pair (i, l), shape (pairs,)."""
    distances = np.empty(len(rows))
    step = max(1, BLOCK // max(1, Z.shape[1]))
    for start in range(0, len(rows), step):  # there may be none, which `gen_batches` refuses
        part = slice(start, start + step)
        differences = Z[rows[part]] - Z[columns[part]]
        distances[part] = np.einsum("ij,ij->i", differences, differences)
    return distances


def rounded_hinge(violation: Array, rounding: float) -> tuple[Array, Array]:
    """(slope q, loss) of [z]_+ with its kink rounded: the largest q z + h/2 q (1 - q) over 0 <= q <= 1, above it by h/8 at most."""
    if rounding == 0:
        return (violation > 0).astype(float), np.maximum(violation, 0)
    slope = np.clip(violation / rounding + 0.5, 0, 1)
    # Where the slope is 0 so is the loss, even if the violation is -inf.
    return slope, np.where(slope > 0, slope * (np.maximum(violation, -rounding) + rounding / 2 * (1 - slope)), 0)
