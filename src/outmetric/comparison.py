"""How well classifiers do on somebody's table: cross-validated accuracies side by side, with intervals.

Folds share training rows, so their accuracies are not independent. The intervals are those of the corrected t-test (Nadeau and
Bengio, 2003), which takes the variance of a mean over k folds for (1/k + n_test/n_train) times that of one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing

from outmetric.classifier import MetricClassifier, table_encoder
from outmetric.operators import Array
from outmetric.paper.protocol import FOLDS, METHODS
from outmetric.tables.sources import TableError
from outmetric.tabular import Tell

OURS = "MetricClassifier"
# Beside ours, in the words of the paper's experiments, which say how each is tuned.
RIVALS = ("knn", "nca", "svm")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Accuracies in per cent of each method in each fold.

    Attributes
    ----------
    accuracies : dict of name to array of shape (folds,)
    seconds : dict of name to float
        For fitting, on average.
    ratio : float
        Rows for testing to rows for training.
    """

    accuracies: Mapping[str, Array]
    seconds: Mapping[str, float]
    ratio: float

    def mean(self, name: str) -> float:
        return float(self.accuracies[name].mean())

    def half(self, name: str) -> float:
        """Half the length of the 95 % interval of the mean."""
        return self._half(self.accuracies[name])

    def lead(self, name: str) -> tuple[float, float]:
        """By how much ours is better, fold by fold: mean, and half the length of its interval."""
        differences = self.accuracies[OURS] - self.accuracies[name]
        return float(differences.mean()), self._half(differences)

    def _half(self, values: Array) -> float:
        spread = float(values.var(ddof=1)) * (1 / len(values) + self.ratio)
        return float(stats.t.ppf(0.975, len(values) - 1) * np.sqrt(spread))


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
    """Cross-validate `MetricClassifier` and, with settings tuned in each training part, Euclidean k-NN, NCA and an SVM.

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
    for name in RIVALS:
        inner = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        methods[METHODS[name].label] = make_pipeline(table_encoder(X), METHODS[name].build(len(classes), inner, seed))
    splits = list(RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed).split(np.zeros(len(y)), y))
    accuracies = {name: np.full(len(splits), np.nan) for name in methods}
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
                right = fitted.predict(_safe_indexing(X, test)) == y[test]
            seconds[name] += (time.perf_counter() - began) / len(splits)
            accuracies[name][fold] = 100 * np.mean(right)
    return Comparison(accuracies, seconds, len(splits[0][1]) / len(splits[0][0]))
