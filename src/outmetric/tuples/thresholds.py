"""The distance up to which pairs are called similar: the best one for given pairs, by accuracy, F score or one of the two rates.

With a threshold t on distances, similar pairs within t are true positives (tp), dissimilar ones beyond t true negatives (tn).
Only as many thresholds differ as there are distances, and one that no pair is within; all are tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from outmetric.foundation import Array

STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")
# No pair is within a negative distance.
NONE = -1.0
# A threshold at the largest distance is so much larger, relatively, so that round-off does not decide.
SLACK = 1e-9


@dataclass(frozen=True)
class Calibration:
    """What makes a threshold the best: the parameters of `calibrate_threshold`."""

    strategy: str = "accuracy"
    min_rate: float | None = None
    beta: float = 1.0


def calibration_of(params: Mapping[str, Any] | None) -> Calibration:
    """Checked parameters."""
    given = {} if params is None else dict(params)
    unknown = sorted(map(str, given.keys() - {"strategy", "min_rate", "beta"}))
    if unknown:
        raise ValueError(f"calibration_params has {', '.join(unknown)}, and may have strategy, min_rate and beta.")
    found = Calibration(**given)
    if found.strategy not in STRATEGIES:
        raise ValueError(f"strategy={found.strategy!r} is not known; use one of {', '.join(map(repr, STRATEGIES))}.")
    if found.strategy in ("max_tpr", "max_tnr") and not (isinstance(found.min_rate, Real) and 0 <= found.min_rate <= 1):
        raise ValueError(f"strategy={found.strategy!r} needs min_rate, a number from 0 to 1; it is {found.min_rate!r}.")
    if found.strategy == "f_beta" and not (isinstance(found.beta, Real) and np.isfinite(found.beta)):
        raise ValueError(f"beta must be a real number; it is {found.beta!r}.")
    return found


def best_threshold(distances: Array, similar: Array, calibration: Calibration) -> float:
    """The threshold that is best for these pairs; of equally good ones the smallest, or for rates that with the other rate highest.

    It lies midway between the two distances that it separates.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
    similar : array of shape (n_pairs,)
        Whether each pair is.
    calibration : Calibration
    """
    values, place = np.unique(distances, return_inverse=True)
    # The first entry is for the threshold that no pair is within.
    tp = np.concatenate([[0], np.cumsum(np.bincount(place, similar))])
    fp = np.concatenate([[0], np.cumsum(np.bincount(place, ~similar))])
    best = _best(tp, fp, calibration)
    if best == 0:
        return NONE
    if best == len(values):
        return float(values[-1] * (1 + SLACK))
    return float((values[best - 1] + values[best]) / 2)


def _best(tp: Array, fp: Array, calibration: Calibration) -> int:
    positives, negatives = tp[-1], fp[-1]
    if calibration.strategy == "accuracy":
        return int(np.argmax(tp - fp))
    if calibration.strategy == "f_beta":
        weight = calibration.beta**2
        # (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp), and 0 where that is 0 / 0.
        whole = tp + fp + weight * positives
        return int(np.argmax((1 + weight) * tp / np.where(whole > 0, whole, 1)))
    if not positives or not negatives:
        raise ValueError(
            f"strategy={calibration.strategy!r} needs similar and dissimilar pairs; there are {positives:.0f} and {negatives:.0f}."
        )
    rates = {"max_tpr": tp / positives, "max_tnr": 1 - fp / negatives}
    goal = rates.pop(calibration.strategy)
    (other,) = rates.values()
    assert calibration.min_rate is not None
    allowed = np.flatnonzero(other >= calibration.min_rate)
    return int(allowed[np.lexsort((other[allowed], goal[allowed]))[-1]])
