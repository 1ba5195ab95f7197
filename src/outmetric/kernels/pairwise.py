"""scikit-learn's pairwise kernels that have no bandwidth: linear, polynomial, sigmoid, cosine, and the two of chi squared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import normalize

from outmetric.foundation import Array, n_points, to_array
from outmetric.kernels.base import InputMetricKind, NamedKernel, ScalarKernel, Takes, enter, times, weighted_sums


@dataclass(frozen=True, eq=False)
class PairwiseKernel(NamedKernel):
    """A kernel of `sklearn.metrics.pairwise` with its arguments."""

    params: Mapping[str, Any] = field(default_factory=dict)
    parameters: ClassVar[tuple[str, ...] | None] = ()

    @classmethod
    def make(cls, bandwidth: float | str, params: Mapping[str, Any]) -> Self:
        return cls(params)

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.params

    def values(self, X: Any, Z: Any) -> Array:
        return to_array(pairwise_kernels(X, None if X is Z else Z, metric=self.word, **self.params))


class Linear(PairwiseKernel):
    """x'x'."""

    word = "linear"

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        return ("diagonal", "full")

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        if factors is not None:
            return weighted_sums(factors, Z, coefficients)
        return np.broadcast_to((Z.T @ coefficients).T, (n_points(X), coefficients.shape[1], Z.shape[1]))

    def to_onnx(self, values: Any, weights: Array) -> str:
        return str(values.graph("MatMul", values.products(values.points), weights))


class Cosine(PairwiseKernel):
    """x'x' / (|x| |x'|)."""

    word = "cosine"

    def to_onnx(self, values: Any, weights: Array) -> str:
        graph = values.graph
        lengths = graph("Sqrt", graph("ReduceSum", graph("Mul", values.rows, values.rows), np.array([1])))
        # Zeros have no direction: their products are zero, whatever they are divided by.
        lengths = graph("Where", graph("Equal", lengths, 0.0), 1.0, lengths)
        return str(graph("MatMul", graph("Div", values.products(normalize(values.points)), lengths), weights))


class Polynomial(PairwiseKernel):
    """(gamma x'x' + coef0)^degree."""

    word = "polynomial"
    parameters: ClassVar[tuple[str, ...] | None] = ("degree", "gamma", "coef0")

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        return ("diagonal", "full")

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        return weighted_sums(times(self._slope(X, Z), factors), Z, coefficients)

    def _slope(self, X: Any, Z: Any) -> Array:
        """The derivative of k by x'z."""
        gamma, degree = self.params.get("gamma"), self.params.get("degree", 3)
        gamma = 1 / X.shape[1] if gamma is None else gamma
        return np.asarray(degree * gamma * (gamma * to_array(X @ Z.T) + self.params.get("coef0", 1)) ** (degree - 1))

    def to_onnx(self, values: Any, weights: Array) -> str:
        degree = float(self.params.get("degree", 3))
        return str(values.graph("MatMul", values.graph("Pow", self._shifted(values), degree), weights))

    def _shifted(self, values: Any) -> str:
        gamma = self.params.get("gamma")
        gamma = 1 / values.points.shape[1] if gamma is None else gamma
        return str(values.graph("Add", values.products(gamma * values.points), float(self.params.get("coef0", 1))))


class ShortPolynomial(Polynomial):
    """The same under its other name."""

    word = "poly"


class Sigmoid(Polynomial):
    """tanh(gamma x'x' + coef0), which is not positive semi-definite in general."""

    word = "sigmoid"
    parameters: ClassVar[tuple[str, ...] | None] = ("gamma", "coef0")

    def _slope(self, X: Any, Z: Any) -> Array:
        gamma = self.params.get("gamma")
        return np.asarray((1 / X.shape[1] if gamma is None else gamma) * (1 - self.values(X, Z) ** 2))

    def to_onnx(self, values: Any, weights: Array) -> str:
        return str(values.graph("MatMul", values.graph("Tanh", self._shifted(values)), weights))


class ChiSquared(PairwiseKernel):
    """exp(-gamma sum_j (x_j - x'_j)^2 / (x_j + x'_j))."""

    word = "chi2"
    parameters: ClassVar[tuple[str, ...] | None] = ("gamma",)

    @property
    def needs_positive(self) -> bool:
        return True

    @property
    def takes(self) -> Takes:
        return "arrays"

    def values(self, X: Any, Z: Any) -> Array:
        # scikit-learn's code for these wants writeable arrays.
        own = np.require(X, requirements="W")
        return super().values(own, own if X is Z else np.require(Z, requirements="W"))

    def diagonal(self, X: Any) -> Array:
        return np.ones(n_points(X))

    def to_onnx(self, values: Any, weights: Array) -> str:
        graph, gamma = values.graph, self.params.get("gamma")
        return str(graph("MatMul", graph("Exp", graph("Mul", values.chi2, -(1.0 if gamma is None else gamma))), weights))


class AdditiveChiSquared(ChiSquared):
    """-sum_j (x_j - x'_j)^2 / (x_j + x'_j)."""

    word = "additive_chi2"
    parameters: ClassVar[tuple[str, ...] | None] = ()

    def diagonal(self, X: Any) -> Array:
        return ScalarKernel.diagonal(self, X)

    def to_onnx(self, values: Any, weights: Array) -> str:
        return str(values.graph("MatMul", values.chi2, -weights))


for kernel in (Linear, ShortPolynomial, Polynomial, Sigmoid, Cosine, ChiSquared, AdditiveChiSquared):
    enter(kernel.word, kernel)
