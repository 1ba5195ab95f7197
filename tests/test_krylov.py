"""Do solvers that only multiply find the exact step, and at which price: products, decompositions and bytes, counted?"""

import tracemalloc
import warnings

import numpy as np
import oracles
import pytest
import scipy.linalg
from problems import PROBLEMS, class_problem, gaussian_gram, gram_operators, metric_factor, output_matrix, points, rank_one
from scipy.spatial.distance import cdist, pdist

from outmetric import FixedKernelMetric, LearnedKernelMetric, Status
from outmetric.datasets import make_waveform
from outmetric.kernels import Scalar, operators
from outmetric.kernels.gradients import median
from outmetric.problem import ClassSimilarity
from outmetric.solvers import direct, krylov, preconditioner
from outmetric.solvers.krylov import DiagonalKrylov, SeparableKrylov
from outmetric.solvers.preconditioner import Columns, PartialCholesky, WholeCholesky
from outmetric.solvers.solution import IllConditionedError

KINDS = {
    "separable": SeparableKrylov,
    "identity": SeparableKrylov,
    "duplicate points": SeparableKrylov,
    "rank-one output matrix": SeparableKrylov,
    "lazy": SeparableKrylov,
    "diagonal": DiagonalKrylov,
    "lazy diagonal": DiagonalKrylov,
}


def columns_of(gram, m):
    matrices = gram.sample_grams if isinstance(gram, operators.BlockDiagonal) else [gram.kronecker_factors()[0]]
    entries = [matrix if isinstance(matrix, np.ndarray) else matrix @ np.eye(matrix.shape[1]) for matrix in matrices]
    return [Columns(matrix.__getitem__, matrix.diagonal()) for matrix in entries]


def make(kind, problem, gram, **settings):
    return KINDS[kind](gram, problem.coupling, problem.Y, columns_of(gram, problem.Y.shape[1]), **settings)


@pytest.mark.parametrize("similarity", PROBLEMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least", [1, 100], ids=["poor preconditioner", "good preconditioner"])
def test_the_solution_is_that_of_the_naive_system(kind, similarity, least, monkeypatch):
    monkeypatch.setattr(preconditioner, "LEAST_COLUMNS", least)
    problem = PROBLEMS[similarity](n=40, m=3)
    gram, blocks = gram_operators(problem.X, 3)[kind]
    solver = make(kind, problem, gram)
    for L in (-np.eye(3), metric_factor(3)):
        solution = solver.solve(L)
        C = solver.coefficients(solution)
        expected = oracles.coefficient_step(blocks, L, problem.Y, problem.S, *problem.weights)
        F = oracles.outputs(blocks, expected)
        np.testing.assert_allclose(C, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
        scatter = oracles.residual_scatter(F, problem.Y, problem.S, *problem.weights)
        np.testing.assert_allclose(solution.scatter, scatter, rtol=1e-8, atol=1e-8 * np.abs(scatter).max())
        assert solution.squared_norm == pytest.approx(oracles.squared_norm(blocks, expected), rel=1e-8)
    assert solver.solve(L).iterations == 0  # it remembers
    size = np.trace(oracles.block_matrix(blocks)) * np.sum(problem.Y**2)
    assert solver.visibility == pytest.approx(np.vdot(problem.Y, oracles.outputs(blocks, problem.Y)) / size)


@pytest.mark.parametrize("B", [output_matrix(2), rank_one(2), np.zeros((2, 2))], ids=["full", "rank one", "zero"])
def test_an_output_matrix_replaces_that_of_the_kernel(B):
    problem = class_problem(n=40, m=2)
    K = gaussian_gram(problem.X)
    solver = make("separable", problem, operators.Kronecker(K, np.eye(2)))
    solution = solver.solve(np.eye(2), B)
    expected = oracles.coefficient_step(oracles.separable_blocks(K, B), np.eye(2), problem.Y, problem.S, *problem.weights)
    np.testing.assert_allclose(solver.coefficients(solution), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(solution.energy, expected.T @ K @ expected, rtol=1e-8, atol=1e-8)
    with pytest.raises(TypeError, match="separable"):
        make("diagonal", problem, operators.BlockDiagonal((K, K))).solve(np.eye(2), B)


def test_a_full_space_keeps_the_solution(monkeypatch):
    """With room for six blocks only, the space is emptied many times on the way."""
    monkeypatch.setattr(krylov, "DIMENSIONS", 1)
    monkeypatch.setattr(preconditioner, "LEAST_COLUMNS", 1)
    problem = class_problem(n=200, m=2)
    K = gaussian_gram(problem.X, 0.5)
    solver = make("separable", problem, operators.Kronecker(K, np.eye(2)), tolerance=1e-10)
    found = solver.coefficients(solver.solve(-3 * np.eye(2)))
    expected = oracles.coefficient_step(
        oracles.separable_blocks(K, np.eye(2)), -3 * np.eye(2), problem.Y, problem.S, *problem.weights
    )
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    # The bound of conjugate gradients for this condition number, with the tolerance squared for the change of norm.
    condition = np.linalg.cond(np.eye(200) + 9 * problem.coupling.sandwich(K))
    assert 6 < solver.space.products < np.sqrt(condition) / 2 * np.log(2e20)
    assert len(solver.space.basis) <= 12


def test_what_does_not_converge_says_so():
    problem = class_problem(n=200, m=2)
    gram = operators.Kronecker(gaussian_gram(problem.X, 0.1), np.eye(2))
    with pytest.raises(IllConditionedError, match="after 2 products the residual is"):
        make("separable", problem, gram, max_products=2).solve(-1e3 * np.eye(2))
    with pytest.raises(ValueError, match="not positive semi-definite: a quadratic form"):
        make("separable", problem, operators.Kronecker(-gaussian_gram(problem.X), np.eye(2))).solve(np.eye(2))


class TestPartialCholesky:
    def test_with_all_columns_it_is_exact(self, monkeypatch):
        monkeypatch.setattr(preconditioner, "MISSING", 0.0)
        problem = class_problem(n=60, m=2)
        K = gaussian_gram(problem.X)
        system = PartialCholesky(Columns(K.__getitem__, K.diagonal()), problem.coupling)
        system.suit(4.0)
        W = problem.coupling.sandwich(K)
        found = system.solve_shifted(problem.Y, np.array([1.0, 2.0]), np.array([4.0, 0.0]))
        np.testing.assert_allclose(found[:, 0], np.linalg.solve(np.eye(60) + 4 * W, problem.Y[:, 0]), atol=1e-8)
        np.testing.assert_allclose(found[:, 1], problem.Y[:, 1] / 2)

    def test_columns_that_come_later_are_seen(self):
        """Also where a factor of the fewer columns is at hand: here that of 2^10 I + Phi'Phi."""
        problem = class_problem(n=100, m=2)
        K = gaussian_gram(problem.X)
        system = PartialCholesky(Columns(K.__getitem__, K.diagonal()), problem.coupling)
        factors = np.full(2, 2.0**-10)
        system.suit(1e-9)
        before = system.rank
        system.solve_shifted(problem.Y, 1 - factors * system.mean_coupling * system.missing.mean(), factors)
        system.suit(1e12)
        assert before < system.rank
        expected = np.linalg.solve(np.eye(100) + 2.0**-10 * problem.coupling.sandwich(K), problem.Y)
        np.testing.assert_allclose(system.solve_shifted(problem.Y, np.ones(2), factors), expected, atol=1e-9)

    def test_its_size_follows_from_spectrum_and_weights(self):
        X, _ = make_waveform(1600, random_state=0)
        coupling = class_problem(n=1600, m=2).coupling
        ranks = []
        for bandwidth, factor in ((20.0, 1e-2), (20.0, 1.0), (5.0, 1.0), (5.0, 1e4)):
            K = np.exp(-cdist(X, X, "sqeuclidean") / (2 * bandwidth**2))
            system = PartialCholesky(Columns(K.__getitem__, K.diagonal()), coupling)
            system.suit(factor)
            ranks.append(system.rank)
            system.suit(factor / 2)
            assert system.rank == ranks[-1]
        assert ranks == sorted(ranks)
        assert ranks[0] < ranks[2] <= ranks[3] == 133

    def test_a_kernel_of_low_rank_needs_no_more_columns(self):
        problem = class_problem(n=300, m=2)
        K = problem.X @ problem.X.T
        system = PartialCholesky(Columns(K.__getitem__, K.diagonal()), problem.coupling)
        system.suit(1e12)
        assert system.rank < 10


class TestWholeCholesky:
    @pytest.mark.parametrize("similarity", PROBLEMS)
    @pytest.mark.parametrize(("largest", "dtype", "error"), [(1e4, np.float32, 1e-4), (1e12, np.float64, 1e-10)])
    def test_it_is_the_inverse(self, similarity, largest, dtype, error):
        problem = PROBLEMS[similarity](n=40, m=2)
        plain = ClassSimilarity(np.arange(40) % 3).couple(0.7, 0.0)
        for coupling in (problem.coupling, plain):
            K = gaussian_gram(problem.X)
            system = WholeCholesky(K, coupling, 3.0, largest)
            assert system.dtype is dtype
            expected = np.linalg.solve(np.eye(40) + 3 * coupling.sandwich(K), problem.Y)
            np.testing.assert_allclose(system.solve(problem.Y), expected, atol=error * np.abs(expected).max())
            np.testing.assert_allclose(
                system.solve(1e-60 * problem.Y), 1e-60 * expected, atol=1e-60 * error * np.abs(expected).max()
            )

    @pytest.mark.parametrize("gamma", [0.0, "auto"])
    def test_flat_spectra_take_few_products(self, gamma, monkeypatch):
        """Features that are all noise: no part of the columns is enough."""
        X, y = points(1600, 40), np.random.default_rng(0).integers(0, 4, 1600)
        settings = {"kernel": "laplacian", "regression_weight": 100.0, "collocation_weight": gamma, "tol": 1e-8, "random_state": 0}
        products, sizes = count(monkeypatch)
        made = []
        monkeypatch.setattr(krylov, "WholeCholesky", lambda *given: made.append(given[2]) or WholeCholesky(*given))
        ours = LearnedKernelMetric(solver="cg", **settings).fit(X, y)
        assert ours.status_ is Status.CONVERGED
        assert 1 <= len(made) <= 3
        assert len(products) <= 60
        assert max(sizes) < 200
        other = LearnedKernelMetric(solver="spectral", **settings).fit(X, y)
        assert ours.objective_ == pytest.approx(other.objective_, rel=1e-8)
        expected = other.transform(X)
        np.testing.assert_allclose(ours.transform(X), expected, atol=1e-4 * np.abs(expected).max())


class TestTiles:
    """Work in tiles gives what is asked for, however many threads there are."""

    @pytest.mark.parametrize("n", [1, 5, 256, 700])
    def test_products_and_matrices(self, n, monkeypatch):
        X, rng = points(n, 4), np.random.default_rng(1)
        monkeypatch.setattr(operators, "TILE", 100)
        K, vectors = gaussian_gram(X[:300]), rng.normal(size=(min(n, 300), 3))
        one = operators.symmetric_product(K, vectors)
        np.testing.assert_allclose(one, K @ vectors, atol=1e-12)
        distances = operators.symmetric_matrix(lambda rows, columns: cdist(X[rows], X[columns]), n, np.float64)
        np.testing.assert_array_equal(distances, cdist(X, X))
        half = operators.symmetric_half(lambda rows, columns: cdist(X[rows], X[columns]), n)
        np.testing.assert_allclose(np.sort(half), np.sort(pdist(X)))
        monkeypatch.setattr("outmetric.foundation.threads.blas_threads", lambda: 3)
        np.testing.assert_array_equal(operators.symmetric_product(K, vectors), one)

    @pytest.mark.parametrize("word", ["rbf", "exponential", "laplacian"])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_kernel_matrices_are_those_of_their_values(self, word, dtype):
        X = (points(600, 5) + 100).astype(dtype)
        X[7] = X[3]
        kernel = Scalar(word, bandwidth=2.0)
        gram = kernel.gram(X)
        assert gram.dtype == dtype
        np.testing.assert_array_equal(gram, gram.T)
        assert gram[3, 7] == 1
        np.testing.assert_array_equal(gram.diagonal(), 1)
        np.testing.assert_allclose(gram, kernel.values(X.astype(np.float64), X.astype(np.float64)), atol=1e-6)

    @pytest.mark.parametrize("word", ["rbf", "exponential", "laplacian"])
    def test_a_kernel_matrix_is_the_only_array_of_its_size(self, word, monkeypatch):
        n, asked = 1500, []
        X, kernel = points(n, 5), Scalar(word, bandwidth=2.0)
        kernel.gram(X[:10])
        plain = np.exp
        monkeypatch.setattr(np, "exp", lambda values, **rest: asked.append(values.size) or plain(values, **rest))
        tracemalloc.start()
        kernel.gram(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1.3 * 8 * n**2
        assert sum(asked) <= n * (n + operators.TILE) / 2  # one half

    def test_the_median_is_exact(self):
        rng = np.random.default_rng(0)
        spread = rng.normal(size=100001)
        cases = (spread, spread[:-1], np.sort(spread), np.repeat([1.0, 2.0, 3.0], 40000), np.ones(50000), np.array([3.0, 1.0]))
        for values in cases:
            assert median(values) == np.median(values)
        # A sample that sees one half only is no guide, and is not believed.
        misleading = np.where(np.arange(200000) % 20 == 0, 0.0, rng.normal(5, 1, 200000))
        assert median(misleading) == np.median(misleading)


def count(monkeypatch):
    """Sizes of what is multiplied and decomposed."""
    products, sizes = [], []
    plain = krylov.symmetric_product
    monkeypatch.setattr(krylov, "symmetric_product", lambda K, vectors: products.append(vectors.shape[1]) or plain(K, vectors))
    for module, name in ((np.linalg, "eigh"), (scipy.linalg, "eigh"), (direct, "tridiagonalise"), (np.linalg, "svd")):
        function = getattr(module, name)

        def counted(matrix, *rest, function=function, **more):
            sizes.append(np.shape(matrix)[-1])
            return function(matrix, *rest, **more)

        monkeypatch.setattr(module, name, counted)
    return products, sizes


@pytest.mark.parametrize(
    ("model", "settings", "most"),
    [
        (LearnedKernelMetric, {"tol": 1e-8}, 25),
        (LearnedKernelMetric, {}, 35),
        (LearnedKernelMetric, {"kernel": "laplacian", "tol": 1e-8}, 45),
        (FixedKernelMetric, {}, 30),
        (FixedKernelMetric, {"bandwidth": [4.0, 6.0]}, 80),
    ],
)
def test_what_an_exact_fit_costs(model, settings, most, monkeypatch):
    """Exact counts with generous bounds: they do not depend on the machine."""
    n = 2000
    X, y = make_waveform(n, random_state=0)
    model(**settings).fit(X[:50], y[:50])
    products, sizes = count(monkeypatch)
    tracemalloc.start()
    fitted = model(random_state=0, **settings).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    matrices = np.size(settings.get("bandwidth", 1.0))
    assert fitted.solver_ == "cg"
    assert fitted.status_ is Status.CONVERGED
    assert len(products) <= most * matrices
    assert max(products) <= 2  # one product for both outputs, not more
    assert max(sizes) <= n // 16
    assert peak <= 1.3 * matrices * 8 * n**2


@pytest.mark.parametrize("model", [LearnedKernelMetric, FixedKernelMetric])
def test_objective_and_coordinates_are_those_of_the_spectral_solver(model):
    X, y = make_waveform(1600, random_state=0)
    ours, other = (model(solver=solver, tol=1e-8, random_state=0).fit(X, y) for solver in ("cg", "spectral"))
    assert ours.objective_ == pytest.approx(other.objective_, rel=1e-8)
    expected = other.transform(X)
    np.testing.assert_allclose(ours.transform(X), expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("weight", "solver"), [(1.0, "cg"), (1e6, "spectral")])
def test_where_products_do_not_close_the_gap_the_matrix_is_reduced(weight, solver):
    X, y = make_waveform(1600, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = LearnedKernelMetric(regression_weight=weight, random_state=0).fit(X, y)
    assert fitted.status_ is Status.CONVERGED
    assert fitted.solver_ == solver
    assert ("do not close the gap" in fitted.solver_reason_) == (solver == "spectral")
