"""What is to be predicted, classes or real targets: how outputs of maps become predictions, and how good these are.

Classes are read off a map by the distance to their prototypes, p_k ~ exp(-T |f(x) - y_k|^2) with a temperature T that is chosen out
of fold, smoothed as if n rows had voted so, or by smoothed votes of nearest neighbours; real targets by the map itself, or by
averages of nearest neighbours.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from outmetric.automatic.ridge import Folds
from outmetric.choosing import neighbour_averages, neighbour_votes, smoothed_votes, some_rows
from outmetric.foundation import Array
from outmetric.problem import make_prototypes

FOLDS = 5
# Of a temperature: Newton steps, and where its logarithm may be.
STEPS, LEAST, MOST = 15, -3.0, 6.0
# The slope of real targets is drawn towards 1 as if so many rows had told it.
SLOPE_ROWS = 20.0
EVERY = slice(None)
# No class is ever denied.
LEAST_PROBABILITY = 1e-6
# How often a row of mean weight is repeated where weights are not known.
REPETITIONS = 4


@dataclass(frozen=True, eq=False)
class Reading:
    """Predictions for rows that the map was fitted without, and how they were read off it.

    Attributes
    ----------
    predictions : array of shape (n, classes) or (n, q)
    loss : float
    temperature : float or None
    n_neighbors : int or None
        None: not by neighbours.
    slope : float
        Of real targets: by how much outputs are stretched about the mean.
    """

    predictions: Array
    loss: float
    temperature: float | None = None
    n_neighbors: int | None = None
    slope: float = 1.0


class Goal(ABC):
    """What is to be predicted of some rows.

    Attributes
    ----------
    targets : array of shape (n, m)
        What the maps draw rows to.
    learned : array
        What kernels that learn from targets are given.
    weights : array of shape (n,) or None
        How often each row counts.
    """

    targets: Array
    learned: Array
    weights: Array | None

    def weights_of(self, rows: Array) -> Array | None:
        """Those of some of the rows."""
        return None if self.weights is None else self.weights[rows]

    def counted(self, losses: Array) -> Array:
        """Losses of single rows, (n,), such that their plain mean is the weighted one."""
        return losses if self.weights is None else losses * (self.weights / self.weights.mean())

    @property
    def n_rows(self) -> int:
        return len(self.learned)

    @property
    def as_often_as_counted(self) -> Array:
        """Row numbers, each about as often as the row counts, for scores that know no weights."""
        weights = self.weights
        if weights is None or (weights == weights[0]).all():
            return np.arange(self.n_rows)
        return np.repeat(np.arange(self.n_rows), np.rint(REPETITIONS * weights / weights.mean()).astype(int).clip(min=1))

    @property
    def indispensable(self) -> Array:
        """Numbers of rows without which others could not be learned from."""
        return np.empty(0, dtype=np.intp)

    @abstractmethod
    def some_rows(self, most: int, rng: np.random.RandomState) -> Array:
        """All rows, or a random choice of so many."""

    @abstractmethod
    def of(self, rows: Array) -> Goal:
        """The same for some of the rows."""

    @abstractmethod
    def folds(self, rng: np.random.RandomState) -> Folds:
        """How rows are divided, so that each is predicted by maps that were fitted without it."""

    @abstractmethod
    def read_map(self, outputs: Array) -> Reading:
        """Predictions from outputs (n, m) by the map itself."""

    @abstractmethod
    def read_neighbours(self, parts: Sequence[tuple[Array, Array, Array, Array]], counts: Array) -> list[Reading]:
        """Predictions by neighbours, for several numbers of them; parts are (train, outputs, test, outputs) of each fold."""

    @abstractmethod
    def loss(self, predictions: Array) -> Array:
        """By which candidates are compared: of predictions (..., n, q)."""

    @abstractmethod
    def row_losses(self, predictions: Array) -> Array:
        """The loss of each row, of which `loss` is the mean, (n,)."""

    @abstractmethod
    def essence(self, predictions: Array) -> Array:
        """What of predictions the loss of an average depends on; averages of it are that of averages."""

    @abstractmethod
    def loss_of_essence(self, essences: Array, rows: Array | slice = EVERY) -> Array:
        """The loss of a stack of them, on all rows or on some, which may be repeated."""

    @abstractmethod
    def told(self, predictions: Array) -> dict[str, float]:
        """Scores that people know, by their names."""


@dataclass(frozen=True, eq=False)
class ClassGoal(Goal):
    """Classes.

    Parameters
    ----------
    labels : array of shape (n,)
        Class indices.
    n_classes : int
    weights : array of shape (n,) or None
    """

    labels: Array
    n_classes: int
    weights: Array | None = None

    @property
    def frequencies(self) -> Array:
        """Of the classes, (classes,); none is zero."""
        counts = np.bincount(self.labels, self.weights, minlength=self.n_classes)
        present = counts[counts > 0]
        counts = np.where(counts > 0, counts, min(1.0, present.min()))
        return np.asarray(counts / counts.sum())

    @property
    def prototypes(self) -> Array:
        return make_prototypes(self.n_classes, None, "simplex")

    @property
    def indispensable(self) -> Array:
        """The first of each class."""
        return np.unique(self.labels, return_index=True)[1]

    @property
    def targets(self) -> Array:  # type: ignore[override]
        return self.prototypes[self.labels]

    @property
    def learned(self) -> Array:  # type: ignore[override]
        return self.labels

    def some_rows(self, most: int, rng: np.random.RandomState) -> Array:
        """Stratified."""
        return some_rows(self.labels, most, rng)

    def of(self, rows: Array) -> ClassGoal:
        return replace(self, labels=self.labels[rows], weights=self.weights_of(rows))

    def folds(self, rng: np.random.RandomState) -> Folds:
        largest = int(np.bincount(self.labels).max())
        indices = np.zeros(len(self.labels))
        if largest < 2:
            return list(KFold(min(FOLDS, len(indices)), shuffle=True, random_state=rng).split(indices))
        with warnings.catch_warnings():  # a class of fewer rows is not in all of the folds
            warnings.filterwarnings("ignore", message="The least populated class")
            return list(StratifiedKFold(min(FOLDS, largest), shuffle=True, random_state=rng).split(indices, self.labels))

    def read_map(self, outputs: Array) -> Reading:
        scores = 2 * outputs @ self.prototypes.T  # -|f - y_k|^2 but for what all classes have in common
        temperature = best_temperature(scores, self.labels, self.weights)
        predictions = smoothed_votes(self.n_rows * softmax(temperature * scores), self.n_rows)
        return Reading(predictions, float(self.loss(predictions)), temperature)

    def read_neighbours(self, parts: Sequence[tuple[Array, Array, Array, Array]], counts: Array) -> list[Reading]:
        found = np.empty((len(counts), len(self.labels), self.n_classes))
        for train, known, test, new in parts:
            votes = neighbour_votes(known[None], self.labels[train], new[None], counts, self.n_classes)[0]
            found[:, test] = smoothed_votes(votes, counts[:, None, None])
        return [Reading(one, float(self.loss(one)), n_neighbors=int(count)) for one, count in zip(found, counts, strict=True)]

    def loss(self, predictions: Array) -> Array:
        return self.loss_of_essence(self.essence(predictions))

    def row_losses(self, predictions: Array) -> Array:
        return self.counted(np.asarray(-np.log(self.essence(predictions).clip(min=LEAST_PROBABILITY))))

    def essence(self, predictions: Array) -> Array:
        return np.asarray(predictions[..., np.arange(len(self.labels)), self.labels])

    def loss_of_essence(self, essences: Array, rows: Array | slice = EVERY) -> Array:
        losses = -np.log(essences.clip(min=LEAST_PROBABILITY))[..., rows]
        return np.asarray(np.average(losses, axis=-1, weights=None if self.weights is None else self.weights[rows]))

    def told(self, predictions: Array) -> dict[str, float]:
        return {"accuracy": float(np.average(predictions.argmax(axis=1) == self.labels, weights=self.weights))}


def best_temperature(scores: Array, labels: Array, weights: Array | None = None) -> float:
    """T > 0 for which softmax(T scores) has the least log-loss, which is convex in T; by Newton's method for log T."""
    scores = scores - scores.max(axis=1, keepdims=True)
    true = scores[np.arange(len(labels)), labels]
    logarithm = 1.0
    for _ in range(STEPS):
        temperature = np.exp(logarithm)
        shares = softmax(temperature * scores)
        means = np.sum(shares * scores, axis=1)
        slope = temperature * np.average(means - true, weights=weights)
        curvature = temperature**2 * np.average(np.sum(shares * scores**2, axis=1) - means**2, weights=weights)
        step = -slope / (curvature + abs(slope) + 1e-12)
        logarithm = float(np.clip(logarithm + np.clip(step, -1, 1), LEAST, MOST))
        if abs(step) < 1e-3:
            break
    return float(np.exp(logarithm))


def softmax(scores: Array) -> Array:
    """Shares that add up to 1 over the last axis."""
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class RealGoal(Goal):
    """Real targets, in units of their deviations.

    Parameters
    ----------
    values : array of shape (n, q)
    centre, scale : arrays of shape (q,)
        Of all rows that are learned from.
    weights : array of shape (n,) or None
    """

    values: Array
    centre: Array
    scale: Array
    weights: Array | None = None

    @classmethod
    def make(cls, values: Array, weights: Array | None = None) -> RealGoal:
        """Of all rows."""
        centre = np.average(values, axis=0, weights=weights)
        scale = np.sqrt(np.average((values - centre) ** 2, axis=0, weights=weights))
        return cls(values, centre, np.where(scale > 0, scale, 1.0), weights)

    @property
    def targets(self) -> Array:  # type: ignore[override]
        return np.asarray((self.values - self.centre) / self.scale)

    @property
    def learned(self) -> Array:  # type: ignore[override]
        return self.values

    def some_rows(self, most: int, rng: np.random.RandomState) -> Array:
        n = len(self.values)
        return np.arange(n) if n <= most else np.sort(rng.permutation(n)[:most])

    def of(self, rows: Array) -> RealGoal:
        return replace(self, values=self.values[rows], weights=self.weights_of(rows))

    def folds(self, rng: np.random.RandomState) -> Folds:
        n = len(self.values)
        return list(KFold(min(FOLDS, n), shuffle=True, random_state=rng).split(np.zeros(n)))

    def read_map(self, outputs: Array) -> Reading:
        slope = self._slope(outputs)
        predictions = self.centre + slope * outputs * self.scale
        return Reading(predictions, float(self.loss(predictions)), slope=slope)

    def _slope(self, outputs: Array) -> float:
        """The best by squared error, drawn towards 1."""
        counted = outputs if self.weights is None else self.weights[:, None] * outputs
        size, prior = float(np.vdot(counted, outputs)), SLOPE_ROWS / len(outputs)
        return max(0.0, (float(np.vdot(counted, self.targets)) / size + prior) / (1 + prior)) if size > 0 else 1.0

    def read_neighbours(self, parts: Sequence[tuple[Array, Array, Array, Array]], counts: Array) -> list[Reading]:
        found = np.empty((len(counts), *self.values.shape))
        for train, known, test, new in parts:
            found[:, test] = neighbour_averages(known[None], self.values[train], new[None], counts)[0]
        return [Reading(one, float(self.loss(one)), n_neighbors=int(count)) for one, count in zip(found, counts, strict=True)]

    def loss(self, predictions: Array) -> Array:
        return self.loss_of_essence(self.essence(predictions))

    def row_losses(self, predictions: Array) -> Array:
        return self.counted(np.asarray(np.mean(self.essence(predictions) ** 2, axis=-1)))

    def essence(self, predictions: Array) -> Array:
        return np.asarray((predictions - self.values) / self.scale)

    def loss_of_essence(self, essences: Array, rows: Array | slice = EVERY) -> Array:
        squares = np.mean(essences[..., rows, :] ** 2, axis=-1)
        return np.asarray(np.average(squares, axis=-1, weights=None if self.weights is None else self.weights[rows]))

    def told(self, predictions: Array) -> dict[str, float]:
        residual = np.average((predictions - self.values) ** 2, axis=0, weights=self.weights)
        mean = np.average(self.values, axis=0, weights=self.weights)
        total = np.average((self.values - mean) ** 2, axis=0, weights=self.weights)
        return {"R2": float(np.mean(1 - residual / np.where(total > 0, total, 1.0)))}
