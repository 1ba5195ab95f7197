"""Where a baseline learns: in the space of the data, or in the feature space of a kernel, by its principal components."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from outmetric.baselines.components import check_n_components, kernel_components
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
from outmetric.foundation import Array, check_number
from outmetric.kernels import MatrixKernel, Separable
from outmetric.solvers import Status

# Numbers in the data up to which one BLAS thread is fastest.
SMALL = 2**20
# Differences of features, at their largest, must have squares of squares in double precision.
REPRESENTABLE = 1e-70


class Baseline(MetricTransformer):
    """What LMNN and ITML share, in the space of the data or of a kernel."""

    max_iter: int
    tol: float
    verbose: bool
    status_: Status

    @abstractmethod
    def _training_points(self, X: Any) -> Any:
        """X checked, and copied."""

    @abstractmethod
    def _embed(self, points: Any) -> tuple[Array, Callable[[Array], Metric]]:
        """Coordinates of the training points, and the metric that a factor L for these coordinates makes."""

    def _check_limits(self) -> None:
        check_number("tol", self.tol)
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be an integer >= 1, not {self.max_iter!r}.")

    def _check_labels(self, y: Any, n_samples: int) -> Array:
        """Class indices."""
        labels, holds_labels = check_supervision(self, y, n_samples)
        self.n_samples_fit_ = n_samples
        if not holds_labels:
            raise ValueError(f"Unknown label type: {type(self).__name__} needs class labels, and y holds real targets.")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {self.classes_[0]}; at least two classes are needed.")
        return np.asarray(codes)

    def _store(self, metric: Metric, history: tuple[Any, ...], status: Status) -> None:
        self.metric_ = metric
        self.components_ = metric.metric_factor
        self.history_ = history
        self.n_iter_ = len(history)
        self.status_ = status
        self._n_features_out = len(self.components_)
        if status is not Status.CONVERGED:
            warnings.warn(f"{type(self).__name__}: {status.value}", ConvergenceWarning, stacklevel=3)

    def _say(self, message: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {message}", file=sys.stderr)


class LinearSpace(Baseline):
    """The metric is |L (x - x')|."""

    def _training_points(self, X: Any) -> Any:
        points = check_training(self, X, "arrays").astype(np.float64)
        with np.errstate(over="ignore"):
            largest = float(np.abs(points - points[0]).max())
        if largest > 0 and not REPRESENTABLE < largest < 1 / REPRESENTABLE:
            raise ValueError(f"squared distances are not representable (points are up to {largest:.3g} apart); rescale the data.")
        return points

    def _embed(self, points: Any) -> tuple[Array, Callable[[Array], Metric]]:
        return points, LinearMetric


class KernelSpace(KernelTransformer, Baseline):
    """The metric is |L (z(x) - z(x'))| with kernel principal components z."""

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

    def _embed(self, points: Any) -> tuple[Array, Callable[[Array], Metric]]:
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        kernel = declared_kernel(self).resolve(points, rng)
        (scalar,) = kernel.scalars
        components = kernel_components(scalar, points, self.n_components, self._negligible)
        self.bandwidth_ = bandwidth_of(kernel)
        kept = kept_points(points, data_kind(self))

        def measure(factor: Array) -> Metric:
            return OutputMetric(Separable(scalar), kept, components.coefficients, factor, components.offset)

        return components.coordinates, measure
