"""Which candidates predict together: greedy selection on out-of-fold predictions (Caruana et al. 2004), repeated on resampled rows.

A selection begins with nothing and adds, with replacement, the candidate whose inclusion gives the average the least loss. With few
rows the winner of one selection is largely luck; so it is repeated on rows that are drawn anew, and what counts is how often a
candidate is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from outmetric.foundation import Array

# Candidates that are selected from, selections on resampled rows, and steps of each.
CONSIDERED, RESAMPLINGS, STEPS = 60, 20, 10
# The same for scorers that are asked about one candidate at a time.
SCORED_CANDIDATES, SCORED_RESAMPLINGS = 20, 5
# How many predict together at most, of up to so many rows, whose maps are small; and of more. Of many rows a map takes longer than
# a small say is worth.
SMALL_ROWS, SMALL_MEMBERS, MEMBERS = 500, 16, 6
MANY_ROWS, LEAST_SAY = 2000, 0.05

# Losses of a stack of averages, by row numbers (with repetitions) that count.
Loss = Callable[[Array, Array], Array]


def select(essences: Array, loss: Loss, rng: np.random.Generator, resamplings: int = RESAMPLINGS) -> Array:
    """Weights of the candidates, which sum to 1.

    Parameters
    ----------
    essences : array of shape (candidates, n, ...)
        What of their predictions the loss of an average depends on.
    loss : function of essences (candidates, n, ...) and row numbers
    rng : Generator
        Draws rows.
    resamplings : int
        How often.
    """
    candidates, n = essences.shape[:2]
    weights = np.zeros(candidates)
    for _ in range(resamplings):
        rows = rng.integers(0, n, size=(n,))
        weights += _greedy(essences, loss, rows)
    leading = np.argsort(-weights, kind="stable")[: SMALL_MEMBERS if n <= SMALL_ROWS else MEMBERS]
    if n > MANY_ROWS:
        leading = leading[weights[leading] >= LEAST_SAY * weights.sum()]
    kept = np.zeros(candidates)
    kept[leading] = weights[leading]
    return np.asarray(kept / kept.sum())


def _greedy(essences: Array, loss: Loss, rows: Array) -> Array:
    total, taken = np.zeros(essences.shape[1:]), np.zeros(len(essences))
    for step in range(1, STEPS + 1):
        best = int(np.argmin(loss((total + essences) / step, rows)))
        total = total + essences[best]
        taken[best] += 1
    return taken


def combine(weights: Array, predictions: Sequence[Array]) -> Array:
    """The weighted mean of those that have a weight."""
    return np.asarray(sum(weight * one for weight, one in zip(weights, predictions, strict=True) if weight > 0))


@dataclass(frozen=True, eq=False)
class Criterion:
    """What a committee is selected by.

    Attributes
    ----------
    essence : function of predictions
        What of them is averaged.
    loss : function of stacks of averages, and row numbers
    considered, resamplings : int
        How many candidates are selected from, and how often rows are drawn.
    """

    essence: Callable[[Array], Array]
    loss: Loss
    considered: int = CONSIDERED
    resamplings: int = RESAMPLINGS

    def weights(self, predictions: Sequence[Array], rng: np.random.Generator) -> Array:
        """Of candidates with these predictions, best first; those beyond ``considered`` have none."""
        essences = np.stack([self.essence(one) for one in predictions[: self.considered]])
        found = select(essences, self.loss, rng, self.resamplings)
        return np.concatenate([found, np.zeros(len(predictions) - len(found))])


def by_scorer(ask: Callable[[Array, Array], float], complete: Callable[[Array], bool]) -> Criterion:
    """A criterion that asks one of scikit-learn's scorers, which takes its time.

    Parameters
    ----------
    ask : function of predictions and row numbers
        The score, larger for better ones.
    complete : function of row numbers
        Whether the score is defined on these rows; otherwise all are taken.
    """

    def loss(averages: Array, rows: Array) -> Array:
        asked = rows if complete(rows) else np.arange(averages.shape[1])
        return np.array([-ask(one[asked], asked) for one in averages])

    return Criterion(lambda predictions: predictions, loss, SCORED_CANDIDATES, SCORED_RESAMPLINGS)
