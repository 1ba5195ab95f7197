"""Is each model stated once, and right: for one setting as for a stack of them?"""

from dataclasses import dataclass, replace

import numpy as np
import oracles
import pytest
from scipy.optimize import minimize

from outmetric.problem import FixedKernelModel, LearnedKernelModel
from outmetric.solvers.acceleration import Anderson

RNG = np.random.default_rng(0)
M = 3
PENALTIES, RIDGES = np.array([0.5, 2.0, 30.0, 1.0]), np.array([0.1, 1.0, 0.01, 5.0])


def semidefinite(count):
    roots = RNG.normal(size=(count, M, M + 1))
    return roots @ roots.transpose(0, 2, 1)


@dataclass(frozen=True)
class Step:
    scatter: np.ndarray
    squared_norm: np.ndarray
    energy: np.ndarray
    coupled_norm: np.ndarray
    residual: float = 0.0
    relative_residual: float = 0.0

    def one(self, k):
        return Step(self.scatter[k], self.squared_norm[k], self.energy[k], self.coupled_norm[k])


STEP = Step(semidefinite(4), RNG.uniform(1, 2, size=4), semidefinite(4), RNG.uniform(1, 2, size=4))
MODELS = {
    "fixed": (FixedKernelModel(PENALTIES, RIDGES), -semidefinite(4)),
    "learned": (LearnedKernelModel(PENALTIES), semidefinite(4)),
}


@pytest.mark.parametrize("name", MODELS)
class TestStacks:
    @pytest.fixture
    def setting(self, name):
        return MODELS[name]

    @pytest.mark.parametrize("k", range(4))
    def test_a_stack_gives_what_each_setting_gives_alone(self, setting, k):
        model, learned = setting
        alone = type(model)(*(float(getattr(model, name)[k]) for name in model.weights))
        objective = model.objective(learned, STEP)
        assert objective[k] == pytest.approx(alone.objective(learned[k], STEP.one(k)))
        assert model.optimality(learned, STEP, objective)[k] == pytest.approx(
            float(alone.optimality(learned[k], STEP.one(k), objective[k]))
        )
        np.testing.assert_allclose(model.minimiser(learned, STEP)[k], alone.minimiser(learned[k], STEP.one(k)), atol=1e-12)
        np.testing.assert_allclose(model.start(STEP.scatter)[k], alone.start(STEP.scatter[k]), atol=1e-12)
        np.testing.assert_allclose(model.output_weights(learned)[k], alone.output_weights(learned[k]), atol=1e-12)

    def test_some_of_a_stack(self, setting):
        model, learned = setting
        some = np.array([3, 1])
        taken = model.take(some)
        part = Step(STEP.scatter[some], STEP.squared_norm[some], STEP.energy[some], STEP.coupled_norm[some])
        np.testing.assert_allclose(taken.objective(learned[some], part), model.objective(learned, STEP)[some])

    def test_what_is_indefinite_is_not_admitted(self, setting):
        model, learned = setting
        turned = learned.copy()
        turned[2] = np.diag([1.0, -1.0, 1.0])
        np.testing.assert_array_equal(model.admits(turned), [True, True, False, True])


def test_the_minimiser_of_model_1_minimises():
    model, scatter = FixedKernelModel(2.0, 0.5), STEP.scatter[0]

    def value(flat):
        L = flat.reshape(M, M)
        return 0.5 * np.trace(L @ scatter @ L.T) + 2.0 * np.trace(L) + 0.25 * np.sum(L**2)

    found = minimize(value, np.zeros(M * M), method="BFGS", options={"gtol": 1e-10}).x.reshape(M, M)
    np.testing.assert_allclose(model.minimiser(np.eye(M), STEP.one(0)), found, atol=1e-5)


def test_the_minimiser_of_model_2_solves_its_equation():
    """With F fixed, 1/2 tr(B^-1 E) + rho/2 |B|^2 is least where 2 rho B^3 = E for E = B C'K C B, as B commutes with E there."""
    model, B = LearnedKernelModel(0.7), semidefinite(1)[0]
    energy = B @ STEP.energy[0] @ B
    found = model.minimiser(B, STEP.one(0))
    np.testing.assert_allclose(2 * 0.7 * found @ found @ found, energy, rtol=1e-8, atol=1e-8)


def test_the_minimiser_of_model_2_knows_small_eigenvalues():
    """B and C'K C that are uneven alike, as at an optimum: an eigenvalue of 1e-6 is not lost in the round-off of the others."""
    basis = np.linalg.qr(RNG.normal(size=(2, M, M)))[0]
    eigenvalues = np.array([1.0, 1e-3, 1e-6])
    B = (basis * eigenvalues) @ basis.transpose(0, 2, 1)
    found = LearnedKernelModel(np.array([0.5, 0.5])).minimiser(B, replace(STEP.one(slice(2)), energy=B))
    np.testing.assert_allclose(np.linalg.eigvalsh(found), np.tile(eigenvalues[::-1], (2, 1)), rtol=1e-5)


@pytest.mark.parametrize("scale", [0.1, 7.0])
def test_one_weight_is_redundant(scale):
    """Weights that the models cannot tell apart have one essence; others have another."""
    penalty, weight = 3.0, 2.0
    same = LearnedKernelModel.essence({"output_penalty": penalty * scale**3}, weight * scale)
    assert same == LearnedKernelModel.essence({"output_penalty": penalty}, weight)
    assert same != LearnedKernelModel.essence({"output_penalty": penalty}, weight * scale)
    given = {"metric_penalty": penalty * np.sqrt(scale), "metric_ridge": 3.0}
    assert FixedKernelModel.essence(given, weight * scale) == FixedKernelModel.essence({**given, "metric_penalty": penalty}, weight)
    assert FixedKernelModel.essence(given, weight) != FixedKernelModel.essence({**given, "metric_ridge": 2.0}, weight)


def test_automatic_penalties_of_some_settings_only():
    squares = np.diag([4.0, 2.0, 0.0])  # two components are spanned
    weights = np.array([1.0, 10.0])
    model = FixedKernelModel.scaled({"metric_penalty": ["auto", 5.0], "metric_ridge": [3.0, 0.0]}, weights, squares, None)
    np.testing.assert_allclose(model.metric_ridge, [9.0, 0.0])
    np.testing.assert_allclose(model.metric_penalty, [3.0 + 9.0, 5.0])
    learned = LearnedKernelModel.scaled({"output_penalty": [7.0, "auto"]}, weights, squares, lambda: np.array([1.0, 8.0]))
    np.testing.assert_allclose(learned.output_penalty, [7.0, 2.0])
    never = LearnedKernelModel.scaled({"output_penalty": 7.0}, 1.0, squares, lambda: pytest.fail("is not needed"))
    assert never.output_penalty == 7.0


def test_the_penalties_are_those_of_the_functionals():
    L, B = MODELS["fixed"][1][0], MODELS["learned"][1][0]
    zeros = np.zeros((2, M)), np.zeros((2, 2))
    blocks, Y = np.zeros((2, 2, M, M)), np.zeros((2, M))
    rest = (Y, np.zeros((2, 2)), 1.0, 1.0)
    assert FixedKernelModel(0.5, 0.1).penalty(L) == pytest.approx(oracles.model1(zeros[0], L, blocks, *rest, 0.5, 0.1))
    assert LearnedKernelModel(0.5).penalty(B) == pytest.approx(oracles.model2(zeros[0], B, zeros[1], *rest, 0.5))


class TestAnderson:
    """Against least squares by definition, on linear iterations x -> A x + b with symmetric x."""

    def images(self, points, rates, fixed):
        return fixed + rates[:, None, None] * (points - fixed)

    def test_a_linear_iteration_with_one_rate_ends_at_once(self):
        fixed, rates = semidefinite(3), np.array([0.5, 0.9, 0.99])
        points, active = np.zeros((3, M, M)), np.arange(3)
        acceleration = Anderson(3, M, depth=4)
        for _ in range(2):
            images = self.images(points, rates, fixed)
            points = acceleration.propose(active, points, images)
        np.testing.assert_allclose(points, fixed, atol=1e-10)

    def test_it_is_the_combination_with_the_least_residual(self):
        points, images = ([RNG.normal(size=(M, M)) for _ in range(4)] for _ in range(2))
        points, images = ([(one + one.T) / 2 for one in some] for some in (points, images))
        acceleration = Anderson(1, M, depth=3)
        for point, image in zip(points, images, strict=True):
            found = acceleration.propose(np.array([0]), point[None], image[None])[0]
        last = [np.array([one.ravel() for one in some[-3:]]) for some in (points, images)]
        residuals = last[1] - last[0]
        # Weights that sum to one, by the normal equations with a multiplier.
        system = np.block([[residuals @ residuals.T, np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]])
        weights = np.linalg.solve(system, [0, 0, 0, 1])[:3]
        np.testing.assert_allclose(found, (weights @ last[1]).reshape(M, M), atol=1e-8)

    def test_what_is_forgotten_has_no_influence(self):
        acceleration, active = Anderson(2, M, depth=4), np.arange(2)
        for _ in range(3):
            acceleration.propose(active, semidefinite(2), semidefinite(2))
        acceleration.forget(np.array([1]))
        images = semidefinite(2)
        found = acceleration.propose(active, semidefinite(2), images)
        np.testing.assert_allclose(found[1], images[1])
        assert np.abs(found[0] - images[0]).max() > 1e-3
