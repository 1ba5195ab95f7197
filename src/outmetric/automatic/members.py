"""The maps that predict together: chosen candidates, fitted on all rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed  # not those of scikit-learn, which change the filters of warnings that threads share
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from outmetric.automatic.goals import ClassGoal, Goal, softmax
from outmetric.automatic.inputs import RowsInChunks, scaler_of
from outmetric.automatic.screening import FOLD_TREES, GRAPH_NEIGHBOURS, TREES, WEIGHING, Screening
from outmetric.automatic.selection import Tried
from outmetric.automatic.settings import MapSetting, Prepared, forest_of
from outmetric.choosing import Novelty, counted_votes, neighbours_to_onnx, smoothed_votes
from outmetric.columns import FeatureWeights
from outmetric.estimators import LearnedKernelMetric
from outmetric.foundation import (
    Array,
    Budget,
    check_number,
    check_same_features,
    is_fitted,
    now,
    sample_of,
    storable,
    usual_questions,
)
from outmetric.kernels import Forest, Scalar, Transformed

# What maps are made of when time is short: one map of many landmarks is better than several of few. And the powers of the number of
# landmarks, or of rows without, with which their cost grows, rather too large than too small.
FEWER_LANDMARKS, LANDMARKS_COST, EXACT_COST = (1000, 500, 250, 100), 1.5, 2.0
# More rows than these are solved by conjugate gradients, to a gap that no prediction shows: without collocation steps are few.
REDUCED, PREDICTED = 2000, 1e-4
# Trees of forests by which novelty is judged, a rank among rows.
FEW_TREES = 20


@storable("Candidate", holds_models=True)
@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to map and to predict that was scored out of fold.

    Attributes
    ----------
    pipeline : Pipeline or None
        The map, not fitted; None in the list of all that were tried.
    params : dict
        Of the pipeline, where they differ from it.
    n_neighbors : int or None
        How many vote; None if predictions are read off the map itself.
    score : float
        Minus the loss.
    description : dict
        The same for people.
    scores : dict
        Other scores by their names.
    """

    pipeline: Any
    params: dict[str, Any]
    n_neighbors: int | None
    score: float
    description: dict[str, Any]
    scores: dict[str, float] = field(default_factory=dict)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({"scores": {}, **state})  # pickles of version 0.1 lack them

    def unfitted(self) -> Any:
        """The pipeline with its parameters."""
        return clone(self.pipeline).set_params(**self.params)


_UNNAMED = Candidate(None, {}, None, 0.0, {})


@storable("Member", holds_models=True)
@dataclass(frozen=True, eq=False)
class Member:
    """A candidate fitted on all training data.

    Attributes
    ----------
    candidate : Candidate
    pipeline : fitted Pipeline
        Members that differ in how they are read may share it.
    voters : KNeighborsClassifier, KNeighborsRegressor or None
        Training rows in the map, if neighbours are asked.
    temperature : float or None
        Of classes that are read off the distances to their prototypes.
    weight : float
        Its share of the committee's prediction.
    slope : float
        Of real targets that are read off the map: by how much it is stretched about its mean.
    """

    candidate: Candidate
    pipeline: Any
    voters: Any = None
    temperature: float | None = None
    weight: float = 1.0
    slope: float = 1.0

    def predictions(self, coordinates: Array) -> Array:
        """Probabilities (n, classes), or real targets (n, q), of rows by their coordinates in the map."""
        if isinstance(self.voters, KNeighborsRegressor):
            return np.asarray(self.voters.predict(coordinates)).reshape(len(coordinates), -1)
        if self.voters is not None:
            return smoothed_votes(counted_votes(self.voters, coordinates), self.voters.n_neighbors)
        metric = self.pipeline[-1]
        if self.temperature is None:
            centre = metric.metric_.offset
            return np.asarray((centre + self.slope * (coordinates - centre)) * metric.target_scales_)
        # No class is denied by more than as many rows could tell.
        rows = metric.n_samples_fit_
        return smoothed_votes(rows * softmax(2 * self.temperature * coordinates @ metric.prototypes_.T), rows)

    def to_onnx(self, graph: Any, coordinates: str) -> str:
        """Its share of the prediction, as nodes of a graph; of points at the same distance the first vote."""
        if self.voters is not None:
            found = neighbours_to_onnx(graph, self.voters, coordinates)
        elif self.temperature is None:
            metric = self.pipeline[-1]
            found = graph("Mul", coordinates, self.slope * metric.target_scales_)
            found = graph("Add", found, (1 - self.slope) * metric.metric_.offset * metric.target_scales_)
        else:
            metric = self.pipeline[-1]
            rows, classes = metric.n_samples_fit_, len(metric.prototypes_)
            shares = graph("Softmax", graph("MatMul", coordinates, 2 * self.temperature * metric.prototypes_.T), axis=1)
            found = graph("Div", graph("Add", graph("Mul", shares, float(rows)), 0.5), rows + classes / 2)
        return str(graph("Mul", found, float(self.weight)))


def check_committee(found: Any) -> None:
    """Raise ValueError if the parts of a model from a file do not fit together."""
    for member in found.committee_:
        if not isinstance(member, Member):
            raise ValueError(f"a committee has a member that is a {type(member).__name__}")
        check_number("weight", member.weight, positive=True)
        check_number("temperature", member.temperature if member.temperature is not None else 1.0, positive=True)
        check_number("slope", member.slope)
    for pipeline in [found.best_estimator_, *(member.pipeline for member in found.committee_)]:
        if not isinstance(pipeline, Pipeline) or not is_fitted(pipeline):
            raise ValueError(f"a committee has a map that is a {type(pipeline).__name__}, or not fitted")
        check_same_features(found, pipeline)
    outputs = found.best_estimator_[-1]._n_features_out
    if getattr(found, "_n_features_out", outputs) != outputs:
        raise ValueError("a committee claims other outputs than its best map has")
    if not isinstance(getattr(found, "novelty_", None), Novelty | None):
        raise ValueError(f"a committee judges novelty by a {type(found.novelty_).__name__}")
    if not isinstance(getattr(found, "neighbours_", None), KNeighborsClassifier | KNeighborsRegressor | None):
        raise ValueError(f"a committee has neighbours that are a {type(found.neighbours_).__name__}")


def sample_of_committee(found: Any, size: int) -> Any:
    """A row that the maps take."""
    return sample_of(found.best_estimator_, size) if hasattr(found, "best_estimator_") else None


def questions_to_committee(found: Any) -> list[Callable[[Any], Any]]:
    """What is asked about a row to see whether a model from a file can be used."""
    return [*usual_questions(found), *([found.novelty] if getattr(found, "novelty_", None) is not None else [])]


def readers_of_maps(model: Any) -> list[tuple[Any, Member]]:
    """The maps that predict together, each with what reads it, for ONNX."""
    check_is_fitted(model)
    total = _total_weight(model.committee_)
    return [(member.pipeline, replace(member, weight=member.weight / total)) for member in model.committee_]


def share_to_onnx(graph: Any, member: Member, coordinates: str) -> str:
    """What a member adds to the prediction."""
    return member.to_onnx(graph, coordinates)


def committee_predictions(members: Sequence[Member], X: Any) -> Array:
    """The weighted mean of what the members say; maps that several share are computed once."""
    shares: list[Array] = []
    coordinates: dict[int, Array] = {}
    for member in members:
        key = id(member.pipeline)
        if key not in coordinates:
            coordinates[key] = np.asarray(member.pipeline.transform(X))
        shares.append(member.weight * member.predictions(coordinates[key]))
    return np.asarray(sum(shares) / _total_weight(members))


def _total_weight(members: Sequence[Member]) -> float:
    """1 but for round-off, and for models of version 0.1, whose members all weigh 1."""
    return sum(member.weight for member in members)


def to_learn_anew(pipeline: Any, description: Mapping[str, Any], *, real: bool) -> Any:
    """A fitted map as it is to be learned anew: what of it was learned from targets is learned with it."""
    found = clone(pipeline)
    kernel = description.get("kernel", "")
    *before, (name, metric) = found.steps
    if kernel.endswith(" forest"):
        metric.set_params(kernel=forest_of(kernel.removesuffix(" forest"), FOLD_TREES, real=real))
    elif isinstance(metric.kernel, Transformed):
        metric.set_params(kernel=kernel, bandwidth=description["bandwidth"])
        if "power" in description:
            forest = forest_of(WEIGHING, FOLD_TREES, real=real)
            before.append(("weigh", FeatureWeights(description["power"], forest, random_state=0)))
        if "input_metric" in description:
            metric.set_params(input_metric=description["input_metric"], n_rounds=description["n_rounds"])
    return Pipeline([*before, (name, metric)])


@dataclass(frozen=True, eq=False)
class Chosen:
    """A candidate that has a say, and how much."""

    tried: Tried
    weight: float


@dataclass(eq=False)
class MemberFits:
    """Fits what was chosen on all rows.

    Parameters
    ----------
    screening : Screening
        That has tried it.
    encoder : fitted transformer or None
    numbers : array of shape (n, d)
        All rows, encoded, or those that were fetched.
    goal : Goal
        Of these.
    seed : int
    n_jobs : int or None
    unlabelled : array of shape (n', d) or None
        Rows without labels, encoded.
    chunks : RowsInChunks or None
        All rows, if they are not in memory.
    """

    screening: Screening
    encoder: Any
    numbers: Array
    goal: Goal
    seed: int
    n_jobs: int | None = None
    unlabelled: Array | None = None
    chunks: RowsInChunks | None = None

    def __post_init__(self) -> None:
        self.scalers: dict[str, Any] = {}
        self.scaled: dict[str, Array] = {}
        self.kernels: dict[MapSetting, dict[str, Any]] = {}
        self.fitted: dict[MapSetting, Pipeline] = {}
        self.failed: dict[MapSetting, ValueError] = {}
        self.forests: dict[str, Any] = {}

    def fit_maps(self, settings: Iterable[MapSetting], n_landmarks: int | None) -> None:
        """Fit all maps at once, in parallel."""
        distinct = [setting for setting in dict.fromkeys(settings) if setting not in self.fitted]
        for setting in distinct:  # what they share comes first, and forests use all cores themselves
            self._kernel(setting)
            self._scaled(setting)
        Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(self._try)(setting, n_landmarks) for setting in distinct)

    def _try(self, setting: MapSetting, n_landmarks: int | None) -> None:
        try:
            self.fitted[setting] = self._fit(setting, n_landmarks)
        except ValueError as error:
            self.failed[setting] = error

    def member(self, chosen: Chosen, n_landmarks: int | None) -> Member:
        """One of them; a map that is known already, or known to fail, is not fitted again."""
        setting, reading = chosen.tried.setting, chosen.tried.reading
        if setting not in self.failed and setting not in self.fitted:
            self._try(setting, n_landmarks)
        if setting in self.failed:
            raise self.failed[setting]
        pipeline = self.fitted[setting]
        voters = None
        if reading.n_neighbors is not None:
            voters = self.neighbours(pipeline, reading.n_neighbors)
        description = setting.description
        described = Candidate(
            clone(pipeline), {}, reading.n_neighbors, -reading.loss, description, self.screening.goal.told(reading.predictions)
        )
        return Member(described, pipeline, voters, reading.temperature, chosen.weight, reading.slope)

    def neighbours(self, pipeline: Pipeline, n_neighbors: int) -> Any:
        """The training rows in a map."""
        kind = KNeighborsClassifier if isinstance(self.goal, ClassGoal) else KNeighborsRegressor
        count = min(n_neighbors, len(self.numbers))
        return kind(count).fit(pipeline[-1].transform(self._prepared(pipeline)), self.goal.learned)

    def _prepared(self, pipeline: Pipeline) -> Array:
        scaler = pipeline.named_steps.get("scale")
        return self.numbers if scaler is None else np.asarray(scaler.transform(self.numbers))

    def _metric(self, setting: MapSetting, n_landmarks: int | None, kernel: dict[str, Any]) -> LearnedKernelMetric:
        metric = LearnedKernelMetric(
            collocation_weight=0.0,
            regression_weight=setting.regression_weight,
            n_landmarks=n_landmarks,
            # Spread-out landmarks of a forest take ten times as long as its map, and rows of a leaf are alike anyway.
            landmarks="uniform" if setting.scaling is None else "kmeans++",
            random_state=self.seed,
            **kernel,
        )
        if n_landmarks is None and len(self.numbers) > REDUCED and not setting.graph_weight:
            metric.set_params(solver="cg", tol=PREDICTED)
        return metric

    def _fit_graph(self, setting: MapSetting, metric: LearnedKernelMetric, rows: Array) -> None:
        """With rows that have no labels."""
        assert self.unlabelled is not None
        assert setting.scaling is not None
        more = self.scalers[setting.scaling].transform(self.unlabelled)
        learned = self.goal.learned
        gaps = np.full((len(more), *learned.shape[1:]), -1 if isinstance(self.goal, ClassGoal) else np.nan)
        weights = None if self.goal.weights is None else np.concatenate([self.goal.weights, np.ones(len(more))])
        metric.set_params(unlabeled="graph", graph_weight=setting.graph_weight, graph_neighbors=GRAPH_NEIGHBOURS)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*no label reaches them")  # which is told by what they add
            metric.fit(np.concatenate([rows, more]), np.concatenate([learned, gaps.astype(learned.dtype)]), weights)

    def validation_loss(self, chosen: Chosen, n_landmarks: int, train: Array, test: Array) -> float:
        """Of a map with so many landmarks that is fitted on some rows, on others."""
        setting = chosen.tried.setting
        # A forest that has seen the other rows' targets would reproduce them, the better the more landmarks there are.
        kernel = self._kernel(setting) if setting.scaling is not None else {"kernel": self._forest(setting.kernel, FOLD_TREES)}
        metric = self._metric(setting, n_landmarks, kernel)
        rows = self._scaled(setting)
        metric.fit(rows[train], self.goal.of(train).learned, self.goal.weights_of(train))
        reading = chosen.tried.reading
        voters = None
        if reading.n_neighbors is not None:
            kind = KNeighborsClassifier if isinstance(self.goal, ClassGoal) else KNeighborsRegressor
            voters = kind(reading.n_neighbors).fit(metric.transform(rows[train]), self.goal.of(train).learned)
        member = Member(_UNNAMED, Pipeline([("metric", metric)]), voters, reading.temperature, slope=reading.slope)
        return float(self.goal.of(test).loss(member.predictions(metric.transform(rows[test]))))

    def _scaled(self, setting: MapSetting) -> Array:
        """All rows, by a scaler that is fitted once."""
        if setting.scaling is None:
            return self.numbers
        if setting.scaling not in self.scaled:
            scaler = scaler_of(setting.scaling, len(self.numbers), self.seed).fit(self.numbers)
            self.scalers[setting.scaling], self.scaled[setting.scaling] = scaler, np.asarray(scaler.transform(self.numbers))
        return self.scaled[setting.scaling]

    def _fit(self, setting: MapSetting, n_landmarks: int | None) -> Pipeline:
        metric, rows = self._metric(setting, n_landmarks, self._kernel(setting)), self._scaled(setting)
        steps = [] if self.encoder is None else [("encode", self.encoder)]
        if setting.scaling is not None:
            steps.append(("scale", self.scalers[setting.scaling]))
        if setting.graph_weight:
            self._fit_graph(setting, metric, rows)
        elif self.chunks is not None:
            self.chunks.fit(metric, [step for _, step in steps], rows.shape[1])
        else:
            metric.fit(rows, self.goal.learned, self.goal.weights)
        return Pipeline([*steps, ("metric", metric)])

    def _kernel(self, setting: MapSetting) -> dict[str, Any]:
        """The parameters of the metric that say which kernel."""
        if setting not in self.kernels:
            self.kernels[setting] = self._make_kernel(setting)
        return self.kernels[setting]

    def _make_kernel(self, setting: MapSetting) -> dict[str, Any]:
        if setting.scaling is None:
            if setting.kernel not in self.forests:
                rng = np.random.default_rng(self.seed)
                self.forests[setting.kernel] = self._forest(setting.kernel, TREES).grow(
                    self.numbers, rng, self.goal.learned, self.goal.weights
                )
            return {"kernel": self.forests[setting.kernel]}
        transform = self.screening.transform(setting)
        inputs = self.screening.all_inputs if setting.graph_weight else self.screening.inputs
        prepared = Prepared.of(inputs, setting.scaling, setting.kernel, transform)
        bandwidth = float(prepared.kernel(setting.bandwidth).bandwidth)
        if transform is None:
            return {"kernel": setting.kernel, "bandwidth": bandwidth}
        return {"kernel": Transformed(Scalar(setting.kernel, bandwidth), transform)}

    def _forest(self, kernel: str, n_trees: int) -> Forest:
        return forest_of(kernel.split()[0], n_trees, real=not isinstance(self.goal, ClassGoal), n_jobs=self.n_jobs)

    def unlearned(self, pipeline: Pipeline) -> Pipeline:
        """The map as it is fitted in folds, each of which learns a forest of its own: the one of all rows knows those to be new."""
        found = clone(pipeline)
        for name, forest in self.forests.items():
            if pipeline[-1].kernel is forest:
                found[-1].set_params(kernel=self._forest(name, FEW_TREES))
        return found

    def affordable_landmarks(self, first: Chosen, usual: int | None, budget: Budget) -> int | None:
        """With how many landmarks, if any, there is time for a member; at worst with the fewest, whose time is measured."""
        n = len(self.numbers)
        fewer = [count for count in FEWER_LANDMARKS if 2 * count <= n and count < (usual or n)]
        if not budget.limited or not fewer:
            return usual
        fewest = fewer[-1]
        began = now()
        try:
            self._fit(first.tried.setting, fewest)
        except ValueError:  # another may be sound
            return fewest
        seconds = now() - began
        if budget.allows(seconds * ((usual or n) / fewest) ** (EXACT_COST if usual is None else LANDMARKS_COST)):
            return usual
        return next((count for count in fewer if budget.allows(seconds * (count / fewest) ** LANDMARKS_COST)), fewest)


def fit_committee(fits: MemberFits, chosen: Iterable[Chosen], usual: int | None, budget: Budget) -> tuple[list[Member], list[str]]:
    """Fit what was chosen, the best first, as far as there is time; one member at least, and what was left out, in words."""
    wanted = list(chosen)
    landmarks = fits.affordable_landmarks(wanted[0], usual, budget)
    if not budget.limited:
        fits.fit_maps((one.tried.setting for one in wanted), landmarks)
    members: list[Member] = []
    failure: ValueError | None = None
    longest = 0.0
    for one in wanted:
        if members and not budget.allows(longest):
            break
        began = now()
        try:
            members.append(fits.member(one, landmarks))
        except ValueError as error:  # sound in the folds, but not with all data
            failure = error
        longest = max(longest, now() - began)
    if not members and failure is not None:
        raise failure
    left_out = []
    if landmarks != usual:
        left_out.append(f"maps are made of {landmarks} landmarks instead of {usual or 'all rows'}")
    if len(members) < len(wanted) and failure is None:
        left_out.append(f"{len(wanted) - len(members)} of {len(wanted)} maps that were chosen")
    total = _total_weight(members)
    return [replace(member, weight=member.weight / total) for member in members], left_out
