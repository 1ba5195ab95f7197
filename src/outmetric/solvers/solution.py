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
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import ClassVar

import numpy as np

from outmetric.foundation import Array, storable
from outmetric.kernels import GramOperator, Kronecker
from outmetric.problem import Coupling, Terms, coefficient_residual, map_terms, residual_scatter

# The share of the targets below which a kernel sees nothing but round-off of them.
BLIND = 10 * np.finfo(np.float64).eps


@storable("status")
class Status(Enum):
    """How a fit ended; the value is advice for a person."""

    CONVERGED = "the optimality measure is below tol."
    ITERATION_LIMIT = "max_iter was reached before tol; raise max_iter or tol."
    LOCAL_OPTIMUM = (
        "no small change improves the result, but with fewer components than features the problem is not convex and a better "
        "one may exist; dual_gap_ bounds how much better."
    )
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
    """A coefficient step lost positive definiteness, or all progress, to round-off."""


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
    coupled_norm : float
        <F, P F> = |R'F|^2; lambda <Y, F> = |f|^2 + <F, P F> if the step was exact and A = I.
    outputs : array of shape (n, m) or None
        F, where it was computed by its definition.
    image : array of shape (n, m) or None
        W X, which the next step of an iterative solver can begin with.
    iterations : int
        1 for direct solvers.
    residual, relative_residual : float
        Norm of what is left of the whitened equation, and the same relative to the map: divided by the root of the smaller one of
        |lambda R^-1 Y|^2 and lambda <Y, F>. Direct solvers say 0; `Solver.evaluate` measures it.
    """

    coordinates: Array
    metric_factor: Array
    scatter: Array
    squared_norm: float
    energy: Array | None
    coupled_norm: float
    outputs: Array | None = None
    image: Array | None = None
    iterations: int = 1
    residual: float = 0.0
    relative_residual: float = 0.0


class Solver(ABC):
    """A prepared coefficient step: data, weights and targets fixed; metric (and output matrix) still free."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def squares(self) -> Array:
        """Y'Y."""

    @property
    @abstractmethod
    def initial_scatter(self) -> Array:
        """The residual scatter of the zero map, lambda Y'Y."""

    @property
    @abstractmethod
    def visibility(self) -> float:
        """<Y, gram(Y)> relative to tr(gram) |Y|^2, which bounds it: how much of the targets the kernel sees; NaN if that is dear.

        It is zero if points that the kernel cannot tell apart have targets of mean zero. No map is better than the zero map then.
        """

    @property
    def is_blind(self) -> bool:
        """Whether the kernel sees no more of the targets than round-off."""
        return bool(self.visibility <= BLIND)

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
        whitened = coupling.solve_factor(targets)
        self.whitened_targets = coupling.regression_weight * whitened
        self.scatter_floor = coupling.scatter_floor(targets, whitened)

    @property
    def squares(self) -> Array:
        return np.asarray(self.targets.T @ self.targets)

    @property
    def initial_scatter(self) -> Array:
        return self.coupling.regression_weight * self.squares

    @cached_property
    def visibility(self) -> float:
        size = self.gram.trace() * float(np.sum(self.targets**2))
        return float(np.vdot(self.targets, self.gram.apply(self.targets))) / size if size > 0 else size

    def evaluate(self, coefficients: Array, metric_factor: Array, output_matrix: Array | None = None) -> Solution:
        operator = self.operator(output_matrix)
        factors = operator.kronecker_factors()
        if factors is None:
            outputs, energy = operator.apply(coefficients), None
        else:
            features = np.asarray(factors[0] @ coefficients)
            outputs, energy = features @ factors[1], coefficients.T @ features
        left = coefficient_residual(coefficients, metric_factor, outputs, self.targets, self.coupling)
        # In X = R^-1 C the equation reads X A^-1 + R' gram(R X) = lambda R^-1 Y.
        residual = np.linalg.norm(self.coupling.solve_factor(np.linalg.solve(metric_factor.T @ metric_factor, left.T).T))
        pull = self.coupling.regression_weight * float(np.vdot(self.targets, outputs))
        return Solution(
            coordinates=coefficients,
            metric_factor=metric_factor,
            scatter=residual_scatter(outputs, self.targets, self.coupling),
            squared_norm=float(np.vdot(coefficients, outputs)),
            energy=energy,
            coupled_norm=float(np.vdot(outputs, self.coupling.apply(outputs))),
            outputs=outputs,
            residual=float(residual),
            relative_residual=relative(float(residual), float(np.sum(self.whitened_targets**2)), pull),
        )

    def terms(self, evaluated: Solution, output_matrix: Array | None, penalty: float) -> Terms:
        assert evaluated.outputs is not None
        factor = evaluated.metric_factor
        return map_terms(evaluated.coordinates, factor, evaluated.outputs, self.targets, self.coupling, penalty)

    def operator(self, output_matrix: Array | None) -> GramOperator:
        """The Gram operator, with this output matrix if one is given."""
        if output_matrix is None:
            return self.gram
        factors = self.gram.kronecker_factors()
        if factors is None:
            raise TypeError("only a separable kernel k(x, x') B has an output matrix to replace.")
        return Kronecker(factors[0], output_matrix)

    def scatter(self, residual: Array) -> Array:
        """M from the whitened residual R'(Y* - F)."""
        return residual.T @ residual + self.scatter_floor


class MultiplyingSolver(SampleSolver):
    """A solver by products with the kernel matrix: its unknowns X = R^-1 C solve X A^-1 + R' gram(R X) = T, T = lambda R^-1 Y."""

    def allowed_residual(self, unknowns: Array, outputs: Array, tolerance: float, *, certified: bool) -> float:
        """The norm at which a residual is small enough; ``certified``: a duality gap will be made of the solution."""
        targets = self.whitened_targets
        # Half its square is what a residual costs, to be compared with what the map takes off the objective of the zero map,
        # <R'F, lambda R^-1 Y> / 2, and for a duality gap (A = I) with the objective as well, <X, lambda R^-1 Y> / 2.
        worth = float(np.vdot(outputs, targets))
        if certified:
            worth = min(worth, float(np.vdot(unknowns, targets)))
        round_off = np.finfo(np.float64).eps * np.sqrt(targets.size * float(np.sum(targets**2)))
        return float(max(round_off, tolerance * np.sqrt(max(0.0, worth))))

    def solution(
        self, metric_factor: Array, unknowns: Array, image: Array, mix: Array | None, residual: float, iterations: int
    ) -> Solution:
        """Of unknowns X with R' K R X = ``image``, and outputs R'F = image B if the kernel is separable (``mix`` is B)."""
        targets = self.whitened_targets
        outputs = image if mix is None else image @ mix
        return Solution(
            coordinates=unknowns,
            metric_factor=metric_factor,
            scatter=self.scatter(targets - outputs),
            squared_norm=float(np.vdot(unknowns, outputs)),
            energy=None if mix is None else unknowns.T @ image,
            coupled_norm=float(np.vdot(outputs, outputs)),
            image=image,
            iterations=iterations,
            residual=residual,
            relative_residual=relative(residual, float(np.sum(targets**2)), float(np.vdot(outputs, targets))),
        )


def relative(residual: float, squared_targets: float, pull: float) -> float:
    """A residual relative to a map; ``squared_targets`` is |lambda R^-1 Y|^2, and ``pull`` is lambda <Y, F>: less for weak maps."""
    scale = np.sqrt(max(0.0, min(squared_targets, pull)))
    return residual / scale if scale > 0 else (np.inf if residual > 0 else 0.0)
