"""Do kernels compute what their formulas say, on any data, and do they compose?"""

import numpy as np
import oracles
import pytest
import scipy.sparse
from problems import output_matrix, points, rank_one
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import pairwise_kernels

from outmetric import LearnedKernelMetric
from outmetric.kernels import Callable, Diagonal, Forest, Precomputed, Scalar, Separable, Sum, Transformed, Trees
from outmetric.kernels.distances import Additive
from outmetric.kernels.operators import BlockDiagonal, Kronecker

RNG = np.random.default_rng(0)
B = output_matrix(2)


def same_letters(s, t):
    return float(sum(a == b for a, b in zip(s, t, strict=False)))


def test_the_additive_kernel_is_the_mean_over_features():
    X, Z = points(5), points(4, seed=1)
    expected = np.mean(
        [oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, 0.7), X[:, [j]], Z[:, [j]]) for j in range(3)], axis=0
    )
    np.testing.assert_allclose(Scalar("additive", 0.7).cross(X, Z), expected, rtol=1e-12)
    between = [np.linalg.norm(x - z) for i, x in enumerate(X) for z in X[:i]]
    assert Scalar("additive").resolve(X, RNG).bandwidth == pytest.approx(np.median(between) / np.sqrt(3))


@pytest.mark.parametrize(("name", "formula"), [("rbf", oracles.gaussian), ("laplacian", oracles.laplacian)])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_bandwidth_means_what_the_formula_says(name, formula, sparse):
    X, Z = points(5), points(4, seed=1)
    data, train = (scipy.sparse.csr_array(X), scipy.sparse.csr_array(Z)) if sparse else (X, Z)
    expected = oracles.gram_matrix(lambda x, z: formula(x, z, 1.7), X, Z)
    np.testing.assert_allclose(Scalar(name, 1.7).cross(data, train), expected, rtol=1e-12)
    np.testing.assert_allclose(Scalar(name, 1.7).lazy_gram(train) @ np.eye(4), Scalar(name, 1.7).gram(train), atol=1e-14)


@pytest.mark.parametrize("bandwidth", [0.01, 0.7, 30.0])
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_products_of_the_additive_kernel_are_those_of_its_matrix(bandwidth, far):
    """Crowded cells, where values are interpolated, and lonely points, ties and outliers among them."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(400, 3)), np.ones((30, 3)), 50 * rng.normal(size=(20, 3))]) + far
    vectors = rng.normal(size=(450, 2))
    differences = (rows[:, None] - rows) / bandwidth
    expected = np.exp(-0.5 * differences**2).mean(axis=2)
    kernel = Scalar("additive", bandwidth)
    tolerance = 1e-13 if far == 0 else 1e-8
    np.testing.assert_allclose(kernel.gram(rows), expected, atol=tolerance)
    np.testing.assert_array_equal(kernel.gram(rows), kernel.gram(rows).T)
    np.testing.assert_allclose(kernel.lazy_gram(rows) @ vectors, expected @ vectors, atol=450 * tolerance)
    np.testing.assert_allclose(kernel.lazy_gram(rows) @ vectors[:, 0], expected @ vectors[:, 0], atol=450 * tolerance)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "additive"])
@pytest.mark.parametrize("transform", [np.array([1.0, 0.0, 0.3]), np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]])
def test_expansions_of_transformed_kernels(name, transform):
    rng = np.random.default_rng(0)
    rows, points, weights = rng.normal(size=(60, 3)), rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    kernel = Transformed(Scalar(name, 0.8), transform)
    inputs = [part * transform if transform.ndim == 1 else part @ transform for part in (rows, points)]
    expected = Scalar(name, 0.8).values(*inputs) @ weights
    np.testing.assert_allclose(kernel.expansion(points, weights)(rows), expected, atol=1e-12)


@pytest.mark.parametrize("transform", [np.array([1.0, 0.0, 0.3]), np.arange(9.0).reshape(3, 3)])
def test_diagonals_and_columns_of_transformed_kernels(transform):
    X = points(5)
    kernel = Transformed(Scalar("poly", params={"degree": 2, "gamma": 0.5, "coef0": 1.0}), transform)
    inputs = X @ (np.diag(transform) if transform.ndim == 1 else transform)
    expected = oracles.gram_matrix(lambda x, z: (0.5 * x @ z + 1) ** 2, inputs, inputs)
    np.testing.assert_allclose(kernel.diagonal(X), expected.diagonal(), rtol=1e-12)
    np.testing.assert_allclose(kernel.columns(X)(np.array([3, 1])), expected[:, [3, 1]], rtol=1e-12)


@pytest.mark.parametrize("kernel", [Scalar("additive", 0.7), Forest(n_estimators=5)])
def test_matrices_that_take_longer_than_products_are_not_made(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1600, 2))
    y = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    settings = {"kernel": kernel, "collocation_weight": 0.0, "tol": 1e-9, "random_state": 0}
    held = LearnedKernelMetric(solver="spectral", **settings).fit(rows, y)
    for kind in (Additive, Trees):
        monkeypatch.setattr(kind, "gram", lambda *_: pytest.fail("the matrix was made"))
    lazy = LearnedKernelMetric(solver="cg", **settings).fit(rows, y)
    np.testing.assert_allclose(lazy.transform(rows), held.transform(rows), atol=1e-4)
    assert lazy.objective_ == pytest.approx(held.objective_, rel=1e-8)


@pytest.mark.parametrize("name", ["rbf", "exponential", "laplacian", "additive"])
def test_an_evaluator_for_fixed_points_is_the_kernel(name):
    """Also where points coincide, and far from the origin."""
    Z = points(6, seed=1) + 1e4
    X = np.vstack([points(5) + 1e4, Z[:2]])
    expected = Scalar(name, 1.7).cross(X, Z)
    np.testing.assert_allclose(Scalar(name, 1.7).evaluator(Z, np.float64)(X), expected, atol=1e-7)
    np.testing.assert_array_equal(Scalar(name, 1.7).evaluator(Z, np.float64)(Z[:2])[[0, 1], [0, 1]], 1)
    assert Scalar(name, 1.7).evaluator(Z, np.float32)(X).dtype == np.float32


@pytest.mark.parametrize("name", ["linear", "poly", "cosine", "chi2"])
def test_other_kernels_are_scikit_learns(name):
    X = np.abs(points(6))
    params = {"degree": 2, "coef0": 0.5} if name == "poly" else {}
    np.testing.assert_allclose(Scalar(name, params=params).gram(X), pairwise_kernels(X, metric=name, **params))


def test_gamma_takes_the_place_of_the_bandwidth():
    X = points(5)
    kernel = Scalar("rbf", params={"gamma": 0.3})
    np.testing.assert_allclose(kernel.gram(X), pairwise_kernels(X, metric="rbf", gamma=0.3))
    assert not kernel.has_bandwidth


def test_distances_survive_a_far_origin():
    X = points(5)
    near, far = Scalar("rbf", 1.0).gram(X), Scalar("rbf", 1.0).gram(X + 1e7)
    np.testing.assert_allclose(near, far, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "order", "params"),
    [("rbf", 2, {}), ("laplacian", 1, {}), ("exponential", 2, {}), ("power_exponential", 1.5, {"p": 1.5})],
)
def test_the_median_is_over_points_that_differ(name, order, params):
    X = np.repeat(points(6), 3, axis=0)
    between = [np.linalg.norm(x - z, order) for i, x in enumerate(X) for z in X[:i] if np.any(x != z)]
    assert Scalar(name, params=params).resolve(X, RNG).bandwidth == pytest.approx(np.median(between))
    assert Scalar(name, 2.5, params).resolve(X, RNG).bandwidth == 2.5
    assert Scalar(name, "0.5*median", params).resolve(X, RNG).bandwidth == pytest.approx(np.median(between) / 2)


def test_the_median_of_many_points_is_that_of_a_sample():
    X = points(3000)
    found = [Scalar("rbf").resolve(X, np.random.default_rng(seed)).bandwidth for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    assert found[0] == pytest.approx(found[2], rel=0.02)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scales_do_not_matter_to_the_median(scale):
    X = points(8)
    plain = Scalar("rbf").resolve(X, RNG).gram(X)
    np.testing.assert_allclose(Scalar("rbf").resolve(scale * X, RNG).gram(scale * X), plain, rtol=1e-10)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_the_median_survives_outliers_and_far_origins(name):
    X = points(60)
    plain = Scalar(name).resolve(X, RNG).bandwidth
    outlier = np.vstack([X, [1e9, 0, 0]])
    assert Scalar(name).resolve(outlier, RNG).bandwidth == pytest.approx(plain, rel=0.1)
    kernel = Scalar(name, 1.0)
    np.testing.assert_allclose(kernel.gram(outlier)[:60, :60], kernel.gram(X), atol=1e-6)
    assert Scalar(name).resolve(X + 1e8, RNG).bandwidth == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("X", [np.ones((4, 2)), np.array([[0.0], [1e200], [3e200]]), np.array([[1e-200], [2e-200]])])
def test_no_distance_no_median(X):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="Rescale the data or give a bandwidth"):
        Scalar("rbf").resolve(X, RNG)


def test_functions_on_any_objects():
    words = ["abc", "abd", "xyz"]
    expected = np.array([[3.0, 2, 0], [2, 3, 0], [0, 0, 3]])
    np.testing.assert_array_equal(Scalar(same_letters).gram(words), expected)
    np.testing.assert_array_equal(Scalar(same_letters).cross(["abd"], words), expected[[1]])
    assert Scalar(same_letters).takes == "objects"


def test_functions_on_whole_samples():
    X = points(5)
    whole = Scalar(lambda X, Z, power: (X @ Z.T) ** power, params={"power": 2}, pairwise=False)
    np.testing.assert_allclose(whole.gram(X), (X @ X.T) ** 2)
    np.testing.assert_allclose(Scalar(Matern()).cross(X[:2], X), Matern()(X[:2], X))


def test_precomputed_values_are_the_kernel():
    K = pairwise_kernels(points(4), metric="rbf")
    np.testing.assert_array_equal(Scalar("precomputed").gram(K), K)
    with pytest.raises(ValueError, match=r"one column per training point, 4; its shape is \(2, 3\)"):
        Scalar("precomputed").cross(np.ones((2, 3)), np.empty((4, 0)))


MATRIX_KERNELS = {
    "separable": (Separable(Scalar("rbf", 1.0), B), lambda x, z: oracles.gaussian(x, z, 1.0) * B),
    "identity": (Separable(Scalar("rbf", 1.0)), lambda x, z: oracles.gaussian(x, z, 1.0) * np.eye(2)),
    "diagonal": (
        Diagonal([Scalar("rbf", 0.5), Scalar("laplacian", 2.0)]),
        lambda x, z: np.diag([oracles.gaussian(x, z, 0.5), oracles.laplacian(x, z, 2.0)]),
    ),
    "sum": (
        Separable(Scalar("rbf", 1.0), B) + 0.5 * Separable("linear", rank_one(2)),
        lambda x, z: oracles.gaussian(x, z, 1.0) * B + 0.5 * (x @ z) * rank_one(2),
    ),
    "callable": (Callable(lambda x, z: np.outer(x[:2], z[:2]), 2), lambda x, z: np.outer(x[:2], z[:2])),
    "vectorised": (
        Callable(lambda X, Z: np.einsum("ik,jl->ijkl", X[:, :2], Z[:, :2]), 2, pairwise=False),
        lambda x, z: np.outer(x[:2], z[:2]),
    ),
}


@pytest.mark.parametrize("kind", MATRIX_KERNELS)
def test_matrix_kernels_are_their_formulas(kind):
    kernel, formula = MATRIX_KERNELS[kind]
    X, Z = points(3, seed=1), points(5)
    blocks = np.array([[formula(x, z) for z in Z] for x in X])
    np.testing.assert_allclose(kernel.cross(X, Z, 2).to_dense(), oracles.block_matrix(blocks), atol=1e-13)
    square = np.array([[formula(x, z) for z in Z] for x in Z])
    np.testing.assert_allclose(kernel.gram(Z, 2).to_dense(), oracles.block_matrix(square), atol=1e-13)
    np.testing.assert_allclose(kernel.gram(Z, 2, lazy=True).to_dense(), oracles.block_matrix(square), atol=1e-13)


def test_structure_survives_composition():
    X = points(5)
    assert isinstance(Diagonal(["rbf", "linear"]).resolve(X, RNG).gram(X, 2), BlockDiagonal)
    two_widths = Separable(Scalar("rbf", 1.0)) + 2.0 * Separable(Scalar("rbf", 3.0), 0.5 * np.eye(2))
    assert isinstance(two_widths.gram(X, 2), Kronecker)


def test_precomputed_blocks_are_looked_up_by_row_number():
    kernel, _ = MATRIX_KERNELS["sum"]
    X = points(6)
    whole = kernel.gram(X, 2).to_dense()
    blocks = whole.reshape(6, 2, 6, 2).transpose(0, 2, 1, 3)
    stored = Precomputed(blocks)
    rows, train = np.array([[4], [1]]), np.array([[0], [2], [3]])
    np.testing.assert_allclose(stored.cross(rows, train, 2).to_dense(), kernel.cross(X[[4, 1]], X[[0, 2, 3]], 2).to_dense())
    np.testing.assert_allclose(stored.gram(train, 2).to_dense(), kernel.gram(X[[0, 2, 3]], 2).to_dense())


def test_the_strictest_part_decides_what_data_may_be():
    assert Separable("rbf").takes == "sparse"
    assert Diagonal(["rbf", "chi2"]).takes == "arrays"
    assert (Separable(same_letters) + Callable(lambda s, t: np.eye(2), 2)).takes == "objects"
    assert Sum([Separable("precomputed"), Separable("precomputed", np.eye(2))]).takes == "kernel values"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scalar("gauss"), "not known; use one of"),
        (lambda: Scalar(3), "a name or a function"),
        (lambda: Scalar("rbf", 0.0), "positive number"),
        (lambda: Scalar("rbf", np.inf), "positive number"),
        (lambda: Scalar("rbf", "mean"), "positive number"),
        (lambda: Scalar("rbf", "-1*median"), "positive number"),
        (lambda: Scalar("rbf", "two*median"), "positive number"),
        (lambda: Separable("rbf", [[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue is -1"),
        (lambda: Separable("rbf", [[1.0, 2.0], [0.0, 1.0]]), "not symmetric"),
        (lambda: Diagonal([]), "at least one"),
        (lambda: -1.0 * Separable("rbf"), "number >= 0, not by -1"),
        (lambda: Separable("rbf", np.eye(2)) + Separable("rbf", np.eye(3)), r"\[2, 3\]"),
        (lambda: Sum([Scalar("rbf")]), "wrap a scalar kernel"),
        (lambda: Precomputed(np.ones((2, 2))), r"\(N, N, m, m\)"),
        (lambda: Scalar("rbf", 2.0, {"gamma": 0.1}), "either bandwidth=2.0 or gamma=0.1"),
        (lambda: Separable("precomputed") + Separable("rbf"), "kernel values cannot be combined with one whose data are sparse"),
        (lambda: Diagonal(["precomputed", "chi2"]), "kernel values cannot be combined with one whose data are arrays"),
        (lambda: Precomputed(np.ones((2, 2, 1, 1))) + Separable("rbf"), "row numbers cannot be combined"),
    ],
)
def test_kernels_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("kernel", "X", "message"),
    [
        (Separable(lambda x, z: float(x[0])), points(3), "not symmetric"),
        (Separable(lambda x, z: 1.0 if abs(x[0] - z[0]) < 2 or x[0] < z[0] else 0.5), np.arange(40.0)[:, None], "not symmetric"),
        (Separable(Scalar(lambda X, Z: X[:, :1] + 0 * Z[:, 0], pairwise=False)), points(3), "not symmetric"),
        (Separable(Scalar(lambda X, Z: np.ones((2, 2)), pairwise=False)), points(3), r"shape \(2, 2\) for 3 and 3 points"),
        (Separable(lambda x, z: np.nan), points(3), "NaN or infinite"),
        (Callable(lambda x, z: np.array([[1.0, x[0]], [0.0, 1.0]]), 2), points(3), "not symmetric"),
        (Callable(lambda x, z: np.eye(3), 2), points(3), r"returned shape \(3, 3\)"),
        (Precomputed(np.ones((3, 3, 2, 2))), np.array([[5]]), "rows 5 to 5 of 3"),
        (Precomputed(np.ones((3, 3, 2, 2))), np.array([[0.5]]), "row numbers"),
        (Precomputed(np.arange(36.0).reshape(3, 3, 2, 2)), np.array([[0], [1]]), "not symmetric"),
        (Separable("precomputed"), np.triu(np.ones((3, 3))), "not symmetric"),
    ],
)
def test_kernels_that_break_their_promise(kernel, X, message):
    with pytest.raises(ValueError, match=message):
        kernel.gram(X, 2)


@pytest.mark.parametrize(("function", "outputs", "message"), [(3, 2, "is a function, not 3"), (np.dot, 0, "outputs must be an")])
def test_a_matrix_valued_function_is_one(function, outputs, message):
    with pytest.raises(ValueError, match=message):
        Callable(function, outputs)
