"""Is a fit with landmarks the exact fit of the kernel that the landmarks stand for, whatever way the rows come in?"""

import pickle
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracles
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import RepeatedStratifiedKFold, ShuffleSplit, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV, kernels
from outmetric.choosing import evaluation
from outmetric.estimators import fitting
from outmetric.estimators import settings as own_settings
from outmetric.foundation import threads
from outmetric.kernels import nystroem
from outmetric.kernels.scalar import Scalar
from outmetric.problem import Summary
from outmetric.rows import fold_sums, folds, landmarks, moments
from outmetric.solvers import nystroem as reduced
from outmetric.solvers.solution import Status

MODELS = [FixedKernelMetric, LearnedKernelMetric]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def approximated(kernel, X, Z):
    """K_xz K_zz^-1 K_zx by its definition."""
    cross = oracles.gram_matrix(kernel, X, Z)
    return cross @ np.linalg.pinv(oracles.gram_matrix(kernel, Z, Z), hermitian=True) @ cross.T


def same_words(s, t):
    return float(len(set(s) & set(t)))


def dot(x, z):
    return float(x @ z)


def near(one, other, tolerance=1e-8):
    np.testing.assert_allclose(one, other, atol=tolerance * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize("model", MODELS)
class TestWhatIsFitted:
    """The exact models on the kernel matrix K_xz K_zz^-1 K_zx are the oracle."""

    @pytest.mark.parametrize("settings", [{}, {"collocation_weight": 0.0}])
    @pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
    def test_labels(self, model, kernel, settings, wine):
        X, y = wine
        Z = X[::4]
        naive = {"rbf": oracles.gaussian, "laplacian": oracles.laplacian}[kernel]
        K = approximated(lambda x, z: naive(x, z, 3.0), X, Z)
        ours = model(kernel=kernel, bandwidth=3.0, landmarks=Z, **settings).fit(X, y)
        exact = model(kernel="precomputed", **settings).fit(K, y)
        assert ours.solver_ == "nystroem"
        assert ours.coefficients_.shape == (len(Z), 2)
        near(ours.transform(X), exact.transform(K))
        assert ours.objective_ == pytest.approx(exact.objective_, rel=1e-9)
        for term in ("roughness", "collocation", "regression", "penalty"):
            assert getattr(ours.objective_terms_, term) == pytest.approx(getattr(exact.objective_terms_, term), rel=1e-6)

    @pytest.mark.parametrize("sparse", [False, True])
    def test_a_similarity_of_ones_own(self, model, sparse, wine, monkeypatch):
        monkeypatch.setattr("outmetric.rows.moments.similarity_laplacian.__defaults__", (32,))
        X, y = wine
        rng = np.random.default_rng(0)
        S = np.maximum.outer(rng.random(len(y)), rng.random(len(y))) * (y[:, None] == y) * (rng.random((len(y), len(y))) < 0.3)
        S = np.maximum(S, S.T)
        np.fill_diagonal(S, 1.0)
        S = scipy.sparse.csr_array(S) if sparse else S
        Z = X[::5]
        K = approximated(lambda x, z: oracles.gaussian(x, z, 3.0), X, Z)
        ours = model(bandwidth=3.0, landmarks=Z, similarity=S).fit(X, y)
        near(ours.transform(X), model(kernel="precomputed", similarity=S).fit(K, y).transform(K))

    @pytest.mark.parametrize("settings", [{}, {"collocation_weight": 0.0}, {"n_components": 1}, {"n_components": 3}])
    @pytest.mark.filterwarnings("ignore:n_components")
    def test_real_targets(self, model, settings, wine):
        X, _ = wine
        Y = X[:, :2] @ [[1.0, 0.5], [0.0, 2.0]] + 10
        Z = X[::4]
        K = approximated(lambda x, z: oracles.gaussian(x, z, 3.0), X, Z)
        ours = model(bandwidth=3.0, landmarks=Z, **settings).fit(X, Y)
        near(ours.map(X), model(kernel="precomputed", **settings).fit(K, Y).map(K))

    @pytest.mark.parametrize("choice", landmarks.CHOICES)
    def test_all_points_as_landmarks_give_the_exact_fit(self, model, choice, wine):
        X, y = wine
        ours = model(n_landmarks=1000, landmarks=choice).fit(X, y)
        near(ours.transform(X), model().fit(X, y).transform(X))
        assert ours.n_landmarks_ == len(X)
        np.testing.assert_array_equal(ours.landmark_indices_, np.arange(len(X)))

    def test_objects(self, model):
        words = ["cat", "act", "tack", "dog", "good", "gods", "bird", "drib", "bride", "bid"]
        y = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
        Z = words[::2]
        ours = model(kernel=same_words, landmarks=Z).fit(words, y)
        K = approximated(same_words, words, Z)
        near(ours.transform(words), model(kernel="precomputed").fit(K, y).transform(K))
        chosen = model(kernel=same_words, n_landmarks=4, random_state=0).fit(words, y)
        assert set(chosen.landmarks_) < set(words)

    def test_a_precomputed_kernel(self, model, wine):
        X, y = wine
        K = oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, 3.0), X, X)
        ours = model(kernel="precomputed", n_landmarks=50, random_state=0).fit(K, y)
        assert np.count_nonzero(ours.coefficients_.any(axis=1)) == 50
        plain = model(bandwidth=3.0, landmarks=X[ours.landmark_indices_]).fit(X, y)
        near(ours.transform(K[:7]), plain.transform(X[:7]))

    def test_landmarks_that_repeat_lose_rank_and_nothing_else(self, model, wine):
        X, y = wine
        Z = X[::4]
        twice = model(bandwidth=3.0, landmarks=np.concatenate([Z, Z])).fit(X, y)
        assert twice.landmark_rank_ == len(Z)
        assert f"{len(Z)} directions of them lost" in twice.solver_reason_
        near(twice.transform(X), model(bandwidth=3.0, landmarks=Z).fit(X, y).transform(X), 1e-7)

    def test_a_sparse_table(self, model, wine):
        X, y = wine
        X = np.where(np.abs(X) > 0.5, X, 0.0)
        ours = model(bandwidth=3.0, n_landmarks=40, random_state=1)
        near(clone(ours).fit(scipy.sparse.csr_array(X), y).transform(X), clone(ours).fit(X, y).transform(X))


def test_a_diagonal_kernel(wine):
    X, y = wine
    Z = X[::4]
    widths = (1.5, 4.0)
    ours = FixedKernelMetric(bandwidth=widths, landmarks=Z).fit(X, y)
    blocks = oracles.diagonal_blocks([approximated(lambda x, z, b=b: oracles.gaussian(x, z, b), X, Z) for b in widths])
    rows = np.arange(len(X))[:, None]
    exact = FixedKernelMetric(kernel=kernels.Precomputed(blocks)).fit(rows, y)
    near(ours.transform(X), exact.transform(rows), 1e-7)
    assert ours.objective_ == pytest.approx(exact.objective_, rel=1e-9)


def test_the_gap_is_that_of_the_approximated_problem(wine):
    X, y = wine
    Z = X[::4]
    loose = LearnedKernelMetric(bandwidth=3.0, landmarks=Z, max_iter=2, tol=0)
    with pytest.warns(UserWarning, match="max_iter"):
        loose.fit(X, y)
    K = approximated(lambda x, z: oracles.gaussian(x, z, 3.0), X, Z)
    S, Y = oracles.similarity_of_classes(y), loose.prototypes_[y]
    cross = oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, 3.0), X, Z)
    weights = (S, loose.collocation_weight_, loose.regression_weight)
    # f = k_z'C_z B; the same map with a coefficient for each sample, which the coefficient equation gives.
    F = cross @ loose.coefficients_ @ loose.output_matrix_
    C = loose.regression_weight * Y - oracles.delta(S) @ F * 2 * loose.collocation_weight_ - loose.regression_weight * F
    value = oracles.model2(C, loose.output_matrix_, K, Y, *weights, loose.output_penalty_)
    bound = oracles.dual_value(C, K, Y, *weights, loose.output_penalty_)
    assert loose.objective_ == pytest.approx(value, rel=1e-8)
    assert loose.dual_gap_ == pytest.approx((value - bound) / value, rel=1e-3)


def test_the_residual_is_measured(wine):
    """|T^(-1/2) (Gamma + T Gamma B - lambda N)| by explicit matrices: a certificate must see coefficients that are off."""
    X, y = wine
    Z = X[::4]
    fitted = LearnedKernelMetric(bandwidth=3.0, landmarks=Z).fit(X, y)
    gram = oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, 3.0), Z, Z)
    part = nystroem.Landmarks.make(Scalar("rbf", 3.0), Z, gram, single=False)
    phi = part.features(X)
    gamma, lam = fitted.collocation_weight_, fitted.regression_weight
    Y, B = fitted.prototypes_[y], fitted.output_matrix_
    D = phi.T @ oracles.delta(oracles.similarity_of_classes(y)) @ phi
    summary = Summary(phi.T @ phi, D, phi.T @ Y, Y.T @ Y, 1.0)
    solver = reduced.SpectralNystroem(nystroem.Features((part,)), summary, lam, gamma, np.eye(2))
    exact = solver.solve(np.eye(2), B)
    assert solver.evaluate(solver.coefficients(exact), np.eye(2), B).relative_residual < 1e-9
    dual = exact.coordinates + np.random.default_rng(0).normal(size=exact.coordinates.shape)
    T = lam * phi.T @ phi + 2 * gamma * D
    left = dual + T @ dual @ B - lam * phi.T @ Y
    expected = np.sqrt(np.trace(left.T @ np.linalg.solve(T, left)))
    assert solver.evaluate(part.coefficients(dual), np.eye(2), B).residual == pytest.approx(expected, rel=1e-6)


class TestChoice:
    @pytest.mark.parametrize("how", landmarks.CHOICES)
    @pytest.mark.parametrize("count", [1, 7, 39])
    def test_as_many_as_asked_for_all_different(self, how, count):
        X = np.random.default_rng(0).normal(size=(40, 3))
        X[20:] = X[0]  # half of the points coincide
        chosen = landmarks.choose(Scalar("rbf", 1.0), X, count, how, np.random.default_rng(1))
        assert len(np.unique(chosen)) == count

    @pytest.mark.parametrize("how", ["kmeans++", "leverage"])
    def test_a_lonely_point_is_seldom_missed(self, how):
        X = np.concatenate([np.random.default_rng(0).normal(size=(300, 2)), [[50.0, 50.0]]])
        hits = [300 in landmarks.choose(Scalar("rbf", 2.0), X, 20, how, np.random.default_rng(seed)) for seed in range(40)]
        assert np.mean(hits) > 0.7  # at random: 0.07

    def test_leverage_scores_are_those_of_the_definition_if_the_pilot_is_everything(self):
        X = np.random.default_rng(0).normal(size=(30, 2))
        K = oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, 1.0), X, X)
        scores = landmarks._leverage_scores(lambda rows: K[:, rows], np.diag(K).copy(), 30, np.random.default_rng(0))
        assert scores.sum() == pytest.approx(15, rel=1e-6)
        mu = np.linalg.eigvalsh(K)
        ridges = np.geomspace(1e-8, 1e3, 20000)
        ridge = ridges[np.argmin([abs(np.sum(mu / (mu + r)) - 15) for r in ridges])]
        np.testing.assert_allclose(scores, np.diag(K @ np.linalg.inv(K + ridge * np.eye(30))), atol=1e-3)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"landmarks": "best"}, "'best' is not known"),
            ({"n_landmarks": 0}, "n_landmarks must be None or an integer >= 1"),
            ({"n_landmarks": 2.5}, "n_landmarks must be None or an integer >= 1"),
            ({"landmarks": [[0.0, 1.0]]}, "features"),
            ({"landmarks": [[np.nan, 1.0, 0.0, 0.0]]}, "NaN"),
            ({"solver": "nystrom"}, "nystroem"),
        ],
    )
    def test_bad_settings(self, settings, message):
        X, y = load_iris(return_X_y=True)
        with pytest.raises(ValueError, match=message):
            LearnedKernelMetric(**settings).fit(X, y)

    def test_a_kernel_without_features_is_refused(self):
        X, y = load_iris(return_X_y=True)
        kernel = kernels.Separable("rbf", np.eye(2)) + kernels.Diagonal(["rbf", "laplacian"])
        with pytest.raises(ValueError, match=r"landmarks serve kernels k\(x, x'\) B"):
            FixedKernelMetric(kernel=kernel, solver="nystroem").fit(X, y)

    def test_a_kernel_that_is_none_is_found_out(self):
        X, y = load_iris(return_X_y=True)
        with pytest.raises(ValueError, match="not positive semi-definite"):
            LearnedKernelMetric(kernel=lambda x, z: -float(x @ z), n_landmarks=50).fit(X, y)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(11000, 12))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)


class TestSinglePrecision:
    @pytest.mark.parametrize("model", MODELS)
    def test_it_is_close_to_double_precision(self, model, data, monkeypatch):
        X, y = data
        made = []
        plain = nystroem.Landmarks.make.__func__
        monkeypatch.setattr(
            nystroem.Landmarks, "make", classmethod(lambda cls, *a, **k: made.append(plain(cls, *a, **k)) or made[-1])
        )
        settings = {"n_landmarks": 520, "random_state": 0, "bandwidth": "0.7*median", "regression_weight": 100.0}
        fits = [model(**settings).fit(X.astype(dtype), y) for dtype in (np.float64, np.float32)]
        assert [part.turn is None for part in made] == [True, False]
        assert all(fit.status_ is Status.CONVERGED for fit in fits)
        near(fits[1].transform(X), fits[0].transform(X), 1e-3)

    def test_a_steep_spectrum_stays_in_double_precision(self):
        """Smooth kernels in few dimensions: their small eigenvalues would drown in round-off."""
        rng = np.random.default_rng(0)
        y = rng.integers(3, size=12000)
        X = (rng.normal(size=(12000, 2)) + 2 * y[:, None]).astype(np.float32)
        for count in (20, 520):
            fits = [LearnedKernelMetric(n_landmarks=count, random_state=0).fit(X.astype(kind), y) for kind in (np.float32, float)]
            assert fits[0].status_ is Status.CONVERGED
            near(fits[0].transform(X[:500]), fits[1].transform(X[:500]), 1e-5)

    def test_what_is_turned_stays_the_same(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 12)).astype(np.float32)
        Z = X[:520].astype(np.float64)
        kernel = Scalar("rbf", 3.0)
        turned = nystroem.Landmarks.make(kernel, Z, kernel.gram(Z), single=True)
        plain = nystroem.Landmarks.make(kernel, Z, kernel.gram(Z), single=False)
        assert turned.turn is not None
        assert plain.turn is None
        block = turned.evaluate(X)
        product = nystroem.Features((turned,)).whiten_both((block.T @ block).astype(np.float64))
        phi = plain.features(X)
        near(product, phi.T @ phi, 1e-4)

    def test_block_reflector(self):
        U = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 5)))[0]
        V, T = nystroem._block_reflector(U)
        Q = np.eye(20) - V @ T @ V.T
        np.testing.assert_allclose(Q.T @ Q, np.eye(20), atol=1e-13)
        np.testing.assert_allclose(Q[:, :5] @ Q[:, :5].T, U @ U.T, atol=1e-13)


@pytest.mark.parametrize("model", MODELS)
class TestRowsInBlocks:
    """The stated bound: 1e-9 of the largest coordinate in double precision."""

    def test_order_size_and_threads_do_not_matter(self, model, wine, monkeypatch):
        X, y = wine
        Z = X[::4]
        whole = model(landmarks=Z).fit(X, y).transform(X)
        order = np.random.default_rng(0).permutation(len(X))
        near(model(landmarks=Z).fit(X[order], y[order]).transform(X), whole, 1e-9)
        monkeypatch.setattr(moments, "BLOCK_BYTES", 100)
        monkeypatch.setattr("outmetric.foundation.threads.blas_threads", lambda: 3)
        near(model(landmarks=Z).fit(X, y).transform(X), whole, 1e-9)

    def test_blocks_and_partial_fit(self, model, wine):
        X, y = wine
        Z = X[::4]
        whole = model(landmarks=Z).fit(X, y)
        order = np.random.default_rng(0).permutation(len(X))
        parts = np.array_split(order, 9)
        for given in (iter([(X[part], y[part]) for part in parts]), lambda: ((X[part], y[part]) for part in parts)):
            streamed = model(landmarks=Z).fit(given)
            near(streamed.transform(X), whole.transform(X), 1e-9)
            assert streamed.solver_reason_.startswith("rows came in blocks")
        stream = model(landmarks=Z)
        for part in parts:
            stream.partial_fit(X[part], y[part])
        near(stream.transform(X), whole.transform(X), 1e-9)
        revived = pickle.loads(pickle.dumps(stream)).partial_fit(X[:5], y[:5])
        near(revived.transform(X), stream.partial_fit(X[:5], y[:5]).transform(X), 1e-12)
        assert not hasattr(clone(stream).fit(X, y), "_stream")

    def test_classes_may_come_later(self, model, wine):
        X, y = wine
        names = np.array(["c", "a", "longer"])[y]
        Z = X[::4]
        stream = model(landmarks=Z)
        for label in ("a", "c", "longer"):
            stream.partial_fit(X[names == label], names[names == label])
        assert list(stream.classes_) == ["a", "c", "longer"]
        near(stream.transform(X), model(landmarks=Z).fit(X, names).transform(X), 1e-9)

    def test_real_targets(self, model, wine):
        X, _ = wine
        Y = X[:, :2] + 100
        Z = X[::4]
        whole = model(landmarks=Z, collocation_weight=0.0).fit(X, Y)
        streamed = model(landmarks=Z, collocation_weight=0.0).fit(iter([(X[:50], Y[:50]), (X[50:], Y[50:])]))
        near(streamed.map(X), whole.map(X), 1e-8)

    def test_landmarks_come_from_all_rows_if_they_can_be_read_twice(self, model, wine):
        X, y = wine
        parts = [(X[start : start + 20], y[start : start + 20]) for start in range(0, len(X), 20)]
        once = model(n_landmarks=3, random_state=0).fit(iter(parts))
        twice = model(n_landmarks=3, random_state=0).fit(lambda: iter(parts))
        first = X[:20]
        assert all((first == z).all(axis=1).any() for z in once.landmarks_)
        assert not all((first == z).all(axis=1).any() for z in twice.landmarks_)

    @pytest.mark.parametrize(
        ("blocks", "message"),
        [
            ([], "gave no rows"),
            ([np.zeros((3, 2))], "pairs"),
            ([(np.zeros((2, 3)), [0, 1]), (np.zeros((2, 4)), [0, 1])], "features"),
            ([(np.zeros((2, 3)), [0, 1]), (np.full((2, 3), np.nan), [0, 1])], "NaN"),
            ([(np.zeros((2, 3)), [0, 1]), (np.zeros((2, 3)), [0.5, 1.5])], "labels and blocks with real targets"),
            ([(np.zeros((2, 3)), [0.5, 1.5])], "collocation_weight=0"),
            ([(np.eye(3), [0, 0, 0])], "one class"),
            ([(np.zeros((2, 3)), [0, 1, 2])], "inconsistent"),
        ],
    )
    def test_bad_blocks(self, model, blocks, message):
        with pytest.raises(ValueError, match=message):
            model(bandwidth=1.0, n_landmarks=1).fit(iter(blocks))

    def test_labels_keep_their_type_and_must_not_change_it(self, model, wine):
        X, y = wine
        for labels in (y.astype(np.int8), np.array([None, "b", "c"], dtype=object)[y.clip(min=1)], y.astype(str)):
            streamed = model(landmarks=X[::4]).fit(iter([(X[::2], labels[::2]), (X[1::2], labels[1::2])]))
            assert streamed.classes_.dtype == labels.dtype
        for other in (y.astype(str), y > 1):
            with pytest.raises(ValueError, match="labels of different types"):
                model(landmarks=X[::4]).fit(iter([(X, y), (X, other)]))

    def test_many_classes_in_small_blocks(self, model):
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 100, 3000)
        X = rng.normal(size=(3000, 2)) + labels[:, None]
        streamed = model(n_landmarks=30, n_components=3).fit(
            iter([(X[i : i + 60], labels[i : i + 60]) for i in range(0, 3000, 60)])
        )
        assert len(streamed.classes_) == 100

    def test_real_targets_far_from_zero(self, model, wine):
        X, _ = wine
        Y = X[:, :2]
        X = X.astype(np.float32)
        maps = [
            model(landmarks=X[::4], collocation_weight=0.0)
            .fit(iter([(X[:50], Y[:50] + far), (X[50:], Y[50:] + far)]))
            .transform(X.astype(float))
            for far in (0.0, 1e6)
        ]
        near(maps[1] - maps[1].mean(axis=0), maps[0] - maps[0].mean(axis=0), 1e-6)

    def test_whole_numbers_among_real_targets(self, model):
        X = np.random.default_rng(0).normal(size=(40, 2))
        y = X[:, 0] * 1.5
        y[-1] = 2.0
        fitted = model(n_landmarks=10, collocation_weight=0.0).fit(iter([(X[:-1], y[:-1]), (X[-1:], y[-1:])]))
        assert fitted.classes_ is None

    def test_a_call_that_fails_is_not_counted(self, model, wine):
        X, y = wine
        stream = model(landmarks=X[::4]).partial_fit(X[:100], y[:100])
        before = stream._stream.statistics.n_rows
        with pytest.raises(ValueError, match="NaN"):
            stream.partial_fit(np.full_like(X[:5], np.nan), y[:5])
        assert stream._stream.statistics.n_rows == before
        assert stream.partial_fit(X[100:], y[100:])._stream.statistics.n_rows == len(X)

    def test_prototypes_may_wait_for_their_classes(self, model, wine):
        X, y = wine
        stream = model(landmarks=X[::4], prototypes=np.eye(3))
        stream.partial_fit(X[y < 2], y[y < 2])
        with pytest.raises(NotFittedError):
            stream.transform(X)
        stream.partial_fit(X[y == 2], y[y == 2])
        near(stream.transform(X), model(landmarks=X[::4], prototypes=np.eye(3)).fit(X, y).transform(X), 1e-9)

    def test_the_kernel_must_not_change_midway(self, model, wine):
        X, y = wine
        stream = model(landmarks=X[::4]).partial_fit(X, y)
        with pytest.raises(ValueError, match="bandwidth changed between calls"):
            stream.set_params(bandwidth=9.0).partial_fit(X, y)

    def test_a_kernel_function_on_rows(self, model, wine):
        X, y = wine
        streamed = model(kernel=dot, landmarks=X[::4]).fit(iter([(X[:90], y[:90]), (X[90:], y[90:])]))
        near(streamed.transform(X), model(kernel="linear", landmarks=X[::4]).fit(X, y).transform(X), 1e-7)

    def test_dense_and_sparse_blocks(self, model, wine):
        X, y = wine
        blocks = [(X[:90], y[:90]), (scipy.sparse.csr_array(X[90:]), y[90:])]
        whole = model(bandwidth=3.0, landmarks=X[::4]).fit(X, y).transform(X)
        near(model(bandwidth=3.0, landmarks=X[::4]).fit(iter(blocks)).transform(X), whole)

    def test_given_landmarks_are_read_once(self, model, wine):
        X, y = wine
        reads = []
        model(landmarks=X[::4]).fit(lambda: reads.append(1) or iter([(X, y)]))
        assert len(reads) == 2  # a look at the first block, and the pass

    def test_what_cannot_come_in_blocks(self, model, wine):
        X, y = wine
        for settings in ({"solver": "spectral"}, {"similarity": np.eye(178)}, {"kernel": "precomputed"}):
            assert not hasattr(model(**settings), "partial_fit")
            with pytest.raises(ValueError, match="block"):
                model(**settings).fit(iter([(X, y)]))


def test_an_exact_fit_keeps_nothing_of_landmarks(wine):
    model = LearnedKernelMetric(n_landmarks=20).fit(*wine)
    model.set_params(n_landmarks=None).fit(*wine)
    assert not [name for name in vars(model) if "landmark" in name and name.endswith("_")]


def test_threads_leave_blas_as_they_found_it():
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads.blas_threads()
        tasks = [lambda: list(threads.in_threads(lambda k: time.sleep(0.002), range(5))) for _ in range(12)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda task: task(), tasks))
        assert threads.blas_threads() == before
        abandoned = threads.in_threads(lambda k: k, range(100))
        next(abandoned)
        abandoned.close()
        assert threads.blas_threads() == before


class TestAutomaticChoice:
    def test_many_samples(self, monkeypatch, wine):
        X, y = wine
        monkeypatch.setattr(own_settings, "EXACT_SAMPLES", 100)
        fitted = LearnedKernelMetric().fit(X, y)
        assert fitted.solver_ == "nystroem"
        assert fitted.solver_reason_.startswith("178 samples are more than 100")
        assert LearnedKernelMetric(solver="spectral").fit(X, y).solver_ == "spectral"

    def test_a_number_of_landmarks_asks_for_them(self, wine):
        assert LearnedKernelMetric(n_landmarks=20).fit(*wine).solver_ == "nystroem"
        assert LearnedKernelMetric().fit(*wine).solver_ == "spectral"


GRID = {"regression_weight": [0.3, 3.0, 30.0], "collocation_weight": ["auto", 0.0], "bandwidth": [2.0, 5.0]}


class TestSearch:
    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize(
        "cv", [3, ShuffleSplit(3, test_size=0.3, random_state=0), RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)]
    )
    def test_with_all_landmarks_the_scores_are_the_exact_ones(self, model, cv, wine):
        # By the representer theorem landmarks outside of the training part do not matter.
        exact = MetricSearchCV(model(), GRID, cv=cv).fit(*wine)
        ours = MetricSearchCV(model(solver="nystroem"), GRID, cv=cv).fit(*wine)
        np.testing.assert_allclose(ours.cv_results_["mean_test_score"], exact.cv_results_["mean_test_score"], atol=1e-9)
        assert ours.best_params_ == exact.best_params_
        assert ours.n_decompositions_ == exact.n_decompositions_
        near(ours.transform(wine[0]), exact.transform(wine[0]))
        np.testing.assert_allclose(ours.predict_proba(wine[0]), exact.predict_proba(wine[0]))

    @pytest.mark.parametrize("model", MODELS)
    def test_with_few_landmarks_the_scores_are_those_of_fits(self, model, wine):
        X, y = wine
        Z = X[::9]
        grid = {"regression_weight": [0.3, 30.0], "collocation_weight": ["auto", 0.0], "bandwidth": [2.0, 5.0]}
        splits = list(StratifiedKFold(3).split(X, y))
        search = MetricSearchCV(model(landmarks=Z), grid, cv=splits, n_neighbors=(1, 7), scoring="accuracy").fit(X, y)
        for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
            count = params.pop("n_neighbors")
            scores = []
            for train, test in splits:
                fitted = model(landmarks=Z, **params).fit(X[train], y[train])
                voters = KNeighborsClassifier(count).fit(fitted.transform(X[train]), y[train])
                scores.append(voters.score(fitted.transform(X[test]), y[test]))
            assert score == pytest.approx(np.mean(scores), abs=1e-9)

    def test_the_best_is_fitted_as_if_anew(self, wine):
        X, y = wine
        estimator = LearnedKernelMetric(n_landmarks=40, random_state=3)
        search = MetricSearchCV(estimator, GRID).fit(X, y)
        anew = clone(estimator).set_params(**{name: search.best_params_[name] for name in GRID}).fit(X, y)
        near(search.transform(X), anew.transform(X), 1e-9)
        assert search.best_estimator_.get_params()["bandwidth"] == search.best_params_["bandwidth"]
        assert search.best_estimator_.n_features_in_ == X.shape[1]

    def test_one_pass_for_each_bandwidth(self, wine, monkeypatch):
        X, y = wine
        passes = []
        monkeypatch.setattr(evaluation, "fold_sums", lambda *args: passes.append(1) or fold_sums(*args))
        for another in ("class_summary", "target_summary"):
            monkeypatch.setattr(fitting, another, lambda *args: pytest.fail("another pass"))
        MetricSearchCV(LearnedKernelMetric(n_landmarks=40), GRID).fit(X, y)
        assert len(passes) == 2

    def test_a_tie_between_kernels_fits_the_one_that_is_chosen(self):
        X, y = make_blobs(300, 5, centers=3, cluster_std=0.3, random_state=0)
        estimator = LearnedKernelMetric(n_landmarks=40, random_state=0)
        search = MetricSearchCV(estimator, {"bandwidth": [1.0, 8.0, 64.0]}, scoring="accuracy", cv=3).fit(X, y)
        assert search.best_params_ == {"bandwidth": 64.0, "n_neighbors": search.n_neighbors_}
        assert search.best_estimator_.bandwidth_ == 64.0
        near(search.transform(X), clone(estimator).set_params(bandwidth=64.0).fit(X, y).transform(X), 1e-9)

    @pytest.mark.filterwarnings("ignore:y holds -1")
    def test_every_class_has_a_voter(self, monkeypatch):
        monkeypatch.setattr("outmetric.choosing.search.VOTERS", 50)
        X, y = load_iris(return_X_y=True)
        y[[7, 90]] = -1  # before all others, so that a missing column would shift them
        search = MetricSearchCV(LearnedKernelMetric(n_landmarks=40, bandwidth=1.0), {"regression_weight": [3.0]}, cv=2).fit(X, y)
        assert search.voters_.n_samples_fit_ == 50
        assert search.predict_proba(X).shape == (150, 4)
        assert np.mean(search.predict(X) == y) > 0.9

    def test_rows_that_occur_twice_in_a_training_part(self, wine):
        rng = np.random.default_rng(0)
        splits = [(rng.integers(178, size=150), np.arange(0, 178, 3)) for _ in range(2)]
        exact = MetricSearchCV(LearnedKernelMetric(), GRID, cv=splits).fit(*wine)
        ours = MetricSearchCV(LearnedKernelMetric(solver="nystroem"), GRID, cv=splits).fit(*wine)
        np.testing.assert_allclose(ours.cv_results_["mean_test_score"], exact.cv_results_["mean_test_score"], atol=1e-9)

    def test_masks_and_a_precomputed_kernel(self, wine):
        X, y = wine
        K = Scalar("rbf", 3.0).gram(X)
        test = np.arange(len(y)) % 3 == 0
        masks = [(~test, test), (test, ~test)]
        twice = [(np.r_[np.flatnonzero(~test), 1, 1], np.flatnonzero(test))]
        for cv in (masks, twice):
            exact = MetricSearchCV(LearnedKernelMetric(bandwidth=3.0), {"regression_weight": [0.3, 3.0]}, cv=cv).fit(X, y)
            given = LearnedKernelMetric(kernel="precomputed", solver="nystroem")
            ours = MetricSearchCV(given, {"regression_weight": [0.3, 3.0]}, cv=cv).fit(K, y)
            np.testing.assert_allclose(ours.cv_results_["mean_test_score"], exact.cv_results_["mean_test_score"], atol=1e-9)

    def test_a_pipeline_of_the_metric_alone(self, wine):
        pipeline = Pipeline([("m", LearnedKernelMetric(n_landmarks=40))])
        search = MetricSearchCV(pipeline, {"m__regression_weight": [1.0, 3.0]}).fit(*wine)
        assert isinstance(search.best_estimator_, Pipeline)

    def test_more_components_than_classes(self, wine):
        grid = {"n_components": [2, 5], "regression_weight": [3.0]}
        search = MetricSearchCV(LearnedKernelMetric(n_landmarks=40), grid).fit(*wine)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    def test_a_pipeline_sees_the_training_part_only(self):
        X, y = load_iris(return_X_y=True)
        pipeline = make_pipeline(StandardScaler(), LearnedKernelMetric(solver="nystroem", bandwidth=1.0))
        grid = {"learnedkernelmetric__regression_weight": [0.3, 3.0]}
        exact = MetricSearchCV(make_pipeline(StandardScaler(), LearnedKernelMetric(bandwidth=1.0)), grid).fit(X, y)
        ours = MetricSearchCV(pipeline, grid).fit(X, y)
        np.testing.assert_allclose(ours.cv_results_["mean_test_score"], exact.cv_results_["mean_test_score"], atol=1e-9)
        near(ours.transform(X), exact.transform(X))

    def test_a_bounded_number_of_points_votes(self, wine, monkeypatch):
        X, y = wine
        monkeypatch.setattr(evaluation, "REFERENCE", 50)
        monkeypatch.setattr(evaluation, "VALIDATION", 30)
        monkeypatch.setattr("outmetric.choosing.scoring.REFERENCE", 50)
        monkeypatch.setattr("outmetric.choosing.search.VOTERS", 60)
        search = MetricSearchCV(LearnedKernelMetric(n_landmarks=40), GRID, n_neighbors=(3, 49, 51)).fit(X, y)
        assert search.voters_.n_samples_fit_ == 60
        assert set(search.cv_results_["param_n_neighbors"]) == {3, 49}
        assert np.mean(search.predict(X) == y) > 0.9

    def test_a_class_that_a_fold_lacks(self):
        X, y = load_iris(return_X_y=True)
        y[:3] = 3
        splits = [(np.arange(3, 150, 2), np.arange(0, 150, 2)), (np.arange(0, 150, 2), np.arange(1, 150, 2))]
        search = MetricSearchCV(LearnedKernelMetric(n_landmarks=30, bandwidth=1.0), {"regression_weight": [1.0, 10.0]}, cv=splits)
        assert np.isfinite(search.fit(X, y).best_score_)

    def test_short_memory_makes_a_pass_for_each_fold(self, wine, monkeypatch):
        plain = MetricSearchCV(LearnedKernelMetric(n_landmarks=40, random_state=0), GRID).fit(*wine)
        monkeypatch.setattr(evaluation, "fits_in_memory", lambda n_bytes: n_bytes <= 1e5)
        short = MetricSearchCV(LearnedKernelMetric(n_landmarks=40, random_state=0), GRID).fit(*wine)
        np.testing.assert_allclose(short.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], atol=1e-9)
        near(short.transform(wine[0]), plain.transform(wine[0]), 1e-9)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space limits are a Linux matter")
def test_more_rows_than_memory_are_fitted_out_of_core(tmp_path):
    """A file of 1.6 GB with 1.2 GB of address space left: neither a copy nor a memory map of it could exist."""
    code = """
import resource, sys, numpy as np
from pathlib import Path
from outmetric import LearnedKernelMetric
LearnedKernelMetric(n_landmarks=5).fit(np.eye(10), np.arange(10) % 2)  # threads and libraries are there
used = float(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (int(used + 1.2e9), resource.RLIM_INFINITY))
rows, columns, blocks = 100_000, 200, 20
block = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
def read():
    for number in range(blocks):
        X = np.roll(block, number)  # drawn anew would take most of the time
        yield X, (X[:, 0] > 0).astype(int)
try:
    np.empty(rows * columns * blocks, dtype=np.float32)
except MemoryError:
    print("too large")
fitted = LearnedKernelMetric(n_landmarks=50, random_state=0).fit(read())
print(fitted.solver_, fitted.status_.name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split("\n")[:2] == ["too large", "nystroem CONVERGED"], done.stderr


def test_too_many_classes_for_memory_are_an_error(monkeypatch):
    monkeypatch.setattr("outmetric.foundation.memory.available_memory", lambda: 1e4)
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(MemoryError, match="fewer landmarks, fewer classes"):
        LearnedKernelMetric(n_landmarks=50, bandwidth=1.0).fit(X, np.arange(60) % 15)


@pytest.mark.parametrize("collocation_weight", [0.0, "auto"])
def test_memory_does_not_grow_with_the_number_of_classes(collocation_weight, monkeypatch):
    """Bytes at the peak, in matrices of landmarks; one for each class would be 60 or more."""
    if collocation_weight == "auto":  # the sums of some classes at a time; without collocation one sum does
        monkeypatch.setattr(folds, "HELD_BYTES", 4 * 8 * 301**2)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1200, 3)), np.arange(1200) % 60
    model = LearnedKernelMetric(n_landmarks=300, landmarks="uniform", bandwidth=0.5, collocation_weight=collocation_weight)
    model.fit(X[:120], y[:120])  # what is imported late is not counted
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25 * 8 * 300**2
