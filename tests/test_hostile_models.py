"""Is a model's file refused that asks for more work, or room, than its size explains?"""

import itertools
import json
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_iris
from sklearn.impute import MissingIndicator
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stored_models import table_model
from tampering import forge
from threadpoolctl import threadpool_limits

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, kernels
from outmetric.baselines import LMNN
from outmetric.foundation import check_psd, how_stored
from outmetric.storage import ModelFileError, NotStorableError, reader, used_from

ALL = {"slice": [None, None, None]}
EQUAL_HASHES = [{"tuple": list(signs)} for signs in itertools.product([-1, -2], repeat=13)]  # -1 and -2 have the same hash


def array(name):
    return {"array": [name, False]}


def entry(kind, params=None, state=None):
    return {"class": kind, "params": params or {}, "state": state or {}}


def steps(indices):
    return {"steps": [{"tuple": [f"step {index}", {"object": index}]} for index in indices]}


def document(*entries):
    return json.dumps(
        {"version": 1, "scikit-learn": sklearn.__version__, "model": {"object": len(entries) - 1}, "objects": entries}
    )


def many_scalers():
    state = {"mean_": array("a"), "scale_": array("a"), "var_": array("a"), "n_features_in_": 50_000, "n_samples_seen_": 3}
    return document(*[entry("StandardScaler", state=state)] * 900, entry("Pipeline", steps(range(900)))), {"a": np.ones(50_000)}


def many_metrics():
    names = {"points": "p", "coefficients": "p", "metric_factor": "e", "offset": "o"}
    metric = entry("OutputMetric", {"kernel": {"object": 1}, **{name: array(short) for name, short in names.items()}})
    kernels = [entry("Separable", {"kernel": "linear"}), entry("KernelSum", {"kernels": [{"object": 0}] * 490, "weights": None})]
    holder = entry("LearnedKernelMetric", {"kernel_params": [{"object": 2 + k} for k in range(300)]})
    return document(*kernels, *[metric] * 300, holder), {"p": np.ones((50, 2)), "e": np.eye(2), "o": np.zeros(2)}


def metric_that_is_an_object():
    names = {"points": "p", "coefficients": "p", "metric_factor": "e", "offset": "o"}
    metric = entry("OutputMetric", {"kernel": {"object": 0}, **{name: array(short) for name, short in names.items()}})
    params = {"algorithm": "ball_tree", "leaf_size": 1, "metric": {"object": 1}}
    voters = entry("KNeighborsClassifier", params, {"points": array("p"), "targets": array("t"), "feature_names_in_": None})
    points = np.random.default_rng(0).normal(size=(5000, 2))
    arrays = {"p": points, "e": np.eye(2), "o": np.zeros(2), "t": np.arange(5000) % 2}
    return document(entry("Separable", {"kernel": "linear"}), metric, voters), arrays


def equal_keys():
    return document(entry("LearnedKernelMetric", {"kernel_params": {"dict": [[key, 0] for key in EQUAL_HASHES]}})), {}


def equal_categories():
    state = {"categories_": [{"objects": [EQUAL_HASHES, [len(EQUAL_HASHES)]]}], "n_features_in_": 1}
    return document(entry("OneHotEncoder", {}, state)), {}


def shared_matrix():
    one = entry("Separable", {"kernel": "linear", "output_matrix": array("a")})
    return document(*[one] * 100, entry("KernelSum", {"kernels": [{"object": k} for k in range(100)]})), {"a": np.eye(300)}


def large_shared_matrix():
    """Few kernels, each of which needs the factor of the same matrix."""
    one = entry("Separable", {"kernel": "linear", "output_matrix": array("a")})
    return document(*[one] * 8, entry("KernelSum", {"kernels": [{"object": k} for k in range(8)]})), {"a": np.eye(1000)}


def nested_pipelines():
    pairs = [entry("Pipeline", {"steps": [{"tuple": [name, {"object": k}]} for name in "ab"]}) for k in range(40)]
    return document(entry("StandardScaler"), *pairs), {}


def pipelines_of_three():
    threes = [entry("Pipeline", {"steps": [{"tuple": [name, {"object": k}]} for name in "abc"]}) for k in range(7)]
    return document(entry("StandardScaler"), *threes), {}


def pipelines_of_one():
    """scikit-learn asks the first step and the last for their tags, which are one, and so on."""
    state = {"mean_": array("a"), "scale_": array("a"), "var_": array("a"), "n_features_in_": 4, "n_samples_seen_": 3}
    ones = [entry("Pipeline", steps([k])) for k in range(40)]
    return document(entry("StandardScaler", state=state), *ones), {"a": np.ones(4)}


def many_within_many():
    holders = [entry("LearnedKernelMetric", {"kernel_params": [{"object": k}] * 30}) for k in range(3)]
    return document(entry("StandardScaler"), *holders), {}


def many_dates():
    names = {"first_": "f", "last_": "f", "middle_": "f", "cycles_": "c", "gaps_": "g"}
    state = {**{name: array(short) for name, short in names.items()}, "zones_": [None] * 20_000, "n_features_in_": 20_000}
    arrays = {"f": np.zeros(20_000), "c": np.ones((20_000, 4), bool), "g": np.ones(20_000, bool)}
    return document(entry("DateParts", {}, state)), arrays


def nested_searches():
    entries = [entry("StandardScaler")]
    for k in range(0, 80, 2):
        entries += [entry("Pipeline", {"steps": [{"tuple": [name, {"object": k}]} for name in "ab"]})]
        entries += [entry("MetricSearchCV", {"estimator": {"object": k + 1}, "param_grid": {"dict": []}})]
    return document(*entries), {}


def doubled_columns():
    both = [{"tuple": [name, "passthrough", ALL]} for name in "ab"]
    made = [entry("ColumnTransformer", {"transformers": both}, {"transformers_": both, "n_features_in_": 2**k}) for k in range(24)]
    return document(*made, entry("Pipeline", steps(range(24)))), {}


def many_transformers(kind):
    """Two hundred that share an array, and loop over its columns."""
    one, arrays = by_columns(kind)
    return document(*[one] * 200, entry("Pipeline", steps(range(200)))), arrays


def many_quantiles():
    return many_transformers("QuantileTransformer")


def many_powers():
    return many_transformers("PowerTransformer")


def one_transformer_used_often():
    one, arrays = by_columns("PowerTransformer")
    often = {"steps": [{"tuple": [f"step {k}", {"object": 0}]} for k in range(200)]}
    return document(one, entry("Pipeline", often)), arrays


def by_columns(kind):
    states = {
        "QuantileTransformer": {"n_quantiles_": 1, "quantiles_": array("a"), "references_": array("r")},
        "PowerTransformer": {"lambdas_": array("l")},
    }
    arrays = {"QuantileTransformer": {"a": np.zeros((1, 50_000)), "r": np.zeros(1)}, "PowerTransformer": {"l": np.ones(50_000)}}
    params = {"QuantileTransformer": {"n_quantiles": 1}, "PowerTransformer": {"standardize": False}}
    return entry(kind, params[kind], {**states[kind], "n_features_in_": 50_000}), arrays[kind]


def many_votes():
    voters = entry("KNeighborsClassifier", {}, {"points": array("p"), "targets": array("t"), "feature_names_in_": None})
    holder = entry("LearnedKernelMetric", {"kernel_params": [{"object": k} for k in range(2000)]})
    return document(*[voters] * 2000, holder), {"p": np.ones((6, 2)), "t": np.arange(6) % 2}


def votes_by_pairs():
    names = {"points": "p", "coefficients": "p", "metric_factor": "e", "offset": "o"}
    metric = entry("OutputMetric", {"kernel": {"object": 0}, **{name: array(short) for name, short in names.items()}})
    params = {"algorithm": "brute", "metric": {"object": 1}}
    voters = entry("KNeighborsClassifier", params, {"points": array("p"), "targets": array("t"), "feature_names_in_": None})
    arrays = {"p": np.ones((5000, 2)), "e": np.eye(2), "o": np.zeros(2), "t": np.arange(5000) % 2}
    return document(entry("Separable", {"kernel": "linear"}), metric, voters), arrays


def told_in_full():
    """A message about something that holds the same thing twice, and so on, would tell all of it."""
    pairs = [entry("Pipeline", {"steps": [{"tuple": [name, {"object": k}]} for name in "ab"]}) for k in range(8)]
    return document(entry("StandardScaler"), *pairs, entry("Scalar", {"function": {"object": 8}})), {}


def doubled_by_indicators():
    made = [entry("SimpleImputer", {"add_indicator": True})] * 24
    return document(*made, entry("Pipeline", steps(range(24)))), {}


def wide_sparse():
    points = {"csr": [array("d"), array("i"), array("r"), [1, 2**31 - 1], True]}
    metric = {
        "kernel": {"object": 0},
        "points": points,
        "coefficients": array("c"),
        "metric_factor": array("e"),
        "offset": array("o"),
    }
    arrays = {"d": np.ones(1), "i": np.zeros(1, np.int32), "r": np.array([0, 1], np.int32), "c": np.ones((1, 2))}
    kernel = entry("Separable", {"kernel": "linear"})
    return document(kernel, entry("OutputMetric", metric)), {**arrays, "e": np.eye(2), "o": np.zeros(2)}


def inverse_of_a_covariance():
    params = {"algorithm": "brute", "metric": "mahalanobis"}
    voters = entry("KNeighborsClassifier", params, {"points": array("p"), "targets": array("t"), "feature_names_in_": None})
    return document(voters), {"p": np.random.default_rng(0).normal(size=(6, 20_000)), "t": np.arange(6) % 2}


def shared_categories():
    state = {"categories_": [array("a")] * 3000, "n_features_in_": 3000}
    return document(entry("OneHotEncoder", {"sparse_output": False}, state)), {"a": np.arange(30_000.0)}


def wide_indicator():
    state = {"n_features_in_": 2**30, "_n_features": 2**30, "features_": array("a"), "_precomputed": False}
    return document(entry("MissingIndicator", {"features": "all"}, state)), {"a": np.arange(3)}


def wide_imputer():
    state = {"n_features_in_": 2**30, "statistics_": array("a"), "indicator_": None, "_fit_dtype": {"dtype": ["<f8", False]}}
    return document(entry("SimpleImputer", {}, state)), {"a": np.ones(3)}


def one_long_word():
    """In an array of words each takes the place of the longest."""
    return document(entry("Scalar", {"function": "cosine", "params": [["x" * 5000], *([[0]] * 20_000)]})), {}


def arrays_in_a_list():
    """An array of them has a copy of each."""
    return document(entry("Scalar", {"function": "cosine", "params": [array("a")] * 2000})), {"a": np.zeros(10_000)}


HOSTILE = {
    wide_indicator: "a MissingIndicator claims 1073741824 features",
    wide_imputer: "SimpleImputer claims 1073741824 features",
    one_long_word: "more memory than a file of its size",
    arrays_in_a_list: "more memory than a file of its size",
    many_scalers: "more work than a file of its size",
    many_metrics: "more work than a file of its size",
    metric_that_is_an_object: "must be found with algorithm='brute'",
    votes_by_pairs: "more work than a file of its size",
    many_quantiles: "more work than a file of its size",
    many_powers: "more work than a file of its size",
    one_transformer_used_often: "more work than a file of its size",
    many_votes: "more work than a file of its size",
    told_in_full: "a scalar kernel is a name or a function, not a Pipeline",
    equal_keys: "keys that are neither text nor numbers",
    equal_categories: "categories that are neither text nor numbers",
    shared_matrix: "more work than a file of its size",
    nested_pipelines: "models within models, more than 9 deep",
    nested_searches: "models within models, more than 9 deep",
    pipelines_of_one: "models within models, more than 9 deep",
    pipelines_of_three: "more than 1000 steps",
    many_within_many: r"made of .* others",
    many_dates: "more work than a file of its size",
    doubled_columns: r"makes a table 1\.68e\+07 times as wide",
    doubled_by_indicators: r"makes a table 1\.68e\+07 times as wide",
    wide_sparse: "claims 2147483647 columns",
    inverse_of_a_covariance: "more memory than a file of its size",
    shared_categories: "more memory than a file of its size",
}


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_files_that_ask_for_work_out_of_proportion(make, tmp_path):
    text, arrays = make()
    forge(tmp_path / "model", text, arrays)
    size = (tmp_path / "model").stat().st_size
    began = time.process_time()
    # Threads of BLAS that wait for others count as work, too.
    with threadpool_limits(1), pytest.raises(ModelFileError, match=HOSTILE[make]):
        outmetric.load(tmp_path / "model")
    assert time.process_time() - began < 10  # they took minutes, or never ended; seconds on a machine that does much else
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        outmetric.load(tmp_path / "model")
    assert tracemalloc.get_traced_memory()[1] < 64 * size + 2**26
    tracemalloc.stop()


def test_a_shared_matrix_is_not_factored_for_each_kernel(tmp_path, monkeypatch):
    factored = []
    monkeypatch.setattr("outmetric.kernels.matrix.check_psd", lambda *given: factored.append(1) or check_psd(*given))
    forge(tmp_path / "model", *large_shared_matrix())
    with pytest.raises(ModelFileError, match="more work than a file of its size"):
        outmetric.load(tmp_path / "model")
    assert len(factored) < 5  # of eight


def test_an_indicator_may_have_seen_more_columns_than_the_file_has_bytes(tmp_path):
    X = np.zeros((2, 50_000))
    X[0, 7] = np.nan
    outmetric.save(MissingIndicator().fit(X), tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < X.shape[1]
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").transform(X), [[True], [False]])


def test_a_row_is_found_beside_one_with_a_very_long_name():
    names = np.array(["x" * 5000, *map(str, range(20_000))], dtype=object)
    model = replace(table_model(), names=names, targets=np.zeros(20_001), coordinates=np.arange(20_001.0)[:, None])
    tracemalloc.start()
    assert model.row("6") == 7
    assert tracemalloc.get_traced_memory()[1] < 1e7
    tracemalloc.stop()


@pytest.mark.parametrize("kind", ["QuantileTransformer", "PowerTransformer"])
def test_a_transformer_of_many_columns_is_none_of_these(kind, tmp_path):
    one, arrays = by_columns(kind)
    forge(tmp_path / "model", document(one), arrays)
    assert outmetric.load(tmp_path / "model").n_features_in_ == 50_000
    forge(tmp_path / "model", document({**one, "state": {**one["state"], "n_features_in_": 49_999}}), arrays)
    with pytest.raises(ModelFileError):
        outmetric.load(tmp_path / "model")


@pytest.mark.parametrize(
    "estimator", [LearnedKernelMetric(), FixedKernelMetric(kernel=kernels.Separable("linear") + kernels.Separable("rbf")), LMNN()]
)
@pytest.mark.parametrize("voters", [KNeighborsClassifier, KNeighborsRegressor])
def test_neighbours_by_a_learned_metric_come_back(estimator, voters, tmp_path):
    X, y = (part[::10] for part in load_iris(return_X_y=True))
    metric = sklearn.clone(estimator).fit(X, y).get_metric()
    model = voters(3, metric=metric, algorithm="brute").fit(X, y)
    outmetric.save(model, tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X[::5] + 0.1), model.predict(X[::5] + 0.1))
    # The distances are those of the coordinates.
    distances, _ = again.kneighbors(X[:4] + 0.1, n_neighbors=2)
    places = metric.coordinates(X), metric.coordinates(X[:4] + 0.1)
    expected = np.linalg.norm(places[0][None] - places[1][:, None], axis=2)
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :2], rtol=1e-6)


@pytest.mark.parametrize("voters", [KNeighborsClassifier, KNeighborsRegressor])
def test_work_of_neighbours_is_that_of_their_metric(voters):
    """A learned metric is called for each pair of a row and a point; others take no more than their numbers."""
    X, y = load_iris(return_X_y=True)
    metric = LearnedKernelMetric().fit(X, y).get_metric()
    work = how_stored(voters).work
    assert work(voters(metric=metric, algorithm="brute").fit(X, y)) > len(X) * metric.cost()
    assert work(voters().fit(X, y)) == 0


def test_neighbours_by_a_learned_metric_that_are_not_stored(tmp_path):
    X, y = load_iris(return_X_y=True)
    metric = LearnedKernelMetric().fit(X, y).get_metric()
    with pytest.raises(NotStorableError, match=r"with algorithm='brute', and theirs is 'auto'; or put the metric's"):
        outmetric.save(KNeighborsClassifier(metric=metric), tmp_path / "model")
    many = np.tile(X, (20, 1))
    with pytest.raises(NotStorableError, match=r"a vote of 3000 neighbours by a learned metric takes too long to be stored"):
        outmetric.save(KNeighborsClassifier(metric=metric, algorithm="brute").fit(many, np.tile(y, 20)), tmp_path / "model")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version": 1', '"version": 1, "version": 1', "says something twice"),
        ('"params": {}', '"params": {"tol": 1, "tol": 2}', "says something twice"),
        ('"params": {}', '"params": {"tol": 1e99999}', "holds 1e99999 where a number should be"),
        ('"params": {}', '"params": {"tol": -1e309}', "holds -1e309 where a number should be"),
        ('"params": {}', f'"params": {{"tol": 0.{"1" * 100}}}', r"holds 0\.1+ where a number should be"),
        ('"params": {}', f'"params": {{"tol": {2**70}}}', "a number of 22 digits"),
        ('"params": {}', '"params": {"tol": {"number": ["<f8", [1, 2]]}}', "a number was expected, not list"),
        ("StandardScaler", r"\u001b[31mred\u0007\n", r"unknown class '\\x1b\[31mred\\x07\\n'"),
    ],
)
def test_documents_mean_one_thing_and_cannot_write_to_a_terminal(old, new, message, tmp_path):
    text = document(entry("StandardScaler"))
    assert old in text
    forge(tmp_path / "model", text.replace(old, new), {})
    with pytest.raises(ModelFileError, match=message) as caught:
        outmetric.load(tmp_path / "model")
    assert str(caught.value).isprintable()


def test_keys_of_usual_kinds_come_back_in_any_number(tmp_path):
    keys = {**{f"k{k}": k for k in range(5000)}, **{k: k for k in range(5000)}, 0.5: 1, None: 2, (1, "a"): 3, np.float32(0.25): 4}
    outmetric.save(LearnedKernelMetric(kernel_params=keys), tmp_path / "model")
    assert outmetric.load(tmp_path / "model").kernel_params == keys


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (entry("Pipeline", {"steps": [{"tuple": ["a", True]}]}), "a step that is a bool"),
        (entry("OrdinalEncoder", {}, {"categories_": [array("a")], "n_features_in_": 1}), "OrdinalEncoder.* has no attribute"),
        (entry("OneHotEncoder", {}, {"categories_": [[1.0]], "n_features_in_": 1}), "categories that are no array"),
        (entry("OneHotEncoder", {}, {"categories_": [array("a")], "n_features_in_": 2}), "."),
    ],
)
def test_parts_that_would_fail_later_are_refused_at_once(made, message, tmp_path):
    forge(tmp_path / "model", document(made), {"a": np.arange(3.0)} if '"a"' in json.dumps(made["state"]) else {})
    with pytest.raises(ModelFileError, match=message):
        outmetric.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "node"), [("d", [1.0]), ("d", {"objects": [["a"], [1]]}), ("i", [0]), ("i", array("f")), ("r", array("f"))]
)
def test_entries_of_sparse_matrices_are_arrays_of_numbers(name, node, tmp_path):
    text, arrays = wide_sparse()
    text = text.replace(str(2**31 - 1), "3").replace(json.dumps(array(name)), json.dumps(node))
    del arrays[name]
    forge(tmp_path / "model", text, {**arrays, "f": np.arange(2.0)} if node == array("f") else arrays)
    with pytest.raises(ModelFileError, match="the entries of a sparse matrix are none"):
        outmetric.load(tmp_path / "model")


def test_what_a_model_raises_because_of_its_file_is_told_as_such(tmp_path):
    def use():
        with used_from(tmp_path / "model"):
            vars(object())["mean_"]

    with pytest.raises(ModelFileError, match=r"model holds a model that cannot be used: TypeError"):
        use()


def test_work_is_counted_for_each_use_and_depth_is_not():
    one = reader.Extent(1, 2, 3, 4, 5)
    assert one + one == reader.Extent(2, 4, 6, 8, 5)


def test_models_are_saved_as_deep_as_they_are_loaded(tmp_path):
    model = StandardScaler().fit([[0.0], [2.0]])
    for _ in range(8):
        model = make_pipeline(model)
    outmetric.save(model, tmp_path / "model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").transform([[3.0]]), [[2.0]])
    with pytest.raises(NotStorableError, match="is within other models, more than 9 deep"):
        outmetric.save(make_pipeline(model), tmp_path / "model")
