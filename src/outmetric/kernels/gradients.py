"""Sums over points of gradients of kernel functions, and what these contribute along a segment."""

from __future__ import annotations

import collections.abc
from typing import Any

import numpy as np
import scipy.sparse
from numpy.polynomial import chebyshev
from sklearn.utils import gen_batches

from outmetric.foundation import Array, to_array
from outmetric.kernels.base import times, weighted_sums

# Numbers that stay in the processor's cache between one elementwise operation and the next.
CACHE_NUMBERS = 2**15
# Changes of an exponent below which an exponential is taken for a straight line: wrong by a twelfth of the square.
FLAT = 1e-5
# A Gaussian and its derivative are polynomials on a cell two widths long, but for round-off: so many values tell all others.
NODES = 24
PLACES = chebyshev.chebpts1(NODES)
TO_SERIES = np.linalg.inv(chebyshev.chebvander(PLACES, NODES - 1))


def laplacian_increments(x: Array, other: Array, Z: Array, weights: Array, rate: float) -> Array:
    """What each feature contributes to sum_j w_j (k(x, z_j) - k(x', z_j)) along the segment, exactly.

    At x' + t (x - x') the exponent of k(., z_j) is linear in t but for the places t_f where feature f passes that of z_j, and its
    derivative by the feature changes sign there. So with A(t) the integral of k from 0 to t, feature f contributes
    - rate |x_f - x'_f| (A(1) - 2 A(t_f)).
    """
    difference = x - other
    lengths = np.abs(difference)
    inverse = np.divide(1.0, difference, out=np.zeros_like(difference), where=difference != 0)
    places = Z - other
    first = rate * np.abs(places).sum(axis=1)
    places *= inverse
    np.clip(places, 0, 1, out=places)
    order = np.argsort(places, axis=1)
    # A column for each point from here on, so that sums along the segment are sums of whole rows; and few new arrays.
    places, order = np.take_along_axis(places, order, axis=1).T.copy(), order.T.copy()
    passed = lengths[order]
    widths = np.diff(places, axis=0, prepend=0.0, append=1.0)
    # The exponent falls at first by all lengths together, and from each place on it rises by that feature's.
    rises = np.zeros_like(widths)
    np.cumsum(passed, axis=0, out=rises[1:])
    rises *= 2 * rate
    rises -= rate * lengths.sum()
    rises *= widths
    values = np.empty((len(rises) + 1, len(Z)))
    values[0] = first
    np.cumsum(rises, axis=0, out=values[1:])
    values[1:] += first
    np.exp(np.negative(values, out=values), out=values)
    start, end = values[:-1], values[1:]
    areas = (start + end) / 2  # the mean of an exponential between its ends; where these are close, their mean
    np.divide(start - end, rises, out=areas, where=np.abs(rises) > FLAT)
    areas *= widths
    integrals = np.cumsum(areas, axis=0, out=areas)
    found = integrals[-1] - 2 * integrals[:-1]
    found *= passed
    found *= -rate * weights
    return np.bincount(order.ravel(), found.ravel(), minlength=len(x))


def weighted_differences(slopes: Array, X: Any, Z: Any, coefficients: Array) -> Array:
    """sum_j s_ij c_jk (z_j - x_i) for each row i and output k, (n, m, d)."""
    if not scipy.sparse.issparse(X) and not scipy.sparse.issparse(Z):
        origin = midst(Z)
        X, Z = X - origin, Z - origin
    # For one output: [S diag(c) Z]_i - [S c]_i x_i.
    found = weighted_sums(slopes, Z, coefficients)
    found -= (slopes @ coefficients)[:, :, None] * to_array(X)[:, None, :]
    return found


def by_feature(
    X: Any, Z: Any, coefficients: Array, derivative: collections.abc.Callable[[Array], Array], slopes: Array | None
) -> Array:
    """sum_j s_ij c_jk derivative(x_if - z_jf) for each row i, output k and feature f, (n, m, d).

    ``derivative`` may overwrite the differences that it gets. They come in blocks that stay in the processor's cache.
    """
    X, Z = to_array(X), np.ascontiguousarray(to_array(Z).T)
    found = np.empty((len(X), coefficients.shape[1], len(Z)))
    for part in gen_batches(len(X), max(1, CACHE_NUMBERS // Z.shape[1])):
        own = None if slopes is None else slopes[part]
        for feature, z in enumerate(Z):
            found[part, :, feature] = times(derivative(X[part, feature, None] - z), own) @ coefficients
    return found


def by_sign(X: Any, Z: Any, values: Array, coefficients: Array) -> Array:
    """sum_j v_ij c_jk sign(x_if - z_jf) for each row i, output k and feature f, (n, m, d).

    Signs are those of differences of ranks, small integers, which take a third of the time of other signs.
    """
    rows, points = _ranks(to_array(X), to_array(Z))
    found = np.empty((len(rows), coefficients.shape[1], len(points)))
    differences, signs = np.empty_like(points), np.empty(points.shape)  # threads that allocate such arrays wait for one another
    for ranks, own, place in zip(rows, values, found, strict=True):
        np.subtract(ranks[:, None], points, out=differences)
        np.copyto(signs, np.sign(differences, out=differences))
        place[...] = (signs @ (own[:, None] * coefficients)).T
    return found


def _ranks(X: Array, Z: Array) -> tuple[Array, Array]:
    """Small integers of the same order as the numbers of each feature: (n, d) for the rows, (d, p) for the points."""
    dtype = np.int16 if 2 * len(Z) < np.iinfo(np.int16).max else np.int32
    rows, points = np.empty(X.shape, dtype), np.empty(Z.shape[::-1], dtype)
    for feature, (x, z) in enumerate(zip(X.T, Z.T, strict=True)):
        known, places = np.unique(z, return_inverse=True)
        points[feature] = 2 * places + 1  # odd, since even ones are between them
        rows[:, feature] = np.searchsorted(known, x, "left") + np.searchsorted(known, x, "right")
    return rows, points


def sums_of_gaussians(x: Array, z: Array, weights: Array, width: float, *, slopes: bool = False) -> Array:
    """sum_j w_jk exp(-(x_i - z_j)^2 / (2 width^2)) for numbers x_i, (n, m), or its derivative by x_i.

    Where many x_i fall into a cell two widths long, these are interpolated from Chebyshev nodes of the cell.
    """
    origin = float(np.median(z))  # differences do not change with it, but their round-off does
    x, z = ((np.asarray(numbers, dtype=np.float64) - origin) / width for numbers in (x, z))

    def direct(x: Array) -> Array:
        differences = np.subtract.outer(x, z)
        values = np.exp(-0.5 * differences**2)
        return np.asarray((values * -differences / width if slopes else values) @ weights)

    cells, own, counts = np.unique(np.floor(x / 2), return_inverse=True, return_counts=True)
    crowded = counts > NODES
    inside = crowded[own]
    found = np.empty((len(x), weights.shape[1]))
    found[~inside] = direct(x[~inside])
    if inside.any():
        centres = 2 * cells[crowded] + 1
        series = TO_SERIES @ direct(np.add.outer(centres, PLACES).ravel()).reshape(len(centres), NODES, -1)
        places = (np.cumsum(crowded) - 1)[own[inside]]
        powers = chebyshev.chebvander(x[inside] - centres[places], NODES - 1)
        found[inside] = np.einsum("in,inm->im", powers, series[places])
    return found


def midst(X: Array) -> Array:
    """A point in the midst of the data, whatever outliers they have."""
    return np.asarray(np.median(X[:: max(1, len(X) // 1000)], axis=0))
