"""How a model is fitted to a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from outmetric.automatic import MetricClassifier, MetricRegressor
from outmetric.choosing import MetricSearchCV, Novelty
from outmetric.columns import Columns, Remedy, TableError, align, table_encoder
from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric, mostly_alone
from outmetric.foundation import Array, Tell
from outmetric.rows import EXACT_SEARCHED, LANDMARKS, DaskRows, is_dask
from outmetric.tables.kept import kept_columns, row_names
from outmetric.tables.models import TableModel

Kind = Literal["auto", "fixed", "learned"]
METRICS: Mapping[str, Any] = {"auto": LearnedKernelMetric, "fixed": FixedKernelMetric, "learned": LearnedKernelMetric}
# What tuning tries; what is set by hand is left alone.
FINE = {
    "bandwidth": ["0.25*median", "0.5*median", "1*median", "2*median"],
    "regression_weight": [0.1, 1.0, 10.0, 100.0],
    "collocation_weight": ["auto", 0.0],
}
GRIDS: Mapping[str, Mapping[str, Any]] = {"fixed": {**FINE, "metric_ridge": [0.3, 3.0]}, "learned": FINE}
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
        Dask's too, for the automatic model: most of its rows stay on the cluster, and the model knows those that were fetched.
    columns : Columns
        From `check_columns`, of some of the rows if they are on a cluster.
    kind : "auto", "fixed" or "learned"
        "auto" is `MetricClassifier` or `MetricRegressor`, which choose everything.
    tune : bool
        Choose bandwidth and weights by cross-validation.
    settings : dict, optional
        Parameters of the metric.
    time_budget : float, optional
        Seconds that the automatic model may take.
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
    lazy = is_dask(frame)
    if lazy and kind != "auto":
        raise TableError(
            f"tables on a Dask cluster are learned from by the automatic model only, not by the {kind} one.", Remedy("model")
        )
    if lazy:
        X, y = _aligned_lazily(frame, columns, source), columns.targets(frame[[columns.target]].compute())
    else:
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
    if kind == "auto":
        if settings or tune:
            advice = "to tune or set them, take the learned or the fixed model"
            raise TableError(f"the automatic model chooses all settings itself; {advice}.", Remedy("model"))
        automatic = MetricClassifier if columns.classes else MetricRegressor
        search: Any = automatic(time_budget=time_budget, random_state=seed, n_jobs=n_jobs, verbose=tell)
        interrupted = _fit(search, X, y, tell, keep_best)
        scores = dict(search.committee_[0].candidate.scores)
        score = search.best_score_ if columns.classes else scores.pop("R2")
        estimator, mapping = search.set_params(verbose=False), search
    else:
        pipeline = _pipeline(X, kind, settings or {}, seed)
        tried = (GRIDS[kind] if columns.classes else REAL_GRID) if tune else {}
        grid = {f"metric__{name}": values for name, values in tried.items() if name not in (settings or {})}
        if columns.classes:
            chosen: dict[str, Any] = {"cv": _folds(y), "scoring": [DECIDES, TOLD], "refit": DECIDES}
            learned = y
        else:
            chosen = {"cv": KFold(min(FOLDS, len(X)), shuffle=True, random_state=seed)}
            learned = y[:, None]  # one column: also whole numbers are real targets
        search = MetricSearchCV(pipeline, grid, **chosen, n_jobs=n_jobs, verbose=tell)
        interrupted = _fit(search, X, learned, tell, keep_best)
        estimator, mapping = search.set_params(verbose=False), search
        if columns.classes:
            score = search.best_score_
            scores = {TOLD: float(search.cv_results_[f"mean_test_{TOLD}"][search.best_index_])}
        else:
            score = 1 + search.best_score_ / y.var()
        surroundings = Novelty.learn(search.best_estimator_, search.best_estimator_, X, learned, search.n_neighbors_)
    numbers = np.arange(1, len(y) + 1)
    if lazy:
        rows = getattr(search, "sampled_rows_", np.arange(len(y)))
        X, y, numbers = DaskRows(X)[rows], y[rows], numbers[rows]
        frame = frame if columns.identifier is None else DaskRows(frame[[columns.identifier]])[rows]
    names = numbers if columns.identifier is None else row_names(frame[columns.identifier])
    coordinates = np.asarray(mapping.transform(X), dtype=np.float64)
    scoring = "log-likelihood per row" if columns.classes else "R2"
    table = kept_columns(X, columns)
    model = TableModel(columns, estimator, mapping, names, y, coordinates, float(score), scoring, scores, surroundings, table)
    return Outcome(model, interrupted)


def _aligned_lazily(frame: Any, columns: Columns, source: str) -> Any:
    """As `align`, chunk by chunk."""
    wanted = [*columns.features]
    example = align(frame[wanted].head(2, npartitions=-1), columns, source=source).iloc[:0]
    return frame[wanted].map_partitions(_aligned_part, columns, source, example, meta=example)


def _aligned_part(part: Any, columns: Columns, source: str, example: Any) -> Any:
    return align(part, columns, source=source) if len(part) else example


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


def _folds(y: Array) -> int:
    smallest, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        alone = f"the class {smallest[counts.argmin()]} has one row only; to compare settings each class needs two."
        raise TableError(f"{alone} If the target is a number, say so.", REAL) if y.dtype.kind in "iu" else TableError(alone)
    return int(min(FOLDS, counts.min()))
