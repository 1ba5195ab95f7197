"""How well classifiers do on somebody's table: cross-validated accuracies side by side, with intervals.

Each row is tested once in each repeat. An interval is that of the mean over rows, for each of which right and wrong are averaged
over repeats: what is uncertain is which rows were drawn. That the fits would be others, too, does not enter, so the intervals are
somewhat short (Bates, Hastie and Tibshirani, 2024).
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
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import _safe_indexing

from outmetric.choosing.classifier import MetricClassifier
from outmetric.columns import TableError, table_encoder
from outmetric.foundation import Array, Tell

FOLDS = 5
# Neighbours that vote, for all methods that end in a vote.
NEIGHBOURS = (1, 3, 5, 9, 15)
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Rival:
    """A classifier: its name, and ``build(n_classes, folds, seed)``, which makes it, tuning and scaling included."""

    label: str
    build: Callable[[int, StratifiedKFold, int], Any]


def _by_grid(steps: Sequence[tuple[str, Any]], grid: Grid, folds: StratifiedKFold) -> Any:
    pipeline = Pipeline([("scale", StandardScaler()), *steps])
    return GridSearchCV(pipeline, {name: list(values) for name, values in grid.items()}, cv=folds, scoring="accuracy")


def euclidean(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """Euclidean nearest neighbours."""
    return _by_grid([("vote", KNeighborsClassifier())], {"vote__n_neighbors": NEIGHBOURS}, folds)


def nca(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """Nearest neighbours after neighbourhood components analysis."""
    steps = [("metric", NeighborhoodComponentsAnalysis(random_state=seed, max_iter=30)), ("vote", KNeighborsClassifier())]
    return _by_grid(steps, {"metric__n_components": (2, None), "vote__n_neighbors": NEIGHBOURS}, folds)


def svm(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """A support vector machine with a Gaussian kernel."""
    # "scale" is one over the number of features, for scaled data.
    return _by_grid([("svm", _ScaledSVC())], {"svm__C": (0.1, 1.0, 10.0, 100.0, 1000.0), "svm__width": (0.1, 0.3, 1.0, 3.0)}, folds)


class _ScaledSVC(SVC):
    """An RBF-SVM whose gamma is ``width`` over the number of features."""

    def __init__(self, C: float = 1.0, width: float = 1.0) -> None:
        super().__init__(C=C)
        self.width = width

    def fit(self, X: Array, y: Array) -> Any:
        self.gamma = self.width / X.shape[1]
        return super().fit(X, y)


def forest(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """A random forest, which needs no tuning."""
    return RandomForestClassifier(500, random_state=seed)


RIVALS: Mapping[str, Rival] = {
    "knn": Rival("Euclidean k-NN", euclidean),
    "nca": Rival("NCA", nca),
    "svm": Rival("RBF-SVM", svm),
    "forest": Rival("random forest", forest),
}


OURS = "MetricClassifier"


@dataclass(frozen=True, eq=False)
class Comparison:
    """What each method got right.

    Attributes
    ----------
    right : dict of name to array of shape (rows,)
        How often each row was recognised, in per cent of the repeats.
    seconds : dict of name to float
        For fitting and predicting a fold, on average.
    """

    right: Mapping[str, Array]
    seconds: Mapping[str, float]

    def mean(self, name: str) -> float:
        return float(self.right[name].mean())

    def half(self, name: str) -> float:
        """Half the length of the 95 % interval of the mean."""
        return _half(self.right[name])

    def lead(self, name: str) -> tuple[float, float]:
        """By how much ours is better, row by row: mean, and half the length of its interval."""
        differences = self.right[OURS] - self.right[name]
        return float(differences.mean()), _half(differences)


def _half(values: Array) -> float:
    return float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def compare(
    X: Any,
    y: Array,
    *,
    folds: int = 5,
    repeats: int = 1,
    time_budget: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    tell: Tell | None = None,
) -> Comparison:
    """Cross-validate `MetricClassifier`, a random forest and, tuned in each training part, Euclidean k-NN, NCA and an SVM.

    Parameters
    ----------
    X : DataFrame
        Of numbers and categories, with gaps; see `MetricClassifier`.
    y : array of shape (n,)
        Classes, each with at least two rows.
    folds, repeats : int
        Fewer folds if the smallest class has fewer rows.
    time_budget : float, optional
        Of `MetricClassifier`, for each fit.
    seed : int
    n_jobs : int, optional
    tell : function (done, total, text), optional
    """
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise TableError(f"the class {classes[counts.argmin()]} has one row only; to be tested each class needs two.")
    folds = int(min(folds, counts.min()))
    methods = {OURS: MetricClassifier(time_budget=time_budget, random_state=seed, n_jobs=n_jobs)}
    for rival in RIVALS.values():
        inner = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        methods[rival.label] = make_pipeline(table_encoder(X), rival.build(len(classes), inner, seed))
    splits = list(RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed).split(np.zeros(len(y)), y))
    right = {name: np.zeros(len(y)) for name in methods}
    seconds = dict.fromkeys(methods, 0.0)
    done = 0
    for fold, (train, test) in enumerate(splits):
        for name, method in methods.items():
            if tell is not None:
                tell(done, len(splits) * len(methods), f"{name}, fold {fold + 1} of {len(splits)}")
            done += 1
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NCA stops by its limit of iterations; small classes in inner folds
                fitted = clone(method).fit(_safe_indexing(X, train), y[train])
                right[name][test] += 100 / repeats * (fitted.predict(_safe_indexing(X, test)) == y[test])
            seconds[name] += (time.perf_counter() - began) / len(splits)
    return Comparison(right, seconds)
