"""Scalar kernels as people ask for them: by name, by a function of points or of samples, or by their values."""

from __future__ import annotations

import collections.abc
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from outmetric.foundation import (
    Array,
    check_finite,
    check_number,
    described,
    n_points,
    psd_tolerance,
    require_memory,
    storable,
    to_array,
)
from outmetric.kernels.base import KERNELS, InputMetricKind, ScalarKernel, Takes, enter, median_factor
from outmetric.kernels.operators import SampleGram


@storable("Scalar")
@dataclass(frozen=True, eq=False)
class Scalar(ScalarKernel):
    """A scalar kernel k(x, x').

    Parameters
    ----------
    function : str, callable or "precomputed"
        "additive", or a name of `sklearn.metrics.pairwise.pairwise_kernels`; a function of two points (rows, or any objects) that
        returns a number; a Gaussian-process kernel of scikit-learn; or "precomputed": the data are then kernel values, as in
        scikit-learn's estimators ((n, n_train) arrays).
    bandwidth : float or "median"
        For "rbf", exp(-|x - x'|_2^2 / (2 bandwidth^2)), "laplacian", exp(-|x - x'|_1 / bandwidth), "exponential",
        exp(-|x - x'|_2 / bandwidth), "power_exponential", exp(-(|x - x'|_p / bandwidth)^power), and "additive", the mean over
        features of exp(-(x_j - x'_j)^2 / (2 bandwidth^2)); other kernels ignore it. "median" is the median distance between
        distinct training points ("additive": divided by the root of the number of features); "0.5*median" is a multiple of it.
    params : mapping, optional
        Further arguments of the function, such as ``degree`` for "poly". A ``gamma`` given here takes the bandwidth's place.
    pairwise : bool
        For functions: True if it takes two points and returns a number, False if it takes two samples and returns a matrix. A
        function with an attribute ``pairwise = False``, such as the kernels of `outmetric.kernels.strings`, says the latter itself.

    Examples
    --------
    >>> import numpy as np
    >>> Scalar("rbf", bandwidth=1.0).gram(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> Scalar(lambda s, t: float(s[0] == t[0])).gram(["ab", "ac", "b"])
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    function: Any = "rbf"
    bandwidth: float | str = "median"
    params: Mapping[str, Any] | None = None
    pairwise: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.function, str):
            known = sorted(KERNELS)
            if self.function not in known:
                raise ValueError(
                    f"kernel {self.function!r} is not known; use one of {known}, a function, or an outmetric kernel. For one of "
                    "your own, import the module that registers it (kernels.register) before, also before loading a model of it."
                )
        elif not callable(self.function):
            raise ValueError(f"a scalar kernel is a name or a function, not {described(self.function)}.")
        number = median_factor(self.bandwidth) if isinstance(self.bandwidth, str) else self.bandwidth
        if not isinstance(number, int | float | np.number) or not 0 < number < np.inf:
            raise ValueError(
                f"bandwidth must be a positive number, 'median' or such as '0.5*median', not {described(self.bandwidth)}."
            )
        if self.bandwidth != "median" and "gamma" in (self.params or {}):
            raise ValueError(f"give either bandwidth={self.bandwidth} or gamma={(self.params or {})['gamma']}, not both.")

    @property
    def kernel(self) -> ScalarKernel:
        """The object that is meant."""
        params = dict(self.params or {})
        if isinstance(self.function, str):
            kind = KERNELS[self.function]
            check_parameters(self.function, kind, params)
            return kind.make(self.bandwidth, params)
        return function_kernel(self.function, params, self.pairwise)

    @property
    def needs_positive(self) -> bool:
        return self.kernel.needs_positive

    def cost(self, points: Any) -> float:
        return self.kernel.cost(points)

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def takes(self) -> Takes:
        return self.kernel.takes

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.kernel.settings

    @property
    def given_by(self) -> str:
        return self.kernel.given_by

    @property
    def supervised(self) -> bool:
        return self.kernel.supervised

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        return self.kernel.input_metrics

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        return self.kernel.gradients(X, Z, coefficients, factors)

    def increments(self, X: Any, X_other: Any, Z: Any, weights: Array) -> Array | None:
        return self.kernel.increments(X, X_other, Z, weights)

    def relative(self, X: Any, rng: np.random.Generator) -> ScalarKernel:
        kernel = self.kernel
        relative = kernel.relative(X, rng)
        return self if relative is kernel else replace(self, bandwidth=relative.settings["bandwidth"])

    @property
    def has_bandwidth(self) -> bool:
        return self.kernel.has_bandwidth

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> ScalarKernel:
        """The same kernel with ``bandwidth="median"`` replaced by the number for these training points."""
        kernel = self.kernel
        resolved = kernel.resolve(X, rng, y)
        if resolved is kernel:
            return self
        return replace(self, bandwidth=resolved.settings["bandwidth"]) if resolved.has_bandwidth else resolved

    def values(self, X: Any, Z: Any) -> Array:
        return self.kernel.values(X, Z)

    def gram(self, X: Any) -> Array:
        return self.kernel.gram(X)

    def lazy_gram(self, X: Any) -> SampleGram:
        return self.kernel.lazy_gram(X)

    def product_width(self, X: Any) -> float:
        return self.kernel.product_width(X)

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        return self.kernel.evaluator(Z, dtype)

    def expansion(self, Z: Any, weights: Array) -> collections.abc.Callable[[Any], Array]:
        return self.kernel.expansion(Z, weights)

    def columns(self, X: Any) -> collections.abc.Callable[[Any], Array]:
        return self.kernel.columns(X)

    def diagonal(self, X: Any) -> Array:
        return self.kernel.diagonal(X)

    def to_onnx(self, values: Any, weights: Array) -> str:
        return self.kernel.to_onnx(values, weights)


def check_parameters(name: str, kind: type[ScalarKernel], params: Mapping[str, Any]) -> None:
    """Raise TypeError for parameters that a kernel does not have, and ValueError for a gamma that is no number."""
    unknown = [given for given in params if kind.parameters is not None and given not in kind.parameters]
    if unknown:
        known = f"it has {', '.join(kind.parameters or ())}" if kind.parameters else "it has none"
        raise TypeError(f"the kernel {name!r} has no parameter {unknown[0]!r}; {known}.")
    if params.get("gamma") is not None:
        check_number("gamma", params["gamma"])


def as_scalar(kernel: Any) -> ScalarKernel:
    """A scalar kernel from its name or function."""
    return kernel if isinstance(kernel, ScalarKernel) else Scalar(kernel)


@dataclass(frozen=True, eq=False)
class FunctionKernel(ScalarKernel):
    """A function of two samples that returns all values, such as a string kernel, which has a diagonal and an evaluator, too."""

    function: collections.abc.Callable[..., Any]
    params: Mapping[str, Any]
    symmetric: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    @property
    def takes(self) -> Takes:
        return "arrays" if isinstance(self.function, GaussianProcessKernel) else "objects"

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.params

    def cost(self, points: Any) -> float:
        if isinstance(self.function, GaussianProcessKernel):
            return float(np.size(points))
        return float(self.function.cost(points)) if hasattr(self.function, "cost") else super().cost(points)

    def values(self, X: Any, Z: Any) -> Array:
        values = self._evaluated(X, Z)
        if values.shape != (n_points(X), n_points(Z)):
            raise ValueError(
                f"{self.title} returned an array of shape {values.shape} for {n_points(X)} and {n_points(Z)} points. Expected: "
                "a number per pair (pairwise=True) or the whole matrix of kernel values (pairwise=False)."
            )
        return values

    def _evaluated(self, X: Any, Z: Any) -> Array:
        return np.asarray(self.function(X, Z, **self.params), dtype=np.float64)

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        if not hasattr(self.function, "evaluator"):
            return super().evaluator(Z, dtype)
        values = self.function.evaluator(Z)
        return lambda X: values(X).astype(dtype, copy=False)

    def diagonal(self, X: Any) -> Array:
        if hasattr(self.function, "diag"):
            return np.asarray(self.function.diag(X), dtype=np.float64)
        return super().diagonal(X)

    @property
    def _diagonal_rows(self) -> int:
        return 1  # a function may take its time


class PairFunctionKernel(FunctionKernel):
    """A function of two points that returns a number."""

    def gram(self, X: Any) -> Array:
        gram = symmetric_pairs(self._call, X, self.title)
        check_finite(gram, f"the Gram matrix of {self.title}")
        return gram

    def _evaluated(self, X: Any, Z: Any) -> Array:
        return np.array([[self._call(x, z) for z in Z] for x in X], dtype=np.float64).reshape(n_points(X), -1)

    def _call(self, x: Any, z: Any) -> Any:
        try:
            return self.function(x, z, **self.params)
        except ValueError as error:
            if "Expected 2D array" not in str(error):
                raise
            raise ValueError(
                f"{self.title} wants two samples, not two points: give it as kernels.Scalar(function, pairwise=False)."
            ) from error


class KernelMatrix(ScalarKernel):
    """Kernel values given by the user: the data are rows of them, a column for each training point; perhaps sparse."""

    symmetric = False
    parameters: ClassVar[tuple[str, ...] | None] = ()

    @classmethod
    def make(cls, bandwidth: float | str, params: Mapping[str, Any]) -> Self:
        return cls()

    def cost(self, points: Any) -> float:
        return float(n_points(points))

    @property
    def name(self) -> str:
        return "precomputed"

    @property
    def takes(self) -> Takes:
        return "kernel values"

    @property
    def given_by(self) -> str:
        return "its values"

    def values(self, X: Any, Z: Any) -> Array:
        if X.shape[1] != n_points(Z):
            raise ValueError(f"a precomputed kernel needs one column per training point, {n_points(Z)}; its shape is {X.shape}.")
        return _dense(X)

    def lazy_gram(self, X: Any) -> SampleGram:
        return self.gram(X)

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        """Z are column numbers."""
        return lambda X: _dense(X[:, Z])

    def columns(self, X: Any) -> collections.abc.Callable[[Any], Array]:
        """X is the square kernel matrix of the sample."""
        return lambda rows: _dense(X[:, rows]).astype(np.float64, copy=False)

    def diagonal(self, X: Any) -> Array:
        return np.asarray(X.diagonal(), dtype=np.float64)


def _dense(values: Any) -> Array:
    """Kernel values as an array; sparse ones must have room."""
    if hasattr(values, "toarray"):
        n, m = values.shape
        size = values.dtype.itemsize * float(n) * m
        require_memory(size, f"a sparse matrix of {n} x {m} kernel values, made dense", "n_landmarks, or fewer rows at once.")
    return to_array(values)


def function_kernel(function: Any, params: Mapping[str, Any], pairwise: bool) -> FunctionKernel:
    """The kernel of a function; one with an attribute ``pairwise = False`` says itself that it takes samples."""
    of_samples = isinstance(function, GaussianProcessKernel) or function in PAIRWISE_KERNEL_FUNCTIONS.values()
    on_pairs = pairwise and getattr(function, "pairwise", True) and not of_samples
    return PairFunctionKernel(function, params) if on_pairs else FunctionKernel(function, params)


def symmetric_pairs(function: collections.abc.Callable[[Any, Any], Any], X: Any, name: str) -> Array:
    """Values (or blocks) for all pairs, each evaluated once and mirrored; symmetry is checked on a sample of pairs."""
    n = n_points(X)
    if n == 0:
        raise ValueError(f"{name} needs at least one point.")
    first = np.asarray(function(X[0], X[0]), dtype=np.float64)
    values = np.empty((n, n, *first.shape))
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        values[i, j] = function(X[i], X[j])
        values[j, i] = np.asarray(values[i, j]).T
    pairs = list(itertools.combinations(range(n), 2))
    chosen = np.random.default_rng(0).permutation(len(pairs))[: max(200, n)]
    for i, j in (pairs[k] for k in chosen):
        mirrored = np.asarray(function(X[j], X[i]), dtype=np.float64)
        difference = np.abs(mirrored - values[j, i]).max()
        if difference > psd_tolerance(values.dtype) * np.abs(values[j, i]).max():
            raise ValueError(
                f"{name} is not symmetric: for points {i} and {j} it changes by {difference:.3g} when they are exchanged "
                "(up to a transposition for matrix values). Use a symmetric function."
            )
    return values


enter("precomputed", KernelMatrix)
