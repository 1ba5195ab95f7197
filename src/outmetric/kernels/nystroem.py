"""Nystroem features: phi(x) in R^r with phi(x)'phi(x') ~ k(x, x'), exact on p landmarks.

With the landmarks' kernel matrix K_zz = U diag(mu) U' and k_z(x) the kernel values between x and the landmarks,
phi(x) = Q' k_z(x) with Q = U diag(mu)^(-1/2), where eigenvalues lost in round-off are left out. A function f(x) = phi(x)'theta has
the norm |theta|, and is k_z(x)'C with C = Q theta: only landmarks and coefficients need to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.optimize
from sklearn.utils import gen_batches

from outmetric.foundation import Array, check_psd, psd_tolerance
from outmetric.kernels.base import ScalarKernel

# Whitening each row takes twice the time of the products. In single precision it is left until after the products, whose round-off
# then hides eigenvalues of K_zz below a small share of the largest among the columns. So the leading directions are turned out of
# the way of the others, and single precision is used only if what is left of the spectrum lies within this range.
RANGE, CLEAR_RANGE, LEADING = 5e-4, 1e-2, 64
# Fewer landmarks are fast enough in double precision.
SINGLE_LANDMARKS = 512
# Rows of a block that are turned at once.
STRIP = 512


@dataclass(frozen=True, eq=False)
class Landmarks:
    """One scalar kernel with its landmarks.

    Attributes
    ----------
    kernel : ScalarKernel
        With its bandwidth fixed.
    points : array or sparse matrix of shape (p, d), or p objects; for a precomputed kernel the p column numbers
    roots : array of shape (r,)
        Square roots of the eigenvalues that were kept, largest first.
    basis : array of shape (p, r)
        Their eigenvectors.
    turn : tuple of arrays (V, T), or None
        None: rows are whitened as they are evaluated. Otherwise they are multiplied by the orthogonal I - V T V', which takes the
        leading eigenvectors to the first axes, and only products of rows are whitened.
    """

    kernel: ScalarKernel
    points: Any
    roots: Array
    basis: Array
    dtype: np.dtype[Any]
    turn: tuple[Array, Array] | None

    @classmethod
    def make(cls, kernel: ScalarKernel, points: Any, gram: Array, *, single: bool) -> Landmarks:
        """Landmarks with their kernel matrix; ``single``: rows may be evaluated in single precision where that is worth while."""
        gram = np.asarray(gram, dtype=np.float64)
        spectrum, basis = np.linalg.eigh((gram + gram.T) / 2)
        if spectrum[0] < -psd_tolerance(gram.dtype) * abs(spectrum[-1]):
            check_psd(gram, "the kernel matrix of the landmarks")
        if not spectrum[-1] > 0:
            raise ValueError("the kernel is zero on all landmarks; change the kernel or its bandwidth, or choose other landmarks.")
        kept = spectrum > len(gram) * np.finfo(np.float64).eps * spectrum[-1]
        turn = None
        if single and len(gram) >= SINGLE_LANDMARKS and spectrum[0] >= RANGE * spectrum[-1 - LEADING]:
            leading = int(np.clip(np.sum(CLEAR_RANGE * spectrum > spectrum[0]), 1, LEADING))
            turn = _block_reflector(basis[:, ::-1][:, :leading])
        dtype = np.dtype(np.float64 if turn is None else np.float32)
        return cls(kernel, points, np.sqrt(spectrum[kept])[::-1].copy(), basis[:, kept][:, ::-1].copy(), dtype, turn)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # not what was cached

    @property
    def rank(self) -> int:
        return len(self.roots)

    @property
    def dropped(self) -> int:
        """How many directions of the landmarks were lost in round-off."""
        return len(self.basis) - self.rank

    @property
    def width(self) -> int:
        """Columns of an evaluated block."""
        return self.rank if self.turn is None else len(self.basis)

    @cached_property
    def whitening(self) -> Array:
        """Q of shape (p, r)."""
        return np.asarray(self.basis / self.roots)

    @cached_property
    def _single(self) -> tuple[Array, ...]:
        """What rows are multiplied by, in the precision of blocks."""
        matrices = (self.whitening,) if self.turn is None else (self.turn[0] @ self.turn[1], self.turn[0])
        return tuple(np.asfortranarray(matrix, dtype=self.dtype) for matrix in matrices)

    @cached_property
    def _turned_whitening(self) -> Array:
        assert self.turn is not None
        reflectors, factor = self.turn
        return np.asarray(self.whitening - reflectors @ (factor.T @ (reflectors.T @ self.whitening)))

    @cached_property
    def _values(self) -> Any:
        return self.kernel.evaluator(self.points, self.dtype)

    def evaluate(self, X: Any) -> Array:
        """A block of rows: features, or turned kernel values if whitening is left to `whiten`."""
        values = np.require(self._values(X), self.dtype, "W")
        if self.turn is None:
            return np.asarray(values @ self._single[0])
        first, second = self._single
        for strip in gen_batches(len(values), STRIP):  # a temporary array of all rows costs more than the product
            values[strip] -= (values[strip] @ first) @ second.T
        return values

    def values(self, X: Any) -> Array:
        """k_z(x) for each row, shape (n, p), in double precision."""
        return np.asarray(self._values(X), dtype=np.float64)

    def features(self, X: Any) -> Array:
        """phi(x) for each row, shape (n, r), in double precision."""
        return np.asarray(self.values(X) @ self.whitening)

    def whiten(self, product: Array) -> Array:
        """What is left to do to the rows of an array that has one for each column of a block."""
        return product if self.turn is None else self._turned_whitening.T @ product

    def coefficients(self, parameters: Array) -> Array:
        """C = Q theta."""
        return np.asarray(self.whitening @ parameters)

    def parameters(self, coefficients: Array) -> Array:
        """Theta of f = k_z'C."""
        return np.asarray(self.roots[:, None] * (self.basis.T @ coefficients))


@dataclass(frozen=True, eq=False)
class Features:
    """The features of a matrix kernel: those of its scalar kernels, side by side."""

    parts: tuple[Landmarks, ...]

    @property
    def rank(self) -> int:
        return sum(part.rank for part in self.parts)

    @property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.parts[0].dtype

    def slices(self, *, raw: bool = False) -> list[slice]:
        """Where each part's features are; ``raw``: in an evaluated block."""
        ends = np.cumsum([part.width if raw else part.rank for part in self.parts]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def evaluate(self, X: Any) -> list[Array]:
        return [part.evaluate(X) for part in self.parts]

    def features(self, X: Any) -> Array:
        return np.concatenate([part.features(X) for part in self.parts], axis=1)

    def whiten(self, product: Array) -> Array:
        """Whiten the rows of an array with one row for each column of a block."""
        if all(part.turn is None for part in self.parts):
            return product
        places = self.slices(raw=True)
        return np.concatenate([part.whiten(product[place]) for part, place in zip(self.parts, places, strict=True)])

    def whiten_both(self, product: Array) -> Array:
        """Whiten a symmetric product of blocks."""
        return self.whiten(self.whiten(product).T)


def _block_reflector(columns: Array) -> tuple[Array, Array]:
    """(V, T) such that I - V T V' is orthogonal and its first columns span those given, which are orthonormal."""
    (packed, scales), _ = scipy.linalg.qr(columns, mode="raw")
    reflectors = np.tril(packed, -1)
    reflectors[np.diag_indices(len(scales))] = 1
    factor = np.diag(scales)
    for k in range(1, len(scales)):
        factor[:k, k] = -scales[k] * factor[:k, :k] @ (reflectors[:, :k].T @ reflectors[:, k])
    return reflectors, factor
