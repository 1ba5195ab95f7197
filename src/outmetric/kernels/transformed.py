"""A kernel with a metric of the input space: k(x T, x' T), so that |x - x'| becomes sqrt((x - x')' T T' (x - x'))."""

from __future__ import annotations

import collections.abc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outmetric.foundation import Array, storable
from outmetric.kernels.base import InputMetricKind, ScalarKernel, Takes
from outmetric.kernels.operators import SampleGram


@storable("Transformed")
@dataclass(frozen=True, eq=False)
class Transformed(ScalarKernel):
    """A scalar kernel on linearly transformed inputs.

    Parameters
    ----------
    kernel : ScalarKernel
        On vectors.
    transform : array of shape (d,) or (d, d)
        T, or its diagonal.
    """

    kernel: ScalarKernel
    transform: Array

    def __post_init__(self) -> None:
        transform = np.asarray(self.transform, dtype=np.float64)
        square = transform.ndim == 2 and transform.shape[0] == transform.shape[1]
        if not (transform.ndim == 1 or square) or not np.isfinite(transform).all():
            raise ValueError(f"transform must be d finite numbers or a (d, d) matrix of them; its shape is {transform.shape}.")
        object.__setattr__(self, "transform", transform)

    def inputs(self, X: Any) -> Any:
        """X T, in the precision of X."""
        if X.shape[1] != len(self.transform):
            raise ValueError(f"X has {X.shape[1]} features; the input metric was learned on {len(self.transform)}.")
        transform = self.transform.astype(X.dtype if X.dtype == np.float32 else np.float64, copy=False)
        if transform.ndim == 2:
            return np.asarray(X @ transform)
        return X.multiply(transform[None]).tocsr() if hasattr(X, "multiply") else X * transform

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def takes(self) -> Takes:
        return self.kernel.takes

    @property
    def settings(self) -> Mapping[str, Any]:
        kind = "diagonal" if self.transform.ndim == 1 else "full"
        return {**self.kernel.settings, "input metric": kind}

    def cost(self, points: Any) -> float:
        return self.kernel.cost(points) + float(self.transform.size)

    @property
    def has_bandwidth(self) -> bool:
        return self.kernel.has_bandwidth

    @property
    def given_by(self) -> str:
        return self.kernel.given_by

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        return self.kernel.input_metrics

    @property
    def has_integrals(self) -> bool:
        return self.kernel.has_integrals

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> Transformed:
        return replace(self, kernel=self.kernel.resolve(self.inputs(X), rng, y))

    def relative(self, X: Any, rng: np.random.Generator) -> Transformed:
        return replace(self, kernel=self.kernel.relative(self.inputs(X), rng))

    def values(self, X: Any, Z: Any) -> Array:
        rows = self.inputs(X)
        return self.kernel.values(rows, rows if X is Z else self.inputs(Z))

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        found = self.kernel.gradients(self.inputs(X), self.inputs(Z), coefficients, factors)
        return found @ self.transform.T if self.transform.ndim == 2 else found * self.transform

    def increments(self, X: Any, X_other: Any, Z: Any, weights: Array) -> Array | None:
        if self.transform.ndim == 2:  # the path is straight still, but no longer feature by feature
            return None
        return self.kernel.increments(self.inputs(X), self.inputs(X_other), self.inputs(Z), weights)

    def gram(self, X: Any) -> Array:
        return self.kernel.gram(self.inputs(X))

    def lazy_gram(self, X: Any) -> SampleGram:
        return self.kernel.lazy_gram(self.inputs(X))

    def product_width(self, X: Any) -> float:
        return self.kernel.product_width(self.inputs(X[:1]))

    def expansion(self, Z: Any, weights: Array) -> collections.abc.Callable[[Any], Array]:
        expand = self.kernel.expansion(self.inputs(Z), weights)
        return lambda X: expand(self.inputs(X))

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        evaluate = self.kernel.evaluator(self.inputs(Z), dtype)
        return lambda X: evaluate(self.inputs(X))

    def columns(self, X: Any) -> collections.abc.Callable[[Any], Array]:
        return self.kernel.columns(self.inputs(X))

    def diagonal(self, X: Any) -> Array:
        return self.kernel.diagonal(self.inputs(X))

    def to_onnx(self, values: Any, weights: Array) -> str:
        matrix = self.transform if self.transform.ndim == 2 else np.diag(self.transform)
        rows = values.graph("MatMul", values.rows, matrix)
        return str(self.kernel.to_onnx(values.graph.kernel_values(rows, values.points @ matrix), weights))
