"""Does a batch on one eigendecomposition give the maps of single fits?"""

import numpy as np
import pytest
from problems import PROBLEMS, FixedBatch, LearnedBatch, gaussian_gram
from sklearn.datasets import load_iris, make_classification

from outmetric import FixedKernelMetric, LearnedKernelMetric
from outmetric.kernels import Scalar
from outmetric.problem.coupling import ClassSimilarity, matrix_similarity
from outmetric.problem.prototypes import simplex
from outmetric.solvers.batch import Decomposition

X, Y = load_iris(return_X_y=True)
TRAIN, NEW = X[::2], X[1::2]
LABELS = Y[::2]
LAMBDAS = np.array([0.1, 1.0, 1.0, 30.0, 1000.0])
RATIO = 0.02


@pytest.fixture(params=["class", "dense"])
def similarity(request):
    S = 0.5 * (LABELS[:, None] == LABELS) + 0.5
    return {"class": ("class", ClassSimilarity(LABELS)), "dense": (S, matrix_similarity(S, len(S)))}[request.param]


@pytest.fixture
def shared(similarity):
    kernel = Scalar("rbf", 1.0)
    return Decomposition(kernel.gram(TRAIN), kernel.cross(NEW, TRAIN), similarity[1], RATIO)


def check(maps, models):
    assert maps.converged.all()
    for k, model in enumerate(models):
        scale = np.abs(maps.train[k]).max()
        np.testing.assert_allclose(maps.train[k], model.fit(TRAIN, LABELS).transform(TRAIN), atol=2e-6 * scale)
        np.testing.assert_allclose(maps.new[k], model.transform(NEW), atol=2e-6 * scale)


def test_model_1(similarity, shared):
    targets = simplex(3, 2)[LABELS]
    ridges, penalties = np.array([0.03, 1.0, 3.0, 3.0, 0.1]), np.array([5.0, 40.0, 200.0, 1000.0, 1e5])
    unit = LAMBDAS * np.sum(targets**2) / 2
    maps = shared.maps(targets, LAMBDAS, FixedBatch(penalties, ridges * unit), tol=1e-9, max_iter=2000)
    settings = {"bandwidth": 1.0, "similarity": similarity[0], "tol": 1e-9}
    check(
        maps,
        [
            FixedKernelMetric(
                regression_weight=weight, collocation_weight=RATIO * weight, metric_penalty=rho, metric_ridge=ridge, **settings
            )
            for weight, rho, ridge in zip(LAMBDAS, penalties, ridges, strict=True)
        ],
    )


def test_model_2(similarity, shared):
    penalties = np.array([0.1, 0.1, 10.0, 1.0, 100.0])
    maps = shared.maps(simplex(3, 2)[LABELS], LAMBDAS, LearnedBatch(penalties), tol=1e-14, max_iter=2000)
    settings = {"bandwidth": 1.0, "similarity": similarity[0], "tol": 1e-14}
    check(
        maps,
        [
            LearnedKernelMetric(regression_weight=weight, collocation_weight=RATIO * weight, output_penalty=rho, **settings)
            for weight, rho in zip(LAMBDAS, penalties, strict=True)
        ],
    )


def test_the_automatic_penalty_is_that_of_the_estimator(similarity, shared):
    energy = shared.identity_energy(simplex(3, 2)[LABELS], LAMBDAS)
    for weight, trace in zip(LAMBDAS, energy, strict=True):
        model = LearnedKernelMetric(
            bandwidth=1.0, similarity=similarity[0], regression_weight=weight, collocation_weight=RATIO * weight
        ).fit(TRAIN, LABELS)
        assert model.output_penalty_ == pytest.approx(trace / 4)


def test_real_targets_too():
    problem = PROBLEMS["dense similarity"](n=14, m=2)
    K = gaussian_gram(problem.X)
    ratio = problem.gamma / problem.lam
    shared = Decomposition(K, K[:3], matrix_similarity(problem.S, 14), ratio)
    maps = shared.maps(problem.Y, np.array([problem.lam]), LearnedBatch(np.array([0.7])), tol=1e-14, max_iter=1000)
    model = LearnedKernelMetric(
        kernel="precomputed",
        similarity=problem.S,
        regression_weight=problem.lam,
        collocation_weight=problem.gamma,
        output_penalty=0.7,
        tol=1e-14,
    ).fit(K, problem.Y)
    # The estimator standardises real targets, so only the fit on standardised ones agrees.
    mean, scale = problem.Y.mean(axis=0), problem.Y.std(axis=0)
    again = shared.maps(
        (problem.Y - mean) / scale, np.array([problem.lam]), LearnedBatch(np.array([0.7])), tol=1e-14, max_iter=1000
    )
    np.testing.assert_allclose(again.train[0], model.transform(K) - mean / scale, atol=1e-6)
    np.testing.assert_allclose(again.new[0], again.train[0][:3], atol=1e-10)
    assert np.abs(maps.train - again.train).max() > 1e-3


def test_uneven_metrics_are_reached_fast():
    points = np.array([[0.12573022], [-0.13210486], [0.64042265], [0.10490012]])
    kernel = Scalar("rbf").resolve(points, np.random.default_rng(0))
    shared = Decomposition(kernel.gram(points), kernel.gram(points), ClassSimilarity(np.arange(4)), 0.0)
    penalty = shared.identity_energy(simplex(4, 3), np.array([3.0])) / 6
    assert shared.maps(simplex(4, 3), np.array([3.0]), LearnedBatch(penalty), tol=1e-10, max_iter=60).converged.all()


def test_the_iteration_limit_is_told(shared):
    penalties = np.array([1e-3, 1e3])
    maps = shared.maps(simplex(3, 2)[LABELS], np.array([1.0, 1.0]), LearnedBatch(penalties), tol=1e-14, max_iter=2)
    assert not maps.converged.any()


@pytest.mark.filterwarnings("ignore:LearnedKernelMetric.*max_iter")
@pytest.mark.parametrize("max_iter", [1, 2])
def test_the_last_iterate_is_one_that_was_evaluated(shared, similarity, max_iter):
    # The first two iterates are plain in both loops.
    maps = shared.maps(simplex(3, 2)[LABELS], np.array([1.0]), LearnedBatch(np.array([1e-3])), tol=0.0, max_iter=max_iter)
    single = LearnedKernelMetric(
        bandwidth=1.0, similarity=similarity[0], collocation_weight=RATIO, regression_weight=1.0, output_penalty=1e-3, tol=0.0
    ).set_params(max_iter=max_iter)
    np.testing.assert_allclose(maps.train[0], single.fit(TRAIN, LABELS).transform(TRAIN), atol=1e-9)


def test_a_step_that_raises_the_objective_is_taken_back():
    class Watched(FixedBatch):
        def advance(self, learned, batch, residual):
            optimality, objective, following = super().advance(learned, batch, residual)
            values.append(float(objective[0]))
            return optimality, objective, following

        def take(self, active):
            return Watched(self.penalties[active], self.ridges[active])

    values: list[float] = []
    data, labels = make_classification(60, 10, n_informative=5, n_classes=4, random_state=2)
    gram = Scalar("rbf", 3.0).gram(data)
    shared = Decomposition(gram, gram, ClassSimilarity(labels), 0.01)
    targets, weight = simplex(4, 3)[labels], np.array([0.1])
    unit = weight * np.sum(targets**2) / 3
    maps = shared.maps(targets, weight, Watched(1.03 * unit, 0.03 * unit), tol=1e-8, max_iter=1000)
    raised = np.flatnonzero(np.diff(values) > 1e-9 * abs(values[-1]))
    least = np.minimum.accumulate(values)
    assert len(raised) > 5
    # The step after next is a plain one from before, and below all that was seen by then.
    assert all(values[k + 2] <= least[k] + 1e-9 * abs(least[k]) for k in raised)
    assert maps.converged.all()


def test_an_indefinite_kernel_is_refused():
    with pytest.raises(ValueError, match="smallest eigenvalue is -"):
        Decomposition(np.eye(3) - 0.9, np.eye(3), ClassSimilarity(np.array([0, 1, 1])), 0.1)
