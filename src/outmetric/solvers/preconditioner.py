"""Nearly the inverse of shift I + factor W, W = R' K R: from some columns of K, or from all of it in single precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from outmetric.foundation import Array, in_threads
from outmetric.problem import Coupling

# At most one column for so many samples, but that many if there are.
COLUMN_SHARE, LEAST_COLUMNS = 12, 100
# Columns are added in blocks of so many at least, and of this share of those that are there.
BLOCK, GROWTH = 64, 4
# Samples that a thread works on at once.
STRIP = 2048
# Pivots that are this much smaller than the largest of their block add nothing but round-off.
SMALL_PIVOT = 1e-3
# What is missing has eigenvalues of about this size beside the shift when there are enough columns.
MISSING = 1.0
# Round-off of single precision, beside the identity, that does no harm.
SINGLE = 0.1


@dataclass(frozen=True, eq=False)
class Columns:
    """What a preconditioner sees of a kernel matrix: ``of(rows)``, its columns of these numbers as rows, and its diagonal."""

    of: Callable[[Array], Array]
    diagonal: Array


class PartialCholesky:
    """K ~ F F' by a Cholesky factorisation that ends early, and so W ~ Phi Phi' with Phi = R'F.

    Pivots are drawn with probability proportional to what is missing on the diagonal (Chen, Epperly, Tropp and Webber, 2023). What
    one more column takes off the trace is about the leading eigenvalue of what is missing, and so tells when to stop: as soon as
    ``factor`` times it, and times the mean of P, is no more than the shift, or with one column for twelve samples. What is missing
    then counts as a multiple of the identity with its trace.

    Parameters
    ----------
    columns : Columns
        Of K.
    coupling : Coupling
    """

    def __init__(self, columns: Columns, coupling: Coupling) -> None:
        self.columns = columns
        self.coupling = coupling
        self.rng = np.random.default_rng(0)
        self.missing = np.array(columns.diagonal, dtype=np.float64)
        self.trace = float(self.missing.sum())
        n = len(self.missing)
        self.round_off = n * np.finfo(np.float64).eps * float(self.missing.max())
        signs = self.rng.choice([-1.0, 1.0], size=(n, 1))
        self.mean_coupling = float(np.mean(coupling.factor(signs, transpose=True) ** 2))
        self.rate = np.inf
        self.rank = 0
        self.rows = np.empty((min(n, max(n // COLUMN_SHARE, LEAST_COLUMNS)), n))  # Phi', which is F' while columns are added
        self.products = np.empty((0, 0))
        self.factors: dict[float, Array] = {}

    def suit(self, factor: float) -> None:
        """Add columns until they are enough for I + factor W."""
        if self._is_enough(factor):
            return
        for part in self._parts():
            self.rows[part] = self.coupling.solve_factor(self.rows[part].T, transpose=True).T
        while not self._is_enough(factor):
            self._add_block()
        for part in self._parts():
            self.rows[part] = self.coupling.factor(self.rows[part].T, transpose=True).T
        phi = self.rows[: self.rank]
        self.products = np.asarray(sum(in_threads(lambda part: phi[:, part] @ phi[:, part].T, self._strips)))
        self.factors.clear()

    def _is_enough(self, factor: float) -> bool:
        return bool(not self.missing.any() or self.rank == len(self.rows) or factor * self.mean_coupling * self.rate <= MISSING)

    @property
    def _strips(self) -> list[slice]:
        """Columns of the rows, for threads."""
        return [slice(start, start + STRIP) for start in range(0, len(self.missing), STRIP)]

    def _parts(self) -> list[slice]:
        """Some rows at a time, so that nothing is held twice."""
        return [slice(start, min(start + BLOCK, self.rank)) for start in range(0, self.rank, BLOCK)]

    def _add_block(self) -> None:
        size = min(max(BLOCK, self.rank // GROWTH), len(self.rows) - self.rank, int(np.count_nonzero(self.missing)))
        pivots = np.sort(self.rng.choice(len(self.missing), size, replace=False, p=self.missing / self.missing.sum()))
        known = self.rows[: self.rank]
        block = np.array(self.columns.of(pivots), dtype=np.float64)
        weights = np.ascontiguousarray(known[:, pivots].T)

        def subtract(part: slice) -> None:
            block[:, part] -= weights @ known[:, part]

        list(in_threads(subtract, self._strips))
        own = block[:, pivots]
        smallest = max(SMALL_PIVOT * own.diagonal().max(), self.round_off)
        factor, order, rank, _ = lapack.dpstrf((own + own.T) / 2, tol=smallest, lower=1)
        kept = order[:rank] - 1
        if not len(kept):
            self.missing[pivots] = 0  # round-off, after all
            return
        added = scipy.linalg.solve_triangular(factor[: len(kept), : len(kept)], block[kept], lower=True)
        before = self.missing.sum()
        self.missing -= np.einsum("ij,ij->j", added, added)
        self.missing[pivots[kept]] = 0
        self.missing[self.missing <= self.round_off] = 0
        self.rate = (before - self.missing.sum()) / len(kept)
        self.rows[self.rank : self.rank + len(kept)] = added
        self.rank += len(kept)

    def solve_shifted(self, vectors: Array, shifts: Array, factors: Array) -> Array:
        """Column k is about the solution of (shifts[k] I + factors[k] W) x = vectors[:, k]."""
        rest = shifts + factors * self.mean_coupling * self.missing.mean()
        phi = self.rows[: self.rank]
        inner = np.asarray(sum(in_threads(lambda part: phi[:, part] @ vectors[part], self._strips)))
        for k, (level, factor) in enumerate(zip(rest, factors, strict=True)):
            inner[:, k] = 0 if factor == 0 else scipy.linalg.cho_solve((self._factor(level / factor), True), inner[:, k])
        parts = in_threads(lambda part: (vectors[part] - phi[:, part].T @ inner) / rest, self._strips)
        return np.concatenate(list(parts))

    def _factor(self, shift: float) -> Array:
        """The Cholesky factor of shift I + Phi'Phi, for the nearest power of two: a preconditioner need not be exact."""
        floor = len(self.products) * np.finfo(np.float64).eps * float(np.trace(self.products))
        shift = float(2.0 ** np.round(np.log2(max(shift, floor, np.finfo(np.float64).tiny))))
        if shift not in self.factors:
            shifted = self.products.copy()
            shifted[np.diag_indices_from(shifted)] += shift
            self.factors[shift] = scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True)
        return self.factors[shift]


class WholeCholesky:
    """The inverse of I + factor W, for matrices whose spectra fall too slowly for a part of their columns.

    For another factor what it leaves to be solved has eigenvalues between 1 and the ratio of the two, so that few steps of
    conjugate gradients follow. Single precision serves where its round-off is small beside the identity.

    Parameters
    ----------
    matrix : array of shape (n, n)
        K.
    coupling : Coupling
    factor : float
    largest : float
        A bound for the eigenvalues of W.
    """

    def __init__(self, matrix: Array, coupling: Coupling, factor: float, largest: float) -> None:
        self.factor = factor
        self.dtype = np.float32 if np.finfo(np.float32).eps * factor * largest < SINGLE else np.float64
        whole: Any = matrix.astype(self.dtype)
        parts = [slice(start, start + STRIP) for start in range(0, len(whole), STRIP)]
        if coupling.collocation_weight == 0:  # R is a multiple of the identity
            whole *= self.dtype(coupling.regression_weight)
            parts = []
        for part in parts:
            whole[:, part] = coupling.factor(whole[:, part].astype(np.float64), transpose=True)
        for part in parts:
            whole[part] = coupling.factor(whole[part].T.astype(np.float64), transpose=True).T
        whole *= self.dtype(factor)
        whole.flat[:: len(whole) + 1] += 1
        # Of a symmetric matrix the transpose is the same, and in the order that LAPACK overwrites.
        self.lower: Any = scipy.linalg.cholesky(whole.T, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, vectors: Array) -> Array:
        """(I + factor W)^-1 X."""
        # Small right-hand sides would be lost in single precision.
        sizes = np.abs(vectors).max(axis=0)
        scaled = (vectors / sizes).astype(self.dtype)
        return np.asarray(scipy.linalg.cho_solve((self.lower, True), scaled, check_finite=False) * sizes)
