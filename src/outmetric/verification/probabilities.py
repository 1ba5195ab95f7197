"""P(same | distance): functions that never rise with the distance, learned from pairs of which it is known.

Both depend on how many of the pairs are the same. If that is a share q among the pairs, and p where the probabilities are used,
same pairs weigh p / q and different ones (1 - p) / (1 - q), which adds logit p - logit q to the logit of the probability.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from outmetric.foundation import Array, storable

CALIBRATIONS = ("isotonic", "logistic")


def _check_isotonic(found: IsotonicProbability, size: int) -> None:
    for array in (found.distances, found.probabilities):
        if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.ndim != 1 or not np.isfinite(array).all():
            raise ValueError("a calibration has steps that are not numbers")
    if not len(found.distances) == len(found.probabilities) > 0:
        raise ValueError("a calibration has other distances than probabilities")
    if (np.diff(found.distances) < 0).any() or (np.diff(found.probabilities) > 0).any():
        raise ValueError("a calibration rises with the distance")
    if found.probabilities.min() < 0 or found.probabilities.max() > 1:
        raise ValueError("a calibration has probabilities beyond 0 and 1")


@storable("IsotonicProbability", check=_check_isotonic)
@dataclass(frozen=True, eq=False)
class IsotonicProbability:
    """The function through some points, straight between them and constant outside."""

    distances: Array
    probabilities: Array

    def of(self, distances: Array) -> Array:
        """P(same) at these distances."""
        return np.asarray(np.interp(distances, self.distances, self.probabilities))


def _check_logistic(found: LogisticProbability, size: int) -> None:
    numbers = (found.slope, found.intercept)
    if not all(isinstance(number, float) and np.isfinite(number) for number in numbers) or found.slope > 0:
        raise ValueError("a calibration has a slope or an intercept that is none")


@storable("LogisticProbability", check=_check_logistic)
@dataclass(frozen=True, eq=False)
class LogisticProbability:
    """1 / (1 + exp(-(intercept + slope d))), with a slope that is not positive."""

    slope: float
    intercept: float

    def of(self, distances: Array) -> Array:
        """P(same) at these distances."""
        with np.errstate(over="ignore"):  # what is too far for a number has the probability 0
            return np.asarray(expit(self.intercept + self.slope * distances))


Probability = IsotonicProbability | LogisticProbability


def learn_probability(calibration: str, distances: Array, same: Array, prior: float | None) -> Probability:
    """The function of one of the CALIBRATIONS; ``prior`` is the share of same pairs where it is used, None for that of these."""
    share = float(same.mean())
    prior = share if prior is None else prior
    if calibration == "logistic":
        found = _logistic(distances, same)
        return LogisticProbability(found.slope, found.intercept + float(logit(prior) - logit(share)))
    weights = np.where(same, prior / share, (1 - prior) / (1 - share))
    steps = IsotonicRegression(y_min=0, y_max=1, increasing=False).fit(distances, same, sample_weight=weights)
    return IsotonicProbability(*(np.array(part, dtype=np.float64) for part in (steps.X_thresholds_, steps.y_thresholds_)))


def _logistic(distances: Array, same: Array) -> LogisticProbability:
    """Platt (1999): each kind has a small share of the other, so that pairs that can be told apart have a finite slope."""
    n_same, n_different = same.sum(), (~same).sum()
    targets = np.where(same, (n_same + 1) / (n_same + 2), 1 / (n_different + 2))
    scale = float(distances.std()) or 1.0
    mean = float(distances.mean())
    rows = np.tile((distances - mean) / scale, 2)[:, None]
    labels = np.repeat([1, 0], len(distances))
    # A target between 0 and 1 is both labels, in parts. So large a C is no penalty.
    model = LogisticRegression(C=1e8, tol=1e-8, max_iter=1000).fit(rows, labels, sample_weight=np.append(targets, 1 - targets))
    slope, intercept = float(model.coef_[0, 0]) / scale, float(model.intercept_[0])
    if slope > 0:
        warnings.warn(
            "the same pairs are further apart than the different ones, so probabilities that never rise with the distance are "
            "constant. Is the metric a similarity, or y the wrong way round?",
            UserWarning,
            stacklevel=4,
        )
        return LogisticProbability(0.0, float(logit(targets.mean())))
    return LogisticProbability(slope, intercept - slope * mean)
