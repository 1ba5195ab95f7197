"""Is the input metric the learned metric pulled back, round by round, whatever the kernel and the solver?"""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris, make_friedman1
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV, Status
from outmetric.kernels import KERNELS, Diagonal, Scalar, Spectrum, Transformed

RNG = np.random.default_rng(0)
X, Z, C = RNG.normal(size=(6, 4)), RNG.normal(size=(8, 4)), RNG.normal(size=(8, 2))
MODELS = [FixedKernelMetric, LearnedKernelMetric]
KERNEL_CASES = {
    "rbf": Scalar("rbf", 1.3),
    "rbf by gamma": Scalar("rbf", params={"gamma": 0.4}),
    "exponential": Scalar("exponential", 1.3),
    "laplacian": Scalar("laplacian", 1.3),
    "additive": Scalar("additive", 0.7),
    "power of the Euclidean norm": Scalar("power_exponential", 1.3, {"p": 2.0, "power": 1.7}),
    "power of another norm": Scalar("power_exponential", 1.3, {"p": 1.5, "power": 1.2}),
    "linear": Scalar("linear"),
    "poly": Scalar("poly", params={"degree": 2, "gamma": 0.3, "coef0": 0.5}),
    "sigmoid": Scalar("sigmoid"),
}


def iris():
    data, labels = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(data), labels


class TestGradients:
    @pytest.mark.parametrize("case", KERNEL_CASES)
    @pytest.mark.parametrize(
        "transform", [None, RNG.normal(size=4), RNG.normal(size=(4, 4)) / 2], ids=["plain", "diagonal", "full"]
    )
    def test_they_equal_finite_differences(self, case, transform):
        kernel = KERNEL_CASES[case] if transform is None else Transformed(KERNEL_CASES[case], transform)
        step = 1e-5
        slopes = [(kernel.values(X + step * e, Z) - kernel.values(X - step * e, Z)) @ C / (2 * step) for e in np.eye(4)]
        np.testing.assert_allclose(kernel.gradients(X, Z, C), np.stack(slopes, axis=2), atol=1e-6)

    @pytest.mark.parametrize("case", [case for case, kernel in KERNEL_CASES.items() if kernel.takes == "sparse"])
    def test_sparse_rows(self, case):
        kernel = Transformed(KERNEL_CASES[case], np.arange(4.0))
        sparse = kernel.gradients(scipy.sparse.csr_array(X), scipy.sparse.csr_array(Z), C)
        np.testing.assert_allclose(sparse, kernel.gradients(X, Z, C), atol=1e-10)

    @pytest.mark.parametrize("case", ["exponential", "power of the Euclidean norm", "power of another norm", "laplacian"])
    def test_points_that_coincide_have_no_direction(self, case):
        found = KERNEL_CASES[case].gradients(X[:1], X[:1], np.ones((1, 1)))
        np.testing.assert_array_equal(found, 0)

    def test_kernels_say_which_metrics_they_can_learn(self):
        both, weights = ("diagonal", "full"), ("diagonal",)
        expected = {"rbf": both, "exponential": both, "laplacian": weights, "additive": weights, "linear": both, "cosine": ()}
        assert {name: Scalar(name).input_metrics for name in expected} == expected
        assert Scalar("power_exponential", params={"p": 1.5}).input_metrics == weights

    @pytest.mark.parametrize("params", [{"p": 1.0, "power": 1.5}, {"p": 3.0}, {"p": 0.5}, {"power": 0.0}, {"power": np.nan}])
    def test_what_is_no_kernel(self, params):
        with pytest.raises(ValueError, match="power"):
            LearnedKernelMetric(kernel="power_exponential", kernel_params=params).fit(*iris())

    def test_the_new_kernels_by_their_formulas(self):
        distances = np.linalg.norm(X[:, None] - Z[None], axis=2)
        np.testing.assert_allclose(KERNEL_CASES["exponential"].values(X, Z), np.exp(-distances / 1.3))
        general = np.sum(np.abs(X[:, None] - Z[None]) ** 1.5, axis=2) ** (1 / 1.5)
        np.testing.assert_allclose(KERNEL_CASES["power of another norm"].values(X, Z), np.exp(-((general / 1.3) ** 1.2)))
        assert "exponential" in KERNELS


def naive_pull_back(model, data, kind):
    """A triple loop over rows, outputs and pairs of features, of numerical derivatives."""
    step, total = 1e-5, np.zeros((data.shape[1],) * 2)
    for x in data:
        slopes = [(model.transform([x + step * e]) - model.transform([x - step * e]))[0] / (2 * step) for e in np.eye(len(x))]
        for output in range(len(slopes[0])):
            for f in range(len(x)):
                for g in range(len(x)):
                    total[f, g] += slopes[f][output] * slopes[g][output] / len(data)
    return np.diag(total) if kind == "diagonal" else total


def root(G):
    values, basis = np.linalg.eigh(G)
    T = (basis * np.sqrt(values.clip(min=0))) @ basis.T
    return T / np.abs(T).max()


class TestRounds:
    @pytest.mark.parametrize("kind", ["diagonal", "full"])
    @pytest.mark.parametrize("model", MODELS)
    def test_the_metric_is_the_pull_back_of_the_fit_before(self, model, kind):
        data, labels = iris()
        first = model(bandwidth=2.0).fit(data, labels)
        G = naive_pull_back(first, data, kind)
        expected = G / G.max() if kind == "diagonal" else root(G) @ root(G).T
        second = model(bandwidth=2.0, input_metric=kind, n_rounds=1).fit(data, labels)
        np.testing.assert_allclose(second.input_metric_, expected, atol=1e-5)
        # The same fit by hand: transformed inputs, and the same multiple of the median distance.
        T = np.diag(np.sqrt(second.input_metric_)) if kind == "diagonal" else root(G)
        medians = [float(Scalar("rbf").resolve(inputs, RNG).bandwidth) for inputs in (data, data @ T)]
        by_hand = model(bandwidth=2.0 / medians[0] * medians[1]).fit(data @ T, labels)
        np.testing.assert_allclose(second.transform(data), by_hand.transform(data @ T), atol=1e-4)
        assert second.status_ is Status.CONVERGED
        assert len(second.rounds_) == 2
        assert second.rounds_[0].objective == pytest.approx(first.objective_)
        assert second.rounds_[-1].objective == pytest.approx(second.objective_)

    def test_one_output_is_a_recursive_feature_machine(self):
        """Radhakrishnan et al. 2024: kernel ridge regression with exp(-|x - z|_M / L), M the mean outer product of gradients."""
        data, y = make_friedman1(60, n_features=5, random_state=0)
        ridge, width, M = 0.1, None, np.eye(5)
        centred = y - y.mean()
        for _ in range(3):
            T = root(M)
            distances = np.linalg.norm((data @ T)[:, None] - (data @ T)[None], axis=2)
            width = np.median(distances[np.triu_indices(60, 1)])
            K = np.exp(-distances / width)
            alpha = np.linalg.solve(K + ridge * np.eye(60), centred)
            previous = K @ alpha
            G = np.zeros((5, 5))
            for i in range(60):
                gradient = np.zeros(5)
                for j in range(60):
                    if i != j:
                        difference = T @ T @ (data[i] - data[j])
                        gradient -= alpha[j] * K[i, j] / (width * distances[i, j]) * difference
                G += np.outer(gradient, gradient) / 60
            M = G
        # With L fixed (metric_ridge -> infinity is the Euclidean metric) model 1 is kernel ridge regression, lambda = 1 / ridge.
        ours = FixedKernelMetric(
            kernel="exponential",
            regression_weight=1 / ridge,
            collocation_weight=0.0,
            metric_ridge=1e12,
            input_metric="full",
            n_rounds=2,
        ).fit(data, y[:, None])
        np.testing.assert_allclose(ours.map(data)[:, 0] - y.mean(), previous, atol=1e-8)

    @pytest.mark.parametrize("settings", [{"n_landmarks": 150}, {"n_landmarks": 150, "landmarks": "uniform"}])
    @pytest.mark.parametrize("kind", ["diagonal", "full"])
    def test_all_points_as_landmarks_give_the_exact_rounds(self, settings, kind):
        data, labels = iris()
        exact = LearnedKernelMetric(input_metric=kind, random_state=0).fit(data, labels)
        ours = LearnedKernelMetric(input_metric=kind, random_state=0, **settings).fit(data, labels)
        np.testing.assert_allclose(ours.input_metric_, exact.input_metric_, atol=1e-5)
        np.testing.assert_allclose(ours.transform(data), exact.transform(data), atol=1e-4)

    @pytest.mark.parametrize("kernel", ["rbf", "laplacian", "exponential", "linear"])
    def test_sparse_and_single_precision_data(self, kernel):
        data, labels = iris()
        dense = LearnedKernelMetric(kernel=kernel, input_metric="diagonal").fit(data, labels)
        sparse = LearnedKernelMetric(kernel=kernel, input_metric="diagonal").fit(scipy.sparse.csr_array(data), labels)
        np.testing.assert_allclose(sparse.input_metric_, dense.input_metric_, atol=1e-6)
        single = LearnedKernelMetric(kernel=kernel, input_metric="diagonal").fit(data.astype(np.float32), labels)
        np.testing.assert_allclose(single.input_metric_, dense.input_metric_, atol=1e-3)

    def test_a_kernel_for_each_output(self):
        data, labels = iris()
        kernel = Diagonal([Scalar("rbf", 1.0), Scalar("exponential", "2*median")])
        model = FixedKernelMetric(kernel=kernel, input_metric="full", n_rounds=1).fit(data, labels)
        G = naive_pull_back(FixedKernelMetric(kernel=kernel).fit(data, labels), data, "full")
        np.testing.assert_allclose(model.input_metric_, root(G) @ root(G).T, atol=1e-5)

    def test_no_rounds_are_no_input_metric(self):
        data, labels = iris()
        plain = LearnedKernelMetric().fit(data, labels)
        none = LearnedKernelMetric(input_metric="full", n_rounds=0).fit(data, labels)
        np.testing.assert_array_equal(none.transform(data), plain.transform(data))
        assert not hasattr(none, "input_metric_")
        none.set_params(n_rounds=1).fit(data, labels)
        assert hasattr(none, "input_metric_")
        assert not hasattr(none.set_params(input_metric=None).fit(data, labels), "rounds_")

    def test_the_features_that_matter_are_found(self):
        data, y = make_friedman1(700, n_features=10, noise=1.0, random_state=0)
        scores, model = {}, None
        for rounds in (0, 2):
            model = LearnedKernelMetric(regression_weight=30.0, collocation_weight=0.0, input_metric="full", n_rounds=rounds)
            model.fit(data[:500], y[:500, None])
            scores[rounds] = r2_score(y[500:], model.map(data[500:]))
        assert set(np.argsort(model.feature_importances_)[-5:]) == set(range(5))
        assert model.feature_importances_.sum() == pytest.approx(1)
        assert scores[2] > scores[0] + 0.02
        assert "looks at" in model.summary()

    def test_importances_do_not_depend_on_units(self):
        data, labels = iris()
        units = np.array([1.0, 1000.0, 0.001, 7.0])
        one = LearnedKernelMetric(bandwidth=2.0, input_metric="diagonal", n_rounds=1).fit(data, labels)
        weights = one.input_metric_ * data.var(axis=0)
        np.testing.assert_allclose(one.feature_importances_, weights / weights.sum())
        assert Pipeline([("scale", StandardScaler()), ("metric", one)]).fit(data * units, labels)[1].input_metric_.max() == 1

    def test_a_constant_feature_does_no_harm(self):
        data, labels = iris()
        wider = np.column_stack([data, np.full(len(data), 3.0)])
        for kind in ("diagonal", "full"):
            with_it, without = (LearnedKernelMetric(input_metric=kind).fit(inputs, labels) for inputs in (wider, data))
            np.testing.assert_allclose(with_it.transform(wider), without.transform(data), atol=1e-4)
            assert with_it.feature_importances_[-1] == 0

    def test_a_metric_that_degenerates_is_told(self):
        data = np.random.default_rng(0).normal(size=(30, 3))
        data[:, 1:] = 0.0
        with pytest.warns(UserWarning, match="round 1 has all its weight on one direction"):
            model = LearnedKernelMetric(input_metric="full", n_rounds=3).fit(data, (data[:, 0] > 0).astype(int))
        assert len(model.rounds_) == 1
        np.testing.assert_allclose(model.transform(data), LearnedKernelMetric().fit(data, (data[:, 0] > 0) * 1).transform(data))


ERRORS = {
    "a word": ({"input_metric": "half"}, "input_metric='half' is not known"),
    "too many rounds": ({"input_metric": "full", "n_rounds": 6}, "at most 5"),
    "a broken round": ({"input_metric": "full", "n_rounds": 1.5}, "n_rounds must be an integer"),
    "no gradients": ({"input_metric": "full", "kernel": "cosine"}, "has no gradients"),
    "a function": ({"input_metric": "diagonal", "kernel": lambda x, z: float(x @ z)}, "has no gradients"),
    "precomputed": ({"input_metric": "diagonal", "kernel": "precomputed"}, "has no gradients"),
    "features apart": ({"input_metric": "full", "kernel": "laplacian"}, "only weights of the features"),
    "strings": ({"input_metric": "diagonal", "kernel": Spectrum(2)}, "has no gradients"),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", ERRORS)
def test_settings_that_cannot_be(model, case):
    settings, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        model(**settings).fit(*iris())


@pytest.mark.parametrize("model", MODELS)
def test_rows_in_blocks_are_refused(model):
    data, labels = iris()
    with pytest.raises(ValueError, match="several passes"):
        model(input_metric="full").fit(iter([(data, labels)]))
    with pytest.raises(AttributeError):
        model(input_metric="full").partial_fit(data, labels)


class TestSearch:
    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("kind", ["diagonal", "full"])
    def test_scores_are_those_of_fits(self, model, kind):
        data, labels = iris()
        data, labels = data[::2], labels[::2]
        grid = {"n_rounds": [0, 1, 3], "regression_weight": [0.3, 10.0]}
        folds = KFold(3, shuffle=True, random_state=0)
        ours = MetricSearchCV(model(input_metric=kind), grid, n_neighbors=[5], scoring="accuracy", cv=folds).fit(data, labels)
        steps = [("metric", model(input_metric=kind)), ("vote", KNeighborsClassifier(5))]
        theirs = GridSearchCV(Pipeline(steps), {f"metric__{name}": values for name, values in grid.items()}, cv=folds)
        theirs.fit(data, labels)
        expected = {
            tuple(params[f"metric__{name}"] for name in grid): score
            for params, score in zip(theirs.cv_results_["params"], theirs.cv_results_["mean_test_score"], strict=True)
        }
        found = {
            tuple(params[name] for name in grid): score
            for params, score in zip(ours.cv_results_["params"], ours.cv_results_["mean_test_score"], strict=True)
        }
        assert found == pytest.approx(expected, abs=1e-9)

    def test_rounds_are_prefixes_of_one_another(self):
        data, labels = iris()
        search = MetricSearchCV(LearnedKernelMetric(input_metric="full"), {"n_rounds": [0, 1, 2, 3]}, n_neighbors=[5], cv=3)
        assert search.fit(data, labels).n_decompositions_ == 3 * 4

    def test_permuted_labels_stay_at_chance(self):
        data, labels = iris()
        permuted = np.random.default_rng(0).permutation(labels)
        voters = make_pipeline(LearnedKernelMetric(input_metric="full", n_rounds=3), KNeighborsClassifier(15))
        assert cross_val_score(voters, data, permuted, cv=5).mean() < 0.45


def test_saved_models_keep_it(tmp_path):
    data, labels = iris()
    model = LearnedKernelMetric(kernel="exponential", input_metric="full").fit(data, labels)
    outmetric.save(model, tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(data), model.transform(data))
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
    assert again.rounds_[1].objective == model.rounds_[1].objective


@pytest.mark.parametrize("kernel", ["rbf", "exponential", "laplacian", "power_exponential", "additive"])
def test_onnx_knows_it(kernel):
    onnxruntime = pytest.importorskip("onnxruntime")
    from outmetric.export import to_onnx

    data, labels = iris()
    model = LearnedKernelMetric(kernel=kernel, input_metric="diagonal").fit(data, labels)
    session = onnxruntime.InferenceSession(to_onnx(model, data[:1]).SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: data})
    np.testing.assert_allclose(found, model.transform(data), atol=1e-6)  # coefficients of smooth kernels are large
