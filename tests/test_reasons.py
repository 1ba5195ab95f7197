"""Do contributions of features add up to squared distances, and are they what their definitions say?"""

import numpy as np
import oracles
import pandas as pd
import pytest
import scipy.sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, QuantileTransformer, StandardScaler

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricSearchCV
from outmetric.baselines import ITML, LMNN, KernelLMNN
from outmetric.choosing import beside, explain, reasons_of_nearness, usual_contributions
from outmetric.columns import FeatureWeights, column_origins, table_encoder
from outmetric.estimators import attribution
from outmetric.kernels import Callable as MatrixFunction
from outmetric.kernels import Columns, Diagonal, Forest, Scalar, Separable, Spectrum

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int) + (X[:, 1] > 0.8)
ONE, OTHER = RNG.normal(size=(5, 4)), RNG.normal(size=(5, 4))
KERNELS = {
    "rbf": Scalar("rbf", 1.3),
    "exponential": Scalar("exponential", 1.3),
    "additive": Scalar("additive", 0.7),
    "power of the Euclidean norm": Scalar("power_exponential", 1.3, {"p": 2.0, "power": 1.7}),
    "linear": Scalar("linear"),
    "poly": Scalar("poly", params={"degree": 3, "gamma": 0.3, "coef0": 0.5}),
    "laplacian": Scalar("laplacian", 1.3),
    "power of another norm": Scalar("power_exponential", 1.3, {"p": 1.5, "power": 1.2}),
    "sum": Scalar("laplacian", 2.0) + 0.5 * Scalar("rbf", 1.0),
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def assert_adds_up(reasons, distances):
    np.testing.assert_allclose(reasons.squared_distances, distances**2, rtol=1e-9)
    np.testing.assert_allclose(reasons.contributions.sum(axis=1), distances**2, rtol=1e-3)


class TestGradients:
    @pytest.mark.parametrize(
        ("model", "kernel"),
        [
            *((model, kernel) for model in (FixedKernelMetric, LearnedKernelMetric) for kernel in KERNELS.values()),
            (FixedKernelMetric, Diagonal([Scalar("rbf", 1.0), Scalar("laplacian", 2.0)])),
        ],
    )
    def test_contributions_are_integrals_of_gradients_and_add_up(self, model, kernel):
        fitted = model(kernel=kernel, regression_weight=30.0).fit(X, y)
        reasons = fitted.explain(ONE, OTHER)
        assert_adds_up(reasons, fitted.pair_distance(np.stack([ONE, OTHER], axis=1)))
        expected = [oracles.contributions_along_segment(fitted.transform, *pair) for pair in zip(ONE, OTHER, strict=True)]
        allowed = 1e-3 * np.abs(expected).sum(axis=1, keepdims=True)
        assert np.all(np.abs(reasons.contributions - expected) <= allowed)

    @pytest.mark.parametrize("kind", ["diagonal", "full"])
    def test_an_input_metric_is_followed(self, kind):
        fitted = LearnedKernelMetric(kernel="rbf", input_metric=kind, n_rounds=1).fit(X, y)
        expected = oracles.contributions_along_segment(fitted.transform, ONE[0], OTHER[0])
        np.testing.assert_allclose(fitted.explain(ONE[:1], OTHER[:1]).contributions[0], expected, atol=1e-3 * abs(expected).sum())

    def test_the_laplacian_with_an_input_metric(self):
        fitted = LearnedKernelMetric(kernel="laplacian", input_metric="diagonal", n_rounds=1).fit(X, y)
        expected = oracles.contributions_along_segment(fitted.transform, ONE[0], OTHER[0])
        np.testing.assert_allclose(fitted.explain(ONE[:1], OTHER[:1]).contributions[0], expected, atol=1e-3 * abs(expected).sum())

    def test_whole_numbers_where_the_laplacian_stands_still(self):
        """On whole numbers features pass points at the same time, and the exponent may be constant between."""
        grid = RNG.integers(0, 3, size=(40, 4)).astype(float)
        fitted = LearnedKernelMetric(kernel="laplacian", bandwidth=2.0).fit(grid, y)
        ones, others = grid[:10], grid[10:20]
        assert_adds_up(fitted.explain(ones, others), fitted.pair_distance(np.stack([ones, others], axis=1)))

    def test_landmarks(self):
        fitted = LearnedKernelMetric(n_landmarks=10, random_state=0).fit(X, y)
        expected = oracles.contributions_along_segment(fitted.transform, ONE[0], OTHER[0])
        np.testing.assert_allclose(fitted.explain(ONE[:1], OTHER[:1]).contributions[0], expected, atol=1e-3 * abs(expected).sum())

    @pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
    @pytest.mark.parametrize("form", [scipy.sparse.csr_array, np.float32])
    def test_sparse_and_single_precision_rows(self, kernel, form):
        fitted = LearnedKernelMetric(kernel=kernel).fit(X, y)
        dense = fitted.explain(ONE, OTHER).contributions
        np.testing.assert_allclose(fitted.explain(form(ONE), form(OTHER)).contributions, dense, atol=1e-5)

    @pytest.mark.parametrize("kernel", ["rbf", "exponential", "laplacian"])
    def test_maps_of_sparse_points(self, kernel):
        fitted = LearnedKernelMetric(kernel=kernel).fit(scipy.sparse.csr_array(X), y)
        dense = LearnedKernelMetric(kernel=kernel).fit(X, y).explain(ONE, OTHER).contributions
        found = fitted.explain(scipy.sparse.csr_array(ONE), scipy.sparse.csr_array(OTHER)).contributions
        np.testing.assert_allclose(found, dense, atol=1e-6)

    @pytest.mark.filterwarnings("error")
    def test_near_rows_in_single_precision(self):
        fitted = LearnedKernelMetric().fit(X, y)
        near = ONE.astype(np.float32)
        reasons = fitted.explain(near, near + np.float32(1e-5))
        np.testing.assert_allclose(reasons.contributions.sum(axis=1), reasons.squared_distances, rtol=1e-3)

    @pytest.mark.parametrize("case", [*KERNELS, "forest"])
    def test_a_pair_has_no_direction(self, case):
        fitted = LearnedKernelMetric(kernel={**KERNELS, "forest": Forest(n_estimators=20)}[case], random_state=0).fit(X, y)
        there, back = fitted.explain(ONE, OTHER).contributions, fitted.explain(OTHER, ONE).contributions
        np.testing.assert_allclose(there, back, atol=1e-9 + 2e-3 * np.abs(there).max())

    def test_symmetric_data_give_symmetric_reasons(self):
        """Whatever exchanges two features of all data exchanges their reasons."""
        turned = [1, 0, 2, 3]
        fitted = LearnedKernelMetric(kernel="laplacian").fit(np.concatenate([X, X[:, turned]]), np.tile(y, 2))
        one, turned_one = fitted.explain(ONE, OTHER), fitted.explain(ONE[:, turned], OTHER[:, turned])
        np.testing.assert_allclose(turned_one.contributions, one.contributions[:, turned], atol=1e-9)

    def test_what_does_not_matter_contributes_nothing(self):
        constant = np.column_stack([X, np.full(len(X), 3.0)])
        fitted = LearnedKernelMetric(input_metric="diagonal", n_rounds=1).fit(constant, y)
        ones, others = np.column_stack([ONE, np.zeros(5)]), np.column_stack([OTHER, np.ones(5)])
        found = fitted.explain(ones, others).contributions
        np.testing.assert_array_equal(found[:, 4], 0)
        same = ones.copy()
        same[:, 1] = others[:, 1]
        np.testing.assert_array_equal(fitted.explain(same, others).contributions[:, 1], 0)
        np.testing.assert_array_equal(fitted.explain(others, others).contributions, 0)

    def test_a_map_that_bends_too_often_is_told_of(self, monkeypatch):
        monkeypatch.setattr(attribution, "MOST_PARTS", 0)
        fitted = LearnedKernelMetric(kernel=Scalar("power_exponential", 0.5, {"p": 1.0, "power": 1.0})).fit(X, y)
        with pytest.warns(UserWarning, match=r"of 5 pairs add up to the squared distance only to .* not to 0.001"):
            fitted.explain(ONE, OTHER)

    @pytest.mark.parametrize("model", [LMNN, ITML, KernelLMNN])
    def test_baselines(self, model):
        fitted = model().fit(X, y)
        reasons = fitted.explain(ONE, OTHER)
        expected = [oracles.contributions_along_segment(fitted.transform, *pair) for pair in zip(ONE, OTHER, strict=True)]
        np.testing.assert_allclose(reasons.contributions, expected, atol=1e-3 * np.abs(expected).sum())

    def test_names_and_lengths(self):
        frame = pd.DataFrame(X, columns=list("abcd"))
        fitted = LearnedKernelMetric().fit(frame, y)
        assert fitted.explain(frame[:2], frame[2:4]).feature_names == ("a", "b", "c", "d")
        assert LearnedKernelMetric().fit(X, y).explain(ONE, OTHER).feature_names == ("x0", "x1", "x2", "x3")
        with pytest.raises(ValueError, match="X has 2 of them and X_other 3"):
            fitted.explain(frame[:2], frame[:3])
        with pytest.raises(NotFittedError):
            LearnedKernelMetric().explain(X, X)


class TestExchange:
    def shapley(self, coordinates, x, other):
        difference = coordinates(x[None])[0] - coordinates(other[None])[0]

        def value(players):
            mixed = np.where([place in players for place in range(len(x))], x, other)
            return float(coordinates(mixed[None])[0] @ difference)

        return oracles.shapley_values(value, len(x))

    @pytest.mark.parametrize(
        "kernel", [Forest(n_estimators=20), Scalar("rbf", 1.0) * Scalar("laplacian", 2.0)], ids=["forest", "product"]
    )
    def test_few_columns_have_shapley_values(self, kernel):
        fitted = LearnedKernelMetric(kernel=kernel, random_state=0).fit(X, y)
        reasons = fitted.explain(ONE, OTHER)
        assert_adds_up(reasons, fitted.pair_distance(np.stack([ONE, OTHER], axis=1)))
        for found, one, other in zip(reasons.contributions, ONE, OTHER, strict=True):
            np.testing.assert_allclose(found, self.shapley(fitted.transform, one, other), atol=1e-9)

    def test_a_kernel_that_is_made_of_scalar_kernels_only_in_part(self):
        partly = Separable(Scalar("rbf", 1.3)) + MatrixFunction(lambda x, z: float(x @ z) * np.eye(2), 2)
        fitted = FixedKernelMetric(kernel=partly).fit(X, y)
        reasons = fitted.explain(ONE[:1], OTHER[:1])
        np.testing.assert_allclose(reasons.contributions[0], self.shapley(fitted.transform, ONE[0], OTHER[0]), atol=1e-9)
        with pytest.raises(ValueError, match="the kernel has no gradients"):
            fitted.get_metric().importances()
        assert fitted.get_metric().cost() == np.inf

    def test_many_columns_have_about_shapley_values(self):
        wide = RNG.normal(size=(60, 8))
        labels = (wide[:, 0] + wide[:, 1] > 0).astype(int)
        fitted = LearnedKernelMetric(kernel=Forest(n_estimators=30), random_state=0).fit(wide, labels)
        reasons = fitted.explain(wide[:3], wide[3:6])
        assert_adds_up(reasons, fitted.pair_distance(np.stack([wide[:3], wide[3:6]], axis=1)))
        expected = np.array([self.shapley(fitted.transform, *pair) for pair in zip(wide[:3], wide[3:6], strict=True)])
        assert np.abs(reasons.contributions - expected).max() < 0.1 * np.abs(expected).max()

    def test_columns_that_agree_contribute_nothing(self):
        fitted = LearnedKernelMetric(kernel=Forest(n_estimators=20), random_state=0).fit(X, y)
        same = ONE.copy()
        same[:, 2] = OTHER[:, 2]
        np.testing.assert_array_equal(fitted.explain(same, OTHER).contributions[:, 2], 0)
        np.testing.assert_array_equal(fitted.explain(ONE, ONE).contributions, 0)

    def test_tables_with_texts(self):
        table = pd.DataFrame({"name": ["banana", "bandana", "ananas", "cabana"] * 5, "length": RNG.normal(size=20)})
        kernel = Columns({"name": Spectrum(2), ("length",): "rbf"})
        fitted = LearnedKernelMetric(kernel=kernel).fit(table, [0, 1, 1, 0] * 5)
        reasons = fitted.explain(table[:4], table[4:8].assign(name=["ananas", "bandana", "ananas", "banana"]))
        assert reasons.feature_names == ("name", "length")
        np.testing.assert_allclose(reasons.contributions.sum(axis=1), reasons.squared_distances)
        np.testing.assert_array_equal(reasons.contributions[1:3, 0], 0)

    def test_what_has_no_columns_is_refused(self):
        words = np.array(["banana", "bandana", "ananas", "cabana"], dtype=object)
        fitted = LearnedKernelMetric(kernel=Spectrum(2)).fit(words, [0, 1, 1, 0])
        with pytest.raises(ValueError, match="its data are objects, which have none"):
            fitted.explain(words[:1], words[1:2])
        fitted = LearnedKernelMetric(kernel="precomputed").fit(X @ X.T, y)
        with pytest.raises(ValueError, match="its data are kernel values"):
            fitted.explain((X @ X.T)[:1], (X @ X.T)[1:2])


def table():
    frame = pd.DataFrame(X[:, :2], columns=["length", "width"])
    frame["colour"] = np.where(X[:, 1] > 0, "blue", np.where(X[:, 0] > 0, "white", "red")).astype(object)
    frame["day"] = pd.date_range("2020-01-01", periods=len(frame), freq="17D")
    frame.loc[3, "length"] = np.nan
    frame.loc[5, "day"] = pd.NaT
    return frame


class TestTables:
    def test_features_that_were_made_of_one_column_are_summed(self):
        frame = table()
        encoder = table_encoder(frame)
        model = make_pipeline(encoder, StandardScaler(), LearnedKernelMetric()).fit(frame, y)
        found = explain(model, frame[:6], frame[20:26])
        assert found.feature_names == tuple(frame.columns)
        inner = model[-1].explain(model[:-1].transform(frame[:6]), model[:-1].transform(frame[20:26]))
        encoded = [name.split("__")[1] for name in model[0].get_feature_names_out()]
        starts = {"length": "length", "missingindicator_length": "length", "width": "width", "colour": "colour", "day": "day"}
        for place, column in enumerate(frame.columns):
            own = [k for k, name in enumerate(encoded) if starts[next(one for one in starts if name.startswith(one))] == column]
            np.testing.assert_allclose(found.contributions[:, place], inner.contributions[:, own].sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(found.contributions.sum(axis=1), found.squared_distances, rtol=1e-3)

    @pytest.mark.parametrize("frames", [table, lambda: X], ids=["table", "array"])
    def test_a_classifier(self, frames):
        data = frames()
        model = MetricClassifier(time_budget=0.01, random_state=0).fit(data, y)
        reasons = model.explain(data[:5], data[10:15])
        distances = np.linalg.norm(model.transform(data[:5]) - model.transform(data[10:15]), axis=1)
        assert_adds_up(reasons, distances)
        assert reasons.contributions.shape == (5, data.shape[1])
        assert model.feature_importances_.shape == (data.shape[1],)
        assert model.feature_importances_.sum() == pytest.approx(1)
        assert "looks at" in model.summary()
        np.testing.assert_array_equal(model.get_metric().explain(data[:2], data[2:4]).contributions.shape, (2, data.shape[1]))

    @pytest.mark.parametrize("kernel", ["rbf", Forest(n_estimators=20)], ids=["gradients", "exchange"])
    def test_steps_that_mix_columns_are_no_obstacle(self, kernel):
        frame = table().drop(columns="day").fillna(0.0)
        steps = [table_encoder(frame), StandardScaler(), PCA(3), LearnedKernelMetric(kernel=kernel, random_state=0)]
        search = MetricSearchCV(make_pipeline(*steps), {}, n_neighbors=3).fit(frame, y)
        reasons = search.explain(frame[:5], frame[10:15])
        assert_adds_up(reasons, np.linalg.norm(search.transform(frame[:5]) - search.transform(frame[10:15]), axis=1))
        assert reasons.feature_names == ("length", "width", "colour")
        with pytest.raises(AttributeError, match="no feature_importances_"):
            _ = search.feature_importances_
        assert "looks at" not in search.summary()

    def test_steps_that_ask_for_columns_by_name(self):
        """Columns are exchanged between tables that stay tables."""
        frame = table()[["width", "colour"]]
        encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["colour"]), (StandardScaler(), ["width"]))
        model = make_pipeline(encoder, LearnedKernelMetric(kernel=Forest(n_estimators=20), random_state=0)).fit(frame, y)
        reasons = explain(model, frame[:5], frame[10:15])
        assert_adds_up(reasons, np.linalg.norm(model.transform(frame[:5]) - model.transform(frame[10:15]), axis=1))

    @pytest.mark.parametrize("kernel", ["rbf", Forest(n_estimators=20)], ids=["gradients", "exchange"])
    def test_sparse_rows_in_a_pipeline(self, kernel):
        model = make_pipeline(MaxAbsScaler(), LearnedKernelMetric(kernel=kernel, random_state=0)).fit(scipy.sparse.csr_array(X), y)
        rows = scipy.sparse.csr_array(ONE), scipy.sparse.csr_array(OTHER)
        assert_adds_up(explain(model, *rows), np.linalg.norm(model.transform(rows[0]) - model.transform(rows[1]), axis=1))
        assert usual_contributions(model, rows[0], rows[1]).shape == (5, 4)

    def test_importances_are_the_pull_back_by_column(self):
        frame = table().drop(columns="day").fillna(0.0)
        model = make_pipeline(table_encoder(frame), StandardScaler(), LearnedKernelMetric())
        search = MetricSearchCV(model, {}, n_neighbors=3).fit(frame, y)
        rows, metric = search.best_estimator_[:-1].transform(frame), search.best_estimator_[-1]
        step = 1e-5
        slopes = [
            (metric.transform(rows + step * e) - metric.transform(rows - step * e)) / (2 * step) for e in np.eye(rows.shape[1])
        ]
        weights = np.array([np.mean(np.sum(slope**2, axis=1)) for slope in slopes]) * rows.var(axis=0)
        expected = np.array([weights[0], weights[1], weights[2:].sum()]) / weights.sum()
        np.testing.assert_allclose(search.feature_importances_, expected, rtol=1e-5)

    def test_a_metric_without_rows_has_no_importances(self):
        search = MetricSearchCV(make_pipeline(StandardScaler(), LMNN()), {}, n_neighbors=3).fit(X, y)
        with pytest.raises(AttributeError, match="no feature_importances_: LMNN keeps no rows"):
            _ = search.feature_importances_
        assert "looks at" not in search.summary()

    def test_the_five_most_important_features_are_named(self):
        data = load_wine(as_frame=True)
        model = make_pipeline(StandardScaler(), LearnedKernelMetric())
        search = MetricSearchCV(model, {}, n_neighbors=3).fit(data.data, data.target)
        (line,) = [line for line in search.summary().splitlines() if "looks at" in line]
        leading = data.data.columns[np.argsort(-search.feature_importances_)]
        assert all(name[:12] in line for name in leading[:5])
        assert line.count("%") == 5

    def test_a_search_without_a_model_says_so(self):
        search = MetricSearchCV(LearnedKernelMetric(), {}, n_neighbors=3, refit=False).fit(X, y)
        with pytest.raises(NotFittedError, match="refit=False"):
            search.explain(ONE, OTHER)
        search.summary()

    def test_a_metric_alone_in_a_search(self):
        search = MetricSearchCV(LearnedKernelMetric(), {}, n_neighbors=3).fit(X, y)
        np.testing.assert_array_equal(
            search.explain(ONE, OTHER).contributions, search.best_estimator_.explain(ONE, OTHER).contributions
        )

    def test_after_a_file_reasons_are_the_same(self, tmp_path):
        model = MetricClassifier(time_budget=0.01, random_state=0).fit(table(), y)
        outmetric.save(model, tmp_path / "model")
        again = outmetric.load(tmp_path / "model")
        one, other = table()[:5], table()[10:15]
        np.testing.assert_array_equal(again.explain(one, other).contributions, model.explain(one, other).contributions)

    @pytest.mark.parametrize(
        ("step", "expected"),
        [
            (StandardScaler(), [0, 1]),
            (QuantileTransformer(n_quantiles=5), [0, 1]),
            (FeatureWeights(), [0, 1]),
            (make_pipeline(StandardScaler(), QuantileTransformer(n_quantiles=5)), [0, 1]),
            (OneHotEncoder(), [0, 0, 0, 1, 1]),
            (OneHotEncoder(drop="first"), None),
            (PCA(2), None),
        ],
        ids=str,
    )
    def test_origins(self, step, expected):
        rows = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 1.0], [0.0, 2.0], [1.0, 1.0]])
        found = column_origins(step.fit(rows, [0, 1, 0, 1, 0]), np.arange(2))
        assert (None if found is None else found.tolist()) == expected


class TestNearness:
    def test_what_usually_tells_apart_and_does_not_here_is_the_reason(self):
        usual = np.array([[4.0, 2.0, 0.01, 1.0]] * 3)
        contributions = np.array([[0.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 0.5], [5.0, 3.0, 0.0, 2.0]])
        assert reasons_of_nearness(contributions, usual) == [[0, 1, 3], [1, 3], []]
        assert reasons_of_nearness(contributions, usual, most=1) == [[0], [1], []]

    def test_usual_contributions_are_means_over_known_rows(self):
        data, labels = load_iris(return_X_y=True)
        model = LearnedKernelMetric().fit(data, labels)
        usual = usual_contributions(model, data[:3], data)
        distances = ((model.transform(data[:3])[:, None] - model.transform(data)[None]) ** 2).sum(axis=2).mean(axis=1)
        np.testing.assert_allclose(usual.sum(axis=1), distances, rtol=0.3)  # of 20 rows, not of all
        np.testing.assert_array_equal(usual, usual_contributions(model, data[:3], data))

    @pytest.mark.parametrize(
        ("one", "other", "words"),
        [
            (13.2, 13.1, "13.2 beside 13.1"),
            (13.20001, 13.2, "13.2 in both"),
            (1065.0, 123456.7, "1065 beside 123457"),
            ("red", "blue", "red beside blue"),
            (np.nan, None, "missing in both"),
            (pd.Timestamp("2024-02-29"), pd.Timestamp("2024-02-29 12:30"), "2024-02-29 beside 2024-02-29 12:30:00"),
        ],
    )
    def test_words(self, one, other, words):
        assert beside(one, other) == words


def test_round_off_between_a_row_and_itself_is_no_distance():
    """Blocks of rows are summed in other orders, so that a row may be 1e-15 away from itself."""
    rows = np.random.default_rng(0).normal(size=(2, 3))
    others = np.stack([rows[0], rows[1] + 1])
    terms = [(Scalar("additive", 1.0), np.zeros((2, 1)))]
    _, errors = attribution.integrated(terms, rows, rows, others, np.full((2, 1), 1e-15))
    np.testing.assert_array_equal(errors, [0.0, 1.0])
