"""Solvers that factorise: one reduction to tridiagonal form for all iterations, or a Cholesky factorisation in each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.linalg import lapack
from scipy.sparse.linalg import LinearOperator

from outmetric.foundation import (
    Array,
    apply_reflectors,
    check_psd,
    psd_tolerance,
    require_memory,
    tridiagonal_eigensystem,
    tridiagonalise,
)
from outmetric.kernels import GramOperator, Kronecker
from outmetric.problem import Coupling
from outmetric.solvers.solution import IllConditionedError, SampleSolver, Solution


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """A symmetric matrix W = Q T Q' with T tridiagonal and Q a product of reflectors.

    Every (I + b W)^-1 then costs O(n), as with an eigendecomposition, at less than half its price: eigenvectors are never needed.
    """

    reflectors: Array
    scales: Array
    diagonal: Array
    off_diagonal: Array

    @classmethod
    def reduce(cls, matrix: Array) -> Tridiagonal:
        """Reduce a symmetric matrix, which is overwritten."""
        return cls(*tridiagonalise(matrix))

    def extreme_eigenvalues(self) -> tuple[float, float]:
        n = len(self.diagonal)
        ends = [
            scipy.linalg.eigh_tridiagonal(self.diagonal, self.off_diagonal, True, select="i", select_range=(k, k))[0]
            for k in (0, n - 1)
        ]
        return float(ends[0]), float(ends[1])

    def rotate(self, vectors: Array, *, back: bool = False) -> Array:
        """Q' X, or Q X with ``back``."""
        return apply_reflectors(self.reflectors, self.scales, vectors, transpose=not back)

    def multiply(self, vectors: Array) -> Array:
        """T X."""
        product = self.diagonal[:, None] * vectors
        product[:-1] += self.off_diagonal[:, None] * vectors[1:]
        product[1:] += self.off_diagonal[:, None] * vectors[:-1]
        return product

    def solve_shifted(self, vectors: Array, shifts: Array, factors: Array) -> Array:
        """Column k of the result solves (shifts[k] I + factors[k] W) x = vectors[:, k]."""
        return self.rotate(self.solve_rotated(self.rotate(vectors), shifts, factors), back=True)

    def solve_rotated(self, vectors: Array, shifts: Array, factors: Array) -> Array:
        """Column k of the result solves (shifts[k] I + factors[k] T) x = vectors[:, k]."""
        solved = np.empty_like(vectors)
        for k, (shift, factor) in enumerate(zip(shifts, factors, strict=True)):
            diagonal = shift + factor * self.diagonal
            *_, column, info = lapack.dptsv(diagonal, factor * self.off_diagonal, vectors[:, k : k + 1])
            if info > 0:
                raise IllConditionedError(f"shift {shift:.3g} + {factor:.3g} W is not positive definite")
            solved[:, k] = column[:, 0]
        return solved


@dataclass(frozen=True, eq=False)
class Eigensystem:
    """A symmetric matrix W = V diag(spectrum) V' with V = Q Z, where W = Q T Q' and T = Z diag(spectrum) Z'.

    V itself, a third of the work, is never made: for fewer vectors than rows its two factors are quicker.
    """

    reduced: Tridiagonal
    spectrum: Array
    rotation: Array

    @classmethod
    def of(cls, matrix: Array) -> Eigensystem:
        """Of a symmetric matrix, which is overwritten; eigenvalues ascend."""
        reduced = Tridiagonal.reduce(matrix)
        return cls(reduced, *tridiagonal_eigensystem(reduced.diagonal, reduced.off_diagonal))

    def among(self, kept: Array) -> Eigensystem:
        """Of some eigenvalues only."""
        return replace(self, spectrum=self.spectrum[kept], rotation=self.rotation[:, kept])

    def rotate(self, vectors: Array, *, back: bool = False) -> Array:
        """V' X, or V X with ``back``."""
        if back:
            return self.reduced.rotate(self.rotation @ vectors, back=True)
        return np.asarray(self.rotation.T @ self.reduced.rotate(vectors))


class TridiagonalSolver(SampleSolver):
    """Separable kernels, by one tridiagonalisation for all iterations; afterwards a step costs O(n m^2).

    With W = R' K R and L B L' = U diag(b) U', column k of Z U solves (I + b_k W) z = (lambda R^-1 Y L' U)_k.
    """

    name = "spectral"

    def __init__(self, gram: GramOperator, coupling: Coupling, targets: Array) -> None:
        super().__init__(gram, coupling, targets)
        factors = gram.kronecker_factors()
        if factors is None or isinstance(factors[0], LinearOperator):
            raise ValueError("solver='spectral' needs a separable kernel k(x, x') B held in memory; use 'auto', 'dense' or 'cg'.")
        self.output_matrix = factors[1]
        self.system = whitened_gram(factors[0], coupling, "the kernel matrix")
        self.rotated_targets = self.system.rotate(self.whitened_targets)

    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        output_matrix = self.output_matrix if output_matrix is None else output_matrix
        spectrum, basis = scipy.linalg.eigh(metric_factor @ output_matrix @ metric_factor.T)
        spectrum = spectrum.clip(min=0)  # L B L' is semi-definite by construction; this cuts round-off only
        turned = metric_factor.T @ basis
        columns = self.system.solve_rotated(self.rotated_targets @ turned, np.ones(len(spectrum)), spectrum)
        image = self.system.multiply(columns)
        energy = turned @ (columns.T @ image) @ turned.T
        whitened = columns @ basis.T
        return Solution(
            coordinates=whitened,
            metric_factor=metric_factor,
            scatter=self.scatter(np.linalg.solve(metric_factor, whitened.T).T),
            squared_norm=float(np.vdot(output_matrix, energy)),
            energy=energy,
            # R'F = W Z L B, in the basis that the columns are in.
            coupled_norm=float(np.sum((image @ (turned.T @ output_matrix)) ** 2)),
        )

    def coefficients(self, solution: Solution) -> Array:
        return self.coupling.factor(self.system.rotate(solution.coordinates, back=True) @ solution.metric_factor)


class CholeskySolver(SampleSolver):
    """Any kernel with few unknowns, by a Cholesky factorisation of the whole (n m, n m) system in every step."""

    name = "dense"

    def __init__(self, gram: GramOperator, coupling: Coupling, targets: Array) -> None:
        super().__init__(gram, coupling, targets)
        n, _, m = gram.shape
        require_memory(3 * 8.0 * (n * m) ** 2, f"solver='dense' with {n} samples and {m} outputs", "use solver='cg'.")
        factors = gram.kronecker_factors()
        if factors is not None:
            sample = Kronecker(factors[0], np.eye(1)).to_dense()
            self.whitened_gram = coupling.sandwich(sample)
        else:
            half = coupling.factor(gram.to_dense().reshape(n, -1), transpose=True).reshape(n * m, n * m).T
            self.whitened_gram = coupling.factor(half.reshape(n, -1), transpose=True).reshape(n * m, n * m).T
        check_psd(gram.to_dense() if factors is None else sample, "the kernel matrix")

    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        operator = self.operator(output_matrix)
        factors = operator.kronecker_factors()
        n, _, m = operator.shape
        if factors is not None:
            matrix = np.kron(self.whitened_gram, metric_factor @ factors[1] @ metric_factor.T)
        else:
            blocks = self.whitened_gram.reshape(n, m, n, m)
            matrix = np.einsum("ka,iajb,lb->ikjl", metric_factor, blocks, metric_factor, optimize=True).reshape(n * m, n * m)
        matrix[np.diag_indices_from(matrix)] += 1
        try:
            factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)
        except np.linalg.LinAlgError as error:
            raise IllConditionedError(str(error)) from error
        whitened = scipy.linalg.cho_solve(factor, (self.whitened_targets @ metric_factor.T).ravel()).reshape(n, m)
        coefficients = self.coupling.factor(whitened @ metric_factor)
        outputs = operator.apply(coefficients)
        return Solution(
            coordinates=coefficients,
            metric_factor=metric_factor,
            scatter=self.scatter(np.linalg.solve(metric_factor, whitened.T).T),
            squared_norm=float(np.vdot(coefficients, outputs)),
            energy=_energy(operator, coefficients),
            coupled_norm=float(np.vdot(outputs, self.coupling.apply(outputs))),
        )

    def coefficients(self, solution: Solution) -> Array:
        return solution.coordinates


def whitened_gram(gram: Array, coupling: Coupling, name: str) -> Tridiagonal:
    """R' K R in tridiagonal form; it has the inertia of K, so K is tested for semi-definiteness on the way."""
    system = Tridiagonal.reduce(coupling.sandwich(np.asarray(gram, dtype=np.float64)))
    smallest, largest = system.extreme_eigenvalues()
    if smallest < -psd_tolerance(gram.dtype) * abs(largest):
        check_psd(gram, name)  # speaks of K itself, and may find its own eigenvalues within round-off
    return system


def _energy(operator: GramOperator, coefficients: Array) -> Array | None:
    factors = operator.kronecker_factors()
    return None if factors is None else np.asarray(coefficients.T @ (factors[0] @ coefficients))
