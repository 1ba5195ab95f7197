"""Neighbour votes and their scores, for a batch of maps at once: one sorted list of neighbours serves every number of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsClassifier

from outmetric.foundation import Array

# Distances held at once when neighbours are sought.
DISTANCES = 2**22
# (votes, numbers of neighbours, true class indices, test data) -> scores, (candidates, numbers of neighbours).
Score = Callable[[Array, Array, Array, Any], Array]


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
    most = int(neighbours.max())
    votes = np.empty((len(train), len(neighbours), new.shape[1], n_classes))
    block = max(1, DISTANCES // (train.shape[1] * new.shape[1]))
    for start in range(0, len(train), block):
        part = slice(start, start + block)
        # Around the mean, since a map may be nearly constant.
        centre = train[part].mean(axis=1, keepdims=True)
        points, queries = train[part] - centre, new[part] - centre
        squares = np.sum(points**2, axis=2)[:, None, :]
        rows = max(1, DISTANCES // train.shape[1])
        for begin in range(0, new.shape[1], rows):
            some = slice(begin, begin + rows)
            # Squared distances without |query|^2, which does not change the order.
            distances = (-2 * queries[:, some]) @ points.transpose(0, 2, 1)
            distances += squares
            if most < distances.shape[2]:
                nearest = np.argpartition(distances, most - 1, axis=2)[:, :, :most]
            else:
                nearest = np.broadcast_to(np.arange(distances.shape[2]), distances.shape)
            order = np.argsort(np.take_along_axis(distances, nearest, axis=2), axis=2, kind="stable")
            classes = labels[np.take_along_axis(nearest, order, axis=2)]
            for label in range(n_classes):
                counts = np.cumsum(classes == label, axis=2)[:, :, neighbours - 1]
                votes[part, :, some, label] = counts.transpose(0, 2, 1)
    return votes


def smoothed_votes(votes: Array, neighbours: Any) -> Array:
    """Probabilities (votes + 1/2) / (n_neighbors + classes/2), which no class is ever denied."""
    return np.asarray((votes + 0.5) / (neighbours + votes.shape[-1] / 2))


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
