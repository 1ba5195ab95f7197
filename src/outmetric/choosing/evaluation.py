"""The scores of a group of candidates: exactly, fold by fold, or with landmarks, where one pass over the data serves all folds.

Rows of Dask collections stay in their chunks: sums over them are gathered there, and the rows that vote are fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from outmetric.choosing.batches import Batches, LandmarkFold, exact_maps, graph_maps, landmark_maps
from outmetric.choosing.candidates import Group, metric_of, weights_among
from outmetric.choosing.votes import ClassVote, Vote
from outmetric.estimators import (
    Gathered,
    KernelMetric,
    check_training,
    chunked_points,
    data_kind,
    landmark_map,
    with_checked_landmarks,
)
from outmetric.foundation import Array, check_sample_weight, fits_in_memory, in_threads, now, stack
from outmetric.rows import ClassSums, DaskRows, ReducedStatistics, fold_sums, sums_bytes
from outmetric.solvers import Maps, Status

# With landmarks, at most so many training points of a fold vote on at most so many of its validation points.
REFERENCE = 1000
VALIDATION = 1000

Splits = list[tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of all fits and scores of a search.

    Parameters
    ----------
    fit_params : dict
        Further arguments of `fit`; what has a value for each row is divided as the rows are.
    train_scores : bool
        Whether the training parts are scored as well.
    error_score : float or "raise"
        The score where a fit or a scorer fails.
    unlabelled : array or None
        Rows without labels, which belong to every training part but do not vote.
    """

    fit_params: Mapping[str, Any] = field(default_factory=dict)
    train_scores: bool = False
    error_score: Any = np.nan
    unlabelled: Array | None = None

    @property
    def raises(self) -> bool:
        return isinstance(self.error_score, str)


@dataclass(frozen=True, eq=False)
class Task:
    """Candidates to score in some folds; several folds only if one pass over the data serves them."""

    group: Group
    folds: list[int]
    splits: Splits


@dataclass(frozen=True, eq=False)
class FoldScores:
    """The scores of a task in one fold.

    Attributes
    ----------
    scores : dict of arrays of shape (members, numbers of neighbours)
        By part and metric: "test_score", "train_accuracy". NaN where a fit or a scorer failed.
    failed : array of bool
        Where that was.
    failure : str or None
        The first of them.
    gathered : Gathered, optional
        What the pass found of all data, for fitting the best candidate without another.
    """

    fold: int
    indices: list[list[int]]
    scores: dict[str, Array]
    failed: Array
    fit_time: float
    score_time: float
    stragglers: int
    failure: str | None
    gathered: Gathered | None = None


def tasks_of(group: Group, splits: Splits, n_samples: int, n_classes: int, *, apart: bool = False) -> list[Task]:
    """One task for all folds if one pass serves them, otherwise, or if they are to be ``apart``, one for each."""
    alone = [Task(group, [fold], [split]) for fold, split in enumerate(splits)]
    if apart or group.settings is None or group.landmarks_reason(n_samples) is None:
        return alone
    if isinstance(group.estimator, Pipeline) or _repeats(splits):
        return alone
    signatures = int(_signatures(splits, n_samples).max()) + 1
    together = [Task(group, list(range(len(splits))), splits)]
    needed = sums_bytes(None, len(splits) + 1, signatures, n_classes, group.settings.landmark_count)
    return together if fits_in_memory(2 * needed) else alone


def _repeats(splits: Splits) -> bool:
    """Whether a training part has rows more than once."""
    return any(np.bincount(train).max(initial=0) > 1 for train, _ in splits)


def _signatures(splits: Splits, n_samples: int) -> Array:
    """A number for each row that tells which training parts it belongs to; numbers are 0, 1, 2, ..."""
    signatures, count = np.zeros(n_samples, dtype=np.intp), 1
    for train, _ in splits:
        signatures *= 2
        signatures[train] += 1
        present = np.bincount(signatures, minlength=2 * count) > 0
        signatures, count = (np.cumsum(present) - 1)[signatures], int(present.sum())
    return signatures


def evaluate(task: Task, X: Any, y: Array, vote: Vote, request: Request) -> list[FoldScores]:
    """Scores of a group's candidates, fold by fold."""
    if task.group.landmarks_reason(len(y)) is not None and request.unlabelled is None:
        assert isinstance(vote, ClassVote)  # others are not served by landmarks
        return _evaluate_landmarks(task, X, y, vote, request)
    (fold,), ((train, test),) = task.folds, task.splits
    if isinstance(X, DaskRows):
        return [_evaluate_alone(task, X, y, vote, request)]
    estimator = clone(task.group.estimator)

    settings, members = task.group.settings, task.group.members
    # Those without labels come last.
    rows = train if request.unlabelled is None else np.concatenate([train, request.unlabelled])

    def maps() -> Batches:
        # A metric that ignores them does not see them, but the steps before it do.
        ignored = settings is not None and not task.group.uses_graph and not isinstance(estimator, Pipeline)
        seen = train if ignored else rows
        X_rows, y_rows = _safe_split(estimator, X, y, seen)
        X_test, _ = _safe_split(estimator, X, y, test, seen)
        params = _check_method_params(X, request.fit_params, seen)
        if settings is None:
            yield [0], partial(_own_maps, estimator, X_rows, y_rows, X_test, params, len(train))
            return
        make = graph_maps if task.group.uses_graph and request.unlabelled is not None else exact_maps
        yield from make(estimator, settings, members, X_rows, y_rows[: len(train)], X_test, params)

    return [_score(task, fold, maps, vote, train, test, X, request)]


def _score(
    task: Task,
    fold: int,
    maps_of: Callable[[], Batches],
    vote: Vote,
    train: Array,
    test: Array,
    X: Any,
    request: Request,
    gathered: Gathered | None = None,
) -> FoldScores:
    """The scores in a fold, whose maps are of these training and validation rows."""
    began = now()
    shape = len(task.group.members), len(vote.neighbours)
    scores: dict[str, Array] = {}
    failed = np.zeros(shape, dtype=bool)
    failures: list[str] = []
    stragglers, scoring_time = 0, 0.0

    def score(part: str, positions: list[int], maps: Maps) -> None:
        new, rows = (maps.new, test) if part == "test" else (maps.train, train)
        marks = vote.marks(maps.train, train, new, rows, rows_of(X, rows))
        for metric, found in marks.scores.items():
            column = scores.setdefault(f"{part}_{metric}", np.full(shape, np.nan))
            column[positions] = np.where(maps.sound[:, None], found, np.nan)
        failed[positions] |= marks.failed
        failures.extend([marks.failure] if marks.failure else [])

    def fail(positions: Any, error: Exception) -> None:
        if request.raises or isinstance(error, MemoryError):  # its message says what to do instead
            raise error
        failed[positions] = True
        failures.append(_told(error))

    try:
        for positions, make in maps_of():
            try:
                maps = make()
                mapped = now()
                for part in ("test", "train")[: 1 + request.train_scores]:
                    score(part, positions, maps)
                scoring_time += now() - mapped
                stragglers += int(np.sum(~maps.converged))
                if not maps.sound.all():
                    fail(np.array(positions)[~maps.sound], ValueError(Status.ILL_CONDITIONED.value))
            except Exception as error:  # whatever is wrong with these candidates, others may be sound
                fail(positions, error)
    except Exception as error:
        fail(slice(None), error)
    indices = [list(member.indices) for member in task.group.members]
    fit_time = now() - began - scoring_time
    return FoldScores(fold, indices, scores, failed, fit_time, scoring_time, stragglers, next(iter(failures), None), gathered)


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _own_maps(estimator: Any, X_rows: Any, y_rows: Array, X_test: Any, params: Mapping[str, Any], n_train: int) -> Maps:
    """The maps of a single candidate, by a fit; the first rows have labels and vote."""
    estimator.fit(X_rows, y_rows, **params)
    train, new = (np.asarray(estimator.transform(part))[None] for part in (X_rows, X_test))
    return Maps(train[:, :n_train], new, np.ones(1, dtype=bool), np.ones(1, dtype=bool))


def _evaluate_alone(task: Task, X: DaskRows, y: Array, vote: Vote, request: Request) -> FoldScores:
    """A candidate that needs a fit of its own, on the training rows of a Dask collection: the others have the weight 0."""
    (fold,), ((train, test),) = task.folds, task.splits
    voters, asked = _voters_and_asked(fold, train, test)

    def maps() -> Maps:
        estimator = clone(task.group.estimator)
        if task.group.settings is not None:
            task.group.settings.require_streamable()  # tells why not
        if not isinstance(estimator, KernelMetric) or _repeats(task.splits):
            raise ValueError(
                f"{type(estimator).__name__} cannot be fitted to parts of a Dask collection; search on rows in memory, "
                "X.compute() or some of them, with splits that repeat no rows."
            )
        weights = check_sample_weight(weights_among(estimator, request.fit_params)[0], len(y))
        own = np.zeros(len(y))
        own[train] = 1.0 if weights is None else weights[train]
        estimator.fit(X.collection, y, own)
        known, new = (np.asarray(estimator.transform(X[rows]))[None] for rows in (voters, asked))
        return Maps(known, new, np.ones(1, dtype=bool), np.ones(1, dtype=bool))

    return _score(task, fold, lambda: iter([([0], maps)]), vote, voters, asked, X, request)


def rows_of(X: Any, rows: Array) -> Any:
    """Some of the rows, which are fetched if they are not in memory."""
    return X[rows] if isinstance(X, DaskRows) else _safe_indexing(X, rows)


def _voters_and_asked(fold: int, train: Array, test: Array) -> tuple[Array, Array]:
    """Those of a fold that vote, and those that are voted on."""
    rng = np.random.default_rng(fold)
    return _some(train, REFERENCE, rng), _some(test, VALIDATION, rng)


def _evaluate_landmarks(task: Task, X: Any, y: Array, vote: ClassVote, request: Request) -> list[FoldScores]:
    """One pass over the data, then all folds. Landmarks and bandwidth are chosen from all rows: neither looks at labels."""
    estimator = clone(task.group.estimator)
    metric = metric_of(estimator)
    splits, settings = task.splits, task.group.settings
    assert settings is not None
    try:
        weights = check_sample_weight(weights_among(estimator, request.fit_params)[0], len(y))
        if isinstance(estimator, Pipeline) or _repeats(splits):
            # A fold by itself: the steps before are fitted on its training part, and rows may occur twice in it.
            _require_memory_of(X, estimator)
            ((train, test),) = splits
            rows = np.concatenate([train, test])
            params = weights_among(estimator, _check_method_params(X, request.fit_params, train))[1]
            X, y, vote = _by_itself(estimator, X, y, train, test, params), y[rows], vote.of(rows)
            weights = None if weights is None else weights[rows]
            splits = [(np.arange(len(train)), np.arange(len(train), len(rows)))]
        asked_rows = [_voters_and_asked(fold, *split) for fold, split in zip(task.folds, splits, strict=True)]
        if isinstance(X, DaskRows):
            settings.require_streamable()
            X.hold(np.concatenate([part for parts in asked_rows for part in parts]))
            points = chunked_points(metric, settings, X)
        else:
            points = check_training(metric, X, settings.kernel.takes)
        found = landmark_map(with_checked_landmarks(metric, settings), points, data_kind(metric))
        signatures = _signatures(splits, len(vote.labels))
        parts = _parts(signatures, splits)
        *of_folds, everything = fold_sums(
            found.features, points, vote.labels, vote.classes, signatures, parts, weights, settings.class_weight
        )
    except Exception as error:
        failure = error

        def fail() -> Batches:
            raise failure

        return [_score(task, fold, fail, vote, *split, X, request) for fold, split in zip(task.folds, splits, strict=True)]

    classes = vote.classes
    gathered = None
    statistics = ReducedStatistics(everything, classes)
    if len(task.folds) > 1 and not any(member.rounds for member in task.group.members):
        gathered = Gathered(metric, found, statistics)

    def score_fold(fold: int, train: Array, voters: Array, asked: Array, sums: ClassSums) -> FoldScores:

        def maps() -> Batches:
            rows = LandmarkFold(points, vote.labels, classes, train, voters, asked, weights)
            yield from landmark_maps(settings, task.group.members, rows, found, sums)

        return _score(task, fold, maps, vote, voters, asked, X, request, gathered)

    jobs: list[Callable[[], Any]] = [
        partial(score_fold, fold, train, *asked, sums)
        for fold, (train, _), asked, sums in zip(task.folds, splits, asked_rows, of_folds, strict=True)
    ]
    if gathered is not None:
        jobs.append(lambda: statistics.summary)  # for the fit of the best, beside the last fold
    return list(in_threads(lambda job: job(), jobs))[: len(task.folds)]


def _require_memory_of(X: Any, estimator: Any) -> None:
    """Raise ValueError for rows that stay in chunks, which have no folds by themselves."""
    if isinstance(X, DaskRows):
        kind = "steps before the metric" if isinstance(estimator, Pipeline) else "splits that repeat rows"
        raise ValueError(
            f"{kind} need rows in memory, and these are {len(X)} of a Dask collection: prepare the collection before "
            "(X = (X - X.mean(0)) / X.std(0), say) and search with the metric alone, or search on some rows of it."
        )


def _parts(signatures: Array, splits: Splits) -> Array:
    """Which signatures belong to which training part; and, last, to all rows."""
    count = int(signatures.max()) + 1
    parts = [np.bincount(signatures[train], minlength=count) > 0 for train, _ in splits]
    return np.stack([*parts, np.ones(count, dtype=bool)])


def _by_itself(estimator: Any, X: Any, y: Array, train: Array, test: Array, params: Mapping[str, Any]) -> Any:
    """The rows of a fold, training part first, after the steps before the metric."""
    if get_tags(estimator).input_tags.pairwise:
        rows = np.concatenate([train, test])
        return np.asarray(X)[np.ix_(rows, rows)]
    parts = [_safe_indexing(X, train), _safe_indexing(X, test)]
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        before = Pipeline(estimator.steps[:-1])
        parts = [before.fit_transform(parts[0], y[train], **params), before.transform(parts[1])]
    return stack([np.asarray(part) if hasattr(part, "iloc") else part for part in parts])


def _some(rows: Array, most: int, rng: np.random.Generator) -> Array:
    return np.asarray(rows) if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
