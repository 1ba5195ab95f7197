"""Does the alternation reach the optimum, and does it know?"""

from dataclasses import replace

import numpy as np
import oracles
import pytest
from problems import PROBLEMS, MetricStep, OutputMatrixStep, class_problem, gaussian_gram, gram_operators, matrix_problem
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from outmetric import FixedKernelMetric, LearnedKernelMetric
from outmetric.kernels import operators
from outmetric.problem import Factors, objective
from outmetric.solvers.alternation import alternate
from outmetric.solvers.choice import SOLVERS
from outmetric.solvers.direct import TridiagonalSolver as Spectral
from outmetric.solvers.solution import Solution, Status

RHO = 0.7


def train_model2(problem, K, *, rho=RHO, tol=1e-12, solver="spectral", max_iter=500):
    m = problem.Y.shape[1]
    prepared = SOLVERS[solver](operators.Kronecker(K, np.eye(m)), problem.coupling, problem.Y)
    return alternate(prepared, OutputMatrixStep(rho, m), tol=tol, max_iter=max_iter)


def train_model1(problem, gram, *, rho=3.0, epsilon=0.5, solver="dense", tol=1e-10, max_iter=5000):
    prepared = SOLVERS[solver](gram, problem.coupling, problem.Y)
    scatter = problem.lam * problem.Y.T @ problem.Y
    return alternate(prepared, MetricStep(rho, epsilon, scatter), tol=tol, max_iter=max_iter)


@pytest.mark.parametrize("similarity", PROBLEMS)
class TestModel2:
    @pytest.fixture
    def setting(self, similarity):
        problem = PROBLEMS[similarity](n=14, m=2)
        return problem, gaussian_gram(problem.X), (problem.Y, problem.S, *problem.weights, RHO)

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_the_certificate_is_honest(self, setting, solver):
        problem, K, rest = setting
        trained = train_model2(problem, K, solver=solver)
        C, B = trained.coefficients, trained.factors.output_matrix
        value, bound = oracles.model2(C, B, K, *rest), oracles.dual_value(C, K, *rest)
        assert trained.status is Status.CONVERGED
        assert trained.history[-1].gap <= 1e-12
        assert abs(value - bound) < 1e-10 * value
        assert trained.history[-1].objective == pytest.approx(value, rel=1e-11)

    def test_the_gap_in_the_history_bounds_the_distance_to_the_optimum(self, setting):
        problem, K, rest = setting
        least = oracles.model2_by_dual(K, *rest)[0]
        history = train_model2(problem, K, tol=1e-9).history
        assert len(history) > 2
        assert all(record.objective - least <= record.gap * record.objective * (1 + 1e-6) for record in history[:-1])

    def test_the_objective_never_rises(self, setting):
        problem, K, _ = setting
        values = [record.objective for record in train_model2(problem, K).history]
        assert np.all(np.diff(values) <= 1e-12 * abs(values[0]))

    def test_both_gradients_vanish(self, setting):
        problem, K, _ = setting
        trained = train_model2(problem, K, tol=1e-16, max_iter=40)
        C, B = trained.coefficients, trained.factors.output_matrix
        gram = operators.Kronecker(K, B)
        left = objective.coefficient_residual(C, np.eye(2), gram.apply(C), problem.Y, problem.coupling)
        by_B = objective.output_matrix_gradient(C, B, K, problem.Y, problem.coupling, RHO)
        assert np.abs(left).max() < 1e-10
        assert np.abs(by_B).max() < 1e-6

    def test_the_learned_matrix_is_that_of_the_optimality_condition(self, setting):
        problem, K, _ = setting
        trained = train_model2(problem, K, tol=1e-16, max_iter=40)
        C, B = trained.coefficients, trained.factors.output_matrix
        np.testing.assert_allclose(B, C.T @ K @ C / (2 * RHO), rtol=1e-6, atol=1e-8)

    def test_the_value_is_that_of_l_bfgs_on_the_dual(self, setting):
        problem, K, rest = setting
        assert train_model2(problem, K).history[-1].objective == pytest.approx(oracles.model2_by_dual(K, *rest)[0], rel=1e-8)


@pytest.mark.parametrize("make", [class_problem, matrix_problem])
def test_model_2_agrees_with_a_generic_conic_solver(make):
    problem = make(n=8, m=2)
    K = gaussian_gram(problem.X)
    trained = train_model2(problem, K)
    value, F = oracles.model2_by_cvxpy(K, problem.Y, problem.S, *problem.weights, RHO)
    assert trained.history[-1].objective == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(K @ trained.coefficients @ trained.factors.output_matrix, F, atol=1e-3)


def test_without_collocation_model_2_is_output_kernel_learning():
    problem = class_problem(n=15, m=2)
    K = gaussian_gram(problem.X)
    coupling = type(problem.coupling)(problem.coupling.labels, problem.lam, 0.0)
    solver = Spectral(operators.Kronecker(K, np.eye(2)), coupling, problem.Y)
    # Dividing our functional by lambda r, with r = 1/lambda, gives theirs when rho = 1.
    trained = alternate(solver, OutputMatrixStep(1.0, 2), tol=1e-14, max_iter=200)
    C, L = oracles.output_kernel_learning(K, problem.Y, 1 / problem.lam, 20_000)
    np.testing.assert_allclose(trained.factors.output_matrix, L, atol=1e-5)
    np.testing.assert_allclose(K @ trained.coefficients @ trained.factors.output_matrix, K @ C @ L, atol=1e-5)


def test_a_direction_without_targets_gets_no_kernel():
    problem = class_problem(n=12, m=2)
    padded = np.hstack([problem.Y, np.zeros((12, 1))])
    solver = Spectral(operators.Kronecker(gaussian_gram(problem.X), np.eye(3)), problem.coupling, padded)
    trained = alternate(solver, OutputMatrixStep(RHO, 3), tol=1e-12, max_iter=100)
    np.testing.assert_allclose(trained.factors.output_matrix[2], 0, atol=1e-12)
    assert trained.status is Status.CONVERGED


@pytest.mark.parametrize("kind", ["separable", "rank-one output matrix", "duplicate points", "diagonal", "dense", "sum"])
@pytest.mark.parametrize("similarity", PROBLEMS)
class TestModel1:
    @pytest.fixture
    def setting(self, similarity, kind):
        problem = PROBLEMS[similarity](n=12, m=2)
        gram, blocks = gram_operators(problem.X, 2)[kind]
        return problem, gram, blocks

    def test_the_objective_never_rises(self, setting):
        problem, gram, _ = setting
        values = [record.objective for record in train_model1(problem, gram).history]
        assert len(values) > 2
        assert np.all(np.diff(values) <= 1e-12 * np.abs(values[:-1]))

    def test_the_result_is_stationary(self, setting):
        problem, gram, blocks = setting
        trained = train_model1(problem, gram)
        C, L = trained.coefficients, trained.factors.metric_factor
        rest = (problem.Y, problem.S, *problem.weights, 3.0, 0.5)
        by_C = oracles.numerical_gradient(lambda c: oracles.model1(c, L, blocks, *rest), C)
        by_L = oracles.numerical_gradient(lambda factor: oracles.model1(C, factor, blocks, *rest), L)
        assert trained.status is Status.CONVERGED
        assert np.abs(by_C).max() < 1e-5
        assert np.abs(by_L).max() < 1e-5

    def test_solvers_agree_at_the_end(self, setting):
        problem, gram, blocks = setting
        dense, cg = (train_model1(problem, gram, solver=solver) for solver in ("dense", "cg"))
        assert cg.history[-1].objective == pytest.approx(dense.history[-1].objective, rel=1e-8)
        F = oracles.outputs(blocks, dense.coefficients)
        np.testing.assert_allclose(oracles.outputs(blocks, cg.coefficients), F, atol=1e-6 * np.abs(F).max())

    def test_the_value_is_bounded_below(self, setting):
        problem, gram, _ = setting
        assert train_model1(problem, gram).history[-1].objective > -(3.0**2) * 2 / (2 * 0.5)


@pytest.mark.parametrize(
    ("points", "max_iter"),
    [
        # Two nearly equal points with different targets: plain alternation takes 490 rounds to this gap.
        ([0.12573022, -0.13210486, 0.64042265, 0.10490012], 40),
        # Three of them: the round-off of a plain cube root ends all progress at a gap of 5e-10.
        ([0.57500899, 0.58803847, -0.60608481, 0.56425923], 100),
        ([0.00142215, 0.00116751, 0.00096044, -0.01344772], 100),
    ],
)
def test_uneven_metrics_are_reached_fast(points, max_iter):
    model = LearnedKernelMetric(tol=1e-10, max_iter=max_iter).fit(np.array(points)[:, None], np.arange(4))
    assert model.status_ is Status.CONVERGED


def test_an_inexact_step_counts_against_optimality():
    solution = Solution(np.zeros((4, 1)), -np.eye(1), np.eye(1), 1.0, np.eye(1), 1.0, residual=0.3, relative_residual=0.2)
    certain = replace(solution, residual=0.0, relative_residual=0.0)
    step, factors = OutputMatrixStep(0.5, 1), Factors(np.eye(1), np.eye(1))
    assert step.optimality(factors, certain, 1.0) == 0.0
    assert step.optimality(factors, solution, 1.0) == pytest.approx(0.5 * 0.3**2)
    step, factors = MetricStep(1.5, 0.5, np.eye(1)), Factors(-np.eye(1))
    assert step.optimality(factors, certain, 1.0) == 0.0
    assert step.optimality(factors, solution, 1.0) == pytest.approx(0.2**2)


def test_the_objective_of_a_spoilt_solution_is_no_success():
    step, factors = OutputMatrixStep(0.5, 1), Factors(np.eye(1), np.eye(1))
    solution = Solution(np.zeros((4, 1)), np.eye(1), np.eye(1), 1.0, np.eye(1), 1.0)
    assert step.optimality(factors, solution, -1.0) == np.inf
    assert step.optimality(factors, solution, np.nan) == np.inf


def test_the_iteration_limit_is_told():
    problem = class_problem()
    trained = train_model2(problem, gaussian_gram(problem.X), tol=0.0, max_iter=2)
    assert trained.status is Status.ITERATION_LIMIT
    assert len(trained.history) == 2


def test_a_toy_worked_by_hand():
    # Two points, k(x, x') = [x = x'], targets +-1, gamma = 0, lambda = 1. With b the 1 x 1 matrix B: c = y / (1 + b),
    # C'K C = 2 / (1 + b)^2, and B = C'K C / (2 rho) gives rho b (1 + b)^2 = 1: b = 1 for rho = 1/4.
    Y = np.array([[1.0], [-1.0]])
    coupling = class_problem(n=2, m=1).coupling
    coupling = type(coupling)(np.array([0, 1]), 1.0, 0.0)
    trained = alternate(
        Spectral(operators.Kronecker(np.eye(2), np.eye(1)), coupling, Y), OutputMatrixStep(0.25, 1), tol=0, max_iter=1
    )
    assert trained.factors.output_matrix == pytest.approx(np.array([[1.0]]))
    assert trained.coefficients == pytest.approx(Y / 2)
    assert trained.history[-1].objective == pytest.approx(0.5 * 0.5 + 0.5 * 2 * 0.25 + 0.125)


def test_an_iteration_that_goes_nowhere_ends():
    """A weight that makes the system as ill-conditioned as double precision allows: no thousand rounds of noise."""
    X, y = make_blobs(1100, 6, centers=3, cluster_std=4, random_state=0)
    for model, settings in (
        (FixedKernelMetric, {"kernel": "poly", "regression_weight": 1e4}),
        # The automatic penalty would be made of the round-off of what a linear kernel cannot see.
        (LearnedKernelMetric, {"kernel": "linear", "regression_weight": 1e4, "output_penalty": 1e-6}),
    ):
        with pytest.warns(ConvergenceWarning):
            fitted = model(solver="cg", **settings).fit(X, y)
        assert fitted.status_ in (Status.STALLED, Status.ILL_CONDITIONED)
        assert fitted.n_iter_ < 200
