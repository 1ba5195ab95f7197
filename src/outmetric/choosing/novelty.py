"""How far new rows are from the rows that a map was learned from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing

from outmetric.choosing.evaluation import evaluate
from outmetric.choosing.scoring import Scoring
from outmetric.choosing.votes import Vote
from outmetric.foundation import Array, one_blas_thread, storable

# By how many rows it is judged, and the folds that these are divided into.
ROWS, FOLDS = 500, 5
# Rows whose distances are held at once.
BLOCK = 4096


@storable("Novelty", holds_models=True)
@dataclass(frozen=True, eq=False)
class Novelty:
    """How far rows are from the training data, as a quantile of how far these are from one another.

    How far is the mean distance of the nearest neighbours, among some training rows, and it is looked at twice: in the map, and
    among the scaled and weighted features before it. In the map alone a row far from all others could hide, since a kernel map
    takes all such rows to one point, which may lie between classes that overlap. The training rows' own distances are those to
    rows of other folds, in a map that was learned without them.

    Parameters
    ----------
    preparation : fitted transformer
        Scales and weights features, once they are numbers.
    features : array of shape (n, d)
        Of the training rows that are compared with.
    places : array of shape (n, m)
        Where they are in the map.
    n_neighbors : int
    in_features, in_map : arrays of shape (n,), sorted
        The training rows' own distances.
    larger : array of shape (n,), sorted
        The larger of the quantiles of both, for each training row.
    """

    preparation: Any
    features: Array = field(repr=False)
    places: Array = field(repr=False)
    n_neighbors: int
    in_features: Array = field(repr=False)
    in_map: Array = field(repr=False)
    larger: Array = field(repr=False)

    def __post_init__(self) -> None:
        lengths = {len(self.in_features), len(self.in_map), len(self.larger)}
        together = self.features.ndim == self.places.ndim == 2 and len(self.features) == len(self.places)
        if not together or lengths != {len(self.larger)} or not 1 <= self.n_neighbors <= len(self.places) or not len(self.larger):
            raise ValueError("what novelty is judged by does not fit together")

    @classmethod
    def learn(cls, pipeline: Any, fitted: Any, X: Any, y: Array, n_neighbors: int, *, most: int = ROWS) -> Novelty | None:
        """From the map itself, by fits in folds of at most so many rows; None if none of the folds could be fitted.

        Parameters
        ----------
        pipeline : Pipeline
            The map as it is to be fitted; its last step is the metric.
        fitted : Pipeline
            The same, fitted on all rows.
        X, y : data and targets
        """
        rows = np.arange(len(y))
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
        # Encoded once, as for the map itself: that looks at no targets, and with many columns it takes longest.
        X, y = _encoded(fitted, _safe_indexing(X, rows)), y[rows]
        pipeline, before = _exact(pipeline), _before(pipeline)
        own = np.full((2, len(rows)), np.nan)
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever fitted the map on all rows was told
            folds = list(KFold(min(FOLDS, len(rows)), shuffle=True, random_state=0).split(rows))
            classes = {"dimension": y.shape[1]} if y.ndim == 2 else {"n_classes": len(np.unique(y))}
            scoring = Scoring.plan(pipeline, [{}], folds, 1, len(rows), **classes)
            vote = _OutOfFoldDistances(scoring.neighbours, n_neighbors, own[0])
            for task, (train, test) in zip(scoring.tasks, folds, strict=True):
                (found,) = evaluate(task, X, y, vote, scoring.request)
                if found.failure is not None:  # too few rows without these, for instance
                    continue
                mapped = clone(before).fit(_safe_indexing(X, train), y[train])
                known, new = (mapped.transform(_safe_indexing(X, part)) for part in (train, test))
                own[1, test] = _mean_distances(known, new, n_neighbors)
            in_map, in_features = own[:, np.isfinite(own).all(axis=0)]
            if not len(in_map):
                return None
            preparation = clone(before).fit(X, y)
            features, places = preparation.transform(X), np.asarray(_numeric(fitted).transform(X))
        larger = np.maximum(_quantiles(in_features, np.sort(in_features)), _quantiles(in_map, np.sort(in_map)))
        arrays = [np.sort(array) for array in (in_features, in_map, larger)]
        return cls(preparation, features, places, min(n_neighbors, len(rows)), *arrays)

    def of(self, X: Any, fitted: Any) -> Array:
        """From 0 to 1 for each row, of which ``fitted`` is the map; 1: further than any training row."""
        X = _encoded(fitted, X)
        features, places = self.preparation.transform(X), _numeric(fitted).transform(X)
        found = np.maximum(
            _quantiles(_mean_distances(self.features, features, self.n_neighbors), self.in_features),
            _quantiles(_mean_distances(self.places, places, self.n_neighbors), self.in_map),
        )
        return _quantiles(found, self.larger)


@dataclass(frozen=True, eq=False)
class _OutOfFoldDistances(Vote):
    """Notes how far the rows of each fold are from their nearest neighbours, and has no opinion else."""

    n_neighbors: int
    found: Array

    def of(self, rows: Array) -> Self:
        return replace(self, found=self.found[rows])

    def scores(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Array:
        self.found[asked] = _mean_distances(train[0], new[0], self.n_neighbors)
        return np.zeros((len(train), len(self.neighbours)))


def _encoded(fitted: Any, X: Any) -> Any:
    """Rows of a table as numbers; those of arrays are numbers already."""
    return fitted.named_steps["encode"].transform(X) if "encode" in fitted.named_steps else X


def _numeric(pipeline: Any) -> Any:
    """The steps after that."""
    return pipeline[1:] if "encode" in pipeline.named_steps else pipeline


def _exact(pipeline: Any) -> Pipeline:
    """The same map of numbers without landmarks, which so few rows do not need."""
    *before, (name, metric) = clone(_numeric(pipeline)).steps
    if getattr(metric, "n_landmarks", None) is not None or getattr(metric, "solver", None) == "nystroem":
        metric.set_params(n_landmarks=None, solver="auto")
    return Pipeline([*before, (name, metric)])


def _before(pipeline: Any) -> Pipeline:
    """The steps before the metric. Quantiles would hide what lies outside of the range of the training rows.

    What a forest takes as it is, is scaled: distances would be those of the feature with the largest unit.
    """
    steps = dict(_numeric(pipeline).steps[:-1])
    return clone(Pipeline([*(steps | {"scale": StandardScaler()}).items()]))


def _mean_distances(known: Any, new: Any, n_neighbors: int) -> Array:
    """How far new points are from their nearest neighbours, on average."""
    count = min(n_neighbors, len(known))
    known, new = np.asarray(known, dtype=np.float64), np.asarray(new, dtype=np.float64)
    found = np.empty(len(new))
    for start in range(0, len(new), BLOCK):  # `gen_batches` refuses no rows
        part = slice(start, start + BLOCK)
        found[part] = np.partition(cdist(new[part], known), count - 1, axis=1)[:, :count].mean(axis=1)
    return found


def _quantiles(values: Array, ordered: Array) -> Array:
    """The share of the ordered values that are smaller."""
    return np.asarray(np.searchsorted(ordered, values, side="left") / len(ordered))
