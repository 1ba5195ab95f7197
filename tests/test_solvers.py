"""Does every solver find the exact coefficient step, on every operator and coupling that it supports?"""

import numpy as np
import oracles
import pytest
import scipy.linalg
from problems import OPERATORS, PROBLEMS, gaussian_gram, gram_operators, metric_factor, output_matrix, points, rank_one
from scipy.sparse.linalg import aslinearoperator

from outmetric.kernels import operators
from outmetric.problem import objective
from outmetric.solvers.choice import SOLVERS, choose_solver
from outmetric.solvers.conjugate_gradients import ConjugateGradient
from outmetric.solvers.direct import CholeskySolver as Dense
from outmetric.solvers.direct import Eigensystem, Tridiagonal
from outmetric.solvers.direct import TridiagonalSolver as Spectral
from outmetric.solvers.solution import IllConditionedError

SEPARABLE = ["separable", "identity", "duplicate points", "rank-one output matrix"]
SUPPORTED = [(name, kind) for name in SOLVERS for kind in (SEPARABLE if name == "spectral" else OPERATORS)]


@pytest.mark.parametrize("similarity", PROBLEMS)
@pytest.mark.parametrize(("name", "kind"), SUPPORTED)
def test_the_solution_is_that_of_the_naive_system(name, kind, similarity):
    problem = PROBLEMS[similarity](n=12, m=3)
    gram, blocks = gram_operators(problem.X, 3)[kind]
    L = metric_factor(3)
    solver = SOLVERS[name](gram, problem.coupling, problem.Y)
    solution = solver.solve(L)
    C = solver.coefficients(solution)
    expected = oracles.coefficient_step(blocks, L, problem.Y, problem.S, *problem.weights)
    F = oracles.outputs(blocks, expected)
    np.testing.assert_allclose(C, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    scatter = oracles.residual_scatter(F, problem.Y, problem.S, *problem.weights)
    np.testing.assert_allclose(solution.scatter, scatter, rtol=1e-8, atol=1e-8 * np.abs(scatter).max())
    assert solution.squared_norm == pytest.approx(oracles.squared_norm(blocks, expected), rel=1e-8)
    left = objective.coefficient_residual(C, L, gram.apply(C), problem.Y, problem.coupling)
    assert np.abs(left).max() < 1e-8 * np.abs(expected).max()
    assert name == "cg" or solution.iterations == 1


@pytest.mark.parametrize("similarity", PROBLEMS)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("B", [output_matrix(2), rank_one(2), np.zeros((2, 2))], ids=["full", "rank one", "zero"])
def test_an_output_matrix_replaces_that_of_the_kernel(name, similarity, B):
    problem = PROBLEMS[similarity](n=12, m=2)
    K = gaussian_gram(problem.X)
    solver = SOLVERS[name](operators.Kronecker(K, np.eye(2)), problem.coupling, problem.Y)
    solution = solver.solve(np.eye(2), B)
    expected = oracles.coefficient_step(oracles.separable_blocks(K, B), np.eye(2), problem.Y, problem.S, *problem.weights)
    np.testing.assert_allclose(solver.coefficients(solution), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(solution.energy, expected.T @ K @ expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("name", SOLVERS)
def test_the_energy_from_which_penalties_follow_is_exact(name, held):
    """Automatic penalties must not depend on the solver: also where conjugate gradients have no preconditioner."""
    problem = PROBLEMS["classes"](n=12, m=2)
    K = gaussian_gram(problem.X)
    gram = operators.Kronecker(K if held or name != "cg" else aslinearoperator(K), output_matrix(2))
    blocks = oracles.separable_blocks(K, np.eye(2))
    C = oracles.coefficient_step(blocks, np.eye(2), problem.Y, problem.S, *problem.weights)
    found = SOLVERS[name](gram, problem.coupling, problem.Y).identity_energy(2)
    np.testing.assert_allclose(found, C.T @ K @ C, rtol=1e-10, atol=1e-10)


def test_the_step_is_a_minimum():
    problem = PROBLEMS["classes"](n=9, m=2)
    gram, blocks = gram_operators(problem.X, 2)["dense"]
    L, rng = metric_factor(2), np.random.default_rng(0)
    solver = Dense(gram, problem.coupling, problem.Y)
    C = solver.coefficients(solver.solve(L))
    rest = (blocks, problem.Y, problem.S, *problem.weights, 1.0, 0.0)
    least = oracles.model1(C, L, *rest)
    assert all(oracles.model1(C + 0.1 * rng.normal(size=C.shape), L, *rest) > least for _ in range(10))


@pytest.mark.parametrize("L", [-np.eye(3) - 0.3, metric_factor(3)], ids=["mild", "anisotropic"])
@pytest.mark.parametrize("factor", [1.0, 3.0, 10.0])
@pytest.mark.parametrize("lam", [1.0, 1e4])
def test_diagonal_kernels_converge_whatever_spreads_and_weights(factor, lam, L):
    problem = PROBLEMS["classes"](n=60, m=3)
    grams = tuple(gaussian_gram(problem.X, 0.3 * factor**k) for k in range(3))
    coupling = type(problem.coupling)(problem.coupling.labels, lam, lam / 10)
    solution = ConjugateGradient(operators.BlockDiagonal(grams), coupling, problem.Y, tolerance=1e-9).solve(L)
    inverse = np.linalg.inv(L.T @ L)
    scale = np.diag(inverse) ** -0.5
    condition = np.linalg.cond(scale[:, None] * inverse * scale)
    assert solution.relative_residual < 1e-8
    # The bound of conjugate gradients for this condition number, with the tolerance squared for the change of norm.
    assert solution.iterations <= np.sqrt(condition) / 2 * np.log(2e18)


def test_conjugate_gradients_start_where_they_are_told():
    problem = PROBLEMS["classes"](n=30, m=2)
    gram, _ = gram_operators(problem.X, 2)["diagonal"]
    solver = ConjugateGradient(gram, problem.coupling, problem.Y)
    first = solver.solve(metric_factor(2))
    again = solver.solve(metric_factor(2), start=first)
    assert again.iterations < first.iterations


def test_tridiagonal_form():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9))
    W, x = root @ root.T, rng.normal(size=(9, 2))
    system = Tridiagonal.reduce(W.copy())
    T = np.diag(system.diagonal) + np.diag(system.off_diagonal, 1) + np.diag(system.off_diagonal, -1)
    Q = system.rotate(np.eye(9), back=True)
    np.testing.assert_allclose(Q @ T @ Q.T, W, atol=1e-12)
    np.testing.assert_allclose(system.rotate(x), Q.T @ x, atol=1e-12)
    np.testing.assert_allclose(system.multiply(x), T @ x, atol=1e-12)
    np.testing.assert_allclose(system.extreme_eigenvalues(), scipy.linalg.eigvalsh(W)[[0, -1]])
    solved = system.solve_rotated(x, np.array([1.0, 2.0]), np.array([0.5, 0.0]))
    np.testing.assert_allclose(solved[:, 0], np.linalg.solve(np.eye(9) + 0.5 * T, x[:, 0]))
    np.testing.assert_allclose(solved[:, 1], x[:, 1] / 2)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_eigenvectors_that_are_never_made(n):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    W, x = root @ root.T, rng.normal(size=(n, 2))
    system = Eigensystem.of(W.copy())
    values = np.linalg.eigvalsh(W)
    np.testing.assert_allclose(system.spectrum, values)
    V = system.rotate(np.eye(n), back=True)
    np.testing.assert_allclose(V @ np.diag(values) @ V.T, W, atol=1e-12)
    np.testing.assert_allclose(V.T @ V, np.eye(n), atol=1e-12)
    np.testing.assert_allclose(system.rotate(x), V.T @ x, atol=1e-12)
    some = system.among(values >= np.median(values))
    kept = V[:, values >= np.median(values)]
    np.testing.assert_allclose(some.rotate(x), kept.T @ x, atol=1e-12)
    np.testing.assert_allclose(some.rotate(some.rotate(x), back=True), kept @ kept.T @ x, atol=1e-12)


def test_lost_definiteness_is_an_error_not_a_number():
    system = Tridiagonal.reduce(np.diag([1.0, -1e-9]))
    with pytest.raises(IllConditionedError):
        system.solve_rotated(np.ones((2, 1)), np.ones(1), np.array([1e10]))


@pytest.mark.parametrize("name", SOLVERS)
def test_an_indefinite_kernel_is_refused(name):
    problem = PROBLEMS["classes"](n=6, m=2)
    K = gaussian_gram(problem.X) - 0.5 * np.eye(6)
    with pytest.raises(ValueError, match="not positive semi-definite: its smallest eigenvalue is -"):
        SOLVERS[name](operators.Kronecker(K, np.eye(2)), problem.coupling, problem.Y)


def test_an_indefinite_kernel_that_is_not_held_is_refused_when_met():
    problem = PROBLEMS["classes"](n=6, m=2)
    K = -np.eye(6)
    lazy = operators.row_blocks(lambda part: K[part], K.shape, 2)
    solver = ConjugateGradient(operators.Kronecker(lazy, np.eye(2)), problem.coupling, problem.Y)
    with pytest.raises(ValueError, match="not positive semi-definite: a quadratic form"):
        solver.solve(np.eye(2))


def test_the_choice_follows_the_structure():
    small = gram_operators(points(5), 2)
    large = operators.BlockDiagonal((np.eye(800),) * 2)
    assert choose_solver(small["separable"][0])[0] is Spectral
    assert choose_solver(small["diagonal"][0])[0] is Dense
    assert choose_solver(large)[0] is ConjugateGradient
    assert choose_solver(small["lazy"][0])[0] is ConjugateGradient
    assert "separable" in choose_solver(small["separable"][0])[1]


def test_spectral_needs_structure():
    problem = PROBLEMS["classes"](n=5, m=2)
    with pytest.raises(ValueError, match="needs a separable kernel"):
        Spectral(gram_operators(problem.X, 2)["diagonal"][0], problem.coupling, problem.Y)
    solver = Dense(gram_operators(problem.X, 2)["diagonal"][0], problem.coupling, problem.Y)
    with pytest.raises(TypeError, match="separable"):
        solver.solve(np.eye(2), np.eye(2))


class TestConjugateGradientsFromFeatures:
    """Features precondition and start; the solution must not depend on them."""

    @pytest.mark.parametrize("similarity", PROBLEMS)
    @pytest.mark.parametrize("kind", ["separable", "rank-one output matrix", "diagonal", "lazy"])
    @pytest.mark.parametrize("columns", [1, 5, 12])
    def test_the_solution_is_that_of_the_naive_system(self, similarity, kind, columns):
        problem = PROBLEMS[similarity](n=12, m=3)
        gram, blocks = gram_operators(problem.X, 3)[kind]
        L = metric_factor(3)
        matrices = [blocks[:, :, k, k] for k in range(3)] if kind == "diagonal" else [gaussian_gram(problem.X)]
        features = []
        for K in matrices:
            spectrum, basis = np.linalg.eigh(K)
            features.append((basis * np.sqrt(spectrum.clip(min=0)))[:, -columns:])
        wrong = np.random.default_rng(0).normal(size=problem.Y.shape)
        solver = ConjugateGradient(gram, problem.coupling, problem.Y, features=features, guess=lambda L, B: wrong)
        expected = oracles.coefficient_step(blocks, L, problem.Y, problem.S, *problem.weights)
        found = solver.coefficients(solver.solve(L))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())

    def test_complete_features_need_one_iteration(self):
        problem = PROBLEMS["classes"](n=40, m=2)
        K = gaussian_gram(problem.X)
        spectrum, basis = np.linalg.eigh(K)
        features = [basis * np.sqrt(spectrum.clip(min=0))]
        gram = operators.Kronecker(K, output_matrix(2))
        assert (
            ConjugateGradient(gram, problem.coupling, problem.Y, features=features, tolerance=1e-8).solve(-np.eye(2)).iterations
            <= 2
        )
        assert (
            ConjugateGradient(
                operators.Kronecker(operators.row_blocks(lambda part: K[part], K.shape, 9), output_matrix(2)),
                problem.coupling,
                problem.Y,
                tolerance=1e-8,
            )
            .solve(-np.eye(2))
            .iterations
            > 5
        )  # without

    def test_a_decomposition_that_is_known_is_taken(self, monkeypatch):
        problem = PROBLEMS["classes"](n=40, m=2)
        K = gaussian_gram(problem.X)
        features = np.linalg.cholesky(K + 1e-10 * np.eye(40))[:, :20]
        known = np.linalg.eigh(features.T @ problem.coupling.apply(features))
        gram = operators.Kronecker(K, output_matrix(2))
        plain = ConjugateGradient(gram, problem.coupling, problem.Y, features=[features])
        monkeypatch.setattr(np.linalg, "eigh", None)
        saved = ConjugateGradient(gram, problem.coupling, problem.Y, features=[features], decompositions=[known])
        vectors, shifts, factors = problem.Y, np.array([1.0, 2.0]), np.array([0.5, 3.0])
        expected = plain.systems[0].solve_shifted(vectors, shifts, factors)
        np.testing.assert_allclose(saved.systems[0].solve_shifted(vectors, shifts, factors), expected, rtol=1e-6, atol=1e-9)

    def test_a_known_image_saves_a_product(self):
        problem = PROBLEMS["classes"](n=30, m=2)
        K, products = gaussian_gram(problem.X), []
        lazy = operators.row_blocks(lambda part: products.append(1) or K[part], K.shape, 30)
        solver = ConjugateGradient(operators.Kronecker(lazy, np.eye(2)), problem.coupling, problem.Y)
        first = solver.solve(np.eye(2), np.eye(2))
        products.clear()
        again = solver.solve(np.eye(2), np.eye(2), start=first)
        assert again.iterations == 0
        assert not products
        np.testing.assert_allclose(again.energy, first.energy)
