"""What the two models share as estimators: parameters, `fit` and `partial_fit`, fitted attributes, summary."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length

from outmetric.estimators.base import KernelTransformer, bandwidth_of, check_training, data_kind
from outmetric.estimators.checks import check_supervision, gaps, left_out, without_gaps
from outmetric.estimators.fitting import (
    Fit,
    exact_problem,
    fit_exactly,
    fit_landmarks,
    fit_statistics,
    landmark_problem,
)
from outmetric.estimators.rounds import fit_points, fit_rows
from outmetric.estimators.settings import Settings, settings_of
from outmetric.estimators.streaming import read_block, read_chunks, read_stream, weighted_rows_of, with_checked_landmarks
from outmetric.estimators.summary import Fact, leading_features, number
from outmetric.estimators.unlabelled import graph_problem, partly_labelled
from outmetric.foundation import Array, announce, n_points, storable
from outmetric.problem import Model
from outmetric.rows import LandmarkMap, ReducedStatistics, Statistics, is_dask
from outmetric.solvers import NystroemSolver, Record, Status

# What only fits with landmarks, with an input metric, or of rows that came call by call, have.
OCCASIONAL = (
    "_stream",
    "landmarks_",
    "landmark_indices_",
    "n_landmarks_",
    "landmark_rank_",
    "rounds_",
    "input_metric_",
    "feature_importances_",
    "n_unlabeled_",
    "transduction_",
)


def _is_streamable(estimator: KernelMetric) -> bool:
    settings = settings_of(estimator)
    settings.require_streamable()  # scikit-learn turns what is raised into an AttributeError
    if settings.rounds:
        raise ValueError(
            "partial_fit does not see rows again, and an input metric takes several passes over them: give fit all rows, or a "
            "function that returns an iterator of blocks; or set input_metric=None."
        )
    return True


@storable(transient=["_stream"])
class KernelMetric(KernelTransformer, ABC):
    """What the two models share."""

    model: ClassVar[type[Model]]
    n_components: int | None
    collocation_weight: float | Literal["auto"]
    regression_weight: float
    prototypes: Any
    similarity: Any
    class_weight: Any = None  # what was pickled before there was one has none; and so on
    unlabeled: Literal["graph", "ignore"] | None = None
    graph_weight: float = 1.0
    graph_neighbors: int = 7
    input_metric: Literal["diagonal", "full"] | None = None
    n_rounds: int = 2
    solver: str
    n_landmarks: int | None
    landmarks: Any
    max_iter: int
    tol: float
    random_state: Any
    verbose: bool

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the map and the metric.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), kernel matrix (n, n), or sequence of objects
            What it may be depends on the kernel. With landmarks also: a Dask array or DataFrame; an iterator of blocks (X, y); or a
            function that returns such an iterator, which is then read twice, so that landmarks are drawn from all rows and not from
            the first blocks only, and twice more for each round of an input metric. No more than a few blocks are held.
        y : array of shape (n,) or (n, q)
            Class labels, or real targets. Several columns, or one column of floats, are real targets; one dimension is told
            apart by `sklearn.utils.multiclass.type_of_target`, for which whole numbers are labels: pass those as
            ``y.astype(float)[:, None]`` if they are real targets. None for blocks, which bring their own.
        sample_weight : array of shape (n,), optional
            How often each row counts: whole numbers give the fit on repeated rows, and 0 leaves a row out. (The median distance
            counts a point once, and landmarks are chosen without regard to weights.) Blocks bring their own: (X, y, sample_weight).

        Returns
        -------
        self
        """
        settings = settings_of(self)
        for name in OCCASIONAL:
            self.__dict__.pop(name, None)
        if y is None and (callable(X) or hasattr(X, "__next__")):
            if sample_weight is not None:
                raise ValueError("blocks of rows bring their own weights: let them be (X, y, sample_weight).")
            return self._keep(fit_rows(settings, read_stream(self, settings, X), "rows came in blocks", self._tell))
        if is_dask(X):
            return self._keep(
                fit_rows(settings, read_chunks(self, settings, X, y, sample_weight), "rows came in chunks", self._tell)
            )
        points = check_training(self, X, settings.kernel.takes)
        if settings.unlabeled is not None and y is not None:
            missing = gaps(y)
            check_consistent_length(missing, np.empty(n_points(points)))
            if missing.any():
                used = settings.unlabeled == "graph" and settings.graph_weight > 0
                fit = self._fit_graph if used else self._fit_others
                return fit(settings, points, y, missing, sample_weight)._transduce(points, y, missing)
        return self._fit_all(settings, points, y, sample_weight)

    def _fit_all(self, settings: Settings, points: Any, y: Any, sample_weight: Any) -> Self:
        """Fit checked points that all have labels or targets."""
        takes = data_kind(self)
        y, labelled = check_supervision(self, y, n_points(points))
        settings, (points, y, weights) = weighted_rows_of(settings, points, y, labelled, takes, sample_weight)
        reason = settings.landmarks_reason(n_points(points))
        if reason is None:
            exact = exact_problem(settings, points, takes, y, labelled, weights)
            return self._keep(fit_points(settings, exact, lambda problem: fit_exactly(settings, problem, self._tell), y))
        settings = with_checked_landmarks(self, settings)
        reduced = landmark_problem(settings, points, takes, y, labelled, weights)
        return self._keep(fit_points(settings, reduced, lambda problem: fit_landmarks(settings, problem, reason, self._tell)))

    def _fit_others(self, settings: Settings, points: Any, y: Any, missing: Array, sample_weight: Any) -> Self:
        """Fit the rows that have labels or targets."""
        return self._fit_all(settings, points, *left_out(y, missing, sample_weight))

    def _fit_graph(self, settings: Settings, points: Any, y: Any, missing: Array, sample_weight: Any) -> Self:
        """Fit all rows, of which some have no label or target."""
        if settings.solver not in ("auto", NystroemSolver.name):
            raise ValueError(f"unlabeled='graph' needs solver='auto' or 'nystroem', not {settings.solver!r}.")
        known, labelled = check_supervision(self, without_gaps(y, missing), int(np.sum(~missing)))
        data = partly_labelled(points, data_kind(self), missing, known, labelled, sample_weight)
        problem = graph_problem(self, settings, data)
        reason = f"{missing.sum()} rows without labels"
        return self._keep(fit_points(settings, problem, lambda one: fit_landmarks(settings, one, reason, self._tell)))

    def _transduce(self, points: Any, y: Any, missing: Array) -> Self:
        """What rows without labels most likely have: the class whose prototype is nearest, or where the map takes them."""
        self.n_unlabeled_ = int(missing.sum())
        outputs, known = self.metric_.map(points[missing]), without_gaps(y, missing)
        if self.classes_ is not None:
            factor = self.metric_factor_.T
            values = self.classes_[cdist(outputs @ factor, self.prototypes_ @ factor).argmin(axis=1)]
        else:
            columns = known.shape[1] if known.ndim == 2 else 1
            if outputs.shape[1] < columns:  # principal components of the targets, which are not these
                return self
            values = (outputs * self._units())[:, :columns].reshape(-1, *known.shape[1:])
        self.transduction_ = np.empty((len(missing), *known.shape[1:]), dtype=np.result_type(known, values))
        self.transduction_[~missing], self.transduction_[missing] = known, values
        return self

    @available_if(_is_streamable)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows.

        The first call chooses the landmarks (and a bandwidth given in medians) from its rows, unless ``landmarks`` are given; then
        any number of calls gives the same result as one `fit` on all rows. Every call solves anew, which for many landmarks takes
        longer than a small block: make blocks large, or hand an iterator of them to `fit`, which solves once. There is no model
        until two classes have come, and all of those that ``prototypes`` are given for.

        Parameters
        ----------
        X, y : as for `fit`
        classes : array, optional
            Not needed, since classes that come later are welcome; those given here are not checked.
        sample_weight : as for `fit`

        Returns
        -------
        self
        """
        settings = settings_of(self)
        seen = read_block(self, settings, X, y, sample_weight, getattr(self, "_stream", None))
        known = seen.statistics.classes
        wanted = 2 if isinstance(self.prototypes, str) else len(self.prototypes)
        if known is None or len(known) >= wanted:
            self._keep(fit_statistics(settings, seen.landmarks, seen.statistics, "rows came in blocks", self._tell))
        self._stream = seen  # only after all went well: a call may be repeated
        return self

    def map(self, X: Any) -> Any:
        """f(x): the map before the metric is applied, in the units of real targets (unless ``n_components`` reduced them)."""
        outputs = super().map(X)
        return outputs * self._units().astype(outputs.dtype)

    def get_mahalanobis_matrix(self) -> Array:
        """A such that the squared distance is (f(x) - f(x'))' A (f(x) - f(x')), with f from `map`."""
        return np.asarray(super().get_mahalanobis_matrix() / np.multiply.outer(self._units(), self._units()))

    def _units(self) -> Array:
        """What the outputs of the fitted metric are multiplied by to be in the units of real targets."""
        units = np.ones(self.metric_.metric_factor.shape[1])
        scales = getattr(self, "target_scales_", None)
        if scales is not None and len(scales) <= len(units):
            units[: len(scales)] = scales
        return units

    def _keep(self, fit: Fit) -> Self:
        """Store a fit, and tell if it is not what it should be."""
        self._store(fit)
        if self.status_ is not Status.CONVERGED:
            warnings.warn(f"{type(self).__name__}: {self.status_.value}", ConvergenceWarning, stacklevel=3)
        return self

    def _store(self, fit: Fit) -> None:
        """The fitted attributes; a model adds its own."""
        trained = fit.trained
        self.n_samples_fit_ = fit.n_samples
        self.metric_ = fit.metric
        self.coefficients_ = fit.metric.coefficients.copy()
        self.metric_factor_ = trained.factors.metric_factor.copy()
        self.metric_matrix_ = self.metric_factor_.T @ self.metric_factor_
        self.prototypes_ = fit.targets.prototypes
        self.classes_ = fit.targets.classes
        self.target_scales_ = fit.targets.scales
        self.bandwidth_ = bandwidth_of(fit.metric.kernel)
        self.collocation_weight_ = fit.collocation_weight
        for name in self.model.weights:
            setattr(self, f"{name}_", float(getattr(fit.model, name)))
        self.objective_terms_ = fit.terms
        self.objective_ = fit.terms.total
        self.history_ = trained.history
        self.n_iter_ = len(trained.history)
        self.status_ = trained.status
        self.solver_ = fit.solver
        self.solver_reason_ = fit.reason
        self._n_features_out = fit.metric.coefficients.shape[1]
        if fit.rounds:
            self.rounds_ = fit.rounds
        if fit.transform is not None:
            self.input_metric_ = fit.transform.metric
            self.feature_importances_ = fit.transform.importances
        if fit.landmarks is not None:
            parts = fit.landmarks.features.parts
            self.landmarks_ = parts[0].points
            self.landmark_indices_ = fit.landmarks.indices
            self.n_landmarks_ = len(parts[0].basis)
            self.landmark_rank_ = max(part.rank for part in parts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _settings(self) -> list[Fact]:
        weights = ", ".join([f"regression {number(self.regression_weight)}", *self._weights()])
        solver = Fact("solver", f"{self.solver_} ({self.solver_reason_})")
        return [*super()._settings(), *self._input_facts(), Fact("weights", weights), solver]

    def _input_facts(self) -> list[Fact]:
        """What the input metric looks at."""
        importances = getattr(self, "feature_importances_", None)
        if importances is None:
            return []
        names = getattr(self, "feature_names_in_", [f"x{number}" for number in range(len(importances))])
        told = leading_features(names, importances)
        return [Fact("looks at", f"{told} ({self.input_metric} input metric, {len(self.rounds_) - 1} rounds)")]

    def _weights(self) -> list[str]:
        """The weights as used, beside the first."""
        return [as_used("collocation", self.collocation_weight, self.collocation_weight_)]

    def _outcome(self) -> list[Fact]:
        terms = " + ".join(f"{name} {number(value)}" for name, value in vars(self.objective_terms_).items())
        return [Fact("objective", f"{number(self.objective_)} = {terms}"), Fact("certificate", self._certificate())]

    @abstractmethod
    def _certificate(self) -> str:
        """How far from an optimum the result is."""

    def _course(self) -> list[float]:
        return [record.optimality for record in self.history_]

    def _tell(self, record: Record) -> None:
        if self.verbose:
            announce(
                type(self).__name__,
                f"iteration {record.iteration}: objective {record.objective:.9g}, "
                f"optimality {record.optimality:.2e}, {record.seconds:.2f} s",
            )


@dataclass(frozen=True, eq=False)
class Gathered:
    """All that a pass found, for a fit with any weights without another pass."""

    estimator: KernelMetric
    landmarks: LandmarkMap
    statistics: Statistics | ReducedStatistics

    def fit(self, params: dict[str, Any]) -> KernelMetric:
        """The estimator with these parameters, fitted."""
        estimator: KernelMetric = self.estimator.set_params(**params)
        settings = settings_of(estimator)
        reason = settings.landmarks_reason(self.statistics.n_rows) or ""
        return estimator._keep(fit_statistics(settings, self.landmarks, self.statistics, reason, estimator._tell))


def as_used(name: str, given: Any, used: float) -> str:
    """A weight, and whether it was chosen automatically."""
    return f"{name} {number(used)}" + (" (auto)" if isinstance(given, str) else "")
