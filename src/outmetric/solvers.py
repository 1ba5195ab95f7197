"""The coefficient step of both models: for a fixed metric, the exact minimiser over f.

The problem: given the Gram operator, the coupling P = R R', targets Y and the metric A = L'L, find C with

    C + P gram(C) A = lambda Y A.                                       (eq:solution_c_general, eq:specialized_form_solve_C_1)

In the whitened residual Z, with C = R Z L, it is symmetric with all eigenvalues >= 1 and needs no (pseudo-)inverse:

    Z + R' gram(R Z L) L' = lambda R^-1 Y L' .

Model 2 is the case L = I with the operator C -> K C B. Three solvers, one face: the constructor prepares what survives the
iterations, ``solve`` returns a `Solution` for given factors, ``coefficients`` computes C from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import scipy.linalg
from scipy.linalg import lapack
from scipy.sparse.linalg import LinearOperator

from outmetric.memory import require_memory
from outmetric.objective import Terms, coefficient_residual, map_terms, residual_scatter
from outmetric.operators import Array, GramOperator, Kronecker, check_psd, psd_tolerance
from outmetric.targets import Coupling

# Up to this many unknowns (samples x outputs) one Cholesky factorisation per iteration is cheaper than anything clever.
DENSE_UNKNOWNS = 1500
# From this many samples on, conjugate gradients that start from a good approximation overtake the reduction of a whole matrix.
SPECTRAL_SAMPLES = 4000


class Status(Enum):
    """How a fit ended; the value is advice for a person."""

    CONVERGED = "the optimality measure is below tol."
    ITERATION_LIMIT = "max_iter was reached before tol; raise max_iter or tol."
    STALLED = (
        "round-off ends all progress before tol is reached, so the result may be far from the optimum. Standardise the features; "
        "are some points, groups or bounds apart by many orders of magnitude?"
    )
    DIVERGED = (
        "the objective falls without bound, as the paper's model 1 does wherever the kernel can fit the targets; "
        "the last bounded iterate was kept. Set metric_ridge > 0."
    )
    ILL_CONDITIONED = (
        "round-off spoils the solution at these weights and this scale of the kernel, so the result is not exact. "
        "Standardise the features or rescale the kernel, lower regression_weight and collocation_weight, or raise metric_ridge."
    )


class IllConditionedError(np.linalg.LinAlgError):
    """A coefficient step lost positive definiteness to round-off."""


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of one coefficient step.

    Attributes
    ----------
    coordinates : array of shape (n, m)
        The solution in the solver's own basis; `Solver.coefficients` computes C from it.
    metric_factor : array of shape (m, m)
        The L it was solved for.
    scatter : array of shape (m, m)
        M(F), the residual scatter.
    squared_norm : float
        |f|^2 = <C, gram(C)>.
    energy : array of shape (m, m) or None
        C'K C, for separable kernels.
    outputs : array of shape (n, m) or None
        F, where it was computed by its definition.
    image : array of shape (n, m) or None
        W X, which the next step of an iterative solver can begin with.
    iterations : int
        1 for direct solvers.
    residual, relative_residual : float
        Norm of what is left of the whitened equation, and the same divided by that of its right-hand side. Direct solvers say 0;
        `Solver.evaluate` measures it.
    """

    coordinates: Array
    metric_factor: Array
    scatter: Array
    squared_norm: float
    energy: Array | None
    outputs: Array | None = None
    image: Array | None = None
    iterations: int = 1
    residual: float = 0.0
    relative_residual: float = 0.0


class Solver(ABC):
    """A prepared coefficient step: data, weights and targets fixed; metric (and output matrix) still free."""

    name: ClassVar[str]

    @abstractmethod
    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        """The step for metric factor L; ``output_matrix`` replaces that of a separable kernel (model 2).

        ``start`` is a solution for nearby factors, for solvers that can begin there.
        """

    def identity_energy(self, n_outputs: int) -> Array | None:
        """C'K C of the map with L = I and B = I, for separable kernels."""
        return self.solve(np.eye(n_outputs), np.eye(n_outputs)).energy

    @abstractmethod
    def coefficients(self, solution: Solution) -> Array:
        """C, with one row for each point that the map is made of."""

    @abstractmethod
    def evaluate(self, coefficients: Array, metric_factor: Array, output_matrix: Array | None = None) -> Solution:
        """The solution's quantities by their definitions, for any coefficients: what a certificate may rest on."""

    @abstractmethod
    def terms(self, evaluated: Solution, output_matrix: Array | None, penalty: float) -> Terms:
        """The terms of the objective for what `evaluate` returned, beside ``penalty``, the one of the factors alone."""


class SampleSolver(Solver):
    """A solver whose unknowns belong to the training samples."""

    def __init__(self, gram: GramOperator, coupling: Coupling, targets: Array) -> None:
        self.gram = gram
        self.coupling = coupling
        self.targets = targets
        self.whitened_targets = coupling.regression_weight * coupling.solve_factor(targets)
        # M(F) = (F - Y*)' P (F - Y*) + floor, with Y* = lambda P^-1 Y and floor = 2 gamma lambda Y' P^-1 Delta Y: the residual
        # no map can avoid, since targets of similar samples differ. Zero for class targets; so written M never cancels.
        pull = coupling.solve_factor(coupling.laplacian(targets))
        floor = 2 * coupling.collocation_weight * self.whitened_targets.T @ pull
        self.scatter_floor = (floor + floor.T) / 2

    def evaluate(self, coefficients: Array, metric_factor: Array, output_matrix: Array | None = None) -> Solution:
        operator = self._operator(output_matrix)
        factors = operator.kronecker_factors()
        if factors is None:
            outputs, energy = operator.apply(coefficients), None
        else:
            features = np.asarray(factors[0] @ coefficients)
            outputs, energy = features @ factors[1], coefficients.T @ features
        left = coefficient_residual(coefficients, metric_factor, outputs, self.targets, self.coupling)
        # In X = R^-1 C the equation reads X A^-1 + R' gram(R X) = lambda R^-1 Y.
        residual = np.linalg.norm(self.coupling.solve_factor(np.linalg.solve(metric_factor.T @ metric_factor, left.T).T))
        return Solution(
            coordinates=coefficients,
            metric_factor=metric_factor,
            scatter=residual_scatter(outputs, self.targets, self.coupling),
            squared_norm=float(np.vdot(coefficients, outputs)),
            energy=energy,
            outputs=outputs,
            residual=float(residual),
            relative_residual=float(residual / (np.linalg.norm(self.whitened_targets) or 1.0)),
        )

    def terms(self, evaluated: Solution, output_matrix: Array | None, penalty: float) -> Terms:
        assert evaluated.outputs is not None
        factor = evaluated.metric_factor
        return map_terms(evaluated.coordinates, factor, evaluated.outputs, self.targets, self.coupling, penalty)

    def _operator(self, output_matrix: Array | None) -> GramOperator:
        if output_matrix is None:
            return self.gram
        factors = self.gram.kronecker_factors()
        if factors is None:
            raise TypeError("only a separable kernel k(x, x') B has an output matrix to replace.")
        return Kronecker(factors[0], output_matrix)

    def _scatter(self, residual: Array) -> Array:
        """M from the whitened residual R'(Y* - F)."""
        return residual.T @ residual + self.scatter_floor


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
        n = len(matrix)
        if n == 1:
            return cls(np.empty((0, 0)), np.empty(0), matrix[0].copy(), np.empty(0))
        work = int(lapack.dsytrd_lwork(n, lower=1)[0])
        reduced, diagonal, off_diagonal, scales, _ = lapack.dsytrd(matrix.T, lower=1, lwork=work, overwrite_a=1)
        # The reflectors lie below the first subdiagonal; LAPACK's product wants them as an array of their own. They are moved up
        # column by column within the memory they have, which saves a third (n, n) array.
        memory = reduced.reshape(-1, order="F")
        for column in range(n - 1):
            memory[column * (n - 1) : (column + 1) * (n - 1)] = memory[column * n + 1 : (column + 1) * n]
        reflectors = memory[: (n - 1) ** 2].reshape(n - 1, n - 1, order="F")
        return cls(reflectors, scales, diagonal, off_diagonal)

    def extreme_eigenvalues(self) -> tuple[float, float]:
        n = len(self.diagonal)
        ends = [
            scipy.linalg.eigh_tridiagonal(self.diagonal, self.off_diagonal, True, select="i", select_range=(k, k))[0]
            for k in (0, n - 1)
        ]
        return float(ends[0]), float(ends[1])

    def rotate(self, vectors: Array, *, back: bool = False) -> Array:
        """Q' X, or Q X with ``back``."""
        if not len(self.scales):
            return vectors
        rest = np.asfortranarray(vectors[1:])
        side = "N" if back else "T"
        work = int(lapack.dormqr("L", side, self.reflectors, self.scales, rest, lwork=-1)[1][0])
        rotated = lapack.dormqr("L", side, self.reflectors, self.scales, rest, lwork=work)[0]
        return np.concatenate([vectors[:1], rotated])

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


class Spectral(SampleSolver):
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
        self.system = _whiten(factors[0], coupling, "the kernel matrix")
        self.rotated_targets = self.system.rotate(self.whitened_targets)

    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        output_matrix = self.output_matrix if output_matrix is None else output_matrix
        spectrum, basis = scipy.linalg.eigh(metric_factor @ output_matrix @ metric_factor.T)
        spectrum = spectrum.clip(min=0)  # L B L' is semi-definite by construction; this cuts round-off only
        turned = metric_factor.T @ basis
        columns = self.system.solve_rotated(self.rotated_targets @ turned, np.ones(len(spectrum)), spectrum)
        energy = turned @ (columns.T @ self.system.multiply(columns)) @ turned.T
        whitened = columns @ basis.T
        return Solution(
            coordinates=whitened,
            metric_factor=metric_factor,
            scatter=self._scatter(np.linalg.solve(metric_factor, whitened.T).T),
            squared_norm=float(np.vdot(output_matrix, energy)),
            energy=energy,
        )

    def coefficients(self, solution: Solution) -> Array:
        return self.coupling.factor(self.system.rotate(solution.coordinates, back=True) @ solution.metric_factor)


class Dense(SampleSolver):
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
        operator = self._operator(output_matrix)
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
        return Solution(
            coordinates=coefficients,
            metric_factor=metric_factor,
            scatter=self._scatter(np.linalg.solve(metric_factor, whitened.T).T),
            squared_norm=float(np.vdot(coefficients, operator.apply(coefficients))),
            energy=_energy(operator, coefficients),
        )

    def coefficients(self, solution: Solution) -> Array:
        return solution.coordinates


class LowRank:
    """A symmetric matrix W that is nearly Phi Phi', as a preconditioner: what is missing counts as its smallest eigenvalue."""

    def __init__(self, whitened_features: Array) -> None:
        spectrum, basis = np.linalg.eigh(whitened_features.T @ whitened_features)
        kept = spectrum > len(spectrum) * np.finfo(np.float64).eps * spectrum[-1]
        self.spectrum = spectrum[kept]
        self.basis = whitened_features @ (basis[:, kept] / np.sqrt(self.spectrum))

    def solve_shifted(self, vectors: Array, shifts: Array, factors: Array) -> Array:
        """Column k is about the solution of (shifts[k] I + factors[k] W) x = vectors[:, k]."""
        rest = 1 / (shifts + factors * self.spectrum[0])
        inner = 1 / (shifts + np.multiply.outer(self.spectrum, factors)) - rest
        return np.asarray(vectors * rest + self.basis @ (inner * (self.basis.T @ vectors)))


class ConjugateGradient(SampleSolver):
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
            self.systems = [LowRank(coupling.factor(phi, transpose=True)) for phi in features]
        else:
            self.systems = list(self._reduce_blocks())

    def _reduce_blocks(self) -> list[Tridiagonal]:
        factors = self.gram.kronecker_factors()
        if factors is not None:
            blocks = [None if isinstance(factors[0], LinearOperator) else factors[0]]
        else:
            blocks = [self.gram.output_block(output) for output in range(self.gram.shape[2])]
        return [
            _whiten(block, self.coupling, f"the kernel matrix of output {output}")
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
        # A penalty is made of it: two ways to compute it must agree closely.
        tolerance, self.tolerance = self.tolerance, min(self.tolerance, 1e-10)
        try:
            return super().identity_energy(n_outputs)
        finally:
            self.tolerance = tolerance

    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        operator = self._operator(output_matrix)
        factors = operator.kronecker_factors()
        # For a separable kernel products are those of W = R'K R, and serve any output matrix; else those of the whole operator.
        product = operator if factors is None else Kronecker(factors[0], np.eye(len(factors[1])))
        mix = None if factors is None else factors[1]
        inverse_factor = np.linalg.inv(metric_factor)
        inverse_metric = inverse_factor @ inverse_factor.T
        precondition = self._preconditioner(operator, metric_factor)
        target_norm = float(np.linalg.norm(self.whitened_targets))

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
        while (norm := float(np.linalg.norm(residual))) > self.tolerance * target_norm and iterations < self.max_iterations:
            least, since = (norm, 0) if norm < 0.9 * least else (least, since + 1)
            if since > self.patience:
                raise IllConditionedError(f"conjugate gradients stay at a residual of {norm / target_norm:.2g}")
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
            residual = residual - step * applied
            preconditioned = precondition(residual)
            along, previous = np.vdot(residual, preconditioned), along
            direction = preconditioned + (along / previous) * direction
            iterations += 1
        # The recursively updated residual drifts from the true one; report the true one.
        if iterations:
            image = smooth(unknowns)
        smoothed = outputs(image)
        remaining = float(np.linalg.norm(self.whitened_targets - unknowns @ inverse_metric - smoothed))
        return Solution(
            coordinates=unknowns,
            metric_factor=metric_factor,
            scatter=self._scatter(self.whitened_targets - smoothed),
            squared_norm=float(np.vdot(unknowns, smoothed)),
            energy=None if factors is None else unknowns.T @ image,
            image=image,
            iterations=iterations,
            residual=remaining,
            relative_residual=remaining / target_norm if target_norm else 0.0,
        )

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


def _whiten(gram: Array, coupling: Coupling, name: str) -> Tridiagonal:
    """R' K R in tridiagonal form; it has the inertia of K, so K is tested for semi-definiteness on the way."""
    system = Tridiagonal.reduce(coupling.sandwich(np.asarray(gram, dtype=np.float64)))
    smallest, largest = system.extreme_eigenvalues()
    if smallest < -psd_tolerance(gram.dtype) * abs(largest):
        check_psd(gram, name)  # speaks of K itself, and may find its own eigenvalues within round-off
    return system


def _energy(operator: GramOperator, coefficients: Array) -> Array | None:
    factors = operator.kronecker_factors()
    return None if factors is None else np.asarray(coefficients.T @ (factors[0] @ coefficients))


def choose_solver(gram: GramOperator) -> tuple[type[SampleSolver], str]:
    """The solver for this operator and the reason in a few words."""
    factors = gram.kronecker_factors()
    n, _, m = gram.shape
    if factors is not None and not isinstance(factors[0], LinearOperator):
        if n > SPECTRAL_SAMPLES:
            return ConjugateGradient, f"{n} samples are more than {SPECTRAL_SAMPLES}, and the kernel is separable"
        return Spectral, "the kernel is separable"
    if factors is None and n * m <= DENSE_UNKNOWNS:
        return Dense, f"the kernel is not separable and the system is small ({n * m} unknowns)"
    if factors is not None:
        return ConjugateGradient, "the kernel matrix is not held in memory"
    return ConjugateGradient, f"the kernel is not separable and the system is large ({n * m} unknowns)"


SOLVERS: dict[str, type[SampleSolver]] = {solver.name: solver for solver in (Spectral, Dense, ConjugateGradient)}
