"""How good predictions of neighbours are: scikit-learn's scores, for a whole batch of candidates where that is worth it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import check_scoring
from sklearn.neighbors import KNeighborsClassifier

from outmetric.foundation import Array

# (votes or averages, numbers of neighbours, true class indices or targets) -> scores, (candidates, numbers of neighbours).
Score = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Marks:
    """Scores of maps by the name of the metric, each (candidates, numbers of neighbours), "score" if there is only one.

    ``failed`` tells where a scorer raised an error, whose scores are NaN, and ``failure`` which the first was.
    """

    scores: dict[str, Array]
    failed: Array
    failure: str | None = None


def smoothed_votes(votes: Array, neighbours: Any) -> Array:
    """Probabilities (votes + 1/2) / (n_neighbors + classes/2), which no class is ever denied."""
    return np.asarray((votes + 0.5) / (neighbours + votes.shape[-1] / 2))


def _accuracy(votes: Array, neighbours: Array, truth: Array) -> Array:
    return np.asarray(np.mean(votes.argmax(axis=-1) == truth, axis=-1))


def _balanced_accuracy(votes: Array, neighbours: Array, truth: Array) -> Array:
    right = votes.argmax(axis=-1) == truth
    return np.asarray(np.mean([right[..., truth == label].mean(axis=-1) for label in np.unique(truth)], axis=0))


def _log_likelihood(votes: Array, neighbours: Array, truth: Array) -> Array:
    probabilities = smoothed_votes(votes, neighbours[:, None, None])
    return np.asarray(np.mean(np.log(probabilities[..., np.arange(len(truth)), truth]), axis=-1))


def _squared_loss(averages: Array, neighbours: Array, truth: Array) -> Array:
    return -_mean_of_rows((averages - truth) ** 2, truth)


def _absolute_loss(averages: Array, neighbours: Array, truth: Array) -> Array:
    return -_mean_of_rows(np.abs(averages - truth), truth)


def _mean_of_rows(losses: Array, truth: Array) -> Array:
    """Over rows, and targets if there are several."""
    return np.asarray(losses.mean(axis=tuple(range(2, 2 + truth.ndim))))


def _r2(averages: Array, neighbours: Array, truth: Array) -> Array:
    """Of a constant target 1 if it is met and 0 if not; NaN of a single row: so scikit-learn has it."""
    if len(truth) < 2:
        return np.full(averages.shape[:2], np.nan)
    left = np.sum((averages - truth) ** 2, axis=2)
    spread = np.sum((truth - truth.mean(axis=0)) ** 2, axis=0)
    explained = 1 - np.divide(left, spread, out=(left > 0).astype(np.float64), where=spread > 0)
    return np.asarray(explained if truth.ndim == 1 else explained.mean(axis=2))


# The scorers worth computing for a whole batch; all others go through scikit-learn, one candidate at a time.
SCORES: dict[str, Score] = {"accuracy": _accuracy, "balanced_accuracy": _balanced_accuracy, "neg_log_loss": _log_likelihood}
REAL_SCORES: dict[str, Score] = {
    "neg_mean_squared_error": _squared_loss,
    "r2": _r2,
    "neg_mean_absolute_error": _absolute_loss,
}


class CountedVotes(ClassifierMixin, BaseEstimator):
    """Votes already counted, as a fitted classifier that a scorer can ask.

    ``discount``: by how many times the logarithms of the classes' ``frequencies`` those of their probabilities are lowered before
    the largest is named.
    """

    def __init__(self, classes: Array, probabilities: Array, frequencies: Array | None = None, discount: float = 0.0) -> None:
        self.classes = classes
        self.probabilities = probabilities
        self.frequencies = frequencies
        self.discount = discount
        self.classes_ = classes

    def predict_proba(self, X: Any) -> Array:
        return self.probabilities

    def predict(self, X: Any) -> Array:
        votes = self.probabilities if self.frequencies is None else self.probabilities / self.frequencies**self.discount
        return np.asarray(self.classes[votes.argmax(axis=1)])


class PredictedValues(RegressorMixin, BaseEstimator):
    """Predictions already made, as a fitted regressor that a scorer can ask."""

    def __init__(self, predictions: Array) -> None:
        self.predictions = predictions

    def predict(self, X: Any) -> Array:
        return self.predictions

    def __sklearn_is_fitted__(self) -> bool:
        return True


def is_multimetric(scoring: Any) -> bool:
    """Whether several metrics are asked for; what a function returns is not known before it is called."""
    return isinstance(scoring, list | tuple | set | dict)


def scorer_of(scoring: Any, *, raise_exc: bool = True) -> Any:
    """scikit-learn's scorer, for several metrics one that returns their scores by name; None means accuracy."""
    return check_scoring(KNeighborsClassifier(), "accuracy" if scoring is None else scoring, raise_exc=raise_exc)


def scoring_for(scoring: Any, *, real: bool) -> Any:
    """What "auto" and None mean for classes, or for real targets; anything else means itself."""
    if scoring is None:
        return "r2" if real else "accuracy"
    if isinstance(scoring, str) and scoring == "auto":
        return "neg_mean_squared_error" if real else "neg_log_loss"
    return scoring


def check_real_scoring(scoring: Any, targets: Array) -> None:
    """Raise ValueError if a scorer that is named does not suit real targets such as these."""
    made_up = np.linspace(1.0, 2.3, 4 * targets[0].size).reshape(4, *targets.shape[1:])  # above 0, as logarithms want it
    for name in _metrics_of(scoring).values() if not callable(scoring) else ():
        if not isinstance(name, str):  # other people's scorers tell when they are asked
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                scorer_of(name)(PredictedValues(made_up[::-1]), np.zeros((4, 1)), made_up)
        except Exception as error:
            raise ValueError(
                f"scoring={name!r} does not suit the real targets that y holds (Unknown label type: continuous for it), such as "
                f"{targets.ravel()[0]}: take {', '.join(map(repr, REAL_SCORES))} or another scorer of scikit-learn for "
                "regression; for classes, pass integers or strings as y."
            ) from error


def _metrics_of(scoring: Any) -> dict[str, Any]:
    """Scorers, or their names, by the names of their columns."""
    if not is_multimetric(scoring):
        return {"score": scoring}
    return dict(scoring) if isinstance(scoring, dict) else {name: name for name in scoring}


@dataclass(frozen=True, eq=False)
class ScoreFunction:
    """Scores votes or averages as scikit-learn's scorers would.

    Parameters
    ----------
    classes : array or None
        None for real targets.
    batched : dict
        Metrics that are computed for a whole batch.
    scorer : scorer or None
        Is asked about the others, one candidate at a time.
    raises : bool
        Whether its errors stop the search.
    routing : bool
        Whether scikit-learn routes metadata; threads do not inherit that.
    """

    classes: Array | None
    batched: dict[str, Score]
    scorer: Any
    raises: bool
    routing: bool

    def __call__(self, predictions: Array, neighbours: Array, truth: Array, X: Any, params: Mapping[str, Any]) -> Marks:
        scores = {name: score(predictions, neighbours, truth) for name, score in self.batched.items()}
        failed, failure = np.zeros(predictions.shape[:2], dtype=bool), None
        if self.scorer is not None:
            y = truth if self.classes is None else self.classes[truth]
            for place in np.ndindex(failed.shape):
                found, wrong = self._ask(self._predictor(predictions[place], int(neighbours[place[1]])), X, y, params)
                for name, value in found.items():
                    scores.setdefault(name, np.full(failed.shape, np.nan))[place] = value
                failed[place] = wrong is not None
                failure = failure or wrong
        return Marks(scores, failed, failure)

    def _predictor(self, predictions: Array, n_neighbors: int) -> CountedVotes | PredictedValues:
        """One candidate's, as a fitted estimator."""
        if self.classes is None:
            return PredictedValues(predictions)
        return CountedVotes(self.classes, smoothed_votes(predictions, n_neighbors))

    def _ask(self, predictor: Any, X: Any, y: Array, params: Mapping[str, Any]) -> tuple[dict[str, float], str | None]:
        """Scores by name, and what went wrong."""
        try:
            with config_context(enable_metadata_routing=self.routing):
                found = self.scorer(predictor, X, y, **params)
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


def score_function(scoring: Any, classes: Array | None, *, raises: bool = False, routed: bool = False) -> ScoreFunction:
    """What scores votes for classes, or averages if these are None, as ``scoring`` says.

    ``routed`` if scorers get further arguments, which those for batches do not take.
    """
    routing = bool(get_config()["enable_metadata_routing"])
    scoring = scoring_for(scoring, real=classes is None)
    scorer = scorer_of(scoring, raise_exc=raises)
    if callable(scoring):
        return ScoreFunction(classes, {}, scorer, raises, routing)
    known = {} if routed else REAL_SCORES if classes is None else SCORES
    metrics = _metrics_of(scoring)
    batched = {name: known[one] for name, one in metrics.items() if isinstance(one, str) and one in known}
    others = {name: one for name, one in metrics.items() if name not in batched}
    return ScoreFunction(classes, batched, scorer_of(others, raise_exc=raises) if others else None, raises, routing)
