"""Where a baseline learns: in the space of the data, or in the feature space of a kernel, by its principal components."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from outmetric.baselines.components import check_n_components, kernel_components
from outmetric.baselines.numbering import check_numbers, check_preprocessor, formed, numbered
from outmetric.estimators import (
    KernelTransformer,
    LinearMetric,
    Metric,
    MetricTransformer,
    OutputMetric,
    bandwidth_of,
    check_kernel_parameters,
    check_supervision,
    check_training,
    data_kind,
    declared_kernel,
    kept_points,
    own_copy,
)
from outmetric.foundation import (
    Array,
    announce,
    check_integer,
    check_number,
    check_sample_weight,
    generator,
    n_points,
    one_blas_thread,
    require_memory,
    storable,
    to_array,
)
from outmetric.kernels import MatrixKernel, Separable
from outmetric.solvers import Status

# Numbers in the data up to which one BLAS thread is fastest.
SMALL = 2**20
# Differences of features, at their largest, must have squares of squares in double precision.
REPRESENTABLE = 1e-70


@dataclass(frozen=True, eq=False)
class Embedded:
    """Coordinates of the training points, and the metric that a factor L for these coordinates makes."""

    points: Array
    measure: Callable[[Array], Metric]

    def threads(self) -> AbstractContextManager[None]:
        """Where to learn: with one BLAS thread, if the points are few."""
        return one_blas_thread() if self.points.size < SMALL else nullcontext()


@dataclass(frozen=True, eq=False)
class LabelledPoints:
    """The training points that count, with their class indices.

    Attributes
    ----------
    embedded : Embedded
    labels : array of shape (n,)
    rows : array of shape (n,)
        Their row numbers in X, of ``n_rows`` rows; those of weight 0 are left out.
    weights : array of shape (n,), or None
        Positive; None if all are 1.
    """

    embedded: Embedded
    labels: Array
    rows: Array
    n_rows: int
    weights: Array | None


@storable(check=lambda found, size: check_preprocessor(found.preprocessor))
class Baseline(MetricTransformer):
    """What LMNN and ITML share, in the space of the data or of a kernel."""

    max_iter: int
    tol: float
    verbose: bool
    preprocessor: Any = None  # for pickles that lack it
    classes_: Array

    @property
    def components_(self) -> Array:
        """L; read-only, since it is the metric's."""
        return self.metric_.metric_factor

    def score_pairs(self, pairs: Any) -> Array:
        """`pair_distance` by the name that it had in metric-learn before version 0.7."""
        warnings.warn("score_pairs is an old name: use pair_distance, or pair_score for similarities.", FutureWarning, stacklevel=2)
        return self.pair_distance(pairs)

    def _formed(self, given: Any, n_axes: int) -> Any:
        return formed(self.preprocessor, given, n_axes)

    @abstractmethod
    def _training_points(self, X: Any) -> Any:
        """X checked, and copied."""

    @abstractmethod
    def _embed(self, points: Any, y: Any = None, rows: Array | None = None) -> Embedded:
        """The training points where the baseline learns, or some ``rows`` of them; ``y`` for kernels that learn from labels."""


def check_limits(estimator: Baseline) -> None:
    """Raise ValueError unless the parameters say when to stop."""
    check_number("tol", estimator.tol)
    check_integer("max_iter", estimator.max_iter)


def embed_tuples(estimator: Baseline, tuples: Any, size: int, X: Any) -> tuple[Embedded, Array]:
    """The distinct points of tuples where the baseline learns, or those of X, and the tuples as row numbers of them."""
    _forget(estimator)
    if X is None and _is_numbered_kernel(estimator):
        X = estimator.preprocessor
    points, numbers = numbered(estimator._formed(tuples, 2) if X is None else tuples, size, X)
    embedded = estimator._embed(estimator._training_points(points))
    estimator.n_samples_fit_ = len(embedded.points)
    check_numbers(numbers, size, len(embedded.points))
    return embedded, numbers


def _forget(estimator: Baseline) -> None:
    """Nothing of an earlier fit of another kind may stay."""
    for name in ("classes_", "target_neighbors_", "comparisons_"):
        estimator.__dict__.pop(name, None)


def _is_numbered_kernel(estimator: Baseline) -> bool:
    """Whether row numbers are those of a kernel matrix, of which points cannot be taken one by one."""
    given = estimator.preprocessor
    return given is not None and not callable(given) and bool(get_tags(estimator).input_tags.pairwise)


def embed_with_classes(estimator: Baseline, X: Any, y: Any, sample_weight: Any = None) -> LabelledPoints:
    """The points of X that count, and the class index of each; fitted ``classes_``."""
    _forget(estimator)
    sample = estimator._training_points(estimator._formed(X, 1))
    n = n_points(sample)
    labels, holds_labels = check_supervision(estimator, y, n)
    weights = check_sample_weight(sample_weight, n)
    rows = np.arange(n) if weights is None else np.flatnonzero(weights)
    estimator.n_samples_fit_ = len(rows)
    if not holds_labels:
        raise ValueError(f"Unknown label type: {type(estimator).__name__} needs class labels, and y holds real targets.")
    estimator.classes_, codes = np.unique(labels[rows], return_inverse=True)
    if len(estimator.classes_) < 2:
        where = "y holds" if len(rows) == n else "among rows of positive sample_weight y holds"
        raise ValueError(f"{where} one class only, {estimator.classes_[0]}; at least two classes are needed.")
    embedded = estimator._embed(sample, labels[rows], None if len(rows) == n else rows)
    own = None if weights is None or (weights[rows] == 1).all() else weights[rows]
    return LabelledPoints(embedded, np.asarray(codes), rows, n, own)


def store(estimator: Baseline, metric: Metric, history: tuple[Any, ...], status: Status) -> None:
    """Keep what was learned, and warn if that was not all there is to learn."""
    estimator.metric_ = metric
    estimator.__dict__.pop("components_", None)  # of version 0.1
    estimator.history_ = history
    estimator.n_iter_ = len(history)
    estimator.status_ = status
    estimator._n_features_out = len(estimator.components_)
    if status not in (Status.CONVERGED, Status.LOCAL_OPTIMUM):
        warnings.warn(f"{type(estimator).__name__}: {status.value}", ConvergenceWarning, stacklevel=3)


def report(estimator: Baseline, text: str) -> None:
    """Tell of progress, if that was asked for."""
    if estimator.verbose:
        announce(type(estimator).__name__, text)


class LinearSpace(Baseline):
    """The metric is |L (x - x')|."""

    def _training_points(self, X: Any) -> Any:
        points = check_training(self, X, "sparse")
        if hasattr(points, "toarray"):
            n, d = points.shape
            require_memory(8.0 * 4 * n * d, f"{n} sparse samples of {d} features, made dense", "TruncatedSVD before this.")
        points = to_array(points).astype(np.float64)
        with np.errstate(over="ignore"):
            largest = float(np.abs(points - points[0]).max())
        if largest > 0 and not REPRESENTABLE < largest < 1 / REPRESENTABLE:
            raise ValueError(f"squared distances are not representable (points are up to {largest:.3g} apart); rescale the data.")
        return points

    def _embed(self, points: Any, y: Any = None, rows: Array | None = None) -> Embedded:
        return Embedded(points if rows is None else points[rows], LinearMetric)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class KernelSpace(KernelTransformer, Baseline):
    """The metric is |L (z(x) - z(x'))| with kernel principal components z.

    Methods set ``_negligible``, the variance relative to the first component below which they leave one out.
    """

    n_components: int | float | None
    random_state: Any
    _negligible: float

    def _training_points(self, X: Any) -> Any:
        check_n_components(self.n_components)
        check_kernel_parameters(self)
        kernel = declared_kernel(self)
        if isinstance(self.kernel, MatrixKernel) or len(kernel.scalars) > 1:
            raise ValueError(f"{type(self).__name__} takes a scalar kernel and one bandwidth.")
        points = check_training(self, X, kernel.takes)
        return own_copy(points, data_kind(self))

    def _embed(self, points: Any, y: Any = None, rows: Array | None = None) -> Embedded:
        is_matrix = data_kind(self) == "kernel values"
        some = points if rows is None else points[np.ix_(rows, rows) if is_matrix else rows]
        kernel = declared_kernel(self).resolve(some, generator(self.random_state), y)
        (scalar,) = kernel.scalars
        components = kernel_components(scalar, some, self.n_components, self._negligible)
        self.bandwidth_ = bandwidth_of(kernel)
        coefficients, kept = components.coefficients, kept_points(some, data_kind(self))
        if rows is not None and is_matrix:
            # Columns of other matrices will belong to all points.
            coefficients = np.zeros((n_points(points), coefficients.shape[1]))
            coefficients[rows] = components.coefficients
            kept = kept_points(points, "kernel values")

        def measure(factor: Array) -> Metric:
            return OutputMetric(Separable(scalar), kept, coefficients, factor, components.offset)

        return Embedded(components.coordinates, measure)
