"""A model of a table: what it predicts, and what it knows of the rows that it was learned from."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from outmetric.choosing import (
    Novelty,
    beside,
    explain,
    reasons_of_nearness,
    usual_contributions,
)
from outmetric.columns import Columns, Remedy, TableError, align
from outmetric.estimators import listed
from outmetric.foundation import Array, sample_of, storable
from outmetric.tables.kept import check_kept, row_names

# Tables with more columns are not made up: to read each of them takes its time.
MANY_COLUMNS = 100


def _check_stored(found: TableModel, size: int) -> None:
    columns = found.columns
    for part in (found.estimator, found.mapping):
        if getattr(part, "n_features_in_", None) != len(columns.features):
            raise ValueError(f"a model of a table with {len(columns.features)} features has a {type(part).__name__} of others")
        names = getattr(part, "feature_names_in_", None)
        if names is not None and list(names) != list(columns.features):
            raise ValueError("a model of a table knows other columns than its parts")
    if found.table is not None:
        check_kept(found.table, columns, len(found.names))
    if columns.classes and not (hasattr(found.estimator, "predict_proba") and hasattr(found.estimator, "classes_")):
        raise ValueError("a model of a table should predict classes, and has none")
    if not isinstance(found.surroundings, Novelty | None):
        raise ValueError(f"a model of a table judges novelty by a {type(found.surroundings).__name__}")
    row = sample_of(found.estimator, size)
    if row is not None and tuple(map(_kind, np.asarray(row)[0])) != columns.kinds:
        raise ValueError("a model of a table prepares other kinds of columns than it has")


def _kind(value: Any) -> str:
    return "category" if isinstance(value, str) else "date" if isinstance(value, datetime.date) else "number"


def _sample(found: TableModel, size: int) -> Any:
    """A table of one row; None if it cannot be made up, or has very many columns, or there is no pandas."""
    row = sample_of(found.estimator, size) if len(found.columns.features) <= MANY_COLUMNS else None
    try:
        import pandas as pd
    except ImportError:
        return None
    return None if row is None else pd.DataFrame(np.asarray(row, dtype=object), columns=list(found.columns.features))


def _used(found: TableModel, size: int) -> list[Any]:
    return [found] if _sample(found, size) is not None else [found.estimator, found.mapping]


def _asks(found: TableModel) -> list[Callable[[Any], Any]]:
    asked = [found.transform, found.predict, lambda row: found.neighbors(found.transform(row), 1)[1]]
    asked += [found.predict_proba] if found.columns.classes else []
    return [*asked, found.novelty] if found.knows_novelty else asked


@storable("TableModel", holds_models=True, check=_check_stored, sample=_sample, used=_used, asks=_asks)
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
    table : dict of arrays, or None
        The features of the rows that it was learned from, for `reasons`; models of earlier versions have none.
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
    table: dict[str, Array] | None = field(default=None, repr=False)

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

    def predict_interval(self, frame: Any, coverage: float = 0.9, source: str = "the table") -> Array:
        """Lower and upper end, (n, 2), of intervals that hold the number with this probability; see `MetricRegressor`.

        Raises
        ------
        TableError
            For classes, for models that are not of `MetricRegressor`, and if so few rows give no finite interval.
        """
        if self.columns.classes:
            raise TableError(
                f"the target {self.columns.target} has classes; intervals are for numbers, classes have probabilities."
            )
        if not hasattr(self.estimator, "predict_interval"):
            raise TableError(
                f"this model ({self._kind()}) does not know its errors. For intervals fit the automatic model.", Remedy("automatic")
            )
        found = np.asarray(self.estimator.predict_interval(align(frame, self.columns, source=source), coverage))
        if not np.isfinite(found).all():
            fewest = int(np.ceil(np.round(coverage / (1 - coverage), 6)))  # so that (n + 1) coverage <= n
            known = len(self.estimator.out_of_fold_errors_)
            raise TableError(
                f"the model knows its errors on {known} rows; intervals with a coverage of {coverage:g} need {fewest}."
            )
        return found

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
        return np.asarray(self.estimator.novelty(X)) if self.knows_novelty else None

    @property
    def knows_novelty(self) -> bool:
        """Whether `novelty` tells anything."""
        return self.surroundings is not None or getattr(self.estimator, "novelty_", None) is not None

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

    def reasons(self, frame: Any, rows: Array, source: str = "the table") -> Array:
        """Why rows of a table are near rows that the model was learned from: up to three features each, with both values, in words.

        Parameters
        ----------
        frame : DataFrame of n rows
        rows : integer array of shape (n, k)
            Numbers of rows that the model was learned from, such as `neighbors` gives.

        Returns
        -------
        array of texts of shape (n, k)
            Such as "alcohol 13.2 beside 13.1; colour red in both": the features that usually tell the row from others, and do not
            tell it from this one (see `outmetric.choosing.reasons_of_nearness`).
        """
        X, known = align(frame, self.columns, source=source), self._known_rows
        queries = np.repeat(np.arange(len(X)), rows.shape[1])
        one, other = X.iloc[queries], known.iloc[rows.ravel()]
        usual = usual_contributions(self.mapping, X, known)[queries]
        places = reasons_of_nearness(explain(self.mapping, one, other).contributions, usual)
        names = self.columns.features
        texts = [
            "; ".join(f"{names[place]} {beside(one.iat[pair, place], other.iat[pair, place])}" for place in found)
            for pair, found in enumerate(places)
        ]
        return np.array(texts, dtype=object).reshape(rows.shape)

    @cached_property
    def _known_rows(self) -> Any:
        import pandas as pd

        if self.table is None:
            raise TableError(
                "this model is of an earlier version, which did not keep the rows that it was learned from, so it cannot give "
                "reasons. Fit it again."
            )
        return align(pd.DataFrame(self.table), self.columns)

    @cached_property
    def _index(self) -> NearestNeighbors:
        return NearestNeighbors().fit(self.coordinates)

    def row_names(self, frame: Any) -> tuple[str, Array]:
        """How the rows of a table are called, and by which column: by the identifier if they have it, else by number."""
        identifier = self.columns.identifier
        if identifier is None or identifier not in frame.columns:
            return "row", np.arange(1, len(frame) + 1)
        return identifier, row_names(frame[identifier])

    def row(self, name: str) -> Array:
        """Coordinates of the row of this name."""
        found = np.flatnonzero([str(one) == name for one in self.names.tolist()])  # an array of text is as wide as the longest
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
            found["classes"] = dict(zip(map(str, labels.tolist()), counts.tolist(), strict=True))
        return found

    def _kind(self) -> str:
        """What the model is, for people."""
        maps = len(getattr(self.estimator, "committee_", "1"))
        where = f"{maps} learned maps, averaged" if maps > 1 else f"a map learned by {type(self._metric()).__name__}"
        if hasattr(self.estimator, "committee_"):
            how = "classes, by distances and votes" if self.columns.classes else "numbers"
        else:
            how = (
                "classes, by votes of nearest neighbours" if self.columns.classes else "numbers, as averages of nearest neighbours"
            )
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
