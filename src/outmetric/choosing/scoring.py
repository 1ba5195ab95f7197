"""All candidates of a search, scored task by task, in parallel; what was scored stays if it is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from outmetric.choosing.candidates import shared_groups
from outmetric.choosing.evaluation import REFERENCE, FoldScores, Splits, Task, evaluate, tasks_of
from outmetric.choosing.results import BestGathered, ScoreTable
from outmetric.choosing.votes import Vote
from outmetric.foundation import Array, one_blas_thread

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
