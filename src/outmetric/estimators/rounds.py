"""Rounds of an input metric: the learned metric, pulled back to the inputs, becomes that of the kernel's inputs, and so on.

With G the mean pull-back (`outmetric.rows.pullback`), x becomes x T with T = G^(1/2), or diag(G)^(1/2), its largest entry 1; and
the bandwidth is set anew, as the same multiple of the typical distance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from outmetric.estimators.base import bandwidth_of
from outmetric.estimators.fitting import Fit, LandmarkProblem, OnIteration, Problem, fit_statistics
from outmetric.estimators.settings import Settings
from outmetric.estimators.streaming import RowsAtSource, weights_by_label
from outmetric.foundation import Array, storable
from outmetric.kernels import MatrixKernel, ScalarKernel, Transformed
from outmetric.rows import Jacobians, PullBack, pull_back
from outmetric.solvers import Status

# All other directions together weigh less than this beside the first: points differ in one direction only, up to round-off.
DEGENERATE = 1e-14
DEGENERATED = "the input metric of round {round} {reason}, so the round before it was kept; fewer rounds avoid this."


@storable("Round")
@dataclass(frozen=True, eq=False)
class Round:
    """A fit on the way to an input metric.

    Attributes
    ----------
    input_metric : array of shape (d,) or (d, d), or None
        What the kernel measured its inputs with; None at first.
    bandwidth : float, array or None
    objective, optimality : float
        Of the fit; see `Record`.
    status : Status
    """

    input_metric: Array | None
    bandwidth: Any
    objective: float
    optimality: float
    status: Status


@dataclass(frozen=True, eq=False)
class Transform:
    """T of a round, and what it was made of.

    Attributes
    ----------
    values : array of shape (d,) or (d, d)
    trouble : str or None
        Why it is of no use.
    pulled : PullBack
    """

    values: Array
    trouble: str | None
    pulled: PullBack

    @property
    def metric(self) -> Array:
        """T T'."""
        return self.values**2 if self.values.ndim == 1 else self.values @ self.values.T

    @property
    def importances(self) -> Array:
        """The metric's diagonal, in the units of the features: what a standard deviation of each contributes; they sum to 1."""
        diagonal = self.metric if self.values.ndim == 1 else np.diagonal(self.metric)
        weights = diagonal * self.pulled.variances
        return np.asarray(weights / (weights.sum() or 1.0))


def transform_of(pulled: PullBack) -> Transform:
    """The root of a mean pull-back, its largest entry 1."""
    metric = pulled.metric
    largest = float(np.abs(metric).max(initial=0.0))
    if not (np.isfinite(largest) and largest > 0):
        return Transform(np.ones(len(metric)), "is zero or not finite, since the map is constant", pulled)
    metric = metric / largest
    if metric.ndim == 1:
        values, spectrum = np.sqrt(metric), np.sort(metric)
    else:
        spectrum, basis = np.linalg.eigh((metric + metric.T) / 2)
        values = (basis * np.sqrt(spectrum.clip(min=0))) @ basis.T
        values = values / np.abs(values).max()
    alone = len(spectrum) > 1 and spectrum[:-1].sum() <= DEGENERATE * spectrum[-1]
    return Transform(values, "has all its weight on one direction" if alone else None, pulled)


def fit_points(settings: Settings, problem: Problem | LandmarkProblem, fit: Callable[[Any], Fit], y: Any = None) -> Fit:
    """Fit a problem, in rounds if there is an input metric; ``y`` for kernels that learn from targets."""

    def refit(kernel: MatrixKernel) -> Fit:
        return fit(problem.with_kernel(kernel))

    rows = problem.learned, problem.weights
    return _in_rounds(settings, fit(problem), refit, partial(pull_back, [rows]), problem.sample, y)


def fit_rows(settings: Settings, seen: RowsAtSource, reason: str, on_iteration: OnIteration) -> Fit:
    """Fit rows that came in blocks; for an input metric they are read again."""
    rows, landmarks = seen.rows, seen.landmarks
    first = fit_statistics(settings, landmarks, seen.statistics, reason, on_iteration)

    def refit(kernel: MatrixKernel) -> Fit:
        following = landmarks.with_kernel(kernel)
        return fit_statistics(settings, following, rows.gather(following.features), reason, on_iteration)

    of_classes = weights_by_label(settings, seen.statistics)
    return _in_rounds(settings, first, refit, partial(rows.pull_back, of_classes=of_classes), landmarks.sample)


def _in_rounds(
    settings: Settings,
    found: Fit,
    fit: Callable[[MatrixKernel], Fit],
    pulled_back: Callable[[Jacobians, str], PullBack],
    sample: Any,
    y: Any = None,
) -> Fit:
    """Pull back what a fit found and fit again, as often as the settings ask for.

    Parameters
    ----------
    found : Fit
        Without input metric.
    fit : function of a kernel
        Fits the same rows with it.
    pulled_back : function of Jacobians and a kind of metric
        Reads all rows.
    sample, y : the points, and their targets, that kernels are resolved on
    """
    if not settings.rounds:
        return found
    assert settings.input_metric is not None
    n_samples = found.n_samples
    rounds, transform = [_round(found, None)], None
    for number in range(1, settings.rounds + 1):
        pulled = pulled_back(Jacobians(found.metric.terms, found.metric.points), settings.input_metric)
        if pulled.count != n_samples:
            raise ValueError(
                f"the rows changed between two passes: there were {n_samples} first, and {pulled.count} then. A function that "
                "returns an iterator must return the same rows each time."
            )
        following = transform_of(pulled)
        if following.trouble is not None:
            warnings.warn(DEGENERATED.format(round=number, reason=following.trouble), UserWarning, stacklevel=4)
            break
        found, transform = fit(kernel_of_round(settings, following, sample, y)), following
        rounds.append(_round(found, transform))
    return replace(found, rounds=tuple(rounds), transform=transform)


def _round(found: Fit, transform: Transform | None) -> Round:
    last = found.trained.history[-1]
    metric = None if transform is None else transform.metric
    return Round(metric, bandwidth_of(found.metric.kernel), last.objective, last.optimality, found.trained.status)


def kernel_of_round(settings: Settings, transform: Transform, sample: Any, y: Any = None) -> MatrixKernel:
    """The declared kernel with an input metric, resolved on a sample of the training points."""
    rng = settings.generator()

    def transformed(scalar: ScalarKernel) -> ScalarKernel:
        return Transformed(scalar.relative(sample, rng), transform.values)

    return settings.kernel.with_scalars(transformed).resolve(sample, rng, y)
