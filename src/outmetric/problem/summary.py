"""The problem in the space of features, where all data have become a few small matrices.

With F = Phi Theta, everything that the models need is

    T = Phi'P Phi = lambda Phi'Phi + 2 gamma Phi'Delta Phi,     N = Phi'Y,     Y'Y,

and for class similarity Phi'Delta Phi = sum_k [n_k G_k - s_k s_k'] with the Gram matrix G_k and the sum s_k of the features of
class k. Rows without targets enter T alone, by lambda times the weight of their neighbour graph times its Laplacian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outmetric.foundation import Array
from outmetric.kernels import Features


@dataclass(frozen=True, eq=False)
class Summary:
    """What the models see of the data.

    Attributes
    ----------
    gram, laplacian : arrays of shape (r, r)
        Phi'Phi and Phi'Delta Phi.
    cross : array of shape (r, m)
        Phi'Y.
    squares : array of shape (m, m)
        Y'Y.
    mean_degree : float
        Of the similarity.
    graph : array of shape (r, r) or None
        Phi'Delta Phi of the neighbour graph, times its weight, in units of lambda.
    """

    gram: Array
    laplacian: Array
    cross: Array
    squares: Array
    mean_degree: float
    graph: Array | None = None

    @property
    def visibility(self) -> float:
        """|Phi'Y|^2 relative to tr(Phi'Phi) |Y|^2, which bounds it: how much of the targets the features see."""
        size = float(np.trace(self.gram) * np.trace(self.squares))
        return float(np.sum(self.cross**2)) / size if size > 0 else 0.0

    def coupled(self, regression_weight: float, collocation_weight: float) -> Array:
        """T = Phi'P Phi."""
        coupled = regression_weight * self.gram + 2 * collocation_weight * self.laplacian
        return coupled if self.graph is None else coupled + regression_weight * self.graph


@dataclass(frozen=True, eq=False)
class ClassSummary:
    """The same for class targets whose prototypes are still free."""

    gram: Array
    laplacian: Array
    sums: Array
    counts: Array
    graph: Array | None = None

    @classmethod
    def make(cls, moments: Array, features: Features) -> ClassSummary:
        """From the moment matrix of each class."""
        width = features.width
        counts = moments[:, width, width]
        sums = moments[:, :width, width]
        gram, weighted = moments.sum(axis=0)[:width, :width], np.tensordot(counts, moments, 1)[:width, :width]
        return cls.of_sums(gram, weighted, sums, counts, features)

    @classmethod
    def of_sums(cls, gram: Array, weighted: Array, sums: Array, counts: Array, features: Features) -> ClassSummary:
        """From the sum of G_k, that of n_k G_k, and s_k and n_k of each class, before whitening."""
        laplacian = weighted - sums.T @ sums
        return cls(features.whiten_both(gram), features.whiten_both(laplacian), features.whiten(sums.T).T, counts)

    @property
    def mean_degree(self) -> float:
        return float(self.counts @ (self.counts - 1) / self.counts.sum())

    def with_prototypes(self, prototypes: Array) -> Summary:
        """With a target for each class."""
        squares = (self.counts[:, None] * prototypes).T @ prototypes
        return Summary(self.gram, self.laplacian, self.sums.T @ prototypes, squares, self.mean_degree, self.graph)


def real_summary(moments: Array, features: Features) -> Summary:
    """From the moment matrix of all rows with centred real targets as extra columns; no rows are similar."""
    width = features.width
    gram = features.whiten_both(moments[:width, :width])
    cross = features.whiten(moments[:width, width + 1 :])
    return Summary(gram, np.zeros_like(gram), cross, moments[width + 1 :, width + 1 :], 0.0)
