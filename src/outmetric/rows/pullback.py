"""The learned metric pulled back to the inputs, as a sum over blocks of rows.

With J(x) the (m, d) Jacobian of coordinates in which Euclidean distance is the learned metric, a small step s moves a point by
|J s|, so the mean over the rows of J(x)'J(x) is the mean pull-back of the output metric to the input space. For one output it is
the average gradient outer product of Recursive Feature Machines (Radhakrishnan et al. 2024).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outmetric.foundation import Array, in_threads, n_points, to_array
from outmetric.kernels import ScalarKernel

# Bytes of the kernel values and Jacobians of one block of rows.
BLOCK_BYTES = 2**25


@dataclass(frozen=True, eq=False)
class Jacobians:
    """Those of coordinates that are sums of kernel functions at some points.

    Attributes
    ----------
    terms : sequence of (scalar kernel, weights of shape (p, m))
        The coordinates are the sum over terms of k(x)'W, with k(x) the kernel values at the points.
    points : sample of p points
    """

    terms: Sequence[tuple[ScalarKernel, Array]]
    points: Any

    def __call__(self, X: Any) -> Array:
        """At some rows, (n, m, d)."""
        return np.asarray(sum(scalar.gradients(X, self.points, weights) for scalar, weights in self.terms))

    def rows_at_once(self, n_features: int) -> int:
        """How many rows a block may have."""
        n_outputs = int(self.terms[0][1].shape[1])
        return max(1, BLOCK_BYTES // (8 * (2 * n_points(self.points) + n_outputs * n_features)))


class PullBack:
    """Sums over rows, with their weights, of J'J, or its diagonal, and of the features' first two moments; two may be added.

    Parameters
    ----------
    kind : "diagonal" or "full"
    n_features : int
    """

    def __init__(self, kind: str, n_features: int) -> None:
        self.kind = kind
        self.count = 0
        self.weight = 0.0
        self.squares = np.zeros(n_features if kind == "diagonal" else (n_features, n_features))
        self.sums = np.zeros((2, n_features))

    def add_rows(self, jacobians: Jacobians, X: Any, weights: Array | None = None) -> PullBack:
        """Add a block of rows to the sums; itself."""
        found = jacobians(X)
        n, m, d = found.shape
        dense = to_array(X).astype(np.float64, copy=False)
        ones = np.ones(n) if weights is None else weights
        if weights is not None:
            found = np.sqrt(weights)[:, None, None] * found
        if self.kind == "diagonal":
            self.squares += np.einsum("imf,imf->f", found, found, optimize=True)
        else:
            stacked = found.reshape(n * m, d)
            self.squares += stacked.T @ stacked
        self.sums += np.stack([ones @ dense, ones @ dense**2])
        self.count += n
        self.weight += float(ones.sum())
        return self

    def __add__(self, other: PullBack) -> PullBack:
        total = PullBack(self.kind, self.sums.shape[1])
        total.count = self.count + other.count
        total.weight = self.weight + other.weight
        total.squares = self.squares + other.squares
        total.sums = self.sums + other.sums
        return total

    @property
    def metric(self) -> Array:
        """G, or its diagonal."""
        return np.asarray(self.squares / self.weight)

    @property
    def variances(self) -> Array:
        """Of the features."""
        means, squares = self.sums / self.weight
        return np.asarray((squares - means**2).clip(min=0))


def pull_back(blocks: Iterable[tuple[Any, Array | None]], jacobians: Jacobians, kind: str) -> PullBack:
    """Of blocks of rows and their weights, in parts that fit in little memory; it does not depend on the number of threads."""
    total: PullBack | None = None
    for found in in_threads(lambda part: PullBack(kind, part[0].shape[1]).add_rows(jacobians, *part), _parts(blocks, jacobians)):
        total = found if total is None else total + found
    if total is None:
        raise ValueError("there are no rows.")
    return total


def _parts(blocks: Iterable[tuple[Any, Array | None]], jacobians: Jacobians) -> Iterable[tuple[Any, Array | None]]:
    for X, weights in blocks:
        rows = jacobians.rows_at_once(X.shape[1])
        for start in range(0, n_points(X), rows):
            part = slice(start, start + rows)
            yield X[part], None if weights is None else weights[part]
