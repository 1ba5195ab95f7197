"""What each threshold on the distance accepts: rates of true and false accepts, their summaries, and the threshold of a strategy.

A pair is accepted as the same if its distance d is at most the threshold t. With n_s pairs that are the same and n_d that are not,

    true accepts  T(t) = #{same pairs, d <= t} / n_s        false accepts  F(t) = #{different pairs, d <= t} / n_d.

Only as many thresholds differ in what they accept as there are distances, and one that accepts nothing. All are tried.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from outmetric.foundation import Array, check_number, described

# Those of metric-learn, and all.
PUBLISHED = ("accuracy", "f_beta", "max_tpr", "max_tnr")
STRATEGIES = (*PUBLISHED, "far")
# A threshold at the largest distance is so much larger, relatively, so that round-off does not decide.
SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class OperatingPoints:
    """The rates at all thresholds that differ in what they accept, from accepting nothing to accepting every pair.

    Attributes
    ----------
    thresholds : array of shape (t,)
        Increasing: a number just below the smallest distance, and then each distance that occurs.
    accepted_same, accepted_different : arrays of shape (t,)
        How many of the same, and of the different pairs are accepted (or what these weigh); in the end all of them.
    """

    thresholds: Array
    accepted_same: Array
    accepted_different: Array

    @property
    def n_same(self) -> float:
        return float(self.accepted_same[-1])

    @property
    def n_different(self) -> float:
        return float(self.accepted_different[-1])

    @property
    def true_accepts(self) -> Array:
        """The share of the same pairs that is accepted, T."""
        return np.asarray(self.accepted_same / self.n_same)

    @property
    def false_accepts(self) -> Array:
        """The share of the different pairs that is accepted, F."""
        return np.asarray(self.accepted_different / self.n_different)

    @property
    def auc(self) -> float:
        """The area under the curve of true accepts over false accepts.

        That is the probability that a same pair is nearer than a different one, where ties count one half.
        """
        heights = (self.true_accepts[1:] + self.true_accepts[:-1]) / 2
        return float(np.sum(np.diff(self.false_accepts) * heights))

    @property
    def equal_error_rate(self) -> float:
        """The rate at which false accepts F and false rejects 1 - T are equal, on straight lines between the thresholds."""
        excess = self.false_accepts - (1 - self.true_accepts)  # from -1 to 1, never decreasing
        after = int(np.argmax(excess >= 0))
        share = -excess[after - 1] / (excess[after] - excess[after - 1])
        step = self.false_accepts[after] - self.false_accepts[after - 1]
        return float(self.false_accepts[after - 1] + share * step)

    def true_accepts_at(self, far: Array) -> Array:
        """The most true accepts with at most so many false ones."""
        return np.asarray(self.true_accepts[np.searchsorted(self.false_accepts, far, side="right") - 1])

    def threshold(self, strategy: str, *, min_rate: float | None = None, beta: float = 1.0, far: float | None = None) -> float:
        """The threshold that a strategy of `PairVerifier.calibrate` asks for, midway between the two distances that it separates.

        Of several that are as good it is the smallest; but with "max_tnr" that with the most true positives, and with "far" the
        largest: the rate that was asked for is to be reached, not to be kept below.
        """
        check_strategy(strategy, min_rate=min_rate, beta=beta, far=far)
        if strategy not in ("accuracy", "f_beta"):
            self.check_both_kinds()
        if strategy == "far":
            assert far is not None
            self.warn_if_few(far)
            return self._midway(int(np.searchsorted(self.false_accepts, far, side="right")) - 1)
        value = self._value(strategy, min_rate, beta)
        # Some values of f_beta that are equal differ by rounding.
        best = np.flatnonzero(value >= value.max() * (1 - 1e-12))
        # With as many true negatives, the larger threshold has more true positives.
        return self._midway(int(best[-1] if strategy == "max_tnr" else best[0]))

    def _value(self, strategy: str, min_rate: float | None, beta: float) -> Array:
        """What is to be as large as possible, at each threshold; -1 where the other rate is too low."""
        hits, rejected = self.accepted_same, self.n_different - self.accepted_different
        if strategy == "accuracy":
            return np.asarray(hits + rejected)
        if strategy == "f_beta":
            # (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp), and 0 where that is 0 / 0.
            whole = beta**2 * self.n_same + hits + self.accepted_different
            return np.asarray((1 + beta**2) * hits / np.where(whole > 0, whole, 1))
        assert min_rate is not None
        if strategy == "max_tpr":
            return np.where(rejected / self.n_different >= min_rate, hits, -1.0)
        return np.where(self.true_accepts >= min_rate, rejected, -1.0)

    def _midway(self, place: int) -> float:
        """A threshold that accepts the same pairs as that of this number, and about which round-off does not decide."""
        this = float(self.thresholds[place])
        if place == 0:
            return min(-1.0, this)  # no distance of a metric is negative
        if place == len(self.thresholds) - 1:
            return this + SLACK * abs(this)
        following = float(self.thresholds[place + 1])
        middle = this + (following - this) / 2
        return middle if middle < following else this  # neighbouring numbers have none between them

    def check_both_kinds(self) -> None:
        """Raise ValueError unless some pairs are the same and some are not."""
        if not (self.n_same > 0 and self.n_different > 0):
            raise ValueError(f"rates need pairs of both kinds; {self.n_same:g} are the same and {self.n_different:g} different.")

    def place_of(self, threshold: float) -> int:
        """The number of the last of these thresholds that is not larger than this one, and so accepts the same pairs."""
        return max(0, int(np.searchsorted(self.thresholds, threshold, side="right")) - 1)

    def warn_if_few(self, far: float) -> None:
        """Warn that a rate of false accepts is below what so few different pairs can tell."""
        if far * self.n_different < 1:
            warnings.warn(
                f"a false-accept rate of {far:g} cannot be measured on {self.n_different:g} different pairs, of which none may be "
                f"accepted then; give {int(np.ceil(1 / far))} of them or more.",
                UserWarning,
                stacklevel=4,
            )


def operating_points(distances: Any, same: Any, weights: Any = None) -> OperatingPoints:
    """The rates of all thresholds.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
    same : bool array of shape (n_pairs,)
        Which pairs are the same; some are, some are not.
    weights : array of shape (n_pairs,), optional
        How often each pair counts.

    Returns
    -------
    OperatingPoints

    Examples
    --------
    >>> from outmetric.verification import operating_points
    >>> points = operating_points([0.1, 0.2, 0.3, 0.4], [True, True, False, True])
    >>> points.thresholds[points.true_accepts >= 0.5][0], round(points.auc, 3)
    (np.float64(0.2), 0.667)
    """
    points = _counted(distances, same, weights)
    points.check_both_kinds()
    return points


def best_threshold(
    distances: Any,
    same: Any,
    strategy: str = "accuracy",
    *,
    min_rate: float | None = None,
    beta: float = 1.0,
    far: float | None = None,
) -> float:
    """The threshold that a strategy of `PairVerifier.calibrate` asks for; for "accuracy" and "f_beta" pairs may be of one kind.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
    same : bool array of shape (n_pairs,)
        Which pairs are the same.
    strategy, min_rate, beta, far
        As for `PairVerifier.calibrate`.

    Returns
    -------
    float
        Midway between the two distances that it separates; negative if no pair is to be accepted.

    Examples
    --------
    >>> from outmetric.verification import best_threshold
    >>> best_threshold([0.1, 0.2, 0.4, 0.5], [True, True, False, True], "max_tnr", min_rate=0.6)
    0.30000000000000004
    """
    return _counted(distances, same).threshold(strategy, min_rate=min_rate, beta=beta, far=far)


def _counted(distances: Any, same: Any, weights: Any = None) -> OperatingPoints:
    distances, same = np.asarray(distances, dtype=np.float64), np.asarray(same, dtype=bool)
    weights = np.ones(len(distances)) if weights is None else np.asarray(weights, dtype=np.float64)
    order = np.argsort(distances, kind="stable")
    distances, same, weights = distances[order], same[order], weights[order]
    last = np.flatnonzero(np.append(np.diff(distances) > 0, True))  # pairs of equal distance are accepted together
    true, false = (np.append(0.0, np.cumsum(np.where(kind, weights, 0.0))[last]) for kind in (same, ~same))
    thresholds = np.append(np.nextafter(distances[0], -np.inf), distances[last])
    return OperatingPoints(thresholds, true, false)


def check_strategy(
    strategy: Any, *, min_rate: Any = None, beta: Any = 1.0, far: Any = None, known: Sequence[str] = STRATEGIES
) -> None:
    """Raise ValueError unless the strategy is one of those ``known``, with what it needs and nothing that it does not use."""
    if strategy not in known:
        raise ValueError(f"strategy must be one of {', '.join(map(repr, known))}, not {described(strategy)}.")
    check_number("beta", beta)
    needs_min_rate = strategy in ("max_tpr", "max_tnr")
    if needs_min_rate != (min_rate is not None):
        other = "true negatives" if strategy == "max_tpr" else "true positives"
        raise ValueError(
            f"the strategy {strategy!r} needs min_rate, the least rate of {other}, such as 0.95."
            if needs_min_rate
            else f"min_rate belongs to the strategies 'max_tpr' and 'max_tnr'; leave it out with {strategy!r}."
        )
    if needs_min_rate and (not _is_real(min_rate) or not 0 <= min_rate <= 1):
        raise ValueError(f"min_rate must be a number from 0 to 1, not {described(min_rate)}.")
    if (strategy == "far") != (far is not None):
        raise ValueError(
            "the strategy 'far' needs far, the rate of false accepts, such as 0.01."
            if far is None
            else f"far belongs to the strategy 'far'; leave it out with {strategy!r}."
        )
    if far is not None:
        check_rate("far", far)


def check_rate(name: str, value: Any) -> None:
    """Raise ValueError unless a rate is strictly between 0 and 1."""
    if not _is_real(value) or not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, both excluded, such as 0.01; not {described(value)}.")


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
