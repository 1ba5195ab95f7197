"""Cross-validated choice of settings at little more than the price of one fit for each kernel.

Candidates share what they can (`outmetric.candidates`), and one sorted list of neighbours serves every number of neighbours.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError
from sklearn.model_selection import ParameterGrid, ParameterSampler, check_cv
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing

from outmetric.choosing.callbacks import CallbackSupportMixin, Progress, with_callbacks
from outmetric.choosing.candidates import metric_of, weight_parameter
from outmetric.choosing.evaluation import Request, rows_of
from outmetric.choosing.prediction import BestCandidateMixin
from outmetric.choosing.scores import ScoreFunction, check_real_scoring, is_multimetric, score_function, scorer_of, scoring_for
from outmetric.choosing.scoring import Scoring, check_refit, chosen_row, deciding_metric
from outmetric.choosing.supervision import Supervision
from outmetric.choosing.votes import AverageVote, ClassVote, ScoredVote, check_averages, check_voters, neighbours_to_onnx
from outmetric.estimators import Described, Fact, data, number, settings_text
from outmetric.foundation import (
    Array,
    check_integer,
    check_same_features,
    exportable_votes,
    fits_in_memory,
    is_fitted,
    sample_of,
    storable,
)
from outmetric.rows import EXACT_SAMPLES, DaskRows, in_memory, is_dask

# With landmarks, at most so many training points vote in the end.
VOTERS = 10_000


def _fetched(X: Any, *others: Any) -> tuple[Any, ...]:
    """A Dask collection as rows that stay in their chunks, or, if exact fits would do, in memory; what has a value for each row."""
    rows = DaskRows(X)
    values = [
        {name: in_memory(one) for name, one in given.items()} if isinstance(given, dict) else in_memory(given) for given in others
    ]
    few = len(rows) <= EXACT_SAMPLES and fits_in_memory(8.0 * 3 * rows.shape[0] * rows.shape[1])
    return rows[:] if few else rows, *values


def _check_stored(found: MetricSearchCV, size: int) -> None:
    if not isinstance(found.estimator, BaseEstimator):
        raise ValueError(f"a search has an estimator that is a {type(found.estimator).__name__}")
    if hasattr(found, "best_estimator_") or hasattr(found, "voters_"):  # or the search was interrupted
        best = found.best_estimator_
        if not isinstance(best, BaseEstimator) or not is_fitted(best) or not hasattr(best, "transform"):
            raise ValueError("a search has a best estimator that is none, or not fitted")
        if found.learned_real_targets:
            check_averages(found.voters_, found.n_targets_)
        else:
            check_voters(found.voters_, found.classes_)
        check_integer("n_neighbors_", found.n_neighbors_)
        check_same_features(found, best)


def _sample(found: MetricSearchCV, size: int) -> Any:
    return sample_of(found.best_estimator_, size) if hasattr(found, "best_estimator_") else None


def _voting_members(search: MetricSearchCV) -> list[tuple[Any, KNeighborsClassifier | KNeighborsRegressor]]:
    search.check_refitted()
    return [(search.best_estimator_, search.voters_)]


@storable("MetricSearchCV", check=_check_stored, sample=_sample, transient=["_scored"])
@exportable_votes(_voting_members, neighbours_to_onnx)
class MetricSearchCV(CallbackSupportMixin, BestCandidateMixin, MetaEstimatorMixin, Described):
    """Choose the settings of a metric, and the number of neighbours that vote in it, by cross-validation.

    Has the face of scikit-learn's `GridSearchCV` over a pipeline of the metric and `KNeighborsClassifier`, or `KNeighborsRegressor`
    for real targets, and the same scores wherever the fits converge, but computes one eigendecomposition for each fold, kernel and
    ratio of weights, whatever the number of candidates. A candidate that cannot be fitted gets no score (NaN, and a warning).
    `score` is that of ``scoring``.

    ``y`` says what is learned, as for the metrics: several columns, one column of floats, or numbers with fractions are real
    targets. Then neighbours are averaged, `predict_proba` and ``classes_`` are not there, and to scikit-learn the fitted search is
    a regressor; before the fit, which knows ``y``, it is a classifier.

    With landmarks (see the estimator) one pass over the data serves all folds and all candidates with one kernel, and fits the best
    one as well, unless the estimator is a pipeline, whose steps before the metric see other rows in each fold. Then at most 1000
    training points vote on at most 1000 validation points of a fold, drawn at random, and in the end at most 10,000. Rows of Dask
    arrays and data frames stay in their chunks, where the pass is made; up to 10,000 are fetched, and searched as any. Rounds of an
    input metric take two more passes each over the training part of each fold. For real targets each candidate with landmarks has
    a fit of its own in each fold.

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
    scoring : str, callable, list, tuple, set, dict or None
        A name or scorer of scikit-learn. "auto" (default) means "neg_log_loss" for classes and "neg_mean_squared_error" for real
        targets, None means "accuracy" and "r2". "neg_log_loss" is taken of smoothed votes, (votes + 1/2) / (n_neighbors +
        classes/2); with few samples it chooses better than accuracy. Several metrics: their names, a dict of names or scorers, or
        a function that returns a dict of scores.
    cv : int, splitter or iterable of splits
        Stratified by classes for an int.
    refit : bool, str or callable
        Fit the best candidate on all data afterwards. With several metrics: the name of the one that decides, or False. A function
        gets ``cv_results_`` and returns the number of the row to take.
    n_iter : int, optional
        Draw this many candidates from ``param_grid`` at random instead of taking all.
    n_jobs : int, optional
        Through joblib, so its backends work.
    random_state : int, RandomState or None
        For ``n_iter``.
    verbose : bool or function
        Show progress on stderr, or call ``function(done, total, text)``. scikit-learn's callbacks (`sklearn.callback.ProgressBar`,
        say) work too, with a task for each kernel and fold.
    error_score : float or "raise"
        The score where a fit or a scorer fails.
    return_train_score : bool
        Score the training parts as well, where each point is its own first neighbour.

    Attributes
    ----------
    best_params_ : dict
        The best row of ``cv_results_["params"]``: settings of the estimator, and n_neighbors. Of candidates with the same mean
        score the simplest is taken: fewer components, then a smaller regression_weight, then a wider bandwidth (multiples of the
        median before numbers), then more neighbours, then the first. With several metrics and refit=False there is none.
    n_neighbors_ : int
        That of ``best_params_``.
    best_score_ : float
        Unless ``refit`` is a function.
    best_index_ : int
    best_estimator_ : estimator
        Fitted on all data (with ``refit``).
    cv_results_ : dict
        In the format of `GridSearchCV`, with the numbers of neighbours as ``param_n_neighbors``. Times are shares of what
        candidates have in common. After an interrupt, candidates not scored yet hold NaN.
    scorer_ : scorer, or dict of scorers
    multimetric_ : bool
        Whether there are several metrics.
    n_splits_, n_samples_fit_ : int
        Folds, and samples in all of them.
    n_decompositions_ : int
        How many eigendecompositions were shared, folds included; candidates that need a fit of their own do not count.
    classes_ : array
        Unless targets are real.
    n_targets_ : int
        Only if targets are real.

    Examples
    --------
    >>> from outmetric import LearnedKernelMetric, MetricSearchCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> grid = {"bandwidth": [0.5, 1.0, 2.0], "regression_weight": [0.3, 3.0, 30.0]}
    >>> search = MetricSearchCV(LearnedKernelMetric(), grid, scoring="accuracy").fit(X[::2], y[::2])
    >>> search.n_decompositions_
    15
    >>> search.score(X[1::2], y[1::2]) > 0.9
    True
    """

    # These go to splitter, estimator and scorers, by their requests.
    __metadata_request__fit = {"groups": UNUSED, "sample_weight": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        n_neighbors: int | Sequence[int] = (1, 3, 5, 9, 15, 25),
        scoring: Any = "auto",
        cv: Any = 5,
        refit: bool | str | Callable[[dict[str, Any]], int] = True,
        n_iter: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int | Callable[[int, int, str], object] = False,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
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
        self.error_score = error_score
        self.return_train_score = return_train_score

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickles of version 0.1 lack these.
        super().__setstate__({"error_score": np.nan, "return_train_score": False, **state})

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, groups: Any = None, *, sample_weight: Any = None, **params: Any) -> Self:
        """Score all candidates, and fit the best one on all data.

        Parameters
        ----------
        X : data that the estimator takes
            Dask arrays and data frames too; what belongs to their rows may be Dask's as well, and is brought into memory.
        y : array of shape (n,) or (n, q)
            Class labels, or real targets. Rows may lack them if ``unlabeled`` of the estimator, or of a candidate, says what is to
            become of such rows: they are in every training part, and scores are those of the others.
        groups : array of shape (n,), optional
            For splitters that keep groups together.
        sample_weight : array of shape (n,), optional
            For the metric: how often each row counts in training (neighbours vote once each); rows with 0 are left out. If
            scikit-learn routes metadata, it goes to those that request it, scorers among them.
        **params : further arguments of the fits
            Of a pipeline's steps before the metric, as for `Pipeline.fit`: ``scale__sample_weight``. If scikit-learn routes
            metadata, those that estimator, splitter and scorers request. What has a value for each row is divided as the rows are.
        """
        for name in [name for name in vars(self) if name.endswith("_") or name == "_scored"]:
            delattr(self, name)  # nothing of an earlier fit may survive one that ends early
        self._check_parameters()
        candidates = self._candidates()
        if is_dask(X):
            X, y, groups, sample_weight, params = _fetched(X, y, groups, sample_weight, params)
        given = Supervision.of(self, candidates, X, y, groups, sample_weight, params)
        if given.missing is not None and isinstance(X, DaskRows):
            raise ValueError("rows without labels need all rows in memory; take those with labels, X[known], or fewer rows.")
        asked = scoring_for(self.scoring, real=not given.labelled)
        metric = deciding_metric(asked, self.refit)
        known = given.known
        if given.labelled:
            self.classes_ = np.unique(known)
            kind = {"n_classes": len(self.classes_)}
        else:
            check_real_scoring(asked, known)
            self.n_targets_ = 1 if known.ndim == 1 else known.shape[1]
            kind = {"dimension": self.n_targets_}
        routed = self._routed(given.groups, given.params)
        splits = given.splits(check_cv(self.cv, known, classifier=given.labelled), routed.splitter.split)
        if not splits:
            raise ValueError(f"cv={self.cv!r} gives no splits, so nothing can be scored; an iterator can be used only once.")
        request = Request(routed.estimator.fit, self.return_train_score, self.error_score, given.unlabelled)
        plan = partial(Scoring.plan, self.estimator, candidates, splits, self.n_neighbors, len(given.truth))
        scoring = plan(metric=metric, request=request, **kind)
        score_params = routed.scorer.score
        score = score_function(asked, getattr(self, "classes_", None), raises=request.raises, routed=bool(score_params))
        vote = self._vote(given.truth, scoring.neighbours, score, score_params)
        self.n_splits_ = len(splits)
        self.n_samples_fit_ = len(known)
        self.n_decompositions_ = scoring.n_decompositions
        self._scored = scoring, given  # for `finish`, should this be interrupted
        progress = Progress(self, len(scoring.tasks), verbose=self.verbose)
        try:
            scoring.run(given.X, given.told_apart(splits), vote, n_jobs=self.n_jobs, advance=progress.advance)
        finally:
            self.cv_results_ = scoring.table.results()
            self.multimetric_ = is_multimetric(self.scoring) or scoring.table.metrics not in ([], ["score"])
        self._warn(scoring)
        self._conclude(scoring, given)
        del self._scored
        progress.end()
        return self

    def _check_parameters(self) -> None:
        check_integer("n_iter", self.n_iter, optional=True)
        if not (callable(self.verbose) or (isinstance(self.verbose, Integral | np.bool_) and self.verbose >= 0)):
            raise ValueError(f"verbose must be True, False, a number >= 0 or a function, not {self.verbose!r}.")
        number_given = isinstance(self.error_score, Real) and not isinstance(self.error_score, bool)
        if not number_given and not (isinstance(self.error_score, str) and self.error_score == "raise"):
            raise ValueError(f"error_score must be a number or 'raise', not {self.error_score!r}.")
        if not isinstance(self.return_train_score, bool | np.bool_):
            raise ValueError(f"return_train_score must be True or False, not {self.return_train_score!r}.")

    def _candidates(self) -> list[dict[str, Any]]:
        if self.n_iter is None:
            candidates = list(ParameterGrid(self.param_grid))
        else:
            candidates = list(ParameterSampler(self.param_grid, self.n_iter, random_state=self.random_state))
        if not candidates:
            raise ValueError(f"param_grid={self.param_grid!r} holds no candidates; {{}} is one, the estimator as it is.")
        return candidates

    def _vote(self, y: Array, neighbours: Array, score: ScoreFunction, params: Mapping[str, Any]) -> ScoredVote:
        if self.learned_real_targets:
            return AverageVote(neighbours, y, score, params)
        # Rows that do not count may have other labels.
        labels = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        return ClassVote(neighbours, labels, self.classes_, score, params)

    def _routed(self, groups: Any, params: Mapping[str, Any]) -> Any:
        """Who gets what of the arguments of `fit`."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", **params, **({} if groups is None else {"groups": groups}))
        prefix = f"{self.estimator.steps[-1][0]}__" if isinstance(self.estimator, Pipeline) else ""
        unknown = [name for name in params if name.startswith(prefix) and name != weight_parameter(self.estimator)]
        if unknown:
            raise TypeError(f"fit of {type(metric_of(self.estimator)).__name__} takes X, y and sample_weight, not {unknown[0]!r}.")
        return Bunch(estimator=Bunch(fit=params), splitter=Bunch(split={"groups": groups}), scorer=Bunch(score={}))

    def get_metadata_routing(self) -> MetadataRouter:
        """What scikit-learn passes on: to the estimator, the scorers and the splitter."""
        scores = MethodMapping().add(caller="score", callee="score").add(caller="fit", callee="score")
        return (
            MetadataRouter(owner=self)
            .add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
            .add(scorer=scorer_of(self.asked_scoring), method_mapping=scores)
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def _warn(self, scoring: Scoring) -> None:
        """Tell of what went wrong."""
        if scoring.stragglers:
            warnings.warn(f"{scoring.stragglers} fits reached max_iter before tol.", ConvergenceWarning, stacklevel=3)
        table, failures = scoring.table, scoring.failures
        failed = table.failed.any(axis=2).ravel()
        scoring.require_scores()
        if failed.any():
            instead = "not scored" if np.isnan(table.error_score) else f"given error_score={table.error_score} where they failed"
            message = f"{failed.sum()} candidates were {instead}; the first failure: {failures[0]}"
            warnings.warn(message, FitFailedWarning, stacklevel=3)
        for column in table.columns:
            lost = int(np.sum(~np.isfinite(self.cv_results_[f"mean_{column}"]) & ~failed))
            if lost:
                warnings.warn(f"{lost} candidates have a {column} that is not finite: a scorer said so.", UserWarning, stacklevel=3)

    def finish(self, X: Any, y: Any) -> Self:
        """Go on after `fit` was interrupted: fit the best of the candidates that were scored until then in all folds.

        Parameters
        ----------
        X, y : as for `fit`
        """
        if not hasattr(self, "_scored") or not self._scored[0].table.is_comparable():
            raise NotFittedError("there is no interrupted fit with a candidate that was scored in all folds.")
        self._conclude(*self._scored)
        del self._scored
        return self

    def _conclude(self, scoring: Scoring, given: Supervision) -> None:
        """Choose the best candidate and fit it on all data."""
        check_refit(self.refit, self.asked_scoring, scoring.table.metrics if self.multimetric_ else None)
        if self.multimetric_ and not self.refit:
            return  # none of the metrics decides
        if callable(self.refit):
            self.best_index_ = chosen_row(self.refit, self.cv_results_)
        else:
            self.best_index_ = scoring.best_index()
            self.best_score_ = float(scoring.table.means[self.best_index_])
        self.best_params_ = dict(self.cv_results_["params"][self.best_index_])
        chosen = dict(self.best_params_)
        self.n_neighbors_ = int(chosen.pop("n_neighbors"))
        if self.refit:
            began = time.perf_counter()
            found = scoring.gathered.of(self.best_index_ // len(scoring.neighbours))
            if found is not None:
                self.best_estimator_ = found.fit(chosen)
            else:
                best = clone(self.estimator).set_params(**clone(chosen, safe=False))
                X = given.X.collection if isinstance(given.X, DaskRows) else given.X
                self.best_estimator_ = best.fit(X, given.y, **scoring.request.fit_params)
            self.refit_time_ = time.perf_counter() - began
            for name in ("n_features_in_", "feature_names_in_"):
                if hasattr(self.best_estimator_, name):
                    setattr(self, name, getattr(self.best_estimator_, name))
            self.voters_ = self._make_voters(given)

    def _make_voters(self, given: Supervision) -> KNeighborsClassifier | KNeighborsRegressor:
        real = self.learned_real_targets
        X, numbers = given.X, given.rows
        values = given.known if real else np.unique(given.known, return_inverse=True)[1]
        if len(values) > VOTERS and getattr(metric_of(self.best_estimator_), "solver_", None) == "nystroem":
            order = np.random.default_rng(0).permutation(len(values))
            # At least one of each class.
            first = order[:0] if real else order[np.unique(values[order], return_index=True)[1]]
            others = order[~np.isin(order, first)]
            rows = np.sort(np.concatenate([first, others[: VOTERS - len(first)]]))
            numbers, values = numbers[rows], values[rows]
        X = X if len(numbers) == len(given.truth) and not isinstance(X, DaskRows) else rows_of(X, numbers)
        voters = KNeighborsRegressor(self.n_neighbors_) if real else KNeighborsClassifier(self.n_neighbors_)
        return voters.fit(np.asarray(self.best_estimator_.transform(X)), values)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cv_results_")

    def _facts(self) -> list[Fact]:
        metric = self._shown_metric()
        means, spreads = self.cv_results_[f"mean_test_{metric}"], self.cv_results_[f"std_test_{metric}"]
        counts = len(set(self.cv_results_["param_n_neighbors"]))
        prefix = f"{self.estimator.steps[-1][0]}__" if isinstance(self.estimator, Pipeline) else ""

        def result(row: int) -> str:
            params = {name.removeprefix(prefix): value for name, value in self.cv_results_["params"][row].items()}
            return f"{number(means[row])} ± {number(spreads[row])}: {settings_text(params)}"

        scored = np.isfinite(means)
        missing = f", {np.sum(~scored)} without a score" if not scored.all() else ""
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        features = None if pairwise else getattr(self, "n_features_in_", None)
        tried = f"{len(means)} candidates ({counts} numbers of neighbours) on {self.n_splits_} folds{missing}"
        facts = [
            Fact("learned from", data(self.n_samples_fit_, features, getattr(self, "classes_", None))),
            Fact("searched", f"{tried}; {self.n_decompositions_} shared eigendecompositions"),
        ]
        if not hasattr(self, "best_index_"):
            undecided = getattr(self, "multimetric_", False) and not self.refit
            why = "none of the metrics decides" if undecided else "the search was interrupted, or nothing could be scored"
            return [*facts, Fact("status", f"no best candidate: {why}")]
        scoring = metric
        if metric == "score":
            asked = self.asked_scoring
            scoring = asked if isinstance(asked, str) else getattr(asked, "__name__", repr(asked))
        facts += [Fact("score", f"{scoring}, mean ± standard deviation over folds"), Fact("best", result(self.best_index_))]
        others = scored & (np.arange(len(means)) // counts != self.best_index_ // counts)
        if others.any():
            facts.append(Fact("runner-up", result(int(np.argmax(np.where(others, means, -np.inf))))))
        facts += self.reason_facts()
        if hasattr(self, "refit_time_"):
            facts.append(Fact("fitted", f"the best, on all samples, in {self.refit_time_:.2g} s"))
        return facts

    def _shown_metric(self) -> str:
        """The metric that decided, or the first."""
        if isinstance(self.refit, str) and f"mean_test_{self.refit}" in self.cv_results_:
            return self.refit
        return next(name.removeprefix("mean_test_") for name in self.cv_results_ if name.startswith("mean_test_"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags
