"""From labels or real targets to the supervision of the models: targets Y, and the coupling P = lambda I + 2 gamma Delta.

Delta = diag(S 1) - S is the Laplacian of the similarity S. The functionals sum over all ordered pairs,
sum_ij s_ij |f_i - f_j|^2 = 2 tr(F' Delta F), hence the factor 2. The solvers see S only through P, and P only through a factor R
with P = R R'. For class similarity both P and R are applied in closed form, in time linear in the number of samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.linalg.blas import dtrmm
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from outmetric.memory import require_memory
from outmetric.operators import Array, check_finite, check_symmetric, to_array

LARGEST_TARGET = 1e100


@dataclass(frozen=True, eq=False)
class Targets:
    """What each training point should be mapped to.

    Attributes
    ----------
    values : array of shape (n, m)
        The targets Y.
    offset : array of shape (m,)
        Was taken off the user's targets (distances do not see it, and the models have no intercept); `map` adds it again.
    classes, labels, prototypes : arrays or None
        For class targets: the distinct labels, the class index of each sample, and the target of each class.
    """

    values: Array
    offset: Array
    classes: Array | None = None
    labels: Array | None = None
    prototypes: Array | None = None


def class_targets(y: Array, n_components: int | None = None, prototypes: str | Array = "simplex") -> Targets:
    """Targets of labelled samples: the prototype of each sample's class."""
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes[0]}): there is nothing to tell apart. Provide at least two classes, or real targets "
            "as an array of floats of shape (n_samples, n_targets)."
        )
    points = _prototypes(len(classes), n_components, prototypes)
    return Targets(points[labels], np.zeros(points.shape[1]), classes, labels, points)


def real_targets(y: Array, n_components: int | None = None) -> Targets:
    """Real targets, centred; reduced to their leading principal coordinates, or padded by zeros, to ``n_components`` columns."""
    values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    check_finite(values, "y")
    if np.abs(values).max(initial=0.0) > LARGEST_TARGET:
        raise ValueError(f"y reaches {np.abs(values).max():.3g}, whose squares overflow; rescale it.")
    mean = values.mean(axis=0)
    centred = values - mean
    if not centred.any():
        raise ValueError("y is constant: there are no distances to learn. Provide targets that vary.")
    turn = target_components(centred.T @ centred, n_components)
    return Targets(centred @ turn, mean @ turn)


def target_components(squares: Array, n_components: int | None) -> Array:
    """The (q, m) matrix that takes centred targets, Y'Y = ``squares``, to their components: principal ones, or padded by zeros."""
    columns = len(squares)
    if n_components is None or n_components >= columns:
        return np.eye(columns, n_components)
    directions = np.linalg.eigh(squares)[1][:, ::-1][:, :n_components]
    return np.asarray(directions * np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(n_components)]))


def target_rank(squares: Array) -> int:
    """How many components targets with Y'Y = ``squares`` span: natural units must not depend on components that stay zero."""
    return max(1, int(np.linalg.matrix_rank(squares)))


def _prototypes(n_classes: int, n_components: int | None, prototypes: str | Array) -> Array:
    if isinstance(prototypes, str):
        if prototypes == "simplex":
            n_components = n_classes - 1 if n_components is None else n_components
            return simplex(n_classes, n_components) if n_components >= n_classes - 1 else spread(n_classes, n_components)
        if prototypes == "onehot":
            if n_components not in (None, n_classes):
                raise ValueError(
                    f"prototypes='onehot' needs as many components as classes ({n_classes}), not n_components={n_components}; "
                    "use prototypes='simplex' for any other number."
                )
            return np.eye(n_classes)
        raise ValueError(f"prototypes={prototypes!r} is not known; use 'simplex', 'onehot' or an array (classes, components).")
    points = np.asarray(prototypes, dtype=np.float64)
    expected = (n_classes, points.shape[-1] if n_components is None and points.ndim == 2 else n_components)
    if points.shape != expected:
        raise ValueError(
            f"prototypes must have one row per class and n_components columns, {expected}; their shape is {points.shape}."
        )
    check_finite(points, "prototypes")
    if len(np.unique(points, axis=0)) < n_classes:
        raise ValueError("prototypes repeat a row: classes with the same target cannot be told apart. Make the rows distinct.")
    return points


def simplex(n_classes: int, n_components: int) -> Array:
    """The vertices of a regular simplex on the unit sphere, padded by zeros to ``n_components`` >= n_classes - 1 columns.

    Examples
    --------
    >>> simplex(3, 2).round(3)
    array([[ 1.   ,  0.   ],
           [-0.5  ,  0.866],
           [-0.5  , -0.866]])
    """
    points = np.zeros((n_classes, n_components))
    for k in range(n_classes - 1):
        # Vertex k uses axis k for what its first k coordinates leave of unit length; all later vertices share
        # the coordinate on axis k that makes their inner product with vertex k equal to -1 / (n_classes - 1).
        points[k, k] = np.sqrt(1 - points[k, :k] @ points[k, :k])
        points[k + 1 :, k] = (-1 / (n_classes - 1) - points[k, :k] @ points[k, :k]) / points[k, k]
    return points


def spread(n_classes: int, n_components: int) -> Array:
    """Points as far apart as possible on the unit sphere of fewer than n_classes - 1 dimensions; the same at every call.

    On the line they are equally spaced over [-1, 1], in the plane they are a regular polygon. In more dimensions the largest
    inner product is minimised through a soft maximum that is sharpened step by step.
    """
    if n_components == 1:
        return np.linspace(-1, 1, n_classes)[:, None]
    if n_components == 2:
        angles = 2 * np.pi * np.arange(n_classes) / n_classes
        return np.column_stack([np.cos(angles), np.sin(angles)])
    shape = (n_classes, n_components)
    upper = np.triu_indices(n_classes, k=1)

    def soft_maximum(flat: Array, sharpness: float) -> tuple[float, Array]:
        raw = flat.reshape(shape)
        norms = np.linalg.norm(raw, axis=1, keepdims=True)
        points = raw / norms
        products = sharpness * (points @ points.T)[upper]
        top = products.max()
        weights = np.exp(products - top)
        pull = np.zeros((n_classes, n_classes))
        pull[upper] = weights / weights.sum()
        gradient = (pull + pull.T) @ points
        gradient -= np.sum(gradient * points, axis=1, keepdims=True) * points
        return float(top + np.log(weights.sum())) / sharpness, (gradient / norms).ravel()

    rng = np.random.default_rng(0)
    best, closest = np.empty(shape), np.inf
    for _ in range(max(1, min(8, 200 // n_classes))):
        flat = rng.normal(size=shape).ravel()
        for sharpness in (4.0, 16.0, 64.0, 256.0, 1024.0):
            flat = minimize(soft_maximum, flat, args=(sharpness,), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
        points = flat.reshape(shape) / np.linalg.norm(flat.reshape(shape), axis=1, keepdims=True)
        largest = (points @ points.T)[upper].max()
        if largest < closest - 1e-9:
            best, closest = points, largest
    return best


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
        """The mean over samples of their total similarity to the other samples."""

    @abstractmethod
    def couple(self, regression_weight: float, collocation_weight: float) -> Coupling:
        """The coupling P for these weights."""


@dataclass(frozen=True, eq=False)
class ClassSimilarity(Similarity):
    """s_ij = 1 if samples i and j have the same class, else 0; never formed."""

    labels: Array
    held_arrays = 0

    @property
    def mean_degree(self) -> float:
        return float(np.mean(np.bincount(self.labels)[self.labels] - 1))

    def couple(self, regression_weight: float, collocation_weight: float) -> Coupling:
        return ClassCoupling(self.labels, regression_weight, collocation_weight)


@dataclass(frozen=True, eq=False)
class ClassCoupling(Coupling):
    """Within class k, P has the eigenvalue lambda on constants and lambda + 2 gamma n_k on what sums to zero.

    So every power of P is "scale the class means, scale the deviations from them": R = P^(1/2), which is symmetric.
    """

    labels: Array
    regression_weight: float
    collocation_weight: float

    @cached_property
    def _sizes(self) -> Array:
        return np.bincount(self.labels)

    @cached_property
    def _averages(self) -> Any:
        """The sparse (classes, n) matrix that takes class means."""
        samples = np.arange(len(self.labels))
        weights = 1 / self._sizes[self.labels]
        return scipy.sparse.csr_array((weights, (self.labels, samples)), shape=(len(self._sizes), len(samples)))

    def laplacian(self, outputs: Array) -> Array:
        centred = outputs - (self._averages @ outputs)[self.labels]
        return np.asarray(self._sizes[self.labels, None] * centred)

    def factor(self, outputs: Array, *, transpose: bool = False) -> Array:
        return self._power(outputs, 0.5)

    def solve_factor(self, outputs: Array, *, transpose: bool = False) -> Array:
        return self._power(outputs, -0.5)

    def _power(self, outputs: Array, exponent: float) -> Array:
        means = self._averages @ outputs
        deviation_scale, mean_scale = self._scales(exponent)
        scaled_means = (mean_scale - deviation_scale)[:, None] * means
        return np.asarray(deviation_scale[self.labels, None] * outputs + scaled_means[self.labels])

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
            result[part] += row_means[self.labels[part]]
            result[part] *= deviation_scale[self.labels]
            result[part] += column_means[part][:, self.labels]
        return np.asarray(result)


@dataclass(frozen=True, eq=False)
class MatrixSimilarity(Similarity):
    """A similarity given as a dense or sparse (n, n) matrix; build it with `matrix_similarity`, which checks it."""

    matrix: Any
    held_arrays = 3

    @property
    def mean_degree(self) -> float:
        return float((self.matrix.sum() - self.matrix.diagonal().sum()) / self.matrix.shape[0])

    def couple(self, regression_weight: float, collocation_weight: float) -> Coupling:
        if collocation_weight == 0:
            # S has no influence: P = lambda I, which the closed form of one class gives at no cost.
            return ClassCoupling(np.zeros(self.matrix.shape[0], dtype=np.intp), regression_weight, 0.0)
        return MatrixCoupling(self.matrix, regression_weight, collocation_weight)


@dataclass(frozen=True, eq=False)
class MatrixCoupling(Coupling):
    """The coupling of an arbitrary similarity; R is the Cholesky factor of P, which is positive definite since S >= 0."""

    matrix: Any
    regression_weight: float
    collocation_weight: float

    @cached_property
    def _degrees(self) -> Array:
        return np.asarray(self.matrix.sum(axis=1)).ravel()

    @cached_property
    def _cholesky(self) -> Array:
        require_memory(
            2 * 8.0 * len(self._degrees) ** 2,
            f"Factorising the similarity of {len(self._degrees)} samples",
            "use similarity='class', which needs no matrix, or fewer samples.",
        )
        coupling = -2 * self.collocation_weight * to_array(self.matrix)
        coupling[np.diag_indices_from(coupling)] += 2 * self.collocation_weight * self._degrees + self.regression_weight
        return np.asfortranarray(scipy.linalg.cholesky(coupling, lower=True, overwrite_a=True))

    def laplacian(self, outputs: Array) -> Array:
        return np.asarray(self._degrees[:, None] * outputs - self.matrix @ outputs)

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


def gaussian_similarity(targets: Array) -> MatrixSimilarity:
    """exp(-|y_i - y_j|^2 / (2 h^2)) for real targets, with Scott's width h = spread * n^(-1 / (columns + 4)).

    The spread is the root mean square of the columns' standard deviations.
    """
    n_samples, columns = targets.shape
    require_memory(
        2 * 8.0 * n_samples**2,
        f"The similarity of {n_samples} real targets",
        "set collocation_weight=0, which needs none, give a sparse similarity, or use fewer samples.",
    )
    width = np.sqrt(targets.var(axis=0).mean()) * n_samples ** (-1 / (columns + 4))
    squares = cdist(targets, targets, "sqeuclidean")
    squares /= -2 * width**2
    return MatrixSimilarity(np.exp(squares, out=squares))
