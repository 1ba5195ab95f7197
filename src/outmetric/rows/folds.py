"""Sums over the training parts of many folds, in memory that does not grow with the number of classes.

A fit needs Phi'Phi, sum_k n_k G_k and the sums s_k of the features of each class k (see `outmetric.problem.summary`), where n_k is
the number of its rows in the training part. The numbers are known before the pass, so that the moments of a class can be added to
those of all folds as soon as they are there, and forgotten: two matrices for each fold stay, and classes are gathered some at a
time. No row is evaluated twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from outmetric.foundation import Array, class_weights, in_threads
from outmetric.kernels import Features
from outmetric.problem import ClassSummary
from outmetric.rows.chunks import ChunkedPoints, cells_of
from outmetric.rows.moments import Block, gather

# Bytes of the moments that are held at once; of rows in chunks less, since workers add several.
HELD_BYTES, CHUNK_BYTES = 2**30, 2**28
# Entries of moments that are added at once.
ENTRIES, ROWS = 2**16, 2**16


@dataclass(frozen=True, eq=False)
class ClassSums:
    """What a fit needs of the rows of a training part, before whitening.

    Attributes
    ----------
    features : Features
    present : array of bool
        Which classes have rows.
    class_weights : array of shape (classes,) or None
        How often the rows of each class count, beside their own weights; 0 for those without rows.
    counts : array of shape (classes,)
        Rows of each class, without ``class_weights``.
    sums : array of shape (classes, width)
        Of the features; without ``class_weights`` too.
    gram, weighted : arrays of shape (width, width)
        The sum of G_k, and that of n_k G_k; with them.
    n_rows : int
    """

    features: Features
    present: Array
    class_weights: Array | None
    counts: Array
    sums: Array
    gram: Array
    weighted: Array
    n_rows: int

    @property
    def summary(self) -> ClassSummary:
        """Of the classes that are there."""
        factors = (np.ones(len(self.counts)) if self.class_weights is None else self.class_weights)[self.present]
        counts, sums = factors * self.counts[self.present], factors[:, None] * self.sums[self.present]
        return ClassSummary.of_sums(self.gram, self.weighted, sums, counts, self.features)


def fold_sums(
    features: Features,
    points: Any,
    labels: Array,
    classes: Array,
    signatures: Array,
    parts: Array,
    weights: Array | None = None,
    class_weight: Any = None,
) -> list[ClassSums]:
    """The sums of each training part.

    Parameters
    ----------
    points : sample, or ChunkedPoints
    labels : array of shape (n,)
        Class indices.
    classes : array
    signatures : array of shape (n,)
        Numbers of the groups of rows that belong to the same training parts.
    parts : array of bool, of shape (training parts, signatures)
        Which groups belong to which training part.
    weights : array of shape (n,) or None
    class_weight : as for `outmetric.foundation.class_weights`
    """
    n_signatures, n_classes = parts.shape[1], len(classes)
    codes = labels * n_signatures + signatures
    counts = np.bincount(codes, weights, minlength=n_classes * n_signatures).reshape(n_classes, n_signatures)
    rows = np.bincount(signatures, minlength=n_signatures)
    inside = counts @ parts.T  # (classes, training parts)
    factors = [_factors(class_weight, classes, own) for own in inside.T]
    scales = np.stack([np.ones(n_classes) if own is None else own for own in factors], axis=1)
    width = features.width
    totals = np.zeros((2 * len(parts), (width + 1) ** 2))
    sums = np.zeros((n_classes, n_signatures, width))
    at_once = max(1, int(_held_bytes(points) / (8.0 * n_signatures * (width + 1) ** 2)))
    for some in gen_batches(n_classes, at_once):
        first, last = some.start * n_signatures, some.stop * n_signatures
        cells = _cells_between(features, points, codes, weights, first, last)
        for code, moments in cells.items():
            sums[divmod(code, n_signatures)] = moments[:width, width]
        present = list(cells)
        own_class, own_signature = np.divmod(np.array(present, dtype=np.intp), n_signatures)
        grams = parts[:, own_signature] * scales[own_class].T
        _add_combinations(
            totals, np.concatenate([grams, grams * (scales * inside)[own_class].T]), [cells[code] for code in present]
        )
    matrices = totals.reshape(2, len(parts), width + 1, width + 1)[:, :, :width, :width]
    return [
        ClassSums(
            features,
            inside[:, place] > 0,
            factors[place],
            inside[:, place],
            np.einsum("csw,s->cw", sums, own.astype(np.float64)),
            matrices[0, place],
            matrices[1, place],
            int(rows @ own),
        )
        for place, own in enumerate(parts)
    ]


def class_summary(features: Features, points: Any, labels: Array, n_classes: int, weights: Array | None = None) -> ClassSummary:
    """Of all rows, which have these class indices; every class is there."""
    one_part = np.zeros(len(labels), dtype=np.intp), np.ones((1, 1), dtype=bool)
    (sums,) = fold_sums(features, points, labels, np.arange(n_classes), *one_part, weights)
    return sums.summary


def sums_bytes(points: Any, n_parts: int, n_signatures: int, n_classes: int, width: int) -> float:
    """About how much memory `fold_sums` takes here."""
    matrix = 8.0 * (width + 1) ** 2
    return matrix * 2 * n_parts + min(n_classes * n_signatures * matrix, max(n_signatures * matrix, _held_bytes(points)))


def _held_bytes(points: Any) -> float:
    return CHUNK_BYTES if isinstance(points, ChunkedPoints) else HELD_BYTES


def _factors(class_weight: Any, classes: Array, counts: Array) -> Array | None:
    """How often the rows of each class count; 0 for classes without rows."""
    present = counts > 0
    found = class_weights(class_weight, classes[present], counts[present])
    if found is None:
        return None
    every = np.zeros(len(classes))
    every[present] = found
    return every


def _cells_between(features: Features, points: Any, codes: Array, weights: Array | None, first: int, last: int) -> dict[int, Array]:
    """The moments of rows with these codes; other rows are not evaluated."""
    wanted = (codes >= first) & (codes < last)
    if wanted.all():
        return cells_of(features, points, codes, weights)
    if not wanted.any():
        return {}
    if isinstance(points, ChunkedPoints):
        return points.cells(features, codes, wanted if weights is None else np.where(wanted, weights, 0.0))
    rows = np.flatnonzero(wanted)

    def blocks() -> Iterator[Block]:
        for part in gen_batches(len(rows), ROWS):
            own = rows[part]
            yield points[own], codes[own], None, None if weights is None else weights[own]

    return gather(features, blocks())


def _add_combinations(totals: Array, coefficients: Array, moments: list[Array]) -> None:
    """Add sums of the moments with these coefficients, (totals, moments), block by block."""
    flat = [one.ravel() for one in moments]

    def add(part: slice) -> None:
        totals[:, part] += coefficients @ np.stack([one[part] for one in flat])

    if flat:
        list(in_threads(add, gen_batches(totals.shape[1], ENTRIES)))
