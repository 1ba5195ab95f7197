"""Small problems that the tests share: data, supervision, and the Gram operators of all kinds with their naive blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import oracles
import scipy.sparse

from outmetric import problem as targets
from outmetric.kernels import operators
from outmetric.problem import Factors, FixedKernelModel, LearnedKernelModel

WEIGHTS = {"collocation_weight": 0.3, "regression_weight": 2.0}


@dataclass(frozen=True)
class Problem:
    """n samples with m-dimensional targets, a similarity in both forms, and weights."""

    X: Any
    Y: Any
    S: Any
    coupling: targets.Coupling
    gamma: float = WEIGHTS["collocation_weight"]
    lam: float = WEIGHTS["regression_weight"]

    @property
    def weights(self):
        return self.gamma, self.lam


def points(n=14, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def class_problem(n=14, m=2, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % (m + 1)
    rng.shuffle(labels)
    Y = targets.simplex(m + 1, m)[labels]
    coupling = targets.ClassSimilarity(labels).couple(WEIGHTS["regression_weight"], WEIGHTS["collocation_weight"])
    return Problem(points(n, seed=seed), Y, oracles.similarity_of_classes(labels), coupling)


def matrix_problem(n=14, m=2, seed=0, sparse=False, rank_deficient=False):
    """Real targets and an arbitrary similarity: a product of features for a low-rank S, a Gaussian of Y otherwise."""
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n, m))
    squares = ((Y[:, None] - Y[None]) ** 2).sum(-1)
    S = np.exp(-squares)
    if rank_deficient:
        u = np.ones(n)
        u[: n // 3] = 0
        S = np.outer(u, u)
    if sparse:
        S = S * (S > 0.3)
    given = scipy.sparse.csr_array(S) if sparse else S
    coupling = targets.matrix_similarity(given, n).couple(WEIGHTS["regression_weight"], WEIGHTS["collocation_weight"])
    return Problem(points(n, seed=seed), Y, S, coupling)


PROBLEMS = {
    "classes": class_problem,
    "dense similarity": matrix_problem,
    "sparse similarity": lambda **kw: matrix_problem(sparse=True, **kw),
    "rank-deficient similarity": lambda **kw: matrix_problem(rank_deficient=True, **kw),
}


def gaussian_gram(X, bandwidth=1.0):
    return oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, bandwidth), X, X)


def output_matrix(m, seed=0):
    root = np.random.default_rng(seed).normal(size=(m, m))
    return root @ root.T / m + 0.1 * np.eye(m)


def rank_one(m):
    u = np.arange(1.0, m + 1)
    return np.outer(u, u) / (u @ u)


def gram_operators(X, m):
    """name -> (operator, naive blocks), one of every kind, rank-deficient ones included."""
    K, wide = gaussian_gram(X), gaussian_gram(X, 3.0)
    grams = [gaussian_gram(X, 0.5 * 3.0**k) for k in range(m)]
    duplicated = X.copy()
    duplicated[1::2] = duplicated[::2][: len(duplicated[1::2])]
    deficient = gaussian_gram(duplicated)
    B, B1 = output_matrix(m), rank_one(m)
    separable = oracles.separable_blocks(K, B)
    mixed = oracles.separable_blocks(K, B) + oracles.separable_blocks(wide, B1)
    lazy = operators.row_blocks(lambda part: K[part], K.shape, 5)
    return {
        "separable": (operators.Kronecker(K, B), separable),
        "identity": (operators.Kronecker(K, np.eye(m)), oracles.separable_blocks(K, np.eye(m))),
        "duplicate points": (operators.Kronecker(deficient, B), oracles.separable_blocks(deficient, B)),
        "rank-one output matrix": (operators.Kronecker(K, B1), oracles.separable_blocks(K, B1)),
        "diagonal": (operators.BlockDiagonal(tuple(grams)), oracles.diagonal_blocks(grams)),
        "dense": (operators.DenseBlocks(mixed), mixed),
        "sum": (operators.Kronecker(K, B) + operators.Kronecker(wide, B1), mixed),
        "scaled": (0.5 * operators.BlockDiagonal(tuple(grams)), 0.5 * oracles.diagonal_blocks(grams)),
        "lazy": (operators.Kronecker(lazy, B), separable),
        "lazy diagonal": (operators.BlockDiagonal((lazy,) * m), oracles.separable_blocks(K, np.eye(m))),
    }


OPERATORS = sorted(gram_operators(points(4), 2))


def metric_factor(m, seed=3):
    """A negative definite L, as the metric step returns it."""
    return -output_matrix(m, seed)


class MetricStep(FixedKernelModel):
    """Model 1 by the names of its parameters in the paper; the third, the scatter of the zero map, is the solver's to know."""

    def __init__(self, rho, epsilon, scatter):
        super().__init__(rho, epsilon)

    def optimality(self, learned, step, objective):
        return super().optimality(learned.metric_factor if isinstance(learned, Factors) else learned, step, objective)


class OutputMatrixStep(LearnedKernelModel):
    """Model 2 likewise; the number of outputs is the solver's to know."""

    def __init__(self, rho, n_outputs):
        super().__init__(rho)

    def optimality(self, learned, step, objective):
        return super().optimality(learned.output_matrix if isinstance(learned, Factors) else learned, step, objective)


class FixedBatch(FixedKernelModel):
    """Model 1 for a batch; tests may look on as it advances."""

    @property
    def penalties(self):
        return self.metric_penalty

    @property
    def ridges(self):
        return self.metric_ridge

    def objective(self, learned, step):
        return self.advance(learned, step, None)[1]

    def advance(self, learned, step, _):
        objective = FixedKernelModel.objective(self, learned, step)
        return self.optimality(learned, step, objective), objective, self.minimiser(learned, step)


LearnedBatch = LearnedKernelModel
