"""Fitted metrics as frozen arrays: a map f, and the distance |L (f(x) - f(x'))| of its images.

Here f(x) = sum_j K(x, x_j) c_j, or f(x) = x for metrics that are linear in the data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from outmetric.estimators.attribution import exchanged, integrated, mix_of, warn_of_errors
from outmetric.foundation import GENEROSITY, Array, exportable, in_threads, n_points, objects, records, storable, to_array
from outmetric.kernels import MatrixKernel, ScalarKernel
from outmetric.rows import Jacobians, pull_back

# Kernel values evaluated at once in `map`: enough for fast matrix products, little beside the data.
BLOCK_BYTES = 2**25
# Points over which importances are averaged.
IMPORTANCE_ROWS = 1000


class Metric(ABC):
    """A learned metric, independent of the estimator that learned it.

    Called on two points it returns their distance, as metric-learn's ``get_metric`` does, so it serves wherever a function of two
    points is asked for. For many distances `coordinates` is faster by far: compute the points once, then use Euclidean
    distances.
    """

    metric_factor: Array

    @abstractmethod
    def map(self, X: Any) -> Array:
        """f(x) for each row of X."""

    @property
    def has_gradients(self) -> bool:
        """Whether the coordinates can be differentiated by the features."""
        return True

    @property
    def has_integrals(self) -> bool:
        """Whether these derivatives can be integrated along segments."""
        return True

    @abstractmethod
    def contributions(self, X: Any, Z: Any) -> Array:
        """What each feature contributes to the squared distance between row i of X and row i of Z, shape (n, d).

        They add up to it (see `outmetric.estimators.attribution`).
        """

    @abstractmethod
    def cost(self) -> float:
        """About how many numbers are looked at to map a point; infinite if nobody knows."""

    @abstractmethod
    def _sample(self, x: Any) -> Any:
        """A sample of one point, of the kind the metric was learned on."""

    def coordinates(self, X: Any) -> Array:
        """f(x) L': points whose Euclidean distance is the learned distance."""
        outputs = self.map(X)
        return np.asarray(outputs @ self.metric_factor.T.astype(outputs.dtype))

    @abstractmethod
    def to_onnx(self, graph: Any, rows: str) -> str:
        """Add `coordinates` of these rows to an `outmetric.export.Graph`, and return their name."""

    def distances(self, X: Any, Z: Any) -> Array:
        """The learned distance between row i of X and row i of Z, shape (n,)."""
        return np.asarray(np.linalg.norm(self.coordinates(X) - self.coordinates(Z), axis=1))

    def __call__(self, x: Any, z: Any, squared: bool = False) -> float:
        """The distance between two points (or its square)."""
        distance = float(self.distances(self._sample(x), self._sample(z))[0])
        return distance**2 if squared else distance


# Numbers that may be looked at in the trial of what a file holds, beside as many as take the place of the file so many times.
TRIED = 2**20
# Numbers that may be looked at to map a point, beside so many for each byte of the file: strings have many substrings.
MAPPED, MAPPED_EACH = 2**23, 16 * GENEROSITY
# Beyond it, squares of coordinates are not representable.
LARGEST = 1e150


def _check_stored(found: OutputMetric, size: int) -> None:
    outputs = found.coefficients.shape[1]
    if 8 * outputs**2 > GENEROSITY * size:
        raise ValueError(f"the map has {outputs} outputs, more than the file can hold the metric of")
    if not isinstance(found.kernel, MatrixKernel):
        raise ValueError(f"a map has a kernel that is a {type(found.kernel).__name__}")
    if found.kernel.n_outputs not in (None, outputs):
        raise ValueError(f"a map has {outputs} outputs, and its kernel {found.kernel.n_outputs}")
    if not all(np.abs(part).max(initial=0) < LARGEST for part in (found.coefficients, found.metric_factor, found.offset)):
        raise ValueError("a map has coefficients that no data explain")
    takes, shape = found.kernel.takes, found.points.shape
    if takes not in ("objects", "table") and (len(shape) != 2 or (shape[1] == 0) != (takes == "kernel values")):
        raise ValueError(f"a map has points of shape {shape}, and its kernel takes {takes}")
    if math.isfinite(cost := found.cost()) and cost > MAPPED + MAPPED_EACH * size:
        raise ValueError(f"to map a point takes {cost:.2g} numbers, far more than a file of its size should have")


def _work(found: OutputMetric) -> int:
    """What kernels look at beside each number of the points, where that is known; half of it is done once for many rows."""
    cost = found.cost() if isinstance(found.kernel, MatrixKernel) else math.inf
    return int(cost / 2) if math.isfinite(cost) else 0


def _sample(found: OutputMetric, size: int) -> Any:
    if found.kernel.takes == "kernel values":
        return np.ones((1, len(found.coefficients)))
    return found.points[:1] if found.can_be_tried(size) else None


def _used(found: OutputMetric, size: int) -> list[OutputMetric]:
    """Itself; where that could take any time, at least its kernel, for the first point."""
    if found.kernel.takes == "kernel values" or found.can_be_tried(size):
        return [found]
    return [OutputMetric(found.kernel, found.points[:1], found.coefficients[:1], found.metric_factor, found.offset)]


@storable("OutputMetric", check=_check_stored, sample=_sample, used=_used, work=_work)
@dataclass(frozen=True, eq=False)
class OutputMetric(Metric):
    """The metric |L (f(x) - f(x'))| with f(x) = sum_j K(x, x_j) c_j + offset. It can be pickled if its kernel can.

    Parameters
    ----------
    kernel : MatrixKernel
        With everything that depends on the training points already fixed.
    points : array or sparse matrix of shape (n_train, d), or array of n_train objects
        The training points x_j (an array without columns for a precomputed kernel, which does not need them).
    coefficients : array of shape (n_train, m)
    metric_factor : array of shape (p, m)
        L; distances use A = L'L, so its sign does not matter.
    offset : array of shape (m,)
        Added by `map`.
    """

    kernel: MatrixKernel
    points: Any = field(repr=False)
    coefficients: Array = field(repr=False)
    metric_factor: Array
    offset: Array

    def __post_init__(self) -> None:
        n, m = self.coefficients.shape
        if (n_points(self.points), self.offset.shape, self.metric_factor.shape[1:]) != (n, (m,), (m,)):
            raise ValueError(
                f"a map with coefficients of shape {(n, m)} needs {n} points, an offset of shape {(m,)} and a metric factor with "
                f"{m} columns; it has {n_points(self.points)}, {self.offset.shape} and {self.metric_factor.shape[1:]}."
            )

    @property
    def n_features(self) -> int:
        """How many columns the points have; none for objects, and for a precomputed kernel, which keeps no points."""
        return len(self.points.dtype.names or ()) if self.points.ndim == 1 else int(self.points.shape[1])

    def map(self, X: Any) -> Array:
        """f(x) for each row of X, shape (n, m), in row blocks so that memory stays bounded whatever n."""
        if self.points.ndim == 2 and X.shape[1] != self.points.shape[1] > 0:
            raise ValueError(f"X has {X.shape[1]} features; the metric was learned on {self.points.shape[1]}.")
        outputs = np.empty((n_points(X), self.coefficients.shape[1]), dtype=_float_dtype(X))
        kernel_values = max(1, len(self.kernel.scalars)) * len(self.coefficients)
        block = max(1, BLOCK_BYTES // (8 * kernel_values))

        def fill(part: slice) -> None:
            outputs[part] = self._expansion(X[part]) + self.offset

        parts = [slice(start, start + block) for start in range(0, len(outputs), block)]  # `gen_batches` refuses no rows
        for _ in in_threads(fill, parts) if len(parts) > 1 else map(fill, parts):
            pass
        return outputs

    @property
    def terms(self) -> list[tuple[ScalarKernel, Array]]:
        """Scalar kernels and weights W such that the coordinates are the sum of their k(x)' W, up to a constant."""
        factor = self.metric_factor.T
        terms = self.kernel.terms(self.coefficients)
        return [(part, share * weights @ factor) for scalar, weights in terms for part, share in scalar.summands]

    @property
    def has_gradients(self) -> bool:
        return bool(self._summands) and all(scalar.input_metrics for scalar in self._summands)

    @property
    def has_integrals(self) -> bool:
        return bool(self._summands) and all(scalar.has_integrals for scalar in self._summands)

    @property
    def _summands(self) -> list[ScalarKernel]:
        return [part for scalar in self.kernel.scalars for part, _ in scalar.summands] if self.kernel.has_terms else []

    def contributions(self, X: Any, Z: Any) -> Array:
        """What each feature contributes to the squared distance between row i of X and row i of Z, shape (n, d).

        By integrated gradients; for kernels without integrals of these (forests, products, functions) by exchange of columns
        between the two rows.
        """
        differences = self.coordinates(X) - self.coordinates(Z)
        if self.has_integrals:
            found, errors = integrated(self.terms, self.points, X, Z, differences)
            warn_of_errors(errors)
            return found
        if not self.n_features or self.kernel.takes in ("kernel values", "row numbers"):
            raise ValueError(
                f"distances by this kernel cannot be attributed to features: its data are {self.kernel.takes}, which have none."
            )
        return exchanged(self.coordinates, *mix_of(X, Z), differences)

    def importances(self) -> Array:
        """What a standard deviation of each feature moves points by, squared, on average, shape (d,); they sum to 1.

        That is the diagonal of the mean pull-back of the metric (see `outmetric.rows.pullback`) over the points that the map is
        made of, at most 1000 of them, times the variances of the features.
        """
        if not self.has_gradients:
            raise ValueError("the kernel has no gradients, from which the importance of features could be told.")
        n = len(self.coefficients)
        some = self.points[np.unique(np.linspace(0, n - 1, min(n, IMPORTANCE_ROWS)).astype(int))]

        pulled = pull_back([(some, None)], Jacobians(self.terms, self.points), "diagonal")
        weights = pulled.metric * pulled.variances
        return np.asarray(weights / (weights.sum() or 1.0))

    def cost(self) -> float:
        if self.kernel.takes == "row numbers":
            return float(self.coefficients.size * self.coefficients.shape[1])
        costs = [scalar.cost(self.points) for scalar in self.kernel.scalars] if self.kernel.has_terms else [math.inf]
        return sum(costs) + self.coefficients.size

    def can_be_tried(self, size: int) -> bool:
        """Whether mapping a point is known to take no more than a file of this size explains, or one call of a function."""
        cost = self.cost()
        return cost <= TRIED + GENEROSITY // 8 * size or (cost == math.inf and len(self.coefficients) == 1)

    @cached_property
    def _expansion(self) -> Callable[[Any], Array]:
        """F without its offset; kept, since some kernels prepare a good deal for it."""
        return self.kernel.expansion(self.points, self.coefficients)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # not what was cached

    def to_onnx(self, graph: Any, rows: str) -> str:
        factor = self.metric_factor.T
        terms = list(self.kernel.terms(self.coefficients))
        values = graph.kernel_values(rows, to_array(self.points))
        products = [scalar.to_onnx(values, weights @ factor) for scalar, weights in terms]
        return str(graph.sum([*products, graph.constant(self.offset @ factor)]))

    def _sample(self, x: Any) -> Any:
        names = self.points.dtype.names
        if names is not None:
            return records(np.array([list(x)], dtype=object), names)
        if self.points.ndim == 1:
            return objects([x])
        if hasattr(x, "toarray"):
            return x.reshape(1, -1)
        return _row(x)


def _check_linear(found: LinearMetric, size: int) -> None:
    if not isinstance(found.metric_factor, np.ndarray) or found.metric_factor.ndim != 2:
        raise ValueError("a linear metric has a factor that is no matrix")
    width = found.metric_factor.shape[1]
    if width > size:
        raise ValueError(f"a linear metric claims {width} features")
    if not np.abs(found.metric_factor).max(initial=0) < LARGEST:
        raise ValueError("a linear metric has a factor that no data explain")


@storable("LinearMetric", check=_check_linear, sample=lambda found, size: np.ones((1, found.metric_factor.shape[1])))
@dataclass(frozen=True, eq=False)
class LinearMetric(Metric):
    """The metric |L (x - x')|.

    Parameters
    ----------
    metric_factor : array of shape (p, d)
        L.
    """

    metric_factor: Array

    def map(self, X: Any) -> Array:
        """X itself."""
        if X.shape[1] != self.metric_factor.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features; the metric was learned on {self.metric_factor.shape[1]}.")
        return np.asarray(to_array(X), dtype=_float_dtype(X))

    def contributions(self, X: Any, Z: Any) -> Array:
        """What each feature contributes to the squared distance between row i of X and row i of Z: d_f (L'L d)_f, d = x - z."""
        steps = to_array(X) - to_array(Z)
        return np.asarray(steps * (self.coordinates(steps) @ self.metric_factor))

    def cost(self) -> float:
        return float(self.metric_factor.size)

    def coordinates(self, X: Any) -> Array:
        """L x for each row of X; sparse rows are not made dense."""
        if not hasattr(X, "toarray"):
            return super().coordinates(X)
        if X.shape[1] != self.metric_factor.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features; the metric was learned on {self.metric_factor.shape[1]}.")
        return np.asarray(X @ self.metric_factor.T.astype(_float_dtype(X)))

    def to_onnx(self, graph: Any, rows: str) -> str:
        return str(graph("MatMul", rows, self.metric_factor.T))

    def _sample(self, x: Any) -> Any:
        return _row(to_array(x))


def _to_onnx(graph: Any, model: Any, variables: Sequence[Any]) -> str:
    return str(model.metric_.to_onnx(graph, graph.rows(variables)))


# For estimators whose `transform` returns the coordinates of their ``metric_``.
exportable_metric = exportable(_to_onnx, lambda model: len(model.metric_.metric_factor), output="coordinates")


def _row(x: Any) -> Array:
    values = np.asarray(x)
    return values.astype(np.promote_types(values.dtype, np.float32)).reshape(1, -1)


def _float_dtype(X: Any) -> np.dtype[Any]:
    dtype = getattr(X, "dtype", None)
    return np.dtype(np.float32) if dtype == np.float32 else np.dtype(np.float64)
