"""How far rates may be believed: a bootstrap over identities.

Pairs that share a person are not independent: a face that resembles everybody spoils all of its pairs at once. So not pairs but
identities are drawn with replacement. If identity i was drawn c_i times, a pair of i and j counts c_i c_j times, and a pair within
i counts c_i times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from outmetric.foundation import Array
from outmetric.verification.rates import OperatingPoints, operating_points


@dataclass(frozen=True, eq=False)
class Estimate:
    """A rate, or an array of them, with a confidence interval.

    Attributes
    ----------
    value, low, high : float, or arrays of the same shape
        The ends of the interval are NaN if identities were not given.
    """

    value: Any
    low: Any
    high: Any

    def __float__(self) -> float:
        return float(self.value)


def estimate(
    measure: Callable[[OperatingPoints], Any],
    distances: Array,
    same: Array,
    identities: Array | None,
    n_bootstrap: int,
    confidence: float,
    rng: np.random.Generator,
) -> Estimate:
    """A measure of the operating points with its percentile interval; identities are of shape (n_pairs, 2), or None."""
    value = measure(operating_points(distances, same))
    if identities is None:
        nothing = np.full(np.shape(value), np.nan)
        return Estimate(value, _number(nothing), _number(nothing))
    order = np.argsort(distances, kind="stable")  # once, so that sorting again is quick
    distances, same, identities = distances[order], same[order], identities[order]
    names, numbers = np.unique(identities.ravel(), return_inverse=True)
    first, second = numbers.reshape(-1, 2).T
    found = []
    for _ in range(n_bootstrap):
        counts = rng.multinomial(len(names), np.full(len(names), 1 / len(names))).astype(np.float64)
        weights = np.where(same, counts[first], counts[first] * counts[second])
        if (weights[same] > 0).any() and (weights[~same] > 0).any():
            found.append(measure(operating_points(distances, same, weights)))
    if not found:
        raise ValueError(f"no sample of {len(names)} identities has pairs of both kinds; give pairs of more identities.")
    low, high = np.quantile(np.array(found), [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return Estimate(value, _number(low), _number(high))


def _number(value: Array) -> Any:
    """An array as it is, and a float of one without dimensions."""
    return value if np.ndim(value) else float(value)
