"""The classifier that needs no settings: everything is chosen by cross-validation on the training data.

It searches over how features are scaled, the kernel, how strongly informative features are favoured, the model and its weights
(`outmetric.search`), and keeps a small committee of the best maps, whose smoothed neighbour votes are averaged.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, RepeatedStratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from outmetric.choosing.committee import COMMITTEE, LARGE_COMMITTEE, MANY_SAMPLES, Candidate, Member, fit_committee
from outmetric.choosing.search import MetricSearchCV
from outmetric.choosing.votes import check_voters, smoothed_votes_to_onnx
from outmetric.columns import FeatureWeights, check_frame, table_encoder, without_na
from outmetric.estimators import (
    Described,
    Fact,
    FixedKernelMetric,
    LearnedKernelMetric,
    check_labels,
    data,
    located,
    number,
    settings_text,
)
from outmetric.foundation import (
    Array,
    announce,
    check_number,
    check_same_features,
    exportable_votes,
    is_fitted,
    sample_of,
    storable,
)

KERNELS = ("rbf", "laplacian", "additive")
POWERS = (0.0, 0.25, 0.5, 1.0)
# The additive kernel takes time proportional to the number of features.
ADDITIVE_FEATURES = 64
COARSE = {"bandwidth": ["0.35*median", "0.7*median", "1.4*median"], "regression_weight": [0.3, 3.0, 30.0]}
FINE = {
    "bandwidth": ["0.25*median", "0.5*median", "1*median", "2*median"],
    "regression_weight": [0.1, 1.0, 10.0, 100.0],
    "collocation_weight": ["auto", 0.0],
}
# How many preparations are looked at more closely, and how many maps vote in the end.
REFINED = 4
# Maps that the summary tells of.
SHOWN = 5
# More samples than this are not searched on.
SEARCHED_SAMPLES = 1000
# Below this many samples the folds are drawn twice: choices by few validation points are noisy.
FEW_SAMPLES = 250


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


@storable("MetricClassifier", check=_check_stored, sample=_sample)
@exportable_votes(_voting_members, smoothed_votes_to_onnx, own_preparations=True)
class MetricClassifier(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, Described):
    """A nearest-neighbour classifier in learned metrics that chooses all its settings itself.

    By cross-validated log-loss of smoothed votes it chooses the scaling of features (standard or by quantiles), the kernel
    (Gaussian, Laplacian or additive), supervised feature weights, the model, all its weights and the number of neighbours. The
    votes of the 25 best candidates are averaged; the best one serves `transform`. With more than 1000 samples the choice is made on
    a random, stratified 1000 of them. With more than 2000 the 5 best candidates vote, with more than 4000 by 1000 landmarks each.

    Tables may have numeric and categorical columns (anything that is not a number: encoded one-hot, a missing value and categories
    unknown at training time count as "none of these"), and missing numbers (replaced by the median, with a column that says so).

    Parameters
    ----------
    time_budget : float, optional
        Seconds after which no further settings are tried; the search goes from simple to elaborate preparations. Default: try all.
    random_state : int, RandomState or None
        For the folds.
    n_jobs : int, optional
        Through joblib.
    verbose : bool or function
        Tell on stderr what is tried; or call ``function(done, total, text)``.

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
        began = time.perf_counter()
        for name in ("candidates_", "committee_", "best_estimator_"):
            self.__dict__.pop(name, None)  # nothing of an earlier fit may survive one that ends early
        if self.time_budget is not None:
            check_number("time_budget", self.time_budget, positive=True)
        X, labels = self._check_training(X, y)
        rng = check_random_state(self.random_state)
        some = _some_rows(labels, rng)
        deadline = np.inf if self.time_budget is None else began + self.time_budget
        found: list[Candidate] = []
        try:
            folds = _folds(labels[some], rng)
            seed = int(rng.randint(2**31))  # what the maps draw must come from random_state, too
            self._choose(found, table_encoder(X), _safe_indexing(X, some), labels[some], folds, seed, deadline)
        finally:
            self.candidates_ = sorted(found, key=lambda candidate: -candidate.score)
        return self._fit_committee(X, labels, began)

    def finish(self, X: Any, y: Any) -> Self:
        """Go on after `fit` was interrupted, with the candidates that were scored until then.

        Parameters
        ----------
        X, y : as for `fit`
        """
        began = time.perf_counter()
        if hasattr(self, "committee_") or not getattr(self, "candidates_", None):
            raise NotFittedError("there is no interrupted fit with a candidate that was scored: there is nothing to go on from.")
        return self._fit_committee(*self._check_training(X, y), began)

    def _fit_committee(self, X: Any, labels: Array, began: float) -> Self:
        """Fit the committee."""
        self.best_score_ = self.candidates_[0].score
        size = COMMITTEE if len(labels) <= MANY_SAMPLES else LARGE_COMMITTEE
        self._tell(1, 1, f"fitting the {size} best")
        self.committee_ = fit_committee(self.candidates_, size, X, labels)
        self.best_estimator_ = self.committee_[0].pipeline
        self._n_features_out = self.best_estimator_[-1].coefficients_.shape[1]
        self.fit_time_ = time.perf_counter() - began
        return self

    def _check_training(self, X: Any, y: Any) -> tuple[Any, Array]:
        """X checked, and the class indices of y."""
        X = self._check_table(X, reset=True)
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
        deadline: float,
    ) -> None:
        """Find all candidates until the deadline: each preparation coarsely, then the best ones finely."""
        width = X.shape[1] if encoder is None else clone(encoder).fit_transform(X).shape[1]
        preparations = [
            (scaling, kernel, power)
            for power in POWERS
            for kernel in KERNELS
            for scaling in ("standard", "quantile")
            if kernel != "additive" or width <= ADDITIVE_FEATURES
        ]
        failures: list[str] = []
        done = 0

        def search(preparation: tuple[str, str, float], models: list[tuple[Any, dict[str, Any]]]) -> None:
            nonlocal done
            scaling, kernel, power = preparation
            self._tell(done, len(preparations) + REFINED, f"{kernel}, {scaling}, R2^{power:g}")
            done += 1
            if found and time.perf_counter() > deadline:
                return
            try:
                found.extend(self._search(preparation, models, encoder, X, labels, folds))
            except ValueError as error:  # this preparation suits neither; another may
                failures.append(str(error))

        for preparation in preparations:
            search(preparation, [(LearnedKernelMetric(random_state=seed), COARSE)])
        if not found:
            raise ValueError(failures[0])
        best: dict[Any, float] = {}
        for candidate in found:
            best[candidate.preparation] = max(candidate.score, best.get(candidate.preparation, -np.inf))
        n_classes = len(np.unique(labels))
        refinements = [
            (LearnedKernelMetric(random_state=seed), {**FINE, "n_components": _component_counts(n_classes)}),
            (FixedKernelMetric(random_state=seed), {**FINE, "metric_ridge": [0.3, 3.0]}),
        ]
        for preparation in sorted(best, key=lambda key: -best[key])[:REFINED]:
            search(preparation, refinements)

    def _tell(self, done: int, total: int, text: str) -> None:
        if callable(self.verbose):
            self.verbose(done, total, text)
        elif self.verbose:
            announce("MetricClassifier", f"{done} of {total} preparations compared: {text}")

    def predict_proba(self, X: Any) -> Array:
        """The committee's mean of smoothed neighbour votes, shape (n, classes)."""
        check_is_fitted(self)
        X = self._check_table(X, reset=False)
        with _unnamed_rows():
            return np.asarray(np.mean([member.probabilities(X) for member in self.committee_], axis=0))

    def predict(self, X: Any) -> Array:
        """The most probable class."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def transform(self, X: Any) -> Array:
        """Coordinates of the best map: Euclidean distance there is the learned metric."""
        check_is_fitted(self)
        X = self._check_table(X, reset=False)
        with _unnamed_rows():
            return np.asarray(self.best_estimator_.transform(X))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "committee_")

    def _facts(self) -> list[Fact]:
        preparations = len({candidate.preparation for candidate in self.candidates_})
        best = [
            f"{number(chosen.score)}: {settings_text(chosen.description)}, {chosen.n_neighbors} neighbours"
            for chosen in (member.candidate for member in self.committee_[:SHOWN])
        ]
        return [
            Fact("learned from", data(self.committee_[0].voters.n_samples_fit_, self.n_features_in_, self.classes_)),
            Fact("compared", f"{len(self.candidates_)} candidates (ways to prepare the data: {preparations})"),
            Fact("committee", f"{len(self.committee_)} maps vote"),
            Fact("score", "log-likelihood per sample in cross-validation"),
            *(Fact(f"map {place}", text) for place, text in enumerate(best, start=1)),
            Fact("time", f"{self.fit_time_:.1f} s"),
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_table(self, X: Any, *, reset: bool) -> Any:
        if hasattr(X, "columns") and hasattr(X, "dtypes"):
            with located(X):
                validate_data(self, X, reset=reset, skip_check_array=True)
            if reset and len(X) < 2:
                raise ValueError(f"at least 2 rows are needed; n_samples = {len(X)} came.")
            check_frame(X, learning=reset)
            return without_na(X)
        # Rows of a table without its names; what is missing there is NaN in a data frame.
        mixed = not reset and isinstance(self.best_estimator_[0], ColumnTransformer) and np.asarray(X).dtype.kind == "O"
        X = np.where([[value is None for value in row] for row in X], np.nan, X) if mixed else X
        gaps = reset or "encode" in self.best_estimator_.named_steps
        try:
            with located(X):
                return validate_data(
                    self,
                    X,
                    reset=reset,
                    dtype=object if mixed else np.float64,
                    ensure_all_finite="allow-nan" if gaps else True,
                    ensure_min_samples=2 if reset else 1,
                )
        except ValueError as error:
            if gaps or "contains NaN" not in str(error):
                raise
            raise ValueError(
                f"{error} The array that the model was fitted on had no missing values; to have them filled, fit on a DataFrame, "
                "or on an array that has some."
            ) from error

    def _search(
        self,
        preparation: tuple[str, str, float],
        models: list[tuple[Any, dict[str, Any]]],
        encoder: Any,
        X: Any,
        labels: Array,
        folds: Any,
    ) -> list[Candidate]:
        """The candidates of one way to prepare the data, scored."""
        scaling, kernel, power = preparation
        seed, n_quantiles = models[0][0].random_state, int(np.clip(len(labels) // 2, 2, 200))
        quantiles = QuantileTransformer(n_quantiles=n_quantiles, random_state=seed)
        scaler = StandardScaler() if scaling == "standard" else quantiles
        steps = [("encode", encoder)] if encoder is not None else []
        steps += [("scale", scaler), ("weigh", FeatureWeights(power))]
        found = []
        for metric, grid in models:
            pipeline = Pipeline([*steps, ("metric", clone(metric).set_params(kernel=kernel))])
            search = MetricSearchCV(
                pipeline, {f"metric__{name}": values for name, values in grid.items()}, cv=folds, refit=False, n_jobs=self.n_jobs
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of single candidates; the committee's members are fitted with warnings on
                search.fit(X, labels)
            name = "learned" if isinstance(metric, LearnedKernelMetric) else "fixed"
            for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
                own = {key: value for key, value in params.items() if key != "n_neighbors"}
                described = {"scaling": scaling, "kernel": kernel, "power": power, "model": name}
                described |= {key.removeprefix("metric__"): value for key, value in own.items()}
                found.append(Candidate(pipeline, own, params["n_neighbors"], float(score), described))
        return [candidate for candidate in found if np.isfinite(candidate.score)]


def _folds(labels: Array, rng: np.random.RandomState) -> list[tuple[Array, Array]]:
    """Five stratified folds (fewer for small classes), drawn twice if samples are few."""
    smallest = int(np.bincount(labels).min())
    indices = np.zeros(len(labels))
    if smallest < 2:
        return list(KFold(min(5, len(labels)), shuffle=True, random_state=rng).split(indices))
    repeats = 2 if len(labels) < FEW_SAMPLES else 1
    splitter = RepeatedStratifiedKFold(n_splits=min(5, smallest), n_repeats=repeats, random_state=rng)
    return list(splitter.split(indices, labels))


def _component_counts(n_classes: int) -> list[int | None]:
    return [None] if n_classes <= 3 else [None, max(2, n_classes // 2)]


def _some_rows(labels: Array, rng: np.random.RandomState) -> Array:
    """All rows, or a stratified random choice of as many as the search takes."""
    rows = np.arange(len(labels))
    if len(rows) <= SEARCHED_SAMPLES:
        return rows
    try:
        return np.sort(train_test_split(rows, train_size=SEARCHED_SAMPLES, stratify=labels, random_state=rng)[0])
    except ValueError:  # a class with one member cannot be stratified
        return np.sort(rng.permutation(rows)[:SEARCHED_SAMPLES])


@contextmanager
def _unnamed_rows() -> Iterator[None]:
    """That rows come without names is told once, when they are checked, and not by every step of every map."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
