"""Scalar and matrix-valued kernels, K(x, x') in R^(m x m), with two verbs: ``gram(X)`` and ``cross(X, X_train)``.

A matrix kernel turns data into a Gram operator (`outmetric.operators`). Kernels are frozen and compose: ``+`` and ``number *``
work, sums of separable kernels with one output matrix stay separable, and so keep the fast solver.

    Scalar       k(x, x') by scikit-learn's name, by a function on any objects, or precomputed
    Separable    k(x, x') B
    Diagonal     diag(k_1(x, x'), ..., k_m(x, x')), the paper's choice for model 1
    Sum          K_1 + K_2 + ...
    Callable     any function that returns (m, m) blocks
    Precomputed  blocks given as an array; the data are row numbers
"""

from __future__ import annotations

import collections.abc
import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
from scipy.spatial.distance import squareform
from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    euclidean_distances,
    manhattan_distances,
    pairwise_kernels,
)
from sklearn.utils.extmath import row_norms

from outmetric import operators
from outmetric.operators import Array, GramOperator, SampleGram, check_finite, check_psd, check_symmetric, to_array

__all__ = ["Callable", "Diagonal", "MatrixKernel", "Precomputed", "Scalar", "Separable", "Sum", "check_psd"]

# Rows evaluated at once when a Gram matrix is not held in memory: large enough for fast products, small beside the data.
LAZY_ROWS = 512
# The median distance is exact up to this many points; beyond, it is that of a random subset of this size.
MEDIAN_POINTS = 2000
# What the data of a kernel may be, strictest first: rows of kernel values, row numbers into precomputed blocks, numeric arrays,
# also sparse ones, any objects.
Takes = Literal["kernel values", "row numbers", "arrays", "sparse", "objects"]
SPARSE_KERNELS = frozenset({"rbf", "laplacian", "linear", "poly", "polynomial", "sigmoid", "cosine"})


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
        For functions: True if it takes two points and returns a number, False if it takes two samples and returns a matrix.

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
            gram = _symmetric_pairs(self._call, X, self._name)
        else:
            gram = self._values(X, X)
            if not isinstance(self.function, str) or self.function == "precomputed":
                check_symmetric(gram, f"the Gram matrix of {self._name}", operators.psd_tolerance(gram.dtype))
        check_finite(gram, f"the Gram matrix of {self._name}")
        return gram

    def lazy_gram(self, X: Any) -> SampleGram:
        """The same matrix, evaluated in row blocks at every product and never held."""
        if self.function == "precomputed":
            return self.gram(X)
        n = n_points(X)
        return operators.row_blocks(lambda part: self._values(X[part], X), (n, n), LAZY_ROWS)

    def cross(self, X: Any, X_train: Any) -> Array:
        """The (n, n_train) matrix of kernel values between new points and training points."""
        values = self._values(X, X_train)
        check_finite(values, f"the cross Gram matrix of {self._name}")
        return values

    @property
    def _on_pairs(self) -> bool:
        return self.pairwise and not isinstance(self.function, GaussianProcessKernel)

    @property
    def _name(self) -> str:
        name = self.function if isinstance(self.function, str) else getattr(self.function, "__name__", repr(self.function))
        return f"kernel {name!r}"

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
        if self.function == "rbf" and not scipy.sparse.issparse(X):
            # Distances do not change with the origin, but their round-off does.
            origin = _origin(Z)
            X, other = X - origin, None if other is None else other - origin
        elif self.needs_positive:
            # scikit-learn's code for these wants writeable arrays.
            X, other = np.require(X, requirements="W"), None if other is None else np.require(other, requirements="W")
        return to_array(pairwise_kernels(X, other, metric=self.function, **params))


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


def n_points(X: Any) -> int:
    """How many points a sample has, be it an array, a sparse matrix or a sequence of objects."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


class MatrixKernel(ABC):
    """A matrix-valued kernel; ``K(x, x') = K(x', x)'`` and all its Gram matrices are positive semi-definite."""

    @property
    @abstractmethod
    def n_outputs(self) -> int | None:
        """m, or None if the kernel adapts to any."""

    @property
    @abstractmethod
    def takes(self) -> Takes:
        """What the data may be."""

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """The scalar kernels it is made of; none if it computes its blocks otherwise."""
        return ()

    def held_arrays(self, n_outputs: int) -> int:
        """How many (n, n) arrays its Gram operator holds."""
        return len(self.scalars) or n_outputs**2

    @property
    def can_be_lazy(self) -> bool:
        """Whether its Gram operator can be evaluated in row blocks instead of held."""
        return bool(self.scalars)

    @abstractmethod
    def resolve(self, X: Any, rng: np.random.Generator) -> MatrixKernel:
        """The same kernel with everything that depends on the training points fixed."""

    @abstractmethod
    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        """The Gram operator of the training points; ``lazy``: evaluated at every product instead of held, where possible."""

    @abstractmethod
    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        """The operator from coefficients at the training points to outputs at new points."""

    def __add__(self, other: MatrixKernel) -> MatrixKernel:
        return Sum((self, other))

    def __mul__(self, factor: float) -> MatrixKernel:
        return Sum((self,), weights=(factor,))

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class Separable(MatrixKernel):
    """k(x, x') B with a scalar kernel k and a symmetric positive semi-definite matrix B (default: identity of any size).

    Examples
    --------
    >>> import numpy as np
    >>> kernel = Separable(Scalar("linear"), [[2.0, 1.0], [1.0, 2.0]])
    >>> kernel.gram(np.array([[1.0], [3.0]]), 2).apply(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[ 5.,  7.],
           [15., 21.]])
    """

    kernel: Any = "rbf"
    output_matrix: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_scalar(self.kernel))
        if self.output_matrix is not None:
            matrix = np.asarray(self.output_matrix, dtype=np.float64)
            check_psd(matrix, "output_matrix")
            object.__setattr__(self, "output_matrix", matrix)

    @property
    def n_outputs(self) -> int | None:
        return None if self.output_matrix is None else len(self.output_matrix)

    @property
    def takes(self) -> Takes:
        return as_scalar(self.kernel).takes

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return (self.kernel,)

    def resolve(self, X: Any, rng: np.random.Generator) -> Separable:
        return Separable(self.kernel.resolve(X, rng), self.output_matrix)

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        return operators.Kronecker(self.kernel.lazy_gram(X) if lazy else self.kernel.gram(X), self._outputs(n_outputs))

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        return operators.Kronecker(self.kernel.cross(X, X_train), self._outputs(n_outputs))

    def _outputs(self, n_outputs: int) -> Array:
        return np.eye(n_outputs) if self.output_matrix is None else self.output_matrix


@dataclass(frozen=True, eq=False)
class Diagonal(MatrixKernel):
    """diag(k_1(x, x'), ..., k_m(x, x')): every output has a scalar kernel of its own.

    Examples
    --------
    >>> Diagonal([Scalar("rbf", bandwidth=b) for b in (0.5, 1.0, 2.0)]).n_outputs
    3
    """

    kernels: Sequence[Any]

    def __post_init__(self) -> None:
        if not len(self.kernels):
            raise ValueError("Diagonal needs at least one scalar kernel.")
        object.__setattr__(self, "kernels", tuple(as_scalar(kernel) for kernel in self.kernels))
        _strictest(self.kernels)

    @property
    def n_outputs(self) -> int:
        return len(self.kernels)

    @property
    def takes(self) -> Takes:
        return _strictest(self.kernels)

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(self.kernels)

    def resolve(self, X: Any, rng: np.random.Generator) -> Diagonal:
        return Diagonal([kernel.resolve(X, rng) for kernel in self.kernels])

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        return operators.BlockDiagonal(tuple(k.lazy_gram(X) if lazy else k.gram(X) for k in self.kernels))

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        return operators.BlockDiagonal(tuple(kernel.cross(X, X_train) for kernel in self.kernels))


@dataclass(frozen=True, eq=False)
class Sum(MatrixKernel):
    """w_1 K_1 + w_2 K_2 + ... with weights >= 0 (default: ones)."""

    kernels: Sequence[MatrixKernel]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        kernels = tuple(self.kernels)
        weights = (1.0,) * len(kernels) if self.weights is None else tuple(float(weight) for weight in self.weights)
        if not kernels or len(weights) != len(kernels):
            raise ValueError(f"Sum needs at least one kernel and a weight for each; got {len(kernels)} and {len(weights)}.")
        wrong = [kernel for kernel in kernels if not isinstance(kernel, MatrixKernel)]
        if wrong:
            raise ValueError(f"Sum adds matrix-valued kernels, not {wrong[0]!r}; wrap a scalar kernel in Separable(...).")
        if not all(0 <= weight < np.inf for weight in weights):
            raise ValueError(f"a kernel may only be multiplied by a finite number >= 0, not by {min(weights)}.")
        sizes = {kernel.n_outputs for kernel in kernels} - {None}
        if len(sizes) > 1:
            raise ValueError(f"kernels with different numbers of outputs, {sorted(s for s in sizes if s)}, cannot be added.")
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "weights", weights)
        _strictest(kernels)

    @property
    def n_outputs(self) -> int | None:
        return next((kernel.n_outputs for kernel in self.kernels if kernel.n_outputs is not None), None)

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(itertools.chain.from_iterable(kernel.scalars for kernel in self.kernels))

    @property
    def takes(self) -> Takes:
        return _strictest(self.kernels)

    def held_arrays(self, n_outputs: int) -> int:
        return sum(kernel.held_arrays(n_outputs) for kernel in self.kernels)

    @property
    def can_be_lazy(self) -> bool:
        return all(kernel.can_be_lazy for kernel in self.kernels)

    def resolve(self, X: Any, rng: np.random.Generator) -> Sum:
        return Sum([kernel.resolve(X, rng) for kernel in self.kernels], self.weights)

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        return self._combine([kernel.gram(X, n_outputs, lazy=lazy) for kernel in self.kernels])

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        return self._combine([kernel.cross(X, X_train, n_outputs) for kernel in self.kernels])

    def _combine(self, terms: list[GramOperator]) -> GramOperator:
        weights = self.weights or ()
        scaled = [term if weight == 1 else term * weight for term, weight in zip(terms, weights, strict=True)]
        total = scaled[0]
        for term in scaled[1:]:
            total = total + term
        return total


@dataclass(frozen=True, eq=False)
class Callable(MatrixKernel):
    """A function that returns the (m, m) block K(x, x') for two points of any kind.

    Parameters
    ----------
    function : callable
        ``function(x, x')`` returning an (m, m) array; or, with ``pairwise=False``, ``function(X, Z)`` returning an
        (n, n_train, m, m) array.
    outputs : int
        m.
    pairwise : bool
    """

    function: collections.abc.Callable[..., Any]
    outputs: int
    pairwise: bool = True

    @property
    def n_outputs(self) -> int:
        return self.outputs

    @property
    def takes(self) -> Takes:
        return "objects"

    def resolve(self, X: Any, rng: np.random.Generator) -> Callable:
        return self

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        blocks = _symmetric_pairs(self._block, X, "the matrix kernel") if self.pairwise else self._all_blocks(X, X)
        check_finite(blocks, "the matrix kernel")
        return _symmetric_blocks(blocks)

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        blocks = self._all_blocks(X, X_train)
        check_finite(blocks, "the matrix kernel")
        return operators.Dense(blocks)

    def _block(self, x: Any, z: Any) -> Array:
        block = np.asarray(self.function(x, z), dtype=np.float64)
        if block.shape != (self.outputs, self.outputs):
            raise ValueError(f"the matrix kernel returned shape {block.shape}; expected {(self.outputs, self.outputs)}.")
        return block

    def _all_blocks(self, X: Any, Z: Any) -> Array:
        given = [[self._block(x, z) for z in Z] for x in X] if self.pairwise else self.function(X, Z)
        blocks = np.asarray(given, dtype=np.float64)
        expected = (n_points(X), n_points(Z), self.outputs, self.outputs)
        if blocks.shape != expected:
            raise ValueError(f"the matrix kernel returned shape {blocks.shape}; expected {expected}.")
        return blocks


@dataclass(frozen=True, eq=False)
class Precomputed(MatrixKernel):
    """Blocks given for all pairs of N points, as an (N, N, m, m) array; the data are then row numbers, in one column.

    So training, test and cross-validation splits are all slices of one array.

    Examples
    --------
    >>> import numpy as np
    >>> blocks = np.eye(3)[:, :, None, None] * np.eye(2)
    >>> Precomputed(blocks).gram(np.array([[0], [2]]), 2).shape
    (2, 2, 2)
    """

    blocks: Any

    def __post_init__(self) -> None:
        blocks = np.asarray(self.blocks, dtype=np.float64)
        if blocks.ndim != 4 or blocks.shape[0] != blocks.shape[1] or blocks.shape[2] != blocks.shape[3]:
            raise ValueError(f"precomputed blocks must have the shape (N, N, m, m); theirs is {blocks.shape}.")
        check_finite(blocks, "the precomputed blocks")
        object.__setattr__(self, "blocks", blocks)

    @property
    def n_outputs(self) -> int:
        return int(self.blocks.shape[2])

    @property
    def takes(self) -> Takes:
        return "row numbers"

    def resolve(self, X: Any, rng: np.random.Generator) -> Precomputed:
        return self

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        return _symmetric_blocks(self._between(X, X))

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        return operators.Dense(self._between(X, X_train))

    def _between(self, X: Any, Z: Any) -> Array:
        return np.asarray(self.blocks[np.ix_(self._rows(X), self._rows(Z))])

    def _rows(self, X: Any) -> Array:
        numbers = np.asarray(X)
        rows = numbers.astype(np.intp).ravel()
        if numbers.ndim != 2 or numbers.shape[1] != 1 or np.any(rows != numbers.ravel()):
            raise ValueError(f"with precomputed blocks X is one column of row numbers; its shape is {numbers.shape}.")
        if rows.min(initial=0) < 0 or rows.max(initial=0) >= len(self.blocks):
            raise ValueError(f"X asks for rows {rows.min()} to {rows.max()} of {len(self.blocks)} precomputed blocks.")
        return rows


def _strictest(parts: Sequence[Scalar | MatrixKernel]) -> Takes:
    """What the data of all parts may be."""
    takes = {part.takes for part in parts}
    strictest = min(takes, key=get_args(Takes).index)
    if strictest in ("kernel values", "row numbers") and len(takes) > 1:
        raise ValueError(
            f"a kernel whose data are {strictest} cannot be combined with one whose data are {max(takes - {strictest})}."
        )
    return strictest


def as_scalar(kernel: Any) -> Scalar:
    """A scalar kernel from its name or function."""
    return kernel if isinstance(kernel, Scalar) else Scalar(kernel)


def _symmetric_pairs(function: collections.abc.Callable[[Any, Any], Any], X: Any, name: str) -> Array:
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
        if difference > operators.psd_tolerance(values.dtype) * np.abs(values[j, i]).max():
            raise ValueError(
                f"{name} is not symmetric: for points {i} and {j} it changes by {difference:.3g} when they are exchanged "
                "(up to a transposition for matrix values). Use a symmetric function."
            )
    return values


def _symmetric_blocks(blocks: Array) -> operators.Dense:
    gram = operators.Dense(blocks)
    check_symmetric(gram.to_dense(), "the Gram matrix of the matrix kernel", operators.psd_tolerance(blocks.dtype))
    return gram
