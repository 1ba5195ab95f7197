"""The coefficient step in the space of features, where all data have become a few small matrices.

With F = Phi Theta, everything that the models need is

    T = Phi'P Phi = lambda Phi'Phi + 2 gamma Phi'Delta Phi,     N = Phi'Y,     Y'Y,

and for class similarity Phi'Delta Phi = sum_k [n_k G_k - s_k s_k'] with the Gram matrix G_k and the sum s_k of the features of
class k. In Gamma = Phi'C the step C + P F A = lambda Y A reads Gamma + T Gamma B A = lambda N A, and Theta = Gamma B.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from outmetric.landmarks import Features
from outmetric.objective import Terms
from outmetric.operators import Array
from outmetric.scalar import n_points
from outmetric.solvers import IllConditionedError, Solution, Solver


@dataclass(frozen=True, eq=False)
class Summary:
    """What the models see of the data.

    Attributes
    ----------
    gram, laplacian : arrays of shape (r, r)
        Phi'Phi and Phi'Delta Phi.
    cross : array of shape (r, m)
        Phi'Y.
    squares : array of shape (m, m)
        Y'Y.
    mean_degree : float
        Of the similarity.
    """

    gram: Array
    laplacian: Array
    cross: Array
    squares: Array
    mean_degree: float

    def coupled(self, regression_weight: float, collocation_weight: float) -> Array:
        """T = Phi'P Phi."""
        return regression_weight * self.gram + 2 * collocation_weight * self.laplacian


@dataclass(frozen=True, eq=False)
class ClassSummary:
    """The same for class targets whose prototypes are still free."""

    gram: Array
    laplacian: Array
    sums: Array
    counts: Array

    @classmethod
    def make(cls, moments: Array, features: Features) -> ClassSummary:
        """From the moment matrix of each class."""
        width = features.width
        counts = np.rint(moments[:, width, width])
        sums = moments[:, :width, width]
        gram = moments.sum(axis=0)[:width, :width]
        laplacian = np.tensordot(counts, moments, 1)[:width, :width] - sums.T @ sums
        return cls(features.whiten_both(gram), features.whiten_both(laplacian), features.whiten(sums.T).T, counts)

    @property
    def mean_degree(self) -> float:
        return float(self.counts @ (self.counts - 1) / self.counts.sum())

    def towards(self, prototypes: Array) -> Summary:
        """With a target for each class."""
        squares = (self.counts[:, None] * prototypes).T @ prototypes
        return Summary(self.gram, self.laplacian, self.sums.T @ prototypes, squares, self.mean_degree)


def real_summary(moments: Array, features: Features) -> Summary:
    """From the moment matrix of all rows with centred real targets as extra columns; no rows are similar."""
    width = features.width
    gram = features.whiten_both(moments[:width, :width])
    cross = features.whiten(moments[:width, width + 1 :])
    return Summary(gram, np.zeros_like(gram), cross, moments[width + 1 :, width + 1 :], 0.0)


def similarity_laplacian(features: Features, X: Any, similarity: Any, rows: int = 4096) -> Array:
    """Phi'Delta Phi for a dense or sparse (n, n) similarity, its entries summed block by block.

    A sparse similarity asks for the features of those rows only that the block is similar to; a dense one is larger than the
    features of all rows, so these are held.
    """
    n = n_points(X)
    degrees = np.asarray(similarity.sum(axis=1)).ravel()
    sparse = scipy.sparse.issparse(similarity)
    held = None if sparse else np.concatenate([features.features(X[start : start + rows]) for start in range(0, n, rows)])
    total = np.zeros((features.rank, features.rank))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        own = features.features(X[part]) if held is None else held[part]
        total += (degrees[part, None] * own).T @ own
        if held is not None:
            total -= own.T @ (similarity[part] @ held)
            continue
        block = similarity[part].tocsc()
        others = np.flatnonzero(np.diff(block.indptr))
        for begin in range(0, len(others), rows):
            some = others[begin : begin + rows]
            total -= own.T @ (block[:, some] @ features.features(X[some]))
    return (total + total.T) / 2


class ReducedSolver(Solver):
    """What the two solvers in the features' space share."""

    name = "nystroem"

    def __init__(self, features: Features, summary: Summary, regression_weight: float, collocation_weight: float) -> None:
        self.features = features
        self.summary = summary
        self.regression_weight = regression_weight
        self.collocation_weight = collocation_weight
        self.coupled = summary.coupled(regression_weight, collocation_weight)

    def _scatter(self, parameters: Array) -> Array:
        """M(F) for F = Phi Theta."""
        pull = self.regression_weight * parameters.T @ self.summary.cross
        return parameters.T @ self.coupled @ parameters - pull - pull.T + self.regression_weight * self.summary.squares

    def terms(self, evaluated: Solution, output_matrix: Array | None, penalty: float) -> Terms:
        metric = evaluated.metric_factor.T @ evaluated.metric_factor
        parameters = self.parameters(evaluated, output_matrix)
        near = 2 * self.collocation_weight * parameters.T @ self.summary.laplacian @ parameters
        return Terms(
            roughness=0.5 * evaluated.squared_norm,
            collocation=0.5 * float(np.vdot(metric, near)),
            regression=0.5 * float(np.vdot(metric, evaluated.scatter - near)),
            penalty=penalty,
        )

    @abstractmethod
    def parameters(self, solution: Solution, output_matrix: Array | None) -> Array:
        """Theta of shape (r, m)."""


class ReducedSpectral(ReducedSolver):
    """Separable kernels: one eigendecomposition T = V diag(w) V' for all iterations, as in `outmetric.solvers.Spectral`."""

    def __init__(
        self, features: Features, summary: Summary, regression_weight: float, collocation_weight: float, output_matrix: Array
    ) -> None:
        super().__init__(features, summary, regression_weight, collocation_weight)
        self.output_matrix = output_matrix
        spectrum, self.basis = np.linalg.eigh(self.coupled)
        self.spectrum = spectrum.clip(min=0)  # a sum of squares: this cuts round-off only
        self.rotated_targets = regression_weight * (self.basis.T @ summary.cross)

    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        output_matrix = self.output_matrix if output_matrix is None else output_matrix
        values, turn = np.linalg.eigh(metric_factor @ output_matrix @ metric_factor.T)
        turned = metric_factor.T @ turn
        shrunk = self.rotated_targets @ turned / (1 + np.multiply.outer(self.spectrum, values.clip(min=0)))
        dual = self.basis @ (shrunk @ turned.T)
        return self._solution(dual, metric_factor, output_matrix)

    def _solution(self, dual: Array, metric_factor: Array, output_matrix: Array) -> Solution:
        energy = dual.T @ dual
        return Solution(
            coordinates=dual,
            metric_factor=metric_factor,
            scatter=self._scatter(dual @ output_matrix),
            squared_norm=float(np.vdot(output_matrix, energy)),
            energy=energy,
        )

    def coefficients(self, solution: Solution) -> Array:
        return self.features.parts[0].coefficients(solution.coordinates)

    def evaluate(self, coefficients: Array, metric_factor: Array, output_matrix: Array | None = None) -> Solution:
        output_matrix = self.output_matrix if output_matrix is None else output_matrix
        dual = self.features.parts[0].parameters(coefficients)
        solution = self._solution(dual, metric_factor, output_matrix)
        metric = metric_factor.T @ metric_factor
        wanted = self.regression_weight * self.summary.cross
        left = np.linalg.solve(metric, dual.T).T + self.coupled @ dual @ output_matrix - wanted
        # In the samples' space this is a residual of norm |T^(-1/2) .|; where T vanishes so does what it could act on.
        floor = np.finfo(np.float64).eps * len(self.spectrum) * self.spectrum[-1]
        weights = 1 / np.sqrt(self.spectrum.clip(min=max(floor, np.finfo(np.float64).tiny)))[:, None]
        residual = float(np.linalg.norm(weights * (self.basis.T @ left)))
        scale = float(np.linalg.norm(weights * self.rotated_targets)) or 1.0
        return replace(solution, residual=residual, relative_residual=residual / scale)

    def parameters(self, solution: Solution, output_matrix: Array | None) -> Array:
        return np.asarray(solution.coordinates @ (self.output_matrix if output_matrix is None else output_matrix))


class ReducedDense(ReducedSolver):
    """Diagonal kernels: the parameters of all outputs together, by a Cholesky factorisation in every step."""

    def __init__(self, features: Features, summary: Summary, regression_weight: float, collocation_weight: float) -> None:
        super().__init__(features, summary, regression_weight, collocation_weight)
        self.output_of = np.repeat(np.arange(len(features.parts)), [part.rank for part in features.parts])

    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        system, wanted = self._system(metric_factor)
        try:
            factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True)
        except np.linalg.LinAlgError as error:
            raise IllConditionedError(str(error)) from error
        return self._solution(scipy.linalg.cho_solve(factor, wanted), metric_factor)

    def _system(self, metric_factor: Array) -> tuple[Array, Array]:
        metric = metric_factor.T @ metric_factor
        system = metric[np.ix_(self.output_of, self.output_of)] * self.coupled
        system[np.diag_indices_from(system)] += 1
        pulled = self.regression_weight * self.summary.cross @ metric
        return system, pulled[np.arange(len(system)), self.output_of]

    def _solution(self, stacked: Array, metric_factor: Array) -> Solution:
        return Solution(
            coordinates=stacked,
            metric_factor=metric_factor,
            scatter=self._scatter(self._spread(stacked)),
            squared_norm=float(stacked @ stacked),
            energy=None,
        )

    def _spread(self, stacked: Array) -> Array:
        """Theta with each parameter in the column of its output."""
        parameters = np.zeros((len(stacked), len(self.features.parts)))
        parameters[np.arange(len(stacked)), self.output_of] = stacked
        return parameters

    def coefficients(self, solution: Solution) -> Array:
        places = zip(self.features.parts, self.features.slices(), strict=True)
        return np.stack([part.coefficients(solution.coordinates[place]) for part, place in places], axis=1)

    def evaluate(self, coefficients: Array, metric_factor: Array, output_matrix: Array | None = None) -> Solution:
        stacked = self._stacked(coefficients)
        system, wanted = self._system(metric_factor)
        residual = float(np.linalg.norm(system @ stacked - wanted))
        scale = float(np.linalg.norm(wanted)) or 1.0
        return replace(self._solution(stacked, metric_factor), residual=residual, relative_residual=residual / scale)

    def _stacked(self, coefficients: Array) -> Array:
        columns = [part.parameters(coefficients[:, k : k + 1])[:, 0] for k, part in enumerate(self.features.parts)]
        return np.concatenate(columns)

    def parameters(self, solution: Solution, output_matrix: Array | None) -> Array:
        return self._spread(solution.coordinates)
