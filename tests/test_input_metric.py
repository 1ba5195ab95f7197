"""Is the input metric the learned metric pulled back, round by round, whatever the kernel and the solver?"""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_friedman1
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, scale

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV, Status
from outmetric.kernels import KERNELS, Columns, Diagonal, Forest, Scalar, ScalarProduct, Separable, Spectrum, Transformed
from outmetric.kernels import Callable as MatrixFunction
from outmetric.kernels.gradients import by_sign, sums_of_gaussians

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
    "scaled": 0.3 * Scalar("rbf", 1.3),
    "sum": Scalar("rbf", 1.3) + 0.5 * Scalar("exponential", 2.0) + Scalar("linear"),
    "product": Scalar("rbf", 1.3) * Scalar("linear"),
    "product of three": Scalar("additive", 0.7) * Scalar("laplacian", 2.0) * Scalar("poly"),
    "product of powers": Scalar("power_exponential", 1.3, {"p": 1.5, "power": 1.2}) * Scalar("exponential", 2.0),
    "product of one": ScalarProduct([Scalar("linear")]),
    "product of sums": (Scalar("rbf", 1.3) + 0.5 * Scalar("linear")) * (Scalar("sigmoid") + 2 * Scalar("exponential", 1.0)) * 0.7,
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

    @pytest.mark.parametrize("width", [0.1, 1.0, 30.0])
    def test_sums_of_gaussians_over_many_points(self, width):
        """Crowded places, which are interpolated, sparse ones, and some far from all others."""
        x, z = np.r_[RNG.normal(size=500), 100 * RNG.normal(size=20), 1e6], 1e5 + np.r_[RNG.normal(size=80), 300.0]
        x = x + 1e5
        weights = RNG.normal(size=(81, 2))
        values = [[np.exp(-((a - b) ** 2) / (2 * width**2)) for b in z] for a in x]
        slopes = [[-(a - b) / width**2 * np.exp(-((a - b) ** 2) / (2 * width**2)) for b in z] for a in x]
        np.testing.assert_allclose(sums_of_gaussians(x, z, weights, width), values @ weights, atol=1e-12)
        np.testing.assert_allclose(sums_of_gaussians(x, z, weights, width, slopes=True), slopes @ weights, atol=1e-12 / width)

    def test_an_additive_map_of_many_rows(self):
        rows, kernel = RNG.normal(size=(300, 4)), KERNEL_CASES["additive"]
        np.testing.assert_allclose(kernel.expansion(Z, C)(rows), kernel.cross(rows, Z) @ C, rtol=0, atol=1e-13)
        np.testing.assert_allclose(kernel.expansion(Z, C[:, 0])(rows), kernel.cross(rows, Z) @ C[:, 0], rtol=0, atol=1e-13)

    @pytest.mark.parametrize("count", [5, 20_000])
    def test_signs_of_ties(self, count):
        """Few points and many, whose ranks need more bits; whole numbers, infinitely close ones, and rows beyond all points."""
        few, many = RNG.integers(-2, 3, (6, 2)).astype(float), RNG.integers(-2, 2, (count, 2)).astype(float)
        many[0], few[0] = np.nextafter(few[1], 9), 7.0
        values, weights = RNG.normal(size=(6, count)), RNG.normal(size=(count, 2))
        expected = np.einsum("ij,jk,ijf->ikf", values, weights, np.sign(few[:, None] - many))
        np.testing.assert_allclose(by_sign(few, many, values, weights), expected, atol=1e-9)

    @pytest.mark.parametrize("case", ["exponential", "power of the Euclidean norm", "power of another norm", "laplacian"])
    def test_points_that_coincide_have_no_direction(self, case):
        found = KERNEL_CASES[case].gradients(X[:1], X[:1], np.ones((1, 1)))
        np.testing.assert_array_equal(found, 0)

    def test_kernels_say_which_metrics_they_can_learn(self):
        both, weights = ("diagonal", "full"), ("diagonal",)
        expected = {"rbf": both, "exponential": both, "laplacian": weights, "additive": weights, "linear": both, "cosine": ()}
        assert {name: Scalar(name).input_metrics for name in expected} == expected
        assert Scalar("power_exponential", params={"p": 1.5}).input_metrics == weights
        assert (Scalar("rbf") + Scalar("linear")).input_metrics == both
        assert (Scalar("rbf") * Scalar("linear") + Scalar("laplacian")).input_metrics == weights
        assert (Scalar("rbf") + Forest()).input_metrics == ()

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


def median_distance(data):
    """Over pairs of distinct points."""
    data = data[np.sort(np.unique(data.round(9), axis=0, return_index=True)[1])]
    distances = np.linalg.norm(data[:, None] - data[None], axis=2)[np.triu_indices(len(data), 1)]
    return np.median(distances[distances > 1e-9])


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

    @pytest.mark.parametrize(
        "kernel",
        [Scalar("rbf", 2.0) + 0.5 * Scalar("exponential", "0.7*median"), Scalar("rbf", 2.0) * Scalar("exponential", "0.7*median")],
        ids=["sum", "product"],
    )
    @pytest.mark.parametrize("model", MODELS)
    def test_sums_and_products(self, model, kernel):
        """The metric is the pull-back of the fit before, and each part has its bandwidth set anew."""
        data, labels = iris()
        T = root(naive_pull_back(model(kernel=kernel).fit(data, labels), data, "full"))
        found = model(kernel=kernel, input_metric="full", n_rounds=1).fit(data, labels)
        np.testing.assert_allclose(found.input_metric_, T @ T.T, atol=1e-5)
        medians = [median_distance(inputs) for inputs in (data, data @ T)]
        resolved = found.metric_.kernel.scalars[0].kernel.kernels
        np.testing.assert_allclose(
            [part.bandwidth for part in resolved], [2.0 / medians[0] * medians[1], 0.7 * medians[1]], rtol=1e-4
        )

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
    "a forest in a sum": ({"input_metric": "full", "kernel": Scalar("rbf") + Forest()}, "if all its parts have"),
    "features apart in a product": ({"input_metric": "full", "kernel": Scalar("rbf") * Scalar("laplacian")}, "only weights"),
    "columns": ({"input_metric": "diagonal", "kernel": Columns({(0, 1): "rbf"})}, "numbers alone, as an array"),
    "strings": ({"input_metric": "diagonal", "kernel": Spectrum(2)}, "has no gradients"),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", ERRORS)
def test_settings_that_cannot_be(model, case):
    settings, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        model(**settings).fit(*iris())


def test_a_kernel_that_is_made_of_scalar_kernels_only_in_part():
    """Its gradients would be those of a part of it."""
    partly = Separable(Scalar("rbf", 1.0)) + MatrixFunction(lambda x, z: float(x @ z) * np.eye(2), 2)
    with pytest.raises(ValueError, match="which this matrix kernel is not made of"):
        FixedKernelMetric(kernel=partly, input_metric="diagonal").fit(*iris())
    with pytest.raises(ValueError, match="type Callable is not made of scalar kernels"):
        partly.with_scalars(lambda scalar: scalar)


class Blocks:
    """A function that returns an iterator of blocks, and counts its calls."""

    def __init__(self, data, targets, size=40):
        self.data, self.targets, self.size, self.calls = data, targets, size, 0

    def __call__(self):
        self.calls += 1
        for start in range(0, len(self.data), self.size):
            yield self.data[start : start + self.size], self.targets[start : start + self.size]


@pytest.mark.parametrize("kind", ["diagonal", "full"])
@pytest.mark.parametrize("model", MODELS)
class TestRowsInBlocks:
    def near(self, found, expected, data):
        assert found.solver_reason_ != expected.solver_reason_
        for name in ("input_metric_", "feature_importances_"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-8)
        assert [one.objective for one in found.rounds_] == pytest.approx([one.objective for one in expected.rounds_], rel=1e-8)
        coordinates = expected.transform(data)
        np.testing.assert_allclose(found.transform(data), coordinates, atol=1e-8 * np.abs(coordinates).max())

    @pytest.mark.parametrize("kernel", ["exponential", Scalar("exponential") + 0.1 * Scalar("linear")], ids=["plain", "sum"])
    def test_a_stream_is_a_fit_on_arrays(self, model, kind, kernel):
        data, labels = iris()
        settings = {"kernel": kernel, "input_metric": kind, "n_rounds": 2, "landmarks": data[::5]}
        stream = Blocks(data, labels)
        self.near(model(**settings).fit(stream), model(**settings).fit(data, labels), data)
        assert stream.calls == 2 + 2 * 2  # its kind, the first pass, and two for each round

    def test_real_targets_in_a_stream(self, model, kind):
        data, y = make_friedman1(200, n_features=5, random_state=0)
        settings = {"input_metric": kind, "n_rounds": 2, "landmarks": data[::5], "collocation_weight": 0.0, "kernel": "exponential"}
        self.near(model(**settings).fit(Blocks(data, y[:, None])), model(**settings).fit(data, y[:, None]), data)

    def test_landmarks_are_drawn_from_all_rows(self, model, kind):
        data, labels = iris()
        found = model(kernel="exponential", input_metric=kind, n_landmarks=150, random_state=0).fit(Blocks(data, labels))
        exact = model(kernel="exponential", input_metric=kind).fit(data, labels)
        np.testing.assert_allclose(found.input_metric_, exact.input_metric_, atol=1e-5)

    @pytest.mark.parametrize("as_frame", [False, True])
    def test_dask_is_a_fit_on_arrays(self, model, kind, as_frame):
        arrays, frames = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
        pandas = pytest.importorskip("pandas")
        data, labels = iris()
        estimator = model(kernel="exponential", input_metric=kind, n_rounds=2, n_landmarks=30, random_state=0)
        expected = clone(estimator).fit(data, labels)
        frame = pandas.DataFrame(data, columns=list("abcd"))
        lazy = frames.from_pandas(frame, npartitions=4) if as_frame else arrays.from_array(data, chunks=(40, 2))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            self.near(estimator.fit(lazy, labels), expected, data)

    def test_what_cannot_be(self, model, kind):
        data, labels = iris()
        estimator = model(input_metric=kind, landmarks=data[::5])
        with pytest.raises(ValueError, match=r"several passes.*a function that returns an iterator"):
            estimator.fit(iter([(data, labels)]))
        with pytest.raises(AttributeError) as refused:
            estimator.partial_fit(data, labels)
        assert "partial_fit does not see rows again" in str(refused.value.__cause__)
        reads = iter([1, 1, 0.5])

        def shrinking():
            rows = int(len(data) * next(reads))
            return iter([(data[::-1][:rows], labels[::-1][:rows])])

        with pytest.raises(ValueError, match="there were 150 first, and 75 then"):
            estimator.fit(shrinking)

    def test_a_constant_feature_and_a_metric_that_degenerates(self, model, kind):
        data, labels = iris()
        wider = np.column_stack([data, np.full(len(data), 3.0)])
        settings = {"kernel": "exponential", "input_metric": kind, "n_rounds": 2}
        found = model(landmarks=wider[::5], **settings).fit(Blocks(wider, labels))
        expected = model(landmarks=data[::5], **settings).fit(data, labels)
        np.testing.assert_allclose(found.transform(wider), expected.transform(data), atol=1e-6)
        assert found.feature_importances_[-1] == 0
        flat = wider * [1, 0, 0, 0, 0]
        with pytest.warns(UserWarning, match="round 1 has all its weight on one direction"):
            kept = model(landmarks=flat[::5], **settings).fit(Blocks(flat, labels))
        assert len(kept.rounds_) == 1
        assert not hasattr(kept, "input_metric_")


def searched(estimator, grid, folds, data, labels):
    """The scores of our search and of scikit-learn's, by settings, and our search."""
    ours = MetricSearchCV(estimator, grid, n_neighbors=[5], scoring="accuracy", cv=folds).fit(data, labels)
    steps = [("metric", clone(estimator)), ("vote", KNeighborsClassifier(5))]
    theirs = GridSearchCV(Pipeline(steps), {f"metric__{name}": values for name, values in grid.items()}, cv=folds)
    theirs.fit(data, labels)
    scores = []
    for search, prefix in ((ours, ""), (theirs, "metric__")):
        pairs = zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
        scores.append({tuple(params[prefix + name] for name in grid): score for params, score in pairs})
    return *scores, ours


class TestSearch:
    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("kind", ["diagonal", "full"])
    @pytest.mark.parametrize("kernel", ["rbf", Scalar("rbf") + Scalar("exponential")], ids=["plain", "sum"])
    def test_scores_are_those_of_fits(self, model, kind, kernel):
        data, labels = iris()
        data, labels = data[::2], labels[::2]
        grid = {"n_rounds": [0, 1, 3], "regression_weight": [0.3, 10.0]}
        folds = KFold(3, shuffle=True, random_state=0)
        found, expected, _ = searched(model(kernel=kernel, input_metric=kind), grid, folds, data, labels)
        assert found == pytest.approx(expected, abs=1e-9)

    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize(
        ("kind", "kernel"),
        [("diagonal", "exponential"), ("full", "rbf"), ("full", Scalar("rbf", 8.0) * Scalar("exponential", 20.0))],
    )
    def test_landmarks_on_shared_passes(self, model, kind, kernel):
        data, labels = load_wine(return_X_y=True)
        rng = np.random.default_rng(0)
        data = scale(data) + 2 * rng.normal(size=data.shape)  # so that scores differ
        estimator = model(kernel=kernel, input_metric=kind, landmarks=data[::7])
        grid = {"n_rounds": [0, 1, 2], "regression_weight": [0.3, 10.0], "collocation_weight": ["auto", 0.0]}
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        found, expected, search = searched(estimator, grid, folds, data, labels)
        assert found == pytest.approx(expected, abs=1e-9)
        assert len(set(found.values())) > 4
        # One for each fold and ratio of weights, and two more for each of the four settings.
        assert search.n_decompositions_ == 3 * (2 + 2 * 4)
        best = {name: value for name, value in search.best_params_.items() if name != "n_neighbors"}
        alone = clone(estimator).set_params(**best).fit(data, labels)
        np.testing.assert_allclose(search.transform(data), alone.transform(data), atol=1e-9)

    def test_landmarks_behind_other_steps(self):
        data, labels = load_wine(return_X_y=True)
        landmarks = scale(data)[::7]
        estimator = make_pipeline(StandardScaler(), LearnedKernelMetric(input_metric="full", landmarks=landmarks))
        grid = {"learnedkernelmetric__n_rounds": [0, 2], "learnedkernelmetric__regression_weight": [1e-3, 1.0]}
        found, expected, _ = searched(estimator, grid, StratifiedKFold(3, shuffle=True, random_state=1), data, labels)
        assert found == pytest.approx(expected, abs=1e-9)

    def test_a_metric_that_degenerates_keeps_the_round_before(self):
        data = np.random.default_rng(0).normal(size=(60, 3)) * [1, 0, 0]
        labels = (data[:, 0] > 0).astype(int)
        estimator = LearnedKernelMetric(input_metric="full", landmarks=data[::3])
        search = MetricSearchCV(estimator, {"n_rounds": [0, 1, 3]}, n_neighbors=[5], cv=3, refit=False).fit(data, labels)
        scores = search.cv_results_["mean_test_score"]
        assert np.isfinite(scores).all()
        assert len(set(scores)) == 1

    def test_a_class_that_a_fold_lacks(self):
        data, labels = iris()
        rows = np.arange(len(labels))
        folds = [(rows[labels > 0][::2], rows[labels > 0][1::2]), (rows[::2], rows[1::2])]
        estimator = LearnedKernelMetric(kernel="exponential", input_metric="full", landmarks=data[::5])
        found, expected, _ = searched(estimator, {"n_rounds": [0, 2]}, folds, data, labels)
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

    @pytest.mark.parametrize("landmarks", [{}, {"n_landmarks": 60}])
    def test_permuted_labels_stay_at_chance_in_a_search(self, landmarks):
        data, labels = iris()
        scores = []
        for seed in range(5):
            permuted = np.random.default_rng(seed).permutation(labels)
            metric = LearnedKernelMetric(kernel="exponential", input_metric="full", random_state=0, **landmarks)
            search = MetricSearchCV(metric, {"n_rounds": [0, 3]}, n_neighbors=[9], scoring="accuracy", refit=False)
            scores.append(search.fit(data, permuted).cv_results_["mean_test_score"])
        assert np.abs(np.mean(scores, axis=0) - 1 / 3).max() < 0.07

    def test_permuted_targets_are_learned_by_nothing(self):
        data, y = make_friedman1(300, n_features=5, random_state=0)
        permuted = np.random.default_rng(0).permutation(y)
        for train, test in KFold(3).split(data):
            model = LearnedKernelMetric(collocation_weight=0.0, input_metric="full", n_rounds=3).fit(
                data[train], permuted[train, None]
            )
            assert r2_score(permuted[test], model.map(data[test])) < 0.05


PUMA = Path(os.environ.get("OUTMETRIC_DATA", "nowhere")).parent / "tables" / "puma32h.csv.gz"


@pytest.mark.slow
@pytest.mark.skipif(not PUMA.exists(), reason="the table puma32h is not here (beside OUTMETRIC_DATA)")
def test_few_of_many_features_decide():
    """puma32h: 32 features, of which few matter; settings chosen on 300 of the 1000 rows for training."""
    table = np.loadtxt(PUMA, delimiter=",", skiprows=1)
    rows = np.random.default_rng(0).permutation(len(table))
    train, test = rows[:1000], rows[1000:4000]
    data, y = table[:, :-1], table[:, -1]
    data = (data - data[train].mean(axis=0)) / data[train].std(axis=0)

    def fitted(learned_from, settings):
        model = LearnedKernelMetric(kernel="exponential", collocation_weight=0.0, input_metric="diagonal", tol=1e-6, **settings)
        return model.fit(data[learned_from], y[learned_from, None])

    def quality(model, asked):
        return r2_score(y[asked], model.map(data[asked]))

    def searched(rounds):
        grid = {"n_rounds": rounds, "bandwidth": ["0.5*median", "median", "3*median"], "regression_weight": [3.0, 30.0]}
        best = max(ParameterGrid(grid), key=lambda settings: quality(fitted(train[:700], settings), train[700:]))
        return quality(fitted(train, best), test)

    assert searched([0]) < 0.3
    assert searched([1, 2, 3]) >= 0.8


@pytest.mark.parametrize("kernel", ["exponential", Scalar("rbf") + Scalar("rbf") * Scalar("linear")])
def test_saved_models_keep_it(kernel, tmp_path):
    data, labels = iris()
    model = LearnedKernelMetric(kernel=kernel, input_metric="full").fit(data, labels)
    outmetric.save(model, tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(data), model.transform(data))
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
    assert again.rounds_[1].objective == model.rounds_[1].objective


@pytest.mark.parametrize(
    "kernel", ["rbf", "exponential", "laplacian", "power_exponential", "additive", Scalar("rbf") + 0.5 * Scalar("laplacian") * 2]
)
def test_onnx_knows_it(kernel):
    onnxruntime = pytest.importorskip("onnxruntime")
    from outmetric.export import to_onnx

    data, labels = iris()
    model = LearnedKernelMetric(kernel=kernel, input_metric="diagonal").fit(data, labels)
    session = onnxruntime.InferenceSession(to_onnx(model, data[:1]).SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: data})
    np.testing.assert_allclose(found, model.transform(data), atol=1e-6)  # coefficients of smooth kernels are large
