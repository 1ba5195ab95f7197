"""Descent on a sum of hinges: L-BFGS in L, and where that ends short of the optimum, a step in M = L'L.

The objective is convex in M, but not in L: wherever L has lost a direction, the gradient 2 L G has lost it too, although the
gradient G in M may still fall in it (at L = 0 every direction is lost). A point is optimal if L G = 0 and G has no negative
eigenvalue, so a step along the eigenvectors with negative ones leads out of every other stationary point, as far as L has rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize

from outmetric.baselines.hinges import Certificate, Evaluation, HingeLoss
from outmetric.baselines.margins import MarginRecord
from outmetric.foundation import Array
from outmetric.solvers import Status

# Past steps that L-BFGS keeps.
CORRECTIONS = 10
# Widths of the rounded kink in units of the margin, from easy to exact.
ROUNDINGS = (0.1, 0.01, 0.001, 1e-4, 1e-5)
# A step that lowers the objective by less than this, relatively, is the last for its rounding.
FLAT = 1e-10
# Where the gap does not close, steepness and flatness are asked for down to this share.
MOST_CARE = 1e-6


@dataclass(frozen=True, eq=False)
class Minimum:
    """The best L found, a lower bound on the objective of any other, and how it was found."""

    factor: Array
    objective: float
    lower_bound: float
    history: tuple[MarginRecord, ...]
    status: Status

    @property
    def gap(self) -> float:
        return (self.objective - self.lower_bound) / self.objective if self.objective > 0 else 0.0


def minimise(
    loss: HingeLoss, start: Array, *, tol: float, max_iter: int, on_iteration: Callable[[MarginRecord], None] = lambda record: None
) -> Minimum:
    """Minimise over L, with kinks rounded less and less.

    It has converged when the duality gap is below ``tol``; or when less is left of the objective than ``tol`` of a margin for each
    target: where a metric can keep every margin, the infimum is zero and not attained. With fewer rows than dimensions the gap
    need not close, and it ends at a local optimum: when the steepness is below ``tol`` and a rounding lowers the objective of the
    one before by less.
    """
    search = _Search(loss, _scaled(loss, loss.inner(start)), tol, max_iter, on_iteration)
    convex = len(start) >= loss.X.shape[1]
    status = Status.STALLED
    for rounding in ROUNDINGS:
        previous = search.objective
        search.solve(rounding, to_the_end=convex)
        settled = rounding != ROUNDINGS[0] and previous - search.objective <= tol * search.objective
        if search.is_optimal:
            status = Status.CONVERGED
        elif len(search.history) >= max_iter:
            status = Status.ITERATION_LIMIT
        elif not convex and settled and search.is_stationary:
            status = Status.LOCAL_OPTIMUM
        if status is not Status.STALLED:
            break
    return Minimum(loss.outer(search.best, start), search.objective, search.bound, tuple(search.history), status)


class _Search:
    """The best L so far, and how it was found."""

    def __init__(
        self, loss: HingeLoss, start: Array, tol: float, max_iter: int, on_iteration: Callable[[MarginRecord], None]
    ) -> None:
        self.loss, self.tol, self.max_iter, self.on_iteration = loss, tol, max_iter, on_iteration
        self.best, self.objective, self.bound = start, loss.evaluate(start).objective, 0.0
        self.history: list[MarginRecord] = []
        self.is_stationary = False  # at some rounding
        self._nothing = tol * loss.push_weight * loss.n_targets
        self._began = time.perf_counter()

    @property
    def is_optimal(self) -> bool:
        return self.objective - self.bound <= self.tol * self.objective or self.objective <= self._nothing

    @property
    def _is_over(self) -> bool:
        return self.is_optimal or len(self.history) >= self.max_iter

    def solve(self, rounding: float, *, to_the_end: bool) -> None:
        """Minimise the rounded objective from the best L; ``to_the_end``: until its own duality gap is below tol, if it closes."""
        L, care = self.best, 1.0
        while True:
            L = self._descend(L, rounding, care)
            reached = self.loss.certify(L, rounding)
            self.bound = max(self.bound, reached.bound)
            if reached.objective < self.objective:
                self.best, self.objective = L, reached.objective
            self.is_stationary |= bool(self.history) and self.history[-1].steepness <= self.tol
            if self._is_over or reached.rounded - reached.rounded_bound <= self.tol * reached.rounded:
                return
            released = _released(self.loss, L, rounding, reached, 0.1 * care * self.tol)
            care = care / 10 if to_the_end else care
            if released is None and (not to_the_end or care < MOST_CARE):
                return
            L = L if released is None else released

    def _descend(self, start: Array, rounding: float, care: float) -> Array:
        """L-BFGS on the rounded objective until its steepness is at most ``care`` times tol, or it is flat."""
        latest: Evaluation

        def evaluate(values: Array) -> tuple[float, Array]:
            nonlocal latest
            latest = self.loss.evaluate(values.reshape(start.shape), rounding)
            return latest.rounded, latest.gradient.ravel()

        def after_step(values: Array) -> None:
            now = self._record(rounding, latest, latest.steepness(values))
            if now.steepness <= care * self.tol or now.objective <= self._nothing or now.iteration >= self.max_iter:
                raise StopIteration

        options = {
            "maxiter": np.iinfo(np.int32).max,
            "maxfun": np.iinfo(np.int32).max,
            "ftol": care * FLAT,
            "gtol": 0.0,
            "maxcor": CORRECTIONS,
            "maxls": 100,  # from where no hinge is active, the first step meets slopes that are larger by orders of magnitude
        }
        minimize: Any = scipy.optimize.minimize  # its type does not know that the callback may take the values
        result = minimize(evaluate, start.ravel(), jac=True, method="L-BFGS-B", callback=after_step, options=options)
        return np.asarray(result.x.reshape(start.shape))

    def _record(self, rounding: float, evaluation: Evaluation, steepness: float) -> MarginRecord:
        seconds = time.perf_counter() - self._began
        iteration = len(self.history) + 1
        now = MarginRecord(iteration, evaluation.objective, evaluation.rounded, rounding, steepness, evaluation.active, seconds)
        self.history.append(now)
        self.on_iteration(now)
        return now


def _scaled(loss: HingeLoss, L: Array) -> Array:
    """A multiple of L of which the objective, which is convex in its square, is low: descent from far away is slow."""
    size = np.linalg.norm(L)
    if not np.isfinite(size) or size == 0:
        raise ValueError("the start maps all training points to one; choose another init.")
    unit = L / size
    best, objective = _best_size(lambda square: loss.evaluate(np.sqrt(square) * unit).objective, float(len(L)))
    return L if loss.evaluate(L).objective <= objective else np.sqrt(best) * unit


def _best_size(objective: Callable[[float], float], size: float) -> tuple[float, float]:
    """Where a convex function of a positive number is low, to within a factor, and its value there."""
    value = objective(size)
    for factor in (16.0, 1 / 16):
        following = objective(factor * size)
        while following < value:
            size, value = factor * size, following
            following = objective(factor * size)
    return size, value


def _released(loss: HingeLoss, L: Array, rounding: float, reached: Certificate, least: float) -> Array | None:
    """L after a step in M along the directions in which the objective falls; None if it falls by less than ``least``, relatively.

    M + t N, with the negative part N of the gradient in M, is a metric for every t > 0. Of its factors, with no more rows than L,
    that which is nearest to L is taken.
    """
    values, vectors = scipy.linalg.eigh(reached.gradient)
    falling = values < 0
    if not falling.any():
        return None
    directions = np.sqrt(-values[falling, None]) * vectors[:, falling].T

    def stepped(size: float) -> Array:
        _, singular, right = scipy.linalg.svd(np.vstack([L, np.sqrt(size) * directions]), full_matrices=False)
        factor = np.zeros_like(L)
        rows = min(len(factor), len(singular))
        factor[:rows] = singular[:rows, None] * right[:rows]
        left, _, turn = scipy.linalg.svd(L @ factor.T)
        return np.asarray(left @ turn @ factor)

    # Points have unit variance, so that a trace of 1 gives them distances of about the margin.
    some = -1 / float(values[falling].sum())
    size, lowest = _best_size(lambda size: loss.evaluate(stepped(size), rounding).rounded, some)
    return stepped(size) if reached.rounded - lowest > least * reached.rounded else None
