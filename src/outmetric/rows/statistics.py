"""All that fits need to know of many rows: sums that add up over blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from outmetric.foundation import Array
from outmetric.kernels import Features
from outmetric.problem import ClassSummary, Summary, real_summary, target_components, target_scales
from outmetric.rows.moments import Block, blocks_of, gather

# (rows of X, their labels or real targets, the weight of each or None)
CheckedBlock = tuple[Any, Array, Array | None]


@dataclass(frozen=True, eq=False)
class Statistics:
    """All that fits need to know of labelled rows, or of rows with real targets. Statistics of parts add up to those of the whole.

    Attributes
    ----------
    features : Features
    classes : array or None
        The labels that occurred, sorted; None for real targets.
    moments : array of shape (classes, w, w), or (1, w, w) for real targets
    n_rows : int
    shift : array or None
        Was taken off real targets.
    """

    features: Features
    classes: Array | None
    moments: Array
    n_rows: int
    shift: Array | None = None

    @classmethod
    def gather(
        cls, features: Features, blocks: Iterable[CheckedBlock], *, labelled: bool, shift: Array | None = None
    ) -> Statistics:
        """From checked blocks (X, y, weights or None) with labels of shape (n,) or real targets of shape (n, q)."""
        rows = _Counted(blocks)
        if labelled:
            codes: dict[Any, int] = {}
            found: list[Array] = []
            cells = gather(features, _coded(rows, codes, found))
            if not cells:
                raise ValueError("there are no rows.")
            classes = np.unique(np.concatenate(found))
            return cls(features, classes, np.stack([cells[codes[label]] for label in classes.tolist()]), rows.count)
        iterator = iter(rows)
        first = next(iterator, None)
        if first is None:
            raise ValueError("there are no rows.")
        # Sums of squares far from zero would cancel when they are centred.
        origin = first[1].mean(axis=0) if shift is None else shift
        shifted = (
            (X, np.zeros(len(y), dtype=np.intp), y - origin, weights) for X, y, weights in itertools.chain([first], iterator)
        )
        return cls(features, None, gather(features, shifted, len(origin))[0][None], rows.count, origin)

    def __add__(self, other: Statistics) -> Statistics:
        n_rows = self.n_rows + other.n_rows
        if self.classes is None or other.classes is None:
            assert self.shift is not None
            assert other.shift is not None
            assert np.array_equal(self.shift, other.shift)
            return Statistics(self.features, None, self.moments + other.moments, n_rows, self.shift)
        classes = np.unique(np.concatenate([self.classes, other.classes]))
        moments = np.zeros((len(classes), *self.moments.shape[1:]))
        for own, part in ((self.classes, self.moments), (other.classes, other.moments)):
            moments[np.searchsorted(classes, own)] += part
        return Statistics(self.features, classes, moments, n_rows)

    @property
    def total_weight(self) -> float:
        """How many rows there are, each counted as often as its weight says."""
        return float(self.counts.sum())

    @property
    def counts(self) -> Array:
        """The same for each class."""
        width = self.features.width
        return np.asarray(self.moments[:, width, width])

    def with_class_weights(self, weights: Array) -> Statistics:
        """Each class as if its rows had this weight more."""
        return replace(self, moments=weights[:, None, None] * self.moments)

    def with_prototypes(self, prototypes: Array) -> Summary:
        """For labelled rows, with a target for each class."""
        return ClassSummary.make(self.moments, self.features).with_prototypes(prototypes)

    def with_targets(self, n_components: int | None) -> tuple[Summary, Array, Array]:
        """For real targets: centred, scaled and taken to their components; and offset and scales. No rows are similar."""
        (moments,) = self.moments
        assert self.shift is not None
        constant, q = self.features.width, len(self.shift)
        mean = moments[constant, constant + 1 :] / moments[constant, constant]
        centre = np.eye(len(moments))
        centre[constant, constant + 1 :] = -mean
        centred = centre.T @ moments @ centre
        if not np.trace(centred[-q:, -q:]) > 0:
            raise ValueError("y is constant: there are no distances to learn. Provide targets that vary.")
        scales = target_scales(np.diagonal(centred)[-q:], self.total_weight)
        turn = target_components(centred[-q:, -q:] / np.multiply.outer(scales, scales), n_components) / scales[:, None]
        expand = scipy.linalg.block_diag(np.eye(constant + 1), turn)
        return real_summary(expand.T @ centred @ expand, self.features), (self.shift + mean) @ turn, scales


@dataclass(frozen=True, eq=False)
class ReducedStatistics:
    """The statistics of labelled rows without the moments of single classes; made for the weights of classes that its sums have.

    Parameters
    ----------
    sums : ClassSums
        Of all rows; every class is there.
    classes : array
    """

    sums: Any
    classes: Array

    @property
    def n_rows(self) -> int:
        return int(self.sums.n_rows)

    @property
    def counts(self) -> Array:
        """The rows of each class, before classes are weighed."""
        return np.asarray(self.sums.counts)

    def with_class_weights(self, weights: Array) -> ReducedStatistics:
        """Itself: the sums have them already."""
        assert self.sums.class_weights is not None
        assert np.allclose(self.sums.class_weights, weights)
        return self

    @cached_property
    def summary(self) -> ClassSummary:
        """Of all classes, after whitening."""
        found: ClassSummary = self.sums.summary
        return found

    def with_prototypes(self, prototypes: Array) -> Summary:
        """With a target for each class."""
        return self.summary.with_prototypes(prototypes)


def target_summary(features: Features, points: Any, targets: Array, weights: Array | None = None) -> Summary:
    """Of all rows, with targets of shape (n, m); no rows are similar."""
    codes = np.zeros(len(targets), dtype=np.intp)
    (moments,) = gather(features, blocks_of(points, codes, targets, weights), targets.shape[1]).values()
    # In double precision whatever the features have: explained variances are differences of these.
    counted = targets if weights is None else weights[:, None] * targets
    return replace(real_summary(moments, features), squares=counted.T @ targets)


class _Counted:
    """Blocks, and how many rows they had so far."""

    def __init__(self, blocks: Iterable[CheckedBlock]) -> None:
        self.blocks, self.count = blocks, 0

    def __iter__(self) -> Iterator[CheckedBlock]:
        for block in self.blocks:
            self.count += len(block[1])
            yield block


def _coded(blocks: Iterable[CheckedBlock], codes: dict[Any, int], found: list[Array]) -> Iterator[Block]:
    """The blocks with numbers for labels, given in the order in which they come; ``found`` keeps those of each block."""
    for X, y, weights in blocks:
        labels, inverse = np.unique(y, return_inverse=True)
        found.append(labels)
        numbers = np.array([codes.setdefault(label, len(codes)) for label in labels.tolist()], dtype=np.intp)
        yield X, numbers[inverse], None, weights
