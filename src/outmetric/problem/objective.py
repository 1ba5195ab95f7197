"""The paper's two functionals, term by term, with their gradients and the dual bound of model 2.

With F = gram(C) and the residual scatter M(F) = 2 gamma F' Delta F + lambda (F - Y)'(F - Y):

    Model 1   Q1(C, L) = 1/2 <C, gram(C)> + 1/2 tr(L M L') + rho tr(L) + epsilon/2 |L|^2      eq:formulation_general
    Model 2   Q2(C, B) = 1/2 <C, gram(C)> + 1/2 tr(M)      + rho/2 |B|^2,  F = K C B          eq:formulation_specialized_B

The epsilon term is ours: without it model 1 is unbounded below. These functions follow the definitions and serve any C, L and B;
the training loop uses cheaper expressions that hold after an exact coefficient step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outmetric.foundation import Array, storable
from outmetric.kernels import GramOperator, SampleGram
from outmetric.problem.coupling import Coupling


@storable("Terms")
@dataclass(frozen=True)
class Terms:
    """The four terms of a functional, each with its weight; ``total`` is their sum.

    ``penalty`` is what is paid for the metric: rho tr(L) + epsilon/2 |L|^2 (model 1, may be negative) or rho/2 |B|^2 (model 2).
    """

    roughness: float
    collocation: float
    regression: float
    penalty: float

    @property
    def total(self) -> float:
        return self.roughness + self.collocation + self.regression + self.penalty


def residual_scatter(outputs: Array, targets: Array, coupling: Coupling) -> Array:
    """M(F), the bracket of eq:solution_L_general."""
    return _collocation_scatter(outputs, coupling) + _regression_scatter(outputs, targets, coupling)


def _collocation_scatter(outputs: Array, coupling: Coupling) -> Array:
    return np.asarray(2 * coupling.collocation_weight * outputs.T @ coupling.laplacian(outputs))


def _regression_scatter(outputs: Array, targets: Array, coupling: Coupling) -> Array:
    return np.asarray(coupling.regression_weight * (outputs - targets).T @ (outputs - targets))


def map_terms(
    coefficients: Array, metric_factor: Array, outputs: Array, targets: Array, coupling: Coupling, penalty: float
) -> Terms:
    """The terms of either functional for C, F = gram(C) and L (model 2: the identity), and the term that is paid for it."""
    metric = metric_factor.T @ metric_factor
    return Terms(
        roughness=0.5 * float(np.vdot(coefficients, outputs)),
        collocation=0.5 * float(np.vdot(metric, _collocation_scatter(outputs, coupling))),
        regression=0.5 * float(np.vdot(metric, _regression_scatter(outputs, targets, coupling))),
        penalty=penalty,
    )


def fixed_kernel_objective(
    coefficients: Array,
    metric_factor: Array,
    gram: GramOperator,
    targets: Array,
    coupling: Coupling,
    metric_penalty: float,
    metric_ridge: float,
) -> Terms:
    """Q1(C, L); ``metric_ridge`` is epsilon itself."""
    penalty = fixed_kernel_penalty(metric_factor, metric_penalty, metric_ridge)
    return map_terms(coefficients, metric_factor, gram.apply(coefficients), targets, coupling, penalty)


def fixed_kernel_penalty(metric_factor: Array, metric_penalty: Any, metric_ridge: Any) -> Any:
    """Rho tr(L) + epsilon/2 |L|^2; works on stacks of matrices."""
    trace = np.trace(metric_factor, axis1=-2, axis2=-1)
    return metric_penalty * trace + 0.5 * metric_ridge * np.sum(metric_factor**2, axis=(-2, -1))


def learned_kernel_objective(
    coefficients: Array, output_matrix: Array, sample_gram: SampleGram, targets: Array, coupling: Coupling, output_penalty: float
) -> Terms:
    """Q2(C, B)."""
    outputs = sample_gram @ (coefficients @ output_matrix)
    penalty = learned_kernel_penalty(output_matrix, output_penalty)
    return map_terms(coefficients, np.eye(len(output_matrix)), outputs, targets, coupling, penalty)


def learned_kernel_penalty(output_matrix: Array, output_penalty: Any) -> Any:
    """Rho/2 |B|^2; works on stacks of matrices."""
    return 0.5 * output_penalty * np.sum(output_matrix**2, axis=(-2, -1))


def coefficient_residual(coefficients: Array, metric_factor: Array, outputs: Array, targets: Array, coupling: Coupling) -> Array:
    """C + P F A - lambda Y A with F = gram(C) and A = L'L (model 2: L = I); gram(it) is the gradient of either functional in C."""
    metric = metric_factor.T @ metric_factor
    return np.asarray(coefficients + (coupling.apply(outputs) - coupling.regression_weight * targets) @ metric)


def metric_gradient(metric_factor: Array, scatter: Array, metric_penalty: Any, metric_ridge: Any) -> Array:
    """The gradient of Q1 in L: L (M + epsilon I) + rho I. Works on stacks of matrices, with penalties of shape (..., 1, 1)."""
    identity = np.eye(scatter.shape[-1])
    return np.asarray(metric_factor @ (scatter + metric_ridge * identity) + metric_penalty * identity)


def output_matrix_gradient(
    coefficients: Array, output_matrix: Array, sample_gram: SampleGram, targets: Array, coupling: Coupling, output_penalty: float
) -> Array:
    """The gradient of Q2 in the symmetric matrix B, coefficients held fixed, for the Frobenius inner product: (G + G')/2.

    eq:specialized_form_solve_B_2 prints G + G' - G.I instead, which differentiates by the free entries of B.
    """
    features = sample_gram @ coefficients
    outputs = features @ output_matrix
    gradient = features.T @ (coupling.apply(outputs) - coupling.regression_weight * targets)
    gradient += 0.5 * coefficients.T @ features + output_penalty * output_matrix
    return np.asarray(gradient + gradient.T) / 2


def dual_bound(coefficients: Array, sample_gram: SampleGram, targets: Array, coupling: Coupling, output_penalty: float) -> float:
    """A lower bound of the optimum of model 2, for any C:

    lambda/2 |Y|^2 - 1/2 tr((lambda Y - C)' P^-1 (lambda Y - C)) - 1/(8 rho) |C'K C|^2.
    """
    energy = coefficients.T @ (sample_gram @ coefficients)
    whitened = coupling.solve_factor(coupling.regression_weight * targets - coefficients)
    bound = 0.5 * coupling.regression_weight * np.sum(targets**2) - 0.5 * np.sum(whitened**2)
    return float(bound - np.sum(energy**2) / (8 * output_penalty))


def duality_gap(output_matrix: Array, energy: Array, output_penalty: Any, residual: float = 0.0) -> Any:
    """Q2(C, B) minus the dual bound of C, as a sum of squares:

    rho/2 |B - C'K C/(2 rho)|^2 + 1/2 |R^-1 (C + P F - lambda Y)|^2.

    Both are zero at the optimum only; no cancellation limits how small a gap can be seen. ``energy`` is C'K C, and ``residual`` the
    norm in the second term, zero after an exact coefficient step. Works on stacks of matrices, with penalties of shape (..., 1, 1).
    """
    mismatch = output_matrix - energy / (2 * output_penalty)
    return np.sum(0.5 * output_penalty * mismatch**2, axis=(-2, -1)) + 0.5 * residual**2
