"""Does an exported model compute in onnxruntime what the estimator computes, on points it has not seen?"""

import copy
import json
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pandas
import polars
import pytest
import scipy.sparse
import skl2onnx
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, QuantileTransformer, StandardScaler

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricRegressor, MetricSearchCV, kernels
from outmetric.automatic import members, screening
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.columns.weights import FeatureWeights
from outmetric.datasets import make_waveform
from outmetric.export import exportable, register, to_onnx
from outmetric.tuples import PairsITML, QuadrupletsKernelLMNN, TripletsLMNN

TYPES = [np.float32, np.float64]
# Relative to the largest value.
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-8}


def session(model):
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def run(model, X):
    """The outputs by name, for an array or a table."""
    running = session(model)
    inputs = [entry.name for entry in running.get_inputs()]
    columns = [X] if isinstance(X, np.ndarray) else [column(X, name) for name in X.columns]
    outputs = [entry.name for entry in running.get_outputs()]
    return dict(zip(outputs, running.run(None, dict(zip(inputs, columns, strict=True))), strict=True))


def column(table, name):
    """As whoever feeds an exported model must write it: one column, missing categories as ''."""
    values = np.asarray(table[name])
    if values.dtype.kind == "O":
        values = np.array(["" if value is None or value != value else str(value) for value in values], dtype=object)
    return values[:, None]


def assert_same(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[found.dtype] * np.abs(expected).max())


@pytest.fixture(scope="module")
def waveform():
    X, y = make_waveform(260, random_state=0)
    return X[:60], y[:60], X[60:]


def separable(name, **settings):
    bandwidth = settings.pop("bandwidth", 2.0)
    params = settings or None
    scalar = kernels.Scalar(name, "median" if "gamma" in settings else bandwidth, params)
    return kernels.Separable(scalar, [[2.0, 0.5], [0.5, 1.0]])


KERNELS = {
    "rbf": separable("rbf"),
    "rbf by gamma": separable("rbf", gamma=0.3),
    "rbf, default gamma": separable("rbf", gamma=None),
    "laplacian": separable("laplacian", bandwidth=3.0),
    "laplacian by gamma": separable("laplacian", gamma=0.2),
    "additive": separable("additive"),
    "linear": separable("linear"),
    "poly": separable("poly", degree=2, coef0=0.5, gamma=0.1),
    "polynomial, defaults": separable("polynomial"),
    "sigmoid": separable("sigmoid", gamma=0.05, coef0=0.2),
    "cosine": separable("cosine"),
    "chi2": separable("chi2"),
    "chi2 by gamma": separable("chi2", gamma=0.4),
    "additive_chi2": separable("additive_chi2"),
    "no output matrix": kernels.Separable(kernels.Scalar("rbf", 1.0)),
    "diagonal": kernels.Diagonal([kernels.Scalar("rbf", 1.0), kernels.Scalar("laplacian", 2.0)]),
    "diagonal of two widths": kernels.Diagonal([kernels.Scalar("rbf", 1.0), kernels.Scalar("rbf", 3.0)]),
    "sum": separable("rbf") + 0.3 * kernels.Diagonal([kernels.Scalar("linear"), kernels.Scalar("rbf", 2.0)]),
    "sum of sums": 2.0 * (separable("cosine") + 0.5 * separable("rbf", bandwidth=0.7)),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel(kernel, dtype):
    rng = np.random.default_rng(0)
    # Non-negative for chi2, with zeros, of which one row and one point have nothing else.
    points, new = (np.maximum(rng.normal(size=(n, 4)), 0) for n in (12, 30))
    points[3] = new[5] = 0
    fitted = LearnedKernelMetric(kernel="linear").fit(points, np.arange(12) % 3)
    # Any metric will do: sigmoid kernels, say, can hardly be learned with.
    fitted.metric_ = replace(
        fitted.metric_,
        kernel=KERNELS[kernel],
        coefficients=rng.normal(size=(12, 2)),
        metric_factor=rng.normal(size=(3, 2)),
        offset=rng.normal(size=2),
    )
    new = new.astype(dtype)
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))


METRICS = {
    "fixed": FixedKernelMetric(),
    "fixed, diagonal": FixedKernelMetric(bandwidth=[2.0, 8.0]),
    "fixed, landmarks": FixedKernelMetric(n_landmarks=20, random_state=0),
    "fixed, sum": FixedKernelMetric(kernel=kernels.Separable("rbf") + kernels.Separable("linear")),
    "learned": LearnedKernelMetric(),
    "learned, laplacian": LearnedKernelMetric(kernel="laplacian"),
    "learned, landmarks": LearnedKernelMetric(n_landmarks=20, random_state=0),
    "learned, real targets": LearnedKernelMetric(),
    "LMNN": LMNN(),
    "ITML": ITML(random_state=0),
    "KernelLMNN": KernelLMNN(),
    "KernelITML": KernelITML(kernel="additive", random_state=0),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", METRICS)
def test_every_metric(name, dtype, waveform):
    X, y, new = waveform
    targets = {"learned, real targets": np.column_stack([X[:, 3] + 5, X[:, 10]])}
    fitted = METRICS[name].fit(X, targets.get(name, y))
    new = new.astype(dtype)
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kernel", ["rbf", "additive"])
def test_coefficients_that_almost_cancel(kernel, dtype, waveform):
    X, y, new = waveform
    fitted = LearnedKernelMetric(kernel=kernel, bandwidth="4*median", regression_weight=1e6).fit(X, y)
    assert np.abs(fitted.coefficients_).max() > 1e3 * np.abs(fitted.transform(new)).max()
    new = new.astype(dtype)
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("metric", [LearnedKernelMetric(), LearnedKernelMetric(kernel="laplacian"), KernelLMNN(), LMNN()])
def test_data_far_from_zero(metric, dtype, waveform):
    X, y, new = waveform
    fitted = metric.fit(X + 1e4, y)
    new = (new + 1e4).astype(dtype)
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))


def test_data_very_far_from_zero(waveform):
    # Without an origin amid the points, exponents would be wrong by more than one.
    X, y, new = waveform
    fitted = LearnedKernelMetric().fit(X + 2.0**27, y)
    new = new + 2.0**27
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))


@pytest.mark.parametrize("n", [1, 2, 137])
def test_any_number_of_rows(n, waveform):
    X, y, new = waveform
    models = [
        LearnedKernelMetric(kernel="additive").fit(X, y),
        make_pipeline(QuantileTransformer(n_quantiles=20), LMNN()).fit(X, y),
    ]
    for fitted in models:
        assert_same(run(to_onnx(fitted, new), new[:n])["coordinates"], fitted.transform(new[:n]))


def test_a_metric_of_sparse_rows_takes_dense_ones(waveform):
    X, y, new = waveform
    X, new = X * (X > 2), new * (new > 2)
    fitted = LearnedKernelMetric().fit(scipy.sparse.csr_array(X), y)
    assert_same(run(to_onnx(fitted, scipy.sparse.csr_array(new)), new)["coordinates"], fitted.transform(new))


def test_the_input_follows_the_rows_and_the_type_asked_for(waveform):
    X, y, _ = waveform
    fitted = LearnedKernelMetric().fit(X, y)
    wanted = {
        "tensor(float)": [to_onnx(fitted, X.astype(np.float32)), to_onnx(fitted, dtype=np.float32), to_onnx(fitted, X, dtype="f4")]
    }
    wanted["tensor(double)"] = [to_onnx(fitted, X), to_onnx(fitted), to_onnx(fitted, X.tolist()), to_onnx(fitted, X.astype(int))]
    for kind, models in wanted.items():
        for model in models:
            (entry,) = session(model).get_inputs()
            assert (entry.name, entry.type, entry.shape[1]) == ("X", kind, 21)
            assert session(model).get_outputs()[0].type == kind


def test_the_operators_version(waveform):
    X, y, new = waveform
    fitted = make_pipeline(QuantileTransformer(n_quantiles=20), LearnedKernelMetric(kernel="laplacian")).fit(X, y)
    for version in (13, 18, 21):
        model = to_onnx(fitted, new, target_opset=version)
        assert {entry.version for entry in model.opset_import if entry.domain == ""} <= {version}
        assert_same(run(model, new)["coordinates"], fitted.transform(new))
    with pytest.raises(ValueError, match="target_opset=12 is too old; at least 13"):
        to_onnx(fitted, new, target_opset=12)


@pytest.mark.parametrize("dtype", TYPES)
def test_feature_weights(dtype, waveform):
    X, y, new = waveform
    fitted = FeatureWeights(0.5).fit(X, y)
    new = new.astype(dtype)
    assert_same(run(to_onnx(fitted, new), new)["variable"], fitted.transform(new))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("metric", [LearnedKernelMetric(), FixedKernelMetric(kernel="laplacian"), ITML(random_state=0)])
def test_pipelines_by_skl2onnx_itself(metric, dtype, waveform):
    X, y, new = waveform
    register()
    new = new.astype(dtype)
    pipeline = make_pipeline(MinMaxScaler(), FeatureWeights(), metric).fit(X, y)
    assert_same(run(skl2onnx.to_onnx(pipeline, new), new)["coordinates"], pipeline.transform(new))
    voting = make_pipeline(StandardScaler(), metric, KNeighborsClassifier(3)).fit(X, y)
    found = run(skl2onnx.to_onnx(voting, new, options={"zipmap": False}), new)
    np.testing.assert_array_equal(found["label"], voting.predict(new))
    np.testing.assert_allclose(found["probabilities"], voting.predict_proba(new), atol=1e-6)


@pytest.mark.parametrize("dtype", TYPES)
def test_pipelines_that_end_in_a_classifier(dtype, waveform):
    X, y, new = waveform
    new = new.astype(dtype)
    pipeline = make_pipeline(StandardScaler(), LearnedKernelMetric(), KNeighborsClassifier())
    search = GridSearchCV(pipeline, {"learnedkernelmetric__bandwidth": [1.0, 4.0]}, cv=2).fit(X, y)
    for fitted in (search.best_estimator_, search):
        found = run(to_onnx(fitted, new), new)
        np.testing.assert_array_equal(found["label"], fitted.predict(new))
        np.testing.assert_allclose(found["probabilities"], fitted.predict_proba(new), atol=1e-6)


NAMES = {
    "numbers": np.array([3, 1, 7]),
    "unsigned": np.array([3, 1, 7], dtype=np.uint8),
    "whole floats": np.array([3.0, 1.0, -2.0]),
    "strings": np.array(["a", "été", "b"]),
    "objects": np.array(["a", "b", "c"], dtype=object),
    "truth values": np.array([True, False, True]),
}


@pytest.fixture(scope="module")
def grid():
    return {"learnedkernelmetric__bandwidth": [2.0, 8.0]}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", NAMES)
def test_a_search_votes(kind, dtype, waveform, grid):
    X, y, new = waveform
    pipeline = make_pipeline(StandardScaler(), PCA(10), LearnedKernelMetric())
    search = MetricSearchCV(pipeline, grid, n_neighbors=[4], cv=2).fit(X, NAMES[kind][y])
    new = new.astype(dtype)
    found = run(to_onnx(search, new, outputs="both"), new)
    assert list(found) == ["label", "probabilities", "coordinates"]
    np.testing.assert_array_equal(found["label"], search.predict(new))
    assert found["probabilities"].dtype == dtype
    np.testing.assert_allclose(found["probabilities"], search.predict_proba(new), atol=1e-6)
    assert_same(found["coordinates"], search.transform(new).astype(dtype))


def test_one_class_may_have_no_number(waveform, grid):
    X, y, _ = waveform
    search = MetricSearchCV(make_pipeline(LearnedKernelMetric()), grid, cv=2).fit(X, y)
    search.classes_ = np.array([0.5, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"whole numbers or strings, not such as .*0\.5"):
        to_onnx(search, X)


def test_what_a_classifier_puts_out(waveform, grid):
    X, y, new = waveform
    search = MetricSearchCV(make_pipeline(LearnedKernelMetric()), grid, cv=2).fit(X, y)
    assert list(run(to_onnx(search, X), new)) == ["label", "probabilities"]
    assert list(run(to_onnx(search, X, outputs="coordinates"), new)) == ["coordinates"]
    within = make_pipeline(search, KNeighborsClassifier()).fit(X, y)
    np.testing.assert_array_equal(run(to_onnx(within, X), new)["label"], within.predict(new))
    last = make_pipeline(StandardScaler(), search).fit(X, y)
    assert_same(run(to_onnx(last, X, outputs="both"), new)["coordinates"], last.transform(new))
    with pytest.raises(ValueError, match="outputs must be one of classes, coordinates, both, not 'votes'"):
        to_onnx(search, X, outputs="votes")
    with pytest.raises(
        ValueError, match="outputs='both' is for MetricClassifier, MetricRegressor and MetricSearchCV; this is a KNeighbors"
    ):
        to_onnx(within, X, outputs="both")


@pytest.mark.parametrize("dtype", TYPES)
def test_a_search_by_skl2onnx_itself(dtype, waveform, grid):
    X, y, new = waveform
    register()
    new = new.astype(dtype)
    search = MetricSearchCV(make_pipeline(StandardScaler(), LearnedKernelMetric()), grid, cv=2).fit(X, np.array(["u", "v", "w"])[y])
    found = run(skl2onnx.to_onnx(search, new, options={id(search): {"zipmap": False, "outputs": "both"}}), new)
    np.testing.assert_allclose(found["probabilities"], search.predict_proba(new), atol=1e-6)
    assert_same(found["coordinates"], search.transform(new))
    dictionaries = run(skl2onnx.to_onnx(make_pipeline(MinMaxScaler(), clone(search)).fit(X, y), new), new)
    assert set(dictionaries["output_probability"][0]) == {0, 1, 2}
    dictionaries = run(skl2onnx.to_onnx(search, new), new)
    shares = [[row[name] for name in "uvw"] for row in dictionaries["output_probability"]]
    np.testing.assert_allclose(shares, search.predict_proba(new), atol=1e-6)
    np.testing.assert_array_equal(dictionaries["output_label"], search.predict(new))


def test_equal_votes_go_to_the_first_class_and_equal_distances_to_the_first_points():
    X = np.array([[0.0], [1.0], [1.0], [3.0]])
    search = MetricSearchCV(LearnedKernelMetric(kernel="linear"), {}, n_neighbors=1, cv=[(range(4), range(4))]).fit(X, [0, 1, 0, 1])
    search.voters_.n_neighbors = search.n_neighbors_ = 2
    assert run(to_onnx(search, X), np.array([[0.4]]))["label"] == [0]
    search.voters_.n_neighbors = search.n_neighbors_ = 1
    assert run(to_onnx(search, X), np.array([[1.1]]))["label"] == [1]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X = X[order]
    X[::7, 2] = X[::11, 5] = np.nan
    return X[:80], np.array(["first", "second", "third"])[y[order[:80]]], X[80:]


# Few of each, but something of all that is tried; and rows are not too few for neighbours.
SCREENED = {
    "KERNELS": ("rbf", "laplacian"),
    "BANDWIDTHS": (1.0,),
    "REGRESSION_WEIGHTS": (10.0,),
    "FORESTS": ("random",),
    "FOLD_TREES": 10,
    "WEIGHED": 1,
    "ROUNDS": 1,
    "TRACKS": 2,
    "READ_BY_NEIGHBOURS": 2,
    "NEIGHBOURS": np.array([5]),
    "FEW_SAMPLES": 0,
}


def choose(X, y, kind=MetricClassifier, **settings):
    """A committee of all maps that were tried, with weights that differ."""

    def weights(self, goal, predictions, rng):
        return np.arange(1.0, 1 + len(predictions)) / np.arange(1.0, 1 + len(predictions)).sum()

    with pytest.MonkeyPatch.context() as patch:
        for name, value in SCREENED.items():
            patch.setattr(screening, name, value)
        patch.setattr(members, "TREES", 10)
        patch.setattr(kind, "_weights", weights)
        return kind(random_state=0, **settings).fit(X, y)


@pytest.fixture(scope="module")
def chosen(wine):
    X, y, _ = wine
    return choose(X, y)


def assert_same_classifier(model, exported, new):
    found = run(exported, new)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(new), atol=1e-6)
    np.testing.assert_array_equal(found["label"], model.predict(new))
    return found


@pytest.mark.parametrize("dtype", TYPES)
def test_a_committee_on_arrays_with_gaps(dtype, chosen, wine):
    new = wine[2].astype(dtype)
    found = assert_same_classifier(chosen, to_onnx(chosen, new, outputs="both"), new)
    assert found["probabilities"].dtype == found["coordinates"].dtype == dtype
    expected = chosen.transform(new)
    np.testing.assert_allclose(found["coordinates"], expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert_same_classifier(chosen, to_onnx(chosen, new), new[:1])


def test_a_committee_by_skl2onnx_itself(chosen, wine):
    register()
    exported = skl2onnx.to_onnx(chosen, wine[2], options={id(chosen): {"zipmap": False}})
    assert_same_classifier(chosen, exported, wine[2])


def test_members_of_all_kinds_have_their_say(chosen):
    """What the other tests of committees are about."""
    kinds = {(type(member.voters).__name__, member.candidate.description["kernel"]) for member in chosen.committee_}
    assert {("NoneType", "rbf"), ("NoneType", "laplacian"), ("NoneType", "random forest")} < kinds
    assert "KNeighborsClassifier" in {voters for voters, _ in kinds}
    described = [member.candidate.description for member in chosen.committee_]
    assert {"power", "input_metric"} < {name for one in described for name in one}
    assert len({member.weight for member in chosen.committee_}) == len(chosen.committee_) > 8
    assert sum(member.weight for member in chosen.committee_) == pytest.approx(1)


def test_weights_need_not_add_up_to_one(chosen, wine):
    """Members of version 0.1 all weigh 1."""
    equal = copy.copy(chosen)
    equal.committee_ = [replace(member, weight=1.0) for member in chosen.committee_]
    assert np.abs(equal.predict_proba(wine[2]) - chosen.predict_proba(wine[2])).max() > 1e-3
    np.testing.assert_allclose(equal.predict_proba(wine[2]).sum(axis=1), 1)
    assert_same_classifier(equal, to_onnx(equal, wine[2]), wine[2])


def test_another_class_than_the_most_probable_may_be_named(chosen, wine):
    offset = copy.copy(chosen)
    offset.class_offsets_ = np.array([3.0, 0.0, -1.0])
    assert (offset.predict(wine[2]) != chosen.predict(wine[2])).any()
    found = assert_same_classifier(offset, to_onnx(offset, wine[2]), wine[2])
    np.testing.assert_allclose(found["probabilities"], chosen.predict_proba(wine[2]), atol=1e-8)


def test_what_members_share_is_computed_once(chosen, wine):
    operations = [node.op_type for node in to_onnx(chosen, wine[2]).graph.node]
    readings = [member.voters is not None for member in chosen.committee_]
    assert operations.count("TopK") == sum(readings) > 0
    assert operations.count("Softmax") == len(readings) - sum(readings)
    # Members whose map is the same, and differ in how it is read.
    maps = {id(member.pipeline) for member in chosen.committee_}
    assert len(maps) < len(readings)
    kernels_of_distances = [member for member in chosen.committee_ if "scale" in member.pipeline.named_steps]
    assert operations.count("Exp") == len({id(member.pipeline) for member in kernels_of_distances})
    # Each preparation asks for missing values once, and once more if it is by quantiles: standard, quantile, and none.
    assert operations.count("IsNaN") == 4


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("targets", [1, 2])
def test_a_regressor(targets, dtype, wine):
    X, _, new = wine
    filled = np.nan_to_num(X)
    y = np.stack([filled[:, 6] + filled[:, 0], 1000 * filled[:, 9]], axis=1)
    fitted = choose(np.delete(X, 6, axis=1), y[:, 0] if targets == 1 else y, MetricRegressor)
    assert {type(member.voters).__name__ for member in fitted.committee_} == {"NoneType", "KNeighborsRegressor"}
    new = np.delete(new, 6, axis=1).astype(dtype)
    found = run(to_onnx(fitted, new, outputs="both"), new)
    assert list(found) == ["variable", "coordinates"]
    assert_same(found["variable"], fitted.predict(new).reshape(len(new), targets).astype(dtype))
    assert_same(found["coordinates"], fitted.transform(new).astype(dtype))
    assert list(run(to_onnx(fitted, new), new[:1])) == ["variable"]
    register()
    assert_same(run(skl2onnx.to_onnx(fitted, new), new)["variable"], found["variable"])


def test_a_regressor_of_a_table(table, new_table):
    X, _ = table
    y = X["body size"] + X["gaps"].fillna(0) + (X["colour"] == "red")
    fitted = choose(X, y, MetricRegressor)
    assert_same(run(to_onnx(fitted, new_table), new_table)["variable"][:, 0], fitted.predict(new_table))


def frame(n, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    table = pandas.DataFrame(
        {
            "body size": rng.normal(size=n) + y,
            "gaps": np.where(rng.random(n) < 0.3, np.nan, y + rng.normal(size=n)),
            "colour": np.where(rng.random(n) < 0.8, np.array(["red", "blue"])[y], "green"),
            "flag": rng.random(n) < 0.5,
            "count": rng.integers(0, 5, n) + y,
            "kind": pandas.Categorical(rng.choice(["a", "b"], n)),
            "single": rng.normal(size=n).astype(np.float32),
        }
    )
    table.loc[::9, "colour"] = None
    return table, np.array(["no", "yes"])[y]


@pytest.fixture(scope="module")
def table():
    return frame(80, 0)


@pytest.fixture(scope="module")
def new_table():
    table, _ = frame(50, 1)
    table.loc[4, "colour"] = "purple"
    table["kind"] = table["kind"].astype(object)
    table.loc[5, "kind"] = "z"
    table.loc[6, "kind"] = None
    return table


@pytest.fixture(scope="module")
def chosen_table(table):
    return choose(*table)


def test_tables_with_categories_and_gaps(chosen_table, new_table):
    exported = to_onnx(chosen_table, new_table)
    types = {entry.name: entry.type for entry in session(exported).get_inputs()}
    assert types == {
        "body_size": "tensor(double)",
        "gaps": "tensor(double)",
        "colour": "tensor(string)",
        "flag": "tensor(bool)",
        "count": "tensor(int64)",
        "kind": "tensor(string)",
        "single": "tensor(float)",
    }
    assert_same_classifier(chosen_table, exported, new_table)
    assert_same_classifier(chosen_table, exported, new_table[4:5])
    names = json.loads({entry.key: entry.value for entry in exported.metadata_props}["feature_names"])
    assert names == list(new_table.columns)


def test_missing_and_unknown_categories_differ(chosen_table, new_table):
    exported = to_onnx(chosen_table, new_table, outputs="coordinates")
    alike = pandas.concat([new_table[:1]] * 3, ignore_index=True)
    alike["colour"] = ["purple", None, "red"]
    unknown, missing, red = run(exported, alike)["coordinates"]
    np.testing.assert_allclose([unknown, missing, red], chosen_table.transform(alike), atol=1e-8)
    assert np.abs(unknown - missing).max() > 1e-6


def test_tables_of_polars(table, new_table):
    X, y = table
    X, new = (polars.DataFrame(each.astype(object).where(each.notna(), None).to_dict("list")) for each in (X, new_table))
    fitted = choose(X, y)
    assert_same_classifier(fitted, to_onnx(fitted, new), new)


def test_the_type_of_numbers_in_a_table(chosen_table, new_table):
    exported = to_onnx(chosen_table, new_table, dtype=np.float32)
    types = [entry.type for entry in session(exported).get_inputs()]
    assert types.count("tensor(float)") == 4
    numbers = dict.fromkeys(("body size", "gaps", "count", "single"), np.float32)
    assert run(exported, new_table.astype(numbers))["probabilities"].dtype == np.float32


def test_a_table_of_numbers_may_come_as_an_array(wine):
    X, y, new = wine
    names = [f"feature {index}" for index in range(13)]
    fitted = choose(pandas.DataFrame(X, columns=names), y)
    exported = to_onnx(fitted)
    found = run(exported, new)
    np.testing.assert_allclose(found["probabilities"], fitted.predict_proba(pandas.DataFrame(new, columns=names)), atol=1e-6)
    assert json.loads(exported.metadata_props[0].value) == names


def test_a_table_with_categories_cannot(chosen_table):
    with pytest.raises(ValueError, match="categories such as 'blue' would get numbers: give some rows of the table as X"):
        to_onnx(chosen_table)


PREPARATIONS = {
    "indicators": SimpleImputer(strategy="median", add_indicator=True),
    "no indicators": SimpleImputer(strategy="mean"),
    "constant": SimpleImputer(strategy="constant", fill_value=-1.5),
    "quantiles": QuantileTransformer(n_quantiles=30),
    "few quantiles": QuantileTransformer(n_quantiles=2),
    "all quantiles": QuantileTransformer(n_quantiles=60),
    "one-hot numbers": OneHotEncoder(handle_unknown="ignore", sparse_output=False),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", PREPARATIONS)
def test_preparations(name, dtype):
    rng = np.random.default_rng(0)

    def draw(n):
        rows = np.column_stack(
            [
                rng.normal(size=n) + 1e4,
                rng.integers(0, 2, n),
                rng.integers(0, 4, n) / 4,
                np.full(n, 3.7),
                np.zeros(n),
                np.exp(5 * rng.normal(size=n)),
            ]
        )
        rows[rng.random((n, 6)) < 0.2] = np.nan
        return rows.astype(dtype)

    X, new = draw(60), draw(80)
    new[:5], new[5:10] = 1e6, -1e6
    new[10:40] = X[:30]
    fitted = PREPARATIONS[name].fit(X)
    found = run(to_onnx(fitted, new), new)["variable"]
    np.testing.assert_allclose(found, fitted.transform(new), rtol=TOLERANCE[np.dtype(dtype)], atol=1e-7)


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
@pytest.mark.parametrize("kept", [True, False])
def test_features_without_values(kept, waveform):
    X, y, new = waveform
    X = X.copy()
    X[:, 3] = np.nan
    imputer = SimpleImputer(add_indicator=True, keep_empty_features=kept)
    fitted = make_pipeline(imputer, LearnedKernelMetric()).fit(X, y)
    assert fitted[-1].n_features_in_ == 21 + kept
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))


@pytest.mark.parametrize("dtype", TYPES)
def test_missing_may_be_a_number(dtype, waveform):
    X, y, new = waveform
    X, new = X.round(1), new.round(1).astype(dtype)
    fitted = make_pipeline(SimpleImputer(missing_values=0.0, add_indicator=True), LearnedKernelMetric()).fit(X, y)
    assert fitted[-1].n_features_in_ > 21
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))


def test_steps_that_do_nothing(waveform):
    X, y, new = waveform
    fitted = make_pipeline("passthrough", LearnedKernelMetric(), None, "passthrough").fit(X, y)
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))
    voting = make_pipeline("passthrough", LearnedKernelMetric(), KNeighborsClassifier()).fit(X, y)
    search = MetricSearchCV(make_pipeline(StandardScaler(), LMNN()), {"standardscaler": ["passthrough"]}, cv=2).fit(X, y)
    for model in (voting, search):
        np.testing.assert_allclose(run(to_onnx(model, new), new)["probabilities"], model.predict_proba(new))


@pytest.mark.parametrize("columns", [["body size", "gaps"], [0, 1], slice(0, 2), np.arange(7) < 2])
def test_columns_by_name_or_position(columns, table, new_table):
    X, y = table
    encoder = ColumnTransformer(
        [("words", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour"]), ("numbers", SimpleImputer(), columns)]
    )
    fitted = Pipeline([("encode", encoder), ("scale", StandardScaler()), ("metric", LearnedKernelMetric())]).fit(X, y)
    assert_same(run(to_onnx(fitted, new_table), new_table)["coordinates"], fitted.transform(new_table))


@pytest.mark.parametrize("handle_unknown", ["error", "ignore"])
def test_what_is_not_ours_to_convert_is_left_to_skl2onnx(handle_unknown, table):
    X, y = table
    words = X[["kind"]].astype(object)
    one_hot = OneHotEncoder(drop="first", handle_unknown=handle_unknown, sparse_output=False)
    fitted = make_pipeline(one_hot, LearnedKernelMetric(kernel="linear")).fit(words, y)
    np.testing.assert_allclose(run(to_onnx(fitted, words), words)["coordinates"], fitted.transform(words), atol=1e-5)


def test_names_of_columns_do_not_meet_those_inside(waveform):
    X, y, new = waveform
    names = ["x", "z", "difference", "share", "before", "loop", "constant", "scan", "coordinates_", "label"]
    X, new = (pandas.DataFrame(rows[:, 5:15], columns=names) for rows in (X, new))
    fitted = LearnedKernelMetric(kernel="laplacian").fit(X, y)
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))


def test_tables_that_do_not_fit():
    table, y = load_iris(return_X_y=True, as_frame=True)
    fitted = LearnedKernelMetric().fit(table, y)
    with pytest.raises(ValueError, match=r"X has the columns \['petal width.* fitted on \['sepal length.*in this order"):
        to_onnx(fitted, table[table.columns[::-1]])
    with pytest.raises(ValueError, match=r"input 'petal width \(cm\)' holds strings where the model takes numbers"):
        to_onnx(fitted, table.astype({"petal width (cm)": str}))


def test_metadata(waveform):
    X, y, _ = waveform
    exported = to_onnx(LearnedKernelMetric().fit(X, y))
    assert exported.producer_name == "outmetric"
    assert exported.graph.name == "LearnedKernelMetric"
    assert not exported.metadata_props
    table, classes = load_iris(return_X_y=True, as_frame=True)
    exported = to_onnx(LearnedKernelMetric().fit(table, classes))
    assert json.loads(exported.metadata_props[0].value) == list(table.columns)


class Doubling(TransformerMixin, BaseEstimator):
    """A step of somebody's own."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return 2 * X


def test_errors(waveform):
    X, y, _ = waveform
    for unfitted in (
        LearnedKernelMetric(),
        MetricClassifier(),
        MetricRegressor(),
        make_pipeline(StandardScaler(), LMNN()),
        MetricSearchCV(LMNN(), {}),
    ):
        with pytest.raises(NotFittedError):
            to_onnx(unfitted, X)
        with pytest.raises(NotFittedError):
            skl2onnx.to_onnx(unfitted, X)
    with pytest.raises(NotFittedError, match="refit=False"):
        to_onnx(MetricSearchCV(LMNN(), {}, refit=False, cv=2).fit(X, y), X)
    by_function = LearnedKernelMetric(kernel=lambda x, z: float(x @ z)).fit(X, y)
    with pytest.raises(ValueError, match="by a Python function cannot become an ONNX graph; use one of rbf, exponential"):
        to_onnx(by_function, X)
    precomputed = LearnedKernelMetric(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="given by its values cannot become an ONNX graph"):
        to_onnx(precomputed, X @ X.T)
    matrices = FixedKernelMetric(kernel=kernels.Callable(lambda x, z: (x @ z) * np.eye(2), 2)).fit(X, y)
    with pytest.raises(ValueError, match="matrix kernel of type Callable cannot become an ONNX graph"):
        to_onnx(matrices, X)
    normal = QuantileTransformer(n_quantiles=20, output_distribution="normal")
    for step, said in {Doubling(): "Doubling", normal: "output_distribution='normal'"}.items():
        with pytest.raises(ValueError, match=f"a step of this Pipeline cannot be converted.*{said}"):
            to_onnx(make_pipeline(step, LearnedKernelMetric()).fit(X, y), X)
    fitted = LearnedKernelMetric().fit(X, y)
    with pytest.raises(ValueError, match=r"X has the shape \(60, 20\); expected are rows with 21 features"):
        to_onnx(fitted, X[:, 1:])
    with pytest.raises(ValueError, match="X is an array of object"):
        to_onnx(fitted, X.astype(object))
    with pytest.raises(ValueError, match="dtype must be float32 or float64, not 'int64'"):
        to_onnx(fitted, X, dtype="int64")
    words = LearnedKernelMetric(kernel=lambda s, t: float(s[0] == t[0])).fit(["ab", "ac", "b", "bc"], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="does not say how many features it takes"):
        to_onnx(words)


def test_indicators_that_skl2onnx_leaves_out_are_noticed(wine):
    X, y, new = wine
    register()
    fitted = make_pipeline(SimpleImputer(add_indicator=True), LearnedKernelMetric(bandwidth=100.0)).fit(X, y)
    with pytest.raises(ValueError, match=r"was fitted on 15 columns and gets 13.*use outmetric.export.to_onnx"):
        skl2onnx.to_onnx(fitted, new)
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))


def test_categories_that_are_the_same_string():
    table = pandas.DataFrame({"word": ["", None, "a", "b"] * 5})
    fitted = make_pipeline(OneHotEncoder(handle_unknown="ignore", sparse_output=False), LearnedKernelMetric(kernel="linear"))
    fitted.fit(table, np.arange(20) % 2)
    with pytest.raises(ValueError, match="not distinct as strings, where a missing value is ''"):
        to_onnx(fitted, table)


@pytest.mark.parametrize("kind", [bool, str, object])
def test_truth_values_come_in_several_spellings(kind):
    flags = np.arange(20) % 3 == 0
    table = pandas.DataFrame({"flag": pandas.Series(flags).astype(kind)})
    fitted = make_pipeline(OneHotEncoder(handle_unknown="ignore", sparse_output=False), LearnedKernelMetric(kernel="linear"))
    fitted.fit(table, flags)
    expected = fitted.transform(table)
    for yes, no in (("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("1", "0"), (1, 0), (1.0, 0.0), (True, False)):
        spelled = pandas.DataFrame({"flag": np.where(flags, yes, no)})
        assert_same(run(to_onnx(fitted, spelled), spelled)["coordinates"], expected)
    unknown = pandas.DataFrame({"flag": ["yes", "2"]})
    lower, upper = run(to_onnx(fitted, unknown), unknown)["coordinates"]
    np.testing.assert_array_equal(lower, upper)
    assert np.abs(expected - lower).max(axis=1).min() > 1e-6


def test_words_that_differ_by_their_letters_only_stay_apart():
    table = pandas.DataFrame({"word": ["true", "True", "false"] * 7})
    fitted = make_pipeline(OneHotEncoder(handle_unknown="ignore", sparse_output=False), LearnedKernelMetric(kernel="linear"))
    fitted.fit(table, np.arange(21) % 3)
    assert_same(run(to_onnx(fitted, table), table)["coordinates"], fitted.transform(table))
    with pytest.raises(ValueError, match="would get numbers"):
        to_onnx(fitted, pandas.DataFrame({"word": [1.0]}))


def test_the_extra_is_named_if_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'outmetric\[onnx\]'"):
        register()


@exportable(lambda graph, model, variables: graph("Mul", graph.rows(variables), 2.0), lambda model: model.n_features_in_)
class ExportableDoubling(Doubling):
    """A step of somebody's own that says how it is exported."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return super().fit(X, y)


@pytest.mark.parametrize("dtype", TYPES)
def test_steps_of_others_say_how_they_are_exported(dtype, waveform):
    X, y, new = waveform
    new = new.astype(dtype)
    fitted = make_pipeline(StandardScaler(), ExportableDoubling(), LearnedKernelMetric()).fit(X, y)
    assert_same(run(to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))
    assert_same(run(skl2onnx.to_onnx(fitted, new), new)["coordinates"], fitted.transform(new))
    assert_same(run(to_onnx(ExportableDoubling().fit(X), new), new)["variable"], 2 * new)


@pytest.mark.parametrize(
    ("model", "tuples"),
    [
        (PairsITML(), [[0, 1], [0, 70]]),
        (TripletsLMNN(), [[0, 1, 70], [70, 71, 0]]),
        (QuadrupletsKernelLMNN(3), [[0, 1, 0, 70], [70, 71, 2, 72]]),
    ],
)
def test_classifiers_of_tuples_are_exported_as_maps(model, tuples):
    X = load_iris().data
    model.fit(X[tuples], [1, -1])
    found = run(to_onnx(model, X), X)
    np.testing.assert_allclose(found["coordinates"], model.transform(X), rtol=1e-6, atol=1e-6)
