"""Conjugate gradients, preconditioned, for any kernel of any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator

from outmetric.foundation import Array
from outmetric.kernels import GramOperator, Kronecker
from outmetric.problem import Coupling
from outmetric.solvers.direct import Tridiagonal, whitened_gram
from outmetric.solvers.solution import IllConditionedError, MultiplyingSolver, Solution


class LowRank:
    """A symmetric matrix W that is nearly Phi Phi', as a preconditioner: what is missing counts as its smallest eigenvalue."""

    def __init__(self, whitened_features: Array, decomposition: tuple[Array, Array] | None = None) -> None:
        """``decomposition``: eigenvalues and eigenvectors of Phi'Phi, if they are known."""
        spectrum, basis = decomposition or np.linalg.eigh(whitened_features.T @ whitened_features)
        kept = spectrum > len(spectrum) * np.finfo(np.float64).eps * spectrum[-1]
        self.spectrum = spectrum[kept]
        self.basis = whitened_features @ (basis[:, kept] / np.sqrt(self.spectrum))

    def solve_shifted(self, vectors: Array, shifts: Array, factors: Array) -> Array:
        """Column k is about the solution of (shifts[k] I + factors[k] W) x = vectors[:, k]."""
        rest = 1 / (shifts + factors * self.spectrum[0])
        inner = 1 / (shifts + np.multiply.outer(self.spectrum, factors)) - rest
        return np.asarray(vectors * rest + self.basis @ (inner * (self.basis.T @ vectors)))


class ConjugateGradient(MultiplyingSolver):
    """Any kernel of any size, by conjugate gradients on X A^-1 + R' gram(R X) = lambda R^-1 Y, with C = R X.

    The preconditioner knows the whitened Gram matrix W of a separable kernel, or W_k for each output of another, in one of two
    forms. ``features`` Phi with K ~ Phi Phi', of landmarks say, give it approximately and cheaply: for a separable kernel the
    condition number then is that of what the features miss; and ``guess``, the outputs of the map made of the features for given
    L and B, is where each solution starts that has no better place. Otherwise matrices that are held in memory are
    tridiagonalised: for a diagonal kernel the condition number then is at most that of A^-1 scaled to unit diagonal, whatever
    samples, weights and bandwidths. Kernels that are evaluated in row blocks, without features, are solved without preconditioner.
    """

    name = "cg"

    def __init__(
        self,
        gram: GramOperator,
        coupling: Coupling,
        targets: Array,
        *,
        features: Sequence[Array] | None = None,
        decompositions: Sequence[tuple[Array, Array] | None] | None = None,
        guess: Callable[[Array, Array | None], Array] | None = None,
        tolerance: float = 1e-12,
        max_iterations: int = 2000,
        patience: int = 200,
    ) -> None:
        super().__init__(gram, coupling, targets)
        self.patience = patience
        self.guess = guess
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.systems: list[Tridiagonal | LowRank]
        if features is not None:
            known = decompositions or [None] * len(features)
            whitened = (coupling.factor(phi, transpose=True) for phi in features)
            self.systems = [LowRank(phi, decomposition) for phi, decomposition in zip(whitened, known, strict=True)]
        else:
            self.systems = list(self._reduce_blocks())

    def _reduce_blocks(self) -> list[Tridiagonal]:
        factors = self.gram.kronecker_factors()
        if factors is not None:
            blocks = [None if isinstance(factors[0], LinearOperator) else factors[0]]
        else:
            blocks = [self.gram.output_block(output) for output in range(self.gram.shape[2])]
        return [
            whitened_gram(block, self.coupling, f"the kernel matrix of output {output}")
            for output, block in enumerate(blocks)
            if block is not None
        ]

    def _start(self, metric_factor: Array, output_matrix: Array | None) -> Array:
        """X to begin with: C = (lambda Y - P F) A for outputs F that are near, or zero."""
        if self.guess is None:
            return np.zeros_like(self.whitened_targets)
        outputs = self.guess(metric_factor, output_matrix)
        residual = self.whitened_targets - self.coupling.factor(outputs, transpose=True)
        return np.asarray(residual @ (metric_factor.T @ metric_factor))

    def identity_energy(self, n_outputs: int) -> Array | None:
        # A penalty is made of it: two ways to compute it must agree more closely than their maps.
        return self._solve(np.eye(n_outputs), np.eye(n_outputs), None, 1e-3 * self.tolerance).energy

    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        return self._solve(metric_factor, output_matrix, start, self.tolerance)

    def _solve(self, metric_factor: Array, output_matrix: Array | None, start: Solution | None, tolerance: float) -> Solution:
        operator = self.operator(output_matrix)
        factors = operator.kronecker_factors()
        # For a separable kernel products are those of W = R'K R, and serve any output matrix; else those of the whole operator.
        product = operator if factors is None else Kronecker(factors[0], np.eye(len(factors[1])))
        mix = None if factors is None else factors[1]
        inverse_factor = np.linalg.inv(metric_factor)
        inverse_metric = inverse_factor @ inverse_factor.T
        precondition = self._preconditioner(operator, metric_factor)
        squared_targets = float(np.sum(self.whitened_targets**2))

        def smooth(unknowns: Array) -> Array:
            return self.coupling.factor(product.apply(self.coupling.factor(unknowns)), transpose=True)

        def outputs(smoothed: Array) -> Array:
            return smoothed if mix is None else smoothed @ mix

        unknowns = self._start(metric_factor, output_matrix) if start is None else start.coordinates
        known = None if start is None or factors is None else start.image
        image = smooth(unknowns) if known is None else known
        residual = self.whitened_targets - unknowns @ inverse_metric - outputs(image)
        direction = preconditioned = precondition(residual)
        along = np.vdot(residual, preconditioned)
        iterations, least, since = 0, np.inf, 0

        def accepted(norm: float) -> bool:
            return norm <= self.allowed_residual(unknowns, outputs(image), tolerance, certified=output_matrix is not None)

        while not accepted(norm := float(np.linalg.norm(residual))) and iterations < self.max_iterations:
            least, since = (norm, 0) if norm < 0.9 * least else (least, since + 1)
            if since > self.patience:
                raise IllConditionedError(f"conjugate gradients stay at a residual of {norm / np.sqrt(squared_targets):.2g}")
            smoothed = smooth(direction)
            applied = direction @ inverse_metric + outputs(smoothed)
            curvature = np.vdot(direction, applied)
            if curvature <= 0:
                raise ValueError(
                    f"the kernel is not positive semi-definite: a quadratic form of its Gram operator is {curvature:.3g}. Use a "
                    "positive semi-definite kernel."
                )
            step = along / curvature
            unknowns = unknowns + step * direction
            image = image + step * smoothed
            residual = residual - step * applied
            preconditioned = precondition(residual)
            along, previous = np.vdot(residual, preconditioned), along
            direction = preconditioned + (along / previous) * direction
            iterations += 1
        # The recursively updated residual drifts from the true one; report the true one.
        if iterations:
            image = smooth(unknowns)
        remaining = float(np.linalg.norm(self.whitened_targets - unknowns @ inverse_metric - outputs(image)))
        return self.solution(metric_factor, unknowns, image, mix, remaining, iterations)

    def _preconditioner(self, operator: GramOperator, metric_factor: Array) -> Callable[[Array], Array]:
        """The inverse of X -> X A^-1 + R' gram(R X), exact or nearly so if the outputs do not mix."""
        inverse_factor = np.linalg.inv(metric_factor)
        shifts = np.diag(inverse_factor @ inverse_factor.T)
        if not self.systems:
            return lambda residual: np.asarray(residual / shifts)
        factors = operator.kronecker_factors()
        if factors is not None:
            (system,) = self.systems
            # In the eigenbasis of L B L' the outputs do not mix: X A^-1 + W X B = H is Z + W Z L B L' = H L' with X = Z L.
            spectrum, basis = scipy.linalg.eigh(metric_factor @ factors[1] @ metric_factor.T)
            turned = metric_factor.T @ basis
            ones = np.ones(len(spectrum))
            return lambda residual: system.solve_shifted(residual @ turned, ones, spectrum.clip(min=0)) @ turned.T

        def each(residual: Array) -> Array:
            columns = [
                system.solve_shifted(residual[:, k : k + 1], shifts[k : k + 1], np.ones(1)) for k, system in enumerate(self.systems)
            ]
            return np.concatenate(columns, axis=1)

        return each

    def coefficients(self, solution: Solution) -> Array:
        return self.coupling.factor(solution.coordinates)
