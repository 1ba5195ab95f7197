"""Why a model finds rows near or far, and what it looks at, by the columns of its table."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from outmetric.columns import column_origins
from outmetric.estimators import Fact, MetricTransformer, OutputMetric, Reasons, exchanged, leading_features, shortened
from outmetric.foundation import Array, is_missing, n_points, to_array

# Rows over which the usual contributions of columns are averaged.
REFERENCES = 20
# The share of the usual squared distance below which a column is no reason.
LEAST_REASON = 0.01
# Letters of a category that are told.
LETTERS = 40


@contextmanager
def unnamed_rows() -> Iterator[None]:
    """That rows come without names is told once, when they are checked, and not by every step of every map."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


def explain(model: Any, X: Any, X_other: Any) -> Reasons:
    """The squared learned distance of row i of X and row i of X_other, attributed to their columns; the contributions add up.

    Features are followed from one row to the other as the metric gets them, encoded and scaled (see `MetricTransformer.explain`),
    and the contributions of those that were made of one column (its categories, the parts of a date, that a value is missing) are
    summed. If the map has no gradients, or steps before it mix columns, columns are exchanged between the two rows instead.

    Parameters
    ----------
    model : fitted metric, Pipeline that ends in one, or model that chose one
    X, X_other : tables or arrays of the same number of rows
    """
    if hasattr(model, "explain"):
        reasons: Reasons = model.explain(X, X_other)
        return reasons
    metric = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(metric, MetricTransformer):
        raise TypeError(f"{type(metric).__name__} is no metric of outmetric; only distances in a learned metric can be explained.")
    if n_points(X) != n_points(X_other):
        raise ValueError(f"rows are explained pair by pair, but X has {n_points(X)} of them and X_other {n_points(X_other)}.")
    names = column_names(model)
    origins = column_origins(model[:-1], np.arange(len(names)))
    with unnamed_rows():
        if origins is not None and metric.get_metric().has_integrals:
            prepared = model[:-1].transform(X), model[:-1].transform(X_other)
            return metric.explain(*prepared).grouped(names, origins)
        rows = _MixedRows(X, X_other)
        differences = np.asarray(model.transform(X)) - np.asarray(model.transform(X_other))
        found = exchanged(lambda mixed: np.asarray(model.transform(mixed)), rows.mix, rows.same, differences)
    return Reasons(names, found, np.einsum("im,im->i", differences, differences))


def column_names(model: Any) -> tuple[str, ...]:
    """Of what a fitted model takes; x0, x1, ... if they have none."""
    given = getattr(model, "feature_names_in_", None)
    return tuple(str(name) for name in (given if given is not None else [f"x{place}" for place in range(model.n_features_in_)]))


def importances_of(model: Any) -> Array:
    """How much each column matters to a fitted metric, or a Pipeline that ends in one; they sum to 1.

    The mean pull-back of the learned metric (see `OutputMetric.importances`); features that were made of one column are summed.

    Raises
    ------
    ValueError
        If the map has no gradients, or steps before it mix columns.
    """
    metric = model[-1] if isinstance(model, Pipeline) else model
    inner = metric.get_metric()
    if not isinstance(inner, OutputMetric):
        raise ValueError(f"{type(metric).__name__} keeps no rows over which the importance of features could be averaged.")
    found = inner.importances()
    if metric is model:
        return found
    names = column_names(model)
    origins = column_origins(model[:-1], np.arange(len(names)))
    if origins is None:
        raise ValueError("steps before the metric mix columns, so the importance of a single one is not known.")
    return np.bincount(origins, found, minlength=len(names))


def usual_contributions(model: Any, X: Any, known: Any) -> Array:
    """What each column contributes to the squared distance between a row of X and other rows on average, shape (n, columns).

    The others are 20 of the known rows, always the same ones.
    """
    n = n_points(X)
    others = np.random.default_rng(0).permutation(n_points(known))[:REFERENCES]
    pairs = _safe_indexing(X, np.repeat(np.arange(n), len(others))), _safe_indexing(known, np.tile(others, n))
    return np.asarray(explain(model, *pairs).contributions.reshape(n, len(others), -1).mean(axis=1))


def reasons_of_nearness(contributions: Array, usual: Array, most: int = 3) -> list[list[int]]:
    """For each pair, the places of the columns that make the two rows near, strongest first.

    The second row is near the first not because they agree in a column that tells the first from no other row, but because it lacks
    what usually does tell it from others. So columns are ranked by usual - contribution, which sums to how much nearer the two are
    than the first row is to others on average. What is less than 1 % of the usual squared distance is no reason.

    Parameters
    ----------
    contributions : array of shape (pairs, columns)
        Of `explain`.
    usual : array of shape (pairs, columns)
        Of `usual_contributions`, for the first row of each pair.
    most : int
        How many reasons to give.
    """
    saved = usual - contributions
    leading = np.argsort(-saved, axis=1, kind="stable")[:, :most]
    least = LEAST_REASON * usual.sum(axis=1)
    reasons = saved > least[:, None]
    return [[int(place) for place in places if reasons[pair, place]] for pair, places in enumerate(leading)]


def beside(one: Any, other: Any) -> str:
    """The values of a feature in two rows, in words: "13.2 beside 13.1", or "red in both"."""
    texts = _shown(one), _shown(other)
    return f"{texts[0]} in both" if texts[0] == texts[1] else f"{texts[0]} beside {texts[1]}"


def _shown(value: Any) -> str:
    if is_missing(value):
        return "missing"
    if isinstance(value, float | np.floating):
        number = float(value)
        whole = abs(number) >= 1e4 or number.is_integer()
        return f"{number:.0f}" if whole and abs(number) < 1e15 else f"{number:.4g}"
    return shortened(str(value).removesuffix(" 00:00:00"), LETTERS)


class ReasonsMixin:
    """The reasons of ``best_estimator_``."""

    best_estimator_: Any

    def explain(self, X: Any, X_other: Any) -> Reasons:
        """Why rows are near or far in the best map: the squared learned distance of row i of X and row i of X_other, by column.

        The contributions add up to the squared distance, to 1e-3 of it. Categories, parts of dates and that a value is missing
        count with their column. If the best map has gradients, these are integrated along the segment between the two rows, encoded
        and scaled; otherwise (a forest), columns are exchanged between the two rows, in up to 24 orders over which the changes are
        averaged, about Shapley values.

        Parameters
        ----------
        X, X_other : data of the same number of rows

        Returns
        -------
        Reasons
            With ``contributions`` of shape (n, columns), ``squared_distances`` and ``feature_names``.
        """
        return explain(self._best_map(), self._rows(X), self._rows(X_other))

    @property
    def feature_importances_(self) -> Array:
        """How much each column matters to the best map, shape (n_features,); they sum to 1.

        That is the diagonal of the learned metric, pulled back to the features as the map gets them, times their variances; those
        that were made of one column are summed.
        """
        best = self._best_map()
        try:
            return importances_of(best)
        except ValueError as error:
            raise AttributeError(f"there are no feature_importances_: {error}") from error

    def _best_map(self) -> Any:
        """The best estimator, if there is one; for classes to override."""
        return self.best_estimator_

    def _rows(self, X: Any) -> Any:
        """Rows that were checked; for classes to override."""
        return X

    def reason_facts(self) -> list[Fact]:
        """What the best map looks at, if that is known."""
        if not hasattr(self, "best_estimator_"):
            return []
        try:
            found = importances_of(self.best_estimator_)
        except ValueError:
            return []
        return [Fact("looks at", leading_features(column_names(self.best_estimator_), found))]


class _MixedRows:
    """Rows of a table or array, mixed column by column from those of X and X_other."""

    def __init__(self, X: Any, X_other: Any) -> None:
        self.tables = [rows.to_pandas() if hasattr(rows, "to_pandas") else rows for rows in (X, X_other)]
        self.framed = all(hasattr(rows, "iloc") for rows in self.tables)
        if not self.framed:
            self.tables = [to_array(rows) for rows in self.tables]
        if self.tables[0].ndim != 2:
            raise ValueError("distances of objects without columns cannot be attributed to columns.")

    @property
    def same(self) -> Array:
        one, other = (np.asarray(rows, dtype=object) for rows in self.tables)
        equal = [_alike(a, b) for a, b in zip(one.ravel(), other.ravel(), strict=True)]
        return np.array(equal, dtype=bool).reshape(one.shape)

    def mix(self, taken: Array) -> Any:
        if not self.framed:
            rows = np.concatenate(self.tables)
            return rows[taken, np.arange(rows.shape[1])]
        import pandas as pd

        rows = pd.concat(self.tables, ignore_index=True)
        columns = {name: rows[name].take(taken[:, place]).reset_index(drop=True) for place, name in enumerate(rows.columns)}
        return pd.DataFrame(columns)


def _alike(one: Any, other: Any) -> bool:
    return bool(one is other or (is_missing(one) and is_missing(other)) or (not is_missing(one) and one == other))
