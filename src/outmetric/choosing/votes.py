"""A vote of neighbours: targets, predictions and scores, for a batch of maps and many numbers of neighbours at once.

Classes are predicted by smoothed votes, real targets by averages; one sorted list of neighbours serves every number of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any, Self

import numpy as np
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import gen_batches
from sklearn.utils.validation import _check_method_params

from outmetric.foundation import Array

# Distances held at once when neighbours are sought.
DISTANCES = 2**22
# (votes, numbers of neighbours, true class indices) -> scores, (candidates, numbers of neighbours).
Score = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Marks:
    """Scores of maps by the name of the metric, each (candidates, numbers of neighbours), "score" if there is only one.

    ``failed`` tells where a scorer raised an error, whose scores are NaN, and ``failure`` which the first was.
    """

    scores: dict[str, Array]
    failed: Array
    failure: str | None = None


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


@dataclass(frozen=True, eq=False)
class ClassVote(Vote):
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

    def scores(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Array:
        return self.marks(train, voters, new, asked, X).scores["score"]

    def marks(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Marks:
        votes = neighbour_votes(train, self.labels[voters], new, self.neighbours, len(self.classes))
        params = _check_method_params(self.labels, self.params, asked)
        return self.score(votes, self.neighbours, self.labels[asked], X, params)


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
    fits = isinstance(voters, KNeighborsClassifier) and isinstance(classes, np.ndarray) and classes.ndim == 1
    if not fits or len(voters.classes_) != len(classes):
        raise ValueError("voters and classes do not fit together")


def _accuracy(votes: Array, neighbours: Array, truth: Array) -> Array:
    return np.asarray(np.mean(votes.argmax(axis=-1) == truth, axis=-1))


def _balanced_accuracy(votes: Array, neighbours: Array, truth: Array) -> Array:
    right = votes.argmax(axis=-1) == truth
    return np.asarray(np.mean([right[..., truth == label].mean(axis=-1) for label in np.unique(truth)], axis=0))


def _log_likelihood(votes: Array, neighbours: Array, truth: Array) -> Array:
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


def is_multimetric(scoring: Any) -> bool:
    """Whether several metrics are asked for; what a function returns is not known before it is called."""
    return isinstance(scoring, list | tuple | set | dict)


def scorer_of(scoring: Any, *, raise_exc: bool = True) -> Any:
    """scikit-learn's scorer, for several metrics one that returns their scores by name; None means accuracy."""
    return check_scoring(KNeighborsClassifier(), "accuracy" if scoring is None else scoring, raise_exc=raise_exc)


@dataclass(frozen=True, eq=False)
class ScoreFunction:
    """Scores votes as scikit-learn's scorers would.

    Parameters
    ----------
    classes : array
    batched : dict
        Metrics that are computed for a whole batch.
    scorer : scorer or None
        Is asked about the others, one candidate at a time.
    raises : bool
        Whether its errors stop the search.
    routing : bool
        Whether scikit-learn routes metadata; threads do not inherit that.
    """

    classes: Array
    batched: dict[str, Score]
    scorer: Any
    raises: bool
    routing: bool

    def __call__(self, votes: Array, neighbours: Array, truth: Array, X: Any, params: Mapping[str, Any]) -> Marks:
        scores = {name: score(votes, neighbours, truth) for name, score in self.batched.items()}
        failed, failure = np.zeros(votes.shape[:2], dtype=bool), None
        if self.scorer is not None:
            probabilities = smoothed_votes(votes, neighbours[:, None, None])
            for place in np.ndindex(failed.shape):
                asked = _CountedVotes(self.classes, probabilities[place])
                found, wrong = self._ask(asked, X, self.classes[truth], params)
                for name, value in found.items():
                    scores.setdefault(name, np.full(failed.shape, np.nan))[place] = value
                failed[place] = wrong is not None
                failure = failure or wrong
        return Marks(scores, failed, failure)

    def _ask(self, votes: _CountedVotes, X: Any, y: Array, params: Mapping[str, Any]) -> tuple[dict[str, float], str | None]:
        """Scores by name, and what went wrong."""
        try:
            with config_context(enable_metadata_routing=self.routing):
                found = self.scorer(votes, X, y, **params)
            found = found if isinstance(found, dict) else {"score": found}
            # Of several scorers, those that fail return the text of their errors.
            errors = [value for value in found.values() if isinstance(value, str)]
            scores = {name: np.nan if isinstance(value, str) else _checked_score(value, name) for name, value in found.items()}
        except Exception as error:  # scorers are other people's code
            if self.raises:
                raise
            return {}, f"scoring failed: {error!r}"
        return scores, f"scoring failed: {errors[0].strip().splitlines()[-1]}" if errors else None


def _checked_score(value: Any, name: str) -> float:
    value = value.item() if hasattr(value, "item") and np.size(value) == 1 else value
    if not isinstance(value, Number) or isinstance(value, complex):
        raise ValueError(f"scoring must return a number, not {value!r} of type {type(value).__name__} (metric {name}).")
    return float(value)  # type: ignore[arg-type]


def score_function(scoring: Any, classes: Array, *, raises: bool = False, routed: bool = False) -> ScoreFunction:
    """What scores votes as ``scoring`` says; ``routed`` if scorers get further arguments, which those for batches do not take."""
    routing = bool(get_config()["enable_metadata_routing"])
    scorer = scorer_of(scoring, raise_exc=raises)
    if callable(scoring):
        return ScoreFunction(classes, {}, scorer, raises, routing)
    metrics: dict[str, Any] = {"score": "accuracy" if scoring is None else scoring}
    if is_multimetric(scoring):
        metrics = dict(scoring) if isinstance(scoring, dict) else {name: name for name in scoring}
    batched: dict[str, Score] = {
        name: SCORES[one] for name, one in metrics.items() if isinstance(one, str) and one in SCORES and not routed
    }
    others = {name: one for name, one in metrics.items() if name not in batched}
    return ScoreFunction(classes, batched, scorer_of(others, raise_exc=raises) if others else None, raises, routing)


def smoothed_votes_to_onnx(graph: Any, voters: KNeighborsClassifier, coordinates: str) -> str:
    """Add (votes + 1/2) / (n_neighbors + classes/2) to a graph; of points at the same distance the first vote."""
    distances = graph.sum_over_features("squares", coordinates, np.asarray(voters._fit_X, dtype=np.float64))
    nearest = graph("TopK", distances, np.array([voters.n_neighbors]), n_outputs=2, largest=0)
    ballots = np.eye(len(voters.classes_))[voters._y]
    votes = graph("ReduceSum", graph("Gather", ballots, nearest, axis=0), np.array([1]), keepdims=0)
    return str(graph("Div", graph("Add", votes, 0.5), voters.n_neighbors + len(voters.classes_) / 2))
