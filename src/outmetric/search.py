"""Cross-validated choice of settings at little more than the price of one fit for each kernel.

All candidates that differ only in weights, components or prototypes share one eigendecomposition in each fold (`outmetric.path`),
candidates that the models cannot tell apart are fitted once, and one sorted list of neighbours serves every number of neighbours.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self, cast

import joblib
import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError
from sklearn.model_selection import ParameterGrid, ParameterSampler, check_cv
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, column_or_1d
from threadpoolctl import threadpool_limits

from outmetric.face import MetricTransformer
from outmetric.inputs import check_points
from outmetric.kernels import Separable
from outmetric.models import FixedKernelMetric, LearnedKernelMetric
from outmetric.operators import Array
from outmetric.path import BatchStep, Decomposition, FixedBatch, LearnedBatch, Maps
from outmetric.scalar import median_factor
from outmetric.solvers import Status
from outmetric.targets import target_rank
from outmetric.votes import Score, neighbour_votes, score_function, smoothed_votes

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has none."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


# Samples up to which one BLAS thread is fastest.
SMALL = 1500
# Candidates that are trained together; more would not be faster.
BATCH = 64
WEIGHTS = ("regression_weight", "collocation_weight", "metric_penalty", "metric_ridge", "output_penalty")
TARGETS = ("n_components", "prototypes")


class MetricSearchCV(CallbackSupportMixin, ClassifierMixin, TransformerMixin, MetaEstimatorMixin, BaseEstimator):
    """Choose the settings of a metric, and the number of neighbours that vote in it, by cross-validation.

    Has the face of scikit-learn's `GridSearchCV` over a pipeline of the metric and `KNeighborsClassifier`, and the same scores
    wherever the fits converge, but computes one eigendecomposition for each fold, kernel and ratio of weights, whatever the number
    of candidates. A candidate that cannot be fitted gets no score (NaN, and a warning). `score` is accuracy.

    Parameters
    ----------
    estimator : FixedKernelMetric, LearnedKernelMetric, or Pipeline that ends in one
        Steps before the metric (scaling, say) are fitted on the training part of each fold. The metrics of `outmetric.baselines`
        work too, with a fit for each candidate and fold, which serves all numbers of neighbours.
    param_grid : dict or list of dicts
        As for `GridSearchCV`: lists of values by parameter name. With ``n_iter``, values may also be distributions with a method
        ``rvs``.
    n_neighbors : int or sequence of int
        Numbers of neighbours to try with every candidate; those above the size of the smallest training fold are left out.
    scoring : str or callable
        A name or scorer of scikit-learn that works on class predictions or probabilities. "neg_log_loss" (default) is taken of
        smoothed votes, (votes + 1/2) / (n_neighbors + classes/2); with few samples it chooses better than accuracy.
    cv : int, splitter or iterable of splits
        Stratified for an int.
    refit : bool
        Fit the best candidate on all data afterwards.
    n_iter : int, optional
        Draw this many candidates from ``param_grid`` at random instead of taking all.
    n_jobs : int, optional
        Through joblib, so its backends work.
    random_state : int, RandomState or None
        For ``n_iter``.
    verbose : bool
        Show progress on stderr. scikit-learn's callbacks (`sklearn.callback.ProgressBar`, say) work too, with a task for each
        kernel and fold.

    Attributes
    ----------
    best_params_ : dict
        For the estimator. Of candidates with the same mean score the simplest is taken: fewer components, then a smaller
        regression_weight, then a wider bandwidth (multiples of the median before numbers), then more neighbours, then the first.
    n_neighbors_ : int
    best_score_ : float
    best_index_ : int
    best_estimator_ : estimator
        Fitted on all data (with ``refit``).
    cv_results_ : dict
        In the format of `GridSearchCV`, with the numbers of neighbours as ``param_n_neighbors``. Times are shares of what
        candidates have in common. After an interrupt, candidates not scored yet hold NaN.
    n_splits_ : int
    n_decompositions_ : int
        How many eigendecompositions were shared, folds included; candidates that need a fit of their own do not count.
    classes_ : array

    Examples
    --------
    >>> from outmetric import LearnedKernelMetric, MetricSearchCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> grid = {"bandwidth": [0.5, 1.0, 2.0], "regression_weight": [0.3, 3.0, 30.0]}
    >>> search = MetricSearchCV(LearnedKernelMetric(), grid).fit(X[::2], y[::2])
    >>> search.n_decompositions_
    15
    >>> search.score(X[1::2], y[1::2]) > 0.9
    True
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        n_neighbors: int | Sequence[int] = (1, 3, 5, 9, 15, 25),
        scoring: str | Callable[..., float] = "neg_log_loss",
        cv: Any = 5,
        refit: bool = True,
        n_iter: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.n_neighbors = n_neighbors
        self.scoring = scoring
        self.cv = cv
        self.refit = refit
        self.n_iter = n_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Score all candidates, and fit the best one on all data.

        Parameters
        ----------
        X : data that the estimator takes
        y : array of shape (n,)
            Class labels.
        groups : array of shape (n,), optional
            For splitters that keep groups together.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # nothing of an earlier fit may survive one that ends early
        if y is None:
            raise ValueError("MetricSearchCV requires y to be passed, but the target y is None.")
        X, y, groups = indexable(X, column_or_1d(y, warn=True), groups)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if self.n_iter is None:
            candidates = list(ParameterGrid(self.param_grid))
        else:
            candidates = list(ParameterSampler(self.param_grid, self.n_iter, random_state=self.random_state))
        splits = list(check_cv(self.cv, y, classifier=True).split(X, y, groups))
        neighbours = _neighbour_counts(self.n_neighbors, min(len(train) for train, _ in splits))
        shared, simplicity = _shared_groups(self.estimator, candidates, len(self.classes_))
        # Kernel by kernel, so that an interrupt leaves whole candidates behind.
        tasks = [_Task(fold, train, test, group) for group in shared for fold, (train, test) in enumerate(splits)]
        score = score_function(self.scoring, self.classes_)
        table = _Table(candidates, neighbours, len(splits))
        self.n_splits_ = len(splits)
        self.n_decompositions_ = sum(task.group.n_decompositions for task in tasks)
        stragglers, failures = 0, []
        progress = _Progress(self, len(tasks), verbose=self.verbose)
        try:
            # Several BLAS threads do not help small matrices, and other tasks want the cores.
            one_thread = self.n_jobs not in (None, 1) or len(labels) < SMALL
            with threadpool_limits(limits=1 if one_thread else None, user_api="blas"):
                for result in self._run(tasks, X, y, labels, neighbours, score):
                    table.enter(result)
                    stragglers += result.stragglers
                    failures += [result.failure] if result.failure else []
                    progress.advance()
        finally:
            self.cv_results_ = table.results()
        if stragglers:
            warnings.warn(f"{stragglers} fits reached max_iter before tol.", ConvergenceWarning, stacklevel=2)
        means = self.cv_results_["mean_test_score"]
        if not np.isfinite(means).any():
            raise ValueError(f"no candidate could be scored; the first failure: {next(iter(failures), 'a score is not finite')}")
        if failures:
            unscored = int(np.sum(~np.isfinite(means)))
            warnings.warn(
                f"{unscored} candidates were not scored; the first failure: {failures[0]}", FitFailedWarning, stacklevel=2
            )
        self.best_index_ = table.best(means, simplicity)
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        chosen = dict(self.cv_results_["params"][self.best_index_])
        self.n_neighbors_ = int(chosen.pop("n_neighbors"))
        self.best_params_ = chosen
        if self.refit:
            began = time.perf_counter()
            self.best_estimator_ = clone(self.estimator).set_params(**clone(chosen, safe=False)).fit(X, y)
            self.refit_time_ = time.perf_counter() - began
            for name in ("n_features_in_", "feature_names_in_"):
                if hasattr(self.best_estimator_, name):
                    setattr(self, name, getattr(self.best_estimator_, name))
            self.voters_ = KNeighborsClassifier(self.n_neighbors_).fit(np.asarray(self.best_estimator_.transform(X)), labels)
        progress.end()
        return self

    def _run(self, tasks: list[_Task], X: Any, y: Array, labels: Array, neighbours: Array, score: Score) -> Iterable[_Result]:
        calls = [delayed(_evaluate)(task, X, y, labels, len(self.classes_), neighbours, score) for task in tasks]
        # Nearly all time is spent in NumPy, which lets other threads run.
        settings = {"n_jobs": self.n_jobs, "prefer": "threads"}
        try:
            run = Parallel(return_as="generator_unordered", **settings)(calls)
        except ValueError:  # a backend that cannot hand over results as they come
            run = Parallel(**settings)(calls)
        return cast("Iterable[_Result]", run)

    def transform(self, X: Any) -> Any:
        """The best estimator's coordinates."""
        self._check_refitted()
        return self.best_estimator_.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The best estimator's names of its coordinates."""
        self._check_refitted()
        return self.best_estimator_.get_feature_names_out(input_features)

    def _check_refitted(self) -> None:
        if hasattr(self, "cv_results_") and not hasattr(self, "best_estimator_"):
            raise NotFittedError("this MetricSearchCV has scores but no model: refit=False, or the search was interrupted.")
        check_is_fitted(self, "best_estimator_")

    def predict_proba(self, X: Any) -> Array:
        """Smoothed votes of the neighbours, (votes + 1/2) / (n_neighbors + classes/2), shape (n, classes)."""
        return smoothed_votes(self._votes(X), self.n_neighbors_)

    def predict(self, X: Any) -> Array:
        """The class with most votes; of several the first."""
        votes = self._votes(X)
        return np.asarray(self.classes_[votes.argmax(axis=1)])

    def _votes(self, X: Any) -> Array:
        self._check_refitted()
        shares = self.voters_.predict_proba(np.asarray(self.transform(X)))
        return np.asarray(np.rint(shares * self.n_neighbors_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags


class _Progress:
    """Tells scikit-learn's callbacks, where there are any, and people who asked."""

    def __init__(self, search: MetricSearchCV, tasks: int, *, verbose: bool) -> None:
        self.search, self.tasks, self.verbose, self.done = search, tasks, verbose, 0
        self.context = None
        if hasattr(search, "_init_callback_context"):
            self.context = search._init_callback_context(max_subtasks=tasks).call_on_fit_task_begin(estimator=search)

    def advance(self) -> None:
        self.done += 1
        if self.context is not None:
            task = self.context.subcontext(task_name="kernel and fold")
            task.call_on_fit_task_begin(estimator=self.search)
            task.call_on_fit_task_end(estimator=self.search)
        if self.verbose:
            end = "\n" if self.done == self.tasks else ""
            print(f"\r[MetricSearchCV] {self.done} of {self.tasks} kernels and folds scored", end=end, file=sys.stderr)

    def end(self) -> None:
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.search)


@dataclass(frozen=True, eq=False)
class _Member:
    """Candidates (by their numbers) that the model cannot tell apart, with the settings of the first.

    ``ratio`` is gamma/lambda or "auto", and ``targets`` a fingerprint of what decides the targets: members that agree in the first
    share a decomposition, in both a batch.
    """

    settings: dict[str, Any]
    indices: list[int]
    ratio: Any
    targets: Any


@dataclass(frozen=True, eq=False)
class _Group:
    """Candidates with one kernel and one preparation of the data; not ``shared``: a single one that needs a fit of its own."""

    estimator: Any
    members: list[_Member]
    shared: bool

    @property
    def n_decompositions(self) -> int:
        return len({member.ratio for member in self.members}) if self.shared else 0


@dataclass(frozen=True, eq=False)
class _Task:
    fold: int
    train: Array
    test: Array
    group: _Group


@dataclass(frozen=True, eq=False)
class _Result:
    fold: int
    indices: list[list[int]]
    scores: Array
    fit_time: float
    score_time: float
    stragglers: int
    failure: str | None


def _metric(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def _shared_groups(
    estimator: Any, candidates: Iterable[Mapping[str, Any]], n_classes: int
) -> tuple[list[_Group], list[tuple[float, ...]]]:
    """The groups of candidates, and for each candidate a tuple that is smaller the simpler it is."""
    groups: dict[Any, _Group] = {}
    members: dict[Any, _Member] = {}
    simplicity: list[tuple[float, ...]] = []
    prefix = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    for index, candidate in enumerate(candidates):
        flexible = {prefix + name for name in (*WEIGHTS, *TARGETS)} & set(candidate)
        common = {name: value for name, value in candidate.items() if name not in flexible}
        key = _fingerprint(common)
        if key not in groups:
            groups[key] = _Group(clone(estimator).set_params(**clone(common, safe=False)), [], shared=True)
        metric = _metric(groups[key].estimator)
        if not isinstance(metric, MetricTransformer):
            raise TypeError(f"MetricSearchCV tunes the metrics of outmetric, not {type(metric).__name__}.")
        if not isinstance(metric, FixedKernelMetric | LearnedKernelMetric):
            groups[index] = _alone(estimator, candidate, index)
            simplicity.append(())
            continue
        settings = {
            name: candidate.get(prefix + name, getattr(metric, name)) for name in (*WEIGHTS, *TARGETS) if hasattr(metric, name)
        }
        simplicity.append(_simplicity(settings, metric.bandwidth, n_classes))
        unknown = {name for name in flexible if name.removeprefix(prefix) not in settings}
        if unknown or not _is_served(metric) or settings.get("metric_ridge") == 0:
            groups[index] = _alone(estimator, candidate, index)
            continue
        clone(metric).set_params(**settings)._check_parameters()
        targets = _fingerprint({name: settings[name] for name in TARGETS})
        ratio = _weight_ratio(settings)
        essence = (key, targets, ratio, _essence(settings))
        if essence not in members:
            members[essence] = _Member(settings, [], ratio, targets)
            groups[key].members.append(members[essence])
        members[essence].indices.append(index)
    return [group for group in groups.values() if group.members], simplicity


def _alone(estimator: Any, candidate: Mapping[str, Any], index: int) -> _Group:
    """A candidate that needs a fit of its own; raises for parameters that the estimator does not know."""
    alone = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    return _Group(alone, [_Member({}, [index], None, None)], shared=False)


def _simplicity(settings: Mapping[str, Any], bandwidth: Any, n_classes: int) -> tuple[float, ...]:
    components, prototypes = settings["n_components"], settings["prototypes"]
    if components is None and isinstance(prototypes, str):
        components = n_classes if prototypes == "onehot" else n_classes - 1
    elif components is None:
        components = np.shape(prototypes)[-1]
    relative = median_factor(bandwidth) if isinstance(bandwidth, str) else None
    width = relative if relative is not None else float(bandwidth) if isinstance(bandwidth, Real) else 0.0
    return float(components), float(settings["regression_weight"]), float(relative is None), -width


def _is_served(metric: Any) -> bool:
    """Whether the shared decomposition can stand in for a fit."""
    kernel = metric._declared_kernel()
    return isinstance(kernel, Separable) and kernel.output_matrix is None and metric.solver in ("auto", "spectral")


def _weight_ratio(settings: Mapping[str, Any]) -> Any:
    """Gamma / lambda, or "auto", which is a multiple of lambda as well."""
    gamma = settings["collocation_weight"]
    return gamma if isinstance(gamma, str) else float(f"{gamma / settings['regression_weight']:.12g}")


def _essence(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the distances depend on beside targets and gamma/lambda, up to a factor: one weight of each model is redundant.

    Model 2's map depends on lambda^3/rho only, model 1's on rho^2/lambda and the relative ridge. Automatic penalties follow lambda.
    """
    scale = settings["regression_weight"]
    if "output_penalty" in settings:
        penalty = settings["output_penalty"]
        return ((scale, penalty) if isinstance(penalty, str) else f"{3 * np.log(scale) - np.log(penalty):.10f}",)
    penalty = settings["metric_penalty"]
    strength = (scale, penalty) if isinstance(penalty, str) else f"{2 * np.log(penalty) - np.log(scale):.10f}"
    return strength, settings["metric_ridge"]


def _fingerprint(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for equal settings; a value that cannot be pickled, a lambda say, equals only itself."""
    return tuple((name, _fingerprint_of_one(values[name])) for name in sorted(values))


def _fingerprint_of_one(value: Any) -> Any:
    try:
        return joblib.hash(value)
    except Exception:  # pickling may fail in any way
        return id(value)


def _evaluate(task: _Task, X: Any, y: Array, labels: Array, n_classes: int, neighbours: Array, score: Score) -> _Result:
    """Scores of a group's candidates in one fold, shape (candidates, numbers of neighbours); NaN where a fit failed."""
    began = time.perf_counter()
    group, estimator = task.group, clone(task.group.estimator)
    scores = np.full((len(group.members), len(neighbours)), np.nan)
    stragglers, failure, scoring_time = 0, None, 0.0
    try:
        X_train, y_train = _safe_split(estimator, X, y, task.train)
        X_test, _ = _safe_split(estimator, X, y, task.test, task.train)
        maps_of = _shared_maps if group.shared else _own_maps
        for positions, maps in maps_of(estimator, group.members, X_train, y_train, X_test):
            mapped = time.perf_counter()
            votes = neighbour_votes(maps.train, labels[task.train], maps.new, neighbours, n_classes)
            found = score(votes, neighbours, labels[task.test], X_test)
            scores[positions] = np.where(maps.sound[:, None], found, np.nan)
            stragglers += int(np.sum(~maps.converged))
            failure = failure or (None if maps.sound.all() else Status.ILL_CONDITIONED.value)
            scoring_time += time.perf_counter() - mapped
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        failure = str(error)
    indices = [member.indices for member in group.members]
    return _Result(task.fold, indices, scores, time.perf_counter() - began - scoring_time, scoring_time, stragglers, failure)


def _own_maps(
    estimator: Any, members: list[_Member], X_train: Any, y_train: Array, X_test: Any
) -> Iterator[tuple[list[int], Maps]]:
    """The maps of a single candidate, by a fit."""
    estimator.fit(X_train, y_train)
    train, new = (np.asarray(estimator.transform(part))[None] for part in (X_train, X_test))
    yield [0], Maps(train, new, np.ones(1, dtype=bool), np.ones(1, dtype=bool))


def _shared_maps(
    estimator: Any, members: list[_Member], X_train: Any, y_train: Array, X_test: Any
) -> Iterator[tuple[list[int], Maps]]:
    """The maps of all members, batch by batch: (positions in the list of members, their maps)."""
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        before = Pipeline(estimator.steps[:-1])
        X_train, X_test = before.fit_transform(X_train, y_train), before.transform(X_test)
    metric = _metric(estimator)
    problem = metric._problem(X_train, y_train)
    new = check_points(metric, X_test, metric._takes, fitting=False)
    metric._evaluates_lazily(problem.kernel, problem.similarity, *problem.targets.values.shape)  # raises if memory is short
    (scalar,) = problem.kernel.scalars
    gram, cross = scalar.gram(problem.points), scalar.cross(new, problem.points)
    alike: dict[Any, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, member in enumerate(members):
        alike[member.ratio][member.targets].append(position)
    for by_targets in alike.values():
        first = members[next(iter(by_targets.values()))[0]]
        metric.set_params(**first.settings)
        ratio = metric._collocation_weight(problem.similarity) / metric.regression_weight
        shared = Decomposition(gram, cross, problem.similarity, ratio)
        for positions in by_targets.values():
            metric.set_params(**members[positions[0]].settings)
            targets = metric._class_targets(y_train).values
            for start in range(0, len(positions), BATCH):
                part = positions[start : start + BATCH]
                settings = [members[position].settings for position in part]
                weights = np.array([own["regression_weight"] for own in settings], dtype=np.float64)
                step = _batch_step(settings, shared, targets, weights)
                yield part, shared.maps(targets, weights, step, tol=metric.tol, max_iter=metric.max_iter)


def _batch_step(settings: list[dict[str, Any]], shared: Decomposition, targets: Array, weights: Array) -> BatchStep:
    if "output_penalty" in settings[0]:
        automatic = shared.identity_energy(targets, weights) / (2 * target_rank(targets))
        return LearnedBatch(_or_automatic([own["output_penalty"] for own in settings], automatic))
    unit = weights * np.sum(targets**2) / target_rank(targets)
    ridges = unit * np.array([own["metric_ridge"] for own in settings], dtype=np.float64)
    return FixedBatch(_or_automatic([own["metric_penalty"] for own in settings], unit + ridges), ridges)


def _or_automatic(penalties: list[Any], automatic: Array) -> Array:
    return np.array(
        [auto if isinstance(given, str) else given for given, auto in zip(penalties, automatic, strict=True)], dtype=float
    )


def _neighbour_counts(given: Any, largest: int) -> Array:
    counts = np.unique(np.atleast_1d(given))
    if not np.issubdtype(counts.dtype, np.integer) or counts[0] < 1:
        raise ValueError(f"n_neighbors must be integers >= 1, not {given!r}.")
    if counts[0] > largest:
        raise ValueError(f"n_neighbors={given!r} exceeds the {largest} points of the smallest training fold; use fewer.")
    return np.asarray(counts[counts <= largest])


class _Table:
    """Scores and times of all candidates as they come in."""

    def __init__(self, candidates: list[dict[str, Any]], neighbours: Array, n_splits: int) -> None:
        self.params = [{**candidate, "n_neighbors": int(count)} for candidate in candidates for count in neighbours]
        shape = (len(candidates), len(neighbours), n_splits)
        self.scores, self.fit_times, self.score_times = (np.full(shape, np.nan) for _ in range(3))

    def enter(self, result: _Result) -> None:
        members = sum(len(same) for same in result.indices)
        for same, scores in zip(result.indices, result.scores, strict=True):
            self.scores[same, :, result.fold] = scores
            self.fit_times[same, :, result.fold] = result.fit_time / (members * self.scores.shape[1])
            self.score_times[same, :, result.fold] = result.score_time / (members * self.scores.shape[1])

    def results(self) -> dict[str, Any]:
        """In the format of GridSearchCV."""
        found: dict[str, Any] = {}
        for name, times in (("fit_time", self.fit_times), ("score_time", self.score_times)):
            flat = times.reshape(len(self.params), -1)
            found[f"mean_{name}"], found[f"std_{name}"] = flat.mean(axis=1), flat.std(axis=1)
        for name in sorted({name for params in self.params for name in params}):
            column = np.ma.MaskedArray(np.empty(len(self.params)), mask=True, dtype=object)
            for row, params in enumerate(self.params):
                if name in params:
                    column[row] = params[name]
            found[f"param_{name}"] = column
        found["params"] = self.params
        scores = self.scores.reshape(len(self.params), -1)
        found |= {f"split{fold}_test_score": scores[:, fold] for fold in range(scores.shape[1])}
        means = scores.mean(axis=1)
        found["mean_test_score"], found["std_test_score"] = means, scores.std(axis=1)
        found["rank_test_score"] = rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32)
        return found

    def best(self, means: Array, simplicity: list[tuple[float, ...]]) -> int:
        """The best candidate; of several equally good ones the simplest (see `MetricSearchCV`)."""
        equal = np.flatnonzero(means >= np.nanmax(means) - 1e-12).tolist()
        counts = self.scores.shape[1]

        def order(row: int) -> tuple[float, ...]:
            return (*simplicity[row // counts], -float(self.params[row]["n_neighbors"]), float(row))

        return min(equal, key=order)
