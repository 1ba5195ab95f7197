"""The rows that settings are compared on: encoded once, scaled once in each way, with their distances to the landmarks.

Rows of Dask collections stay in their chunks, where they are encoded and scaled as the rows that were fetched say.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from outmetric.columns import without_na
from outmetric.foundation import Array
from outmetric.rows import DaskRows

SCALINGS = ("standard", "quantile")
# Quantiles of each feature, at most.
QUANTILES = 200


def scaler_of(scaling: str, n_samples: int, seed: int) -> Any:
    """A transformer, not fitted yet."""
    if scaling == "standard":
        return StandardScaler()
    return QuantileTransformer(n_quantiles=int(np.clip(n_samples // 2, 2, QUANTILES)), random_state=seed)


@dataclass(frozen=True, eq=False)
class Distances:
    """From all rows to the landmarks, (n, p), and the median of those among the landmarks."""

    values: Array
    median: float

    @classmethod
    def between(cls, rows: Array, landmarks: Array, norm: str) -> Distances:
        """In the norm "cityblock" or "euclidean", to the rows that are landmarks; raises ValueError if all of these coincide."""
        points = rows[landmarks]
        values = cdist(rows, points, "cityblock") if norm == "cityblock" else _euclidean(rows, points)
        among = values[landmarks]
        apart = among[among > 0]
        if not len(apart) or not np.isfinite(apart).all():
            raise ValueError("all training points coincide, or their distances are not representable.")
        return cls(values, float(np.median(apart)))


def _euclidean(rows: Array, landmarks: Array) -> Array:
    """By a product, which is many times faster than differences; the rows are scaled, so that little is lost."""
    squares = np.sum(rows**2, axis=1)[:, None] + np.sum(landmarks**2, axis=1) - 2 * rows @ landmarks.T
    squares[squares < 1e-12 * max(1.0, float(squares.max(initial=0.0)))] = 0
    return np.asarray(np.sqrt(squares, out=squares))


@dataclass(eq=False)
class Inputs:
    """Rows that are numbers, scaled in several ways, and which of them are landmarks.

    Parameters
    ----------
    numbers : array of shape (n, d)
        Encoded, not scaled.
    scalers : mapping
        Fitted, by name. They look at no targets, so that one serves all folds.
    landmarks : array
        Row numbers.
    """

    numbers: Array
    scalers: Mapping[str, Any]
    landmarks: Array
    _scaled: dict[str, Array] = field(default_factory=dict, repr=False)
    _distances: dict[tuple[str, str], Distances] = field(default_factory=dict, repr=False)
    _lock: Any = field(default_factory=threading.RLock, repr=False)

    @classmethod
    def make(cls, numbers: Array, n_landmarks: int, rng: np.random.Generator, seed: int) -> Inputs:
        """With landmarks that are drawn, and scalers that are fitted."""
        n = len(numbers)
        if not (numbers != numbers[0]).any():
            raise ValueError("all training points coincide: no feature varies, so there is nothing to learn from.")
        landmarks = np.arange(n) if n <= n_landmarks else np.sort(rng.choice(n, n_landmarks, replace=False))
        return cls(numbers, {name: scaler_of(name, n, seed).fit(numbers) for name in SCALINGS}, landmarks)

    def scaled(self, scaling: str) -> Array:
        """All rows."""
        with self._lock:
            if scaling not in self._scaled:
                self._scaled[scaling] = np.asarray(self.scalers[scaling].transform(self.numbers), dtype=np.float64)
            return self._scaled[scaling]

    def distances(self, scaling: str, norm: str) -> Distances:
        """Computed once."""
        with self._lock:
            key = scaling, norm
            if key not in self._distances:
                rows = self.scaled(scaling)
                self._distances[key] = Distances.between(rows, self.landmarks, norm)
            return self._distances[key]


@dataclass(frozen=True, eq=False)
class RowsInChunks:
    """All rows of a Dask collection, for maps whose statistics are sums over its chunks.

    Parameters
    ----------
    rows : DaskRows
    numbers : array
        Of the rows that count.
    learned, weights : arrays
        Their targets, and how often each of them counts, or None.
    sample : array
        Which of them were fetched.
    """

    rows: DaskRows
    numbers: Array
    learned: Array
    weights: Array | None
    sample: Array

    @property
    def fetched(self) -> Any:
        """The rows that were."""
        return self.rows[self.numbers[self.sample]]

    def fit(self, metric: Any, steps: Sequence[Any], n_columns: int) -> None:
        """Fit a metric to all rows, after steps that are fitted already and give so many columns."""
        prepared = self.rows.prepared(partial(_as_numbers, list(steps)), n_columns)
        learned, weights = self.learned, self.weights
        if len(self.numbers) < len(self.rows):
            learned = np.repeat(learned[:1], len(self.rows), axis=0)
            learned[self.numbers] = self.learned
            weights = np.zeros(len(self.rows))
            weights[self.numbers] = 1.0 if self.weights is None else self.weights
        metric.fit(prepared, learned, weights)


def _as_numbers(steps: list[Any], chunk: Any) -> Array:
    found = without_na(chunk)
    for step in steps:
        found = step.transform(found)
    values = np.asarray(found, dtype=np.float64)
    if np.isnan(values).any():
        raise ValueError(
            "X contains NaN, and none of the rows that were fetched to learn how gaps are filled has one in this column: fill them "
            "before, by the column's median say."
        )
    return values
