"""The scores of a group of candidates: exactly, fold by fold, or with landmarks, where one pass over the data serves all folds."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import _safe_split

from outmetric.choosing.candidates import Group, Member, metric_of
from outmetric.choosing.votes import Score, neighbour_votes
from outmetric.estimators import Gathered, check_points
from outmetric.foundation import Array, available_memory, in_threads, require_memory, stack
from outmetric.problem import ClassSummary, target_rank
from outmetric.rows import Statistics, blocks_of, gather
from outmetric.solvers import BatchStep, Decomposition, FixedBatch, LearnedBatch, Maps, ReducedDecomposition, Status

# Candidates that are trained together; more would not be faster.
BATCH = 64
# With landmarks, at most so many training points of a fold vote on at most so many of its validation points.
REFERENCE = 1000
VALIDATION = 1000


@dataclass(frozen=True, eq=False)
class Task:
    """Candidates to score in some folds; several folds only if one pass over the data serves them."""

    group: Group
    folds: list[int]
    splits: list[tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Result:
    """The scores of a task in one fold, (members, numbers of neighbours); NaN where a fit failed.

    ``gathered`` holds what the pass found of all data, for fitting the best candidate without another.
    """

    fold: int
    indices: list[list[int]]
    scores: Array
    fit_time: float
    score_time: float
    stragglers: int
    failure: str | None
    gathered: Gathered | None = None


@dataclass(frozen=True, eq=False)
class _Votes:
    """What turns maps into scores."""

    labels: Array
    classes: Array
    neighbours: Array
    score: Score

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def of(self, rows: Array) -> _Votes:
        """The same for some of the rows."""
        return replace(self, labels=self.labels[rows])


def tasks_of(group: Group, splits: list[tuple[Array, Array]], n_samples: int, n_classes: int) -> list[Task]:
    """One task for all folds if one pass serves them, otherwise one for each."""
    apart = [Task(group, [fold], [split]) for fold, split in enumerate(splits)]
    if not by_landmarks(group, n_samples) or isinstance(group.estimator, Pipeline) or _repeats(splits):
        return apart
    cells = n_classes * (int(_signatures(splits, n_samples).max()) + 1)
    available = available_memory()
    n_bytes = 8.0 * cells * metric_of(group.estimator)._n_landmarks() ** 2
    return apart if available is not None and n_bytes > available / 2 else [Task(group, list(range(len(splits))), splits)]


def _repeats(splits: list[tuple[Array, Array]]) -> bool:
    """Whether a training part has rows more than once."""
    return any(np.bincount(train).max(initial=0) > 1 for train, _ in splits)


def by_landmarks(group: Group, n_samples: int) -> bool:
    """Whether the candidates of a group are fitted with landmarks, and can share the pass."""
    return group.shared and metric_of(group.estimator)._landmarks_reason(n_samples) is not None


def _signatures(splits: list[tuple[Array, Array]], n_samples: int) -> Array:
    """A number for each row that tells which training parts it belongs to; numbers are 0, 1, 2, ..."""
    signatures, count = np.zeros(n_samples, dtype=np.intp), 1
    for train, _ in splits:
        signatures *= 2
        signatures[train] += 1
        present = np.bincount(signatures, minlength=2 * count) > 0
        signatures, count = (np.cumsum(present) - 1)[signatures], int(present.sum())
    return signatures


def evaluate(task: Task, X: Any, y: Array, labels: Array, classes: Array, neighbours: Array, score: Score) -> list[Result]:
    """Scores of a group's candidates, fold by fold."""
    votes = _Votes(labels, classes, neighbours, score)
    if by_landmarks(task.group, len(labels)):
        return _evaluate_landmarks(task, X, y, votes)
    (fold,), ((train, test),) = task.folds, task.splits
    estimator = clone(task.group.estimator)
    maps_of = _shared_maps if task.group.shared else _own_maps

    def maps() -> Iterator[tuple[list[int], Maps]]:
        X_train, y_train = _safe_split(estimator, X, y, train)
        X_test, _ = _safe_split(estimator, X, y, test, train)
        yield from maps_of(estimator, task.group.members, X_train, y_train, X_test)

    return [_score(task, fold, maps, votes, train, test, X)]


def _score(
    task: Task,
    fold: int,
    maps_of: Callable[[], Iterator[tuple[list[int], Maps]]],
    votes: _Votes,
    train: Array,
    test: Array,
    X: Any,
    gathered: Gathered | None = None,
) -> Result:
    """The result of a fold, whose maps are of these training and validation rows."""
    began = time.perf_counter()
    scores = np.full((len(task.group.members), len(votes.neighbours)), np.nan)
    stragglers, failure, scoring_time = 0, None, 0.0
    try:
        for positions, maps in maps_of():
            mapped = time.perf_counter()
            counted = neighbour_votes(maps.train, votes.labels[train], maps.new, votes.neighbours, votes.n_classes)
            found = votes.score(counted, votes.neighbours, votes.labels[test], _safe_indexing(X, test))
            scores[positions] = np.where(maps.sound[:, None], found, np.nan)
            stragglers += int(np.sum(~maps.converged))
            failure = failure or (None if maps.sound.all() else Status.ILL_CONDITIONED.value)
            scoring_time += time.perf_counter() - mapped
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        failure = str(error)
    indices = [member.indices for member in task.group.members]
    fit_time = time.perf_counter() - began - scoring_time
    return Result(fold, indices, scores, fit_time, scoring_time, stragglers, failure, gathered)


def _evaluate_landmarks(task: Task, X: Any, y: Array, votes: _Votes) -> list[Result]:
    """One pass over the data, then all folds. Landmarks and bandwidth are chosen from all rows: neither looks at labels."""
    estimator = clone(task.group.estimator)
    metric = metric_of(estimator)
    splits = task.splits
    try:
        if isinstance(estimator, Pipeline) or _repeats(splits):
            # A fold by itself: the steps before are fitted on its training part, and rows may occur twice in it.
            ((train, test),) = splits
            rows = np.concatenate([train, test])
            X, y, votes = _by_itself(estimator, X, y, train, test), y[rows], votes.of(rows)
            splits = [(np.arange(len(train)), np.arange(len(train), len(rows)))]
        points = metric._checked_points(X)
        kernel, features, landmarks, place = metric._landmark_features(points)
        signatures = _signatures(splits, len(y))
        cells = gather(features, blocks_of(points, signatures * votes.n_classes + votes.labels))
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        failure = str(error)

        def fail() -> Iterator[tuple[list[int], Maps]]:
            raise ValueError(failure)

        return [_score(task, fold, fail, votes, *split, X) for fold, split in zip(task.folds, splits, strict=True)]

    shape = (votes.n_classes, features.width + 1, features.width + 1)

    def total(rows: Array | slice) -> Array:
        """The moments of each class over some of the rows, which must be whole cells."""
        moments = np.zeros(shape)
        for signature in np.flatnonzero(np.bincount(signatures[rows])).tolist():
            for label in range(votes.n_classes):
                moments[label] += cells.get(signature * votes.n_classes + label, 0.0)
        return moments

    classes = votes.classes
    gathered = None
    if len(task.folds) > 1:
        gathered = Gathered(metric, kernel, Statistics(features, classes, total(slice(None))), landmarks, place)

    def score_fold(item: tuple[int, tuple[Array, Array]]) -> Result:
        fold, (train, test) = item
        rng = np.random.default_rng(fold)
        voters, asked = _some(train, REFERENCE, rng), _some(test, VALIDATION, rng)

        def maps() -> Iterator[tuple[list[int], Maps]]:
            moments = total(train)
            present = moments[:, -1, -1] > 0
            summary = ClassSummary.make(moments[present], features)
            phi_train, phi_new = features.features(points[voters]), features.features(points[asked])

            def decompose(ratio: float) -> tuple[Decomposition, Array]:
                return ReducedDecomposition(summary, phi_train, phi_new, ratio), classes[present]

            count = int(summary.counts.sum())
            yield from _batches(clone(metric), task.group.members, summary.mean_degree, decompose, n_samples=count)

        return _score(task, fold, maps, votes, voters, asked, X, gathered)

    return list(in_threads(score_fold, zip(task.folds, splits, strict=True)))


def _by_itself(estimator: Any, X: Any, y: Array, train: Array, test: Array) -> Any:
    """The rows of a fold, training part first, after the steps before the metric."""
    if get_tags(estimator).input_tags.pairwise:
        rows = np.concatenate([train, test])
        return np.asarray(X)[np.ix_(rows, rows)]
    parts = [_safe_indexing(X, train), _safe_indexing(X, test)]
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        before = Pipeline(estimator.steps[:-1])
        parts = [before.fit_transform(parts[0], y[train]), before.transform(parts[1])]
    return stack([np.asarray(part) if hasattr(part, "iloc") else part for part in parts])


def _some(rows: Array, most: int, rng: np.random.Generator) -> Array:
    return np.asarray(rows) if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def _own_maps(estimator: Any, members: list[Member], X_train: Any, y_train: Array, X_test: Any) -> Iterator[tuple[list[int], Maps]]:
    """The maps of a single candidate, by a fit."""
    estimator.fit(X_train, y_train)
    train, new = (np.asarray(estimator.transform(part))[None] for part in (X_train, X_test))
    yield [0], Maps(train, new, np.ones(1, dtype=bool), np.ones(1, dtype=bool))


def _shared_maps(
    estimator: Any, members: list[Member], X_train: Any, y_train: Array, X_test: Any
) -> Iterator[tuple[list[int], Maps]]:
    """The maps of all members, batch by batch: (positions in the list of members, their maps)."""
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        before = Pipeline(estimator.steps[:-1])
        X_train, X_test = before.fit_transform(X_train, y_train), before.transform(X_test)
    metric = metric_of(estimator)
    problem = metric._problem(metric._checked_points(X_train), y_train)
    new = check_points(metric, X_test, metric._takes, fitting=False)
    n = len(problem.targets.values)
    matrices = 3 + problem.similarity.held_arrays
    require_memory(
        8.0 * matrices * n * n,
        f"a search on {n} samples ({matrices} arrays of {n} x {n})",
        "landmarks (n_landmarks=1000), or search on fewer rows.",
    )
    (scalar,) = problem.kernel.scalars
    gram, cross = scalar.gram(problem.points), scalar.cross(new, problem.points)

    def decompose(ratio: float) -> tuple[Decomposition, Array]:
        return Decomposition(gram, cross, problem.similarity, ratio), y_train

    yield from _batches(metric, members, problem.similarity.mean_degree, decompose)


def _batches(
    metric: Any,
    members: list[Member],
    degree: float,
    decompose: Callable[[float], tuple[Decomposition, Array]],
    *,
    n_samples: int | None = None,
) -> Iterator[tuple[list[int], Maps]]:
    """The maps of all members; ``decompose`` gives what those with one ratio of weights share, and labels to make targets of.

    Those are the labels of all samples, or with ``n_samples`` their classes.
    """
    alike: dict[Any, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, member in enumerate(members):
        alike[member.ratio][member.targets].append(position)
    for by_targets in alike.values():
        first = members[next(iter(by_targets.values()))[0]]
        metric.set_params(**first.settings)
        shared, labels = decompose(metric._collocation_weight(degree) / metric.regression_weight)
        for positions in by_targets.values():
            metric.set_params(**members[positions[0]].settings)
            made = metric._class_targets(labels, n_samples)
            targets = made.values if n_samples is None else made.prototypes
            for start in range(0, len(positions), BATCH):
                part = positions[start : start + BATCH]
                settings = [members[position].settings for position in part]
                weights = np.array([own["regression_weight"] for own in settings], dtype=np.float64)
                step = _batch_step(settings, shared, targets, weights)
                yield part, shared.maps(targets, weights, step, tol=metric.tol, max_iter=metric.max_iter)


def _batch_step(settings: list[dict[str, Any]], shared: Decomposition, targets: Array, weights: Array) -> BatchStep:
    squares = shared.squares(targets)
    if "output_penalty" in settings[0]:
        automatic = shared.identity_energy(targets, weights) / (2 * target_rank(squares))
        return LearnedBatch(_or_automatic([own["output_penalty"] for own in settings], automatic))
    unit = weights * np.trace(squares) / target_rank(squares)
    ridges = unit * np.array([own["metric_ridge"] for own in settings], dtype=np.float64)
    return FixedBatch(_or_automatic([own["metric_penalty"] for own in settings], unit + ridges), ridges)


def _or_automatic(penalties: list[Any], automatic: Array) -> Array:
    return np.array(
        [auto if isinstance(given, str) else given for given, auto in zip(penalties, automatic, strict=True)], dtype=float
    )
