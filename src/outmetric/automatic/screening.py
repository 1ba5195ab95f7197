"""Which maps suit the data: kernels, bandwidths and regression weights, scored out of fold; then learned input metrics and forests.

What costs most is shared: rows are scaled and distances computed once, features once for each kernel and bandwidth; regression
weights and folds are small systems on top. Whatever learns from targets (input metrics, feature weights, forests) does so anew in
each training part.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from outmetric.automatic.goals import RealGoal
from outmetric.automatic.inputs import SCALINGS, Inputs
from outmetric.automatic.ridge import Features, Folds, OutOfFold, out_of_fold, solve, training_sums
from outmetric.automatic.selection import Race, Task, Tried
from outmetric.automatic.settings import MapSetting, Prepared, forest_of, transformed
from outmetric.columns import weights_of
from outmetric.estimators import transform_of
from outmetric.foundation import Array
from outmetric.kernels import KERNELS as KINDS
from outmetric.kernels import Forest, ScalarKernel, Trees
from outmetric.rows import Jacobians, NeighbourGraph, pull_back

KERNELS = ("exponential", "laplacian", "rbf", "additive")
# The additive kernel takes time proportional to the number of features.
ADDITIVE_FEATURES = 30
BANDWIDTHS = (0.5, 1.0, 3.0)
REGRESSION_WEIGHTS = (1.0, 10.0, 100.0)
FORESTS = ("random", "extra")
# The one whose importances are feature weights.
WEIGHING = "random"
# Trees in each fold, and in the end.
FOLD_TREES, TREES = 40, 200
# Of the importances that are feature weights.
POWER = 1.0
ROUNDS = 3
# How many ways to prepare the data get an input metric, and how many get feature weights.
TRACKS, WEIGHED = 6, 4
# Rows at which the learned metric is pulled back.
GRADIENT_ROWS = 256
# Maps that are read by neighbours as well, and by how many of these.
READ_BY_NEIGHBOURS, NEIGHBOURS = 4, np.array([1, 3, 5, 9, 15, 25])
# What neighbours are asked in, beside the map itself: one whose regression weight is smaller by this factor.
WEAKER = 10.0
# With fewer rows than this, what has most freedom would be chosen by luck: metrics of any direction, and neighbours.
FEW_SAMPLES = 250
# Maps that are tried with the neighbour graph of rows without labels, its weights, neighbours of each row, rows at most, and
# landmarks among all of them.
BY_GRAPH, GRAPH_WEIGHTS, GRAPH_NEIGHBOURS, GRAPH_ROWS, GRAPH_LANDMARKS = 3, (0.1, 1.0), 7, 2000, 300
# Kernels that are compared again with more landmarks, the best ones, and with how many.
REFINED, FINE_LANDMARKS = 6, 600


@dataclass(eq=False)
class Screening(Race):
    """Scores maps, best first in `ranked`.

    Parameters
    ----------
    inputs : Inputs
    folds : (train, test) row numbers
    seed : int
        For forests.
    unlabelled : array of shape (n', d), optional
        Rows without labels or targets, encoded.
    """

    inputs: Inputs
    folds: Folds
    seed: int
    unlabelled: Array | None = None
    forests: dict[str, list[Trees]] = field(default_factory=dict)
    importances: list[Array] = field(default_factory=list)

    def run(self) -> None:
        """All stages, as far as there is time."""
        width = self.inputs.numbers.shape[1]
        kernels = [kernel for kernel in KERNELS if kernel != "additive" or width <= ADDITIVE_FEATURES]
        plain: list[Task] = [(f"{kernel}, {scaling}", self._plain, (scaling, kernel)) for kernel in kernels for scaling in SCALINGS]
        forests: list[Task] = [(f"{kind} forest", self._forest, (kind,)) for kind in FORESTS]
        # Forests grow one at a time, mostly in Python, beside what is mostly in BLAS; but where time is short kernels come first.
        beside = [] if self.budget.limited else forests[1:]
        self.stage(plain + forests if self.budget.limited else forests[:1] + plain, "kernels")
        if not self.best:
            raise ValueError(self.failures[0] if self.failures else "no kernel could be scored")
        leading = self._leading()
        weighed: list[Task] = [
            (f"feature weights, {tried.setting.kernel}, {tried.setting.scaling}", self._weighed, (tried,))
            for tried in leading[: WEIGHED if self.importances else 0]
        ]
        self.stage(beside + weighed, "feature weights")
        metrics = [(tried, kind) for tried in self._starts(leading) for kind in _metrics_of(tried.setting.kernel)]
        metrics = [(tried, kind) for tried, kind in metrics if kind == "diagonal" or not self._few]
        learned: list[Task] = [
            (f"input metric, {tried.setting.kernel}, {tried.setting.scaling}", self._track, (tried, kind))
            for tried, kind in metrics[:TRACKS]
        ]
        self.stage(learned, "learned input metrics")
        if len(self.fine.landmarks) > len(self.inputs.landmarks):
            leaders = {tried.setting.family[:2]: tried for tried in reversed(self.ranked)}  # of each scaling and kernel
            most = sorted(leaders.values(), key=lambda tried: tried.loss)[:REFINED]
            again: list[Task] = [(f"again, {tried.setting.kernel}", self._again, (tried,)) for tried in most]
            self.stage(again, "kernels with more landmarks")
        mapped = [tried for tried in self.ranked if tried.setting.scaling is not None and not self._few]
        named: list[Task] = [
            (f"neighbours, {tried.setting.kernel}", self._by_neighbours, (tried,)) for tried in mapped[:READ_BY_NEIGHBOURS]
        ]
        self.stage(named, "votes of neighbours")
        if self.unlabelled is not None:
            mapped = [tried for tried in self.ranked if tried.setting.scaling is not None and tried.reading.n_neighbors is None]
            graphs: list[Task] = [
                (f"rows without labels, {tried.setting.kernel}", self._by_graph, (tried,)) for tried in mapped[:BY_GRAPH]
            ]
            self.stage(graphs, "maps with rows without labels")

    def _leading(self) -> list[Tried]:
        """Kernels that may still win, best first.

        With an input metric a kernel may gain much, so that it races with its like only, not with forests; and with few landmarks
        the additive kernel leads those of distances, which need more.
        """
        leading = []
        for additive in (True, False):
            alike = [
                one for one in self.ranked if one.setting.scaling is not None and (one.setting.kernel == "additive") == additive
            ]
            leading += [tried for tried in alike if self.may_win(tried, alike[0])]
        return sorted(leading, key=lambda tried: tried.loss)

    def _starts(self, plain: Sequence[Tried]) -> list[Tried]:
        """What input metrics are learned from: of each scaling and kernel, with feature weights if these help beyond doubt."""
        known = {tried.setting.family[:2]: tried for tried in plain}
        starts: dict[Any, Tried] = {}
        for tried in self._leading():
            own = known.get(tried.setting.family[:2], tried)
            starts.setdefault(tried.setting.family[:2], own if self.may_win(own, tried) else tried)
        return list(starts.values())

    @property
    def _few(self) -> bool:
        """Whether rows are few."""
        return self.goal.n_rows < FEW_SAMPLES

    def _read(self, setting: MapSetting, outputs: Array, transforms: tuple[Array, ...] | None = None) -> Iterator[Tried]:
        """The maps of all regression weights, read by themselves."""
        for weight, own in zip(REGRESSION_WEIGHTS, outputs, strict=True):
            yield Tried(setting.with_weight(weight), self.goal.read_map(own), transforms)

    def _out_of_fold(self, features: Sequence[Features], weights: Sequence[float] | None = None) -> OutOfFold:
        return out_of_fold(features, self.goal.targets, self.folds, weights or REGRESSION_WEIGHTS, self.goal.weights)

    def _plain(self, scaling: str, kernel: str) -> Iterator[Tried]:
        prepared = Prepared.of(self.inputs, scaling, kernel)
        for bandwidth in BANDWIDTHS:
            features = prepared.features(prepared.kernel(bandwidth))
            found = self._out_of_fold([features])
            yield from self._read(MapSetting(scaling, kernel, bandwidth), found.outputs)

    def _forest(self, kind: str) -> Iterator[Tried]:
        numbers, landmarks = self.inputs.numbers, self.inputs.landmarks
        declared = self._declared(kind)
        forest, importances = [], []
        for fold, (train, _) in enumerate(self.folds):
            rng = np.random.default_rng([self.seed, FORESTS.index(kind), fold])
            learned = declared.learned(numbers[train], rng, self.goal.learned[train], self.goal.weights_of(train))
            forest.append(declared.copied(learned, numbers))
            importances.append(learned.feature_importances_)
        if kind == WEIGHING:
            self.importances = importances
        name = f"{kind} forest"
        self.forests[name] = forest
        found = self._out_of_fold([Features.of(trees.columns(numbers)(landmarks), landmarks) for trees in forest])
        yield from self._read(MapSetting(None, name), found.outputs)

    @cached_property
    def fine(self) -> Inputs:
        """The same rows with more landmarks, for the few that lead: kernels differ in how many they need."""
        n, count = len(self.inputs.numbers), FINE_LANDMARKS
        if n <= len(self.inputs.landmarks):
            return self.inputs
        landmarks = np.arange(n) if n <= count else np.sort(np.random.default_rng(self.seed).choice(n, count, replace=False))
        return Inputs(self.inputs.numbers, self.inputs.scalers, landmarks)

    def _again(self, tried: Tried) -> Iterator[Tried]:
        """The same with more landmarks."""
        setting, landmarks = tried.setting, self.fine.landmarks
        if setting.scaling is None:
            numbers = self.inputs.numbers
            features = [Features.of(trees.columns(numbers)(landmarks), landmarks) for trees in self.forests[setting.kernel]]
        else:
            prepared = [Prepared.of(self.fine, setting.scaling, setting.kernel, one) for one in tried.transforms or (None,)]
            features = [one.features(one.kernel(setting.bandwidth)) for one in prepared]
        for one in self._read(setting, self._out_of_fold(features).outputs, tried.transforms):
            yield replace(one, fine=True)

    def _declared(self, kind: str) -> Forest:
        return forest_of(kind, FOLD_TREES, real=isinstance(self.goal, RealGoal))

    def _weighed(self, start: Tried) -> Iterator[Tried]:
        """With the importances of the folds' forests as feature weights, which find what matters together only."""
        transforms = tuple(weights_of(own, POWER) for own in self.importances)
        for tried, _ in self._nested(replace(start.setting, power=POWER), transforms):
            yield tried

    def _track(self, start: Tried, kind: str) -> Iterator[Tried]:
        """Round after round, from the best bandwidth and weight of the one before, while the last may still win."""
        current = start
        maps = self._maps_of(start)
        for number in range(1, ROUNDS + 1):
            transforms = tuple(
                self._pulled_back(start.setting.scaling or "", one, train, kind)
                for one, (train, _) in zip(maps, self.folds, strict=True)
            )
            if any(transform is None for transform in transforms):
                return
            setting = replace(current.setting, input_metric=kind, n_rounds=number, parent=current.setting)
            # With the first metric distances change most.
            bandwidths = BANDWIDTHS if number == 1 else (current.setting.bandwidth,)
            round_of = list(self._nested(setting, transforms, bandwidths))
            yield from (tried for tried, _ in round_of)
            best, maps = min(round_of, key=lambda pair: pair[0].loss)
            if not self.may_win(best, current):
                return
            current = best

    def _nested(
        self, setting: MapSetting, transforms: tuple[Any, ...], bandwidths: Sequence[float] = BANDWIDTHS
    ) -> Iterator[tuple[Tried, list[_FoldMap]]]:
        """All bandwidths and regression weights with inputs that are transformed in each fold; and the maps of the folds."""
        prepared = [Prepared.of(self.inputs, setting.scaling or "", setting.kernel, one) for one in transforms]
        for bandwidth in bandwidths:
            kernels = [one.kernel(bandwidth) for one in prepared]
            features = [one.features(kernel) for one, kernel in zip(prepared, kernels, strict=True)]
            found = self._out_of_fold(features)
            named = replace(setting, bandwidth=bandwidth)
            for place, tried in enumerate(self._read(named, found.outputs, transforms)):
                yield (
                    tried,
                    [
                        _FoldMap(transformed(kernel, transform), coefficients[place])
                        for kernel, transform, coefficients in zip(kernels, transforms, found.coefficients, strict=True)
                    ],
                )

    def _maps_of(self, tried: Tried) -> list[_FoldMap]:
        """The maps of the folds."""
        setting, transforms = tried.setting, tried.transforms or (None,)
        prepared = [Prepared.of(self.inputs, setting.scaling or "", setting.kernel, one) for one in transforms]
        kernels = [one.kernel(setting.bandwidth) for one in prepared]
        features = [one.features(kernel) for one, kernel in zip(prepared, kernels, strict=True)]
        found = self._out_of_fold(features, [setting.regression_weight])
        own = [transformed(kernel, transform) for kernel, transform in zip(kernels, transforms, strict=True)]
        # Without transforms the folds share a kernel.
        return [_FoldMap(kernel, one[0]) for kernel, one in zip(itertools.cycle(own), found.coefficients, strict=False)]

    def _pulled_back(self, scaling: str, one: _FoldMap, train: Array, kind: str) -> Array | None:
        """The transform of the inputs that a map's metric gives; None if it has degenerated."""
        rows = self.inputs.scaled(scaling)
        some = train[:: max(1, len(train) // GRADIENT_ROWS)]
        jacobians = Jacobians([(one.kernel, one.coefficients)], rows[self.inputs.landmarks])
        found = transform_of(pull_back([(rows[some], self.goal.weights_of(some))], jacobians, kind))
        return found.values if found.trouble is None else None

    def transform(self, setting: MapSetting) -> Array | None:
        """That of the inputs, learned from all rows."""
        if setting.parent is None:
            return weights_of(self._all_importances, setting.power) if setting.power else None
        before = self.transform(setting.parent)
        prepared = Prepared.of(self.inputs, setting.scaling or "", setting.kernel, before)
        kernel = prepared.kernel(setting.parent.bandwidth)
        features = prepared.features(kernel)
        sums = training_sums(features.values, self.goal.targets, self.goal.weights)
        one = _FoldMap(transformed(kernel, before), solve(*sums, features.gram, setting.parent.regression_weight))
        found = self._pulled_back(setting.scaling or "", one, np.arange(len(prepared.rows)), setting.input_metric or "")
        return before if found is None else found

    @cached_property
    def _all_importances(self) -> Array:
        """Those of a forest of all rows."""
        forest = self._declared(WEIGHING)
        rng = np.random.default_rng([self.seed, len(self.folds)])
        learned = forest.learned(self.inputs.numbers, rng, self.goal.learned, self.goal.weights)
        return np.asarray(learned.feature_importances_)

    def _by_neighbours(self, tried: Tried) -> Iterator[Tried]:
        """The same map, and one that fits its training rows less, read by neighbours."""
        setting = tried.setting
        weights = (setting.regression_weight, setting.regression_weight / WEAKER)
        counts = NEIGHBOURS[min(len(train) for train, _ in self.folds) >= NEIGHBOURS]
        of_folds = self._fold_outputs(setting, weights, tried.transforms)
        for weight, parts in zip(weights, zip(*of_folds, strict=True), strict=True):
            for reading in self.goal.read_neighbours(parts, counts):
                yield Tried(setting.with_weight(weight), reading, tried.transforms)

    @cached_property
    def all_inputs(self) -> Inputs:
        """All rows, those without labels last, scaled alike; landmarks are among all of them."""
        assert self.unlabelled is not None
        rng = np.random.default_rng(self.seed)
        n = len(self.unlabelled)
        some = self.unlabelled if n <= GRAPH_ROWS else self.unlabelled[np.sort(rng.choice(n, GRAPH_ROWS, replace=False))]
        numbers = np.concatenate([self.inputs.numbers, some])
        count = min(len(numbers), GRAPH_LANDMARKS)
        return Inputs(numbers, self.inputs.scalers, np.sort(rng.choice(len(numbers), count, replace=False)))

    def _by_graph(self, start: Tried) -> Iterator[Tried]:
        """The same map with the neighbour graph of all rows; those that are predicted are not in it."""
        setting, n = start.setting, self.goal.n_rows
        rows = self.all_inputs.scaled(setting.scaling or "")
        graph = NeighbourGraph.of(rows, GRAPH_NEIGHBOURS, "arrays")
        outputs = np.zeros((len(GRAPH_WEIGHTS), len(REGRESSION_WEIGHTS), *self.goal.targets.shape))
        for fold, (train, test) in enumerate(self.folds):
            if fold == 0 or start.transforms is not None:
                transform = None if start.transforms is None else start.transforms[fold]
                own = Prepared.of(self.all_inputs, setting.scaling or "", setting.kernel, transform)
                features = own.features(own.kernel(setting.bandwidth))
            present = np.concatenate([train, np.arange(n, len(rows))])
            near = graph.among(present).laplacian(features.values[present])
            goal = self.goal.of(train)
            squares, cross = training_sums(features.values[train], goal.targets, goal.weights)
            for place, graph_weight in enumerate(GRAPH_WEIGHTS):
                found = [solve(squares + graph_weight * near, cross, features.gram, weight) for weight in REGRESSION_WEIGHTS]
                outputs[place][:, test] = features.values[test] @ np.stack(found)
        for graph_weight, found in zip(GRAPH_WEIGHTS, outputs, strict=True):
            yield from self._read(replace(setting, graph_weight=graph_weight), found, start.transforms)

    def _fold_outputs(
        self, setting: MapSetting, weights: Sequence[float], transforms: tuple[Array, ...] | None
    ) -> Iterator[list[tuple[Array, Array, Array, Array]]]:
        """Of each fold (train, outputs, test, outputs) for each regression weight."""
        for fold, (train, test) in enumerate(self.folds):
            if fold == 0 or transforms is not None:
                transform = None if transforms is None else transforms[fold]
                prepared = Prepared.of(self.fine, setting.scaling or "", setting.kernel, transform)
                features = prepared.features(prepared.kernel(setting.bandwidth))
            goal = self.goal.of(train)
            known, new = features.values[train], features.values[test]
            sums = training_sums(known, goal.targets, goal.weights)
            found = [solve(*sums, features.gram, weight) for weight in weights]
            yield [(train, known @ coefficients, test, new @ coefficients) for coefficients in found]


@dataclass(frozen=True, eq=False)
class _FoldMap:
    """A map that was fitted without a fold: its kernel, and coefficients at the landmarks."""

    kernel: ScalarKernel
    coefficients: Array


def _metrics_of(kernel: str) -> tuple[str, ...]:
    """The input metrics that a kernel's gradients give, the most flexible first."""
    return tuple(reversed(KINDS[kernel].make("median", {}).input_metrics))
