"""A vote of neighbours: targets, predictions and scores, for a batch of maps and many numbers of neighbours at once.

Classes are predicted by smoothed votes, real targets by averages; one sorted list of neighbours serves every number of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import gen_batches

from outmetric.foundation import Array

# Distances held at once when neighbours are sought.
DISTANCES = 2**22
# (votes, numbers of neighbours, true class indices, test data) -> scores, (candidates, numbers of neighbours).
Score = Callable[[Array, Array, Array, Any], Array]


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


@dataclass(frozen=True, eq=False)
class ClassVote(Vote):
    """Classes, by the number of neighbours that have each.

    Parameters
    ----------
    labels : array of shape (n,)
        Class indices of all rows.
    classes : array
    score : Score
        From `score_function`.
    """

    labels: Array
    classes: Array
    score: Score

    def of(self, rows: Array) -> Self:
        return replace(self, labels=self.labels[rows])

    def scores(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Array:
        votes = neighbour_votes(train, self.labels[voters], new, self.neighbours, len(self.classes))
        return self.score(votes, self.neighbours, self.labels[asked], X)


@dataclass(frozen=True, eq=False)
class AverageVote(Vote):
    """Real targets, by the neighbours' average; the score is minus the mean squared error.

    Parameters
    ----------
    targets : array of shape (n, q)
    """

    targets: Array

    def of(self, rows: Array) -> Self:
        return replace(self, targets=self.targets[rows])

    def scores(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Array:
        errors = np.zeros((len(train), len(self.neighbours), len(asked)))
        values, truth = self.targets[voters], self.targets[asked]
        for part, some, nearest in _sorted_neighbours(train, new, int(self.neighbours.max())):
            totals = np.cumsum(values[nearest], axis=2)[:, :, self.neighbours - 1]
            averages = totals / self.neighbours[:, None]
            errors[part, :, some] = np.mean((averages - truth[some, None]) ** 2, axis=3).transpose(0, 2, 1)
        return np.asarray(-errors.mean(axis=2))


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
    for part, some, nearest in _sorted_neighbours(train, new, int(neighbours.max())):
        classes = labels[nearest]
        for label in range(n_classes):
            counts = np.cumsum(classes == label, axis=2)[:, :, neighbours - 1]
            votes[part, :, some, label] = counts.transpose(0, 2, 1)
    return votes


def _sorted_neighbours(train: Array, new: Array, most: int) -> Iterator[tuple[slice, slice, Array]]:
    """Candidates, new points, and the nearest training points of these in each of those maps, nearest first; block by block."""
    for part in gen_batches(len(train), max(1, DISTANCES // (train.shape[1] * new.shape[1]))):
        # Around the mean, since a map may be nearly constant.
        centre = train[part].mean(axis=1, keepdims=True)
        points, queries = train[part] - centre, new[part] - centre
        squares = np.sum(points**2, axis=2)[:, None, :]
        for some in gen_batches(new.shape[1], max(1, DISTANCES // train.shape[1])):
            # Squared distances without |query|^2, which does not change the order.
            distances = (-2 * queries[:, some]) @ points.transpose(0, 2, 1)
            distances += squares
            if most < distances.shape[2]:
                nearest = np.argpartition(distances, most - 1, axis=2)[:, :, :most]
            else:
                nearest = np.broadcast_to(np.arange(distances.shape[2]), distances.shape)
            order = np.argsort(np.take_along_axis(distances, nearest, axis=2), axis=2, kind="stable")
            yield part, some, np.take_along_axis(nearest, order, axis=2)


def smoothed_votes(votes: Array, neighbours: Any) -> Array:
    """Probabilities (votes + 1/2) / (n_neighbors + classes/2), which no class is ever denied."""
    return np.asarray((votes + 0.5) / (neighbours + votes.shape[-1] / 2))


def counted_votes(voters: KNeighborsClassifier, coordinates: Any) -> Array:
    """How many of its neighbours vote for each class, (n, classes); scikit-learn tells shares."""
    return np.asarray(np.rint(voters.predict_proba(np.asarray(coordinates)) * voters.n_neighbors))


def check_voters(voters: Any, classes: Any) -> None:
    """Whether neighbours can vote for these classes."""
    if not isinstance(voters, KNeighborsClassifier) or len(voters.classes_) != len(classes):
        raise ValueError("voters and classes do not fit together")


def _accuracy(votes: Array, neighbours: Array, truth: Array, X: Any) -> Array:
    return np.asarray(np.mean(votes.argmax(axis=-1) == truth, axis=-1))


def _balanced_accuracy(votes: Array, neighbours: Array, truth: Array, X: Any) -> Array:
    right = votes.argmax(axis=-1) == truth
    return np.asarray(np.mean([right[..., truth == label].mean(axis=-1) for label in np.unique(truth)], axis=0))


def _log_likelihood(votes: Array, neighbours: Array, truth: Array, X: Any) -> Array:
    probabilities = smoothed_votes(votes, neighbours[:, None, None])
    return np.asarray(np.mean(np.log(probabilities[..., np.arange(len(truth)), truth]), axis=-1))


# The scorers worth computing for a whole batch; all others go through scikit-learn, one candidate at a time.
SCORES = {"accuracy": _accuracy, "balanced_accuracy": _balanced_accuracy, "neg_log_loss": _log_likelihood}


class _CountedVotes(ClassifierMixin, BaseEstimator):
    """Votes already counted, as a fitted classifier that a scorer can ask."""

    def __init__(self, classes: Array, probabilities: Array) -> None:
        self.classes = classes
        self.probabilities = probabilities
        self.classes_ = classes

    def predict_proba(self, X: Any) -> Array:
        return self.probabilities

    def predict(self, X: Any) -> Array:
        return np.asarray(self.classes[self.probabilities.argmax(axis=1)])


def _by_scorer(votes: Array, neighbours: Array, truth: Array, X: Any, *, scorer: Any, classes: Array) -> Array:
    probabilities = smoothed_votes(votes, neighbours[:, None, None])
    return np.array([[scorer(_CountedVotes(classes, one), X, classes[truth]) for one in row] for row in probabilities])


def score_function(scoring: Any, classes: Array) -> Score:
    """The function that scores votes as scikit-learn's scorer of this name would; None means accuracy."""
    scoring = "accuracy" if scoring is None else scoring
    if isinstance(scoring, str) and scoring in SCORES:
        return SCORES[scoring]
    return partial(_by_scorer, scorer=get_scorer(scoring), classes=classes)


def smoothed_votes_to_onnx(graph: Any, voters: KNeighborsClassifier, coordinates: str) -> str:
    """Add (votes + 1/2) / (n_neighbors + classes/2) to a graph; of points at the same distance the first vote."""
    distances = graph.sum_over_features("squares", coordinates, np.asarray(voters._fit_X, dtype=np.float64))
    nearest = graph("TopK", distances, np.array([voters.n_neighbors]), n_outputs=2, largest=0)
    ballots = np.eye(len(voters.classes_))[voters._y]
    votes = graph("ReduceSum", graph("Gather", ballots, nearest, axis=0), np.array([1]), keepdims=0)
    return str(graph("Div", graph("Add", votes, 0.5), voters.n_neighbors + len(voters.classes_) / 2))
