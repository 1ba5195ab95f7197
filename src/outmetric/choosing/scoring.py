"""All candidates of a search, scored task by task, in parallel; what was scored stays if it is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from scipy.stats import rankdata
from sklearn.utils.parallel import Parallel, delayed

from outmetric.choosing.candidates import shared_groups
from outmetric.choosing.evaluation import REFERENCE, FoldScores, Splits, Task, evaluate, tasks_of
from outmetric.choosing.votes import Vote
from outmetric.estimators import Gathered
from outmetric.foundation import Array, one_blas_thread

# Scores that differ by less are equal.
TIE = 1e-12


class BestGathered:
    """What passes over the data found, of the groups of candidates with the best score so far."""

    def __init__(self) -> None:
        self.score = -np.inf
        self.found: list[tuple[set[int], Gathered]] = []

    def enter(self, result: FoldScores, score: float) -> None:
        if score > self.score + TIE:
            self.score, self.found = score, []
        if result.gathered is not None and score >= self.score - TIE:
            self.found.append(({index for same in result.indices for index in same}, result.gathered))

    def of(self, candidate: int) -> Gathered | None:
        return next((gathered for members, gathered in self.found if candidate in members), None)


class ScoreTable:
    """Scores and times of all candidates as they come in."""

    def __init__(self, candidates: list[dict[str, Any]], neighbours: Array, n_splits: int) -> None:
        self.params = [{**candidate, "n_neighbors": int(count)} for candidate in candidates for count in neighbours]
        shape = (len(candidates), len(neighbours), n_splits)
        self.scores, self.fit_times, self.score_times = (np.full(shape, np.nan) for _ in range(3))

    def enter(self, result: FoldScores) -> None:
        members = sum(len(same) for same in result.indices)
        for same, scores in zip(result.indices, result.scores, strict=True):
            self.scores[same, :, result.fold] = scores
            self.fit_times[same, :, result.fold] = result.fit_time / (members * self.scores.shape[1])
            self.score_times[same, :, result.fold] = result.score_time / (members * self.scores.shape[1])

    def top(self, result: FoldScores) -> float:
        """The best mean score among the candidates of a result."""
        means = self.scores[[index for same in result.indices for index in same]].mean(axis=2)
        return float(np.nanmax(means, initial=-np.inf))

    @property
    def means(self) -> Array:
        """The mean score of each row; NaN unless it was scored in all folds."""
        return np.asarray(self.scores.reshape(len(self.params), -1).mean(axis=1))

    def results(self) -> dict[str, Any]:
        """In the format of GridSearchCV."""
        found: dict[str, Any] = {}
        for name, times in (("fit_time", self.fit_times), ("score_time", self.score_times)):
            flat = times.reshape(len(self.params), -1)
            found[f"mean_{name}"], found[f"std_{name}"] = flat.mean(axis=1), flat.std(axis=1)
        for name in sorted({name for params in self.params for name in params}):
            column = np.ma.MaskedArray(np.empty(len(self.params)), mask=True, dtype=object)
            for row, params in enumerate(self.params):
                if name in params:
                    column[row] = params[name]
            found[f"param_{name}"] = column
        found["params"] = self.params
        scores, means = self.scores.reshape(len(self.params), -1), self.means
        found |= {f"split{fold}_test_score": scores[:, fold] for fold in range(scores.shape[1])}
        found["mean_test_score"], found["std_test_score"] = means, scores.std(axis=1)
        found["rank_test_score"] = rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32)
        return found

    def best(self, simplicity: list[tuple[float, ...]]) -> int:
        """The best candidate; of several equally good ones the simplest (see `MetricSearchCV`)."""
        equal = np.flatnonzero(self.means >= np.nanmax(self.means) - TIE).tolist()
        counts = self.scores.shape[1]

        def order(row: int) -> tuple[float, ...]:
            return (*simplicity[row // counts], -float(self.params[row]["n_neighbors"]), float(row))

        return min(equal, key=order)


# Samples up to which one BLAS thread is fastest.
SMALL = 1500


@dataclass(eq=False)
class Scoring:
    """The tasks of a search, and what is known of its candidates.

    Attributes
    ----------
    tasks : list of Task
    neighbours : array
        The numbers of neighbours that are tried.
    table : ScoreTable
    simplicity : list of tuples
        For each candidate, smaller the simpler it is.
    gathered : BestGathered
        What passes over the data found.
    stragglers : int
        Fits that reached their limit of iterations.
    failures : list of str
    """

    tasks: list[Task]
    neighbours: Array
    table: ScoreTable
    simplicity: list[tuple[float, ...]]
    gathered: BestGathered = field(default_factory=BestGathered)
    stragglers: int = 0
    failures: list[str] = field(default_factory=list)

    @classmethod
    def plan(
        cls,
        estimator: Any,
        candidates: list[dict[str, Any]],
        splits: Splits,
        n_neighbors: Any,
        n_samples: int,
        *,
        n_classes: int | None = None,
        dimension: int | None = None,
    ) -> Scoring:
        """Find out what candidates share; for ``n_classes`` classes, or for real targets of a dimension."""
        dimension = (n_classes or 0) - 1 if dimension is None else dimension
        groups, simplicity = shared_groups(estimator, candidates, dimension, labelled=n_classes is not None)
        by_landmarks = any(group.landmarks_reason(n_samples) is not None for group in groups)
        most = min(REFERENCE if by_landmarks else n_samples, *(len(train) for train, _ in splits))
        neighbours = neighbour_counts(n_neighbors, most)
        # Kernel by kernel, so that an interrupt leaves whole candidates behind.
        tasks = [task for group in groups for task in tasks_of(group, splits, n_samples, n_classes or 1)]
        return cls(tasks, neighbours, ScoreTable(candidates, neighbours, len(splits)), simplicity)

    def best_index(self) -> int:
        """The row of the best candidate."""
        return self.table.best(self.simplicity)

    @property
    def n_decompositions(self) -> int:
        """How many eigendecompositions are shared, folds included."""
        return sum(task.group.n_decompositions * len(task.folds) for task in self.tasks)

    def run(self, X: Any, y: Array, vote: Vote, *, n_jobs: int | None, advance: Callable[[], object]) -> None:
        """Score all tasks; ``advance`` is called after each."""
        # Several BLAS threads do not help small matrices, and other tasks want the cores.
        one_thread = n_jobs not in (None, 1) or len(y) < SMALL
        with one_blas_thread() if one_thread else nullcontext():
            for scores in self._results(X, y, vote, n_jobs):
                for one in scores:
                    self.table.enter(one)
                    self.stragglers += one.stragglers
                    self.failures += [one.failure] if one.failure else []
                self.gathered.enter(scores[-1], self.table.top(scores[-1]))
                advance()

    def _results(self, X: Any, y: Array, vote: Vote, n_jobs: int | None) -> Iterable[list[FoldScores]]:
        calls = [delayed(evaluate)(task, X, y, vote) for task in self.tasks]
        # Nearly all time is spent in NumPy, which lets other threads run.
        settings = {"n_jobs": n_jobs, "prefer": "threads"}
        try:
            run = Parallel(return_as="generator_unordered", **settings)(calls)
        except ValueError:  # a backend that cannot hand over results as they come
            run = Parallel(**settings)(calls)
        return cast("Iterable[list[FoldScores]]", run)


def neighbour_counts(given: Any, largest: int) -> Array:
    """The numbers of neighbours to try, which must not all be above ``largest``."""
    counts = np.unique(np.atleast_1d(given))
    if not np.issubdtype(counts.dtype, np.integer) or counts[0] < 1:
        raise ValueError(f"n_neighbors must be integers >= 1, not {given!r}.")
    if counts[0] > largest:
        raise ValueError(f"n_neighbors={given!r} exceeds the {largest} points of the smallest training fold that vote; use fewer.")
    return np.asarray(counts[counts <= largest])
