"""Scalar kernels made of others: weighted sums and products, both positive semi-definite if their parts are."""

from __future__ import annotations

import collections.abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import aslinearoperator

from outmetric.foundation import Array, storable
from outmetric.kernels.base import COMBINATIONS, ScalarKernel, Takes, strictest
from outmetric.kernels.operators import SampleGram
from outmetric.kernels.scalar import as_scalar

# In ONNX a product takes a square matrix of the points: up to so many.
ONNX_POINTS = 2000


@dataclass(frozen=True, eq=False)
class Combined(ScalarKernel):
    """What sums and products have in common: they are as demanding as the most demanding of their parts."""

    kernels: Sequence[Any]

    def __post_init__(self) -> None:
        if not isinstance(self.kernels, Sequence) or isinstance(self.kernels, str) or not self.kernels:
            raise ValueError(f"{type(self).__name__} needs a sequence of at least one kernel, not {self.kernels!r}.")
        object.__setattr__(self, "kernels", tuple(as_scalar(kernel) for kernel in self.kernels))
        strictest(self.kernels)

    @property
    def takes(self) -> Takes:
        return strictest(self.kernels)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {f"{kernel.name} {name}": value for kernel in self.kernels for name, value in kernel.settings.items()}

    @property
    def needs_positive(self) -> bool:
        return any(kernel.needs_positive for kernel in self.kernels)

    @property
    def is_arithmetic(self) -> bool:
        return all(kernel.is_arithmetic for kernel in self.kernels)

    @property
    def supervised(self) -> bool:
        return any(kernel.supervised for kernel in self.kernels)

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> Self:
        return replace(self, kernels=tuple(kernel.resolve(X, rng, y) for kernel in self.kernels))

    def _together(self, values: list[Any]) -> Any:
        """Values of the whole from those of its parts."""
        raise NotImplementedError

    def values(self, X: Any, Z: Any) -> Array:
        return np.asarray(self._together([kernel.cross(X, Z) for kernel in self.kernels]))

    def gram(self, X: Any) -> Array:
        return np.asarray(self._together([kernel.gram(X) for kernel in self.kernels]))

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        parts = [kernel.evaluator(Z, dtype) for kernel in self.kernels]
        return lambda X: np.asarray(self._together([part(X) for part in parts]), dtype=dtype)

    def columns(self, X: Any) -> collections.abc.Callable[[Any], Array]:
        parts = [kernel.columns(X) for kernel in self.kernels]
        return lambda rows: np.asarray(self._together([part(rows) for part in parts]))

    def diagonal(self, X: Any) -> Array:
        return np.asarray(self._together([kernel.diagonal(X) for kernel in self.kernels]))


@storable("ScalarSum")
@dataclass(frozen=True, eq=False)
class ScalarSum(Combined):
    """w_1 k_1 + w_2 k_2 + ... with weights >= 0 (default: ones); ``k_1 + 0.5 * k_2`` makes one.

    Examples
    --------
    >>> import numpy as np
    >>> from outmetric.kernels import Scalar
    >>> (Scalar("linear") + 0.5 * Scalar("rbf", bandwidth=1.0)).gram(np.array([[0.0], [1.0]])).round(4)
    array([[0.5   , 0.3033],
           [0.3033, 1.5   ]])
    """

    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = (1.0,) * len(self.kernels) if self.weights is None else self.weights
        if not isinstance(weights, Sequence) or isinstance(weights, str) or len(weights) != len(self.kernels):
            raise ValueError(f"a sum of {len(self.kernels)} kernels needs as many weights, not {weights!r}.")
        wrong = [weight for weight in weights if not _is_weight(weight)]
        if wrong:
            raise ValueError(f"a kernel may only be multiplied by a finite number >= 0, not by {wrong[0]!r}.")
        object.__setattr__(self, "weights", tuple(float(weight) for weight in weights))

    @property
    def terms(self) -> list[tuple[ScalarKernel, float]]:
        """The kernels and their weights."""
        return list(zip(self.kernels, self.weights or (), strict=True))

    @property
    def name(self) -> str:
        return " + ".join(kernel.name if weight == 1 else f"{weight:g} * {_factor(kernel)}" for kernel, weight in self.terms)

    def _together(self, values: list[Any]) -> Any:
        weights = self.weights or ()
        total = values[0] * weights[0]
        for value, weight in zip(values[1:], weights[1:], strict=True):
            total = total + value * weight
        return total

    def expansion(self, Z: Any, weights: Array) -> collections.abc.Callable[[Any], Array]:
        parts = [kernel.expansion(Z, weight * weights) for kernel, weight in self.terms]
        return lambda X: np.asarray(sum(part(X) for part in parts))

    def lazy_gram(self, X: Any) -> SampleGram:
        return self._together([aslinearoperator(kernel.lazy_gram(X)) for kernel in self.kernels])

    def to_onnx(self, values: Any, weights: Array) -> str:
        return str(values.graph.sum([kernel.to_onnx(values, weight * weights) for kernel, weight in self.terms]))


@storable("ScalarProduct")
@dataclass(frozen=True, eq=False)
class ScalarProduct(Combined):
    """k_1 k_2 ...: points are alike only if they are for all parts; ``k_1 * k_2`` makes one.

    Examples
    --------
    >>> import numpy as np
    >>> from outmetric.kernels import Scalar
    >>> (Scalar("linear") * Scalar("rbf", bandwidth=1.0)).gram(np.array([[1.0], [2.0]])).round(4)
    array([[1.    , 1.2131],
           [1.2131, 4.    ]])
    """

    @property
    def name(self) -> str:
        return " * ".join(_factor(kernel) for kernel in self.kernels)

    def _together(self, values: list[Any]) -> Any:
        return math.prod(values[1:], start=values[0])

    def to_onnx(self, values: Any, weights: Array) -> str:
        n, graph = len(weights), values.graph
        if n > ONNX_POINTS:
            raise ValueError(
                f"a product of kernels at {n} points cannot become an ONNX graph, for which {ONNX_POINTS} are the most; use "
                f"landmarks (n_landmarks={ONNX_POINTS // 2})."
            )
        product, *others = [kernel.to_onnx(values, np.eye(n)) for kernel in self.kernels]
        for other in others:
            product = graph("Mul", product, other)
        return str(graph("MatMul", product, weights))


def _factor(kernel: ScalarKernel) -> str:
    """Its name in a product."""
    return f"({kernel.name})" if isinstance(kernel, ScalarSum) and len(kernel.kernels) > 1 else kernel.name


def _is_weight(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= value < math.inf


def add(one: Any, other: Any) -> ScalarKernel:
    """Their sum; sums in it are not nested."""
    terms = [
        term
        for kernel in (as_scalar(one), as_scalar(other))
        for term in (kernel.terms if isinstance(kernel, ScalarSum) else [(kernel, 1.0)])
    ]
    return ScalarSum(tuple(kernel for kernel, _ in terms), tuple(weight for _, weight in terms))


def multiply(one: Any, other: Any) -> ScalarKernel:
    """Their product, where one may be a number."""
    for kernel, number in ((one, other), (other, one)):
        if isinstance(number, Real):
            terms = kernel.terms if isinstance(kernel, ScalarSum) else [(kernel, 1.0)]
            # The number is checked with the weights; it must not become one by being multiplied.
            checked = ScalarSum((kernel,), (number,)).weights or ()
            return ScalarSum(tuple(part for part, _ in terms), tuple(checked[0] * weight for _, weight in terms))
    kernels = (as_scalar(one), as_scalar(other))
    factors = [part for kernel in kernels for part in (kernel.kernels if isinstance(kernel, ScalarProduct) else (kernel,))]
    return ScalarProduct(tuple(factors))


COMBINATIONS.add("+", add)
COMBINATIONS.add("*", multiply)
