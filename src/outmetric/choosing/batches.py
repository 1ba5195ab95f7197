"""The maps of all candidates with one kernel in one fold, batch by batch, on shared decompositions: exactly, or with landmarks.

Rounds of an input metric change the kernel, so that each setting has decompositions of its own from the first round on; all numbers
of rounds share them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, gen_batches

from outmetric.choosing.candidates import Alike, metric_of, weights_among
from outmetric.estimators import (
    PartlyLabelled,
    Settings,
    check_new,
    check_supervision,
    check_training,
    data_kind,
    exact_problem,
    kernel_of_round,
    transform_of,
)
from outmetric.foundation import Array, check_sample_weight, n_points, require_memory
from outmetric.kernels import MatrixKernel, ScalarKernel, weighted_matrix
from outmetric.problem import ClassSummary, real_targets
from outmetric.rows import (
    ChunkedPoints,
    ClassSums,
    Jacobians,
    LandmarkMap,
    PullBack,
    class_summary,
    gather,
    pull_back,
    similarity_laplacian,
)
from outmetric.solvers import Decomposition, FeatureDecomposition, Maps

# Candidates that are trained together; more would not be faster.
BATCH = 64
# Rows that are read at once.
BLOCK_ROWS = 2**16

# Positions in a group's list of members, and what makes their maps or raises an error that concerns them only.
Batches = Iterator[tuple[list[int], Callable[[], Maps]]]


def exact_maps(
    estimator: Any,
    settings: Settings,
    members: tuple[Alike, ...],
    X_rows: Any,
    y_train: Array,
    X_test: Any,
    params: Mapping[str, Any],
) -> Batches:
    """The maps of all members, by exact fits; rows beyond those with the targets ``y_train`` are for steps before the metric."""
    weights, X_rows, X_test = _prepared(estimator, X_rows, y_train, X_test, params)
    metric, n = metric_of(estimator), len(y_train)
    X_train = X_rows if n_points(X_rows) == n else _safe_indexing(X_rows, np.arange(n))
    points = check_training(metric, X_train, settings.kernel.takes)
    y, labelled = check_supervision(metric, y_train, n)
    weights = settings.row_weights(weights, y, labelled)
    # Without it no real targets are similar, so it must not be left out if one of the members has it.
    coupled = any(member.settings["collocation_weight"] != 0 for member in members)
    together = replace(settings, collocation_weight="auto" if coupled else 0.0)
    problem = exact_problem(together, points, data_kind(metric), y, labelled, weights)
    new = check_new(metric, X_test)
    matrices = 3 + problem.similarity.held_arrays
    require_memory(
        8.0 * matrices * n * n,
        f"a search on {n} samples ({matrices} arrays of {n} x {n})",
        "landmarks (n_landmarks=1000), or search on fewer rows.",
    )
    (scalar,) = problem.kernel.scalars
    roots = problem.roots

    def grams(scalar: ScalarKernel) -> tuple[Array, Array]:
        gram, cross = scalar.gram(problem.points), scalar.cross(new, problem.points)
        return (gram, cross) if roots is None else (weighted_matrix(gram, roots), cross * roots)

    shared = grams(scalar)

    def decompose(own: Settings, ratio: float) -> Decomposition:
        return Decomposition(*shared, problem.similarity, ratio, roots)

    def targets(own: Settings) -> Array:
        values = (own.class_targets(y) if labelled else real_targets(y, own.components(n), weights)).values
        return values if roots is None else roots[:, None] * values

    def following(own: Settings, maps: Maps, kernel: MatrixKernel | None) -> tuple[MatrixKernel, Decomposition] | None:
        assert settings.input_metric is not None
        assert maps.coefficients is not None
        (scalar,) = (kernel or problem.kernel).scalars
        jacobians = Jacobians([(scalar, maps.coefficients[0])], problem.points)
        transform = transform_of(pull_back([(problem.points, weights)], jacobians, settings.input_metric))
        if transform.trouble is not None:
            return None
        kernel = kernel_of_round(own, transform, problem.points, y)
        (scalar,) = kernel.scalars
        ratio = own.gamma(problem.similarity.mean_degree) / own.regression_weight
        return kernel, Decomposition(*grams(scalar), problem.similarity, ratio, roots)

    yield from _batches(settings, members, problem.similarity.mean_degree, decompose, targets, following)


@dataclass(frozen=True, eq=False)
class LandmarkFold:
    """The rows of a fold of a search with landmarks.

    Attributes
    ----------
    points, labels : the rows of all folds, and the number of each one's class
    classes : array
    train : array
        Which rows are learned from.
    voters, asked : arrays
        Which rows' maps are wanted, of those learned from and of others.
    weights : array or None
        Of the rows of all folds.
    """

    points: Any
    labels: Array
    classes: Array
    train: Array
    voters: Array
    asked: Array
    weights: Array | None = None

    def _blocks(self) -> Iterator[tuple[Any, Array, None, Array | None]]:
        """The training rows, their classes and weights."""
        for part in gen_batches(len(self.train), BLOCK_ROWS):
            rows = self.train[part]
            yield self.points[rows], self.labels[rows], None, None if self.weights is None else self.weights[rows]

    def _train_weights(self) -> Array:
        """Of the rows of all folds, 0 for those that are not learned from."""
        found = np.zeros(len(self.labels))
        found[self.train] = 1.0 if self.weights is None else self.weights[self.train]
        return found

    def pull_back(self, jacobians: Jacobians, kind: str) -> PullBack:
        """The learned metric pulled back, over the training rows."""
        if isinstance(self.points, ChunkedPoints):
            return self.points.pull_back(jacobians, kind, self._train_weights())
        return pull_back(((X, weights) for X, _, _, weights in self._blocks()), jacobians, kind)

    def moments(self, landmarks: LandmarkMap) -> Array:
        """Of the classes of the training rows, as far as they are there."""
        if isinstance(self.points, ChunkedPoints):
            cells = self.points.cells(landmarks.features, self.labels, self._train_weights())
        else:
            cells = gather(landmarks.features, self._blocks())
        return np.stack([cells[label] for label in sorted(cells)])

    def space(self, landmarks: LandmarkMap, summary: ClassSummary) -> _FeatureSpace:
        """From what is known of the training rows."""
        (part,) = landmarks.features.parts
        return _FeatureSpace(landmarks, summary, part.values(self.points[self.voters]), part.values(self.points[self.asked]))


@dataclass(frozen=True, eq=False)
class _FeatureSpace:
    """A fold in the space of its landmarks' features.

    ``train`` and ``new`` are kernel values at the landmarks; ``graph`` is Phi'Delta Phi of a neighbour graph, if there is one.
    """

    landmarks: LandmarkMap
    summary: ClassSummary
    train: Array
    new: Array
    graph: Array | None = None

    def decompose(self, own: Settings, ratio: float) -> Decomposition:
        summary = self.summary if self.graph is None else replace(self.summary, graph=own.graph_weight * self.graph)
        (part,) = self.landmarks.features.parts
        return FeatureDecomposition(summary, part.whitening, self.train, self.new, ratio)

    def jacobians(self, parameters: Array) -> Jacobians:
        """Of the coordinates phi(x)'parameters."""
        (scalar,), (part,) = self.landmarks.kernel.scalars, self.landmarks.features.parts
        return Jacobians([(scalar, part.coefficients(parameters))], self.landmarks.points)


def landmark_maps(
    settings: Settings, members: tuple[Alike, ...], fold: LandmarkFold, landmarks: LandmarkMap, sums: ClassSums
) -> Batches:
    """The maps of all members with landmarks, from the sums over the training rows."""
    present = sums.present
    if sums.class_weights is not None:
        own = sums.class_weights[fold.labels]
        fold = replace(fold, weights=own if fold.weights is None else own * fold.weights)
    first = fold.space(landmarks, sums.summary)

    def targets(own: Settings) -> Array:
        prototypes = own.class_targets(fold.classes[present], len(fold.train)).prototypes
        assert prototypes is not None
        return prototypes

    def following(own: Settings, maps: Maps, space: _FeatureSpace | None) -> tuple[_FeatureSpace, Decomposition] | None:
        assert settings.input_metric is not None
        assert maps.coefficients is not None
        jacobians = (space or first).jacobians(maps.coefficients[0])
        transform = transform_of(fold.pull_back(jacobians, settings.input_metric))
        if transform.trouble is not None:
            return None
        changed = landmarks.with_kernel(kernel_of_round(own, transform, landmarks.sample))
        space = fold.space(changed, ClassSummary.make(fold.moments(changed), changed.features))
        return space, space.decompose(own, own.gamma(space.summary.mean_degree) / own.regression_weight)

    yield from _batches(settings, members, first.summary.mean_degree, first.decompose, targets, following)


def _prepared(estimator: Any, X_rows: Any, y_train: Array, X_test: Any, params: Mapping[str, Any]) -> tuple[Array | None, Any, Any]:
    """The weights of the training rows, and the data after the steps before the metric, which see all rows."""
    weights, params = weights_among(estimator, params)
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        before, y = Pipeline(estimator.steps[:-1]), y_train if n_points(X_rows) == len(y_train) else None
        X_rows, X_test = before.fit_transform(X_rows, y, **params), before.transform(X_test)
    own = None if weights is None else np.asarray(weights)[: len(y_train)]
    return check_sample_weight(own, len(y_train)), X_rows, X_test


def graph_maps(
    estimator: Any,
    settings: Settings,
    members: tuple[Alike, ...],
    X_rows: Any,
    y_train: Array,
    X_test: Any,
    params: Mapping[str, Any],
) -> Batches:
    """The maps of all members, by fits on rows of which the first have the labels ``y_train``, and the others none."""
    missing = np.arange(n_points(X_rows)) >= len(y_train)
    weights, X_rows, X_test = _prepared(estimator, X_rows, y_train, X_test, params)
    metric = metric_of(estimator)
    points = check_training(metric, X_rows, settings.kernel.takes)
    y, labelled = check_supervision(metric, y_train, len(y_train))
    classes, labels = np.unique(y, return_inverse=True)
    weights = settings.row_weights(weights, y, labelled)
    data = PartlyLabelled(points, data_kind(metric), missing, y, labelled, weights)
    new, found = check_new(metric, X_test), data.landmarks(metric, settings)
    graph = data.graph(settings, found)
    rows = np.arange(len(y))

    def space_of(landmarks: LandmarkMap) -> _FeatureSpace:
        summary = class_summary(landmarks.features, points[rows], labels, len(classes), weights)
        laplacian = similarity_laplacian(landmarks.features, points, graph.matrix)
        (part,) = landmarks.features.parts
        return _FeatureSpace(landmarks, summary, part.values(points[rows]), part.values(new), laplacian)

    def targets(own: Settings) -> Array:
        prototypes = own.class_targets(classes, len(y)).prototypes
        assert prototypes is not None
        return prototypes

    def following(own: Settings, maps: Maps, space: _FeatureSpace | None) -> tuple[_FeatureSpace, Decomposition] | None:
        assert settings.input_metric is not None
        assert maps.coefficients is not None
        jacobians = (space or first).jacobians(maps.coefficients[0])
        transform = transform_of(pull_back([(points[rows], weights)], jacobians, settings.input_metric))
        if transform.trouble is not None:
            return None
        space = space_of(found.with_kernel(kernel_of_round(own, transform, found.sample)))
        return space, space.decompose(own, own.gamma(space.summary.mean_degree) / own.regression_weight)

    first = space_of(found)
    yield from _batches(settings, members, first.summary.mean_degree, first.decompose, targets, following)


def _batches(
    settings: Settings,
    members: tuple[Alike, ...],
    degree: float,
    decompose: Callable[[Settings, float], Decomposition],
    targets_of: Callable[[Settings], Array],
    following: Callable[[Settings, Maps, Any], tuple[Any, Decomposition] | None],
) -> Batches:
    """The maps of all members.

    ``decompose`` gives what those with one ratio of weights and one weight of the graph share; ``following``, from the settings of
    a member, its maps and what it returned for the round before (None at first), something to pass on and the decomposition of the
    next round of an input metric, or None if the metric has degenerated.
    """
    alike: dict[Any, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, member in enumerate(members):
        alike[member.ratio][member.targets].append(position)
    for by_targets in alike.values():
        first = settings.with_weights(members[next(iter(by_targets.values()))[0]].settings)
        shared = cache(partial(decompose, first, first.gamma(degree) / first.regression_weight))
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

    ``shared`` gives the decomposition without input metric; ``following`` as for `_batches`.
    """

    def __init__(self, settings: Settings, given: Any, shared: Any, targets: Any, following: Any) -> None:
        self.own, self.following = settings.with_weights(given), following
        self.solve = partial(_maps, settings, class_targets=targets, given=[given], coefficients=True)
        self.shared = shared
        self.passed_on: Any = None
        self.found: list[Maps] = []

    def maps(self, rounds: int) -> Maps:
        """After this many rounds."""
        if not self.found:
            self.found.append(self.solve(self.shared))
        while len(self.found) <= rounds:
            step = self.following(self.own, self.found[-1], self.passed_on)
            if step is None:
                self.found.append(self.found[-1])
                continue
            self.passed_on, self.shared = step[0], partial(_constant, step[1])
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
