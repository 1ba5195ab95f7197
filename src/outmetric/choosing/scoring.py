"""All candidates of a search, scored task by task, in parallel; what was scored stays if it is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, cast

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import train_test_split
from sklearn.utils.parallel import Parallel, delayed

from outmetric.choosing.candidates import shared_groups
from outmetric.choosing.evaluation import REFERENCE, FoldScores, Request, Splits, Task, evaluate, tasks_of
from outmetric.choosing.scores import is_multimetric, scorer_of
from outmetric.choosing.votes import Vote
from outmetric.estimators import Gathered
from outmetric.foundation import Array, Budget, side_by_side

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
    """Scores and times of all candidates as they come in.

    Parameters
    ----------
    metric : str or None
        The metric by which candidates are compared, if one decides.
    error_score : float
        The score where a fit or a scorer failed.
    """

    def __init__(
        self,
        candidates: list[dict[str, Any]],
        neighbours: Array,
        n_splits: int,
        *,
        metric: str | None = "score",
        error_score: float = np.nan,
    ) -> None:
        self.params = [{**candidate, "n_neighbors": int(count)} for candidate in candidates for count in neighbours]
        self.metric, self.error_score = metric, error_score
        shape = (len(candidates), len(neighbours), n_splits)
        self.columns: dict[str, Array] = {}
        self.failed = np.zeros(shape, dtype=bool)
        self.fit_times, self.score_times = (np.full(shape, np.nan) for _ in range(2))

    def enter(self, result: FoldScores) -> None:
        members, shape = sum(len(same) for same in result.indices), self.failed.shape
        for position, same in enumerate(result.indices):
            for name, scores in result.scores.items():
                column = self.columns.setdefault(name, np.full(shape, np.nan))
                column[same, :, result.fold] = scores[position]
            self.failed[same, :, result.fold] = result.failed[position]
            self.fit_times[same, :, result.fold] = result.fit_time / (members * shape[1])
            self.score_times[same, :, result.fold] = result.score_time / (members * shape[1])

    def _scores(self, column: str) -> Array:
        """A row for each of ``params``, a column for each fold."""
        found = self.columns.get(column)
        found = np.full(self.failed.shape, np.nan) if found is None else found
        return np.where(self.failed & np.isnan(found), self.error_score, found).reshape(len(self.params), -1)

    def top(self, result: FoldScores) -> float:
        """The best mean score among the candidates of a result."""
        means = self.means.reshape(self.failed.shape[:2])
        return float(np.nanmax(means[[index for same in result.indices for index in same]], initial=-np.inf))

    @property
    def metrics(self) -> list[str]:
        """Their names, as far as something was scored."""
        return [name.removeprefix("test_") for name in self.columns if name.startswith("test_")]

    @property
    def means(self) -> Array:
        """The mean score of each row by the metric that decides; NaN unless it was scored in all folds."""
        return np.asarray(self._scores(f"test_{self.metric}").mean(axis=1))

    def is_comparable(self) -> bool:
        """Whether a candidate has a mean score by the metric that decides, or else by any."""
        deciding = [self.metric] if self.metric in self.metrics else self.metrics
        return any(bool(np.isfinite(self._scores(f"test_{name}").mean(axis=1)).any()) for name in deciding)

    def results(self) -> dict[str, Any]:
        """In the format of GridSearchCV."""
        found: dict[str, Any] = {}
        for name, times in (("fit_time", self.fit_times), ("score_time", self.score_times)):
            flat = times.reshape(len(self.params), -1)
            found[f"mean_{name}"], found[f"std_{name}"] = flat.mean(axis=1), flat.std(axis=1)
        for name in sorted({name for params in self.params for name in params}):
            found[f"param_{name}"] = _column_of([params.get(name, np.ma.masked) for params in self.params])
        found["params"] = self.params
        for name in self.columns or [f"test_{self.metric or 'score'}"]:
            scores = self._scores(name)
            means = scores.mean(axis=1)
            found |= {f"split{fold}_{name}": scores[:, fold] for fold in range(scores.shape[1])}
            found[f"mean_{name}"], found[f"std_{name}"] = means, scores.std(axis=1)
            if name.startswith("test_"):
                found[f"rank_{name}"] = rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32)
        return found

    def best(self, simplicity: list[tuple[float, ...]]) -> int:
        """The best candidate; of several equally good ones the simplest (see `MetricSearchCV`)."""
        equal = np.flatnonzero(self.means >= np.nanmax(self.means) - TIE).tolist()
        counts = self.failed.shape[1]

        def order(row: int) -> tuple[float, ...]:
            return (*simplicity[row // counts], -float(self.params[row]["n_neighbors"]), float(row))

        return min(equal, key=order)


def _column_of(values: list[Any]) -> Any:
    """A masked array, of numbers if all are."""
    given = [value for value in values if value is not np.ma.masked]
    try:
        found = np.array(given)
    except (ValueError, TypeError):  # sequences of several lengths, for example
        numeric = False
    else:
        numeric = found.ndim == 1 and found.dtype.kind in "biufc"
    missing = [value is np.ma.masked for value in values]
    column = np.empty(len(values), dtype=found.dtype if numeric else object)
    places = np.flatnonzero(~np.array(missing))
    for place, value in zip(places.tolist(), given, strict=True):  # one by one: a sequence is one value
        column[place] = value
    return np.ma.MaskedArray(column, mask=missing)


def deciding_metric(scoring: Any, refit: Any) -> str | None:
    """The metric by which candidates are compared, "score" if there is only one; raises ValueError if they do not fit."""
    scorer_of(scoring)  # raises for what is none
    if callable(scoring):
        return refit if isinstance(refit, str) else "score"  # what it returns is not known yet
    several = is_multimetric(scoring)
    check_refit(refit, scoring, list(scoring) if several else None)
    if not several:
        return "score"
    return refit if isinstance(refit, str) else None


def check_refit(refit: Any, scoring: Any, metrics: list[str] | None) -> None:
    """Raise ValueError unless ``refit`` fits to these metrics, or, without any, to a single one."""
    if not isinstance(refit, bool | np.bool_ | str) and not callable(refit):
        raise ValueError(f"refit must be True, False, the name of a metric or a function, not {refit!r}.")
    if callable(refit):
        return
    if metrics is None and isinstance(refit, str) and refit not in ("score", scoring):
        raise ValueError(f"refit={refit!r} is not the metric that scoring={scoring!r} asks for; use refit=True.")
    if metrics is not None and refit and refit not in metrics:
        raise ValueError(
            f"with several metrics refit must be one of them ({', '.join(metrics)}), a function of cv_results_, or False; "
            f"not {refit!r}."
        )


def chosen_row(refit: Callable[[dict[str, Any]], Any], results: dict[str, Any]) -> int:
    """The row of ``cv_results_`` that a function chooses."""
    row, n_rows = refit(results), len(results["params"])
    if not isinstance(row, Integral):
        raise TypeError(f"refit returned {row!r}; it must return an integer, the number of a row of cv_results_.")
    if not 0 <= int(row) < n_rows:
        raise IndexError(f"refit returned {row}; cv_results_ has the rows 0 to {n_rows - 1}.")
    return int(row)


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
    seconds : float
        What the longest task took.
    skipped : int
        Tasks that were left out for lack of time.
    request : Request
        What is asked of all fits and scores.
    """

    tasks: list[Task]
    neighbours: Array
    table: ScoreTable
    simplicity: list[tuple[float, ...]]
    gathered: BestGathered = field(default_factory=BestGathered)
    stragglers: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    skipped: int = 0
    request: Request = field(default_factory=Request)

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
        metric: str | None = "score",
        request: Request | None = None,
    ) -> Scoring:
        """Find out what candidates share; for ``n_classes`` classes, or for real targets of a dimension."""
        request = request or Request()
        dimension = (n_classes or 0) - 1 if dimension is None else dimension
        partly = request.unlabelled is not None
        groups, simplicity = shared_groups(
            estimator, candidates, dimension, n_samples, labelled=n_classes is not None, partly=partly
        )
        by_landmarks = any(group.landmarks_reason(n_samples) is not None for group in groups)
        most = min(REFERENCE if by_landmarks else n_samples, *(len(train) for train, _ in splits))
        neighbours = neighbour_counts(n_neighbors, most)
        # Kernel by kernel, so that an interrupt leaves whole candidates behind.
        tasks = [task for group in groups for task in tasks_of(group, splits, n_samples, n_classes or 1, apart=partly)]
        error_score = np.nan if request.raises else request.error_score
        table = ScoreTable(candidates, neighbours, len(splits), metric=metric, error_score=error_score)
        return cls(tasks, neighbours, table, simplicity, request=request)

    def best_index(self) -> int:
        """The row of the best candidate."""
        return self.table.best(self.simplicity)

    @property
    def n_decompositions(self) -> int:
        """How many eigendecompositions are shared, folds included."""
        return sum(task.group.n_decompositions * len(task.folds) for task in self.tasks)

    def run(
        self,
        X: Any,
        y: Array,
        vote: Vote,
        *,
        n_jobs: int | None,
        advance: Callable[[], object] = lambda: None,
        budget: Budget | None = None,
        needed: bool = True,
    ) -> None:
        """Score all tasks; ``advance`` is called after each.

        Those for which the budget has no time are left out; if a score is ``needed``, not before a candidate has one.
        """
        # Several BLAS threads do not help small matrices, and other tasks want the cores.
        one_thread = n_jobs not in (None, 1) or len(y) < SMALL
        with side_by_side() if one_thread else nullcontext():
            for scores in self._results(X, y, vote, n_jobs, budget or Budget(), needed):
                self.seconds = max(self.seconds, sum(one.fit_time + one.score_time for one in scores))
                for one in scores:
                    self.table.enter(one)
                    self.stragglers += one.stragglers
                    self.failures += [one.failure] if one.failure else []
                if self.table.metric is not None:
                    self.gathered.enter(scores[-1], self.table.top(scores[-1]))
                advance()

    def _results(
        self, X: Any, y: Array, vote: Vote, n_jobs: int | None, budget: Budget, needed: bool
    ) -> Iterable[list[FoldScores]]:
        def calls() -> Iterator[Any]:  # joblib takes the next when a task is done
            for task in self.tasks:
                if not budget.allows(self.seconds) and (not needed or self.table.is_comparable()):
                    self.skipped += 1
                else:
                    yield delayed(evaluate)(task, X, y, vote, self.request)

        # Nearly all time is spent in NumPy, which lets other threads run. Tasks in a queue could not be called back.
        settings = {"n_jobs": n_jobs, "prefer": "threads", "pre_dispatch": "n_jobs" if budget.limited else "2*n_jobs"}
        try:
            run = Parallel(return_as="generator_unordered", **settings)(calls())
        except ValueError:  # a backend that cannot hand over results as they come
            run = Parallel(**settings)(calls())
        return cast("Iterable[list[FoldScores]]", run)

    def require_scores(self) -> None:
        """Raise an error unless a candidate was scored."""
        if self.table.failed.all() or not self.table.is_comparable():
            first = next(iter(self.failures), "a score is not finite")
            kind = TypeError if first.startswith("TypeError:") else ValueError  # data of a wrong type are told as such
            raise kind(f"no candidate could be scored; the first failure: {first}")


def neighbour_counts(given: Any, largest: int) -> Array:
    """The numbers of neighbours to try, which must not all be above ``largest``."""
    counts = np.unique(np.atleast_1d(given))
    if not np.issubdtype(counts.dtype, np.integer) or counts[0] < 1:
        raise ValueError(f"n_neighbors must be integers >= 1, not {given!r}.")
    if counts[0] > largest:
        raise ValueError(f"n_neighbors={given!r} exceeds the {largest} points of the smallest training fold that vote; use fewer.")
    return np.asarray(counts[counts <= largest])


def some_rows(labels: Array, most: int, rng: np.random.RandomState) -> Array:
    """All rows, or a stratified random choice of so many."""
    rows = np.arange(len(labels))
    if len(rows) <= most:
        return rows
    try:
        return np.sort(train_test_split(rows, train_size=most, stratify=labels, random_state=rng)[0])
    except ValueError:  # a class with one member cannot be stratified
        return np.sort(rng.permutation(rows)[:most])
