"""Scalar kernels k(x, x'): by name, by function on any objects, or precomputed."""

from __future__ import annotations

import collections.abc
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse
from scipy.spatial.distance import squareform
from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, euclidean_distances, manhattan_distances, pairwise_kernels
from sklearn.utils.extmath import row_norms

from outmetric.foundation import Array, check_finite, check_symmetric, n_points, psd_tolerance, storable, to_array
from outmetric.kernels import operators
from outmetric.kernels.operators import SampleGram

# Rows evaluated at once when a Gram matrix is not held in memory: large enough for fast products, small beside the data.
LAZY_ROWS = 512
# The largest exponent of a Gaussian that is computed in single precision.
SINGLE_EXPONENT = 100.0
# The median distance is exact up to this many points; beyond, it is that of a random subset of this size.
MEDIAN_POINTS = 2000
# What the data of a kernel may be, strictest first: rows of kernel values, row numbers into precomputed blocks, numeric arrays,
# also sparse ones, any objects.
Takes = Literal["kernel values", "row numbers", "arrays", "sparse", "objects"]
SPARSE_KERNELS = frozenset({"rbf", "laplacian", "linear", "poly", "polynomial", "sigmoid", "cosine"})


@storable("Scalar", is_kernel=True)
@dataclass(frozen=True, eq=False)
class Scalar:
    """A scalar kernel k(x, x').

    Parameters
    ----------
    function : str, callable or "precomputed"
        "additive", or a name of `sklearn.metrics.pairwise.pairwise_kernels`; a function of two points (rows, or any objects) that
        returns a number; a Gaussian-process kernel of scikit-learn; or "precomputed": the data are then kernel values, as in
        scikit-learn's estimators ((n, n_train) arrays).
    bandwidth : float or "median"
        For "rbf", exp(-|x - x'|_2^2 / (2 bandwidth^2)), "laplacian", exp(-|x - x'|_1 / bandwidth), and "additive", the mean over
        features of exp(-(x_j - x'_j)^2 / (2 bandwidth^2)); other kernels ignore it. "median" is the median distance between
        distinct training points ("additive": divided by the root of the number of features); "0.5*median" is a multiple of it.
    params : mapping, optional
        Further arguments of the function, such as ``degree`` for "poly". A ``gamma`` given here takes the bandwidth's place.
    pairwise : bool
        For functions: True if it takes two points and returns a number, False if it takes two samples and returns a matrix. A
        function with an attribute ``pairwise = False``, such as the kernels of `outmetric.strings`, says the latter itself.

    Examples
    --------
    >>> import numpy as np
    >>> Scalar("rbf", bandwidth=1.0).gram(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> Scalar(lambda s, t: float(s[0] == t[0])).gram(["ab", "ac", "b"])
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    function: Any = "rbf"
    bandwidth: float | str = "median"
    params: Mapping[str, Any] | None = None
    pairwise: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.function, str):
            known = ["additive", *sorted(PAIRWISE_KERNEL_FUNCTIONS), "precomputed"]
            if self.function not in known:
                raise ValueError(f"kernel {self.function!r} is not known; use one of {known}, a function, or an outmetric kernel.")
        elif not callable(self.function):
            raise ValueError(f"a scalar kernel is a name or a function, not {self.function!r}.")
        number = median_factor(self.bandwidth) if isinstance(self.bandwidth, str) else self.bandwidth
        if not isinstance(number, int | float | np.number) or not 0 < number < np.inf:
            raise ValueError(f"bandwidth must be a positive number, 'median' or such as '0.5*median', not {self.bandwidth!r}.")
        if self.bandwidth != "median" and "gamma" in (self.params or {}):
            raise ValueError(f"give either bandwidth={self.bandwidth} or gamma={(self.params or {})['gamma']}, not both.")

    @property
    def has_bandwidth(self) -> bool:
        return self.function in ("rbf", "laplacian", "additive") and "gamma" not in (self.params or {})

    @property
    def needs_positive(self) -> bool:
        return self.function in ("chi2", "additive_chi2")

    @property
    def takes(self) -> Takes:
        if self.function == "precomputed":
            return "kernel values"
        if isinstance(self.function, str):
            return "sparse" if self.function in SPARSE_KERNELS else "arrays"
        return "arrays" if isinstance(self.function, GaussianProcessKernel) else "objects"

    def resolve(self, X: Any, rng: np.random.Generator) -> Scalar:
        """The same kernel with ``bandwidth="median"`` replaced by the number for these training points."""
        if not (self.has_bandwidth and isinstance(self.bandwidth, str)):
            return self
        factor = median_factor(self.bandwidth)
        assert factor is not None  # checked in the constructor
        return replace(self, bandwidth=factor * median_distance(X, self.function, rng))

    def gram(self, X: Any) -> Array:
        """The symmetric (n, n) matrix of kernel values between training points."""
        if callable(self.function) and self._on_pairs:
            gram = symmetric_pairs(self._call, X, self._name)
        else:
            gram = self._values(X, X)
            if not isinstance(self.function, str) or self.function == "precomputed":
                check_symmetric(gram, f"the Gram matrix of {self._name}", psd_tolerance(gram.dtype))
        check_finite(gram, f"the Gram matrix of {self._name}")
        return gram

    def lazy_gram(self, X: Any) -> SampleGram:
        """The same matrix, evaluated in row blocks at every product and never held."""
        if self.function == "precomputed":
            return self.gram(X)
        n = n_points(X)
        evaluate = self.evaluator(X, np.float64)
        return operators.row_blocks(lambda part: evaluate(X[part]), (n, n), LAZY_ROWS)

    def cross(self, X: Any, X_train: Any) -> Array:
        """The (n, n_train) matrix of kernel values between new points and training points."""
        values = self._values(X, X_train)
        check_finite(values, f"the cross Gram matrix of {self._name}")
        return values

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        """A fast function X -> kernel values between X and fixed points Z, in this precision, for many blocks X."""
        if self.function == "rbf" and isinstance(Z, np.ndarray):
            gamma = 0.5 / float(self.bandwidth) ** 2 if self.has_bandwidth else (self.params or {}).get("gamma") or 1 / Z.shape[1]
            return _Gaussians(Z, float(gamma), np.dtype(dtype))
        if hasattr(self.function, "evaluator"):  # string kernels
            values = self.function.evaluator(Z)
            return lambda X: values(X).astype(dtype, copy=False)
        return lambda X: self.cross(X, Z).astype(dtype, copy=False)

    @property
    def _on_pairs(self) -> bool:
        return self.pairwise and getattr(self.function, "pairwise", True) and not isinstance(self.function, GaussianProcessKernel)

    @property
    def name(self) -> str:
        return self.function if isinstance(self.function, str) else getattr(self.function, "__name__", repr(self.function))

    @property
    def _name(self) -> str:
        return f"kernel {self.name!r}"

    def _call(self, x: Any, z: Any) -> Any:
        return self.function(x, z, **(self.params or {}))

    def _values(self, X: Any, Z: Any) -> Array:
        if self.function == "precomputed":
            if X.shape[1] != n_points(Z):
                raise ValueError(
                    f"a precomputed kernel needs one column per training point, {n_points(Z)}; its shape is {X.shape}."
                )
            return np.asarray(X)
        if callable(self.function):
            if self._on_pairs:
                values = np.array([[self._call(x, z) for z in Z] for x in X], dtype=np.float64).reshape(n_points(X), -1)
            else:
                values = np.asarray(self._call(X, Z), dtype=np.float64)
            if values.shape != (n_points(X), n_points(Z)):
                raise ValueError(
                    f"{self._name} returned an array of shape {values.shape} for {n_points(X)} and {n_points(Z)} points. Expected: "
                    "a number per pair (pairwise=True) or the whole matrix of kernel values (pairwise=False)."
                )
            return values
        params = dict(self.params or {})
        if self.function == "additive":
            return _additive(X, Z, float(self.bandwidth))
        if self.has_bandwidth:
            params["gamma"] = 0.5 / float(self.bandwidth) ** 2 if self.function == "rbf" else 1 / float(self.bandwidth)
        other = None if X is Z else Z
        if self.function == "rbf" and not scipy.sparse.issparse(X) and not scipy.sparse.issparse(Z):
            # Distances do not change with the origin, but their round-off does.
            origin = _origin(Z)
            X, other = X - origin, None if other is None else other - origin
        elif self.needs_positive:
            # scikit-learn's code for these wants writeable arrays.
            X, other = np.require(X, requirements="W"), None if other is None else np.require(other, requirements="W")
        return to_array(pairwise_kernels(X, other, metric=self.function, **params))


class _Gaussians:
    """exp(-gamma |x - z|^2) for fixed points z, as the exponential of one matrix product.

    The exponents are (x - o, |x - o|^2, 1) . (2 gamma (z - o), -gamma, -gamma |z - o|^2) with an origin o in the midst of the data.
    """

    def __init__(self, Z: Array, gamma: float, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.origin = _origin(Z).astype(np.float64)
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


def _additive(X: Array, Z: Array, bandwidth: float) -> Array:
    """The mean over features of a Gaussian in each."""
    total = np.zeros((len(X), len(Z)), dtype=np.result_type(X, Z))
    for x, z in zip(X.T, Z.T, strict=True):
        total += np.exp(-0.5 * (np.subtract.outer(x, z) / bandwidth) ** 2)
    total /= X.shape[1]
    return total


def median_factor(bandwidth: str) -> float | None:
    """1 for "median", 0.5 for "0.5*median", None for anything else."""
    factor, star, word = bandwidth.rpartition("*")
    if word.strip() != "median":
        return None
    try:
        return float(factor) if star else 1.0
    except ValueError:
        return None


def median_distance(X: Any, kernel: str, rng: np.random.Generator) -> float:
    """The median distance, in the kernel's norm, over pairs of points that do not coincide."""
    if n_points(X) > MEDIAN_POINTS:
        X = X[rng.choice(n_points(X), MEDIAN_POINTS, replace=False)]
    if kernel != "laplacian":
        X = X if scipy.sparse.issparse(X) else X - _origin(X)
        distances = euclidean_distances(X, squared=True)
        # Computed by |x|^2 - 2 x'z + |z|^2, squared distances are wrong by a few units of round-off of these terms.
        norms = row_norms(X, squared=True)
        distances[distances <= 1e-14 * np.add.outer(norms, norms)] = 0
        np.sqrt(distances, out=distances)
    else:
        distances = manhattan_distances(X)
    distances = squareform(distances, checks=False)
    distinct = distances[distances > 0]
    if not len(distinct) or not np.isfinite(distinct).all():
        largest = float(abs(X).max())
        raise ValueError(
            "bandwidth='median' has no distance to work with: all training points coincide, or their distances are not "
            f"representable (largest deviation from the mean: {largest:.3g}). Rescale the data or give a bandwidth."
        )
    median = float(np.median(distinct, overwrite_input=True))
    return median / np.sqrt(X.shape[1]) if kernel == "additive" else median


def _origin(X: Array) -> Array:
    """A point in the midst of the data, whatever outliers they have."""
    return np.asarray(np.median(X[:: max(1, len(X) // 1000)], axis=0))


def as_scalar(kernel: Any) -> Scalar:
    """A scalar kernel from its name or function."""
    return kernel if isinstance(kernel, Scalar) else Scalar(kernel)


def symmetric_pairs(function: collections.abc.Callable[[Any, Any], Any], X: Any, name: str) -> Array:
    """Values (or blocks) for all pairs, each evaluated once and mirrored; symmetry is checked on a sample of pairs."""
    n = n_points(X)
    if n == 0:
        raise ValueError(f"{name} needs at least one point.")
    first = np.asarray(function(X[0], X[0]), dtype=np.float64)
    values = np.empty((n, n, *first.shape))
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        values[i, j] = function(X[i], X[j])
        values[j, i] = np.asarray(values[i, j]).T
    pairs = list(itertools.combinations(range(n), 2))
    chosen = np.random.default_rng(0).permutation(len(pairs))[: max(200, n)]
    for i, j in (pairs[k] for k in chosen):
        mirrored = np.asarray(function(X[j], X[i]), dtype=np.float64)
        difference = np.abs(mirrored - values[j, i]).max()
        if difference > psd_tolerance(values.dtype) * np.abs(values[j, i]).max():
            raise ValueError(
                f"{name} is not symmetric: for points {i} and {j} it changes by {difference:.3g} when they are exchanged "
                "(up to a transposition for matrix values). Use a symmetric function."
            )
    return values
