"""Which rows are neighbours: the graph along which labels reach rows that have none.

Rows are joined to their nearest ones, in either direction, and all edges have the weight that gives a row a total of 1 on average.
Where rows are arrays their Euclidean distance counts, otherwise the kernel's: |x - z|^2 = k(x, x) - 2 k(x, z) + k(z, z).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from outmetric.foundation import Array, n_points
from outmetric.kernels import ScalarKernel, Takes

# From so many rows on neighbours are sought by an index that misses some, if there is one; and how many of its cells are searched.
MANY_ROWS, PROBED = 20_000, 8
# Kernel values that are held at once.
VALUES = 2**24


@dataclass(frozen=True, eq=False)
class NeighbourGraph:
    """A symmetric graph with a mean degree of 1.

    Attributes
    ----------
    matrix : sparse array of shape (n, n)
    """

    matrix: Any

    @classmethod
    def of(cls, X: Any, n_neighbors: int, takes: Takes, kernel: ScalarKernel | None = None) -> NeighbourGraph:
        """Of all rows; ``kernel`` for rows that are not arrays of numbers."""
        n = n_points(X)
        count = min(n_neighbors, n - 1)
        if takes in ("arrays", "sparse"):
            nearest = _near_points(X, count)
        else:
            assert kernel is not None
            nearest = _near_by_kernel(X, kernel, count)
        return cls.joining(nearest)

    @classmethod
    def joining(cls, nearest: Array) -> NeighbourGraph:
        """Of the row numbers of each row's neighbours, (n, k)."""
        n, count = nearest.shape
        rows, others = np.repeat(np.arange(n), count), nearest.ravel()
        apart = rows != others
        directed = scipy.sparse.csr_array((np.ones(apart.sum()), (rows[apart], others[apart])), shape=(n, n))
        directed.data[:] = 1  # a neighbour that was named twice is one
        joined = directed.maximum(directed.T).tocsr()
        return cls(joined / (joined.sum() / n))

    def laplacian(self, features: Array) -> Array:
        """Phi'Delta Phi of features (n, r)."""
        degrees = np.asarray(self.matrix.sum(axis=1)).ravel()
        return np.asarray((degrees[:, None] * features).T @ features - features.T @ (self.matrix @ features))

    def among(self, rows: Array) -> NeighbourGraph:
        """Of some of the rows only; edges keep their weights."""
        return NeighbourGraph(self.matrix[rows][:, rows])

    def unreached(self, labelled: Array) -> Array:
        """Which rows no label reaches: no labelled row is in their part of the graph."""
        components = connected_components(self.matrix, directed=False)[1]
        return ~np.isin(components, np.unique(components[labelled]))


def _near_points(X: Any, count: int) -> Array:
    if n_points(X) >= MANY_ROWS and not scipy.sparse.issparse(X):
        try:
            import faiss
        except ImportError:
            warnings.warn(
                f"neighbours of {n_points(X)} rows are sought by comparing all pairs, which takes long; an index is many times "
                "faster: pip install 'outmetric[neighbours]'.",
                UserWarning,
                stacklevel=2,
            )
        else:
            return _near_by_index(faiss, X, count)
    found = NearestNeighbors(n_neighbors=count + 1, n_jobs=-1).fit(X).kneighbors(X, return_distance=False)
    return _without_own(found)


def _near_by_index(faiss: Any, X: Array, count: int) -> Array:
    """By cells of rows; the rows are searched in the cells nearest to them."""
    rows = np.ascontiguousarray(X - X.mean(axis=0), dtype=np.float32)
    n, d = rows.shape
    cells = int(4 * np.sqrt(n))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, cells)
    index.cp.seed = 0
    index.cp.max_points_per_centroid = 64
    index.cp.min_points_per_centroid = 1
    index.train(rows)
    index.add(rows)
    index.nprobe = PROBED
    found = np.concatenate([index.search(rows[part], count + 1)[1] for part in gen_batches(n, 2**15)])
    # A row whose cells are nearly empty has fewer neighbours: the others are itself.
    found = np.where(found < 0, np.arange(n)[:, None], found)
    return _without_own(found)


def _near_by_kernel(X: Any, kernel: ScalarKernel, count: int) -> Array:
    diagonal, columns = kernel.diagonal(X), kernel.columns(X)
    parts = []
    for part in gen_batches(len(diagonal), max(1, VALUES // len(diagonal))):
        rows = np.arange(len(diagonal))[part]
        squares = diagonal[:, None] - 2 * columns(rows) + diagonal[rows]
        squares[rows, np.arange(len(rows))] = -np.inf
        nearest = np.argpartition(squares, min(count, len(diagonal) - 1), axis=0)[: count + 1]
        order = np.argsort(np.take_along_axis(squares, nearest, axis=0), axis=0, kind="stable")
        parts.append(np.take_along_axis(nearest, order, axis=0).T)
    return _without_own(np.concatenate(parts))


def _without_own(found: Array) -> Array:
    """Neighbours (n, k + 1) without the row itself, or without the last if it is not among them."""
    own = found == np.arange(len(found))[:, None]
    own[np.cumsum(own, axis=1) > 1] = False
    own[~own.any(axis=1), -1] = True
    return np.asarray(found[~own].reshape(len(found), -1))
