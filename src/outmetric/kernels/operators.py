"""Structured Gram operators: the linear map C -> F with F_i = sum_j K(x_i, x_j) c_j, on arrays alone.

Coefficients and outputs are arrays of shape (samples, outputs); ``C.ravel()`` is the paper's stacked vector c, so
``to_dense()`` of an operator is the paper's block matrix. Structure is a type: a Kronecker product keeps its two factors,
and what can be done to the factors is done to them.

A new operator writes ``shape`` and ``apply``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import gen_batches

from outmetric.foundation import Array, in_threads

# A scalar Gram matrix: held in memory, or evaluated in row blocks each time it is multiplied.
SampleGram = Array | LinearOperator
# Rows and columns of a tile, which stays in the processor's cache while it is worked on.
TILE = 256
# Into how many sums a symmetric product is split.
PARTS = 8


class GramOperator(ABC):
    """The Gram operator of a matrix-valued kernel between two samples."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(rows, columns, outputs): the operator maps (columns, outputs) arrays to (rows, outputs) arrays."""

    @abstractmethod
    def apply(self, coefficients: Array) -> Array:
        """F with F_i = sum_j K(x_i, x_j) c_j."""

    def to_dense(self) -> Array:
        """The (rows * outputs, columns * outputs) matrix of the operator on ``C.ravel()``."""
        rows, columns, outputs = self.shape
        units = np.eye(columns * outputs).reshape(-1, columns, outputs)
        return np.stack([self.apply(unit).ravel() for unit in units], axis=1).reshape(rows * outputs, columns * outputs)

    def trace(self) -> float:
        """The sum of its eigenvalues; NaN if entries are not held in memory."""
        blocks = [self.output_block(output) for output in range(self.shape[2])]
        return float(sum(np.nan if block is None else np.trace(block) for block in blocks))

    def kronecker_factors(self) -> tuple[SampleGram, Array] | None:
        """(sample_gram, output_matrix) if the operator is C -> sample_gram C output_matrix, else None."""
        return None

    def output_block(self, output: int) -> Array | None:
        """The (rows, columns) matrix from coefficient column ``output`` to output column ``output``.

        None if the operator does not hold its entries in memory.
        """
        rows, columns, outputs = self.shape
        return self.to_dense().reshape(rows, outputs, columns, outputs)[:, output, :, output]

    def weighted(self, roots: Array) -> GramOperator:
        """K(x_i, x_j) times roots[i] roots[j]: the operator of a sample that counts as often as the squares of the roots say."""
        return Weighted(self, roots)

    def __add__(self, other: GramOperator) -> GramOperator:
        if self.shape != other.shape:
            raise ValueError(f"Gram operators of shapes {self.shape} and {other.shape} cannot be added.")
        mine, others = self.kronecker_factors(), other.kronecker_factors()
        if mine is not None and others is not None and np.array_equal(mine[1], others[1]):
            return Kronecker(mine[0] + others[0], mine[1])
        return OperatorSum((self, other))

    def __mul__(self, factor: float) -> GramOperator:
        return Scaled(self, float(factor))

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class Kronecker(GramOperator):
    """C -> sample_gram C output_matrix: the Gram operator of a separable kernel k(x, x') B."""

    sample_gram: SampleGram
    output_matrix: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        return (*self.sample_gram.shape, len(self.output_matrix))

    def apply(self, coefficients: Array) -> Array:
        # In the coefficients' dtype: a float64 factor here would turn a large float32 Gram matrix into a float64 copy.
        mixed = (coefficients @ self.output_matrix).astype(coefficients.dtype, copy=False)
        return np.asarray(self.sample_gram @ mixed)

    def to_dense(self) -> Array:
        return np.kron(_entries(self.sample_gram), self.output_matrix)

    def trace(self) -> float:
        entries = np.nan if isinstance(self.sample_gram, LinearOperator) else np.trace(self.sample_gram)
        return float(entries * np.trace(self.output_matrix))

    def kronecker_factors(self) -> tuple[SampleGram, Array]:
        return self.sample_gram, self.output_matrix

    def output_block(self, output: int) -> Array | None:
        if isinstance(self.sample_gram, LinearOperator):
            return None
        return np.asarray(self.sample_gram * self.output_matrix[output, output])

    def weighted(self, roots: Array) -> GramOperator:
        return Kronecker(weighted_gram(self.sample_gram, roots), self.output_matrix)

    def __mul__(self, factor: float) -> GramOperator:
        return Kronecker(self.sample_gram, factor * self.output_matrix)

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class BlockDiagonal(GramOperator):
    """Column k of F is sample_grams[k] times column k of C: the Gram operator of diag(k_1, ..., k_m)."""

    sample_grams: tuple[SampleGram, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        return (*self.sample_grams[0].shape, len(self.sample_grams))

    def apply(self, coefficients: Array) -> Array:
        columns = [gram @ column for gram, column in zip(self.sample_grams, coefficients.T, strict=True)]
        return np.stack(columns, axis=1)

    def to_dense(self) -> Array:
        rows, columns, outputs = self.shape
        dense = np.zeros((rows, outputs, columns, outputs))
        for output, gram in enumerate(self.sample_grams):
            dense[:, output, :, output] = _entries(gram)
        return dense.reshape(rows * outputs, columns * outputs)

    def output_block(self, output: int) -> Array | None:
        gram = self.sample_grams[output]
        return None if isinstance(gram, LinearOperator) else gram

    def weighted(self, roots: Array) -> GramOperator:
        return BlockDiagonal(tuple(weighted_gram(gram, roots) for gram in self.sample_grams))


@dataclass(frozen=True, eq=False)
class DenseBlocks(GramOperator):
    """The general case: ``blocks[i, j]`` is the (outputs, outputs) matrix K(x_i, x_j)."""

    blocks: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        rows, columns, outputs, _ = self.blocks.shape
        return rows, columns, outputs

    def apply(self, coefficients: Array) -> Array:
        return np.asarray(np.einsum("ijkl,jl->ik", self.blocks, coefficients, optimize=True))

    def to_dense(self) -> Array:
        rows, columns, outputs = self.shape
        return self.blocks.transpose(0, 2, 1, 3).reshape(rows * outputs, columns * outputs)

    def output_block(self, output: int) -> Array:
        return np.ascontiguousarray(self.blocks[:, :, output, output])


@dataclass(frozen=True, eq=False)
class OperatorSum(GramOperator):
    """The sum of operators of one shape."""

    terms: tuple[GramOperator, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.terms[0].shape

    def apply(self, coefficients: Array) -> Array:
        return np.asarray(np.sum([term.apply(coefficients) for term in self.terms], axis=0))

    def to_dense(self) -> Array:
        return np.asarray(np.sum([term.to_dense() for term in self.terms], axis=0))

    def output_block(self, output: int) -> Array | None:
        blocks = [block for term in self.terms if (block := term.output_block(output)) is not None]
        return np.sum(blocks, axis=0) if len(blocks) == len(self.terms) else None


@dataclass(frozen=True, eq=False)
class Scaled(GramOperator):
    """A number times an operator."""

    operator: GramOperator
    factor: float

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.operator.shape

    def apply(self, coefficients: Array) -> Array:
        return self.factor * self.operator.apply(coefficients)

    def to_dense(self) -> Array:
        return self.factor * self.operator.to_dense()

    def output_block(self, output: int) -> Array | None:
        block = self.operator.output_block(output)
        return None if block is None else self.factor * block


@dataclass(frozen=True, eq=False)
class Weighted(GramOperator):
    """An operator between roots of weights, (samples,)."""

    operator: GramOperator
    roots: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.operator.shape

    def apply(self, coefficients: Array) -> Array:
        return np.asarray(self.roots[:, None] * self.operator.apply(self.roots[:, None] * coefficients))

    def to_dense(self) -> Array:
        return weighted_matrix(self.operator.to_dense(), np.repeat(self.roots, self.shape[2]))

    def output_block(self, output: int) -> Array | None:
        block = self.operator.output_block(output)
        return None if block is None else weighted_matrix(block, self.roots)


def weighted_gram(gram: SampleGram, roots: Array) -> SampleGram:
    """roots[i] gram[i, j] roots[j]."""
    if isinstance(gram, LinearOperator):

        def multiply(other: Array) -> Array:
            scales = roots.reshape(-1, *[1] * (other.ndim - 1))
            return np.asarray(scales * (gram @ (scales * other)))

        return LinearOperator(shape=gram.shape, matvec=multiply, matmat=multiply, dtype=gram.dtype)
    return weighted_matrix(gram, roots)


def weighted_matrix(gram: Array, roots: Array) -> Array:
    """The same for a matrix."""
    weighted = gram * roots.astype(gram.dtype)
    weighted *= roots.astype(gram.dtype)[:, None]
    return np.asarray(weighted)


def row_blocks(rows: Callable[[slice], Array], shape: tuple[int, int], block_rows: int) -> LinearOperator:
    """A matrix that is never held whole: ``rows(part)`` evaluates the rows in ``part``, anew for every product."""
    parts = list(gen_batches(shape[0], block_rows))

    def multiply(other: Array) -> Array:
        return np.concatenate(list(in_threads(lambda part: rows(part) @ other, parts)))

    # scipy would otherwise learn the dtype by one multiplication, as dear as a whole pass over the kernel.
    return LinearOperator(shape=shape, matvec=multiply, matmat=multiply, dtype=np.dtype(np.float64))


def symmetric_matrix(tile: Callable[[slice, slice], Array], n: int, dtype: Any) -> Array:
    """The symmetric (n, n) matrix whose part in some rows and columns is ``tile(rows, columns)``; one half is computed, in threads.

    Nothing but the result is as large as it.
    """
    result = np.empty((n, n), dtype=dtype)

    def fill(places: tuple[slice, slice]) -> None:
        rows, columns = places
        values = tile(rows, columns)
        result[rows, columns] = values
        if rows != columns:
            result[columns, rows] = values.T

    for _ in in_threads(fill, _tiles(n)):
        pass
    return result


def symmetric_half(tile: Callable[[slice, slice], Array], n: int) -> Array:
    """The entries above the diagonal of such a matrix, in any order."""

    def part(places: tuple[slice, slice]) -> Array:
        rows, columns = places
        values = tile(rows, columns)
        return values.ravel() if rows != columns else values[np.triu_indices(len(values), 1)]

    return np.concatenate(list(in_threads(part, _tiles(n))))


def symmetric_product(gram: SampleGram, vectors: Array) -> Array:
    """K X for a symmetric matrix K: one half is read, once, in threads, since it takes longer to read K than to multiply it."""
    n = gram.shape[0]
    if isinstance(gram, LinearOperator) or n <= 2 * TILE:
        return np.asarray(gram @ vectors)
    vectors = np.ascontiguousarray(vectors)

    def part(tiles: list[tuple[slice, slice]]) -> Array:
        total = np.zeros_like(vectors)
        for rows, columns in tiles:
            values = gram[rows, columns]
            total[rows] += values @ vectors[columns]
            if rows != columns:
                total[columns] += values.T @ vectors[rows]
        return total

    tiles = list(_tiles(n))
    # Always as many parts, so that sums do not depend on the number of threads.
    return np.asarray(sum(in_threads(part, [tiles[k::PARTS] for k in range(PARTS)])))


def _tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of tiles that cover the upper half of an (n, n) matrix."""
    for start in range(0, n, TILE):
        rows = slice(start, min(start + TILE, n))
        yield rows, rows
        for other in range(rows.stop, n, TILE):
            yield rows, slice(other, min(other + TILE, n))


def _entries(gram: SampleGram) -> Array:
    return np.asarray(gram @ np.eye(gram.shape[1])) if isinstance(gram, LinearOperator) else gram
