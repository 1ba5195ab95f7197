"""One alternating loop for both models: an exact coefficient step, then the closed-form minimiser over the metric.

    Model 1   L = -rho (M + epsilon I)^-1                 `MetricStep`        (eq:solution_L_general, with our ridge)
    Model 2   B = (E / (2 rho))^(1/3),  E = B C'K C B     `OutputMatrixStep`  (F held fixed, where the problem is jointly convex)

The loop stops on optimality: for model 2 the relative duality gap, for model 1 the relative gradient in L (that in C is zero after
each exact step).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outmetric.foundation import Array, storable
from outmetric.problem import duality_gap, fixed_kernel_penalty, learned_kernel_penalty, metric_gradient
from outmetric.solvers.solution import IllConditionedError, Solution, Solver, Status

# With metric_ridge = 0: L this many times its first size means that the objective has no minimum.
DIVERGENCE_FACTOR = 1e8
# Relative optimality that double precision cannot be expected to resolve.
OPTIMALITY_FLOOR = 1e-12
# Iterations without progress in optimality after which there will be none.
PATIENCE = 50
# By how much, relative to it, round-off may raise the objective.
ROUND_OFF = 1e-6


@dataclass(frozen=True, eq=False)
class Factors:
    """What the second step learns: the metric factor L (model 1) or the output matrix B (model 2; None: the kernel's own)."""

    metric_factor: Array
    output_matrix: Array | None = None

    @property
    def learned(self) -> Array:
        return self.metric_factor if self.output_matrix is None else self.output_matrix


@storable("Record")
@dataclass(frozen=True)
class Record:
    """One iteration, after its coefficient step.

    ``fit`` is the collocation and regression terms together, 1/2 tr(A M); ``roughness`` is 1/2 |f|^2; ``penalty`` is paid for
    the metric. ``optimality`` is what tol is compared with: the relative duality gap (model 2, also in ``gap``) or the relative
    gradient of the metric factor (model 1; ``gap`` is None).
    """

    iteration: int
    objective: float
    fit: float
    roughness: float
    penalty: float
    optimality: float
    gap: float | None
    solver_iterations: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Trained:
    """The result of `alternate`: factors, the coefficients that are exact for them, what these give, and how they were reached."""

    coefficients: Array
    factors: Factors
    evaluated: Solution
    history: tuple[Record, ...]
    status: Status


def metric_minimiser(scatter: Array, metric_penalty: Any, metric_ridge: Any) -> Array:
    """L = -rho (M + epsilon I)^-1; works on stacks of matrices, with penalties of shape (..., 1)."""
    spectrum, basis = np.linalg.eigh(scatter)
    # M is a sum of squares: the clip cuts round-off only.
    inverse = -metric_penalty / (spectrum.clip(min=0) + metric_ridge)
    return np.asarray((basis * inverse[..., None, :]) @ np.swapaxes(basis, -1, -2))


def output_minimiser(output_matrix: Array, energy: Array, output_penalty: Any) -> Array:
    """(B C'K C B / (2 rho))^(1/3); works on stacks of matrices, with penalties of shape (..., 1)."""
    spectrum, basis = np.linalg.eigh(output_matrix @ energy @ output_matrix)
    root = np.cbrt(spectrum.clip(min=0) / (2 * output_penalty))
    return np.asarray((basis * root[..., None, :]) @ np.swapaxes(basis, -1, -2))


class Step(ABC):
    """The second half of an iteration."""

    @abstractmethod
    def start(self) -> Factors:
        """The factors to begin with."""

    @abstractmethod
    def penalty(self, factors: Factors) -> float:
        """The term of the objective that depends on the factors alone."""

    @abstractmethod
    def optimality(self, factors: Factors, solution: Solution, objective: float) -> float:
        """Zero if and only if coefficients and factors are stationary."""

    @abstractmethod
    def update(self, factors: Factors, solution: Solution) -> Factors | None:
        """The minimising factors for the map just solved for; None if there is no minimum."""

    @abstractmethod
    def admit(self, learned: Array) -> Factors | None:
        """The factors with this L or B, if it has the definiteness that every minimiser has; else None."""

    def objective(self, factors: Factors, solution: Solution) -> float:
        """The functional, from what an exact coefficient step gives."""
        return _fit(factors, solution) + 0.5 * solution.squared_norm + self.penalty(factors)

    certifies: bool
    """Whether ``optimality`` is a duality gap."""


@dataclass(frozen=True, eq=False)
class MetricStep(Step):
    """L = -rho (M + epsilon I)^-1 for model 1; L is negative definite, and only A = L'L enters distances.

    Begins with the metric of the zero map, whose scatter is ``initial_scatter`` = lambda Y'Y.
    """

    metric_penalty: float
    metric_ridge: float
    initial_scatter: Array
    certifies = False

    def start(self) -> Factors:
        factors = self._minimiser(self.initial_scatter)
        if factors is None:
            raise ValueError(
                "metric_ridge=0 needs targets that span all components: with n_components larger than classes - 1 the paper's "
                "metric is infinite from the start. Lower n_components or set metric_ridge > 0."
            )
        return factors

    def penalty(self, factors: Factors) -> float:
        return fixed_kernel_penalty(factors.metric_factor, self.metric_penalty, self.metric_ridge)

    def optimality(self, factors: Factors, solution: Solution, objective: float) -> float:
        gradient = metric_gradient(factors.metric_factor, solution.scatter, self.metric_penalty, self.metric_ridge)
        relative = np.linalg.norm(gradient) / (self.metric_penalty * np.sqrt(len(gradient)))
        # What an inexact coefficient step costs is quadratic in its residual.
        return max(float(relative), solution.relative_residual**2)

    def update(self, factors: Factors, solution: Solution) -> Factors | None:
        return self._minimiser(solution.scatter)

    def admit(self, learned: Array) -> Factors | None:
        # Without ridge this is the paper's own update, step by step.
        return Factors(learned) if self.metric_ridge > 0 and np.linalg.eigvalsh(learned)[-1] < 0 else None

    def _minimiser(self, scatter: Array) -> Factors | None:
        typical = np.trace(self.initial_scatter) / len(scatter)
        if self.metric_ridge == 0 and np.linalg.eigvalsh(scatter)[0] * DIVERGENCE_FACTOR <= typical:
            return None
        return Factors(metric_minimiser(scatter, self.metric_penalty, self.metric_ridge))


@dataclass(frozen=True, eq=False)
class OutputMatrixStep(Step):
    """B = (E / (2 rho))^(1/3) for model 2, the minimiser for a fixed map F, where E = F'K^-1 F = B C'K C B."""

    output_penalty: float
    n_outputs: int
    certifies = True

    def start(self) -> Factors:
        return Factors(np.eye(self.n_outputs), np.eye(self.n_outputs))

    def penalty(self, factors: Factors) -> float:
        return learned_kernel_penalty(_output_matrix(factors), self.output_penalty)

    def optimality(self, factors: Factors, solution: Solution, objective: float) -> float:
        assert solution.energy is not None
        gap = float(duality_gap(_output_matrix(factors), solution.energy, self.output_penalty, solution.residual))
        return gap / objective if objective > 0 else (0.0 if gap == objective == 0 else np.inf)

    def update(self, factors: Factors, solution: Solution) -> Factors:
        assert solution.energy is not None
        return Factors(factors.metric_factor, output_minimiser(_output_matrix(factors), solution.energy, self.output_penalty))

    def admit(self, learned: Array) -> Factors | None:
        return Factors(np.eye(self.n_outputs), learned) if np.linalg.eigvalsh(learned)[0] >= 0 else None


def _output_matrix(factors: Factors) -> Array:
    assert factors.output_matrix is not None
    return factors.output_matrix


class Extrapolation:
    """Anderson acceleration: the next point from the last few (point, image) pairs of a fixed-point map.

    Plain alternation turns the eigenvectors of a very uneven metric slowly. The combination of images whose residual
    image - point is smallest takes out such slow modes.
    """

    def __init__(self, depth: int = 6) -> None:
        self.depth = depth
        self.points: list[Array] = []
        self.images: list[Array] = []

    def propose(self, point: Array, image: Array) -> Array:
        self.points = [*self.points, point][-self.depth :]
        self.images = [*self.images, image][-self.depth :]
        if len(self.points) == 1:
            return image
        images = np.array([image.ravel() for image in self.images])
        residuals = images - np.array([point.ravel() for point in self.points])
        weights = np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1], rcond=1e-12)[0]
        guess = (images[-1] - weights @ np.diff(images, axis=0)).reshape(image.shape)
        return np.asarray(guess + guess.T) / 2

    def forget(self) -> None:
        self.points, self.images = [], []


def alternate(
    solver: Solver,
    step: Step,
    *,
    tol: float,
    max_iter: int,
    on_iteration: Callable[[Record], None] = lambda record: None,
    start: Factors | None = None,
) -> Trained:
    """Alternate the two exact steps until ``step.optimality`` is at most ``tol``; the objective never rises.

    Steps are extrapolated where that lowers the objective, and plain otherwise. Raises IllConditionedError if not even the first
    coefficient step can be solved; later trouble is told by the status. The last record is computed from the coefficients that are
    returned, by the definitions. ``start`` are factors to begin with.
    """
    began = time.perf_counter()
    extrapolation = Extrapolation()
    factors = step.start() if start is None else start
    solution = solver.solve(factors.metric_factor, factors.output_matrix)
    history: list[Record] = []
    best, since = np.inf, 0
    while True:
        record = _record(len(history) + 1, step, factors, solution, time.perf_counter() - began)
        history.append(record)
        on_iteration(record)
        if record.optimality <= tol:
            status = Status.CONVERGED
            break
        best, since = (record.optimality, 0) if record.optimality < 0.99 * best else (best, since + 1)
        if since == PATIENCE:
            status = Status.STALLED
            break
        plain = step.update(factors, solution)
        if plain is None:
            status = Status.DIVERGED
            break
        if len(history) == max_iter:
            status = Status.ITERATION_LIMIT
            break
        try:
            guess = step.admit(extrapolation.propose(factors.learned, plain.learned))
            following = None if guess is None else solver.solve(guess.metric_factor, guess.output_matrix, start=solution)
            if guess is None or following is None or step.objective(guess, following) > record.objective:
                extrapolation.forget()
                guess, following = plain, solver.solve(plain.metric_factor, plain.output_matrix, start=solution)
                # The plain step descends; if it does not, the coefficient step was not what it should be.
                if step.objective(guess, following) > record.objective + ROUND_OFF * abs(record.objective):
                    raise IllConditionedError("the objective rises")
        except IllConditionedError:
            status = Status.ILL_CONDITIONED
            break
        factors, solution = guess, following
    coefficients = solver.coefficients(solution)
    # The loop trusts the solver; what is reported rests on the coefficients themselves.
    final = solver.evaluate(coefficients, factors.metric_factor, factors.output_matrix)
    last = _record(len(history), step, factors, replace(final, iterations=solution.iterations), time.perf_counter() - began)
    if not last.optimality <= max(10 * history[-1].optimality, 10 * tol, OPTIMALITY_FLOOR):
        status = Status.ILL_CONDITIONED
    return Trained(coefficients, factors, final, (*history[:-1], last), status)


def _record(iteration: int, step: Step, factors: Factors, solution: Solution, seconds: float) -> Record:
    objective = step.objective(factors, solution)
    optimality = step.optimality(factors, solution, objective)
    return Record(
        iteration=iteration,
        objective=objective,
        fit=_fit(factors, solution),
        roughness=0.5 * solution.squared_norm,
        penalty=step.penalty(factors),
        optimality=optimality,
        gap=optimality if step.certifies else None,
        solver_iterations=solution.iterations,
        seconds=seconds,
    )


def _fit(factors: Factors, solution: Solution) -> float:
    return 0.5 * float(np.vdot(factors.metric_factor.T @ factors.metric_factor, solution.scatter))
