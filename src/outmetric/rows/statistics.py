"""All that fits need to know of many rows: sums that add up over blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from outmetric.foundation import Array
from outmetric.kernels import Features
from outmetric.problem import ClassSummary, Summary, real_summary, target_components, target_scales
from outmetric.rows.moments import Block, gather


@dataclass(frozen=True, eq=False)
class Statistics:
    """All that fits need to know of labelled rows, or of rows with real targets. Statistics of parts add up to those of the whole.

    Attributes
    ----------
    features : Features
    classes : array or None
        The labels that occurred, sorted; None for real targets.
    moments : array of shape (classes, w, w), or (1, w, w) for real targets
    shift : array or None
        Was taken off real targets.
    """

    features: Features
    classes: Array | None
    moments: Array
    shift: Array | None = None

    @classmethod
    def gather(
        cls, features: Features, blocks: Iterable[tuple[Any, Array]], *, labelled: bool, shift: Array | None = None
    ) -> Statistics:
        """From checked blocks (X, y) with labels of shape (n,) or real targets of shape (n, q)."""
        if labelled:
            codes: dict[Any, int] = {}
            found: list[Array] = []
            cells = gather(features, _coded(blocks, codes, found))
            if not cells:
                raise ValueError("there are no rows.")
            classes = np.unique(np.concatenate(found))
            return cls(features, classes, np.stack([cells[codes[label]] for label in classes.tolist()]))
        iterator = iter(blocks)
        first = next(iterator, None)
        if first is None:
            raise ValueError("there are no rows.")
        # Sums of squares far from zero would cancel when they are centred.
        origin = first[1].mean(axis=0) if shift is None else shift
        rows = ((X, np.zeros(len(y), dtype=np.intp), y - origin) for X, y in itertools.chain([first], iterator))
        return cls(features, None, gather(features, rows, len(origin))[0][None], origin)

    def __add__(self, other: Statistics) -> Statistics:
        if self.classes is None or other.classes is None:
            assert self.shift is not None
            assert other.shift is not None
            assert np.array_equal(self.shift, other.shift)
            return Statistics(self.features, None, self.moments + other.moments, self.shift)
        classes = np.unique(np.concatenate([self.classes, other.classes]))
        moments = np.zeros((len(classes), *self.moments.shape[1:]))
        for own, part in ((self.classes, self.moments), (other.classes, other.moments)):
            moments[np.searchsorted(classes, own)] += part
        return Statistics(self.features, classes, moments)

    @property
    def n_rows(self) -> int:
        width = self.features.width
        return int(np.rint(self.moments[:, width, width].sum()))

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
        scales = target_scales(np.diagonal(centred)[-q:], self.n_rows)
        turn = target_components(centred[-q:, -q:] / np.multiply.outer(scales, scales), n_components) / scales[:, None]
        expand = scipy.linalg.block_diag(np.eye(constant + 1), turn)
        return real_summary(expand.T @ centred @ expand, self.features), (self.shift + mean) @ turn, scales


def _coded(blocks: Iterable[tuple[Any, Array]], codes: dict[Any, int], found: list[Array]) -> Iterator[Block]:
    """The blocks with numbers for labels, given in the order in which they come; ``found`` keeps those of each block."""
    for X, y in blocks:
        labels, inverse = np.unique(y, return_inverse=True)
        found.append(labels)
        numbers = np.array([codes.setdefault(label, len(codes)) for label in labels.tolist()], dtype=np.intp)
        yield X, numbers[inverse], None
