"""The scores of a group of candidates: exactly, fold by fold, or with landmarks, where one pass over the data serves all folds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from outmetric.choosing.candidates import Alike, Group, metric_of
from outmetric.choosing.votes import ClassVote, Vote
from outmetric.estimators import (
    Gathered,
    LandmarkMap,
    Settings,
    check_new,
    check_supervision,
    check_training,
    data_kind,
    exact_problem,
    kernel_of_round,
    landmark_map,
    pulled_back,
    transform_of,
    with_checked_landmarks,
)
from outmetric.foundation import Array, fits_in_memory, in_threads, n_points, now, require_memory, stack
from outmetric.kernels import MatrixKernel
from outmetric.problem import ClassSummary, real_targets
from outmetric.rows import Statistics, blocks_of, gather
from outmetric.solvers import Decomposition, FeatureDecomposition, Maps, Status

# Candidates that are trained together; more would not be faster.
BATCH = 64
# With landmarks, at most so many training points of a fold vote on at most so many of its validation points.
REFERENCE = 1000
VALIDATION = 1000

Splits = list[tuple[Array, Array]]
# Positions in a group's list of members, and what makes their maps or raises an error that concerns them only.
Batches = Iterator[tuple[list[int], Callable[[], Maps]]]


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
    """

    fit_params: Mapping[str, Any] = field(default_factory=dict)
    train_scores: bool = False
    error_score: Any = np.nan

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


def tasks_of(group: Group, splits: Splits, n_samples: int, n_classes: int) -> list[Task]:
    """One task for all folds if one pass serves them, otherwise one for each."""
    apart = [Task(group, [fold], [split]) for fold, split in enumerate(splits)]
    if group.settings is None or group.landmarks_reason(n_samples) is None:
        return apart
    if isinstance(group.estimator, Pipeline) or _repeats(splits):
        return apart
    cells = n_classes * (int(_signatures(splits, n_samples).max()) + 1)
    together = [Task(group, list(range(len(splits))), splits)]
    return together if fits_in_memory(2 * 8.0 * cells * group.settings.landmark_count**2) else apart


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
    if task.group.landmarks_reason(len(y)) is not None:
        assert isinstance(vote, ClassVote)  # others are not served by landmarks
        return _evaluate_landmarks(task, X, y, vote, request)
    (fold,), ((train, test),) = task.folds, task.splits
    estimator = clone(task.group.estimator)

    def maps() -> Batches:
        X_train, y_train = _safe_split(estimator, X, y, train)
        X_test, _ = _safe_split(estimator, X, y, test, train)
        params = _check_method_params(X, request.fit_params, train)
        if task.group.settings is None:
            yield [0], partial(_own_maps, estimator, X_train, y_train, X_test, params)
        else:
            yield from _shared_maps(estimator, task.group.settings, task.group.members, X_train, y_train, X_test, params)

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
        marks = vote.marks(maps.train, train, new, rows, _safe_indexing(X, rows))
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


def _own_maps(estimator: Any, X_train: Any, y_train: Array, X_test: Any, params: Mapping[str, Any]) -> Maps:
    """The maps of a single candidate, by a fit."""
    estimator.fit(X_train, y_train, **params)
    train, new = (np.asarray(estimator.transform(part))[None] for part in (X_train, X_test))
    return Maps(train, new, np.ones(1, dtype=bool), np.ones(1, dtype=bool))


def _shared_maps(
    estimator: Any,
    settings: Settings,
    members: tuple[Alike, ...],
    X_train: Any,
    y_train: Array,
    X_test: Any,
    params: Mapping[str, Any],
) -> Batches:
    """The maps of all members, batch by batch."""
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        before = Pipeline(estimator.steps[:-1])
        X_train, X_test = before.fit_transform(X_train, y_train, **params), before.transform(X_test)
    metric = metric_of(estimator)
    points = check_training(metric, X_train, settings.kernel.takes)
    y, labelled = check_supervision(metric, y_train, n_points(points))
    problem = exact_problem(settings, points, data_kind(metric), y, labelled)
    new = check_new(metric, X_test)
    n = len(problem.targets.values)
    matrices = 3 + problem.similarity.held_arrays
    require_memory(
        8.0 * matrices * n * n,
        f"a search on {n} samples ({matrices} arrays of {n} x {n})",
        "landmarks (n_landmarks=1000), or search on fewer rows.",
    )
    (scalar,) = problem.kernel.scalars
    gram, cross = scalar.gram(problem.points), scalar.cross(new, problem.points)

    def decompose(ratio: float) -> Decomposition:
        return Decomposition(gram, cross, problem.similarity, ratio)

    def targets(own: Settings) -> Array:
        return (own.class_targets(y) if labelled else real_targets(y, own.components(n))).values

    def following(own: Settings, maps: Maps, kernel: MatrixKernel | None) -> tuple[MatrixKernel, Decomposition] | None:
        """The kernel of the next round of an input metric, and its decomposition; None if the metric has degenerated."""
        assert settings.input_metric is not None
        assert maps.coefficients is not None
        (scalar,) = (kernel or problem.kernel).scalars
        pulled = pulled_back([(scalar, maps.coefficients[0])], problem.points, [problem.points], settings.input_metric)
        transform = transform_of(pulled)
        if transform.trouble is not None:
            return None
        kernel = kernel_of_round(own, transform, problem.points, y)
        (scalar,) = kernel.scalars
        ratio = own.gamma(problem.similarity.mean_degree) / own.regression_weight
        return kernel, Decomposition(scalar.gram(problem.points), scalar.cross(new, problem.points), problem.similarity, ratio)

    yield from _batches(settings, members, problem.similarity.mean_degree, decompose, targets, following)


def _batches(
    settings: Settings,
    members: tuple[Alike, ...],
    degree: float,
    decompose: Callable[[float], Decomposition],
    targets_of: Callable[[Settings], Array],
    following: Any = None,
) -> Batches:
    """The maps of all members; ``decompose`` gives what those with one ratio of weights share, ``following`` the next round."""
    alike: dict[Any, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, member in enumerate(members):
        alike[member.ratio][member.targets].append(position)
    for by_targets in alike.values():
        first = settings.with_weights(members[next(iter(by_targets.values()))[0]].settings)
        shared = cache(partial(decompose, first.gamma(degree) / first.regression_weight))
        for positions in by_targets.values():
            targets = cache(partial(targets_of, settings.with_weights(members[positions[0]].settings)))
            plain = [position for position in positions if not members[position].rounds]
            for start in range(0, len(plain), BATCH):
                part = plain[start : start + BATCH]
                given = [members[position].settings for position in part]
                yield part, partial(_maps, settings, shared, targets, given)
            tracks: dict[Any, _Track] = {}
            for position in sorted(set(positions) - set(plain), key=lambda position: members[position].rounds):
                member = members[position]
                if member.track not in tracks:
                    tracks[member.track] = _Track(settings, member.settings, shared, targets, following)
                yield [position], partial(tracks[member.track].maps, member.rounds)


class _Track:
    """One setting after 0, 1, 2, ... rounds of its input metric, each found once; a round that degenerates keeps the one before.

    ``shared`` gives the decomposition without input metric, and ``following`` the next kernel and its decomposition, from the
    member's settings, maps and kernel.
    """

    def __init__(self, settings: Settings, given: Any, shared: Any, targets: Any, following: Any) -> None:
        self.own, self.following = settings.with_weights(given), following
        self.solve = partial(_maps, settings, class_targets=targets, given=[given], coefficients=True)
        self.shared = shared
        self.kernel: MatrixKernel | None = None
        self.found: list[Maps] = []

    def maps(self, rounds: int) -> Maps:
        """After this many rounds."""
        if not self.found:
            self.found.append(self.solve(self.shared))
        while len(self.found) <= rounds:
            step = self.following(self.own, self.found[-1], self.kernel)
            if step is None:
                self.found.append(self.found[-1])
                continue
            self.kernel, self.shared = step[0], partial(_constant, step[1])
            self.found.append(self.solve(self.shared))
        return self.found[rounds]


def _constant(value: Any) -> Any:
    return value


def _maps(
    settings: Settings,
    decomposition: Callable[[], Decomposition],
    class_targets: Callable[[], Array],
    given: list[Any],
    *,
    coefficients: bool = False,
) -> Maps:
    """The maps of settings that share a decomposition and targets."""
    shared, targets = decomposition(), class_targets()
    weights = np.array([own["regression_weight"] for own in given], dtype=np.float64)
    penalties = {name: [own[name] for own in given] for name in settings.model.weights}
    model = settings.model.scaled(penalties, weights, shared.squares(targets), lambda: shared.identity_energy(targets, weights))
    return shared.maps(targets, weights, model, tol=settings.tol, max_iter=settings.max_iter, coefficients=coefficients)


def _evaluate_landmarks(task: Task, X: Any, y: Array, vote: ClassVote, request: Request) -> list[FoldScores]:
    """One pass over the data, then all folds. Landmarks and bandwidth are chosen from all rows: neither looks at labels."""
    estimator = clone(task.group.estimator)
    metric = metric_of(estimator)
    splits, settings = task.splits, task.group.settings
    assert settings is not None
    try:
        if isinstance(estimator, Pipeline) or _repeats(splits):
            # A fold by itself: the steps before are fitted on its training part, and rows may occur twice in it.
            ((train, test),) = splits
            rows = np.concatenate([train, test])
            params = _check_method_params(X, request.fit_params, train)
            X, y, vote = _by_itself(estimator, X, y, train, test, params), y[rows], vote.of(rows)
            splits = [(np.arange(len(train)), np.arange(len(train), len(rows)))]
        points = check_training(metric, X, settings.kernel.takes)
        found = landmark_map(with_checked_landmarks(metric, settings), points, data_kind(metric))
        cells = _FoldCells.gather(found, points, vote, splits)
    except Exception as error:
        failure = error

        def fail() -> Batches:
            raise failure

        return [_score(task, fold, fail, vote, *split, X, request) for fold, split in zip(task.folds, splits, strict=True)]

    features, classes = found.features, vote.classes
    gathered = None
    if len(task.folds) > 1:
        gathered = Gathered(metric, found, Statistics(features, classes, cells.total(slice(None))))

    def score_fold(item: tuple[int, tuple[Array, Array]]) -> FoldScores:
        fold, (train, test) = item
        rng = np.random.default_rng(fold)
        voters, asked = _some(train, REFERENCE, rng), _some(test, VALIDATION, rng)

        def maps() -> Batches:
            moments = cells.total(train)
            present = moments[:, -1, -1] > 0
            summary = ClassSummary.make(moments[present], features)
            count = int(summary.counts.sum())
            phi_train, phi_new = features.features(points[voters]), features.features(points[asked])

            def decompose(ratio: float) -> Decomposition:
                return FeatureDecomposition(summary, phi_train, phi_new, ratio)

            def targets(own: Settings) -> Array:
                prototypes = own.class_targets(classes[present], count).prototypes
                assert prototypes is not None
                return prototypes

            yield from _batches(settings, task.group.members, summary.mean_degree, decompose, targets)

        return _score(task, fold, maps, vote, voters, asked, X, request, gathered)

    return list(in_threads(score_fold, zip(task.folds, splits, strict=True)))


@dataclass(frozen=True, eq=False)
class _FoldCells:
    """The moments of each class among the rows that belong to the same training parts."""

    cells: dict[int, Array]
    signatures: Array
    n_classes: int
    width: int

    @classmethod
    def gather(cls, found: LandmarkMap, points: Any, vote: ClassVote, splits: Splits) -> _FoldCells:
        """In one pass over the data."""
        n_classes, signatures = len(vote.classes), _signatures(splits, len(vote.labels))
        cells = gather(found.features, blocks_of(points, signatures * n_classes + vote.labels))
        return cls(cells, signatures, n_classes, found.features.width + 1)

    def total(self, rows: Array | slice) -> Array:
        """The moments of each class over some of the rows, which must be whole cells."""
        moments = np.zeros((self.n_classes, self.width, self.width))
        for signature in np.flatnonzero(np.bincount(self.signatures[rows])).tolist():
            for label in range(self.n_classes):
                moments[label] += self.cells.get(signature * self.n_classes + label, 0.0)
        return moments


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
