"""Kernel principal components: the coordinates in which a linear method becomes a kernel method (the KPCA trick).

In the feature space of the kernel, all that a metric can learn from training points lies in their span. Kernel principal components
are orthonormal coordinates of this span, so that distances of training points in them are those of the feature space, and a linear
method run on them is the method run in the feature space (Chatpatanasiri et al. 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg

from outmetric.foundation import Array, n_points, psd_tolerance, require_memory, require_psd
from outmetric.kernels import ScalarKernel


@dataclass(frozen=True, eq=False)
class KernelComponents:
    """z(x) = V' k(x) + offset, with the kernel values k(x) between x and the training points.

    Attributes
    ----------
    coefficients : array of shape (n, p)
        V.
    offset : array of shape (p,)
    coordinates : array of shape (n, p)
        z of the training points, in the order of descending variance.
    """

    coefficients: Array
    offset: Array
    coordinates: Array


def kernel_components(scalar: ScalarKernel, points: Any, n_components: int | float | None, negligible: float) -> KernelComponents:
    """The kernel principal components of the training points.

    Parameters
    ----------
    scalar : ScalarKernel
    points : training points
    n_components : int, float or None
        How many; or, between 0 and 1, as many as have this share of the variance. In any case only those whose variance, relative
        to the largest, is above ``negligible``.
    """
    n = n_points(points)
    require_memory(8.0 * 4 * n * n, f"kernel PCA of {n} samples (4 arrays of {n} x {n})", "fewer samples.")
    gram = scalar.gram(points)
    tolerance = psd_tolerance(gram.dtype)
    gram = gram.astype(np.float64)
    means = gram.mean(axis=1)
    centred = gram - means - means[:, None] + means.mean()
    variances, vectors = scipy.linalg.eigh(centred, overwrite_a=True)
    require_psd(variances[0], variances[-1], "the centred kernel matrix", tolerance)
    variances, vectors = variances[::-1], vectors[:, ::-1]
    if not variances[0] > n * np.finfo(float).eps * np.abs(means).max():
        raise ValueError("the kernel does not tell any two training points apart: all its principal components are zero.")
    kept = _number(variances, n_components, negligible)
    vectors = vectors[:, :kept]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(kept)])  # the same sign on every machine
    roots = np.sqrt(variances[:kept])
    coefficients = vectors / roots
    coordinates = (vectors * roots)[_first_alike(gram)]
    return KernelComponents(coefficients, -(means @ coefficients), coordinates)


def _first_alike(gram: Array) -> Array:
    """For each point the first one that the kernel does not tell from it, so that these can have the same coordinates exactly."""
    squares = np.diag(gram)
    alike = np.empty(len(gram), dtype=int)
    for row, (values, square) in enumerate(zip(gram, squares, strict=True)):
        both = squares[: row + 1] + square
        alike[row] = np.argmax(both - 2 * values[: row + 1] <= 8 * np.finfo(float).eps * both)
    return alike


def check_n_components(value: Any) -> None:
    """Raise ValueError unless it is None, an integer >= 1 or a share between 0 and 1."""
    if value is None or (isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1):
        return
    if isinstance(value, float | np.floating) and 0 < value < 1:
        return
    raise ValueError(f"n_components must be None, an integer >= 1, or a share of variance between 0 and 1, not {value!r}.")


def _number(variances: Array, n_components: int | float | None, negligible: float) -> int:
    present = int(np.sum(variances > negligible * variances[0]))
    if n_components is None:
        return present
    if isinstance(n_components, Integral):
        return min(int(n_components), present)
    shares = np.cumsum(variances[:present]) / np.sum(variances[:present])
    return int(np.searchsorted(shares, n_components)) + 1
