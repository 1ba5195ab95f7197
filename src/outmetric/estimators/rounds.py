"""Rounds of an input metric: the learned metric, pulled back to the inputs, becomes that of the kernel's inputs, and so on.

With G the mean pull-back (`outmetric.rows.pullback`), x becomes x T with T = G^(1/2), or diag(G)^(1/2), its largest entry 1; and
the bandwidth is set anew, as the same multiple of the typical distance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outmetric.estimators.base import bandwidth_of
from outmetric.estimators.fitting import Fit
from outmetric.estimators.settings import Settings
from outmetric.foundation import Array, n_points, storable
from outmetric.kernels import MatrixKernel, ScalarKernel, Transformed
from outmetric.rows import PullBack, pull_back
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


def fit_in_rounds(
    settings: Settings,
    problem: Any,
    fit: Callable[[Any], Fit],
    with_kernel: Callable[[Any, MatrixKernel], Any],
    sample: Any,
    y: Any,
) -> Fit:
    """Fit, pull back and fit again, as often as the settings ask for.

    Parameters
    ----------
    problem : Problem or LandmarkProblem
    fit : function of a problem
    with_kernel : function of a problem and a kernel that gives the problem with that kernel
    sample, y : the points, and their targets, that kernels are resolved on
    """
    found = fit(problem)
    if not settings.rounds:
        return found
    assert settings.input_metric is not None
    rounds, transform = [_round(found, None)], None
    for number in range(1, settings.rounds + 1):
        metric = found.metric
        terms = [(scalar, weights @ metric.metric_factor.T) for scalar, weights in metric.kernel.terms(metric.coefficients)]
        following = transform_of(pulled_back(terms, metric.points, [problem.points], settings.input_metric))
        if following.trouble is not None:
            warnings.warn(DEGENERATED.format(round=number, reason=following.trouble), UserWarning, stacklevel=4)
            break
        problem = with_kernel(problem, kernel_of_round(settings, following, sample, y))
        found, transform = fit(problem), following
        rounds.append(_round(found, transform))
    return replace(found, rounds=tuple(rounds), transform=transform)


def _round(found: Fit, transform: Transform | None) -> Round:
    last = found.trained.history[-1]
    metric = None if transform is None else transform.metric
    return Round(metric, bandwidth_of(found.metric.kernel), last.objective, last.optimality, found.trained.status)


def pulled_back(terms: Sequence[tuple[ScalarKernel, Array]], points: Any, blocks: Iterable[Any], kind: str) -> PullBack:
    """That of the coordinates sum_terms k(x)' W, with kernel functions at some points, over blocks of rows."""

    def jacobians(X: Any) -> Array:
        return np.asarray(sum(scalar.gradients(X, points, weights) for scalar, weights in terms))

    return pull_back(jacobians, blocks, kind, n_points(points), terms[0][1].shape[1])


def kernel_of_round(settings: Settings, transform: Transform, sample: Any, y: Any) -> MatrixKernel:
    """The declared kernel with an input metric, resolved on a sample of the training points."""
    rng = settings.generator()

    def transformed(scalar: ScalarKernel) -> ScalarKernel:
        return Transformed(scalar.relative(sample, rng), transform.values)

    return settings.kernel.with_scalars(transformed).resolve(sample, rng, y)
