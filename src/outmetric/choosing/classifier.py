"""The classifier that needs no settings: everything is chosen by cross-validation on the training data.

It searches over how features are scaled, the kernel, how strongly informative features are favoured, the model and its weights
(`outmetric.search`), and keeps a small committee of the best maps, whose smoothed neighbour votes are averaged.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted

from outmetric.choosing.committee import (
    COMMITTEE,
    LARGE_COMMITTEE,
    MANY_SAMPLES,
    NOVELTY_ROWS,
    NOVELTY_SHARE,
    Candidate,
    Member,
    Novelty,
    Pace,
    fit_committee,
    novelty_rows,
)
from outmetric.choosing.prediction import BestMapMixin, committee_facts, unnamed_rows
from outmetric.choosing.scoring import FEW_SAMPLES, Scoring, fewer_rows, some_rows, stratified_folds
from outmetric.choosing.votes import ClassVote, check_voters, score_function, smoothed_votes_to_onnx
from outmetric.columns import FeatureWeights, table_encoder
from outmetric.estimators import (
    Described,
    Fact,
    FixedKernelMetric,
    LearnedKernelMetric,
    check_labels,
    data,
)
from outmetric.foundation import (
    Array,
    Budget,
    announce,
    check_number,
    check_same_features,
    exportable_votes,
    is_fitted,
    sample_of,
    storable,
)

SCALINGS = ("standard", "quantile")
KERNELS = ("rbf", "laplacian", "additive")
POWERS = (0.0, 0.25, 0.5, 1.0)
# The additive kernel takes time proportional to the number of features.
ADDITIVE_FEATURES = 64
COARSE: dict[str, list[Any]] = {"bandwidth": ["0.35*median", "0.7*median", "1.4*median"], "regression_weight": [0.3, 3.0, 30.0]}
FINE = {
    "bandwidth": ["0.25*median", "0.5*median", "1*median", "2*median"],
    "regression_weight": [0.1, 1.0, 10.0, 100.0],
    "collocation_weight": ["auto", 0.0],
}
# By what candidates are compared, what else is told of them, and the numbers of neighbours that are tried.
DECIDES, TOLD, NEIGHBOURS = "neg_log_loss", "accuracy", (1, 3, 5, 9, 15, 25)
# How many preparations are looked at more closely.
REFINED = 4
# More samples than this are not searched on.
SEARCHED_SAMPLES = 1000
# With a time budget: on how many rows settings are compared if all of them would take too long, beginning with FEW_SAMPLES, which
# tells the pace; which share of the budget comparing one preparation may take; and which is kept for what follows at most.
FEWER_SAMPLES, PREPARATION_SHARE, KEPT_SHARE = (700, 500, 350), 1 / 8, 0.5


def _check_stored(found: MetricClassifier, size: int) -> None:
    if not hasattr(found, "committee_"):
        return
    for member in found.committee_:
        if not isinstance(member, Member):
            raise ValueError(f"a committee has a member that is a {type(member).__name__}")
        if not is_fitted(member.pipeline):
            raise ValueError("a committee has a member that is not fitted")
        check_voters(member.voters, found.classes_)
        check_same_features(found, member.pipeline)
    check_same_features(found, found.best_estimator_)


def _sample(found: MetricClassifier, size: int) -> Any:
    return sample_of(found.best_estimator_, size) if hasattr(found, "best_estimator_") else None


def _voting_members(model: MetricClassifier) -> list[tuple[Any, Any]]:
    check_is_fitted(model)
    return [(member.pipeline, member.voters) for member in model.committee_]


@storable("MetricClassifier", check=_check_stored, sample=_sample, transient=["_pace"])
@exportable_votes(_voting_members, smoothed_votes_to_onnx, own_preparations=True)
class MetricClassifier(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, BestMapMixin, TransformerMixin, Described):
    """A nearest-neighbour classifier in learned metrics that chooses all its settings itself.

    By cross-validated log-loss of smoothed votes it chooses the scaling of features (standard or by quantiles), the kernel
    (Gaussian, Laplacian or additive), supervised feature weights, the model, all its weights and the number of neighbours. The
    votes of the 25 best candidates are averaged; the best one serves `transform`. With more than 1000 samples the choice is made on
    a random, stratified 1000 of them. With more than 2000 the 5 best candidates vote, with more than 4000 by 1000 landmarks each.

    Tables may have numeric and categorical columns (anything that is neither a number nor a date: encoded one-hot, a missing value
    and categories unknown at training time count as "none of these"), dates (their parts that vary, see
    `outmetric.columns.DateParts`; also texts such as "2024-02-29 12:30"), and missing numbers and dates (replaced by the median,
    with a column that says so). An array holds numbers, or dates (datetime64).

    Parameters
    ----------
    time_budget : float, optional
        Seconds that `fit` may take as a whole. It is kept by comparing fewer settings (from simple to elaborate preparations) on
        fewer rows, and by fitting fewer maps, with landmarks; ``left_out_`` tells. There is always a model; if even the smallest
        takes longer, a warning says so. Default: all that is described above.
    random_state : int, RandomState or None
        For the folds.
    n_jobs : int, optional
        Through joblib.
    verbose : bool or function
        Tell on stderr what is being done; or call ``function(done, total, text)``.

    Attributes
    ----------
    classes_ : array
    candidates_ : list of Candidate
        All that was tried, best first.
    committee_ : list of Member
        Those that vote, best first.
    best_estimator_ : Pipeline
        The best map, fitted on all data.
    best_score_ : float
        Its cross-validated log-likelihood per sample; optimistic, since it is the best of many.
    left_out_ : list of str
        What was left out for lack of time, in words.
    novelty_ : Novelty or None
        What `novelty` goes by.

    Examples
    --------
    >>> from outmetric import MetricClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MetricClassifier(time_budget=2, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    def __init__(
        self,
        *,
        time_budget: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | Callable[[int, int, str], object] = False,
    ) -> None:
        self.time_budget = time_budget
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Choose everything and fit.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
        y : array of shape (n,)
            Class labels.
        """
        budget = Budget(self.time_budget)
        for name in ("candidates_", "committee_", "best_estimator_", "left_out_", "novelty_"):
            self.__dict__.pop(name, None)  # nothing of an earlier fit may survive one that ends early
        if self.time_budget is not None:
            check_number("time_budget", self.time_budget, positive=True)
        X, labels = self._check_training(X, y)
        rng = check_random_state(self.random_state)
        some = some_rows(labels, SEARCHED_SAMPLES, rng)
        found: list[Candidate] = []
        self._pace: Pace | None = None
        self.left_out_: list[str] = []
        try:
            folds = stratified_folds(labels[some], rng)
            seed = int(rng.randint(2**31))  # what the maps draw must come from random_state, too
            self._choose(found, table_encoder(X), _safe_indexing(X, some), labels[some], folds, seed, budget, len(labels))
        finally:
            self.candidates_ = sorted(found, key=lambda candidate: -candidate.score)
        return self._fit_committee(X, labels, budget)

    def finish(self, X: Any, y: Any) -> Self:
        """Go on after `fit` was interrupted, with the candidates that were scored until then.

        Parameters
        ----------
        X, y : as for `fit`
        """
        budget = Budget(self.time_budget)
        if hasattr(self, "committee_") or not getattr(self, "candidates_", None):
            raise NotFittedError("there is no interrupted fit with a candidate that was scored: there is nothing to go on from.")
        return self._fit_committee(*self._check_training(X, y), budget)

    def _fit_committee(self, X: Any, labels: Array, budget: Budget) -> Self:
        """Fit the committee, and what novelty is judged by."""
        pace, n_samples = self._pace, len(labels)
        kept = 0.0 if pace is None else min(pace.novelty(min(n_samples, NOVELTY_ROWS)), max(budget.left, 0.0) * NOVELTY_SHARE)
        size = min(_committee_size(n_samples), len({candidate.map_key for candidate in self.candidates_}))
        self._tell(1, 1, f"fitting the best, {size} if there is time" if budget.limited else f"fitting the {size} best")
        elected = fit_committee(
            self.candidates_,
            size,
            X,
            labels,
            budget=budget.keeping(kept),
            pace=pace,
            hurried=bool(self.left_out_),
        )
        best, fitted = elected.members[0].candidate, elected.members[0].pipeline
        most = novelty_rows(n_samples, budget, pace)
        novelty = Novelty.learn(best.unfitted(), fitted, X, labels, best.n_neighbors, most=most)
        self.left_out_ += elected.left_out
        if most < min(n_samples, NOVELTY_ROWS):
            self.left_out_.append(f"novelty is judged by {most} rows instead of {min(n_samples, NOVELTY_ROWS)}")
        self.best_score_ = self.candidates_[0].score
        self.committee_, self.best_estimator_, self.novelty_ = elected.members, fitted, novelty
        self._n_features_out = self.best_estimator_[-1].coefficients_.shape[1]
        self.fit_time_ = budget.spent
        del self._pace
        if self.time_budget is not None and self.fit_time_ > 1.2 * self.time_budget + 1:
            warnings.warn(
                f"time_budget={self.time_budget:g} s was not enough for the smallest model: it took {self.fit_time_:.1f} s.",
                UserWarning,
                stacklevel=3,
            )
        return self

    def _check_training(self, X: Any, y: Any) -> tuple[Any, Array]:
        """X checked, and the class indices of y."""
        X = self.check_table(X, reset=True)
        y = check_labels(self, y)
        if len(y) != len(X):
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[len(X), len(y)]}")
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only ({self.classes_[0]}); MetricClassifier needs at least two classes.")
        return X, labels

    def _choose(
        self,
        found: list[Candidate],
        encoder: Any,
        X: Any,
        labels: Array,
        folds: list[tuple[Array, Array]],
        seed: int,
        budget: Budget,
        n_samples: int,
    ) -> None:
        """Find all candidates for which there is time: each preparation coarsely, then the best ones finely."""
        width = X.shape[1] if encoder is None else clone(encoder).fit_transform(X).shape[1]
        preparations = [
            (scaling, kernel, power)
            for power in POWERS
            for kernel in KERNELS
            for scaling in SCALINGS
            if kernel != "additive" or width <= ADDITIVE_FEATURES
        ]
        total = len(preparations) + REFINED
        coarse = [(LearnedKernelMetric(random_state=seed), COARSE)]
        failures: list[str] = []
        first: list[Candidate] = []
        compared: list[str] = []
        done = 0

        def search(into: list[Candidate], preparation: tuple[str, str, float], models: list[tuple[Any, dict[str, Any]]]) -> str:
            """For how much of it there was time: "all", "some" or "none"."""
            own = budget.keeping(self._kept(budget, n_samples))
            scored = bool(found or first)
            # Nothing is known before a candidate is scored in all folds.
            shortest = len(folds) * self._pace.exact(len(folds[0][0])) if self._pace else 0.0
            if (scored or failures) and not own.allows(shortest):
                return "none"
            scaling, kernel, power = preparation
            self._tell(done, total, f"{kernel}, {scaling}, R2^{power:g}")
            try:
                candidates, whole = self._search(preparation, models, encoder, X, labels, folds, own, not scored)
            except ValueError as error:  # this preparation suits neither; another may
                failures.append(str(error))
                return "all"
            into.extend(candidates)
            return "all" if whole else "some" if candidates else "none"

        if budget.limited and len(labels) > FEW_SAMPLES:
            everything = X, labels, folds
            X, labels, folds = fewer_rows(*everything, FEW_SAMPLES, seed)
            once = search(first, preparations[0], coarse)
            tasks = len(folds) * len(COARSE["bandwidth"])
            share = PREPARATION_SHARE * budget.keeping(self._kept(budget, n_samples)).left
            sizes = [size for size in (len(everything[1]), *FEWER_SAMPLES) if FEW_SAMPLES < size <= len(everything[1])]
            size = next((size for size in sizes if self._pace and tasks * self._pace.exact(0.8 * size) <= share), FEW_SAMPLES)
            X, labels, folds = everything if size == len(everything[1]) else fewer_rows(*everything, size, seed)
            if size < len(everything[1]):
                self.left_out_.append(f"settings were compared on {size} rows instead of {len(everything[1])}")
            if size == FEW_SAMPLES:
                found.extend(first)
                compared, done = [once], 1
        for preparation in preparations[done:]:
            compared.append(search(found, preparation, coarse))
            done += 1
        found.extend(() if found else first)
        if not found:
            tries = f"{compared.count('all')} of {len(preparations)} ways to prepare the data were tried in time"
            late = f" ({tries})" if "none" in compared else ""
            raise ValueError(f"{failures[0]}{late}")
        best: dict[Any, float] = {}
        for candidate in found:
            best[candidate.preparation] = max(candidate.score, best.get(candidate.preparation, -np.inf))
        refinements = [
            (LearnedKernelMetric(random_state=seed), {**FINE, "n_components": _component_counts(len(np.unique(labels)))}),
            (FixedKernelMetric(random_state=seed), {**FINE, "metric_ridge": [0.3, 3.0]}),
        ]
        refined = []
        for preparation in sorted(best, key=lambda key: -best[key])[:REFINED]:
            refined.append(search(found, preparation, refinements))
            done += 1
        self.left_out_ += _left_out(compared, "ways to prepare the data") + _left_out(refined, "closer looks at the best of these")

    def _kept(self, budget: Budget, n_samples: int) -> float:
        """Seconds that the search leaves to what comes after it."""
        if budget.seconds is None:
            return 0.0
        needed = np.inf if self._pace is None else self._pace.committee(n_samples, _committee_size(n_samples))
        return float(min(needed, KEPT_SHARE * budget.seconds))

    def _tell(self, done: int, total: int, text: str) -> None:
        if callable(self.verbose):
            self.verbose(done, total, text)
        elif self.verbose:
            announce("MetricClassifier", text if done == total else f"{done} of {total} preparations compared; now {text}")

    def predict_proba(self, X: Any) -> Array:
        """The committee's mean of smoothed neighbour votes, shape (n, classes)."""
        check_is_fitted(self)
        X = self.check_table(X, reset=False)
        with unnamed_rows():
            return np.asarray(np.mean([member.probabilities(X) for member in self.committee_], axis=0))

    def predict(self, X: Any) -> Array:
        """The most probable class."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def _facts(self) -> list[Fact]:
        preparations = len({candidate.preparation for candidate in self.candidates_})
        left_out = getattr(self, "left_out_", ())
        return [
            Fact("kind", "a classifier, by votes of nearest neighbours in learned maps"),
            Fact("learned from", data(self.committee_[0].voters.n_samples_fit_, self.n_features_in_, self.classes_)),
            Fact("compared", f"{len(self.candidates_)} candidates (ways to prepare the data: {preparations})"),
            *([Fact("left out", f"for lack of time: {'; '.join(left_out)}")] if left_out else []),
            Fact("committee", f"{len(self.committee_)} maps vote"),
            *committee_facts("log-likelihood per sample", self.committee_),
            Fact("time", f"{self.fit_time_:.1f} s"),
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _search(
        self,
        preparation: tuple[str, str, float],
        models: list[tuple[Any, dict[str, Any]]],
        encoder: Any,
        X: Any,
        labels: Array,
        folds: Any,
        budget: Budget,
        needed: bool,
    ) -> tuple[list[Candidate], bool]:
        """The candidates of one way to prepare the data, scored, and whether there was time for all of them."""
        scaling, kernel, power = preparation
        seed, n_quantiles = models[0][0].random_state, int(np.clip(len(labels) // 2, 2, 200))
        quantiles = QuantileTransformer(n_quantiles=n_quantiles, random_state=seed)
        scaler = StandardScaler() if scaling == "standard" else quantiles
        steps = [("encode", encoder)] if encoder is not None else []
        steps += [("scale", scaler), ("weigh", FeatureWeights(power))]
        classes, codes = np.unique(labels, return_inverse=True)
        found, skipped = [], 0
        for metric, grid in models:
            pipeline = Pipeline([*steps, ("metric", clone(metric).set_params(kernel=kernel))])
            tried = list(ParameterGrid({f"metric__{name}": values for name, values in grid.items()}))
            scoring = Scoring.plan(pipeline, tried, folds, NEIGHBOURS, len(labels), n_classes=len(classes), metric=DECIDES)
            vote = ClassVote(scoring.neighbours, codes, classes, score_function([DECIDES, TOLD], classes))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of single candidates; the committee's members are fitted with warnings on
                scoring.run(X, labels, vote, n_jobs=self.n_jobs, budget=budget, needed=needed)
            skipped += scoring.skipped
            if not scoring.skipped:
                scoring.require_scores()
            if grid is COARSE and scoring.seconds > 0:
                self._pace = Pace(scoring.seconds, len(folds[0][0]))
            results = scoring.table.results()
            scores, told = (results.get(f"mean_test_{name}", np.full(len(results["params"]), np.nan)) for name in (DECIDES, TOLD))
            name = "learned" if isinstance(metric, LearnedKernelMetric) else "fixed"
            for row, params in enumerate(results["params"]):
                own = {key: value for key, value in params.items() if key != "n_neighbors"}
                described = {"scaling": scaling, "kernel": kernel, "power": power, "model": name}
                described |= {key.removeprefix("metric__"): value for key, value in own.items()}
                others = {TOLD: float(told[row])}
                found.append(Candidate(pipeline, own, params["n_neighbors"], float(scores[row]), described, others))
        return [candidate for candidate in found if np.isfinite(candidate.score)], not skipped


def _component_counts(n_classes: int) -> list[int | None]:
    return [None] if n_classes <= 3 else [None, max(2, n_classes // 2)]


def _left_out(outcomes: list[str], what: str) -> list[str]:
    """In words, what there was no time for."""
    none, some = outcomes.count("none"), outcomes.count("some")
    in_part = f", and {some} in part" if some else ""
    return [f"{none} of {len(outcomes)} {what}{in_part}"] if none or some else []


def _committee_size(n_samples: int) -> int:
    return COMMITTEE if n_samples <= MANY_SAMPLES else LARGE_COMMITTEE
