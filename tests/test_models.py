"""Do the estimators wire data, kernels, supervision and solvers together as they say?"""

import pickle
import subprocess
import sys

import numpy as np
import oracles
import pandas
import pytest
import scipy.sparse
from problems import points
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier

from outmetric import FixedKernelMetric, LearnedKernelMetric, Status, kernels
from outmetric.datasets import make_waveform

MODELS = [FixedKernelMetric, LearnedKernelMetric]


def letters(s, t):
    """How many positions agree: a kernel on strings, at module level so that it can be pickled."""
    return float(sum(a == b for a, b in zip(s, t, strict=True)))


def degrees_in_common(a, b):
    return float(np.minimum(np.sort(a.sum(axis=-1)), np.sort(b.sum(axis=-1))).sum())


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3], y[::3]


@pytest.mark.parametrize("model", MODELS)
class TestMetric:
    def test_the_map_is_its_explicit_formula(self, model, iris):
        X, y = iris
        fitted = model(bandwidth=1.3).fit(X, y)
        new = X[:7] + 0.1
        K = oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, 1.3), new, X)
        B = getattr(fitted, "output_matrix_", np.eye(2))
        expected = K @ fitted.coefficients_ @ B
        np.testing.assert_allclose(fitted.map(new), expected, atol=1e-11)
        np.testing.assert_allclose(fitted.transform(new), expected @ fitted.metric_factor_.T, atol=1e-10)

    def test_distances_are_euclidean_between_transformed_points(self, model, iris):
        X, y = iris
        fitted = model().fit(X, y)
        pairs = np.array([[x, z] for x in X[:10] for z in X[:10]])
        expected = squareform(pdist(fitted.transform(X[:10])))
        np.testing.assert_allclose(fitted.pair_distance(pairs).reshape(10, 10), expected, atol=1e-12)
        np.testing.assert_array_equal(fitted.pair_score(pairs), -fitted.pair_distance(pairs))
        difference = fitted.map(X[:1]) - fitted.map(X[1:2])
        squared = (difference @ fitted.get_mahalanobis_matrix() @ difference.T).item()
        assert fitted.pair_distance(pairs)[1] == pytest.approx(np.sqrt(squared))

    def test_the_metric_stands_alone(self, model, iris):
        X, y = iris
        fitted = model().fit(X, y)
        metric = pickle.loads(pickle.dumps(fitted.get_metric()))
        mine = fitted.get_metric()
        expected = fitted.pair_distance(np.array([[X[0], X[60 % len(X)]]]))[0]
        fitted.coefficients_ *= 0
        fitted.metric_factor_ *= 0
        assert mine(X[0], X[60 % len(X)]) == pytest.approx(expected)
        assert len(repr(mine)) < 500
        assert metric(X[0], X[60 % len(X)]) == pytest.approx(expected)
        assert metric(X[0], X[60 % len(X)], squared=True) == pytest.approx(expected**2)
        votes = KNeighborsClassifier(3, metric=metric, algorithm="brute").fit(X[::2], y[::2]).predict(X[1::2])
        plain = KNeighborsClassifier(3).fit(metric.coordinates(X[::2]), y[::2]).predict(metric.coordinates(X[1::2]))
        np.testing.assert_array_equal(votes, plain)

    @pytest.mark.filterwarnings("ignore:n_components=4")
    @pytest.mark.parametrize("n_components", [1, 2, 4])
    def test_components_bound_the_rank(self, model, iris, n_components):
        X, y = iris
        coordinates = model(n_components).fit(X, y).transform(X)
        assert coordinates.shape == (len(X), n_components)
        assert np.linalg.matrix_rank(coordinates - coordinates.mean(axis=0), tol=1e-8) <= min(n_components, 2)

    @pytest.mark.parametrize("weight", [3.0, 1e6])
    def test_float32_stays_float32(self, model, iris, weight):
        X, y = iris
        single = X.astype(np.float32)
        fitted = model(regression_weight=weight).fit(single, y)
        exact = model(regression_weight=weight).fit(single.astype(np.float64), y)
        assert fitted.transform(single).dtype == fitted.map(single).dtype == np.float32
        assert exact.transform(X).dtype == np.float64
        # Coefficients almost cancel when the weight is large, so everything but the result is double precision.
        np.testing.assert_allclose(fitted.transform(single), exact.transform(single.astype(np.float64)), rtol=1e-4, atol=1e-5)

    def test_large_samples_are_mapped_in_blocks(self, model, iris, monkeypatch):
        X, y = iris
        fitted = model().fit(X, y)
        whole = fitted.transform(X)
        monkeypatch.setattr("outmetric.estimators.metric.BLOCK_BYTES", 8 * len(X) * 7)
        np.testing.assert_allclose(fitted.transform(X), whole, atol=1e-13)

    def test_sparse_data(self, model):
        X, y = load_digits(return_X_y=True)
        X, y = X[:120] / 16, y[:120]
        dense = model(bandwidth=2.0).fit(X, y)
        sparse = model(bandwidth=2.0).fit(scipy.sparse.csr_matrix(X), y)
        np.testing.assert_allclose(sparse.transform(scipy.sparse.csr_array(X)), dense.transform(X), atol=1e-9)
        first, second = scipy.sparse.csr_array(X[:1]), scipy.sparse.csr_array(X[1:2])
        assert sparse.get_metric()(first, second) == pytest.approx(dense.get_metric()(X[0], X[1]))

    def test_strings(self, model):
        rng = np.random.default_rng(0)
        words = ["".join(rng.choice(list("ACGT"), 12)) for _ in range(60)]
        y = np.array([word[0] + word[1] for word in words])
        y = np.array(["purine" if pair[0] in "AG" else "pyrimidine" for pair in y])
        fitted = model(kernel=letters).fit(words, y)
        coordinates = fitted.transform(words)
        K = np.array([[letters(s, t) for t in words] for s in words])
        given = model(kernel="precomputed").fit(K, y)
        np.testing.assert_allclose(coordinates, given.transform(K), atol=1e-8)
        metric = pickle.loads(pickle.dumps(fitted.get_metric()))
        assert fitted.pair_distance([(words[0], words[1])])[0] == pytest.approx(metric(words[0], words[1]))

    def test_objects_that_are_arrays(self, model):
        rng = np.random.default_rng(0)
        graphs = np.triu(rng.random((20, 5, 5)) < 0.5, 1).astype(float)
        graphs = graphs + graphs.transpose(0, 2, 1)
        fitted = model(kernel=degrees_in_common).fit(graphs, (graphs.sum(axis=(1, 2)) > 10).astype(int))
        metric = fitted.get_metric()
        expected = fitted.pair_distance([(graphs[0], graph) for graph in graphs])
        np.testing.assert_allclose([metric(graphs[0], graph) for graph in graphs], expected)
        assert expected.max() > 0.1

    def test_the_fitted_model_owns_its_data(self, model, iris):
        X, y = iris
        mine = X.copy()
        fitted = model().fit(mine, y)
        before = fitted.transform(X)
        mine[:] = 0
        np.testing.assert_array_equal(fitted.transform(X), before)
        sparse = scipy.sparse.csr_array(X)
        sparse.indices, sparse.indptr = sparse.indices.astype(np.int64), sparse.indptr.astype(np.int64)
        model(kernel="laplacian").fit(sparse, y)
        assert sparse.indices.dtype == np.int64

    def test_pairs_from_a_frame_need_no_names(self, model, iris):
        X, y = iris
        frame = pandas.DataFrame(X, columns=list("abcd"))
        fitted = model().fit(frame, y)
        expected = fitted.pair_distance(np.array([[X[0], X[1]]]))[0]
        assert fitted.pair_distance([(frame.iloc[0], frame.iloc[1])])[0] == pytest.approx(expected)
        assert fitted.get_metric()(frame.iloc[0], frame.iloc[1]) == pytest.approx(expected)

    def test_the_automatic_weight_does_not_depend_on_the_unit_of_similarity(self, model, iris):
        X, y = iris
        S = oracles.similarity_of_classes(y)
        maps = [model(similarity=unit * S).fit(X, y).map(X) for unit in (1e-3, 1.0, 1e3)]
        np.testing.assert_allclose(maps[0], maps[1], atol=1e-5)
        np.testing.assert_allclose(maps[2], maps[1], atol=1e-5)

    def test_the_random_state_draws_the_points_of_the_median(self, model, monkeypatch):
        monkeypatch.setattr("outmetric.kernels.gradients.MEDIAN_POINTS", 20)
        X, y = points(60), np.arange(60) % 2
        found = [model(random_state=seed).fit(X, y).bandwidth_ for seed in (0, 0, 1)]
        assert found[0] == found[1] != found[2]

    def test_a_precomputed_kernel_keeps_no_kernel_matrix(self, model, iris):
        X, y = iris
        assert model(kernel="precomputed").fit(rbf_kernel(X), y).metric_.points.size == 0

    def test_a_function_on_rows_of_numbers_checks_them(self, model, iris):
        X, y = iris
        plain = model(bandwidth=1.0).fit(X, y)
        function = model(kernel=lambda x, z: oracles.gaussian(x, z, 1.0)).fit(X, y)
        np.testing.assert_allclose(function.transform(X), plain.transform(X), atol=1e-8)
        assert function.n_features_in_ == 4
        with pytest.raises(ValueError, match="NaN"):
            function.transform(np.full((1, 4), np.nan))

    @pytest.mark.parametrize("solver", ["spectral", "dense", "cg"])
    def test_solvers_agree(self, model, iris, solver):
        X, y = iris
        chosen = model(tol=1e-10).fit(X, y)
        asked = model(tol=1e-10, solver=solver).fit(X, y)
        assert (chosen.solver_, asked.solver_, asked.solver_reason_) == ("spectral", solver, "asked for")
        assert asked.objective_ == pytest.approx(chosen.objective_, rel=1e-8)
        np.testing.assert_allclose(asked.transform(X), chosen.transform(X), atol=1e-5)

    def test_similarity_as_matrix_callable_or_word(self, model, iris):
        X, y = iris
        S = oracles.similarity_of_classes(y)
        expected = model().fit(X, y).transform(X)
        for similarity in (S, scipy.sparse.csr_matrix(S), lambda labels: labels[:, None] == labels):
            np.testing.assert_allclose(model(similarity=similarity).fit(X, y).transform(X), expected, atol=1e-6)
        alone = model(similarity=np.eye(len(X))).fit(X, y)
        assert np.abs(alone.transform(X) - expected).max() > 1e-3

    def test_real_targets(self, model):
        X = points(80)
        y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]) + 50
        fitted = model(regression_weight=100.0).fit(X[:60], y[:60])
        assert fitted.classes_ is None
        error = np.abs(fitted.map(X[60:]) - y[60:]).mean()
        assert error < 0.7 * np.abs(y[60:] - y[:60].mean(axis=0)).mean()
        one = model().fit(X, y[:, 0])
        np.testing.assert_allclose(one.transform(X), model().fit(X, y[:, :1]).transform(X))
        assert model(1).fit(X, y).transform(X).shape == (80, 1)

    def test_the_units_of_real_targets_do_not_matter(self, model):
        X = points(40)
        y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2])
        units = np.array([1.0, 1000.0])
        plain, scaled = (model().fit(X, targets) for targets in (y, y * units + 3))
        np.testing.assert_allclose(
            scaled.transform(X), plain.transform(X) + scaled.transform(X).mean(0) - plain.transform(X).mean(0)
        )
        np.testing.assert_allclose(scaled.map(X) - 3, plain.map(X) * units, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(scaled.target_scales_, y.std(axis=0) * units)
        assert "each divided by its standard deviation" in scaled.summary()
        difference = scaled.map(X[:1]) - scaled.map(X[1:2])
        squared = np.sum((scaled.transform(X[:1]) - scaled.transform(X[1:2])) ** 2)
        assert float((difference @ scaled.get_mahalanobis_matrix() @ difference.T)[0, 0]) == pytest.approx(squared)

    def test_real_targets_use_the_similarity(self, model):
        X = points(30)
        y = X[:, 0]
        default = model(collocation_weight=1.0).fit(X, y).transform(X)
        h = np.std(y) * 30 ** (-1 / 5)
        explicit = model(collocation_weight=1.0, similarity=lambda y: rbf_kernel(y[:, None], gamma=0.5 / h**2)).fit(X, y)
        np.testing.assert_allclose(explicit.transform(X), default, atol=1e-7)
        assert np.abs(model(collocation_weight=0).fit(X, y).transform(X) - default).max() > 1e-3

    @pytest.mark.filterwarnings("ignore:The number of unique classes")
    def test_whole_numbers_are_labels_unless_they_cannot_be(self, model):
        X, y = points(60), np.arange(60.0) % 30
        assert len(model().fit(X, y.astype(int)).classes_) == 30
        assert len(model().fit(X, (y % 3)).classes_) == 3
        assert model().fit(X, y[:, None]).classes_ is None
        with pytest.raises(ValueError, match=r"30 distinct whole numbers for 60 samples.*y.astype\(float\)\[:, None\]"):
            model().fit(X, y)
        with pytest.raises(ValueError, match="60 distinct whole numbers"):
            model().fit(X, np.arange(60))

    def test_a_column_of_labels_is_flattened_as_in_scikit_learn(self, model, iris):
        X, y = iris
        for column in (y[:, None], pandas.DataFrame({"species": np.array(["a", "b", "c"])[y]})):
            with pytest.warns(DataConversionWarning):
                assert len(model().fit(X, column).classes_) == 3

    def test_the_fitted_objective_is_that_of_the_definition(self, model, iris):
        X, y = iris
        fitted = model(bandwidth=1.0).fit(X, y)
        last = fitted.history_[-1]
        assert fitted.objective_ == pytest.approx(last.objective, rel=1e-9)
        terms = fitted.objective_terms_
        assert terms.collocation + terms.regression == pytest.approx(last.fit, rel=1e-8)
        assert terms.roughness == pytest.approx(last.roughness, rel=1e-8)

    def test_it_tells_about_its_iterations_on_stderr_if_asked(self, model, iris, capsys):
        X, y = iris
        model(verbose=True).fit(X, y)
        told = capsys.readouterr()
        assert told.out == ""
        assert "iteration 1: objective" in told.err
        model().fit(X, y)
        assert capsys.readouterr().err == ""

    def test_every_setting_has_an_effect(self, model, iris):
        X, y = iris
        penalty = "metric_penalty" if model is FixedKernelMetric else "output_penalty"
        plain = model().fit(X, y).map(X)
        settings = {
            "collocation_weight": 1.0,
            "regression_weight": 0.1,
            penalty: 1e-2,
            "kernel": "laplacian",
            "bandwidth": 0.2,
            "kernel_params": {"gamma": 5.0},
            "prototypes": [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]],
        }
        for name, value in settings.items():
            assert np.abs(model(**{name: value}).fit(X, y).map(X) - plain).max() > 1e-3, name

    def test_fitted_attributes(self, model, iris):
        X, y = iris
        fitted = model().fit(X, y)
        np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])
        assert fitted.prototypes_.shape == (3, 2)
        assert fitted.status_ is Status.CONVERGED
        assert fitted.bandwidth_ == pytest.approx(np.median(pdist(X)), rel=0.02)
        assert fitted.n_iter_ == len(fitted.history_) == fitted.history_[-1].iteration
        degree = np.mean([np.sum(y == label) - 1 for label in y])
        assert fitted.collocation_weight_ == pytest.approx(fitted.regression_weight / (2 * degree))
        np.testing.assert_allclose(fitted.metric_matrix_, fitted.metric_factor_.T @ fitted.metric_factor_)


def test_model_2_certifies(iris):
    X, y = iris
    fitted = LearnedKernelMetric(tol=1e-10).fit(X, y)
    assert fitted.dual_gap_ == fitted.history_[-1].gap <= 1e-10
    K = oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, fitted.bandwidth_), X, X)
    rest = (fitted.prototypes_[y], oracles.similarity_of_classes(y), fitted.collocation_weight_, 3.0, fitted.output_penalty_)
    value = oracles.model2(fitted.coefficients_, fitted.output_matrix_, K, *rest)
    assert value - oracles.dual_value(fitted.coefficients_, K, *rest) < 2e-10 * value
    assert fitted.objective_ == pytest.approx(value)
    np.testing.assert_array_equal(fitted.get_mahalanobis_matrix(), np.eye(2))


MATRIX_KERNELS = {
    "bandwidths": {"bandwidth": [0.5, 1.5]},
    "medians": {"bandwidth": ["median", 1.0]},
    "separable": {"kernel": kernels.Separable("rbf", [[2.0, 1.0], [1.0, 2.0]])},
    "sum": {"kernel": kernels.Separable("linear", [[1.0, 1.0], [1.0, 1.0]]) + kernels.Diagonal(["rbf", "laplacian"])},
    "callable": {"kernel": kernels.Callable(lambda x, z: oracles.gaussian(x, z, 1.0) * np.array([[2.0, 1.0], [1.0, 2.0]]), 2)},
}


@pytest.mark.parametrize("kind", MATRIX_KERNELS)
@pytest.mark.parametrize("solver", ["dense", "cg"])
def test_model_1_takes_any_matrix_kernel(iris, kind, solver):
    X, y = iris
    fitted = FixedKernelMetric(solver=solver, tol=1e-9, **MATRIX_KERNELS[kind]).fit(X, y)
    assert fitted.status_ is Status.CONVERGED
    values = [record.objective for record in fitted.history_]
    assert np.all(np.diff(values) <= 1e-7 * np.abs(values[0]))
    gram = fitted.get_metric().kernel.gram(X, 2)
    np.testing.assert_allclose(gram.apply(fitted.coefficients_), fitted.map(X), atol=1e-8)
    blocks = gram.to_dense().reshape(len(X), 2, len(X), 2).transpose(0, 2, 1, 3)
    rest = (fitted.prototypes_[y], oracles.similarity_of_classes(y), fitted.collocation_weight_, 3.0)
    value = oracles.model1(fitted.coefficients_, fitted.metric_factor_, blocks, *rest, fitted.metric_penalty_, fitted.metric_ridge_)
    assert fitted.objective_ == pytest.approx(value)
    expected = oracles.coefficient_step(blocks, fitted.metric_factor_, *rest)
    np.testing.assert_allclose(fitted.coefficients_, expected, atol=1e-6 * np.abs(expected).max())


def test_one_bandwidth_for_all_is_the_shared_kernel(iris):
    X, y = iris
    shared = FixedKernelMetric(bandwidth=0.8, tol=1e-10).fit(X, y)
    diagonal = FixedKernelMetric(bandwidth=[0.8, 0.8], tol=1e-10).fit(X, y)
    np.testing.assert_allclose(diagonal.transform(X), shared.transform(X), atol=1e-7)


def test_row_numbers_into_precomputed_blocks(iris):
    X, y = iris
    kernel = kernels.Diagonal([kernels.Scalar("rbf", 0.5), kernels.Scalar("rbf", 1.5)])
    blocks = kernel.gram(X, 2).to_dense().reshape(len(X), 2, len(X), 2).transpose(0, 2, 1, 3)
    rows = np.arange(len(X))[:, None]
    train, test = rows[::2], rows[1::2]
    stored = FixedKernelMetric(kernel=kernels.Precomputed(blocks)).fit(train, y[::2])
    direct = FixedKernelMetric(kernel=kernel).fit(X[::2], y[::2])
    np.testing.assert_allclose(stored.transform(test), direct.transform(X[1::2]), atol=1e-8)


def test_learned_neighbours_beat_euclidean_ones_on_noisy_features():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = np.column_stack([np.eye(3)[y] * 2 + rng.normal(size=(400, 3)), 3 * rng.normal(size=(400, 5))])
    plain = KNeighborsClassifier().fit(X[:200], y[:200]).score(X[200:], y[200:])
    for model in MODELS:
        fitted = model().fit(X[:200], y[:200])
        votes = KNeighborsClassifier().fit(fitted.transform(X[:200]), y[:200])
        assert votes.score(fitted.transform(X[200:]), y[200:]) > plain


@pytest.mark.parametrize("model", MODELS)
def test_an_estimator_survives_pickling_into_another_process(model, iris, tmp_path):
    X, y = iris
    fitted = model().fit(X, y)
    np.savez(tmp_path / "data.npz", X=X, expected=fitted.transform(X))
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(fitted))
    code = (
        "import pickle, sys, numpy as np; d = np.load(sys.argv[2]); "
        "m = pickle.load(open(sys.argv[1], 'rb')); assert np.array_equal(m.transform(d['X']), d['expected'])"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "model.pkl", tmp_path / "data.npz"], check=True)


@pytest.mark.parametrize("model", [FixedKernelMetric, LearnedKernelMetric])
@pytest.mark.parametrize("settings", [{}, {"similarity": lambda y: (y[:, None] == y) * 1.0}, {"kernel": "laplacian"}])
def test_conjugate_gradients_reach_the_optimum_of_the_spectral_solver(model, settings, monkeypatch):
    """With more than 1000 samples some columns of the kernel matrix precondition them; also if the kernel is never held."""
    X, y = make_waveform(1100, random_state=0)
    plain = model(bandwidth=5.0, solver="spectral", tol=1e-6, **settings).fit(X, y)
    held = model(bandwidth=5.0, solver="cg", tol=1e-6, **settings).fit(X, y)
    assert held.status_ is Status.CONVERGED
    assert held.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_allclose(held.transform(X), plain.transform(X), atol=2e-3)
    assert sum(record.solver_iterations for record in held.history_) < 100
    monkeypatch.setattr("outmetric.solvers.choice.fits_in_memory", lambda n_bytes: n_bytes <= 1e6)
    lazy = model(bandwidth=5.0, solver="cg", tol=1e-6, **settings).fit(X, y)
    np.testing.assert_allclose(lazy.transform(X), held.transform(X), atol=1e-6)


def test_many_samples_are_solved_by_conjugate_gradients(monkeypatch):
    X, y = make_waveform(1100, random_state=0)
    monkeypatch.setattr("outmetric.solvers.choice.SPECTRAL_SAMPLES", 1000)
    fitted = LearnedKernelMetric(tol=1e-6).fit(X, y)
    assert fitted.solver_ == "cg"
    assert fitted.solver_reason_.startswith("1100 samples")
