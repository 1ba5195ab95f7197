"""Why rows are near or far: a learned squared distance, attributed to the features.

With g the learned coordinates and x(t) = x' + t (x - x'), feature f contributes to |g(x) - g(x')|^2

    c_f = (x_f - x'_f) (g(x) - g(x'))' integral_0^1 dg/dx_f (x(t)) dt,

and the contributions add up to it. They are the integrated gradients (Sundararajan, Taly and Yan 2017) of the squared distance to
x' on the way from x' to x, and those of the squared distance to x on the way from x to x', averaged: a distance has no direction,
and neither have its reasons.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outmetric.foundation import Array, in_threads, n_points, to_array
from outmetric.kernels import ScalarKernel

# What is promised of the sum, relative to the squared distance; and what integration aims at.
TOLERANCE, AIM = 1e-3, 5e-4
# Features are trusted if half as many nodes agree about them up to this share.
AGREEMENT = 1e-2
NODES = 8
# Parts of a segment beyond which integration gives up.
MOST_PARTS = 64
# Sums of large terms are no more exact than this share of them.
ROUND_OFF = 1e-12
# Bytes of the kernel values and Jacobians of one block: little enough to stay near the processor.
BLOCK_BYTES = 2**22
# Columns that two rows exchange in all orders; of more columns, so many orders are drawn, and each is taken backwards as well.
ALL_ORDERS, DRAWN_ORDERS = 4, 5
# Mixed rows that are mapped at once.
BLOCK_ROWS = 2**14

# (mixed rows) from the numbers of the rows, among those of X and then those of X', that each column is taken from: (n, columns).
Mix = Callable[[Array], Any]


@dataclass(frozen=True, eq=False)
class Reasons:
    """Squared distances of pairs of rows, attributed to their features.

    Attributes
    ----------
    feature_names : tuple of str
    contributions : array of shape (pairs, features)
        They add up to the squared distances, to 1e-3 of these. One that is negative makes the two rows nearer than they would be
        otherwise.
    squared_distances : array of shape (pairs,)
    """

    feature_names: tuple[str, ...]
    contributions: Array
    squared_distances: Array

    def grouped(self, names: Sequence[str], groups: Array) -> Reasons:
        """By groups of features: ``groups`` holds the place of each feature's group among the names."""
        sums = np.zeros((len(self.contributions), len(names)))
        np.add.at(sums.T, groups, self.contributions.T)
        return Reasons(tuple(names), sums, self.squared_distances)


def integrated(
    terms: Sequence[tuple[ScalarKernel, Array]], points: Any, X: Any, X_other: Any, differences: Array
) -> tuple[Array, Array]:
    """Contributions of features by integrated gradients.

    Parameters
    ----------
    terms : scalar kernels and weights
        The coordinates are the sum of their k(x)' W, up to a constant.
    points : the points z_j of k(x) = (k(x, z_1), ...)
    X, X_other : n rows each
    differences : array of shape (n, m)
        Of their coordinates.

    Returns
    -------
    contributions : array of shape (n, d)
    errors : array of shape (n,)
        How far their sums are from the squared distances, relative to these.
    """
    X, X_other = (to_array(rows).astype(np.float64) for rows in (X, X_other))
    found, squares = np.zeros_like(X), np.einsum("im,im->i", differences, differences)
    rest = []
    for scalar, weights in terms:
        exact = scalar.increments(X, X_other, points, differences @ weights.T) if len(X) else None
        if exact is None:
            rest.append((scalar, weights))
        else:
            found += exact
    if rest:
        found += _Integration(rest, points, X, X_other, differences).run()
    gaps = np.abs(found.sum(axis=1) - squares)
    # What a row differs from itself by is round-off.
    return found, np.divide(gaps, squares, out=np.zeros_like(gaps), where=(squares > 0) & np.any(X_other != X, axis=1))


class _Integration:
    """Gauss-Legendre quadrature on parts of the segments, which are halved where it is not exact enough.

    The sum over features of the integral over a part is known, d'(g(x(b)) - g(x(a))) with d = g(x) - g(x'), so the error of that
    sum is known, too, for each part by itself; of the single features it is estimated by half as many nodes.
    """

    def __init__(
        self, terms: Sequence[tuple[ScalarKernel, Array]], points: Any, X: Array, X_other: Array, differences: Array
    ) -> None:
        self.terms, self.points = terms, points
        self.start, self.steps, self.differences = X_other, X - X_other, differences
        self.squares = np.einsum("im,im->i", differences, differences)
        rules = [np.polynomial.legendre.leggauss(count) for count in (NODES, NODES // 2)]
        self.nodes = np.concatenate([(places + 1) / 2 for places, _ in rules])
        self.weights = np.zeros((2, len(self.nodes)))
        self.weights[0, :NODES], self.weights[1, NODES:] = (weights / 2 for _, weights in rules)

    def run(self) -> Array:
        """Contributions of shape (n, d)."""
        n, d = self.start.shape
        total = np.zeros((n, d))
        # Parts: the pair that each belongs to, its ends, and what was found on it.
        pairs, low, high = np.arange(n), np.zeros(n), np.ones(n)
        values, wrong, apart = self._evaluate(pairs, low, high)
        while len(pairs):
            counts = np.bincount(pairs, minlength=n)
            sums = np.zeros((n, d))
            np.add.at(sums, pairs, values)
            sizes = np.abs(sums).sum(axis=1)
            limits = np.stack([AIM * self.squares, AGREEMENT * sizes], axis=1)
            errors = np.stack([wrong, apart], axis=1)
            missed = np.stack([np.bincount(pairs, error, minlength=n) for error in errors.T], axis=1)
            limits = np.maximum(limits, ROUND_OFF * sizes[:, None])
            done = np.all(missed <= limits, axis=1) | (counts > MOST_PARTS) | ~np.isfinite(missed).all(axis=1)
            total[done] += sums[done]
            # Of the other pairs, parts are halved whose error is more than half the mean of those that are too large together.
            shares = np.where(missed > limits, missed / (2 * counts.clip(min=1))[:, None], np.inf)
            halved = ~done[pairs] & np.any(errors > shares[pairs], axis=1)
            kept = ~done[pairs] & ~halved
            middle = (low[halved] + high[halved]) / 2
            new = [np.tile(pairs[halved], 2), np.r_[low[halved], middle], np.r_[middle, high[halved]]]
            pairs, low, high = (np.r_[old[kept], more] for old, more in zip((pairs, low, high), new, strict=True))
            fresh = self._evaluate(*new)
            values, wrong, apart = (np.r_[old[kept], more] for old, more in zip((values, wrong, apart), fresh, strict=True))
        return total

    def _evaluate(self, pairs: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
        """Integrals over parts, (parts, d), the error of their sums, and how far fewer nodes are from them."""
        m, d = self.differences.shape[1], self.start.shape[1]
        size = 8 * len(self.nodes) * (2 * n_points(self.points) + m * d)
        block = max(1, BLOCK_BYTES // size)
        parts = [slice(start, start + block) for start in range(0, len(pairs), block)]
        found = list(in_threads(lambda part: self._integrals(pairs[part], low[part], high[part]), parts))
        if not found:
            return np.zeros((0, d)), np.zeros(0), np.zeros(0)
        values, wrong, apart = (np.concatenate(results) for results in zip(*found, strict=True))
        return values, wrong, apart

    def _integrals(self, pairs: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
        places = low[:, None] + (high - low)[:, None] * self.nodes
        rows = self.start[pairs, None] + places[:, :, None] * self.steps[pairs, None]
        flat = rows.reshape(-1, rows.shape[2])
        jacobians = sum(scalar.gradients(flat, self.points, weights) for scalar, weights in self.terms)
        jacobians = np.asarray(jacobians).reshape(*places.shape, -1, rows.shape[2])
        slopes = np.einsum("pm,pqmf->pqf", self.differences[pairs], jacobians)
        fine, coarse = np.einsum("rq,pqf->rpf", self.weights, slopes) * (self.steps[pairs] * (high - low)[:, None])
        ends = np.concatenate([self.start[pairs] + t[:, None] * self.steps[pairs] for t in (low, high)])
        at_low, at_high = np.split(sum(scalar.cross(ends, self.points) @ weights for scalar, weights in self.terms), 2)
        known = np.einsum("pm,pm->p", self.differences[pairs], at_high - at_low)
        return fine, np.abs(fine.sum(axis=1) - known), np.abs(fine - coarse).max(axis=1)


def warn_of_errors(errors: Array) -> None:
    """Tell of pairs whose contributions do not add up."""
    wrong = ~(errors <= TOLERANCE)  # or not finite
    if wrong.any():
        warnings.warn(
            f"the contributions of {wrong.sum()} of {len(errors)} pairs add up to the squared distance only to "
            f"{errors.max():.1g} of it, not to {TOLERANCE:g}: the map bends too often between the two rows to be integrated.",
            UserWarning,
            stacklevel=4,
        )


def exchanged(coordinates: Callable[[Any], Array], mix: Mix, same: Array, differences: Array) -> Array:
    """Contributions of columns by exchange: the mean change when the columns of x' become those of x one after the other.

    For maps without gradients. What changes is (g(x) - g(x'))'g, so that the contributions add up to the squared distance in every
    order of the columns; the mean over all orders is the Shapley value. Up to four columns that differ are taken in all orders,
    more in ten: five that are drawn, always the same ones, and these backwards, so that the pair has no direction (of
    30 columns, the contributions then differ from the mean over all orders by about 5 %).

    Parameters
    ----------
    coordinates : function of rows that returns their coordinates
    mix : function that makes rows
    same : bool array of shape (n, columns)
        Where the two rows agree: such columns contribute nothing.
    differences : array of shape (n, m)
        g(x) - g(x').
    """
    n, d = same.shape
    found = np.zeros((n, d))
    squares = np.einsum("im,im->i", differences, differences)
    block = max(1, BLOCK_ROWS // (2 * DRAWN_ORDERS * d))
    for start in range(0, n, block):
        pairs = range(start, min(start + block, n))
        orders = [np.flatnonzero(~same[pair])[_orders(int(np.sum(~same[pair])))] for pair in pairs]
        rows = [_mixtures(columns, pair, n + pair, d) for pair, columns in zip(pairs, orders, strict=True)]
        mapped = np.split(coordinates(mix(np.concatenate(rows))), np.cumsum([len(part) for part in rows])[:-1])
        for pair, columns, part in zip(pairs, orders, mapped, strict=True):
            # The first row is x' itself.
            middle = ((part[1:] - part[0]) @ differences[pair]).reshape(len(columns), -1)
            path = np.column_stack([np.zeros(len(columns)), middle, np.full(len(columns), squares[pair])])
            np.add.at(found[pair], columns, np.diff(path, axis=1)[:, : columns.shape[1]] / len(columns))
    return found


def _mixtures(orders: Array, one: int, other: int, n_columns: int) -> Array:
    """Which row each column is taken from: all from the other; then, for each order, after the first, the second, ... exchange."""
    n_orders, count = orders.shape
    rows = np.full((n_orders, max(count - 1, 0), n_columns), other)
    for step in range(count - 1):
        rows[np.arange(n_orders)[:, None], step, orders[:, : step + 1]] = one
    return np.concatenate([np.full((1, n_columns), other), rows.reshape(-1, n_columns)])


def _orders(count: int) -> Array:
    """Orders of so many columns, each with its reverse."""
    if count <= ALL_ORDERS:
        return np.array(list(itertools.permutations(range(count))), dtype=np.intp)
    rng = np.random.default_rng(count)
    drawn = np.stack([rng.permutation(count) for _ in range(DRAWN_ORDERS)])
    return np.concatenate([drawn, drawn[:, ::-1]])


def mix_of(X: Any, X_other: Any) -> tuple[Mix, Array]:
    """How rows of arrays, or records, are mixed, and where pairs of them agree."""
    rows = np.concatenate([to_array(X), to_array(X_other)])
    n, names = n_points(X), rows.dtype.names
    if names is None:
        return lambda taken: rows[taken, np.arange(rows.shape[1])], rows[:n] == rows[n:]

    def mixed(taken: Array) -> Array:
        made = np.empty(len(taken), dtype=rows.dtype)
        for place, name in enumerate(names):
            made[name] = rows[name][taken[:, place]]
        return made

    same = [np.array([bool(one == other) for one, other in zip(rows[name][:n], rows[name][n:], strict=True)]) for name in names]
    return mixed, np.stack(same, axis=1)
