"""The coefficient step in the space of features (`outmetric.problem.summary`).

In Gamma = Phi'C the step C + P F A = lambda Y A reads Gamma + T Gamma B A = lambda N A, and Theta = Gamma B.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np
import scipy.sparse

from outmetric.foundation import Array
from outmetric.kernels import Features
from outmetric.problem import Summary, Terms
from outmetric.solvers.solution import IllConditionedError, Solution, Solver, relative


class NystroemSolver(Solver):
    """What the two solvers in the features' space share."""

    name = "nystroem"

    def __init__(self, features: Features, summary: Summary, regression_weight: float, collocation_weight: float) -> None:
        self.features = features
        self.summary = summary
        self.regression_weight = regression_weight
        self.collocation_weight = collocation_weight
        self.coupled = summary.coupled(regression_weight, collocation_weight)

    @property
    def squares(self) -> Array:
        return self.summary.squares

    @property
    def initial_scatter(self) -> Array:
        return self.regression_weight * self.squares

    @property
    def visibility(self) -> float:
        return self.summary.visibility

    def _scatter(self, parameters: Array) -> Array:
        """M(F) for F = Phi Theta."""
        pull = self.regression_weight * parameters.T @ self.summary.cross
        return parameters.T @ self.coupled @ parameters - pull - pull.T + self.regression_weight * self.summary.squares

    def terms(self, evaluated: Solution, output_matrix: Array | None, penalty: float) -> Terms:
        metric = evaluated.metric_factor.T @ evaluated.metric_factor
        parameters = self.parameters(evaluated, output_matrix)
        near = 2 * self.collocation_weight * parameters.T @ self.summary.laplacian @ parameters
        if self.summary.graph is not None:
            near = near + self.regression_weight * parameters.T @ self.summary.graph @ parameters
        return Terms(
            roughness=0.5 * evaluated.squared_norm,
            collocation=0.5 * float(np.vdot(metric, near)),
            regression=0.5 * float(np.vdot(metric, evaluated.scatter - near)),
            penalty=penalty,
        )

    @abstractmethod
    def parameters(self, solution: Solution, output_matrix: Array | None) -> Array:
        """Theta of shape (r, m)."""


class SpectralNystroem(NystroemSolver):
    """Separable kernels: one eigendecomposition T = V diag(w) V' for all iterations."""

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
        parameters = dual @ output_matrix
        return Solution(
            coordinates=dual,
            metric_factor=metric_factor,
            scatter=self._scatter(parameters),
            squared_norm=float(np.vdot(output_matrix, energy)),
            energy=energy,
            coupled_norm=float(np.vdot(parameters, self.coupled @ parameters)),
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
        residual = float(np.hypot(np.linalg.norm(weights * (self.basis.T @ left)), self._round_off(solution, output_matrix)))
        pull = float(np.vdot(wanted, dual @ output_matrix))
        return replace(
            solution, residual=residual, relative_residual=relative(residual, np.sum((weights * self.rotated_targets) ** 2), pull)
        )

    def _round_off(self, solution: Solution, output_matrix: Array) -> float:
        """The residual that hides in the round-off of T, in which what lambda contributes is lost if gamma n is far above it.

        In Z = Gamma L^-1 and the eigenbasis of L B L' the outputs do not mix: (1/b_k + T) theta_k = lambda n_k, theta_k = b_k z_k.
        An error of T moves each entry of T theta_k by some eps |T| |theta_k|; half its square over 1/b_k + t_j is what that costs.
        """
        factor = solution.metric_factor
        values, basis = np.linalg.eigh(factor @ output_matrix @ factor.T)
        values = values.clip(min=0)
        squares = values**2 * np.sum((solution.coordinates @ np.linalg.solve(factor, basis)) ** 2, axis=0)
        # Directions that were dropped because round-off hides them are as if T were zero there.
        costs = (values / (1 + np.multiply.outer(self.spectrum, values))).sum(axis=0) + self.features.parts[0].dropped * values
        return float(32 * np.finfo(np.float64).eps * self.spectrum[-1] * np.sqrt(squares @ costs))

    def parameters(self, solution: Solution, output_matrix: Array | None) -> Array:
        return np.asarray(solution.coordinates @ (self.output_matrix if output_matrix is None else output_matrix))


class DenseNystroem(NystroemSolver):
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
        parameters = self._spread(stacked)
        return Solution(
            coordinates=stacked,
            metric_factor=metric_factor,
            scatter=self._scatter(parameters),
            squared_norm=float(stacked @ stacked),
            energy=None,
            coupled_norm=float(np.vdot(parameters, self.coupled @ parameters)),
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
        # No eigenvalue of the system is below 1: the parameters are wrong by no more than the residual, its own round-off included.
        size = float(np.linalg.norm(stacked))
        round_off = np.finfo(np.float64).eps * float(np.linalg.norm(system)) * size
        residual = float(np.hypot(np.linalg.norm(system @ stacked - wanted), round_off))
        return replace(
            self._solution(stacked, metric_factor), residual=residual, relative_residual=relative(residual, size**2, size**2)
        )

    def _stacked(self, coefficients: Array) -> Array:
        columns = [part.parameters(coefficients[:, k : k + 1])[:, 0] for k, part in enumerate(self.features.parts)]
        return np.concatenate(columns)

    def parameters(self, solution: Solution, output_matrix: Array | None) -> Array:
        return self._spread(solution.coordinates)
