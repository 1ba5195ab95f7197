"""What a scalar kernel k(x, x') is: an object that knows all there is to know about it.

A new kernel is a subclass in a file of its own, with a name in `KERNELS`; no other module asks for its name.
"""

from __future__ import annotations

import collections.abc
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

import numpy as np
from sklearn.utils import gen_batches

from outmetric.foundation import (
    REGISTERED,
    Array,
    Registry,
    check_finite,
    check_symmetric,
    how_stored,
    n_points,
    psd_tolerance,
    scaled_rows,
    storable,
    to_array,
)
from outmetric.kernels.operators import SampleGram, row_blocks

# Rows evaluated at once when a Gram matrix is not held in memory: large enough for fast products, small beside the data.
LAZY_ROWS = 512
# The squares of small blocks are a fast enough way to a diagonal.
DIAGONAL_ROWS = 256
# What the data of a kernel may be, strictest first: rows of kernel values, row numbers into precomputed blocks, tables as arrays of
# records, numeric arrays, also sparse ones, any objects.
Takes = Literal["kernel values", "row numbers", "table", "arrays", "sparse", "objects"]

# Metrics of the input space: a weight for each feature, or any Mahalanobis metric.
InputMetricKind = Literal["diagonal", "full"]


class KernelFacts(ABC):
    """What a scalar kernel says of itself."""

    @property
    @abstractmethod
    def takes(self) -> Takes:
        """What the data may be."""

    @property
    @abstractmethod
    def name(self) -> str:
        """For people."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What was set or found out, for people."""
        return {}

    @property
    def needs_positive(self) -> bool:
        """Whether the data must not be negative."""
        return False

    def cost(self, points: Any) -> float:
        """About how many numbers are looked at to compare a point with these; infinite if nobody knows."""
        return math.inf

    @property
    def supervised(self) -> bool:
        """Whether `resolve` learns from targets as well."""
        return False

    @property
    def has_bandwidth(self) -> bool:
        """Whether it has an attribute ``bandwidth`` that counts."""
        return False

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        """Which metrics of the input space can be learned from its gradients; none if it has no gradients."""
        return ()

    @property
    def has_integrals(self) -> bool:
        """Whether its gradients can be integrated along segments: by a formula, or since they are smooth enough for quadrature."""
        return bool(self.input_metrics)

    @property
    def given_by(self) -> str:
        """How it is given, for messages."""
        return "a Python function"

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"kernel {self.name!r}"


@storable(is_kernel=True)
class ScalarKernel(KernelFacts):
    """A scalar kernel k(x, x').

    A new one writes ``takes``, ``name`` and ``values``, and ``make`` if people may ask for it by name. What depends on the training
    points is fixed by ``resolve``. Everything else has a default.
    """

    # What kernel_params may hold; None: `make` knows.
    parameters: ClassVar[tuple[str, ...] | None] = None
    # Whether values between a sample and itself are symmetric by construction; what users give is checked.
    symmetric: ClassVar[bool] = True

    def product_width(self, X: Any) -> float:
        """Numbers of each point that a product with a matrix that is not held reads; infinite if it evaluates the kernel."""
        return np.inf

    @abstractmethod
    def values(self, X: Any, Z: Any) -> Array:
        """Kernel values between two samples, (n, p)."""

    @classmethod
    def make(cls, bandwidth: float | str, params: Mapping[str, Any]) -> Self:
        """The kernel that an estimator's ``bandwidth`` and ``kernel_params`` describe."""
        return cls(**params)

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> ScalarKernel:
        """The same kernel with everything that depends on the training points, or is learned from them, fixed.

        ``y`` are their labels or real targets, of shape (n,) or (n, q), for kernels that are ``supervised``.
        """
        return self

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        """The Jacobian at each x of f(x) = sum_j k(x, z_j) c_j, as an array of shape (n, m, d); C has the shape (p, m).

        ``factors`` of shape (n, p) multiply the gradient of each pair, as the other factors of a product of kernels do.
        """
        known = [name for name, kind in KERNELS.items() if kind.gradients is not ScalarKernel.gradients]
        raise ValueError(
            f"{self.title} has no gradients, from which an input metric could be learned; use one of {', '.join(known)}."
        )

    def increments(self, X: Any, X_other: Any, Z: Any, weights: Array) -> Array | None:
        """What each feature contributes to sum_j w_ij (k(x_i, z_j) - k(x'_i, z_j)) on the way from x'_i to x_i, shape (n, d).

        That is (x - x')_f times the integral of the derivative by feature f along the segment, so that contributions add up;
        weights have the shape (n, p). None: there is no closed form, and `gradients` are integrated numerically.
        """
        return None

    @property
    def summands(self) -> list[tuple[ScalarKernel, float]]:
        """Kernels and weights whose sum it is."""
        return [(self, 1.0)]

    def relative(self, X: Any, rng: np.random.Generator) -> ScalarKernel:
        """The same kernel with a bandwidth that follows the points: a number becomes a multiple of their typical distance."""
        return self

    def gram(self, X: Any) -> Array:
        """The symmetric (n, n) matrix of kernel values between training points."""
        gram = self._shaped(self.values(X, X), X, X)
        if not self.symmetric:
            check_symmetric(gram, f"the Gram matrix of {self.title}", psd_tolerance(gram.dtype))
        check_finite(gram, f"the Gram matrix of {self.title}")
        return gram

    def cross(self, X: Any, X_train: Any) -> Array:
        """The (n, n_train) matrix of kernel values between new points and training points."""
        values = self._shaped(self.values(X, X_train), X, X_train)
        check_finite(values, f"the cross Gram matrix of {self.title}")
        return values

    def _shaped(self, values: Array, X: Any, Z: Any) -> Array:
        expected = n_points(X), n_points(Z)
        if np.shape(values) != expected:
            raise ValueError(
                f"{self.title} returned an array of shape {np.shape(values)} for {expected[0]} and {expected[1]} points; expected: "
                f"{expected}, a row for each of the first and a column for each of the second. Mend its `values`."
            )
        return values

    def lazy_gram(self, X: Any) -> SampleGram:
        """The Gram matrix, evaluated in row blocks at every product and never held."""
        n = n_points(X)
        evaluate = self.evaluator(X, np.float64)
        return row_blocks(lambda part: evaluate(X[part]), (n, n), LAZY_ROWS)

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        """A fast function X -> kernel values between X and fixed points Z, in this precision, for many blocks X."""
        return lambda X: self.cross(X, Z).astype(dtype, copy=False)

    def expansion(self, Z: Any, weights: Array) -> collections.abc.Callable[[Any], Array]:
        """A function X -> sum_j k(x, z_j) w_j for each point of X, for many blocks X; weights have shape (p,) or (p, m)."""
        return lambda X: np.asarray(self.cross(X, Z) @ weights)

    def columns(self, X: Any) -> collections.abc.Callable[[Any], Array]:
        """A function rows -> kernel values between all points of a sample and those in some rows of it, (n, rows)."""
        evaluate = self.evaluator(X, np.float64)
        return lambda rows: evaluate(X[rows]).T

    def diagonal(self, X: Any) -> Array:
        """k(x, x) of each point."""
        parts = [X[part] for part in gen_batches(n_points(X), self._diagonal_rows)]
        return np.concatenate([np.diagonal(self.cross(part, part)).astype(np.float64) for part in parts])

    @property
    def _diagonal_rows(self) -> int:
        """How many points are compared at once for their diagonal; for kernels to override."""
        return DIAGONAL_ROWS

    def to_onnx(self, values: Any, weights: Array) -> str:
        """The product of kernel values and a matrix of weights, as nodes of an ONNX graph.

        Parameters
        ----------
        values : KernelValues
            Of `outmetric.export`: the graph, the rows and points, and what several kernels have in common.
        weights : array of shape (n_points, m)

        Returns
        -------
        str
            The name of the result.
        """
        known = [name for name, kind in KERNELS.items() if kind.to_onnx is not ScalarKernel.to_onnx]
        raise ValueError(f"a kernel that is given by {self.given_by} cannot become an ONNX graph; use one of {', '.join(known)}.")

    def __add__(self, other: Any) -> ScalarKernel:
        return _combined("+", self, other)

    def __radd__(self, other: Any) -> ScalarKernel:
        return _combined("+", other, self)

    def __mul__(self, other: Any) -> ScalarKernel:
        return _combined("*", self, other)

    def __rmul__(self, other: Any) -> ScalarKernel:
        return _combined("*", other, self)


class NamedKernel(ScalarKernel):
    """One that people know by a name, made of plain arithmetic on numbers, sparse ones included."""

    word: ClassVar[str]

    @property
    def name(self) -> str:
        return self.word

    @property
    def takes(self) -> Takes:
        return "sparse"

    def cost(self, points: Any) -> float:
        return float(getattr(points, "nnz", points.size))


KERNELS: Registry[type[ScalarKernel]] = Registry("kernel")
# How two kernels, or a kernel and a number, become one: by "+" and "*".
COMBINATIONS: Registry[collections.abc.Callable[[Any, Any], ScalarKernel]] = Registry("combination of kernels")


def _combined(how: str, one: Any, other: Any) -> ScalarKernel:
    for part in (one, other):
        number = how == "*" and isinstance(part, int | float | np.number)
        if not (number or isinstance(part, ScalarKernel | str) or (callable(part) and not isinstance(part, type))):
            raise TypeError(
                f"a scalar kernel can be added to and multiplied by scalar kernels, and multiplied by numbers >= 0; not {one!r} "
                f"{how} {other!r}. For a sum with a matrix-valued kernel wrap it first: kernels.Separable(kernel) + ..."
            )
    return COMBINATIONS[how](one, other)


def times(values: Array, factors: Array | None) -> Array:
    """Values of pairs times factors of pairs, if there are any."""
    return values if factors is None else values * factors


def weighted_sums(weights: Array, Z: Any, coefficients: Array) -> Array:
    """sum_j w_ij c_jk z_j for each row i and output k, (n, m, d), from weights of pairs (n, p) and coefficients (p, m)."""
    if hasattr(Z, "toarray"):
        return np.stack([to_array(weights @ scaled_rows(Z, own)) for own in coefficients.T], axis=1)
    scaled = coefficients[:, :, None] * Z[:, None, :]
    return np.asarray(weights @ scaled.reshape(len(Z), -1)).reshape(len(weights), *scaled.shape[1:])


class _Demanding(Protocol):
    @property
    def takes(self) -> Takes: ...


def strictest(parts: Sequence[_Demanding]) -> Takes:
    """What the data of all parts may be."""
    takes = {part.takes for part in parts}
    most = min(takes, key=get_args(Takes).index)
    if most in ("kernel values", "row numbers", "table") and len(takes) > 1:
        raise ValueError(f"a kernel whose data are {most} cannot be combined with one whose data are {max(takes - {most})}.")
    return most


def enter(name: str, kernel: type[ScalarKernel]) -> None:
    """Make a kernel of ours known by a name; in model files it is named."""
    if not (isinstance(kernel, type) and issubclass(kernel, ScalarKernel)):
        raise ValueError(f"a kernel is a subclass of outmetric.kernels.ScalarKernel, not {kernel!r}.")
    KERNELS.add(name, kernel)


def register(name: str, kernel: type[ScalarKernel]) -> None:
    """Make a kernel known by a name, for ``kernel=name`` in estimators and `Scalar`, and in model files.

    Whoever loads a file lets it call the constructor with arguments of the file's choosing, so that must only check and store.

    Parameters
    ----------
    name : str
        One that is not taken.
    kernel : subclass of ScalarKernel
        With a class method ``make(bandwidth, params)``. Objects of a frozen dataclass can be stored as well; others by their name.
    """
    enter(name, kernel)
    kind: Any = kernel
    frozen = is_dataclass(kind) and getattr(kind, "__dataclass_params__").frozen  # noqa: B009
    if frozen and how_stored(kind) is None and set(signature(kind).parameters) == {field.name for field in fields(kind)}:
        storable(f"{REGISTERED}{name}")(kind)


def median_factor(bandwidth: str) -> float | None:
    """1 for "median", 0.5 for "0.5*median", None for anything else."""
    factor, star, word = bandwidth.rpartition("*")
    if word.strip() != "median":
        return None
    try:
        return float(factor) if star else 1.0
    except ValueError:
        return None
