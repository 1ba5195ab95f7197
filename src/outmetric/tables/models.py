"""Models of tables: how one is fitted to a DataFrame, and what a fitted one knows of the rows that it was learned from."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, ParameterGrid
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from outmetric.choosing import FINE, AverageVote, MetricClassifier, MetricSearchCV, Novelty, Scoring
from outmetric.columns import Columns, Remedy, TableError, align, table_encoder
from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric, listed, mostly_alone
from outmetric.foundation import Array, Tell, sample_of, storable
from outmetric.rows import EXACT_SEARCHED, LANDMARKS

Kind = Literal["auto", "fixed", "learned"]
METRICS: Mapping[str, Any] = {"auto": LearnedKernelMetric, "fixed": FixedKernelMetric, "learned": LearnedKernelMetric}
NEIGHBOURS = (1, 3, 5, 9, 15, 25)
# What tuning tries; what is set by hand is left alone.
GRIDS = {"fixed": {**FINE, "metric_ridge": [0.3, 3.0]}, "learned": FINE}
# For real targets, whose settings are compared by the neighbours' averages.
REAL_GRID = {
    "bandwidth": ["0.5*median", "1*median", "2*median"],
    "regression_weight": [0.03, 0.3, 3.0],
    "collocation_weight": [0.0],
}
FOLDS = 5
# By what settings are compared for classes, and what else is told.
DECIDES, TOLD = "neg_log_loss", "accuracy"
REAL = Remedy("real")


def _check_stored(found: TableModel, size: int) -> None:
    columns = found.columns
    for part in (found.estimator, found.mapping):
        if getattr(part, "n_features_in_", None) != len(columns.features):
            raise ValueError(f"a model of a table with {len(columns.features)} features has a {type(part).__name__} of others")
        names = getattr(part, "feature_names_in_", None)
        if names is not None and list(names) != list(columns.features):
            raise ValueError("a model of a table knows other columns than its parts")
    if columns.classes and not (hasattr(found.estimator, "predict_proba") and hasattr(found.estimator, "classes_")):
        raise ValueError("a model of a table should predict classes, and has none")
    row = sample_of(found.estimator, size)
    if row is not None:
        kinds = tuple("category" if isinstance(value, str) else "number" for value in np.asarray(row)[0])
        if kinds != columns.kinds:
            raise ValueError("a model of a table prepares other kinds of columns than it has")


@storable("TableModel", holds_models=True, check=_check_stored, used=lambda model, size: (model.estimator, model.mapping))
@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model together with the table that it was learned from.

    Attributes
    ----------
    columns : Columns
        What of a table it uses.
    estimator : fitted estimator
        Predicts.
    mapping : fitted estimator
        Maps; often the same.
    names : array of shape (n,)
        Of the rows it was learned from: an identifier, or their numbers, from 1.
    targets : array of shape (n,)
        Their classes or real targets.
    coordinates : array of shape (n, m)
        Where they are; Euclidean distance there is the learned metric.
    score, scoring : float, str
        How well it did in cross-validation, on the best of what was tried, and what that is.
    scores : dict
        Likewise, by other measures.
    surroundings : Novelty or None
        What `novelty` goes by, unless the estimator knows itself.
    """

    columns: Columns = field(repr=False)
    estimator: Any
    mapping: Any = field(repr=False)
    names: Array = field(repr=False)
    targets: Array = field(repr=False)
    coordinates: Array = field(repr=False)
    score: float
    scoring: str
    scores: dict[str, float] = field(default_factory=dict)
    surroundings: Novelty | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.columns, Columns) and hasattr(self.estimator, "predict") and hasattr(self.mapping, "transform")):
            raise ValueError("a model of a table needs columns, an estimator that predicts and one that maps")
        if self.coordinates.ndim != 2 or not len(self.names) == len(self.targets) == len(self.coordinates):
            raise ValueError("names, targets and coordinates of the rows do not fit together")

    def transform(self, frame: Any, source: str = "the table") -> Array:
        """Coordinates of the rows of a table that has the same columns, in any order."""
        return np.asarray(self.mapping.transform(align(frame, self.columns, source=source)))

    def predict(self, frame: Any, source: str = "the table") -> Array:
        """Class, or real target, of each row."""
        return np.asarray(self.estimator.predict(align(frame, self.columns, source=source))).reshape(len(frame))

    def predict_proba(self, frame: Any, source: str = "the table") -> Array:
        """Probabilities of the classes, in the order of `classes`."""
        if not self.columns.classes:
            raise TableError(f"the target {self.columns.target} is a number; it has no probabilities.")
        return np.asarray(self.estimator.predict_proba(align(frame, self.columns, source=source)))

    def classify(self, frame: Any, source: str = "the table") -> tuple[Array, Array]:
        """What `predict` and `predict_proba` give, computed once: the class with the largest probability, of several the first."""
        probabilities = self.predict_proba(frame, source)
        return np.asarray(self.estimator.classes_[probabilities.argmax(axis=1)]), probabilities

    def novelty(self, frame: Any, source: str = "the table") -> Array | None:
        """How far rows are from those that the model was learned from, from 0 to 1, which means further than any of these.

        None for models of an earlier version, or of very few rows, which do not know.
        """
        X = align(frame, self.columns, source=source)
        if self.surroundings is not None:
            return self.surroundings.of(X, getattr(self.mapping, "best_estimator_", self.mapping))
        return None if getattr(self.estimator, "novelty_", None) is None else np.asarray(self.estimator.novelty(X))

    @property
    def classes(self) -> Array | None:
        """None for real targets."""
        return self.estimator.classes_ if self.columns.classes else None

    def neighbors(self, coordinates: Array, k: int) -> tuple[Array, Array]:
        """Distances and numbers of the k nearest rows that the model was learned from, nearest first; arrays of shape (n, k)."""
        if not 1 <= k <= len(self.coordinates):
            raise TableError(f"the model was learned from {len(self.coordinates)} rows; {k} neighbours cannot be had.")
        distances, rows = self._index.kneighbors(coordinates, n_neighbors=k)
        return distances, rows

    @cached_property
    def _index(self) -> NearestNeighbors:
        return NearestNeighbors().fit(self.coordinates)

    def row_names(self, frame: Any) -> tuple[str, Array]:
        """How the rows of a table are called, and by which column: by the identifier if they have it, else by number."""
        identifier = self.columns.identifier
        if identifier is None or identifier not in frame.columns:
            return "row", np.arange(1, len(frame) + 1)
        return identifier, _names(frame[identifier])

    def row(self, name: str) -> Array:
        """Coordinates of the row of this name."""
        found = np.flatnonzero(self.names.astype(str) == name)
        if not len(found):
            raise TableError(f"{name!r} is neither a file nor the name of a row that the model was learned from.")
        return np.asarray(self.coordinates[found[0]])

    def example(self) -> Any:
        """A table of one row with the right kinds of columns."""
        import pandas as pd

        examples = {"number": 0.0, "category": "", "date": np.datetime64(0, "s")}
        return pd.DataFrame({name: [examples[kind]] for name, kind in self.columns.kinds_by_name.items()})

    def facts(self) -> dict[str, Any]:
        """What there is to say about the model, for people and programs."""
        found: dict[str, Any] = {
            "model": type(self.estimator).__name__,
            "kind": self._kind(),
            "target": self.columns.target,
            "rows": len(self.coordinates),
            "components": self.coordinates.shape[1],
            "features": self.columns.kinds_by_name,
            f"cross-validated {self.scoring}": self.score,
            **{f"cross-validated {name}": value for name, value in self.scores.items()},
        }
        if self.columns.identifier is not None:
            found["identifier"] = self.columns.identifier
        if self.classes is not None:
            labels, counts = np.unique(self.targets, return_counts=True)
            found["classes"] = dict(zip(labels.astype(str).tolist(), counts.tolist(), strict=True))
        return found

    def _kind(self) -> str:
        """What the model is, for people."""
        maps = len(getattr(self.estimator, "committee_", "1"))
        where = f"{maps} learned maps, averaged" if maps > 1 else f"a map learned by {type(self._metric()).__name__}"
        how = "classes, by votes of nearest neighbours" if self.columns.classes else "numbers, as averages of nearest neighbours"
        return f"{how} in {where}"

    def _metric(self) -> Any:
        """The metric of the best map."""
        best = getattr(self.estimator, "best_estimator_", self.estimator)
        return next(step for step in reversed(dict(best.steps).values()) if hasattr(step, "metric_"))

    def summary(self) -> str:
        """The same as text, with what the estimators say of themselves."""
        lines = [f"{name}: {listed(value) if isinstance(value, dict) else value}" for name, value in self.facts().items()]
        own = [self.estimator.summary()] if hasattr(self.estimator, "summary") else []
        return "\n\n".join(["\n".join(lines), *own, self._metric().summary()])


@dataclass(frozen=True)
class Outcome:
    """A fitted model, and whether an interrupt ended the search for it."""

    model: TableModel
    interrupted: bool


def fit_table(
    frame: Any,
    columns: Columns,
    *,
    kind: Kind = "auto",
    tune: bool = False,
    settings: Mapping[str, Any] | None = None,
    time_budget: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    tell: Tell | None = None,
    keep_best: bool = False,
    source: str = "the table",
) -> Outcome:
    """Learn from a table.

    Parameters
    ----------
    frame : DataFrame
    columns : Columns
        From `check_columns`.
    kind : "auto", "fixed" or "learned"
        "auto" is `MetricClassifier` for classes, which chooses everything, and model 2, tuned, for real targets.
    tune : bool
        Choose bandwidth and weights by cross-validation.
    settings : dict, optional
        Parameters of the metric.
    time_budget : float, optional
        Seconds that `MetricClassifier` may take.
    seed : int
        For all that is random.
    n_jobs : int, optional
    tell : function (done, total, text), optional
        Hears of progress.
    keep_best : bool
        After an interrupt go on with the best that was found; without it, or if nothing was found yet, KeyboardInterrupt goes on.
    source : str
        What messages call the table.
    """
    X, y = align(frame, columns, source=source), columns.targets(frame)
    if columns.classes and y.dtype.kind == "f":
        y = y.astype(np.int64)  # whole, or they would be no classes
    if columns.classes and mostly_alone(y):
        many = f"{len(np.unique(y))} different whole numbers in {len(y)} rows"
        raise TableError(
            f"{source}: the target {columns.target!r} has {many}, too many to be classes. Take them for numbers.", REAL
        )
    tell = tell or (lambda done, total, text: None)
    scores: dict[str, float] = {}
    surroundings = None
    if kind == "auto" and columns.classes:
        if settings or tune:
            advice = "to tune or set them, take the learned or the fixed model"
            raise TableError(f"the automatic model chooses all settings itself; {advice}.", Remedy("model"))
        search: Any = MetricClassifier(time_budget=time_budget, random_state=seed, n_jobs=n_jobs, verbose=tell)
        interrupted = _fit(search, X, y, tell, keep_best)
        estimator, mapping, score = search.set_params(verbose=False), search, search.best_score_
        scores = dict(search.committee_[0].candidate.scores)
    else:
        pipeline = _pipeline(X, kind, settings or {}, seed)
        tried = (GRIDS[kind] if columns.classes else REAL_GRID) if tune or kind == "auto" else {}
        grid = {f"metric__{name}": values for name, values in tried.items() if name not in (settings or {})}
        if columns.classes:
            search = MetricSearchCV(
                pipeline, grid, cv=_folds(y), scoring=[DECIDES, TOLD], refit=DECIDES, n_jobs=n_jobs, verbose=tell
            )
            interrupted = _fit(search, X, y, tell, keep_best)
            estimator, mapping, score = search.set_params(verbose=False), search, search.best_score_
            scores = {TOLD: float(search.cv_results_[f"mean_test_{TOLD}"][search.best_index_])}
            surroundings = Novelty.learn(search.best_estimator_, search.best_estimator_, X, y, search.n_neighbors_)
        else:
            estimator, score, interrupted = _fit_real(pipeline, grid, X, y, seed, tell, keep_best)
            mapping = estimator[:-1]
            surroundings = Novelty.learn(mapping, mapping, X, y[:, None], estimator[-1].n_neighbors)
    names = np.arange(1, len(X) + 1) if columns.identifier is None else _names(frame[columns.identifier])
    coordinates = np.asarray(mapping.transform(X), dtype=np.float64)
    scoring = "log-likelihood per row" if columns.classes else "R2"
    model = TableModel(columns, estimator, mapping, names, y, coordinates, float(score), scoring, scores, surroundings)
    return Outcome(model, interrupted)


def _pipeline(X: Any, kind: str, settings: Mapping[str, Any], seed: int) -> Pipeline:
    """Preparations and a metric."""
    metric = METRICS[kind](random_state=seed)
    unknown = [name for name in settings if name not in metric.get_params()]
    if unknown:
        raise TableError(f"{type(metric).__name__} has no setting {unknown[0]!r}; it has {', '.join(metric.get_params())}.")
    metric.set_params(**settings)
    if len(X) > EXACT_SEARCHED and metric.solver == "auto" and metric.n_landmarks is None:
        metric.set_params(n_landmarks=LANDMARKS)
    return Pipeline([("encode", table_encoder(X)), ("scale", StandardScaler()), ("metric", metric)])


def _fit(search: Any, X: Any, y: Array, tell: Tell, keep_best: bool) -> bool:
    """Whether it was interrupted, but could be finished."""
    try:
        search.fit(X, y)
    except KeyboardInterrupt:
        if not keep_best:
            raise
        tell(1, 1, "fitting the best so far; Ctrl-C again gives up")
        try:
            search.finish(X, y)
        except NotFittedError:
            raise KeyboardInterrupt from None
        return True
    return False


def _fit_real(
    pipeline: Pipeline, grid: Mapping[str, Any], X: Any, y: Array, seed: int, tell: Tell, keep_best: bool
) -> tuple[Pipeline, float, bool]:
    """Metric and number of neighbours with the least cross-validated error; its R2; and whether an interrupt ended the search."""
    folds = list(KFold(min(FOLDS, len(X)), shuffle=True, random_state=seed).split(X))
    targets = y[:, None]  # one column: also whole numbers are real targets
    scoring = Scoring.plan(pipeline, list(ParameterGrid(grid)), folds, NEIGHBOURS, len(y), dimension=1)
    done = itertools.count(1)
    interrupted = False
    try:
        vote = AverageVote(scoring.neighbours, targets)
        scoring.run(X, targets, vote, n_jobs=None, advance=lambda: tell(next(done), len(scoring.tasks), "kernels and folds scored"))
    except KeyboardInterrupt:
        if not keep_best or not np.isfinite(scoring.table.means).any():
            raise
        interrupted = True
    if not np.isfinite(scoring.table.means).any():
        raise ValueError(f"no setting could be scored; the first failure: {scoring.failures[0]}")
    best = scoring.best_index()
    params = dict(scoring.table.params[best])
    neighbours = params.pop("n_neighbors")
    score = float(1 + scoring.table.means[best] / y.var())
    chosen = Pipeline([*clone(pipeline).set_params(**params).steps, ("vote", KNeighborsRegressor(neighbours))])
    try:
        return chosen.fit(X, targets), score, interrupted
    except KeyboardInterrupt:
        if not keep_best:
            raise
        return chosen.fit(X, targets), score, True


def _folds(y: Array) -> int:
    smallest, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        alone = f"the class {smallest[counts.argmin()]} has one row only; to compare settings each class needs two."
        raise TableError(f"{alone} If the target is a number, say so.", REAL) if y.dtype.kind in "iu" else TableError(alone)
    return int(min(FOLDS, counts.min()))


def _names(column: Any) -> Array:
    """As text, nothing for what is missing."""
    missing = column.isna()
    return np.asarray(["" if gap else str(value) for value, gap in zip(column.tolist(), missing, strict=True)], dtype=str)
