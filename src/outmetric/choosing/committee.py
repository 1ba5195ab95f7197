"""The best candidates of a search, fitted on all data, that vote together; and how far new rows are from these data."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing

from outmetric.choosing.evaluation import evaluate
from outmetric.choosing.scoring import SMALL, Scoring
from outmetric.choosing.votes import Vote, counted_votes, smoothed_votes
from outmetric.foundation import Array, Budget, now, one_blas_thread, storable
from outmetric.rows import EXACT_MEMBERS, LANDMARKS

COMMITTEE = 25
# With more than this, fewer maps vote; with more than EXACT_MEMBERS they are made of landmarks, at half a point of accuracy.
MANY_SAMPLES, LARGE_COMMITTEE = 2000, 5
# What maps are made of when time is short: one map of many landmarks is better than several of few. Cost: this power.
FEWER_LANDMARKS, LANDMARKS_COST = (1000, 500, 250, 100), 1.5
# By how many rows novelty is judged, or by how many if time is short; and the folds that these are divided into.
NOVELTY_ROWS, FEWER_NOVELTY_ROWS, NOVELTY_FOLDS = 500, (500, 250, 100), 5
# Which share of the time that is left is kept for that at most.
NOVELTY_SHARE = 0.2
# Below this, a fit on more rows costs as their square, above as their cube.
SQUARE_ROWS = 1000
# Rows whose distances are held at once.
BLOCK = 4096


@storable("Candidate", holds_models=True)
@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to map the data that was scored, with the number of neighbours that vote, and its cross-validated score.

    The map is ``pipeline`` with ``params``; ``description`` says the same for people. ``scores`` holds other scores by their names.
    """

    pipeline: Any
    params: dict[str, Any]
    n_neighbors: int
    score: float
    description: dict[str, Any]
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def preparation(self) -> tuple[Any, ...]:
        """Scaling, kernel and power of the feature weights."""
        return tuple(self.description[name] for name in ("scaling", "kernel", "power"))

    @property
    def map_key(self) -> tuple[Any, ...]:
        """The same for candidates that differ in the number of neighbours only."""
        return tuple(sorted((name, str(value)) for name, value in self.description.items()))

    def unfitted(self) -> Any:
        """The pipeline with its parameters."""
        return clone(self.pipeline).set_params(**self.params)


@storable("Member", holds_models=True)
@dataclass(frozen=True, eq=False)
class Member:
    """A candidate fitted on all training data, with its voters."""

    candidate: Candidate
    pipeline: Any
    voters: KNeighborsClassifier

    def probabilities(self, X: Any) -> Array:
        return smoothed_votes(counted_votes(self.voters, self.pipeline.transform(X)), self.candidate.n_neighbors)


@dataclass(frozen=True)
class Pace:
    """What fits take, by what one took on some number of rows; rather too much than too little."""

    seconds: float
    rows: int

    def exact(self, n_samples: float) -> float:
        """A fit on so many rows."""
        moderate = min(n_samples, max(self.rows, SQUARE_ROWS))
        growth = max(moderate / self.rows, 1.0) ** 2 * min(moderate / self.rows, 1.0)
        return float(self.seconds * growth * (n_samples / moderate) ** 3)

    def member(self, n_samples: int, n_landmarks: int | None) -> float:
        """A fit that has landmarks, or none."""
        if n_landmarks is None:
            return self.exact(n_samples)
        sums = 2 * self.exact(SQUARE_ROWS) * n_samples * n_landmarks**2 / SQUARE_ROWS**3
        return self.exact(n_landmarks) * (1 + n_landmarks / 150) + sums

    def committee(self, n_samples: int, size: int) -> float:
        """All members, as they are when there is time for everything, and what novelty is judged by."""
        return size * self.member(n_samples, usual_landmarks(n_samples)) + self.novelty(min(n_samples, NOVELTY_ROWS))

    def novelty(self, n_samples: int) -> float:
        """Fits in all folds."""
        return NOVELTY_FOLDS * self.exact(n_samples * (1 - 1 / NOVELTY_FOLDS))


def usual_landmarks(n_samples: int) -> int | None:
    """How many landmarks members have, if any, when there is time for everything."""
    return LANDMARKS if n_samples > EXACT_MEMBERS else None


@dataclass(frozen=True, eq=False)
class Elected:
    """A committee, and what was left out for lack of time, in words."""

    members: list[Member]
    left_out: list[str]


def fit_committee(
    candidates: list[Candidate],
    size: int,
    X: Any,
    y: Array,
    *,
    budget: Budget,
    pace: Pace | None = None,
    hurried: bool = False,
) -> Elected:
    """The best candidates fitted on all data, each map once: with the number of neighbours that serves it best.

    Parameters
    ----------
    candidates : list of Candidate
        Best first.
    size : int
        How many are wanted.
    X, y : data and targets
    budget : Budget
        When it is short, maps are made of fewer landmarks, or fewer; but there is one at least.
    pace : Pace, optional
        What fits took until now; without it the cheapest are taken.
    hurried : bool
        Whether something was left out before.

    Notes
    -----
    The same candidates give the same maps with a budget and without, to the last bit, if nothing is left out.
    """
    distinct: dict[Any, Candidate] = {}
    for candidate in candidates:
        distinct.setdefault(candidate.map_key, candidate)
    wanted = min(size, len(distinct))
    most, usual = wanted, usual_landmarks(len(y))
    landmarks = usual
    if budget.limited and (pace is None or not budget.allows(wanted * pace.member(len(y), usual))):
        # One less in any case: whatever is done in a hurry differs in its last digits, so it must be seen.
        hurried, most, landmarks = True, max(1, wanted - 1), _affordable_landmarks(candidates[0], X, y, budget, pace)
    members: list[Member] = []
    failure: ValueError | None = None
    longest = 0.0
    for candidate in distinct.values():
        if len(members) == most or (members and not budget.allows(longest)):
            break
        began = now()
        try:
            members.append(_member(candidate, landmarks, X, y, hurried=hurried))
        except ValueError as error:  # sound in the folds, but not with all data
            failure = error
        longest = max(longest, now() - began)
    if not members and failure is not None:
        raise failure
    left_out = []
    if landmarks != usual:
        left_out.append(f"maps are made of {landmarks} landmarks instead of {usual or 'all rows'}")
    if len(members) < wanted and failure is None:
        left_out.append(f"{wanted - len(members)} of {wanted} maps that could vote")
    return Elected(members, left_out)


def _member(candidate: Candidate, n_landmarks: int | None, X: Any, y: Array, *, hurried: bool) -> Member:
    chosen = candidate.unfitted()
    if n_landmarks is not None:
        chosen.set_params(metric__n_landmarks=n_landmarks)
    # On a busy machine several threads take many times as long for small matrices.
    with one_blas_thread() if hurried and (n_landmarks or len(y)) < SMALL else nullcontext():
        fitted = chosen.fit(X, y)
        voters = KNeighborsClassifier(candidate.n_neighbors).fit(fitted.transform(X), y)
    return Member(candidate, fitted, voters)


def _affordable_landmarks(candidate: Candidate, X: Any, y: Array, budget: Budget, pace: Pace | None) -> int | None:
    """With how many landmarks, if any, there is time for a member; at worst with the fewest, whose time is measured."""
    usual = usual_landmarks(len(y))
    fewer = [number for number in FEWER_LANDMARKS if 2 * number <= len(y) and number < (usual or len(y))]
    if not fewer:
        return usual
    fewest = fewer[-1]
    if pace is None or not budget.allows(pace.member(len(y), fewest)):
        return fewest
    if usual is None and budget.allows(pace.exact(len(y))):
        return None
    began = now()
    try:
        _member(candidate, fewest, X, y, hurried=True)
    except ValueError:  # another may be sound
        return fewest
    seconds = now() - began
    tried = fewer if usual is None else [usual, *fewer]
    return next((number for number in tried if budget.allows(seconds * (number / fewest) ** LANDMARKS_COST)), fewest)


@storable("Novelty", holds_models=True)
@dataclass(frozen=True, eq=False)
class Novelty:
    """How far rows are from the training data, as a quantile of how far these are from one another.

    How far is the mean distance of the nearest neighbours, among some training rows, and it is looked at twice: in the map, and
    among the scaled and weighted features before it. In the map alone a row far from all others could hide, since a kernel map
    takes all such rows to one point, which may lie between classes that overlap. The training rows' own distances are those to
    rows of other folds, in a map that was learned without them.

    Parameters
    ----------
    preparation : fitted transformer
        Scales and weights features, once they are numbers.
    features : array of shape (n, d)
        Of the training rows that are compared with.
    places : array of shape (n, m)
        Where they are in the map.
    n_neighbors : int
    in_features, in_map : arrays of shape (n,), sorted
        The training rows' own distances.
    larger : array of shape (n,), sorted
        The larger of the quantiles of both, for each training row.
    """

    preparation: Any
    features: Array = field(repr=False)
    places: Array = field(repr=False)
    n_neighbors: int
    in_features: Array = field(repr=False)
    in_map: Array = field(repr=False)
    larger: Array = field(repr=False)

    def __post_init__(self) -> None:
        lengths = {len(self.in_features), len(self.in_map), len(self.larger)}
        together = self.features.ndim == self.places.ndim == 2 and len(self.features) == len(self.places)
        if not together or lengths != {len(self.larger)} or not 1 <= self.n_neighbors <= len(self.places) or not len(self.larger):
            raise ValueError("what novelty is judged by does not fit together")

    @classmethod
    def learn(cls, pipeline: Any, fitted: Any, X: Any, y: Array, n_neighbors: int, *, most: int = NOVELTY_ROWS) -> Novelty | None:
        """From the map itself, by fits in folds of at most so many rows; None if none of the folds could be fitted.

        Parameters
        ----------
        pipeline : Pipeline
            The map as it is to be fitted; its last step is the metric.
        fitted : Pipeline
            The same, fitted on all rows.
        X, y : data and targets
        """
        rows = np.arange(len(y))
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
        # Encoded once, as for the map itself: that looks at no targets, and with many columns it takes longest.
        X, y = _encoded(fitted, _safe_indexing(X, rows)), y[rows]
        pipeline, before = _exact(pipeline), _before(pipeline)
        own = np.full((2, len(rows)), np.nan)
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever fitted the map on all rows was told
            folds = list(KFold(min(NOVELTY_FOLDS, len(rows)), shuffle=True, random_state=0).split(rows))
            classes = {"dimension": y.shape[1]} if y.ndim == 2 else {"n_classes": len(np.unique(y))}
            scoring = Scoring.plan(pipeline, [{}], folds, 1, len(rows), **classes)
            vote = _OutOfFoldDistances(scoring.neighbours, n_neighbors, own[0])
            for task, (train, test) in zip(scoring.tasks, folds, strict=True):
                (found,) = evaluate(task, X, y, vote, scoring.request)
                if found.failure is not None:  # too few rows without these, for instance
                    continue
                mapped = clone(before).fit(_safe_indexing(X, train), y[train])
                known, new = (mapped.transform(_safe_indexing(X, part)) for part in (train, test))
                own[1, test] = _mean_distances(known, new, n_neighbors)
            in_map, in_features = own[:, np.isfinite(own).all(axis=0)]
            if not len(in_map):
                return None
            preparation = clone(before).fit(X, y)
            features, places = preparation.transform(X), np.asarray(_numeric(fitted).transform(X))
        larger = np.maximum(_quantiles(in_features, np.sort(in_features)), _quantiles(in_map, np.sort(in_map)))
        arrays = [np.sort(array) for array in (in_features, in_map, larger)]
        return cls(preparation, features, places, min(n_neighbors, len(rows)), *arrays)

    def of(self, X: Any, fitted: Any) -> Array:
        """From 0 to 1 for each row, of which ``fitted`` is the map; 1: further than any training row."""
        X = _encoded(fitted, X)
        features, places = self.preparation.transform(X), _numeric(fitted).transform(X)
        found = np.maximum(
            _quantiles(_mean_distances(self.features, features, self.n_neighbors), self.in_features),
            _quantiles(_mean_distances(self.places, places, self.n_neighbors), self.in_map),
        )
        return _quantiles(found, self.larger)


@dataclass(frozen=True, eq=False)
class _OutOfFoldDistances(Vote):
    """Notes how far the rows of each fold are from their nearest neighbours, and has no opinion else."""

    n_neighbors: int
    found: Array

    def of(self, rows: Array) -> Self:
        return replace(self, found=self.found[rows])

    def scores(self, train: Array, voters: Array, new: Array, asked: Array, X: Any) -> Array:
        self.found[asked] = _mean_distances(train[0], new[0], self.n_neighbors)
        return np.zeros((len(train), len(self.neighbours)))


def novelty_rows(n_samples: int, budget: Budget, pace: Pace | None) -> int:
    """By how many rows novelty can be judged in time; at worst by the fewest."""
    for count in FEWER_NOVELTY_ROWS:
        if not budget.limited or (pace is not None and budget.allows(pace.novelty(min(n_samples, count)))):
            return count
    return FEWER_NOVELTY_ROWS[-1]


def _encoded(fitted: Any, X: Any) -> Any:
    """Rows of a table as numbers; those of arrays are numbers already."""
    return fitted.named_steps["encode"].transform(X) if "encode" in fitted.named_steps else X


def _numeric(pipeline: Any) -> Any:
    """The steps after that."""
    return pipeline[1:] if "encode" in pipeline.named_steps else pipeline


def _exact(pipeline: Any) -> Pipeline:
    """The same map of numbers without landmarks, which so few rows do not need."""
    *before, (name, metric) = clone(_numeric(pipeline)).steps
    if getattr(metric, "n_landmarks", None) is not None or getattr(metric, "solver", None) == "nystroem":
        metric.set_params(n_landmarks=None, solver="auto")
    return Pipeline([*before, (name, metric)])


def _before(pipeline: Any) -> Pipeline:
    """The steps before the metric. Quantiles would hide what lies outside of the range of the training rows."""
    steps = _numeric(pipeline).steps[:-1]
    return clone(Pipeline([(name, StandardScaler() if name == "scale" else step) for name, step in steps]))


def _mean_distances(known: Any, new: Any, n_neighbors: int) -> Array:
    """How far new points are from their nearest neighbours, on average."""
    count = min(n_neighbors, len(known))
    known, new = np.asarray(known, dtype=np.float64), np.asarray(new, dtype=np.float64)
    found = np.empty(len(new))
    for start in range(0, len(new), BLOCK):  # `gen_batches` refuses no rows
        part = slice(start, start + BLOCK)
        found[part] = np.partition(cdist(new[part], known), count - 1, axis=1)[:, :count].mean(axis=1)
    return found


def _quantiles(values: Array, ordered: Array) -> Array:
    """The share of the ordered values that are smaller."""
    return np.asarray(np.searchsorted(ordered, values, side="left") / len(ordered))
