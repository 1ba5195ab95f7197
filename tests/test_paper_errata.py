"""What is wrong or missing in the paper: each point has a test that fails under the paper's own formula."""

import warnings

import numpy as np
import oracles
import pytest
from problems import OutputMatrixStep, class_problem, gaussian_gram, matrix_problem, output_matrix
from sklearn.exceptions import ConvergenceWarning

from outmetric import FixedKernelMetric, LearnedKernelMetric, Status
from outmetric.kernels import operators
from outmetric.problem import objective
from outmetric.solvers.alternation import alternate
from outmetric.solvers.direct import TridiagonalSolver as Spectral

RHO = 0.7


@pytest.fixture
def problem():
    return matrix_problem(n=10, m=2)


@pytest.fixture
def K(problem):
    return gaussian_gram(problem.X)


def test_1_the_functional_has_twice_the_papers_matrix_form(problem, K):
    """eq:formulation_specialized_B and eq:formulation_specialized_B_matrix_form differ by a factor 2 in gamma."""
    C, B = np.random.default_rng(0).normal(size=(10, 2)), output_matrix(2)
    collocation = objective.learned_kernel_objective(C, B, K, problem.Y, problem.coupling, RHO).collocation
    printed = problem.gamma / 2 * np.trace(C.T @ K @ oracles.delta(problem.S) @ K @ C @ B @ B)
    pair_sum = oracles.model2(C, B, K, problem.Y, problem.S, problem.gamma, 0, 0) - oracles.model2(
        C, B, K, problem.Y, problem.S, 0, 0, 0
    )
    assert collocation == pytest.approx(pair_sum)
    assert collocation == pytest.approx(2 * printed)


def test_2_the_kronecker_solve_lacks_a_transpose(problem, K):
    """eq:specialized_form_solve_C_2 as printed does not solve eq:specialized_form_solve_C_1; ours and the corrected one do."""
    B, Y, (gamma, lam) = output_matrix(2), problem.Y, problem.weights
    P = lam * np.eye(10) + gamma * oracles.delta(problem.S)

    def residual(C, P):
        return np.linalg.norm(C + P @ K @ C @ B - lam * Y) / np.linalg.norm(lam * Y)

    printed = oracles.paper_coefficients_2(K, B, Y, problem.S, gamma, lam, corrected=False)
    corrected = oracles.paper_coefficients_2(K, B, Y, problem.S, gamma, lam, corrected=True)
    solver = Spectral(operators.Kronecker(K, B), problem.coupling, Y)
    ours = solver.coefficients(solver.solve(np.eye(2)))
    full = P + gamma * oracles.delta(problem.S)
    assert residual(printed, P) > 0.01
    assert residual(corrected, full) < 1e-10
    assert residual(ours, full) < 1e-10


def test_3_the_printed_gradient_is_not_one_for_the_projection(problem, K):
    """G + G' - G.I is not the steepest direction: projected descent needs <gradient, D> to be the change along D."""
    C, B = np.random.default_rng(0).normal(size=(10, 2)), output_matrix(2)
    rest = (problem.Y, problem.S, *problem.weights, RHO)
    direction = np.array([[0.3, -0.2], [-0.2, 0.5]])
    step = 1e-5
    change = oracles.model2(C, B + step * direction, K, *rest) - oracles.model2(C, B - step * direction, K, *rest)
    ours = objective.output_matrix_gradient(C, B, K, problem.Y, problem.coupling, RHO)
    printed = oracles.paper_gradient_2(C, B, K, problem.Y, problem.S, 2 * problem.gamma, problem.lam, RHO, corrected=False)
    assert np.vdot(ours, direction) == pytest.approx(change / (2 * step), rel=1e-6)
    assert np.vdot(printed, direction) != pytest.approx(change / (2 * step), rel=1e-2)


def test_4_model_1_is_unbounded_below():
    """The paper's alternation explodes within a few steps; ours reports it without ridge, and converges with one."""
    problem = class_problem(n=30, m=2)
    K = gaussian_gram(problem.X, 1.0)
    blocks = oracles.separable_blocks(K, np.eye(2))
    _, _, sizes = oracles.paper_model1(blocks, problem.Y, problem.S, *problem.weights, 100.0, iterations=4)
    assert max(sizes) > 1e6 * sizes[0]
    labels = problem.coupling.labels
    settings = {
        "kernel": "precomputed",
        "metric_penalty": 100.0,
        "regression_weight": problem.lam,
        "collocation_weight": problem.gamma,
    }
    with pytest.warns(ConvergenceWarning, match="falls without bound"):
        paper = FixedKernelMetric(metric_ridge=0, **settings).fit(K, labels)
    assert paper.status_ is Status.DIVERGED
    assert np.isfinite(paper.transform(K)).all()
    ours = FixedKernelMetric(metric_ridge=0.1, **settings).fit(K, labels)
    assert ours.status_ is Status.CONVERGED
    assert ours.objective_ >= -(100.0**2) * 2 / (2 * ours.metric_ridge_)


def test_the_papers_coefficient_step_is_ours():
    problem = matrix_problem(n=8, m=2)
    K, L = gaussian_gram(problem.X), -output_matrix(2, 3)
    blocks = oracles.separable_blocks(K, np.eye(2))
    ours = oracles.coefficient_step(blocks, L, problem.Y, problem.S, *problem.weights)
    for by_pairs in (True, False):
        paper = oracles.paper_coefficients_1(
            oracles.block_matrix(blocks), L, problem.Y, problem.S, *problem.weights, by_pairs=by_pairs
        )
        np.testing.assert_allclose(oracles.outputs(blocks, paper), oracles.outputs(blocks, ours), atol=1e-8)


@pytest.mark.parametrize(("rho", "growth"), [(5.0, 1.1), (20.0, 1.5)])
def test_4_without_ridge_the_first_steps_are_the_papers(rho, growth):
    problem = class_problem(n=12, m=2)
    K = gaussian_gram(problem.X, 1.0)
    blocks = oracles.separable_blocks(K, np.eye(2))
    labels = problem.coupling.labels
    start = -rho * np.linalg.inv(problem.lam * problem.Y.T @ problem.Y)
    C, _, sizes = oracles.paper_model1(blocks, problem.Y, problem.S, *problem.weights, rho, iterations=3, L=start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours = FixedKernelMetric(
            kernel="precomputed",
            metric_penalty=rho,
            metric_ridge=0,
            regression_weight=problem.lam,
            collocation_weight=problem.gamma,
            max_iter=3,
        ).fit(K, labels)
    np.testing.assert_allclose(ours.map(K), oracles.outputs(blocks, C), atol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(ours.metric_factor_), sizes[1], rtol=1e-8)
    assert sizes[1] > growth * sizes[0]


def test_5_the_metric_factor_is_negative_definite_and_only_its_square_matters():
    problem = class_problem(n=20, m=2)
    model = FixedKernelMetric().fit(problem.X, problem.coupling.labels)
    assert np.linalg.eigvalsh(model.metric_factor_).max() < 0
    flipped = model.map(problem.X) @ -model.metric_factor_.T
    distances = np.linalg.norm(flipped[:, None] - flipped[None], axis=2)
    pairs = np.stack([np.repeat(problem.X, 20, axis=0), np.tile(problem.X, (20, 1))], axis=1)
    np.testing.assert_allclose(model.pair_distance(pairs), distances.ravel(), atol=1e-12)
    A = model.get_mahalanobis_matrix()
    np.testing.assert_allclose(A, model.metric_factor_.T @ model.metric_factor_)


def test_6_one_hot_targets_spoil_the_metric_of_model_1_and_simplex_targets_do_not():
    """One-hot targets sum to one: a near-constant kernel fits that direction, and L blows up where no class differs."""
    problem = class_problem(n=60, m=2, seed=1)
    labels = problem.coupling.labels
    X = problem.X + 0.7 * labels[:, None]
    settings = {"bandwidth": 20.0, "metric_ridge": 1e-3}
    onehot = FixedKernelMetric(prototypes="onehot", **settings).fit(X, labels)
    simplex = FixedKernelMetric(**settings).fit(X, labels)
    ones = np.ones(3) / np.sqrt(3)
    weights = np.linalg.eigvalsh(onehot.metric_matrix_)
    assert ones @ onehot.metric_matrix_ @ ones > 0.9 * weights[-1] > 10 * weights[-2]
    spread = np.linalg.eigvalsh(simplex.metric_matrix_)
    assert spread[-1] / spread[0] < weights[-1] / weights[0]


@pytest.mark.parametrize("scale", [0.1, 7.0])
def test_7_one_weight_of_model_2_is_redundant(scale):
    problem = class_problem(n=15, m=2)
    labels = problem.coupling.labels
    first = LearnedKernelMetric(collocation_weight=0.3, regression_weight=2.0, output_penalty=0.7, tol=1e-14)
    second = LearnedKernelMetric(
        collocation_weight=0.3 * scale, regression_weight=2.0 * scale, output_penalty=0.7 * scale**3, tol=1e-14
    )
    maps = [model.fit(problem.X, labels).map(problem.X) for model in (first, second)]
    np.testing.assert_allclose(maps[0], maps[1], atol=1e-7)
    third = LearnedKernelMetric(collocation_weight=0.3, regression_weight=2.0, output_penalty=0.7 * scale**3)
    assert np.abs(third.fit(problem.X, labels).map(problem.X) - maps[0]).max() > 1e-3


@pytest.mark.parametrize("scale", [0.1, 7.0])
def test_7_one_weight_of_model_1_is_redundant(scale):
    problem = class_problem(n=15, m=2)
    labels = problem.coupling.labels
    # metric_ridge is relative to lambda already, so it stays the same number.
    first = FixedKernelMetric(collocation_weight=0.3, regression_weight=2.0, metric_penalty=5.0, tol=1e-12)
    second = FixedKernelMetric(
        collocation_weight=0.3 * scale, regression_weight=2.0 * scale, metric_penalty=5.0 * np.sqrt(scale), tol=1e-12
    )
    first.fit(problem.X, labels)
    second.fit(problem.X, labels)
    np.testing.assert_allclose(first.map(problem.X), second.map(problem.X), atol=1e-9)
    np.testing.assert_allclose(first.metric_factor_, np.sqrt(scale) * second.metric_factor_, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:n_components=5")
def test_penalties_left_to_themselves_are_in_natural_units():
    problem = class_problem(n=40, m=2)
    labels = problem.coupling.labels
    once, twice = (
        LearnedKernelMetric(regression_weight=2.0, collocation_weight=0.1, tol=1e-13).fit(problem.X, labels),
        LearnedKernelMetric(regression_weight=2.0, collocation_weight=0.1, tol=1e-13, n_components=5).fit(problem.X, labels),
    )
    assert 0.3 < np.trace(once.output_matrix_) / 2 < 2
    np.testing.assert_allclose(once.map(problem.X), twice.map(problem.X)[:, :2], atol=1e-6)
    np.testing.assert_allclose(twice.map(problem.X)[:, 2:], 0, atol=1e-9)


def test_the_papers_alternation_in_b_stays_above_our_optimum():
    problem = class_problem(n=15, m=2)
    K = gaussian_gram(problem.X)
    rest = (problem.Y, problem.S, *problem.weights, RHO)
    C, B = oracles.paper_model2(K, *rest, 30, corrected=True)
    solver = Spectral(operators.Kronecker(K, np.eye(2)), problem.coupling, problem.Y)
    ours = alternate(solver, OutputMatrixStep(RHO, 2), tol=1e-12, max_iter=100)
    assert len(ours.history) <= 30
    assert ours.history[-1].objective < oracles.model2(C, B, K, *rest)
