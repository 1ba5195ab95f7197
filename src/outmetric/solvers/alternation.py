"""One alternating loop for both models: an exact coefficient step, then the closed-form minimiser over the metric.

The loop stops on optimality, which the model measures: for model 2 the relative duality gap, for model 1 the relative gradient in L
(that in C is zero after each exact step).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from outmetric.foundation import Array, storable
from outmetric.problem import Factors, Model
from outmetric.solvers.acceleration import Anderson
from outmetric.solvers.solution import IllConditionedError, Solution, Solver, Status

# Relative optimality that double precision cannot be expected to resolve.
OPTIMALITY_FLOOR = 1e-12
# Iterations without progress in optimality after which there will be none.
PATIENCE = 50
# By how much, relative to it, round-off may raise the objective.
ROUND_OFF = 1e-6
# Iterations that the acceleration remembers.
DEPTH = 6


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
    """The result of `alternate`: L or B, the coefficients that are exact for it, what these give, and how they were reached."""

    coefficients: Array
    learned: Array
    factors: Factors
    evaluated: Solution
    history: tuple[Record, ...]
    status: Status


def alternate(
    solver: Solver,
    model: Model,
    *,
    tol: float,
    max_iter: int,
    on_iteration: Callable[[Record], None] = lambda record: None,
    start: Array | None = None,
) -> Trained:
    """Alternate the two exact steps until the model's optimality is at most ``tol``; the objective never rises.

    Steps are extrapolated where that lowers the objective, and plain otherwise. Raises IllConditionedError if not even the first
    coefficient step can be solved; later trouble is told by the status. The last record is computed from the coefficients that are
    returned, by the definitions. ``start`` is the L or B to begin with.
    """
    began = time.perf_counter()
    zero_map = solver.initial_scatter
    typical = float(np.trace(zero_map)) / len(zero_map)
    if not model.is_bounded(zero_map, typical):
        raise ValueError(
            "metric_ridge=0 needs targets that span all components: with n_components larger than classes - 1 the paper's "
            "metric is infinite from the start. Lower n_components or set metric_ridge > 0."
        )
    acceleration, only = Anderson(1, len(zero_map), DEPTH), np.array([0])
    learned = model.start(zero_map) if start is None else start
    solution = _solve(solver, model, learned)
    history: list[Record] = []
    best, since = np.inf, 0
    while True:
        record = _record(len(history) + 1, model, learned, solution, time.perf_counter() - began)
        history.append(record)
        on_iteration(record)
        if record.optimality <= tol:
            status = Status.CONVERGED
            break
        best, since = (record.optimality, 0) if record.optimality < 0.99 * best else (best, since + 1)
        if since == PATIENCE:
            status = Status.STALLED
            break
        if not model.is_bounded(solution.scatter, typical):
            status = Status.DIVERGED
            break
        if len(history) == max_iter:
            status = Status.ITERATION_LIMIT
            break
        plain = model.minimiser(learned, solution)
        guess = acceleration.propose(only, learned[None], plain[None])[0]
        try:
            following = _solve(solver, model, guess, solution) if model.admits(guess) else None
            if following is None or model.objective(guess, following) > record.objective:
                acceleration.forget(only)
                guess, following = plain, _solve(solver, model, plain, solution)
                # The plain step descends; if it does not, the coefficient step was not what it should be.
                if model.objective(guess, following) > record.objective + ROUND_OFF * abs(record.objective):
                    raise IllConditionedError("the objective rises")
        except IllConditionedError:
            status = Status.ILL_CONDITIONED
            break
        learned, solution = guess, following
    coefficients = solver.coefficients(solution)
    # The loop trusts the solver; what is reported rests on the coefficients themselves.
    factors = model.factors(learned)
    final = solver.evaluate(coefficients, factors.metric_factor, factors.output_matrix)
    last = _record(len(history), model, learned, replace(final, iterations=solution.iterations), time.perf_counter() - began)
    if not last.optimality <= max(10 * history[-1].optimality, 10 * tol, OPTIMALITY_FLOOR):
        status = Status.ILL_CONDITIONED
    return Trained(coefficients, learned, factors, final, (*history[:-1], last), status)


def zero_map(solver: Solver, model: Model) -> Trained:
    """The optimum if the kernel sees nothing of the targets; its optimality is what the kernel sees of them, which is round-off."""
    began = time.perf_counter()
    learned = model.of_zero_map(solver.initial_scatter)
    factors = model.factors(learned)
    coefficients = np.zeros_like(solver.coefficients(_solve(solver, model, learned)))
    evaluated = solver.evaluate(coefficients, factors.metric_factor, factors.output_matrix)
    record = _record(1, model, learned, evaluated, time.perf_counter() - began)
    seen = max(0.0, solver.visibility)
    record = replace(record, optimality=seen, gap=seen if model.certifies else None)
    return Trained(coefficients, learned, factors, evaluated, (record,), Status.CONVERGED)


def _solve(solver: Solver, model: Model, learned: Array, start: Solution | None = None) -> Solution:
    factors = model.factors(learned)
    return solver.solve(factors.metric_factor, factors.output_matrix, start=start)


def _record(iteration: int, model: Model, learned: Array, solution: Solution, seconds: float) -> Record:
    objective = float(model.objective(learned, solution))
    optimality = float(model.optimality(learned, solution, objective))
    return Record(
        iteration=iteration,
        objective=objective,
        fit=float(model.fit_term(learned, solution)),
        roughness=0.5 * solution.squared_norm,
        penalty=float(model.penalty(learned)),
        optimality=optimality,
        gap=optimality if model.certifies else None,
        solver_iterations=solution.iterations,
        seconds=seconds,
    )
