"""Are prototypes, real targets, similarities and couplings what they claim to be?"""

import numpy as np
import oracles
import pytest
import scipy.sparse
from problems import PROBLEMS

from outmetric import problem as targets


@pytest.mark.parametrize("n_classes", [2, 3, 5, 10])
@pytest.mark.parametrize("extra", [0, 2])
def test_the_simplex_is_regular_on_the_unit_sphere(n_classes, extra):
    points = targets.simplex(n_classes, n_classes - 1 + extra)
    expected = (1 + 1 / (n_classes - 1)) * np.eye(n_classes) - 1 / (n_classes - 1)
    np.testing.assert_allclose(points @ points.T, expected, atol=1e-14)
    np.testing.assert_array_equal(points[:, n_classes - 1 :], 0)


def test_two_classes_are_plus_and_minus_one():
    np.testing.assert_array_equal(targets.simplex(2, 1), [[1], [-1]])


def test_few_components_spread_the_points():
    np.testing.assert_allclose(targets.spread(4, 1).ravel(), [-1, -1 / 3, 1 / 3, 1])
    square = targets.spread(4, 2)
    np.testing.assert_allclose(square @ square.T, [[1, 0, -1, 0], [0, 1, 0, -1], [-1, 0, 1, 0], [0, -1, 0, 1]], atol=1e-15)


@pytest.mark.parametrize(("n_classes", "degrees"), [(6, 90.0), (8, 74.858), (10, 66.147)])
def test_spread_comes_close_to_the_best_known_packings_of_the_sphere(n_classes, degrees):
    # The smallest angle of the optimal configurations (Tammes problem).
    points = targets.spread(n_classes, 3)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1)
    largest = (points @ points.T)[np.triu_indices(n_classes, 1)].max()
    assert degrees - 0.5 < np.degrees(np.arccos(largest)) < degrees + 0.01
    np.testing.assert_array_equal(points, targets.spread(n_classes, 3))


def test_labels_become_their_prototypes():
    found = targets.class_targets(np.array(["b", "a", "c", "b"]))
    np.testing.assert_array_equal(found.classes, ["a", "b", "c"])
    np.testing.assert_array_equal(found.values, found.prototypes[[1, 0, 2, 1]])
    assert found.values.shape == (4, 2)


def test_prototypes_of_the_users_choice():
    own = [[0.0, 1.0], [2.0, 0.0]]
    np.testing.assert_array_equal(targets.class_targets(np.array([1, 0]), None, own).values, [own[1], own[0]])
    np.testing.assert_array_equal(targets.class_targets(np.array([0, 1, 2]), None, "onehot").values, np.eye(3))


@pytest.mark.parametrize(
    ("prototypes", "n_components", "message"),
    [
        (np.eye(2), None, "one row per class"),
        (np.eye(3), 2, "one row per class"),
        ("onehot", 2, "as many components as classes"),
        ("cube", None, "not known"),
        (None, None, "one row per class"),
        (np.ones((3, 2)), None, "repeat a row"),
        (np.full((3, 2), np.nan), None, "NaN"),
    ],
)
def test_prototypes_that_cannot_serve(prototypes, n_components, message):
    with pytest.raises(ValueError, match=message):
        targets.class_targets(np.array([0, 1, 2]), n_components, prototypes)


def test_real_targets_are_centred_and_keep_their_mean():
    y = np.array([[1.0, 10.0], [3.0, 30.0], [5.0, 20.0]])
    found = targets.real_targets(y)
    np.testing.assert_allclose((found.values + found.offset) * found.scales, y)
    np.testing.assert_allclose(found.values.mean(axis=0), 0, atol=1e-14)
    wider = targets.real_targets(y, 3)
    np.testing.assert_allclose((wider.values + wider.offset)[:, :2] * found.scales, y)
    np.testing.assert_array_equal(wider.values[:, 2], 0)


@pytest.mark.parametrize(("y", "message"), [(np.ones((3, 1)), "constant"), (np.eye(3) * 1e160, "overflow")])
def test_real_targets_that_cannot_serve(y, message):
    with pytest.raises(ValueError, match=message):
        targets.real_targets(y)


def test_fewer_components_keep_the_principal_coordinates():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(30, 1)) @ rng.normal(size=(1, 4)) + 7
    found = targets.real_targets(y, 1)
    distances = np.abs(found.values - found.values.T)
    unit = y / y.std(axis=0)
    np.testing.assert_allclose(distances, np.linalg.norm(unit[:, None] - unit[None], axis=2), atol=1e-12)


def test_several_real_targets_count_alike():
    y = np.random.default_rng(0).normal(size=(30, 3)) * [9.3, 1.4, 0.0] + [1.0, 2.0, 3.0]
    found = targets.real_targets(y)
    np.testing.assert_allclose(found.values.std(axis=0), [1, 1, 0])
    np.testing.assert_allclose(found.scales, [*y.std(axis=0)[:2], 1.0])
    np.testing.assert_array_equal(targets.real_targets(y[:, :1]).scales, [1.0])


@pytest.mark.parametrize("kind", PROBLEMS)
class TestCoupling:
    def problem(self, kind):
        problem = PROBLEMS[kind](n=11, m=2)
        P = problem.lam * np.eye(11) + 2 * problem.gamma * oracles.delta(problem.S)
        return problem, P, np.random.default_rng(5).normal(size=(11, 4))

    def test_apply_and_laplacian(self, kind):
        problem, P, F = self.problem(kind)
        np.testing.assert_allclose(problem.coupling.apply(F), P @ F, atol=1e-12)
        np.testing.assert_allclose(problem.coupling.laplacian(F), oracles.delta(problem.S) @ F, atol=1e-12)

    def test_the_factor_is_a_factor(self, kind):
        problem, P, F = self.problem(kind)
        R = problem.coupling.factor(np.eye(11))
        np.testing.assert_allclose(R @ R.T, P, atol=1e-12)
        np.testing.assert_allclose(problem.coupling.factor(F, transpose=True), R.T @ F, atol=1e-12)
        np.testing.assert_allclose(R @ problem.coupling.solve_factor(F), F, atol=1e-12)
        np.testing.assert_allclose(R.T @ problem.coupling.solve_factor(F, transpose=True), F, atol=1e-12)

    def test_sandwich_is_two_sided_and_leaves_its_argument_alone(self, kind):
        problem, _, F = self.problem(kind)
        K = F @ F.T
        kept = K.copy()
        R = problem.coupling.factor(np.eye(11))
        np.testing.assert_allclose(problem.coupling.sandwich(K), R.T @ K @ R, atol=1e-11)
        np.testing.assert_array_equal(K, kept)


def test_the_mean_degree_counts_the_others():
    labels = np.array([0, 0, 0, 1, 2, 2])
    S = oracles.similarity_of_classes(labels)
    expected = np.mean(S.sum(axis=1) - 1)
    assert targets.ClassSimilarity(labels).mean_degree == pytest.approx(expected)
    assert targets.matrix_similarity(S, 6).mean_degree == pytest.approx(expected)
    assert targets.matrix_similarity(scipy.sparse.csr_array(S), 6).mean_degree == pytest.approx(expected)


def test_without_collocation_the_similarity_costs_nothing():
    coupling = targets.matrix_similarity(np.eye(5), 5).couple(2.0, 0.0)
    np.testing.assert_allclose(coupling.factor(np.eye(5)), np.sqrt(2) * np.eye(5))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([[1.0, 0.5], [0.2, 1.0]], "not symmetric.*0.3"),
        ([[1.0, -0.5], [-0.5, 1.0]], "must not be negative.*-0.5"),
        ([[1.0, 2.0], [2.0, 3.0]], "row 0 the largest entry is 2 and the diagonal 1"),
        ([[1.0, np.inf], [np.inf, 1.0]], "NaN or infinite"),
        ([[1.0]], r"\(2, 2\); its shape is \(1, 1\)"),
    ],
)
def test_the_papers_conditions_on_the_similarity(entries, message, sparse):
    S = scipy.sparse.csr_array(np.array(entries)) if sparse else np.array(entries)
    with pytest.raises(ValueError, match=message):
        targets.matrix_similarity(S, 2)


def test_the_default_similarity_of_real_targets_is_gaussian():
    Y = np.array([[0.0], [1.0], [3.0]])
    h = np.std(Y) * 3 ** (-1 / 5)
    expected = np.exp(-((Y - Y.T) ** 2) / (2 * h**2))
    np.testing.assert_allclose(targets.gaussian_similarity(Y).matrix, expected)
