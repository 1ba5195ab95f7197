"""Kernels of differences of vectors, with a bandwidth: Gaussian, exponentials of distances, and a Gaussian in each feature."""

from __future__ import annotations

import collections.abc
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist, squareform
from sklearn.metrics.pairwise import laplacian_kernel, manhattan_distances, rbf_kernel
from sklearn.utils.extmath import row_norms

from outmetric.foundation import Array, check_finite, check_number, in_threads, n_points, to_array
from outmetric.kernels.base import InputMetricKind, NamedKernel, Takes, enter, median_factor, times
from outmetric.kernels.gradients import (
    NODES,
    Gaussians,
    by_feature,
    by_sign,
    divided,
    euclidean,
    euclidean_between,
    euclidean_tiles,
    exponentials,
    interpolated_gaussians,
    laplacian_increments,
    manhattan_tiles,
    mean_of_gaussians,
    median_distance,
    midst,
    round_off,
    square_tiles,
    sums_of_gaussians,
    weighted_differences,
)
from outmetric.kernels.operators import SampleGram, symmetric_half, symmetric_matrix


@dataclass(frozen=True, eq=False)
class DistanceKernel(NamedKernel):
    """A kernel with k(x, x) = 1 that falls with a distance, measured in bandwidths.

    Parameters
    ----------
    bandwidth : float or such as "0.5*median"
    gamma : float, optional
        The factor of the distance in the exponent, in the place of the bandwidth; ``given_gamma``: it is, and None means 1 / d.
    """

    bandwidth: float | str = "median"
    gamma: float | None = None
    given_gamma: bool = False
    parameters: ClassVar[tuple[str, ...] | None] = ("gamma",)

    @classmethod
    def make(cls, bandwidth: float | str, params: Mapping[str, Any]) -> Self:
        return cls(bandwidth, **params, given_gamma="gamma" in params)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"gamma": self.gamma} if self.given_gamma else {"bandwidth": self.bandwidth}

    @property
    def has_bandwidth(self) -> bool:
        return not self.given_gamma

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> Self:
        """With the median distance of these training points in the place of the word "median"."""
        if self.given_gamma or not isinstance(self.bandwidth, str):
            return self
        factor = median_factor(self.bandwidth)
        if factor is None:
            raise ValueError(f"bandwidth must be a positive number, 'median' or such as '0.5*median', not {self.bandwidth!r}.")
        return replace(self, bandwidth=factor * self.typical_distance(X, rng))

    def relative(self, X: Any, rng: np.random.Generator) -> Self:
        if self.given_gamma or isinstance(self.bandwidth, str):
            return self
        return replace(self, bandwidth=f"{float(self.bandwidth) / self.typical_distance(X, rng)!r}*median")

    def typical_distance(self, X: Any, rng: np.random.Generator) -> float:
        """The unit of bandwidths in medians."""
        return median_distance(X, self, rng)

    # The norm of `profile`, by SciPy's name; "" for a kernel that is no function of one distance.
    norm: ClassVar[str] = ""

    def profile(self, distances: Array) -> Array:
        """Kernel values by distances in the norm, for whoever has computed these for many bandwidths."""
        raise NotImplementedError(f"{self.title} is no function of one distance")

    def distances(self, X: Any) -> Array:
        """All distances of a sample in the kernel's norm."""
        return euclidean(X)

    def pair_distances(self, X: Any) -> Array:
        """Those of all pairs, once, in any order."""
        if isinstance(X, np.ndarray):
            return symmetric_half(self.distance_tiles(X), len(X))
        return np.asarray(squareform(self.distances(X), checks=False))

    def distance_tiles(self, X: Array) -> collections.abc.Callable[[slice, slice], Array]:
        """A function of rows and columns: distances between these points of a sample."""
        return euclidean_tiles(X)

    def rate(self, n_features: int) -> float:
        """The factor of the (squared) distance in the exponent: the one place where it follows from the bandwidth."""
        if self.given_gamma:
            return 1 / n_features if self.gamma is None else float(self.gamma)
        return 0.5 / float(self.bandwidth) ** 2

    def diagonal(self, X: Any) -> Array:
        return np.ones(n_points(X))

    def tiles(self, X: Array) -> collections.abc.Callable[[slice, slice], Array] | None:
        """A function of rows and columns: kernel values between these points of a sample; None if there is nothing fast."""
        return None

    def gram(self, X: Any) -> Array:
        tile = self.tiles(X) if isinstance(X, np.ndarray) else None
        if tile is None:
            return super().gram(X)

        def checked(rows: slice, columns: slice) -> Array:
            values = tile(rows, columns)
            check_finite(values, f"the Gram matrix of {self.title}")
            return values

        return symmetric_matrix(checked, len(X), np.result_type(X, np.float32))


class EuclideanKernel(DistanceKernel):
    """A function of the Euclidean distance, whose gradient is - slope(x, z) (x - z)."""

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        return ("diagonal", "full")

    @abstractmethod
    def slopes(self, X: Any, Z: Any) -> Array:
        """- k'(distance) / distance for all pairs, 0 where points coincide."""

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        return weighted_differences(times(self.slopes(X, Z), factors), X, Z, coefficients)


@dataclass(frozen=True, eq=False)
class Gaussian(EuclideanKernel):
    """exp(-|x - x'|_2^2 / (2 bandwidth^2))."""

    word = "rbf"

    norm = "euclidean"

    def profile(self, distances: Array) -> Array:
        return np.asarray(np.exp(-0.5 * (distances / float(self.bandwidth)) ** 2))

    def slopes(self, X: Any, Z: Any) -> Array:
        return 2 * self.rate(X.shape[1]) * self.values(X, Z)

    def values(self, X: Any, Z: Any) -> Array:
        rate, other = self.rate(X.shape[1]), None if X is Z else Z
        if not scipy.sparse.issparse(X) and not scipy.sparse.issparse(Z):
            # Distances do not change with the origin, but their round-off does.
            origin = midst(Z)
            X, other = X - origin, None if other is None else other - origin
        return to_array(rbf_kernel(X, other, gamma=rate))

    def tiles(self, X: Array) -> collections.abc.Callable[[slice, slice], Array]:
        squares, rate = square_tiles(X), self.rate(X.shape[1])
        return lambda rows, columns: exponentials(squares(rows, columns), rate)

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        if isinstance(Z, np.ndarray):
            return Gaussians(Z, self.rate(Z.shape[1]), np.dtype(dtype))
        return super().evaluator(Z, dtype)

    def to_onnx(self, values: Any, weights: Array) -> str:
        graph, rate = values.graph, self.rate(values.points.shape[1])
        return str(graph("MatMul", graph("Exp", graph("Mul", values.squares, -rate)), weights))


@dataclass(frozen=True, eq=False)
class Exponential(EuclideanKernel):
    """exp(-|x - x'|_2 / bandwidth), the Laplacian of the Euclidean norm."""

    word = "exponential"
    norm = "euclidean"

    def profile(self, distances: Array) -> Array:
        return np.asarray(np.exp(-distances / float(self.bandwidth)))

    def rate(self, n_features: int) -> float:
        return super().rate(n_features) if self.given_gamma else 1 / float(self.bandwidth)

    def values(self, X: Any, Z: Any) -> Array:
        return exponentials(euclidean_between(X, Z), self.rate(X.shape[1]))

    def tiles(self, X: Array) -> collections.abc.Callable[[slice, slice], Array]:
        squares, rate = square_tiles(X), self.rate(X.shape[1])

        def tile(rows: slice, columns: slice) -> Array:
            distances = squares(rows, columns)
            return exponentials(np.sqrt(distances, out=distances), rate)

        return tile

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        if not isinstance(Z, np.ndarray):
            return super().evaluator(Z, dtype)
        origin, rate = midst(Z), self.rate(Z.shape[1])
        points = (Z - origin).astype(np.float64)
        norms = row_norms(points, squared=True)

        def values(X: Any) -> Array:
            rows = to_array(X) - origin
            sums = np.add.outer(row_norms(rows, squared=True), norms)
            squares = sums - 2 * (rows @ points.T)
            squares[squares <= round_off(np.float64) * sums] = 0
            distances = np.sqrt(squares, out=squares)
            return np.asarray(np.exp(np.multiply(distances, -rate, out=distances), out=distances), dtype=dtype)

        return values

    def slopes(self, X: Any, Z: Any) -> Array:
        distances, rate = euclidean_between(X, Z), self.rate(X.shape[1])
        return divided(rate * np.exp(-rate * distances), distances)

    def to_onnx(self, values: Any, weights: Array) -> str:
        graph, rate = values.graph, self.rate(values.points.shape[1])
        return str(graph("MatMul", graph("Exp", graph("Mul", graph("Sqrt", values.squares), -rate)), weights))


@dataclass(frozen=True, eq=False)
class Laplacian(DistanceKernel):
    """exp(-|x - x'|_1 / bandwidth)."""

    word = "laplacian"
    norm = "cityblock"

    def profile(self, distances: Array) -> Array:
        return np.asarray(np.exp(-distances / float(self.bandwidth)))

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        return ("diagonal",)

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        return by_sign(X, Z, times(-self.rate(X.shape[1]) * self.values(X, Z), factors), coefficients)

    def increments(self, X: Any, X_other: Any, Z: Any, weights: Array) -> Array:
        rate, Z = self.rate(X.shape[1]), to_array(Z)
        X, X_other = to_array(X), to_array(X_other)

        def increments(pair: int) -> Array:
            return laplacian_increments(X[pair], X_other[pair], Z, weights[pair], rate)

        return np.stack(list(in_threads(increments, range(len(X)))))

    def distances(self, X: Any) -> Array:
        return np.asarray(manhattan_distances(X))

    def distance_tiles(self, X: Array) -> collections.abc.Callable[[slice, slice], Array]:
        return manhattan_tiles(X)

    def tiles(self, X: Array) -> collections.abc.Callable[[slice, slice], Array]:
        distances, rate = self.distance_tiles(X), self.rate(X.shape[1])
        return lambda rows, columns: exponentials(distances(rows, columns), rate)

    def rate(self, n_features: int) -> float:
        return super().rate(n_features) if self.given_gamma else 1 / float(self.bandwidth)

    def values(self, X: Any, Z: Any) -> Array:
        return to_array(laplacian_kernel(X, None if X is Z else Z, gamma=self.rate(X.shape[1])))

    def to_onnx(self, values: Any, weights: Array) -> str:
        graph, rate = values.graph, self.rate(values.points.shape[1])
        return str(graph("MatMul", graph("Exp", graph("Mul", values.manhattan, -rate)), weights))


@dataclass(frozen=True, eq=False)
class PowerExponential(DistanceKernel):
    """exp(-(|x - x'|_p / bandwidth)^power), positive definite for 0 < power <= p <= 2 (Schoenberg 1938).

    Parameters
    ----------
    p : float
        Of the norm, from 1 to 2.
    power : float
        Above 0, and at most p.
    """

    p: float = 2.0
    power: float = 1.0
    word = "power_exponential"
    parameters: ClassVar[tuple[str, ...] | None] = ("p", "power")

    def __post_init__(self) -> None:
        check_number("p", self.p, positive=True)
        check_number("power", self.power, positive=True)
        if not 1 <= self.p <= 2 or self.power > self.p:
            raise ValueError(
                f"exp(-(|x - x'|_p / bandwidth)^power) is a kernel for 1 <= p <= 2 and 0 < power <= p, not for p={self.p} and "
                f"power={self.power}."
            )

    @property
    def takes(self) -> Takes:
        return "arrays"

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"bandwidth": self.bandwidth, "p": self.p, "power": self.power}

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        return ("diagonal", "full") if self.p == 2 else ("diagonal",)

    def distances(self, X: Any) -> Array:
        return self._distances(X, X)

    def distance_tiles(self, X: Array) -> collections.abc.Callable[[slice, slice], Array]:
        return euclidean_tiles(X) if self.p == 2 else lambda rows, columns: self._distances(X[rows], X[columns])

    def _distances(self, X: Any, Z: Any) -> Array:
        return euclidean_between(X, Z) if self.p == 2 else np.asarray(cdist(X, Z, "minkowski", p=self.p))

    def values(self, X: Any, Z: Any) -> Array:
        return np.asarray(np.exp(-((self._distances(X, Z) / float(self.bandwidth)) ** self.power)), dtype=np.result_type(X, Z))

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        # With u = (distance / bandwidth)^power: dk/dx_f = - power u exp(-u) sign(x_f - z_f) |x_f - z_f|^(p-1) / distance^p.
        distances = self._distances(X, Z)
        powers = (distances / float(self.bandwidth)) ** self.power
        slopes = times(divided(self.power * powers * np.exp(-powers), distances, self.p), factors)
        if self.p == 2:
            return weighted_differences(slopes, X, Z, coefficients)

        def derivative(differences: Array) -> Array:
            return np.asarray(np.sign(differences) * np.abs(differences) ** (self.p - 1))

        return by_feature(X, Z, coefficients, derivative, -slopes)

    def to_onnx(self, values: Any, weights: Array) -> str:
        if self.p not in (1, 2):
            raise ValueError(f"the kernel {self.word!r} with p={self.p} cannot become an ONNX graph; use p=1 or p=2.")
        graph = values.graph
        distances = values.manhattan if self.p == 1 else graph("Sqrt", values.squares)
        powers = graph("Pow", graph("Mul", distances, 1 / float(self.bandwidth)), float(self.power))
        return str(graph("MatMul", graph("Exp", graph("Neg", powers)), weights))


@dataclass(frozen=True, eq=False)
class Additive(DistanceKernel):
    """The mean over features of exp(-(x_j - x'_j)^2 / (2 bandwidth^2)); medians are those of a single feature."""

    word = "additive"

    @property
    def input_metrics(self) -> tuple[InputMetricKind, ...]:
        return ("diagonal",)

    def gradients(self, X: Any, Z: Any, coefficients: Array, factors: Array | None = None) -> Array:
        if factors is None:
            return np.stack(self._sums(X, Z, coefficients / X.shape[1], slopes=True), axis=2)
        rate = 0.5 / self._width(X.shape[1]) ** 2

        def derivative(differences: Array) -> Array:
            exponents = differences**2
            exponents *= -rate
            differences *= np.exp(exponents, out=exponents)
            return differences

        return by_feature(X, Z, -2 * rate / X.shape[1] * coefficients, derivative, factors)

    def expansion(self, Z: Any, weights: Array) -> collections.abc.Callable[[Any], Array]:
        columns = weights.reshape(len(weights), -1)

        def expansion(X: Any) -> Array:
            return np.asarray(sum(self._sums(X, Z, columns)) / X.shape[1]).reshape(len(X), *weights.shape[1:])

        return expansion

    def _sums(self, X: Any, Z: Any, weights: Array, *, slopes: bool = False) -> list[Array]:
        """The sum over points for each feature by itself, or its derivative."""
        width = self._width(X.shape[1])
        return [sums_of_gaussians(x, z, weights, width, slopes=slopes) for x, z in zip(X.T, Z.T, strict=True)]

    def increments(self, X: Any, X_other: Any, Z: Any, weights: Array) -> Array:
        # A sum of functions of one feature each: their differences.
        rate = 0.5 / self._width(X.shape[1]) ** 2

        def difference(x: Array, other: Array, z: Array) -> Array:
            values = np.exp(-rate * np.subtract.outer(x, z) ** 2) - np.exp(-rate * np.subtract.outer(other, z) ** 2)
            return np.asarray(np.einsum("ij,ij->i", weights, values) / X.shape[1])

        return np.stack([difference(*columns) for columns in zip(X.T, X_other.T, Z.T, strict=True)], axis=1)

    def _width(self, n_features: int) -> float:
        return float(1 / np.sqrt(2 * self.rate(n_features))) if self.given_gamma else float(self.bandwidth)

    @property
    def takes(self) -> Takes:
        return "arrays"

    def typical_distance(self, X: Any, rng: np.random.Generator) -> float:
        return float(super().typical_distance(X, rng) / np.sqrt(X.shape[1]))

    def values(self, X: Any, Z: Any) -> Array:
        return mean_of_gaussians(X, Z, self._width(X.shape[1]))

    def tiles(self, X: Array) -> collections.abc.Callable[[slice, slice], Array]:
        return lambda rows, columns: mean_of_gaussians(X[rows], X[columns], self._width(X.shape[1]))

    def product_width(self, X: Any) -> float:
        return 2.0 * NODES * float(X.shape[1])

    def lazy_gram(self, X: Any) -> SampleGram:
        """By the values at a few places of each feature, which tell all others."""
        return interpolated_gaussians(X, self._width(X.shape[1]))

    def to_onnx(self, values: Any, weights: Array) -> str:
        graph, n_features = values.graph, values.points.shape[1]
        scale = np.sqrt(self.rate(n_features))
        shares = graph.sum_over_features("gaussians", graph("Mul", values.rows, scale), scale * values.points)
        return str(graph("MatMul", shares, weights / n_features))


for kernel in (Gaussian, Exponential, Laplacian, PowerExponential, Additive):
    enter(kernel.word, kernel)
