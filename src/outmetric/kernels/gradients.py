"""Arithmetic on points: distances, Gaussians, sums of gradients of kernel functions and what these contribute along a segment."""

from __future__ import annotations

import collections.abc
from typing import Any

import numpy as np
import scipy.sparse
from numpy.polynomial import chebyshev
from scipy.sparse.linalg import LinearOperator
from scipy.spatial.distance import cdist, squareform
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms

from outmetric.foundation import Array, n_points, to_array
from outmetric.kernels.base import times, weighted_sums
from outmetric.kernels.operators import symmetric_matrix

# The largest exponent of a Gaussian that is computed in single precision.
SINGLE_EXPONENT = 100.0
# The median distance is exact up to this many points; beyond, it is that of a random subset of this size.
MEDIAN_POINTS = 2000
# How many numbers tell about where the median of many is.
MEDIAN_SAMPLE = 10000
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
    """sum_j w_jk exp(-(x_i - z_j)^2 / (2 width^2)) for numbers x_i, (n, m), or its derivative by x_i."""
    origin = float(np.median(z))  # differences do not change with it, but their round-off does
    x, z = ((np.asarray(numbers, dtype=np.float64) - origin) / width for numbers in (x, z))
    shares, places = interpolation(x)
    differences = np.subtract.outer(places, z)
    values = np.exp(-0.5 * differences**2)
    return np.asarray(shares @ ((values * -differences / width if slopes else values) @ weights))


def interpolation(x: Array) -> tuple[Any, Array]:
    """Places that tell the values at all x_i of any sum of Gaussians of width 1, and how: sparse shares, (n, places).

    Where many x_i fall into a cell two widths long, these are interpolated from Chebyshev nodes of the cell.
    """
    cells, own, counts = np.unique(np.floor(x / 2), return_inverse=True, return_counts=True)
    crowded = counts > NODES
    inside = crowded[own]
    centres = 2 * cells[crowded] + 1
    places = np.concatenate([np.add.outer(centres, PLACES).ravel(), x[~inside]])
    cell = (np.cumsum(crowded) - 1)[own[inside]]
    lengths = np.where(inside, NODES, 1)
    starts, wide = np.append(0, np.cumsum(lengths)), np.repeat(inside, lengths)
    shares, columns = np.ones(len(wide)), np.empty(len(wide), dtype=np.int32)
    shares[wide] = (chebyshev.chebvander(x[inside] - centres[cell], NODES - 1) @ TO_SERIES).ravel()
    columns[wide] = np.add.outer(NODES * cell, np.arange(NODES)).ravel()
    columns[~wide] = np.arange(NODES * len(centres), len(places))
    return scipy.sparse.csr_array((shares, columns, starts), shape=(len(x), len(places))), places


def mean_of_gaussians(X: Array, Z: Array, width: float) -> Array:
    """The mean over features of exp(-(x_j - z_j)^2 / (2 width^2)), (n, p)."""
    scale = 1 / (np.sqrt(2) * width)
    rows, points = ((part * scale).astype(np.result_type(X, Z), copy=False) for part in (X, Z))
    total = np.zeros((len(X), len(Z)), dtype=rows.dtype)
    for part in gen_batches(len(X), max(1, CACHE_NUMBERS // max(1, len(Z)))):
        for x, z in zip(rows[part].T, points.T, strict=True):
            values = np.subtract.outer(x, z)
            values *= values
            np.negative(values, out=values)
            total[part] += np.exp(values, out=values)
    total /= X.shape[1]
    return total


def interpolated_gaussians(X: Array, width: float) -> LinearOperator:
    """The (n, n) matrix of such means, but for round-off, as shares of values at some places of each feature."""
    parts = [interpolation(column) for column in ((X - midst(X)) / width).T]
    shares = scipy.sparse.hstack([share for share, _ in parts], format="csr")
    back = shares.T.tocsr()
    values = [np.exp(-0.5 * np.subtract.outer(places, places) ** 2) / X.shape[1] for _, places in parts]
    ends = np.cumsum([len(own) for own in values])

    def multiply(vectors: Array) -> Array:
        pulled = back @ vectors
        at_places = [own @ part for own, part in zip(values, np.split(pulled, ends[:-1]), strict=True)]
        return np.asarray(shares @ np.concatenate(at_places))

    return LinearOperator(shape=(len(X), len(X)), matvec=multiply, matmat=multiply, dtype=np.dtype(np.float64))


def midst(X: Array) -> Array:
    """A point in the midst of the data, whatever outliers they have."""
    return np.asarray(np.median(X[:: max(1, len(X) // 1000)], axis=0))


def square_tiles(X: Array) -> collections.abc.Callable[[slice, slice], Array]:
    """A function of rows and columns: squared Euclidean distances between these points; those that are round-off are zero."""
    # Distances do not change with the origin, but their round-off does.
    centred = np.ascontiguousarray(X - midst(X), dtype=np.float64)  # the same bits whatever the order of X in memory
    norms = row_norms(centred, squared=True)

    def tile(rows: slice, columns: slice) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is told by name, where values are used
            sums = np.add.outer(norms[rows], norms[columns])
            squares = centred[rows] @ (-2 * centred[columns]).T
            squares += sums
        sums *= round_off(np.float64)
        squares[squares <= sums] = 0
        return squares

    return tile


def euclidean_tiles(X: Array) -> collections.abc.Callable[[slice, slice], Array]:
    """A function of rows and columns: Euclidean distances between these points; those that are round-off are zero."""
    squares = square_tiles(X)
    return lambda rows, columns: np.asarray(np.sqrt(squares(rows, columns)))


def manhattan_tiles(X: Array) -> collections.abc.Callable[[slice, slice], Array]:
    """A function of rows and columns: l1 distances between these points."""
    points = np.ascontiguousarray(X, dtype=np.float64)
    return lambda rows, columns: np.asarray(cdist(points[rows], points[columns], "cityblock"))


def median(values: Array) -> float:
    """The median of many numbers, exactly, in a few passes: only those near the median of a sample are sorted."""
    sample = values[:: max(1, len(values) // MEDIAN_SAMPLE)]
    low, high = np.quantile(sample, [0.45, 0.55])
    below = int(np.count_nonzero(values < low))
    near = values[(values >= low) & (values <= high)]
    middle = np.array([(len(values) - 1) // 2, len(values) // 2]) - below
    if middle[0] < 0 or middle[1] >= len(near):
        return float(np.median(values))
    return float(np.mean(np.partition(near, middle)[middle]))


def round_off(dtype: Any) -> float:
    """Of squared distances, computed by |x|^2 - 2 x'z + |z|^2, relative to these terms."""
    return float(50 * np.finfo(dtype).eps)


def exponentials(distances: Array, rate: float) -> Array:
    """exp(-rate distances), in their place."""
    distances *= -rate
    return np.asarray(np.exp(distances, out=distances))


def euclidean(X: Any) -> Array:
    """All Euclidean distances of a sample; those that are round-off beside the points are zero."""
    if isinstance(X, np.ndarray):
        return symmetric_matrix(euclidean_tiles(X), len(X), np.result_type(X, np.float32))
    distances = euclidean_distances(X, squared=True)
    norms = row_norms(X, squared=True)
    distances[distances <= round_off(np.float64) * np.add.outer(norms, norms)] = 0
    return np.asarray(np.sqrt(distances, out=distances))


def euclidean_between(X: Any, Z: Any) -> Array:
    """Euclidean distances between two samples; those that are round-off beside the points are zero."""
    if X is Z:
        return euclidean(X)
    if not scipy.sparse.issparse(X) and not scipy.sparse.issparse(Z):
        origin = midst(Z)
        X, Z = X - origin, Z - origin
    squares = euclidean_distances(X, Z, squared=True)
    squares[squares <= round_off(squares.dtype) * np.add.outer(row_norms(X, squared=True), row_norms(Z, squared=True))] = 0
    return np.asarray(np.sqrt(squares, out=squares))


def divided(slopes: Array, distances: Array, power: float = 1.0) -> Array:
    """Slopes / distances^power, 0 where points coincide: their gradients have no direction there."""
    apart = distances > 0
    return np.divide(slopes, distances**power, out=np.zeros_like(slopes), where=apart)


class Gaussians:
    """exp(-gamma |x - z|^2) for fixed points z, as the exponential of one matrix product.

    The exponents are (x - o, |x - o|^2, 1) . (2 gamma (z - o), -gamma, -gamma |z - o|^2) with an origin o in the midst of the data.
    """

    def __init__(self, Z: Array, gamma: float, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.origin = midst(Z).astype(np.float64)
        centred = Z - self.origin
        squares = row_norms(centred, squared=True)
        # Exponents are wrong by this many units of round-off; single precision must not be asked for too many.
        self.precision = np.dtype(np.float64) if gamma * squares.max() > SINGLE_EXPONENT else dtype
        factors = np.vstack([2 * gamma * centred.T, np.full(len(Z), -gamma), -gamma * squares])
        self.factors = factors.astype(self.precision)

    def __call__(self, X: Any) -> Array:
        X = to_array(X)
        augmented = np.empty((len(X), X.shape[1] + 2), dtype=self.precision)
        np.subtract(X, self.origin, out=augmented[:, :-2], casting="same_kind")
        np.einsum("ij,ij->i", augmented[:, :-2], augmented[:, :-2], out=augmented[:, -2])
        augmented[:, -1] = 1
        values = augmented @ self.factors  # above zero by round-off at most
        return np.asarray(np.exp(values, out=values), dtype=self.dtype)


def median_distance(X: Any, kernel: Any, rng: np.random.Generator) -> float:
    """The median distance over pairs of distinct points: how often a point occurs is a matter of weights."""
    if n_points(X) > MEDIAN_POINTS:
        X = X[rng.choice(n_points(X), MEDIAN_POINTS, replace=False)]
    distinct = kernel.pair_distances(X)
    if not distinct.all():
        between = kernel.distances(X)
        first = ~np.tril(between == 0, -1).any(axis=1)
        distinct = squareform(between[np.ix_(first, first)], checks=False)
        distinct = distinct[distinct > 0]
    if not len(distinct) or not np.isfinite(distinct).all():
        centred: Any = X if scipy.sparse.issparse(X) else X - midst(X)
        largest = float(abs(centred).max())
        raise ValueError(
            "bandwidth='median' has no distance to work with: all training points coincide, or their distances are not "
            f"representable (largest deviation from the mean: {largest:.3g}). Rescale the data or give a bandwidth."
        )
    return median(distinct)
