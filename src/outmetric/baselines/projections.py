"""The ITML problem: the metric nearest to a given one that keeps similar pairs near and dissimilar ones apart.

    minimise over A and xi   D(A, A_0) + gamma sum_c D(xi_c, b_c)   subject to   s_c (v_c' A v_c - xi_c) <= 0,

with the LogDet divergence D(A, A_0) = tr(A A_0^-1) - log det(A A_0^-1) - d, differences v_c, signs s_c (1 for similar pairs, -1 for
dissimilar ones), bounds b_c and their relaxations xi_c (Davis et al. 2007). At the optimum, with multipliers lambda_c >= 0,

    A^-1 = A_0^-1 + sum_c s_c lambda_c v_c v_c',      1 / xi_c = 1 / b_c - s_c lambda_c / gamma,

and the multipliers maximise the concave dual, whose gradient is s_c (v_c' A v_c - xi_c):

    log det(A_0 A^-1) + gamma sum_c log(b_c / xi_c)      over lambda >= 0.

A Bregman projection on one constraint is the exact maximisation over its multiplier. Where many constraints pull against each
other, sweeps of projections need thousands of rounds; a Newton step on all multipliers between the sweeps makes it a dozen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.spatial.distance import pdist
from sklearn.utils import gen_batches

from outmetric.baselines.hinges import squared_distances
from outmetric.foundation import Array, storable
from outmetric.solvers import IllConditionedError, Status

# Constraints whose products with the metric are computed together.
BLOCK = 32
# Newton steps cost the cube of the number of positive multipliers: beyond this many, sweeps have to do without.
NEWTON = 3000
# Lengths tried for a Newton step.
HALVINGS = tuple(0.5**k for k in range(8))
# Percentiles of distances are those of all pairs up to this many points, of as many pairs drawn at random beyond.
PERCENTILE_POINTS = 1500
# Pairs whose random numbers are held at once.
DRAWN = 2**20


@dataclass(frozen=True, eq=False)
class Constraints:
    """Differences v_c (c, d), signs s_c (c,) and bounds b_c (c,) on squared distances."""

    differences: Array
    signs: Array
    bounds: Array


@storable("Sweep")
@dataclass(frozen=True)
class Sweep:
    """One projection on each constraint; ``correction`` is the largest one of a squared distance in it, relatively."""

    iteration: int
    correction: float
    divergence: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Projected:
    """The metric A = L'L by its factor L (d, d), the multipliers, the relaxed bounds and the history."""

    factor: Array
    multipliers: Array
    relaxed_bounds: Array
    history: tuple[Sweep, ...]
    status: Status


def project(
    constraints: Constraints,
    prior_factor: Array,
    *,
    gamma: float,
    tol: float,
    max_iter: int,
    on_sweep: Callable[[Sweep], None] = lambda sweep: None,
) -> Projected:
    """Project on one constraint after the other until no sweep corrects a distance by more than ``tol``, relatively.

    Parameters
    ----------
    constraints : Constraints
    prior_factor : array of shape (d, d)
        L_0, for A_0 = L_0'L_0.
    gamma : float
        Weight of the relaxation; infinity for none.
    """
    began = time.perf_counter()
    basis, V = _span(constraints.differences @ prior_factor.T)
    dual = _Dual(V, constraints.signs, constraints.bounds, gamma)
    multipliers, A = np.zeros(len(V)), np.eye(V.shape[1])
    history: list[Sweep] = []
    status = Status.ITERATION_LIMIT
    while len(history) < max_iter:
        try:
            swept, correction = _sweep(dual, multipliers, A)
            swept = dual.newton_step(swept)
            # Afresh from the multipliers, so that round-off does not add up from sweep to sweep.
            A, divergence = dual.metric(swept)
        except np.linalg.LinAlgError:
            status = Status.STALLED
            break
        multipliers = swept
        history.append(Sweep(len(history) + 1, correction, divergence, time.perf_counter() - began))
        on_sweep(history[-1])
        if correction <= tol:
            status = Status.CONVERGED
            break
    relaxed = 1 / dual.inverse_bounds(multipliers)
    return Projected(_factor(A, basis) @ prior_factor, multipliers, relaxed, tuple(history), status)


def _sweep(dual: _Dual, multipliers: Array, A: Array) -> tuple[Array, float]:
    """Multipliers after a projection on each constraint, and the largest relative correction."""
    multipliers, correction = multipliers.copy(), 0.0
    for part in gen_batches(len(multipliers), BLOCK):
        images = A @ dual.V[part].T
        distances = dual.V[part] @ images
        inverse = dual.inverse_bounds(multipliers, part)
        changes, largest = _project_block(distances, dual.signs[part].tolist(), multipliers[part], inverse, dual.gamma)
        correction = max(correction, largest)
        multipliers[part] += changes
        A = _updated(A, images, distances, dual.signs[part] * changes)
    return multipliers, correction


def _project_block(
    distances: Array, signs: list[float], multipliers: Array, inverse_bounds: Array, gamma: float
) -> tuple[Array, float]:
    """Project on each constraint of a block in turn, keeping up to date only the v_a' A v_b among them.

    Returns the changes of the multipliers, and the largest relative correction of a squared distance.
    """
    products = distances.copy()
    changes = np.zeros(len(signs))
    share = 1 / (1 + 1 / gamma)
    largest = 0.0
    for c, (sign, multiplier, inverse) in enumerate(zip(signs, multipliers.tolist(), inverse_bounds.tolist(), strict=True)):
        distance = float(products[c, c])
        if not 0 < distance < np.inf:
            raise IllConditionedError(f"round-off leaves a squared distance of {distance:.3g}")
        step = min(multiplier, sign * share * (1 / distance - inverse))
        if step != 0:
            changes[c] = -step
            largest = max(largest, abs(step) * distance)
            remainder = 1 - sign * step * distance
            if not remainder > 0:
                raise IllConditionedError("a projection changes a distance beyond double precision")
            column = products[c + 1 :, c].copy()
            products[c + 1 :, c + 1 :] += np.outer(column, sign * step / remainder * column)
    return changes, largest


def _updated(A: Array, images: Array, distances: Array, weights: Array) -> Array:
    """(A^-1 + sum_c w_c v_c v_c')^-1 from the images A v_c and the distances v_a' A v_b."""
    moved = weights != 0
    if not moved.any():
        return A
    images, distances = images[:, moved], distances[np.ix_(moved, moved)]
    capacity = distances + np.diag(1 / weights[moved])
    return np.asarray(A - images @ np.linalg.solve(capacity, images.T))


@dataclass(frozen=True, eq=False)
class _Dual:
    """The dual as a function of the multipliers, for the prior I."""

    V: Array
    signs: Array
    bounds: Array
    gamma: float

    def inverse_bounds(self, multipliers: Array, part: slice = slice(None)) -> Array:
        """1 / xi for a part of the constraints."""
        return np.asarray(1 / self.bounds[part] - self.signs[part] * multipliers[part] / self.gamma)

    def metric(self, multipliers: Array) -> tuple[Array, float]:
        """A, and its divergence from I."""
        factor = self._factor(multipliers)
        A = scipy.linalg.cho_solve(factor, np.eye(self.V.shape[1]))
        A = (A + A.T) / 2
        return A, float(np.trace(A) + _log_determinant(factor) - len(A))

    def value(self, multipliers: Array) -> float:
        """The dual objective; minus infinity outside of its domain."""
        inverse = self.inverse_bounds(multipliers)
        if not inverse.min() > 0:
            return -np.inf
        try:
            first = _log_determinant(self._factor(multipliers))
        except IllConditionedError:
            return -np.inf
        if np.isinf(self.gamma):
            return first - float(np.sum(self.signs * multipliers * self.bounds))
        return first + self.gamma * float(np.sum(np.log(self.bounds * inverse)))

    def newton_step(self, multipliers: Array) -> Array:
        """Multipliers with a dual objective that is not lower, by a Newton step on those that are not held at zero.

        The step maximises the quadratic model of the dual; multipliers that it would make negative are sent to zero, and the others
        moved to where the model is best then, until all are positive or zero.
        """
        A, _ = self.metric(multipliers)
        images = self.V @ A
        relaxed = 1 / self.inverse_bounds(multipliers)
        gradient = self.signs * (np.einsum("ij,ij->i", images, self.V) - relaxed)
        free = np.flatnonzero((multipliers > 0) | (gradient > 0))
        if not 0 < len(free) <= NEWTON:
            return multipliers
        signs = self.signs[free]
        curvature = (images[free] @ self.V[free].T) ** 2 * np.outer(signs, signs)
        curvature[np.diag_indices_from(curvature)] *= 1 + 1e-10  # equal differences make it singular without relaxation
        curvature[np.diag_indices_from(curvature)] += relaxed[free] ** 2 / self.gamma
        step = -multipliers[free]
        inside = np.ones(len(free), dtype=bool)
        while inside.any():
            pulled = gradient[free][inside] - curvature[np.ix_(inside, ~inside)] @ step[~inside]
            try:
                step[inside] = scipy.linalg.cho_solve(scipy.linalg.cho_factor(curvature[np.ix_(inside, inside)]), pulled)
            except np.linalg.LinAlgError:
                return multipliers
            negative = inside & (multipliers[free] + step < 0)
            if not negative.any():
                break
            step[negative] = -multipliers[free][negative]
            inside &= ~negative
        before = self.value(multipliers)
        for length in HALVINGS:
            after = multipliers.copy()
            after[free] = np.maximum(after[free] + length * step, 0)  # against round-off
            if self.value(after) > before:
                return after
        return multipliers

    def _factor(self, multipliers: Array) -> tuple[Array, bool]:
        """Cholesky factor of A^-1."""
        try:
            weights = self.signs * multipliers
            return scipy.linalg.cho_factor(np.eye(self.V.shape[1]) + self.V.T @ (weights[:, None] * self.V), lower=True)
        except np.linalg.LinAlgError as error:
            raise IllConditionedError("round-off leaves the inverse of the metric indefinite") from error


def _log_determinant(factor: tuple[Array, bool]) -> float:
    return 2 * float(np.sum(np.log(np.diag(factor[0]))))


def _span(V: Array) -> tuple[Array | None, Array]:
    """An orthonormal basis of what the differences span and their coordinates in it, if they are fewer than the dimensions."""
    if len(V) >= V.shape[1]:
        return None, V
    basis, triangle = scipy.linalg.qr(V.T, mode="economic")
    return basis, triangle.T


def _factor(A: Array, basis: Array | None) -> Array:
    """A symmetric root of the metric, which outside of the span of all differences is the prior's."""
    values, vectors = scipy.linalg.eigh(A)
    root = (vectors * np.sqrt(values)) @ vectors.T
    if basis is None:
        return np.asarray(root)
    return np.asarray(np.eye(len(basis)) + basis @ (root - np.eye(len(root))) @ basis.T)


def sample_pairs(labels: Array, count: int, rng: np.random.Generator, weights: Array | None = None) -> tuple[Array, Array]:
    """Up to ``count`` pairs of points with the same label and as many with different ones, each pair once.

    Parameters
    ----------
    labels : array of shape (n,)
    count : int
    rng : Generator
    weights : array of shape (n,), optional
        Positive numbers: among those that were not drawn yet, a pair is drawn with a probability proportional to the product of
        the weights of its points. Takes a random number for each of the n (n - 1) / 2 pairs.

    Returns
    -------
    similar, dissimilar : arrays of shape (pairs, 2)
        Indices of points.
    """
    if weights is not None and np.ptp(weights) > 0:
        return _sample_weighted_pairs(labels, count, rng, weights)
    order = np.argsort(labels, kind="stable")
    sizes = np.unique(labels, return_counts=True)[1]
    starts = np.cumsum(sizes) - sizes
    classes = np.arange(len(sizes))
    first, second = np.triu_indices(len(sizes), 1)
    # Pairs are numbered class by class (pair of classes by pair of classes), drawn by number, and decoded.
    within, drawn = _draw(sizes * (sizes - 1) // 2, count, rng)
    larger = ((1 + np.sqrt(8 * drawn + 1)) / 2).astype(int)  # in the order (1, 0), (2, 0), (2, 1), (3, 0), ...
    similar = starts[classes[within], None] + np.stack([larger, drawn - larger * (larger - 1) // 2], axis=1)
    between, drawn = _draw(sizes[first] * sizes[second], count, rng)
    some, other = np.divmod(drawn, sizes[second[between]])
    dissimilar = np.stack([starts[first[between]] + some, starts[second[between]] + other], axis=1)
    return order[similar], order[dissimilar]


def _draw(sizes: Array, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Up to ``count`` distinct elements of groups of these sizes: (group, number within the group)."""
    ends = np.cumsum(sizes)
    drawn = rng.choice(int(ends[-1]), min(count, int(ends[-1])), replace=False)
    groups = np.searchsorted(ends, drawn, side="right")
    return groups, drawn - (ends - sizes)[groups]


def _sample_weighted_pairs(labels: Array, count: int, rng: np.random.Generator, weights: Array) -> tuple[Array, Array]:
    """The pairs with the smallest E / (w_i w_j), for exponential random numbers E (Efraimidis & Spirakis 2006).

    The smallest of these belongs to a pair with a probability proportional to w_i w_j; the next does so among the others.
    """
    n, logarithms = len(labels), np.log(weights)
    kinds = (True, False)
    best = {alike: (np.empty((0, 2), dtype=int), np.empty(0)) for alike in kinds}
    for block in gen_batches(n, max(1, DRAWN // n)):
        rows, others = np.nonzero(np.arange(block.start, block.stop)[:, None] > np.arange(n))
        rows += block.start
        keys = np.log(rng.standard_exponential(len(rows))) - logarithms[rows] - logarithms[others]
        same = labels[rows] == labels[others]
        for alike in kinds:
            found, smallest = best[alike]
            last = smallest[-1] if len(smallest) == count else np.inf
            new = np.flatnonzero((same == alike) & (keys <= last))
            values = np.concatenate([smallest, keys[new]])
            pairs = np.concatenate([found, np.stack([rows[new], others[new]], axis=1)])
            first = np.argsort(values, kind="stable")[:count]
            best[alike] = pairs[first], values[first]
    return best[True][0], best[False][0]


def distance_percentiles(X: Array, percentiles: tuple[float, float], rng: np.random.Generator) -> Array:
    """Percentiles of the squared distances between points that do not coincide."""
    if len(X) <= PERCENTILE_POINTS:
        distances = pdist(X, "sqeuclidean")
    else:
        pairs = rng.integers(len(X), size=(PERCENTILE_POINTS * (PERCENTILE_POINTS - 1) // 2, 2))
        distances = squared_distances(X, pairs[:, 0], pairs[:, 1])
    distances = distances[distances > 0]
    if not len(distances) or not np.isfinite(distances).all():
        raise ValueError("there is no distance to take bounds from: all training points coincide, or distances overflow.")
    return np.percentile(distances, percentiles)
