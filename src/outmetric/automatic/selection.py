"""Which maps are kept while they are scored, and which of them predict together in the end, by out-of-fold predictions.

They are scored in a race: of each family the best are kept, and what is worse beyond doubt is not pursued. Those that predict
together are found by greedy selection (Caruana et al. 2004), which begins with nothing and adds, with replacement, the candidate
whose inclusion gives the average the least loss. With few rows the winner of one selection is largely luck; so it is repeated on
rows that are drawn anew, and what counts is how often a candidate is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed  # not those of scikit-learn, which change the filters of warnings that threads share

from outmetric.automatic.goals import Goal, Reading
from outmetric.automatic.settings import MapSetting
from outmetric.foundation import Array, Budget, Tell, now, side_by_side

# How many of each family are kept.
KEPT = 3
# A candidate is dropped if it is worse by more than so many standard errors of the difference.
RACING = 2.0
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


@dataclass(frozen=True, eq=False)
class Tried:
    """A map that was scored, and how it was read.

    ``transforms`` are those of the inputs in each fold; ``fine``: with more landmarks.
    """

    setting: MapSetting
    reading: Reading
    transforms: tuple[Array, ...] | None = None
    fine: bool = False

    @property
    def loss(self) -> float:
        return self.reading.loss


# Its name for people, what does it, and with what.
Task = tuple[str, Callable[..., Iterable[Tried]], tuple[Any, ...]]


def can_win(losses: Array, best: Array) -> bool:
    """Whether a candidate with these losses of single rows may be as good as the best; never False for one that is equal."""
    difference = losses - best
    return bool(difference.mean() <= RACING * difference.std() / np.sqrt(len(difference)))


@dataclass(eq=False, kw_only=True)
class Race:
    """Scores maps side by side, as far as there is time, and keeps the best of each family.

    Parameters
    ----------
    goal : Goal
    n_jobs : int, optional
        Through joblib; the result does not depend on it.
    budget : Budget
        What there is no time for is left out, once something was scored.
    tell : function (done, total, text)
    """

    goal: Goal
    n_jobs: int | None = None
    budget: Budget = field(default_factory=Budget)
    tell: Tell = lambda done, total, text: None
    best: dict[tuple[Any, ...], list[Tried]] = field(default_factory=dict)
    losses: list[tuple[MapSetting, Reading]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    longest: float = 0.0

    @property
    def ranked(self) -> list[Tried]:
        """The best of each family, best first."""
        return sorted((tried[0] for tried in self.best.values()), key=lambda tried: tried.loss)

    @property
    def kept(self) -> list[Tried]:
        """All whose predictions are known, best first."""
        return sorted((one for tried in self.best.values() for one in tried), key=lambda tried: tried.loss)

    def may_win(self, tried: Tried, best: Tried) -> bool:
        return can_win(*(self.goal.row_losses(one.reading.predictions) for one in (tried, best)))

    def cannot_be_told_apart(self, tried: Sequence[Tried], group: Array) -> bool:
        """Whether neither the best of a group nor the best of the others is better than the other beyond doubt."""
        inside, outside = (next(one for one, member in zip(tried, which, strict=True) if member) for which in (group, ~group))
        return self.may_win(inside, outside) and self.may_win(outside, inside)

    def stage(self, tasks: Sequence[Task], what: str) -> None:
        """Run tasks in parallel, enter what they find, and note what there was no time for."""
        skipped = 0

        def calls() -> Iterator[Any]:  # joblib takes the next when a task is done
            nonlocal skipped
            for done, (name, task, given) in enumerate(tasks):
                if self.best and not self.budget.allows(self.longest):
                    skipped += 1
                    continue
                self.tell(done, len(tasks), name)
                yield delayed(_timed)(task, given)

        settings = {"n_jobs": self.n_jobs, "prefer": "threads", "pre_dispatch": "n_jobs"}
        with side_by_side():
            for found, failure, seconds in Parallel(return_as="generator", **settings)(calls()):
                self.longest = max(self.longest, seconds)
                self.failures += [failure] if failure else []
                for tried in found:
                    self._enter(tried)
        if skipped:
            self.left_out.append(f"{skipped} of {len(tasks)} {what}")

    def _enter(self, tried: Tried) -> None:
        self.losses.append((tried.setting, replace(tried.reading, predictions=np.empty((0, 0)))))
        key = (*tried.setting.family, tried.reading.n_neighbors is not None)
        known = [one for one in self.best.get(key, ()) if one.fine >= tried.fine]  # what was told by fewer landmarks is outdated
        self.best[key] = sorted([*known, tried], key=lambda one: one.loss)[:KEPT]


def _timed(task: Callable[..., Iterable[Tried]], given: tuple[Any, ...]) -> tuple[list[Tried], str | None, float]:
    """What a task found, why it failed, and the seconds it took."""
    began = now()
    found: list[Tried] = []
    failure = None
    try:
        found.extend(task(*given))
    except (ValueError, np.linalg.LinAlgError) as error:  # this does not suit the data; something else may
        failure = str(error)
    return found, failure, now() - began


def select(
    essences: Array, loss: Loss, rng: np.random.Generator, resamplings: int = RESAMPLINGS, among: Array | None = None
) -> Array:
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
    among : array, optional
        Row numbers from which it draws. Default: each once.
    """
    candidates, n = essences.shape[:2]
    weights = np.zeros(candidates)
    for _ in range(resamplings):
        rows = rng.integers(0, n if among is None else len(among), size=(n,))
        weights += _greedy(essences, loss, rows if among is None else among[rows])
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
    among : array, optional
        Row numbers from which they are drawn; see `select`.
    """

    essence: Callable[[Array], Array]
    loss: Loss
    considered: int = CONSIDERED
    resamplings: int = RESAMPLINGS
    among: Array | None = None

    def weights(self, predictions: Sequence[Array], rng: np.random.Generator) -> Array:
        """Of candidates with these predictions, best first; those beyond ``considered`` have none."""
        essences = np.stack([self.essence(one) for one in predictions[: self.considered]])
        found = select(essences, self.loss, rng, self.resamplings, self.among)
        return np.concatenate([found, np.zeros(len(predictions) - len(found))])


def by_scorer(ask: Callable[[Array, Array], float], complete: Callable[[Array], bool], among: Array) -> Criterion:
    """A criterion that asks one of scikit-learn's scorers, which takes its time.

    Parameters
    ----------
    ask : function of predictions and row numbers
        The score, larger for better ones.
    complete : function of row numbers
        Whether the score is defined on these rows; otherwise all are taken.
    among : array
        All rows, each as often as it counts.
    """

    def loss(averages: Array, rows: Array) -> Array:
        asked = rows if complete(rows) else among
        losses, failure = np.full(len(averages), np.inf), None
        for place, average in enumerate(averages):
            try:
                losses[place] = -ask(average[asked], asked)
            except ValueError as error:  # what is predicted is not in the score's domain, below zero say
                failure = error
        if failure is not None and not np.isfinite(losses).any():
            raise failure
        return losses

    return Criterion(lambda predictions: predictions, loss, SCORED_CANDIDATES, SCORED_RESAMPLINGS, among)
