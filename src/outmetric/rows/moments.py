"""One pass over the rows: sums of products of features, cell by cell, from which every fit in the features' space follows.

A cell is a class, or a class within a fold. For each, the pass gathers the sum over its rows of v v', where v = (phi(x), 1, extra
columns): so a moment matrix holds the Gram matrix of the features, their sum, the number of rows, and products with real targets.
A row with a weight counts as often as it says.

Rows come in blocks. They are collected cell by cell until there are enough for a fast product, evaluated in threads, and added in
double precision in the order of the blocks: the result does not depend on the number of threads, and on the blocks only in its
round-off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from sklearn.utils import gen_batches

from outmetric.foundation import Array, in_threads, n_points, require_memory, stack
from outmetric.kernels import Features

# Bytes of one evaluated block, and of all rows that wait for more of their cell.
BLOCK_BYTES = 2**25
WAITING_BYTES = 2**28
# Features of more rows than this may be held in single precision, if these are no more bytes.
MANY_ROWS, HELD_BYTES = 20_000, 2**29
# (rows of X, cell of each, extra columns or None, weight of each row or None)
Block = tuple[Any, Array, Array | None, Array | None]


def gather(features: Features, blocks: Iterable[Block], n_extra: int = 0) -> dict[int, Array]:
    """The moment matrix of each cell that occurs, (w, w) with w = features.width + 1 + n_extra, before whitening."""
    width = features.width + 1 + n_extra
    row_size = width * features.dtype.itemsize
    cells: dict[int, Array] = {}
    for cell, product in in_threads(lambda part: (part[0], _product(features, *part[1:])), collect(blocks, row_size)):
        if cell not in cells:
            require_memory(
                8.0 * width**2,
                f"Another moment matrix of {width} columns, beside {len(cells)} of other classes or folds,",
                "fewer landmarks, fewer classes, or fewer folds.",
            )
            cells[cell] = np.zeros((width, width))
        cells[cell] += product
    return cells


def _product(features: Features, X: Any, extra: Array | None, weights: Array | None) -> Array:
    columns = features.evaluate(X)
    if extra is not None:
        columns.append(extra.astype(features.dtype))
    block = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
    ones = np.ones(len(block), dtype=features.dtype)
    if weights is not None:
        ones = np.sqrt(weights).astype(features.dtype)
        block = block * ones[:, None]
    constant = features.width
    others = np.delete(np.arange(block.shape[1] + 1), constant)
    product = np.empty((len(others) + 1,) * 2, dtype=features.dtype)
    product[constant, constant] = len(block) if weights is None else weights.sum()
    product[constant, others] = product[others, constant] = ones @ block
    inner = block.T @ block
    if len(columns) == 1:
        product[:constant, :constant] = inner
    else:
        product[np.ix_(others, others)] = inner
    if not np.isfinite(product).all():
        raise ValueError("the kernel has values that are NaN or infinite, or overflow; rescale the data or change the kernel.")
    return product


def collect(blocks: Iterable[Block], row_size: int) -> Iterator[tuple[int, Any, Array | None, Array | None]]:
    """Rows of one cell at a time, as many as make a fast product, in an order that depends on the blocks only.

    ``row_size`` is the number of bytes that a row takes when it is evaluated.
    """
    waiting: dict[int, list[tuple[Any, Array | None, Array | None]]] = {}

    def flush(cell: int) -> tuple[int, Any, Array | None, Array | None]:
        parts = waiting.pop(cell)
        extras = [extra for _, extra, _ in parts if extra is not None]
        weights = None
        if any(own is not None for _, _, own in parts):  # blocks whose weights are all 1 have none
            weights = np.concatenate([np.ones(n_points(X)) if own is None else own for X, _, own in parts])
        return cell, stack([X for X, _, _ in parts]), np.concatenate(extras) if extras else None, weights

    seen: set[int] = set()
    for X, codes, extra, weights in blocks:
        n = n_points(X)
        present = np.unique(codes).tolist()
        seen.update(present)
        row_bytes = 8.0 * (X.shape[1] if getattr(X, "ndim", 1) == 2 else 1)
        enough = int(max(64, min(BLOCK_BYTES / row_size, WAITING_BYTES / (row_bytes * len(seen)))))
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], present, side="right")
        for cell, start, end in zip(present, [0, *ends[:-1]], ends, strict=True):
            for begin in range(start, end, enough):
                rows = order[begin : min(end, begin + enough)]
                parts = waiting.setdefault(cell, [])
                own = (None if column is None else column[rows] for column in (extra, weights))
                parts.append((X if len(rows) == n else X[rows], *own))
                if sum(n_points(part) for part, _, _ in parts) >= enough:
                    yield flush(cell)
    for cell in sorted(waiting):
        yield flush(cell)


def blocks_of(X: Any, codes: Array, extra: Array | None = None, weights: Array | None = None, rows: int = 2**16) -> Iterator[Block]:
    """Consecutive rows of data that can be indexed."""
    for part in gen_batches(n_points(X), rows):
        own = (None if column is None else column[part] for column in (extra, weights))
        yield X[part], codes[part], *own


def similarity_laplacian(features: Features, X: Any, similarity: Any, rows: int = 4096) -> Array:
    """Phi'Delta Phi for a dense or sparse (n, n) similarity, its entries summed block by block.

    The features of all rows are held if that is no more than the similarity itself, or, of many rows in single precision, than some
    bytes. Otherwise a block asks for those of the rows that it is similar to, and rows are ordered so that these are few.
    """
    n = n_points(X)
    degrees = np.asarray(similarity.sum(axis=1)).ravel()
    parts = list(gen_batches(n, rows))
    sparse = scipy.sparse.issparse(similarity)
    held: Array | None = None
    order: Array = np.arange(n)
    if not sparse:
        held = np.concatenate([features.features(X[part]) for part in parts])
    elif n > MANY_ROWS and 4 * n * features.rank <= HELD_BYTES:
        single = np.empty((n, features.rank), dtype=np.float32)

        def fill(part: slice) -> None:
            single[part] = features.features(X[part])

        list(in_threads(fill, parts))
        held = single
    elif n > rows:
        order = reverse_cuthill_mckee(similarity.tocsr(), symmetric_mode=True)

    def of_block(part: slice) -> Array:
        if held is not None:
            own = held[part]
            differences = degrees[part, None].astype(own.dtype) * own - (similarity[part] @ held).astype(own.dtype, copy=False)
            return np.asarray(own.T @ differences)
        block = order[part]
        own = features.features(X[block])
        total = (degrees[block, None] * own).T @ own
        near = similarity[block].tocsc()
        others = np.flatnonzero(np.diff(near.indptr))
        for begin in range(0, len(others), rows):
            some = others[begin : begin + rows]
            total -= own.T @ (near[:, some] @ features.features(X[some]))
        return np.asarray(total)

    if held is not None and sparse:
        similarity = similarity.astype(np.float32)
    total = np.zeros((features.rank, features.rank))
    for found in in_threads(of_block, parts):
        total += found
    return (total + total.T) / 2
