"""Matrix-valued kernels, K(x, x') in R^(m x m), with two verbs: ``gram(X)`` and ``cross(X, X_train)``.

A matrix kernel turns data into a Gram operator (`outmetric.kernels.operators`). Kernels are frozen and compose: ``+`` and
``number *`` work, sums of separable kernels with one output matrix stay separable, and so keep the fast solver.

    Scalar       k(x, x') by name, by a function on any objects, or precomputed (`outmetric.kernels.scalar`);
                 Spectrum and WeightedDegree are such functions, on strings (`outmetric.kernels.strings`)
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outmetric.foundation import (
    Array,
    check_finite,
    check_integer,
    check_psd,
    check_symmetric,
    described,
    n_points,
    psd_tolerance,
    storable,
)
from outmetric.kernels import operators
from outmetric.kernels.base import ScalarKernel, Takes, strictest
from outmetric.kernels.operators import GramOperator
from outmetric.kernels.scalar import as_scalar, symmetric_pairs


@storable(is_kernel=True)
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
    def scalars(self) -> tuple[ScalarKernel, ...]:
        """The scalar kernels it is made of; none if it computes its blocks otherwise."""
        return ()

    @property
    def is_separable(self) -> bool:
        """Whether it is k(x, x') B, so that its Gram operator is a Kronecker product."""
        return False

    @property
    def has_features(self) -> bool:
        """Whether features of its scalar kernels, of landmarks say, are features of it."""
        return False

    @property
    def has_terms(self) -> bool:
        """Whether it is made of scalar kernels alone, so that its maps are sums of them."""
        return bool(self.scalars)

    def terms(self, coefficients: Array) -> Iterator[tuple[ScalarKernel, Array]]:
        """Scalar kernels k and weights W such that f(x) = sum_j K(x, x_j) c_j is the sum over them of k(x)' W."""
        raise ValueError(
            f"a matrix kernel of type {type(self).__name__} cannot become an ONNX graph, since it is no sum of scalar kernels; use "
            "Separable, Diagonal and Sum with scalar kernels that have a name."
        )

    def held_arrays(self, n_outputs: int) -> int:
        """How many (n, n) arrays its Gram operator holds."""
        return len(self.scalars) or n_outputs**2

    @property
    def can_be_lazy(self) -> bool:
        """Whether its Gram operator can be evaluated in row blocks instead of held."""
        return self.has_terms

    @abstractmethod
    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> MatrixKernel:
        """The same kernel with everything that depends on the training points, or is learned from them and ``y``, fixed."""

    def with_scalars(self, change: collections.abc.Callable[[ScalarKernel], ScalarKernel]) -> MatrixKernel:
        """The same kernel with others in the place of its scalar kernels."""
        raise ValueError(f"a matrix kernel of type {type(self).__name__} is not made of scalar kernels, which could be changed.")

    @abstractmethod
    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        """The Gram operator of the training points; ``lazy``: evaluated at every product instead of held, where possible."""

    @abstractmethod
    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        """The operator from coefficients at the training points to outputs at new points."""

    def expansion(self, points: Any, coefficients: Array) -> collections.abc.Callable[[Any], Array]:
        """A function X -> f(x) = sum_j K(x, x_j) c_j for each point of X, for many blocks X."""
        return lambda X: self.cross(X, points, coefficients.shape[1]).apply(coefficients)

    @property
    def supervised(self) -> bool:
        """Whether `resolve` learns from targets as well."""
        return any(scalar.supervised for scalar in self.scalars)

    def __add__(self, other: MatrixKernel) -> MatrixKernel:
        return Sum((self, other))

    def __mul__(self, factor: float) -> MatrixKernel:
        return Sum((self,), weights=(factor,))

    __rmul__ = __mul__


@storable("Separable")
@dataclass(frozen=True, eq=False)
class Separable(MatrixKernel):
    """k(x, x') B with a scalar kernel k and a symmetric positive semi-definite matrix B (default: identity of any size).

    Examples
    --------
    >>> import numpy as np
    >>> from outmetric.kernels import Scalar
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
    def is_separable(self) -> bool:
        return True

    @property
    def has_features(self) -> bool:
        return True

    def terms(self, coefficients: Array) -> Iterator[tuple[ScalarKernel, Array]]:
        yield self.kernel, coefficients if self.output_matrix is None else coefficients @ self.output_matrix

    @property
    def scalars(self) -> tuple[ScalarKernel, ...]:
        return (self.kernel,)

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> Separable:
        return Separable(self.kernel.resolve(X, rng, y), self.output_matrix)

    def with_scalars(self, change: collections.abc.Callable[[ScalarKernel], ScalarKernel]) -> Separable:
        return Separable(change(self.kernel), self.output_matrix)

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        return operators.Kronecker(self.kernel.lazy_gram(X) if lazy else self.kernel.gram(X), self.output_matrix_of(n_outputs))

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        return operators.Kronecker(self.kernel.cross(X, X_train), self.output_matrix_of(n_outputs))

    def expansion(self, points: Any, coefficients: Array) -> collections.abc.Callable[[Any], Array]:
        scalar: ScalarKernel = self.kernel
        return scalar.expansion(points, coefficients @ self.output_matrix_of(coefficients.shape[1]))

    def output_matrix_of(self, n_outputs: int) -> Array:
        """B, of this size if it may have any."""
        return np.eye(n_outputs) if self.output_matrix is None else self.output_matrix


@storable("Diagonal")
@dataclass(frozen=True, eq=False)
class Diagonal(MatrixKernel):
    """diag(k_1(x, x'), ..., k_m(x, x')): every output has a scalar kernel of its own.

    Examples
    --------
    >>> from outmetric.kernels import Scalar
    >>> Diagonal([Scalar("rbf", bandwidth=b) for b in (0.5, 1.0, 2.0)]).n_outputs
    3
    """

    kernels: Sequence[Any]

    def __post_init__(self) -> None:
        if not len(self.kernels):
            raise ValueError("Diagonal needs at least one scalar kernel.")
        object.__setattr__(self, "kernels", tuple(as_scalar(kernel) for kernel in self.kernels))
        strictest(self.kernels)

    @property
    def n_outputs(self) -> int:
        return len(self.kernels)

    @property
    def takes(self) -> Takes:
        return strictest(self.kernels)

    @property
    def scalars(self) -> tuple[ScalarKernel, ...]:
        return tuple(self.kernels)

    @property
    def has_features(self) -> bool:
        return True

    def terms(self, coefficients: Array) -> Iterator[tuple[ScalarKernel, Array]]:
        for output, scalar in enumerate(self.kernels):
            yield scalar, coefficients * (np.arange(coefficients.shape[1]) == output)

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> Diagonal:
        return Diagonal([kernel.resolve(X, rng, y) for kernel in self.kernels])

    def with_scalars(self, change: collections.abc.Callable[[ScalarKernel], ScalarKernel]) -> Diagonal:
        return Diagonal([change(kernel) for kernel in self.kernels])

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        return operators.BlockDiagonal(tuple(k.lazy_gram(X) if lazy else k.gram(X) for k in self.kernels))

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        return operators.BlockDiagonal(tuple(kernel.cross(X, X_train) for kernel in self.kernels))

    def expansion(self, points: Any, coefficients: Array) -> collections.abc.Callable[[Any], Array]:
        parts = [kernel.expansion(points, column) for kernel, column in zip(self.kernels, coefficients.T, strict=True)]
        return lambda X: np.stack([part(X) for part in parts], axis=1)


@storable("KernelSum")
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
            raise ValueError(f"Sum adds matrix-valued kernels, not {described(wrong[0])}; wrap a scalar kernel in Separable(...).")
        if not all(0 <= weight < np.inf for weight in weights):
            raise ValueError(f"a kernel may only be multiplied by a finite number >= 0, not by {min(weights)}.")
        sizes = {kernel.n_outputs for kernel in kernels} - {None}
        if len(sizes) > 1:
            raise ValueError(f"kernels with different numbers of outputs, {sorted(s for s in sizes if s)}, cannot be added.")
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "weights", weights)
        strictest(kernels)

    @property
    def n_outputs(self) -> int | None:
        return next((kernel.n_outputs for kernel in self.kernels if kernel.n_outputs is not None), None)

    @property
    def scalars(self) -> tuple[ScalarKernel, ...]:
        return tuple(itertools.chain.from_iterable(kernel.scalars for kernel in self.kernels))

    @property
    def takes(self) -> Takes:
        return strictest(self.kernels)

    def held_arrays(self, n_outputs: int) -> int:
        return sum(kernel.held_arrays(n_outputs) for kernel in self.kernels)

    @property
    def has_terms(self) -> bool:
        return all(kernel.has_terms for kernel in self.kernels)

    def terms(self, coefficients: Array) -> Iterator[tuple[ScalarKernel, Array]]:
        for part, weight in zip(self.kernels, self.weights or (), strict=True):
            yield from ((scalar, weight * weights) for scalar, weights in part.terms(coefficients))

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> Sum:
        return Sum([kernel.resolve(X, rng, y) for kernel in self.kernels], self.weights)

    def with_scalars(self, change: collections.abc.Callable[[ScalarKernel], ScalarKernel]) -> Sum:
        return Sum([kernel.with_scalars(change) for kernel in self.kernels], self.weights)

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        return self._combine([kernel.gram(X, n_outputs, lazy=lazy) for kernel in self.kernels])

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        return self._combine([kernel.cross(X, X_train, n_outputs) for kernel in self.kernels])

    def expansion(self, points: Any, coefficients: Array) -> collections.abc.Callable[[Any], Array]:
        scaled = [weight * coefficients for weight in self.weights or ()]
        parts = [kernel.expansion(points, own) for kernel, own in zip(self.kernels, scaled, strict=True)]
        return lambda X: np.asarray(sum(part(X) for part in parts))

    def _combine(self, terms: list[GramOperator]) -> GramOperator:
        weights = self.weights or ()
        scaled = [term if weight == 1 else term * weight for term, weight in zip(terms, weights, strict=True)]
        total = scaled[0]
        for term in scaled[1:]:
            total = total + term
        return total


@storable("KernelCallable")
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

    def __post_init__(self) -> None:
        check_integer("outputs", self.outputs)
        if not callable(self.function):
            raise ValueError(f"a matrix-valued kernel is a function, not {described(self.function)}.")

    @property
    def n_outputs(self) -> int:
        return self.outputs

    @property
    def takes(self) -> Takes:
        return "objects"

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> Callable:
        return self

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        blocks = symmetric_pairs(self._block, X, "the matrix kernel") if self.pairwise else self._all_blocks(X, X)
        check_finite(blocks, "the matrix kernel")
        return _symmetric_blocks(blocks)

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        blocks = self._all_blocks(X, X_train)
        check_finite(blocks, "the matrix kernel")
        return operators.DenseBlocks(blocks)

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


@storable("Precomputed")
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

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> Precomputed:
        return self

    def gram(self, X: Any, n_outputs: int, *, lazy: bool = False) -> GramOperator:
        return _symmetric_blocks(self._between(X, X))

    def cross(self, X: Any, X_train: Any, n_outputs: int) -> GramOperator:
        return operators.DenseBlocks(self._between(X, X_train))

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


def _symmetric_blocks(blocks: Array) -> operators.DenseBlocks:
    gram = operators.DenseBlocks(blocks)
    check_symmetric(gram.to_dense(), "the Gram matrix of the matrix kernel", psd_tolerance(blocks.dtype))
    return gram
