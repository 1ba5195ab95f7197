"""How well classes or real targets of somebody's table are predicted: cross-validated scores side by side, with intervals.

Each row is tested once in each repeat. Every score is a mean over rows, and its interval that of this mean: what is uncertain is
which rows were drawn. That the fits would be others, too, does not enter, so the intervals are somewhat short (Bates, Hastie and
Tibshirani, 2024). Accuracy is the mean of right and wrong. R2 = 1 - S / V is a ratio of two means, of squared errors s_i and of
v_i = (y_i - mean of y)^2; to first order (the delta method) it is the mean of

    R2 + (1 - R2) v_i / V - s_i / V,

whose interval accounts for both, and whose differences between two methods are those of their R2.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils import _safe_indexing

from outmetric.automatic.classifier import MetricClassifier
from outmetric.automatic.regressor import MetricRegressor
from outmetric.columns import TableError, table_encoder
from outmetric.foundation import Array, Tell

FOLDS = 5
# Neighbours that vote, for all methods that end in a vote; and that real targets are averaged over.
NEIGHBOURS = (1, 3, 5, 9, 15)
AVERAGED = (1, 3, 5, 9, 15, 25)
# "scale" is one over the number of features, for scaled data.
WIDTHS = (0.1, 0.3, 1.0, 3.0)
TREES = 500
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Rival:
    """A method: its name, and ``build(n_classes, folds, seed)``, which makes it, tuning and scaling included.

    For real targets there are no classes, so ``n_classes`` is 0.
    """

    label: str
    build: Callable[[int, Any, int], Any]


def _by_grid(steps: Sequence[tuple[str, Any]], grid: Grid, folds: Any, scoring: str = "accuracy") -> Any:
    pipeline = Pipeline([("scale", StandardScaler()), *steps])
    return GridSearchCV(pipeline, {name: list(values) for name, values in grid.items()}, cv=folds, scoring=scoring)


def euclidean(n_classes: int, folds: Any, seed: int) -> Any:
    """Euclidean nearest neighbours."""
    return _by_grid([("vote", KNeighborsClassifier())], {"vote__n_neighbors": NEIGHBOURS}, folds)


def nca(n_classes: int, folds: Any, seed: int) -> Any:
    """Nearest neighbours after neighbourhood components analysis."""
    steps = [("metric", NeighborhoodComponentsAnalysis(random_state=seed, max_iter=30)), ("vote", KNeighborsClassifier())]
    return _by_grid(steps, {"metric__n_components": (2, None), "vote__n_neighbors": NEIGHBOURS}, folds)


def svm(n_classes: int, folds: Any, seed: int) -> Any:
    """A support vector machine with a Gaussian kernel."""
    return _by_grid([("svm", _ScaledSVC())], {"svm__C": (0.1, 1.0, 10.0, 100.0, 1000.0), "svm__width": WIDTHS}, folds)


class _Scaled:
    """Support vectors with an RBF kernel whose gamma is ``width`` over the number of features."""

    def __init__(self, C: float = 1.0, width: float = 1.0) -> None:
        super().__init__(C=C)  # type: ignore[call-arg]  # that of scikit-learn
        self.width = width

    def fit(self, X: Array, y: Array) -> Any:
        self.gamma = self.width / X.shape[1]
        return super().fit(X, y)  # type: ignore[misc]


class _ScaledSVC(_Scaled, SVC):
    """For classes."""


class _ScaledSVR(_Scaled, SVR):
    """For real targets."""


def forest(n_classes: int, folds: Any, seed: int) -> Any:
    """A random forest, which needs no tuning."""
    return RandomForestClassifier(TREES, random_state=seed)


def boosting(n_classes: int, folds: Any, seed: int) -> Any:
    """Gradient boosting as it comes."""
    return HistGradientBoostingClassifier(random_state=seed)


def euclidean_average(n_classes: int, folds: Any, seed: int) -> Any:
    """Averages of Euclidean nearest neighbours."""
    grid = {"average__n_neighbors": AVERAGED, "average__weights": ("uniform", "distance")}
    return _by_grid([("average", KNeighborsRegressor())], grid, folds, "neg_mean_squared_error")


def svr(n_classes: int, folds: Any, seed: int) -> Any:
    """Support vector regression with a Gaussian kernel, of targets in units of their deviation, as its tolerance needs it."""
    grid = {"svr__C": (0.1, 1.0, 10.0, 100.0), "svr__width": WIDTHS}
    search = _by_grid([("svr", _ScaledSVR())], grid, folds, "neg_mean_squared_error")
    return TransformedTargetRegressor(search, transformer=StandardScaler())


def regression_forest(n_classes: int, folds: Any, seed: int) -> Any:
    """A random forest, which needs no tuning."""
    return RandomForestRegressor(TREES, random_state=seed)


def regression_boosting(n_classes: int, folds: Any, seed: int) -> Any:
    """Gradient boosting as it comes."""
    return HistGradientBoostingRegressor(random_state=seed)


# Those of the paper's report, too; and what a table's owner would ask for beside them.
RIVALS: Mapping[str, Rival] = {
    "knn": Rival("Euclidean k-NN", euclidean),
    "nca": Rival("NCA", nca),
    "svm": Rival("RBF-SVM", svm),
    "forest": Rival("random forest", forest),
}
MORE_RIVALS: Mapping[str, Rival] = {"boosting": Rival("gradient boosting", boosting)}
REAL_RIVALS: Mapping[str, Rival] = {
    "knn": Rival("Euclidean k-NN", euclidean_average),
    "svr": Rival("RBF-SVR", svr),
    "forest": Rival("random forest", regression_forest),
    "boosting": Rival("gradient boosting", regression_boosting),
}

OURS = MetricClassifier.__name__
# How often the intervals of real targets should hold them, which is checked.
COVERAGE = 0.9
# Real targets are tuned in five folds of a training part, which may be half of the rows.
FEWEST = 2 * FOLDS


@dataclass(frozen=True)
class Estimate:
    """A mean over rows, and half the length of its 95 % interval."""

    mean: float
    half: float

    @classmethod
    def over(cls, values: Array) -> Estimate:
        half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
        return cls(float(values.mean()), float(half))


@dataclass(frozen=True, eq=False)
class Comparison:
    """How well each method predicted.

    Attributes
    ----------
    values : dict of name to array of shape (rows,)
        What each row adds to the score, which is their mean.
    seconds : dict of name to float
        For fitting and predicting a fold, on average.
    ours : str
        Which of the methods is ours.
    absolute_errors : dict of name to array of shape (rows,), or None
        Of real targets.
    covered : array of shape (rows,), or None
        How often the intervals of ours held a real target, in per cent of the repeats.
    """

    values: Mapping[str, Array]
    seconds: Mapping[str, float]
    ours: str = OURS
    absolute_errors: Mapping[str, Array] | None = None
    covered: Array | None = None

    @property
    def real(self) -> bool:
        """Whether real targets were predicted: the score is then R2, otherwise accuracy in per cent."""
        return self.absolute_errors is not None

    def score(self, name: str) -> Estimate:
        return Estimate.over(self.values[name])

    def lead(self, name: str) -> Estimate:
        """By how much ours is better, row by row."""
        return Estimate.over(self.values[self.ours] - self.values[name])

    def absolute_error(self, name: str) -> Estimate | None:
        return None if self.absolute_errors is None else Estimate.over(self.absolute_errors[name])

    def coverage(self) -> Estimate | None:
        """How many rows the intervals of ours held, in per cent."""
        return None if self.covered is None else Estimate.over(self.covered)


def shares_of_r2(y: Array, squared_errors: Array) -> Array:
    """What each row adds to R2, as described above."""
    spread = (y - y.mean()) ** 2
    unexplained = squared_errors.mean() / spread.mean()
    return np.asarray(1 - unexplained + (unexplained * spread - squared_errors) / spread.mean())


def compare(
    X: Any,
    y: Array,
    *,
    real: bool = False,
    folds: int = 5,
    repeats: int = 1,
    time_budget: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    tell: Tell | None = None,
) -> Comparison:
    """Cross-validate `MetricClassifier` or `MetricRegressor` beside what people would otherwise take, tuned in each training part.

    For classes these are Euclidean k-NN, NCA, an SVM, a random forest and gradient boosting, for real targets k-NN, an SVR, a
    random forest and gradient boosting.

    Parameters
    ----------
    X : DataFrame
        Of numbers and categories, with gaps; see `MetricClassifier`.
    y : array of shape (n,)
        Classes, each with at least two rows; or numbers.
    real : bool
        Whether y holds real targets.
    folds, repeats : int
        Fewer folds if the smallest class has fewer rows.
    time_budget : float, optional
        Of ours, for each fit.
    seed : int
    n_jobs : int, optional
    tell : function (done, total, text), optional
    """
    inner, outer = _real_folds(y, folds, repeats, seed) if real else _class_folds(y, folds, repeats, seed)
    automatic: Any = MetricRegressor if real else MetricClassifier
    ours = automatic.__name__
    rivals = REAL_RIVALS if real else {**RIVALS, **MORE_RIVALS}
    n_classes = 0 if real else len(np.unique(y))
    methods = {ours: automatic(time_budget=time_budget, random_state=seed, n_jobs=n_jobs)}
    for rival in rivals.values():
        methods[rival.label] = make_pipeline(table_encoder(X), rival.build(n_classes, inner, seed))
    splits = list(outer.split(np.zeros(len(y)), y))
    shape = repeats, len(y)
    predicted = {name: np.empty(shape, dtype=y.dtype) for name in methods}
    covered = np.zeros(shape, dtype=bool)
    seconds = dict.fromkeys(methods, 0.0)
    done = 0
    for number, (train, test) in enumerate(splits):
        repeat = number * repeats // len(splits)
        known, new = _safe_indexing(X, train), _safe_indexing(X, test)
        for name, method in methods.items():
            if tell is not None:
                tell(done, len(splits) * len(methods), f"{name}, fold {number + 1} of {len(splits)}")
            done += 1
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NCA stops by its limit of iterations; small classes in inner folds
                fitted = clone(method).fit(known, y[train])
                predicted[name][repeat, test] = fitted.predict(new)
            seconds[name] += (time.perf_counter() - began) / len(splits)
            if real and name == ours:
                low, high = fitted.predict_interval(new, COVERAGE).T
                covered[repeat, test] = (low <= y[test]) & (y[test] <= high)
    if not real:
        right = {name: 100 * np.mean(found == y, axis=0) for name, found in predicted.items()}
        return Comparison(right, seconds)
    errors = {name: found - y for name, found in predicted.items()}
    return Comparison(
        {name: shares_of_r2(y, np.mean(found**2, axis=0)) for name, found in errors.items()},
        seconds,
        ours,
        {name: np.mean(np.abs(found), axis=0) for name, found in errors.items()},
        100 * np.mean(covered, axis=0),
    )


def _class_folds(y: Array, folds: int, repeats: int, seed: int) -> tuple[Any, Any]:
    """For tuning, and for testing."""
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise TableError(f"the class {classes[counts.argmin()]} has one row only; to be tested each class needs two.")
    outer = RepeatedStratifiedKFold(n_splits=int(min(folds, counts.min())), n_repeats=repeats, random_state=seed)
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed), outer


def _real_folds(y: Array, folds: int, repeats: int, seed: int) -> tuple[Any, Any]:
    """Likewise."""
    if len(y) < FEWEST:
        raise TableError(f"the table has {len(y)} rows; to be tested real targets need at least {FEWEST}.")
    if y.min() == y.max():
        raise TableError(f"all targets are {y[0]}; there is nothing to be told.")
    outer = RepeatedKFold(n_splits=min(folds, len(y)), n_repeats=repeats, random_state=seed)
    return KFold(FOLDS, shuffle=True, random_state=seed), outer
