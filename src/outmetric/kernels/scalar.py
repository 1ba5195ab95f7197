"""Scalar kernels as people ask for them: by name, by function on any objects, or precomputed."""

from __future__ import annotations

import collections.abc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outmetric.foundation import Array, storable
from outmetric.kernels.base import KERNELS, ScalarKernel, Takes, median_factor
from outmetric.kernels.functions import function_kernel
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
        For "rbf", exp(-|x - x'|_2^2 / (2 bandwidth^2)), "laplacian", exp(-|x - x'|_1 / bandwidth), and "additive", the mean over
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
                raise ValueError(f"kernel {self.function!r} is not known; use one of {known}, a function, or an outmetric kernel.")
        elif not callable(self.function):
            raise ValueError(f"a scalar kernel is a name or a function, not {self.function!r}.")
        number = median_factor(self.bandwidth) if isinstance(self.bandwidth, str) else self.bandwidth
        if not isinstance(number, int | float | np.number) or not 0 < number < np.inf:
            raise ValueError(f"bandwidth must be a positive number, 'median' or such as '0.5*median', not {self.bandwidth!r}.")
        if self.bandwidth != "median" and "gamma" in (self.params or {}):
            raise ValueError(f"give either bandwidth={self.bandwidth} or gamma={(self.params or {})['gamma']}, not both.")

    @property
    def kernel(self) -> ScalarKernel:
        """The object that is meant."""
        params = dict(self.params or {})
        if isinstance(self.function, str):
            return KERNELS[self.function].make(self.bandwidth, params)
        return function_kernel(self.function, params, self.pairwise)

    @property
    def needs_positive(self) -> bool:
        return self.kernel.needs_positive

    @property
    def is_arithmetic(self) -> bool:
        return self.kernel.is_arithmetic

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
    def has_bandwidth(self) -> bool:
        return self.kernel.has_bandwidth

    def resolve(self, X: Any, rng: np.random.Generator) -> ScalarKernel:
        """The same kernel with ``bandwidth="median"`` replaced by the number for these training points."""
        kernel = self.kernel
        resolved = kernel.resolve(X, rng)
        if resolved is kernel:
            return self
        return replace(self, bandwidth=resolved.settings["bandwidth"]) if resolved.has_bandwidth else resolved

    def values(self, X: Any, Z: Any) -> Array:
        return self.kernel.values(X, Z)

    def gram(self, X: Any) -> Array:
        return self.kernel.gram(X)

    def lazy_gram(self, X: Any) -> SampleGram:
        return self.kernel.lazy_gram(X)

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        return self.kernel.evaluator(Z, dtype)

    def columns(self, X: Any) -> collections.abc.Callable[[Any], Array]:
        return self.kernel.columns(X)

    def diagonal(self, X: Any) -> Array:
        return self.kernel.diagonal(X)

    def to_onnx(self, values: Any, weights: Array) -> str:
        return self.kernel.to_onnx(values, weights)


def as_scalar(kernel: Any) -> ScalarKernel:
    """A scalar kernel from its name or function."""
    return kernel if isinstance(kernel, ScalarKernel) else Scalar(kernel)
