"""The coupling P = lambda I + 2 gamma Delta of the training samples by their similarity S.

Delta = diag(S 1) - S is the Laplacian of S. The functionals sum over all ordered pairs,
sum_ij s_ij |f_i - f_j|^2 = 2 tr(F' Delta F), hence the factor 2. The solvers see S only through P, and P only through a factor R
with P = R R'. For class similarity both P and R are applied in closed form, in time linear in the number of samples.

Weights w_i >= 0 of the samples mean repetition: lambda w_i in the place of lambda, and s_ij w_i w_j in that of s_ij. With
U = W^(1/2), F -> U F, Y -> U Y, K -> U K U and C -> U^-1 C make of this the problem without weights again, but for Delta, which
becomes U^-1 Delta_w U^-1 = diag(S w) - U S U. So weights are known to similarities, which make Delta, and to those who scale data
on the way in and coefficients on the way out; solvers and certificates know nothing of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy.linalg.blas import dtrmm
from scipy.spatial.distance import cdist

from outmetric.foundation import Array, check_finite, check_symmetric, require_memory, to_array


class Coupling(ABC):
    """P = regression_weight * I + 2 * collocation_weight * Delta, with a factor R such that P = R R'."""

    regression_weight: float
    collocation_weight: float

    @abstractmethod
    def laplacian(self, outputs: Array) -> Array:
        """Delta F."""

    @abstractmethod
    def factor(self, outputs: Array, *, transpose: bool = False) -> Array:
        """R F, or R' F."""

    @abstractmethod
    def solve_factor(self, outputs: Array, *, transpose: bool = False) -> Array:
        """R^-1 F, or R'^-1 F."""

    @abstractmethod
    def sandwich(self, gram: Array) -> Array:
        """R' K R for a symmetric (n, n) matrix K, as a new array."""

    def scatter_floor(self, targets: Array, whitened: Array) -> Array:
        """2 gamma lambda Y' P^-1 Delta Y, the residual scatter that no map can avoid, since targets of similar samples differ.

        M(F) = (F - Y*)' P (F - Y*) + floor with Y* = lambda P^-1 Y; so written M never cancels. Zero for class targets.
        ``whitened`` is R^-1 Y.
        """
        pull = self.solve_factor(self.laplacian(targets))
        floor = 2 * self.collocation_weight * self.regression_weight * whitened.T @ pull
        return np.asarray(floor + floor.T) / 2

    def apply(self, outputs: Array) -> Array:
        """P F."""
        return self.regression_weight * outputs + 2 * self.collocation_weight * self.laplacian(outputs)


class Similarity(ABC):
    """The symmetric similarity S of the training samples, 0 <= s_ij <= s_ii."""

    held_arrays: int
    """How many (n, n) arrays the similarity and its coupling hold."""

    @property
    @abstractmethod
    def mean_degree(self) -> float:
        """The mean over samples, repeated as their weights say, of their total similarity to the other samples."""

    @abstractmethod
    def couple(self, regression_weight: float, collocation_weight: float) -> Coupling:
        """The coupling P for these weights."""


@dataclass(frozen=True, eq=False)
class ClassSimilarity(Similarity):
    """s_ij = 1 if samples i and j have the same class, else 0; never formed. ``weights`` of the samples are 1 unless given."""

    labels: Array
    weights: Array | None = None
    held_arrays = 0

    @property
    def mean_degree(self) -> float:
        sizes = np.bincount(self.labels, self.weights)
        return float(np.average((sizes - 1)[self.labels], weights=self.weights))

    def couple(self, regression_weight: float, collocation_weight: float) -> Coupling:
        roots = None if self.weights is None else np.sqrt(self.weights)
        return ClassCoupling(self.labels, regression_weight, collocation_weight, roots)


@dataclass(frozen=True, eq=False)
class ClassCoupling(Coupling):
    """Within class k, of weight n_k, P has the eigenvalue lambda on u, the roots of the weights, and lambda + 2 gamma n_k on what
    is orthogonal to it. Without weights u is constant: lambda belongs to the class mean.

    So every power of P is "scale the part along u, scale the deviations from it": R = P^(1/2), which is symmetric.
    """

    labels: Array
    regression_weight: float
    collocation_weight: float
    roots: Array | None = None

    @cached_property
    def _sizes(self) -> Array:
        return np.bincount(self.labels, None if self.roots is None else self.roots**2)

    @cached_property
    def _averages(self) -> Any:
        """The sparse (classes, n) matrix that takes class means: u'F / n_k."""
        samples = np.arange(len(self.labels))
        weights = (1 if self.roots is None else self.roots) / self._sizes[self.labels]
        return scipy.sparse.csr_array((weights, (self.labels, samples)), shape=(len(self._sizes), len(samples)))

    def _spread(self, means: Array, rows: slice = slice(None)) -> Array:
        """Class means given to the samples of the classes: u_i mean_k."""
        spread = means[self.labels[rows]]
        return np.asarray(spread if self.roots is None else self.roots[rows, None] * spread)

    def laplacian(self, outputs: Array) -> Array:
        centred = outputs - self._spread(self._averages @ outputs)
        return np.asarray(self._sizes[self.labels, None] * centred)

    def factor(self, outputs: Array, *, transpose: bool = False) -> Array:
        return self._power(outputs, 0.5)

    def solve_factor(self, outputs: Array, *, transpose: bool = False) -> Array:
        return self._power(outputs, -0.5)

    def _power(self, outputs: Array, exponent: float) -> Array:
        means = self._averages @ outputs
        deviation_scale, mean_scale = self._scales(exponent)
        scaled_means = (mean_scale - deviation_scale)[:, None] * means
        return np.asarray(deviation_scale[self.labels, None] * outputs + self._spread(scaled_means))

    def _scales(self, exponent: float) -> tuple[Array, float]:
        deviations = self.regression_weight + 2 * self.collocation_weight * self._sizes
        return deviations**exponent, self.regression_weight**exponent

    def sandwich(self, gram: Array) -> Array:
        deviation_scale, mean_scale = self._scales(0.5)
        shift = mean_scale - deviation_scale
        means = self._averages @ gram
        row_means = shift[:, None] * means
        column_means = self.factor(means.T) * shift  # those of R K, since K is symmetric
        result = deviation_scale[self.labels, None] * gram
        # In row blocks, so that the peak is the result and the input, not a third (n, n) array.
        for start in range(0, len(gram), 256):
            part = slice(start, start + 256)
            result[part] += self._spread(row_means, part)
            result[part] *= deviation_scale[self.labels]
            result[part] += self._spread(column_means[part].T).T
        return np.asarray(result)


@dataclass(frozen=True, eq=False)
class MatrixSimilarity(Similarity):
    """A similarity given as a dense or sparse (n, n) matrix; build it with `matrix_similarity`, which checks it."""

    matrix: Any
    weights: Array | None = None
    held_arrays = 3

    @property
    def degrees(self) -> Array:
        """S w: the total similarity of each sample to all, itself included."""
        if self.weights is None:
            return np.asarray(self.matrix.sum(axis=1)).ravel()
        return np.asarray(self.matrix @ self.weights)

    @property
    def mean_degree(self) -> float:
        return float(np.average(self.degrees - self.matrix.diagonal(), weights=self.weights))

    @property
    def repeated(self) -> Any:
        """s_ij w_i w_j."""
        return self.matrix if self.weights is None else _scaled(self.matrix, self.weights)

    def couple(self, regression_weight: float, collocation_weight: float) -> Coupling:
        if collocation_weight == 0:
            # S has no influence: P = lambda I, which the closed form of one class gives at no cost.
            return ClassCoupling(np.zeros(self.matrix.shape[0], dtype=np.intp), regression_weight, 0.0)
        matrix = self.matrix if self.weights is None else _scaled(self.matrix, np.sqrt(self.weights))
        return MatrixCoupling(matrix, self.degrees, regression_weight, collocation_weight)


def _scaled(matrix: Any, scales: Array) -> Any:
    """Row i and column i times scales[i]."""
    if scipy.sparse.issparse(matrix):
        diagonal: Any = scipy.sparse.diags_array(scales)
        return (diagonal @ matrix @ diagonal).tocsr()
    scaled = matrix * scales
    scaled *= scales[:, None]
    return scaled


@dataclass(frozen=True, eq=False)
class MatrixCoupling(Coupling):
    """The coupling of an arbitrary similarity, Delta = diag(degrees) - matrix; R is the Cholesky factor of P, which is positive
    definite since S >= 0.
    """

    matrix: Any
    degrees: Array
    regression_weight: float
    collocation_weight: float

    @cached_property
    def _cholesky(self) -> Array:
        require_memory(
            2 * 8.0 * len(self.degrees) ** 2,
            f"Factorising the similarity of {len(self.degrees)} samples",
            "use similarity='class', which needs no matrix, or fewer samples.",
        )
        coupling = -2 * self.collocation_weight * to_array(self.matrix)
        coupling[np.diag_indices_from(coupling)] += 2 * self.collocation_weight * self.degrees + self.regression_weight
        return np.asfortranarray(scipy.linalg.cholesky(coupling, lower=True, overwrite_a=True))

    def laplacian(self, outputs: Array) -> Array:
        return np.asarray(self.degrees[:, None] * outputs - self.matrix @ outputs)

    def factor(self, outputs: Array, *, transpose: bool = False) -> Array:
        return np.asarray((self._cholesky.T if transpose else self._cholesky) @ outputs)

    def solve_factor(self, outputs: Array, *, transpose: bool = False) -> Array:
        return np.asarray(scipy.linalg.solve_triangular(self._cholesky, outputs, lower=True, trans=1 if transpose else 0))

    def sandwich(self, gram: Array) -> Array:
        half = dtrmm(1.0, self._cholesky, gram.T, side=1, lower=1)
        return np.asarray(dtrmm(1.0, self._cholesky, half, side=0, lower=1, trans_a=1, overwrite_b=1))


def matrix_similarity(matrix: Any, n_samples: int) -> MatrixSimilarity:
    """Check the paper's conditions on a similarity (symmetric, 0 <= s_ij <= s_ii) and wrap it."""
    sparse = scipy.sparse.issparse(matrix)
    matrix = scipy.sparse.csr_array(matrix, dtype=np.float64) if sparse else np.asarray(matrix, dtype=np.float64)
    if matrix.shape != (n_samples, n_samples):
        raise ValueError(
            f"similarity must have one row and one column per training sample, {(n_samples, n_samples)}; its shape is "
            f"{matrix.shape}. In cross-validation give a callable on the targets, which follows the split."
        )
    entries = matrix.data if sparse else matrix
    check_finite(entries, "similarity")
    if sparse:
        difference = abs(matrix - matrix.T)
        if difference.nnz and difference.max() > 1e-10 * abs(matrix).max():
            raise ValueError(f"similarity is not symmetric: s_ij and s_ji differ by up to {difference.max():.3g}. Symmetrise it.")
    else:
        check_symmetric(matrix, "similarity", 1e-10)
    if entries.min(initial=0.0) < 0:
        raise ValueError(f"similarity must not be negative; its smallest entry is {entries.min():.3g}.")
    diagonal = matrix.diagonal()
    largest = matrix.max(axis=1).toarray().ravel() if sparse else matrix.max(axis=1)
    excess = largest - diagonal
    worst = int(excess.argmax())
    if excess[worst] > 1e-10 * largest.max():
        raise ValueError(
            f"similarity must satisfy s_ij <= s_ii; in row {worst} the largest entry is {largest[worst]:.3g} and the diagonal "
            f"{diagonal[worst]:.3g}. Raise the diagonal (it does not change the model)."
        )
    return MatrixSimilarity(matrix)


def gaussian_similarity(targets: Array, weights: Array | None = None) -> MatrixSimilarity:
    """exp(-|y_i - y_j|^2 / (2 h^2)) for real targets, with Scott's width h = spread * n^(-1 / (columns + 4)).

    The spread is the root mean square of the columns' standard deviations; n is the number of samples, or the sum of their weights.
    """
    n_samples, columns = targets.shape
    require_memory(
        2 * 8.0 * n_samples**2,
        f"The similarity of {n_samples} real targets",
        "set collocation_weight=0, which needs none, give a sparse similarity, or use fewer samples.",
    )
    variances = np.average((targets - np.average(targets, axis=0, weights=weights)) ** 2, axis=0, weights=weights)
    count = n_samples if weights is None else weights.sum()
    width = np.sqrt(variances.mean()) * count ** (-1 / (columns + 4))
    squares = cdist(targets, targets, "sqeuclidean")
    squares /= -2 * width**2
    return MatrixSimilarity(np.exp(squares, out=squares), weights)
