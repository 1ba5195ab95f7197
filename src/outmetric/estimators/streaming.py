"""Rows in blocks, from a stream, in chunks of Dask, or call by call: the first block decides what the others must be like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import joblib
import numpy as np
from sklearn.base import clone

from outmetric.estimators.base import adopt_data_kind, check_new, check_training, data_kind
from outmetric.estimators.checks import check_supervision, check_targets, gaps, left_out
from outmetric.estimators.fitting import MANY, landmark_features
from outmetric.estimators.settings import Settings
from outmetric.foundation import Array, check_sample_weight, class_weights, n_points
from outmetric.kernels import Features
from outmetric.rows import (
    BlockStream,
    CheckedBlock,
    ChunkedPoints,
    Chunks,
    DaskRows,
    Jacobians,
    LandmarkMap,
    PullBack,
    Statistics,
    pull_back,
    weighted_rows,
)

# What must not change between calls of `partial_fit`.
LASTING = ("kernel", "bandwidth", "kernel_params", "n_landmarks", "landmarks")


@dataclass(eq=False)
class BlockCheck:
    """Checks blocks of rows with an estimator of its own, which can travel to the workers of a cluster."""

    estimator: Any
    settings: Settings
    seen: bool = False
    labelled: bool = False
    label_kind: type | None = None
    n_targets: int | None = None

    @classmethod
    def of(cls, estimator: Any, settings: Settings) -> BlockCheck:
        """Without what the estimator has learned before."""
        return cls(clone(estimator), settings)

    def __call__(self, X: Any, y: Any, weights: Any = None) -> CheckedBlock:
        """X, y and weights of a block: labels of shape (n,) or real targets of shape (n, q). Rows with weight 0 are left out."""
        if self.settings.unlabeled is not None and y is not None and (missing := gaps(y)).any():
            if self.settings.unlabeled == "graph" and self.settings.graph_weight > 0:
                raise ValueError("rows in blocks have no neighbour graph: give fit all rows at once, or set unlabeled='ignore'.")
            if not missing.all():
                y, weights = left_out(y, missing, weights)
            elif self.seen:
                return X[:0], np.asarray(y)[:0], None
        X, y = self._check(X, y)
        weights = check_sample_weight(weights, n_points(X), some=False)
        return present(X, y, weights)

    def _check(self, X: Any, y: Any) -> tuple[Any, Array]:
        if not self.seen:
            return self._check_first(X, y)
        X = check_new(self.estimator, X)
        if self.labelled:
            y, labelled = check_supervision(self.estimator, y, n_points(X), whole=False)
            if not labelled:
                raise ValueError("blocks with class labels and blocks with real targets came in one stream.")
            if _label_kind(y) is not self.label_kind:
                raise ValueError(f"labels of different types came in one stream: {self.label_kind} and {_label_kind(y)}.")
            return X, y
        return X, self._real(y, n_points(X))

    def _check_first(self, X: Any, y: Any) -> tuple[Any, Array]:
        X = check_training(self.estimator, X, self.settings.kernel.takes, at_least=1)
        self.seen = True
        y, self.labelled = check_supervision(self.estimator, y, n_points(X), whole=False)
        if self.labelled:
            self.label_kind = _label_kind(y)
            return X, y
        if self.settings.collocation_weight != 0:
            raise ValueError("real targets that come in blocks have no similarities between blocks: set collocation_weight=0.")
        return X, self._real(y, n_points(X))

    def _real(self, y: Any, n_rows: int) -> Array:
        values = check_targets(y, n_rows)
        if self.n_targets not in (None, values.shape[1]):
            raise ValueError(f"blocks with {self.n_targets} and with {values.shape[1]} real targets came in one stream.")
        self.n_targets = values.shape[1]
        return values

    def require_unchanged(self, estimator: Any) -> None:
        """The kernel and its landmarks must stay as they were at the first block."""
        for name in LASTING:
            if not _alike(getattr(estimator, name), getattr(self.estimator, name)):
                raise ValueError(f"{name} changed between calls of partial_fit; call fit to begin anew.")


class Rereadable(Protocol):
    """Rows that do not stay in memory, and can be read again."""

    def gather(self, features: Features) -> Statistics:
        """The statistics of all rows."""

    def pull_back(self, jacobians: Jacobians, kind: str, of_classes: Mapping[Any, float] | None = None) -> PullBack:
        """The learned metric pulled back, over all rows; ``of_classes``: further weights by label."""


@dataclass(frozen=True, eq=False)
class _StreamedRows:
    stream: BlockStream
    labelled: bool

    def gather(self, features: Features) -> Statistics:
        return Statistics.gather(features, self.stream, labelled=self.labelled)

    def pull_back(self, jacobians: Jacobians, kind: str, of_classes: Mapping[Any, float] | None = None) -> PullBack:
        return pull_back((weighted_rows(block, of_classes) for block in self.stream), jacobians, kind)


@dataclass(frozen=True, eq=False)
class _ChunkedRows:
    chunks: Chunks
    labelled: bool
    shift: Array | None

    def gather(self, features: Features) -> Statistics:
        return self.chunks.gather(features, labelled=self.labelled, shift=self.shift)

    def pull_back(self, jacobians: Jacobians, kind: str, of_classes: Mapping[Any, float] | None = None) -> PullBack:
        return self.chunks.pull_back(jacobians, kind, of_classes)


@dataclass(frozen=True, eq=False)
class RowsSeen:
    """What was gathered so far, and how further blocks are checked."""

    check: BlockCheck
    landmarks: LandmarkMap
    statistics: Statistics


@dataclass(frozen=True, eq=False)
class RowsAtSource(RowsSeen):
    """With the rows themselves, which can be read again if settings ask for an input metric."""

    rows: Rereadable


def read_stream(estimator: Any, settings: Settings, blocks: Any) -> RowsAtSource:
    """All blocks of an iterator, or of a function that returns one."""
    settings.require_streamable()
    check = BlockCheck.of(estimator, settings)
    stream = BlockStream(blocks, check)
    if settings.rounds and not stream.restarts:
        raise ValueError(
            "an input metric takes several passes over the rows, and an iterator can be read only once: give fit a function that "
            "returns an iterator, or set input_metric=None."
        )
    stream.begin()
    adopt_data_kind(estimator, check.estimator)
    settings = with_checked_landmarks(estimator, settings)
    rng = settings.generator()
    sample = None if settings.has_given_landmarks else stream.sample(settings.candidate_count, rng)
    found = _landmark_map(settings, sample, estimator, rng, many=check.labelled)
    rows = _StreamedRows(stream, check.labelled)
    return RowsAtSource(check, found, rows.gather(found.features), rows)


def read_chunks(estimator: Any, settings: Settings, X: Any, y: Any, weights: Any = None) -> RowsAtSource:
    """All chunks of a Dask array or data frame."""
    settings.require_streamable()
    check = BlockCheck.of(estimator, settings)
    chunks = Chunks(X, y, check, weights)
    _, first, _ = check(*chunks.first()[:2])
    adopt_data_kind(estimator, check.estimator)
    settings = with_checked_landmarks(estimator, settings)
    rng = settings.generator()
    many = check.labelled and chunks.n >= MANY * settings.landmark_count
    found = _landmark_map(settings, chunks.sample(settings.candidate_count, rng), estimator, rng, many=many)
    rows = _ChunkedRows(chunks, check.labelled, None if check.labelled else first.mean(axis=0))
    return RowsAtSource(check, found, rows.gather(found.features), rows)


def chunked_points(estimator: Any, settings: Settings, rows: DaskRows) -> ChunkedPoints:
    """The rows of a Dask collection as the estimator takes them; some of them decide what the others must be like."""
    settings.require_streamable()
    check_training(estimator, rows[:1], settings.kernel.takes, at_least=1)
    return ChunkedPoints(rows, partial(check_new, _of_kind(estimator)))


def read_block(estimator: Any, settings: Settings, X: Any, y: Any, weights: Any, earlier: RowsSeen | None) -> RowsSeen:
    """One more block; the first chooses the landmarks."""
    if earlier is not None:
        earlier.check.require_unchanged(estimator)
        block = earlier.check(X, y, weights)
        if not n_points(block[0]):
            return earlier
        before = earlier.statistics
        more = Statistics.gather(before.features, [block], labelled=earlier.check.labelled, shift=before.shift)
        return RowsSeen(earlier.check, earlier.landmarks, before + more)
    check = BlockCheck.of(estimator, settings)
    X, y, weights = check(X, y, check_sample_weight(weights, n_points(X)))
    rng = settings.generator()
    rows = np.sort(rng.permutation(n_points(X))[: settings.candidate_count])
    adopt_data_kind(estimator, check.estimator)
    settings = with_checked_landmarks(estimator, settings)
    found = replace(_landmark_map(settings, X[rows], estimator, rng, many=check.labelled), sample=None)  # is not needed again
    return RowsSeen(check, found, Statistics.gather(found.features, [(X, y, weights)], labelled=check.labelled))


def present(X: Any, y: Array, weights: Array | None) -> CheckedBlock:
    """The rows whose weight is not 0."""
    if weights is None or (weights > 0).all():
        return X, y, weights
    rows = np.flatnonzero(weights)
    return X[rows], y[rows], weights[rows]


def weighted_rows_of(
    settings: Settings, points: Any, y: Array, labelled: bool, takes: str, sample_weight: Any
) -> tuple[Settings, CheckedBlock]:
    """Settings, and all rows with the weights of their classes; rows with weight 0 are left out.

    Those of a kernel matrix stay, without influence, since columns of other matrices will belong to them.
    """
    weights = check_sample_weight(sample_weight, n_points(points))
    absent = None if weights is None else weights == 0
    if absent is not None and absent.any():
        if takes == "kernel values":
            y = y.copy()
            y[absent] = y[~absent][0]
        else:
            settings = settings.of_rows(np.flatnonzero(~absent))
            points, y, weights = present(points, y, weights)
    return settings, (points, y, settings.row_weights(weights, y, labelled))


def weights_by_label(settings: Settings, statistics: Statistics) -> dict[Any, float] | None:
    """Those of the classes, if they have such."""
    if statistics.classes is None:
        return None
    found = class_weights(settings.class_weight, statistics.classes, statistics.counts)
    return None if found is None else dict(zip(statistics.classes.tolist(), found.tolist(), strict=True))


def with_checked_landmarks(estimator: Any, settings: Settings) -> Settings:
    """The settings with given landmarks checked like new points."""
    if not settings.has_given_landmarks:
        return settings
    if data_kind(estimator) == "kernel values":
        raise ValueError("with a precomputed kernel landmarks are chosen by name, 'uniform' for instance.")
    return replace(settings, landmarks=check_new(estimator, settings.landmarks))


def _landmark_map(settings: Settings, candidates: Any, estimator: Any, rng: np.random.Generator, *, many: bool) -> LandmarkMap:
    found = landmark_features(settings, candidates, data_kind(estimator), rng, many=many)
    return replace(found, indices=None)  # which rows of all the landmarks are, nobody counted


def _of_kind(estimator: Any) -> Any:
    """An estimator that knows what points must be like and nothing else, to travel to workers."""
    found = clone(estimator)
    adopt_data_kind(found, estimator)
    return found


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return one is other or joblib.hash(one) == joblib.hash(other)


def _label_kind(labels: Array) -> type:
    """What labels are: numbers, truth values, strings, or other objects."""
    kinds: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str, "S": bytes}
    return kinds.get(labels.dtype.kind) or type(labels[0])
