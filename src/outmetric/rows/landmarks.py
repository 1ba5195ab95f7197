"""Which rows become landmarks, and maps that are made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize

from outmetric.foundation import Array, n_points
from outmetric.kernels import Features, Landmarks, MatrixKernel, ScalarKernel

# Landmarks are chosen among at most this many rows for each landmark that is wanted.
CANDIDATES = 5
# How many are chosen by default.
LANDMARKS = 1000
# When? Samples up to which a fit is exact unless landmarks are asked for: a fit that is kept; and each of the many of a search that
# compares settings by fits.
EXACT_SAMPLES, EXACT_SEARCHED = 10_000, 2000
CHOICES = ("uniform", "kmeans++", "leverage")


def choose(kernel: ScalarKernel, candidates: Any, count: int, how: str, rng: np.random.Generator) -> Array:
    """Row numbers, sorted, of ``count`` landmarks among the candidates.

    Parameters
    ----------
    kernel : ScalarKernel
        With its bandwidth fixed; for "precomputed" the candidates are their own square kernel matrix.
    how : "uniform", "kmeans++" or "leverage"
        At random; each with probability proportional to its squared distance, in the kernel's space, from those chosen before; with
        probability proportional to its ridge leverage score.
    """
    n = n_points(candidates)
    if count >= n:
        return np.arange(n)
    if how == "uniform":
        return np.sort(rng.choice(n, count, replace=False))
    columns = kernel.columns(candidates)
    if how == "kmeans++":
        return np.sort(_spread_out(columns, kernel.diagonal(candidates), count, rng))
    scores = _leverage_scores(columns, kernel.diagonal(candidates), count, rng)
    positive = int(np.sum(scores > 0))
    chosen = rng.choice(n, min(count, positive), replace=False, p=scores / scores.sum())
    if positive < count:
        rest = np.setdiff1d(np.arange(n), chosen)
        chosen = np.concatenate([chosen, rng.choice(rest, count - positive, replace=False)])
    return np.sort(chosen)


def _spread_out(columns: Any, diagonal: Array, count: int, rng: np.random.Generator) -> Array:
    """k-means++ in the kernel's space: |x - z|^2 = k(x, x) - 2 k(x, z) + k(z, z)."""
    chosen = [int(rng.integers(len(diagonal)))]
    distances = np.full(len(diagonal), np.inf)
    while True:
        newest = chosen[-1]
        to_newest = diagonal - 2 * columns([newest])[:, 0] + diagonal[newest]
        np.minimum(distances, to_newest.clip(min=0), out=distances)
        distances[newest] = 0
        if len(chosen) == count:
            return np.array(chosen)
        total = distances.sum()
        if not total > 0:  # every point coincides with one chosen already
            rest = np.setdiff1d(np.arange(len(diagonal)), chosen)
            return np.concatenate([chosen, rng.choice(rest, count - len(chosen), replace=False)])
        chosen.append(int(rng.choice(len(diagonal), p=distances / total)))


def _leverage_scores(columns: Any, diagonal: Array, count: int, rng: np.random.Generator) -> Array:
    """Ridge leverage scores [K (K + alpha I)^-1]_ii; alpha makes them sum to about count/2.

    K is taken for that of the features of a uniform pilot; what a point has beyond these counts as a direction of its own.
    """
    pilot = rng.choice(len(diagonal), count, replace=False)
    cross = columns(pilot)
    spectrum, basis = np.linalg.eigh((cross[pilot] + cross[pilot].T) / 2)
    kept = spectrum > max(0.0, len(spectrum) * np.finfo(np.float64).eps * spectrum[-1])
    if not kept.any():
        return np.ones(len(diagonal))  # the pilot knows nothing
    phi = cross @ (basis[:, kept] / np.sqrt(spectrum[kept]))
    beyond = (diagonal - np.sum(phi**2, axis=1)).clip(min=0)
    weights, turn = np.linalg.eigh(phi.T @ phi)
    weights = weights.clip(min=0)

    def excess(log_ridge: float) -> float:
        return float(np.sum(weights / (weights + np.exp(log_ridge))) - count / 2)

    low, high = np.log(weights[-1]) - 32, np.log(weights[-1]) + np.log(count) + 1
    ridge = float(np.exp(scipy.optimize.brentq(excess, low, high) if excess(low) > 0 else low))
    within = np.sum((phi @ turn) ** 2 / (weights + ridge), axis=1)
    return np.asarray(within + beyond / (beyond + ridge))


@dataclass(frozen=True, eq=False)
class LandmarkMap:
    """What a map in the space of landmark features is made of.

    Attributes
    ----------
    kernel : MatrixKernel
        Resolved.
    features : Features
    points : sample
        Where the coefficients of the map are.
    indices : array or None
        Which training rows the landmarks are, if they were chosen among them.
    spread_over : int or None
        With a precomputed kernel, whose map has coefficients at all training points: their number.
    sample : sample or None
        The rows that the landmarks were chosen among and the kernel was resolved on.
    single : bool
        Whether single precision will do.
    """

    kernel: MatrixKernel
    features: Features
    points: Any
    indices: Array | None = None
    spread_over: int | None = None
    sample: Any = None
    single: bool = False

    def with_kernel(self, kernel: MatrixKernel) -> LandmarkMap:
        """The same landmarks with another kernel, resolved."""
        parts = [Landmarks.make(scalar, self.points, scalar.gram(self.points), single=self.single) for scalar in kernel.scalars]
        return replace(self, kernel=kernel, features=Features(tuple(parts)))

    def place(self, coefficients: Array) -> Array:
        """Coefficients of the landmarks as those of the map's points."""
        if self.spread_over is None:
            return coefficients.copy()
        everywhere = np.zeros((self.spread_over, coefficients.shape[1]))
        everywhere[self.indices] = coefficients
        return everywhere
