"""A vote of neighbours: targets and predictions, for a batch of maps and many numbers of neighbours at once.

Classes are predicted by smoothed votes, real targets by averages; one sorted list of neighbours serves every number of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils import gen_batches
from sklearn.utils.validation import _check_method_params

from outmetric.choosing.scores import Marks, ScoreFunction, score_function
from outmetric.foundation import Array, check_integer

# Distances held at once when neighbours are sought: few enough for the cache, where the nearest are found twice as fast.
DISTANCES = 2**17


@dataclass(frozen=True, eq=False)
class Vote(ABC):
    """How neighbours predict, and how good that is.

    Parameters
    ----------
    neighbours : array
        The numbers of neighbours to try.
    """

    neighbours: Array

    @abstractmethod
    def of(self, rows: Array) -> Self:
        """The same for some of the rows."""

    @abstractmethod
    def scores(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Array:
        """Scores of maps, (candidates, numbers of neighbours).

        Parameters
        ----------
        train, new : arrays of shape (candidates, n, m) and (candidates, n_new, m)
            Coordinates of those who vote and those who are voted on.
        voters, asked : arrays of shape (n,) and (n_new,)
            Their row numbers.
        X : data of those who are voted on
        """

    def marks(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Marks:
        """The same for all metrics."""
        scores = self.scores(train, voters, new, asked, X)
        return Marks({"score": scores}, np.zeros(scores.shape, dtype=bool))


class ScoredVote(Vote):
    """Neighbours predict what every row has, and scikit-learn's scorers say how well."""

    score: ScoreFunction
    params: Mapping[str, Any]

    @property
    @abstractmethod
    def truth(self) -> Array:
        """Of all rows, as the score takes it."""

    @abstractmethod
    def predictions(self, train: Array, voters: Array, new: Array) -> Array:
        """What the voters say of others, (candidates, numbers of neighbours, n_new, ...)."""

    def scores(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Array:
        return self.marks(train, voters, new, asked, X).scores["score"]

    def marks(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Marks:
        params = _check_method_params(self.truth, self.params, asked)
        return self.score(self.predictions(train, voters, new), self.neighbours, self.truth[asked], X, params)


@dataclass(frozen=True, eq=False)
class ClassVote(ScoredVote):
    """Classes, by the number of neighbours that have each.

    Parameters
    ----------
    labels : array of shape (n,)
        Class indices of all rows.
    classes : array
    score : ScoreFunction
        From `score_function`.
    params : dict
        Further arguments of the scorers; what has a value for each row is divided as the rows are.
    """

    labels: Array
    classes: Array
    score: ScoreFunction
    params: Mapping[str, Any] = field(default_factory=dict)

    def of(self, rows: Array) -> Self:
        return replace(self, labels=self.labels[rows], params=_check_method_params(self.labels, self.params, rows))

    @property
    def truth(self) -> Array:
        return self.labels

    def predictions(self, train: Array, voters: Array, new: Array) -> Array:
        return neighbour_votes(train, self.labels[voters], new, self.neighbours, len(self.classes))


def _squared_error() -> ScoreFunction:
    return score_function("neg_mean_squared_error", None)


@dataclass(frozen=True, eq=False)
class AverageVote(ScoredVote):
    """Real targets, by the neighbours' average.

    Parameters
    ----------
    targets : array of shape (n,) or (n, q)
        Scorers get predictions of the same form.
    score : ScoreFunction
        From `score_function`; by default minus the mean squared error.
    params : as for `ClassVote`
    """

    targets: Array
    score: ScoreFunction = field(default_factory=_squared_error)
    params: Mapping[str, Any] = field(default_factory=dict)

    def of(self, rows: Array) -> Self:
        return replace(self, targets=self.targets[rows], params=_check_method_params(self.targets, self.params, rows))

    @property
    def truth(self) -> Array:
        return self.targets

    def predictions(self, train: Array, voters: Array, new: Array) -> Array:
        values = self.targets[voters].reshape(len(voters), -1)
        found = neighbour_averages(train, values, new, self.neighbours)
        return found[..., 0] if self.targets.ndim == 1 else found


def neighbour_votes(train: Array, labels: Array, new: Array, neighbours: Array, n_classes: int) -> Array:
    """How many of the k nearest training points of each new point have each class, for every k in ``neighbours``.

    Parameters
    ----------
    train, new : arrays of shape (candidates, n, m) and (candidates, n_new, m)
    labels : array of shape (n,)
        Class indices of the training points.

    Returns
    -------
    array of shape (candidates, numbers of neighbours, n_new, classes)
    """
    votes = np.empty((len(train), len(neighbours), new.shape[1], n_classes))
    order = np.argsort(neighbours)
    for part, some, nearest in _sorted_neighbours(train, new, int(neighbours.max())):
        rows = nearest.shape[0] * nearest.shape[1]
        # The cell of each neighbour's class among those of its row; all rows are counted at once.
        cells = labels[nearest].reshape(rows, -1) + n_classes * np.arange(rows)[:, None]
        counts, counted = np.zeros(rows * n_classes), 0
        for place in order.tolist():
            more = cells[:, counted : neighbours[place]]
            counts += np.bincount(more.ravel(), minlength=len(counts))
            counted = int(neighbours[place])
            votes[part, place, some] = counts.reshape(*nearest.shape[:2], n_classes)
    return votes


def neighbour_averages(train: Array, values: Array, new: Array, neighbours: Array) -> Array:
    """The mean of the values (n, q) of the k nearest training points of each new point, for every k in ``neighbours``.

    The other parameters are those of `neighbour_votes`.

    Returns
    -------
    array of shape (candidates, numbers of neighbours, n_new, q)
    """
    averages = np.empty((len(train), len(neighbours), new.shape[1], values.shape[1]))
    for part, some, nearest in _sorted_neighbours(train, new, int(neighbours.max())):
        totals = np.cumsum(values[nearest], axis=2)[:, :, neighbours - 1]
        averages[part, :, some] = (totals / neighbours[:, None]).transpose(0, 2, 1, 3)
    return averages


def _sorted_neighbours(train: Array, new: Array, most: int) -> Iterator[tuple[slice, slice, Array]]:
    """Candidates, new points, and the nearest training points of these in each of those maps, nearest first; block by block.

    The last bits of a distance give way to the number of the training point, so that numbers alone are sorted, which is several
    times as fast; of points whose distances differ by less than that, the first is taken for the nearer one.
    """
    n, asked = train.shape[1], new.shape[1]
    numbers = np.arange(n, dtype=np.int64)
    last_bits = np.int64((1 << int(numbers[-1]).bit_length()) - 1)
    most = min(most, n)
    maps, rows = max(1, DISTANCES // (n * asked)), min(asked, max(1, DISTANCES // n))
    memory = np.empty(min(maps, len(train)) * rows * n)  # for all blocks: new memory would take longer than the distances
    for part in gen_batches(len(train), maps):
        # Around the mean, since a map may be nearly constant.
        points, queries = (np.asarray(own[part], dtype=np.float64) for own in (train, new))
        centre = points.mean(axis=1, keepdims=True)
        points, queries = points - centre, queries - centre
        # |q - p|^2 = (q, 1, |q|^2)'(-2 p, |p|^2, 1), in one product.
        points = np.concatenate([-2 * points, _squares(points), np.ones_like(points[..., :1])], axis=2).transpose(0, 2, 1)
        queries = np.concatenate([queries, np.ones_like(queries[..., :1]), _squares(queries)], axis=2)
        for some in gen_batches(asked, rows):
            block = queries[:, some]
            distances = memory[: block.shape[0] * block.shape[1] * n].reshape(*block.shape[:2], n)
            np.matmul(block, points, out=distances)
            np.maximum(distances, 0.0, out=distances)
            nearest = distances.view(np.int64)  # of numbers >= 0 in the same order
            nearest &= ~last_bits
            nearest |= numbers
            nearest.partition(most - 1, axis=2)
            nearest = np.sort(nearest[:, :, :most], axis=2)
            nearest &= last_bits
            yield part, some, nearest


def _squares(points: Array) -> Array:
    """|p|^2, as a column."""
    return np.asarray(np.sum(points**2, axis=2, keepdims=True))


def counted_votes(voters: KNeighborsClassifier, coordinates: Any) -> Array:
    """How many of its neighbours vote for each class, (n, classes); scikit-learn tells shares."""
    return np.asarray(np.rint(voters.predict_proba(np.asarray(coordinates)) * voters.n_neighbors))


def check_voters(voters: Any, classes: Any) -> None:
    """Whether neighbours can vote for these classes."""
    fits = isinstance(voters, KNeighborsClassifier) and isinstance(classes, np.ndarray) and classes.ndim == 1
    if not fits or len(voters.classes_) != len(classes):
        raise ValueError("voters and classes do not fit together")


def check_averages(voters: Any, n_targets: Any) -> None:
    """Whether neighbours can be averaged over so many real targets."""
    check_integer("n_targets_", n_targets)
    fits = isinstance(voters, KNeighborsRegressor) and voters.weights == "uniform" and np.ndim(voters._y) in (1, 2)
    if not fits or n_targets != np.size(voters._y[0]) or np.asarray(voters._y).dtype.kind != "f":
        raise ValueError("voters and real targets do not fit together")


def neighbours_to_onnx(graph: Any, voters: KNeighborsClassifier | KNeighborsRegressor, coordinates: str) -> str:
    """Add smoothed votes, or averages of real targets, to a graph; of points at the same distance the first vote."""
    distances = graph.sum_over_features("squares", coordinates, np.asarray(voters._fit_X, dtype=np.float64))
    nearest = graph("TopK", distances, np.array([voters.n_neighbors]), n_outputs=2, largest=0)
    real = isinstance(voters, KNeighborsRegressor)
    values = (
        np.asarray(voters._y, dtype=np.float64).reshape(len(voters._y), -1) if real else np.eye(len(voters.classes_))[voters._y]
    )
    total = graph("ReduceSum", graph("Gather", values, nearest, axis=0), np.array([1]), keepdims=0)
    if real:
        return str(graph("Div", total, float(voters.n_neighbors)))
    return str(graph("Div", graph("Add", total, 0.5), voters.n_neighbors + len(voters.classes_) / 2))
