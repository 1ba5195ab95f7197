"""Are the functionals, their gradients and the dual bound those of the paper's definitions?"""

import numpy as np
import oracles
import pytest
from problems import OPERATORS, PROBLEMS, gaussian_gram, gram_operators, metric_factor, output_matrix

from outmetric import LearnedKernelMetric
from outmetric.problem import objective

RHO, EPSILON = 0.7, 0.4


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param](n=8, m=2)


@pytest.fixture
def C():
    return np.random.default_rng(2).normal(size=(8, 2))


@pytest.mark.parametrize("kind", OPERATORS)
def test_model_1_is_the_sum_over_pairs(problem, C, kind):
    gram, blocks = gram_operators(problem.X, 2)[kind]
    L = metric_factor(2)
    terms = objective.fixed_kernel_objective(C, L, gram, problem.Y, problem.coupling, RHO, EPSILON)
    expected = oracles.model1(C, L, blocks, problem.Y, problem.S, *problem.weights, RHO, EPSILON)
    assert terms.total == pytest.approx(expected, rel=1e-12)


def test_model_2_is_the_sum_over_pairs(problem, C):
    K, B = gaussian_gram(problem.X), output_matrix(2)
    terms = objective.learned_kernel_objective(C, B, K, problem.Y, problem.coupling, RHO)
    assert terms.total == pytest.approx(oracles.model2(C, B, K, problem.Y, problem.S, *problem.weights, RHO), rel=1e-12)


def test_the_terms_are_the_papers_four(problem, C):
    K, B = gaussian_gram(problem.X), output_matrix(2)
    terms = objective.learned_kernel_objective(C, B, K, problem.Y, problem.coupling, RHO)
    zero, S, Y = np.zeros_like(problem.S), problem.S, problem.Y
    assert terms.penalty == pytest.approx(0.5 * RHO * np.sum(B**2))
    assert terms.roughness == pytest.approx(0.5 * oracles.squared_norm(oracles.separable_blocks(K, B), C))
    assert terms.collocation == pytest.approx(oracles.model2(C, B, K, Y, S, problem.gamma, 0, 0) - terms.roughness)
    assert terms.regression == pytest.approx(oracles.model2(C, B, K, Y, zero, 0, problem.lam, 0) - terms.roughness)


def test_the_residual_scatter_is_the_papers_bracket(problem, C):
    expected = oracles.residual_scatter(C, problem.Y, problem.S, *problem.weights)
    np.testing.assert_allclose(objective.residual_scatter(C, problem.Y, problem.coupling), expected, rtol=1e-12)


def test_gradients_of_model_1_are_those_of_finite_differences(problem, C):
    gram, blocks = gram_operators(problem.X, 2)["dense"]
    L, rest = metric_factor(2), (problem.Y, problem.S, *problem.weights, RHO, EPSILON)
    by_C = gram.apply(objective.coefficient_residual(C, L, gram.apply(C), problem.Y, problem.coupling))
    scatter = objective.residual_scatter(gram.apply(C), problem.Y, problem.coupling)
    by_L = objective.metric_gradient(L, scatter, RHO, EPSILON)
    np.testing.assert_allclose(by_C, oracles.numerical_gradient(lambda c: oracles.model1(c, L, blocks, *rest), C), rtol=1e-6)
    np.testing.assert_allclose(
        by_L, oracles.numerical_gradient(lambda factor: oracles.model1(C, factor, blocks, *rest), L), rtol=1e-6
    )


def test_gradients_of_model_2_are_those_of_finite_differences(problem, C):
    K, B = gaussian_gram(problem.X), output_matrix(2)
    gram, _ = gram_operators(problem.X, 2)["separable"]
    rest = (K, problem.Y, problem.S, *problem.weights, RHO)
    by_C = gram.apply(objective.coefficient_residual(C, np.eye(2), gram.apply(C), problem.Y, problem.coupling))
    by_B = objective.output_matrix_gradient(C, B, K, problem.Y, problem.coupling, RHO)
    numerical = oracles.numerical_gradient(lambda b: oracles.model2(C, b, *rest), B)
    np.testing.assert_allclose(by_C, oracles.numerical_gradient(lambda c: oracles.model2(c, B, *rest), C), rtol=1e-6)
    np.testing.assert_allclose(by_B, (numerical + numerical.T) / 2, rtol=1e-6)


def test_the_dual_bound_is_below_every_value(problem):
    K, rng = gaussian_gram(problem.X), np.random.default_rng(4)
    rest = (problem.Y, problem.S, *problem.weights, RHO)
    bounds = [objective.dual_bound(C, K, problem.Y, problem.coupling, RHO) for C in rng.normal(size=(5, 8, 2))]
    values = [oracles.model2(C, output_matrix(2, seed), K, *rest) for seed, C in enumerate(rng.normal(size=(5, 8, 2)))]
    assert max(bounds) < min(values)
    C = rng.normal(size=(8, 2))
    expected = oracles.dual_value(C, K, *rest)
    assert objective.dual_bound(C, K, problem.Y, problem.coupling, RHO) == pytest.approx(expected, rel=1e-12)


def test_the_gap_is_primal_minus_dual_for_any_coefficients(problem, C):
    K, B = gaussian_gram(problem.X), output_matrix(2)
    gram, _ = gram_operators(problem.X, 2)["separable"]
    primal = objective.learned_kernel_objective(C, B, K, problem.Y, problem.coupling, RHO).total
    dual = objective.dual_bound(C, K, problem.Y, problem.coupling, RHO)
    left = problem.coupling.solve_factor(
        objective.coefficient_residual(C, np.eye(2), gram.apply(C), problem.Y, problem.coupling),
    )
    gap = objective.duality_gap(B, C.T @ K @ C, RHO, float(np.linalg.norm(left)))
    assert gap == pytest.approx(primal - dual, rel=1e-10)


def test_without_b_the_optimum_is_that_of_a_schatten_norm():
    """The theory's form of model 2, tr M(F)/2 + 3/2 (rho/4)^(1/3) |K^(-1/2) F|^(4/3), at a fit, and not below it beside the fit."""
    rng = np.random.default_rng(5)
    X, label = rng.normal(size=(12, 3)), np.arange(12) % 3
    model = LearnedKernelMetric(bandwidth=0.5, collocation_weight=0.1, regression_weight=2.0, output_penalty=RHO).fit(X, label)
    K, S, Y = gaussian_gram(X, 0.5), (label[:, None] == label).astype(float), model.prototypes_[label]
    roots = np.linalg.inv(np.linalg.cholesky(K))

    def value(F):
        pairs = sum(S[i, j] * np.sum((F[i] - F[j]) ** 2) for i in range(12) for j in range(12))
        singular = np.linalg.svd(roots @ F, compute_uv=False)
        return 0.05 * pairs + 1.0 * np.sum((F - Y) ** 2) + 1.5 * (RHO / 4) ** (1 / 3) * np.sum(singular ** (4 / 3))

    F = model.map(X)
    assert value(F) == pytest.approx(model.objective_, rel=1e-9)
    assert all(value(F + 1e-3 * step) > value(F) for step in rng.normal(size=(20, *F.shape)))
