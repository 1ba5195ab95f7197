"""Scalar kernels made of others: weighted sums, products, and a kernel for each group of a table's columns.

All are positive semi-definite if their parts are.
"""

from __future__ import annotations

import collections.abc
import math
import reprlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from scipy.sparse.linalg import aslinearoperator

from outmetric.foundation import Array, is_missing, storable
from outmetric.kernels.base import COMBINATIONS, InputMetricKind, ScalarKernel, Takes, strictest
from outmetric.kernels.operators import SampleGram
from outmetric.kernels.scalar import as_scalar

# In ONNX a product takes a square matrix of the points: up to so many.
ONNX_POINTS = 2000


class Combined(ScalarKernel):
    """What they have in common: they are as demanding as the most demanding of their parts."""

    @property
    @abstractmethod
    def parts(self) -> tuple[ScalarKernel, ...]:
        """The kernels that it is made of."""

    @abstractmethod
    def _together(self, values: list[Any]) -> Any:
        """Values of the whole from those of its parts."""

    def _samples(self, X: Any) -> list[Any]:
        """What each part gets of a sample; the sample itself, unless a kernel overrides it."""
        return [X] * len(self.parts)

    @property
    def takes(self) -> Takes:
        return strictest(self.parts)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {f"{kernel.name} {name}": value for kernel in self.parts for name, value in kernel.settings.items()}

    @property
    def needs_positive(self) -> bool:
        return any(kernel.needs_positive for kernel in self.parts)

    def cost(self, points: Any) -> float:
        return sum(kernel.cost(sample) for kernel, sample in zip(self.parts, self._samples(points), strict=True))

    @property
    def supervised(self) -> bool:
        return any(kernel.supervised for kernel in self.parts)

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        """Those that all parts allow."""
        first, *others = [kernel.input_metrics for kernel in self.parts]
        return tuple(kind for kind in first if all(kind in allowed for allowed in others))

    def values(self, X: Any, Z: Any) -> Array:
        pairs = zip(self.parts, self._samples(X), self._samples(Z), strict=True)
        return np.asarray(self._together([kernel.cross(one, other) for kernel, one, other in pairs]))

    def gram(self, X: Any) -> Array:
        samples = zip(self.parts, self._samples(X), strict=True)
        return np.asarray(self._together([kernel.gram(sample) for kernel, sample in samples]))

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        parts = [kernel.evaluator(sample, dtype) for kernel, sample in zip(self.parts, self._samples(Z), strict=True)]

        def evaluate(X: Any) -> Array:
            samples = zip(parts, self._samples(X), strict=True)
            return np.asarray(self._together([part(sample) for part, sample in samples]), dtype=dtype)

        return evaluate

    def columns(self, X: Any) -> collections.abc.Callable[[Any], Array]:
        parts = [kernel.columns(sample) for kernel, sample in zip(self.parts, self._samples(X), strict=True)]
        return lambda rows: np.asarray(self._together([part(rows) for part in parts]))

    def diagonal(self, X: Any) -> Array:
        samples = zip(self.parts, self._samples(X), strict=True)
        return np.asarray(self._together([kernel.diagonal(sample) for kernel, sample in samples]))


def _kernels(given: Any) -> tuple[ScalarKernel, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ValueError(f"a sum or product of kernels needs a sequence of at least one kernel, not {given!r}.")
    kernels = tuple(as_scalar(kernel) for kernel in given)
    strictest(kernels)
    return kernels


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

    kernels: Sequence[Any]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", _kernels(self.kernels))
        weights = (1.0,) * len(self.kernels) if self.weights is None else self.weights
        if not isinstance(weights, Sequence) or isinstance(weights, str) or len(weights) != len(self.kernels):
            raise ValueError(f"a sum of {len(self.kernels)} kernels needs as many weights, not {weights!r}.")
        wrong = [weight for weight in weights if not _is_weight(weight)]
        if wrong:
            raise ValueError(f"a kernel may only be multiplied by a finite number >= 0, not by {wrong[0]!r}.")
        object.__setattr__(self, "weights", tuple(float(weight) for weight in weights))

    @property
    def parts(self) -> tuple[ScalarKernel, ...]:
        return tuple(self.kernels)

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> ScalarSum:
        return replace(self, kernels=[kernel.resolve(X, rng, y) for kernel in self.kernels])

    def relative(self, X: Any, rng: np.random.Generator) -> ScalarSum:
        return replace(self, kernels=[kernel.relative(X, rng) for kernel in self.kernels])

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        return np.asarray(sum(weight * kernel.gradients(X, Z, coefficients, factors) for kernel, weight in self.terms))

    @property
    def terms(self) -> list[tuple[ScalarKernel, float]]:
        """The kernels and their weights."""
        return list(zip(self.kernels, self.weights or (), strict=True))

    @property
    def summands(self) -> list[tuple[ScalarKernel, float]]:
        return [(part, weight * factor) for kernel, weight in self.terms for part, factor in kernel.summands]

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
        total: SampleGram = self._together([aslinearoperator(kernel.lazy_gram(X)) for kernel in self.kernels])
        return total

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

    kernels: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", _kernels(self.kernels))

    @property
    def parts(self) -> tuple[ScalarKernel, ...]:
        return tuple(self.kernels)

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> ScalarProduct:
        return replace(self, kernels=[kernel.resolve(X, rng, y) for kernel in self.kernels])

    @property
    def has_integrals(self) -> bool:
        return False  # a Laplacian among its factors has a corner for each point and feature, and the product no formula

    def relative(self, X: Any, rng: np.random.Generator) -> ScalarProduct:
        return replace(self, kernels=[kernel.relative(X, rng) for kernel in self.kernels])

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        values = [kernel.values(X, Z) for kernel in self.kernels]
        start = np.ones_like(values[0]) if factors is None else factors
        others = [math.prod(values[:place] + values[place + 1 :], start=start) for place in range(len(values))]
        pairs = zip(self.kernels, others, strict=True)
        return np.asarray(sum(kernel.gradients(X, Z, coefficients, other) for kernel, other in pairs))

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


@storable("ColumnKernels")
@dataclass(frozen=True, eq=False)
class Columns(Combined):
    """A kernel for each group of a table's columns, such as texts or sequences beside numbers.

    Parameters
    ----------
    groups : mapping of columns to kernels
        The columns are a name or position, or a tuple of those; the kernel is one, or a name or function. Kernels of numbers get
        arrays of floats. Kernels of objects, such as `Spectrum`, get the entries of a single column, or rows of numbers if their
        columns are a tuple. Columns that are in no group are left out.
    combine : "product" or "sum"
        Rows are alike if they are in all groups, or the more so the more groups they are in. For other weights give kernels with
        factors: ``0.5 * kernels.Scalar("rbf")``.

    Examples
    --------
    >>> import numpy as np
    >>> from outmetric import LearnedKernelMetric
    >>> from outmetric.kernels import Columns, Spectrum
    >>> fruit = [["banana", 120, 19], ["bandana", 60, 50], ["ananas", 900, 20], ["cabana", 9e6, 500]]
    >>> kernel = Columns({0: Spectrum(2), (1, 2): "rbf"})
    >>> LearnedKernelMetric(kernel=kernel).fit(np.array(fruit, dtype=object), [1, 0, 1, 0]).transform([["banane", 100, 18]]).shape
    (1, 1)
    """

    groups: Mapping[Any, Any]
    combine: Literal["product", "sum"] = "product"

    def __post_init__(self) -> None:
        if not isinstance(self.groups, Mapping) or not self.groups:
            raise ValueError(
                f"Columns needs a mapping of columns to kernels, such as {{('age', 'income'): 'rbf'}}, not {self.groups!r}."
            )
        if self.combine not in ("product", "sum"):
            raise ValueError(f"combine must be 'product' or 'sum', not {self.combine!r}.")
        for key in self.groups:
            if not _columns_of(key) or not all(isinstance(column, str | Integral) for column in _columns_of(key)):
                raise ValueError(f"columns are given by a name or position, or by a tuple of those, not {key!r}.")
        groups = {key: as_scalar(kernel) for key, kernel in self.groups.items()}
        for key, kernel in groups.items():
            if kernel.takes in ("kernel values", "row numbers", "table"):
                raise ValueError(f"the kernel of the columns {key!r} takes {kernel.takes}, which columns do not hold.")
        object.__setattr__(self, "groups", groups)

    @property
    def parts(self) -> tuple[ScalarKernel, ...]:
        return tuple(self.groups.values())

    @property
    def takes(self) -> Takes:
        return "table"

    @property
    def needs_positive(self) -> bool:
        return False  # of some columns only; the kernel will tell

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        return ()  # a metric of rows of numbers, which columns need not be

    @property
    def name(self) -> str:
        sign = " * " if self.combine == "product" else " + "
        return sign.join(f"{_factor(kernel)} of {_in_words(key)}" for key, kernel in self.groups.items())

    @property
    def given_by(self) -> str:
        return "groups of columns"

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> Columns:
        samples = zip(self.groups.items(), self._samples(X), strict=True)
        return replace(self, groups={key: kernel.resolve(sample, rng, y) for (key, kernel), sample in samples})

    def _samples(self, X: Any) -> list[Any]:
        if getattr(X, "dtype", np.dtype(float)).names is None:
            raise ValueError("Columns compares rows of tables: give a DataFrame or a two-dimensional array.")
        return [_sample(key, kernel, X) for key, kernel in self.groups.items()]

    def _together(self, values: list[Any]) -> Any:
        return math.prod(values[1:], start=values[0]) if self.combine == "product" else sum(values[1:], start=values[0])


def _columns_of(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _in_words(key: Any) -> str:
    return ", ".join(str(column) for column in _columns_of(key))


def _sample(key: Any, kernel: ScalarKernel, X: Array) -> Array:
    """What a kernel gets of records: the entries of a column, or rows of numbers."""
    names = X.dtype.names or ()
    found = []
    for column in _columns_of(key):
        known = column in names if isinstance(column, str) else -len(names) <= column < len(names)
        if not known:
            raise ValueError(f"the table has no column {column!r}; it has {reprlib.repr(list(names))}.")
        found.append(column if isinstance(column, str) else names[column])
    if kernel.takes == "objects" and not isinstance(key, tuple):
        return _complete(X[found[0]].astype(object), found[0])
    return np.stack([_numbers(X[name], name) for name in found], axis=1)


def _complete(values: Array, name: str) -> Array:
    gaps = [row for row, value in enumerate(values) if is_missing(value)]
    if gaps:
        raise ValueError(f"column {name!r} has {len(gaps)} missing entries, the first in row {gaps[0] + 1} (counted from 1).")
    return values


def _numbers(values: Array, name: str) -> Array:
    if values.dtype == object:
        row = next((row for row, value in enumerate(values) if not isinstance(value, Real)), None)
        if row is None:
            return _numbers(values.astype(np.float64), name)
        raise ValueError(
            f"column {name!r} is compared as a number, and holds {reprlib.repr(values[row])} in row {row + 1} (counted from 1). "
            "Make numbers of it, or give it a kernel of its own, such as kernels.Spectrum for texts."
        )
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise ValueError(f"column {name!r} contains NaN or infinity, first in row {wrong[0] + 1} (counted from 1).")
    return values


def _factor(kernel: ScalarKernel) -> str:
    """Its name in a product."""
    return f"({kernel.name})" if isinstance(kernel, ScalarSum) and len(kernel.kernels) > 1 else kernel.name


def _is_weight(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < math.inf


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
            checked = ScalarSum((kernel,), (number,)).weights or ()  # type: ignore[arg-type]
            return ScalarSum(tuple(part for part, _ in terms), tuple(checked[0] * weight for _, weight in terms))
    kernels = (as_scalar(one), as_scalar(other))
    factors = [part for kernel in kernels for part in (kernel.kernels if isinstance(kernel, ScalarProduct) else (kernel,))]
    return ScalarProduct(tuple(factors))


COMBINATIONS.add("+", add)
COMBINATIONS.add("*", multiply)
