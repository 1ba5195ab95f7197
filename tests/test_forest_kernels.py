"""Are forest kernels the share of trees with a common leaf, learned from training parts only?"""

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_friedman1
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import outmetric
import outmetric.datasets
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV
from outmetric.baselines import KernelITML, KernelLMNN
from outmetric.kernels import Diagonal, Forest, Trees
from outmetric.paper.protocol import Trial, split
from outmetric.storage import ModelFileError

X, y = load_wine(return_X_y=True)
TRAIN, TEST = np.arange(0, 178, 3), np.arange(1, 178, 3)
FORESTS = [
    RandomForestClassifier(15, random_state=0).fit(X[TRAIN], y[TRAIN]),
    ExtraTreesClassifier(15, random_state=0, max_depth=3).fit(X[TRAIN], y[TRAIN]),
    RandomForestRegressor(15, random_state=0, min_samples_leaf=5).fit(X[TRAIN], X[TRAIN, 0]),
    RandomForestClassifier(15, random_state=0, max_leaf_nodes=6).fit(X[TRAIN], y[TRAIN]),
]


def same_leaves(forest, one, others):
    """The kernel by its definition."""
    left, right = forest.apply(one), forest.apply(others)
    values = np.zeros((len(one), len(others)))
    for i in range(len(one)):
        for j in range(len(others)):
            for tree in range(len(forest.estimators_)):
                values[i, j] += left[i, tree] == right[j, tree]
    return values / len(forest.estimators_)


@pytest.mark.parametrize("forest", FORESTS)
def test_leaves_are_those_of_scikit_learn(forest):
    trees = Trees.of(forest)
    # Between two numbers in single precision, also where a threshold is one of them.
    shaken = np.concatenate(
        [X, np.nextafter(X, np.inf), X.astype(np.float32).astype(np.float64) * (1 + 3e-8), X.astype(np.float32)]
    )
    thresholds = np.concatenate([tree.tree_.threshold for tree in forest.estimators_])
    at = np.tile(thresholds[:400, None], X.shape[1])
    for sample in (shaken, at, at.astype(np.float32), np.nextafter(at, np.inf)):
        np.testing.assert_array_equal(trees.apply(sample) - trees.roots, forest.apply(sample))
    np.testing.assert_array_equal(trees.apply(scipy.sparse.csr_array(X)), trees.apply(X))


@pytest.mark.parametrize("asked", [None, X])
def test_leaves_that_are_remembered_are_those_of_the_rows(asked):
    table = X[TRAIN].copy()
    trees = Forest(n_estimators=10).grow(table, np.random.default_rng(0), y[TRAIN], asked=asked)
    walked = pickle.loads(pickle.dumps(trees))  # which remembers nothing
    for rows in (table, X, X[TEST], table[:5]):
        np.testing.assert_array_equal(trees.apply(rows), walked.apply(rows))
    table += table.std(axis=0)  # in place
    np.testing.assert_array_equal(trees.apply(table), walked.apply(table))


@pytest.mark.parametrize("forest", FORESTS)
def test_values_are_shares_of_trees(forest):
    kernel, few = Forest(forest).trees, X[TEST[:20]]
    expected = same_leaves(forest, few, X[TRAIN])
    np.testing.assert_allclose(kernel.values(few, X[TRAIN]), expected, rtol=1e-15)
    np.testing.assert_allclose(Forest(forest).cross(few, X[TRAIN]), expected, rtol=1e-15)
    single = kernel.evaluator(X[TRAIN], np.float32)(few)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-6)
    gram = same_leaves(forest, X[TRAIN], X[TRAIN])
    np.testing.assert_allclose(kernel.gram(X[TRAIN]), gram, rtol=1e-15)
    np.testing.assert_allclose(kernel.lazy_gram(X[TRAIN]) @ np.eye(len(TRAIN)), gram, rtol=1e-14)
    np.testing.assert_allclose(kernel.columns(X[TRAIN])([3, 5]), gram[:, [3, 5]], rtol=1e-15)
    np.testing.assert_array_equal(kernel.diagonal(X), np.ones(len(X)))
    weights = np.random.default_rng(0).normal(size=(len(TRAIN), 3))
    np.testing.assert_allclose(kernel.expansion(X[TRAIN], weights)(few), expected @ weights, atol=1e-13)
    assert np.linalg.eigvalsh(gram)[0] > -1e-12


def forest_of(model):
    """The same forest as the model's, by what is promised of its seed."""
    rng = np.random.default_rng(np.random.RandomState(model.random_state).randint(2**31))
    return int(rng.integers(2**31))


@pytest.mark.parametrize("model", [LearnedKernelMetric, FixedKernelMetric])
@pytest.mark.parametrize("settings", [{}, {"solver": "cg"}])
@pytest.mark.parametrize(
    ("kernel", "grown"),
    [
        (Forest(n_estimators=20), RandomForestClassifier(20)),
        (Forest(n_estimators=20, kind="extra", max_features=2), ExtraTreesClassifier(20, max_features=2)),
        (
            Forest(n_estimators=20, min_samples_leaf=4, max_depth=3, n_jobs=1),
            RandomForestClassifier(20, min_samples_leaf=4, max_depth=3),
        ),
    ],
)
def test_a_fit_is_that_with_the_kernel_matrix_of_the_forest(model, settings, kernel, grown):
    found = model(kernel=kernel, random_state=3, **settings).fit(X[TRAIN], y[TRAIN])
    forest = grown.set_params(random_state=forest_of(found)).fit(X[TRAIN], y[TRAIN])
    expected = model(kernel="precomputed", **settings).fit(same_leaves(forest, X[TRAIN], X[TRAIN]), y[TRAIN])
    np.testing.assert_allclose(found.transform(X[TEST]), expected.transform(same_leaves(forest, X[TEST], X[TRAIN])), atol=1e-5)
    given = model(kernel=Forest(forest), **settings).fit(X[TRAIN], y[TRAIN])
    np.testing.assert_allclose(given.transform(X[TEST]), found.transform(X[TEST]), atol=1e-12)


def test_it_has_a_name():
    by_name = LearnedKernelMetric(kernel="forest", kernel_params={"n_estimators": 10}, random_state=0).fit(X, y)
    by_object = LearnedKernelMetric(kernel=Forest(n_estimators=10), random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_name.transform(X), by_object.transform(X))
    assert "forest" in by_name.summary()
    assert "n_estimators" in by_name.summary()
    other = LearnedKernelMetric(kernel="forest", kernel_params={"n_estimators": 10}, random_state=1).fit(X, y)
    assert np.abs(other.transform(X) - by_name.transform(X)).max() > 1e-3
    with pytest.raises(TypeError, match="no parameter 'trees'"):
        LearnedKernelMetric(kernel="forest", kernel_params={"trees": 10}).fit(X, y)


def test_real_targets_and_sparse_rows():
    points, targets = make_friedman1(150, random_state=0)
    targets = np.stack([targets, points[:, 0]], axis=1)
    model = LearnedKernelMetric(kernel=Forest(n_estimators=20), random_state=0).fit(points[:100], targets[:100])
    forest = RandomForestRegressor(20, random_state=forest_of(model)).fit(points[:100], targets[:100])
    expected = LearnedKernelMetric(kernel="precomputed").fit(same_leaves(forest, points[:100], points[:100]), targets[:100])
    found = model.transform(points[100:])
    np.testing.assert_allclose(found, expected.transform(same_leaves(forest, points[100:], points[:100])), atol=1e-5)
    rows = scipy.sparse.csr_matrix(points)
    # scikit-learn's trees of sparse rows are others, by how it draws features.
    forest = clone(forest).fit(rows[:100], targets[:100])
    expected = LearnedKernelMetric(kernel="precomputed").fit(same_leaves(forest, points[:100], points[:100]), targets[:100])
    found = clone(model).fit(rows[:100], targets[:100]).transform(rows[100:])
    np.testing.assert_allclose(found, expected.transform(same_leaves(forest, points[100:], points[:100])), atol=1e-5)


def test_permuted_labels_are_learned_by_nothing():
    """If any validation row's label had been seen, nearest neighbours in the forest's own space would know it."""
    points, labels = load_iris(return_X_y=True)
    scores = []
    for seed in range(6):
        permuted = np.random.default_rng(seed).permutation(labels)
        model = make_pipeline(LearnedKernelMetric(kernel=Forest(n_estimators=30), random_state=seed), KNeighborsClassifier())
        scores.append(cross_val_score(model, points, permuted, cv=StratifiedKFold(5, shuffle=True, random_state=seed)).mean())
    assert abs(np.mean(scores) - 1 / 3) < 0.06


def test_permuted_targets_are_learned_by_nothing():
    points, targets = make_friedman1(300, random_state=0)
    permuted = np.random.default_rng(0).permutation(targets)
    for train, test in KFold(3).split(points):
        model = LearnedKernelMetric(kernel=Forest(n_estimators=30, min_samples_leaf=5), collocation_weight=0.0, random_state=0)
        model.fit(points[train], permuted[train, None])
        assert r2_score(permuted[test], model.map(points[test])) < 0.05


@pytest.mark.slow
@pytest.mark.skipif("OUTMETRIC_DATA" not in os.environ, reason="the UCI files are not here (OUTMETRIC_DATA)")
def test_the_metric_adds_to_the_forest_that_it_is_made_of():
    """Robot, a tenth for training, the first ten splits of the paper's experiments, nothing tuned."""
    data = outmetric.datasets.load_uci("robot")
    gains = []
    for repeat in range(10):
        part = split(data.data, data.target, Trial(repeat, 0.1, "robot", "forest"))
        forest = RandomForestClassifier(200, random_state=repeat).fit(part.X_train, part.y_train)
        voters = make_pipeline(LearnedKernelMetric(kernel=Forest(forest)), KNeighborsClassifier(5)).fit(part.X_train, part.y_train)
        gains.append(voters.score(part.X_test, part.y_test) - forest.score(part.X_test, part.y_test))
    assert np.mean(gains) >= 0.01


@pytest.mark.parametrize("landmarks", [{}, {"n_landmarks": 40, "landmarks": "kmeans++"}])
def test_a_search_scores_as_scikit_learn_does(landmarks):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(len(y)) < 0.4, rng.permutation(y), y)  # noise, so that a leak shows
    metric = LearnedKernelMetric(random_state=0, **landmarks)
    grid = {"kernel": [Forest(n_estimators=40), Forest(n_estimators=40, kind="extra")], "regression_weight": [0.1, 10.0]}
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    ours = MetricSearchCV(metric, grid, cv=folds, n_neighbors=[3], scoring="accuracy").fit(X, labels)
    pipeline = make_pipeline(metric, KNeighborsClassifier(3))
    theirs = GridSearchCV(pipeline, {f"learnedkernelmetric__{name}": values for name, values in grid.items()}, cv=folds)
    theirs.fit(X, labels)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-12)
    np.testing.assert_allclose(ours.best_estimator_.transform(X[:5]), theirs.best_estimator_[0].transform(X[:5]), atol=1e-6)


def test_a_search_beyond_the_exact_samples_fits_fold_by_fold(monkeypatch):
    """More samples than those of exact fits bring landmarks in by themselves."""
    from outmetric.estimators import settings

    monkeypatch.setattr(settings, "EXACT_SAMPLES", 50)
    noise = np.random.default_rng(0).integers(2, size=len(X))
    metric = LearnedKernelMetric(kernel=Forest(n_estimators=30), random_state=0)
    search = MetricSearchCV(metric, {"regression_weight": [10.0]}, cv=4, n_neighbors=[5], scoring="accuracy").fit(X, noise)
    assert abs(search.best_score_ - 0.5) < 0.15
    assert search.best_estimator_.solver_ == "nystroem"


@pytest.mark.parametrize("how", ["uniform", "kmeans++", "leverage"])
def test_all_rows_as_landmarks_are_an_exact_fit(how):
    exact = LearnedKernelMetric(kernel=Forest(n_estimators=20, min_samples_leaf=3), random_state=0).fit(X[TRAIN], y[TRAIN])
    kernel = exact.metric_.kernel.scalars[0]
    near = LearnedKernelMetric(kernel=kernel, n_landmarks=len(TRAIN), landmarks=how, random_state=0).fit(X[TRAIN], y[TRAIN])
    np.testing.assert_allclose(near.transform(X[TEST]), exact.transform(X[TEST]), atol=1e-4)


def test_landmarks_learn_the_forest_from_all_rows(monkeypatch):
    seen = []
    resolve = Forest.resolve

    def spy(self, points, rng, targets=None):
        seen.append((points.shape, len(targets)))
        return resolve(self, points, rng, targets)

    monkeypatch.setattr(Forest, "resolve", spy)
    model = LearnedKernelMetric(kernel=Forest(n_estimators=5), n_landmarks=10, random_state=0).fit(X, y)
    assert seen == [(X.shape, len(y))]
    assert model.n_landmarks_ == 10


@pytest.mark.parametrize("method", [KernelLMNN, KernelITML])
def test_baselines(method):
    model = make_pipeline(method(kernel=Forest(n_estimators=20), random_state=0), KNeighborsClassifier(3))
    assert model.fit(X[TRAIN], y[TRAIN]).score(X[TEST], y[TEST]) > 0.85


@pytest.mark.parametrize(
    "kernel",
    [Forest(n_estimators=6), Forest(FORESTS[0]), "forest", Diagonal([Forest(n_estimators=4), "rbf"])],
)
def test_model_files(kernel, tmp_path):
    model = FixedKernelMetric(kernel=kernel, random_state=0).fit(X[TRAIN], y[TRAIN])
    outmetric.save(model, tmp_path / "model")
    loaded = outmetric.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), model.transform(X))
    again = loaded.fit(X[TEST], y[TEST]).transform(X)
    np.testing.assert_array_equal(again, clone(model).fit(X[TEST], y[TEST]).transform(X))


def test_the_number_of_processes_is_not_kept(tmp_path):
    outmetric.save(LearnedKernelMetric(kernel=Forest(n_estimators=3, n_jobs=2)).fit(X, y), tmp_path / "model")
    assert outmetric.load(tmp_path / "model").kernel.n_jobs is None


def arrays_of(trees):
    return {name: getattr(trees, name).copy() for name in ("roots", "left", "right", "feature", "threshold")}


def faults():
    trees = Trees.of(FORESTS[0])
    inner = int(np.flatnonzero(trees.left >= 0)[1])
    leaf = int(np.flatnonzero(trees.left < 0)[0])
    nowhere = len(trees.left)
    return [
        ("left", inner, inner, "come after"),
        ("left", inner, 0, "come after"),
        ("right", inner, nowhere, "come after"),
        ("right", inner, nowhere - 1, "same tree"),
        ("right", inner, -1, "come after"),
        ("left", inner, -2, "come after"),
        ("right", leaf, leaf + 1, "leaf of a tree"),
        ("feature", inner, 13, "feature"),
        ("feature", inner, -1, "feature"),
        ("threshold", inner, np.nan, "NaN"),
        ("roots", 0, 1, "one after the other"),
        ("roots", 2, 0, "one after the other"),
        ("roots", -1, nowhere, "one after the other"),
    ]


@pytest.mark.parametrize(("name", "place", "value", "message"), faults())
def test_trees_that_are_none(name, place, value, message):
    arrays = arrays_of(Trees.of(FORESTS[0]))
    arrays[name][place] = value
    with pytest.raises(ValueError, match=message):
        replace(Trees.of(FORESTS[0]), **arrays)


@pytest.mark.parametrize(
    "change",
    [
        {"left": np.zeros(3)},
        {"left": np.zeros(3, dtype=np.int32)},
        {"threshold": np.zeros(3)},
        {"roots": np.zeros((2, 2), dtype=np.int32)},
        {"roots": np.zeros(0, dtype=np.int32)},
        {"n_features": 0},
        {"n_features": "13"},
        {"feature": None},
        {"feature": np.zeros(10_000, dtype=np.int32)},
        {"threshold": np.zeros(10_000, dtype=np.float32)},
    ],
)
def test_files_with_other_things_than_trees(change):
    """What a file says passes through the constructor."""
    with pytest.raises(ValueError, match=r"arrays|begin|n_features"):
        replace(Trees.of(FORESTS[0]), **change)


@pytest.mark.parametrize("forest", FORESTS)
def test_what_a_point_costs_is_told_by_the_deepest_tree(forest):
    levels = 1 + max(tree.get_depth() for tree in forest.estimators_)
    assert Trees.of(forest).cost(X[TEST]) == len(TEST) * 15 * levels


@pytest.mark.parametrize("step", [0, 1])
def test_a_chain_costs_all_its_nodes(step):
    """Each node has the next ones, or the next one twice, as its children."""
    inner = np.arange(0, 600, 1 + step)
    left, right = np.full((2, 602), -1)
    left[inner], right[inner] = inner + 1, inner + 1 + step
    chain = Trees(np.array([0]), left, right, np.zeros(602, int), np.zeros(602, np.float32), 1)
    assert chain.cost(np.zeros((5, 1))) == 5 * 602


def test_a_file_with_a_circle_is_refused(tmp_path):
    model = LearnedKernelMetric(kernel=Forest(FORESTS[0])).fit(X[TRAIN], y[TRAIN])
    path = tmp_path / "model"
    trees = model.metric_.kernel.scalars[0]
    trees.left[np.flatnonzero(trees.left >= 0)[0]] = 0
    outmetric.save(model, path)
    with pytest.raises(ModelFileError, match="come after"):
        outmetric.load(path)


@pytest.mark.parametrize("model", [LearnedKernelMetric, FixedKernelMetric])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_onnx(model, dtype):
    onnxruntime = pytest.importorskip("onnxruntime")
    from outmetric.export import to_onnx

    fitted = model(kernel=Forest(n_estimators=25), regression_weight=1e4, random_state=0).fit(X[TRAIN], y[TRAIN])
    graph = to_onnx(fitted, X.astype(dtype))
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    rows = np.concatenate([X, np.nextafter(X, np.inf), X.astype(np.float32)]).astype(dtype)
    (found,) = session.run(["coordinates"], {"X": rows})
    np.testing.assert_allclose(found, fitted.transform(rows), rtol=0, atol={np.float32: 1e-6, np.float64: 1e-12}[dtype])


def test_a_forest_that_is_a_single_leaf_in_onnx():
    onnxruntime = pytest.importorskip("onnxruntime")
    from outmetric.export import to_onnx

    kernel = Forest(RandomForestClassifier(12, min_samples_leaf=60, random_state=0).fit(X, y)).trees
    assert (np.diff(kernel.roots) == 1).any()
    fitted = LearnedKernelMetric(kernel=kernel).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(fitted, X).SerializeToString())
    (found,) = session.run(["coordinates"], {"X": X})
    np.testing.assert_allclose(found, fitted.transform(X), atol=1e-12)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: Forest(RandomForestClassifier()), "a fitted forest of scikit-learn"),
        (lambda: Forest(LogisticRegression()), "a fitted forest of scikit-learn"),
        (lambda: Forest(100), "n_estimators=100"),
        (lambda: Forest(n_estimators=0), "n_estimators must be"),
        (lambda: Forest(kind="rotation"), "random, extra"),
        (lambda: Forest(max_depth=0), "max_depth must be"),
        (lambda: Forest().gram(X), "has learned nothing yet"),
        (lambda: Forest().resolve(X, np.random.default_rng(0)), "learns from targets"),
        (lambda: Forest().resolve(X, np.random.default_rng(0), np.ones(len(X), dtype=int)), "one class only, 1"),
        (lambda: LearnedKernelMetric(kernel=Forest()).fit(X, np.ones(len(X), dtype=int)), "class"),
        (lambda: LearnedKernelMetric(kernel=Forest()).fit(X), "requires y"),
        (lambda: LearnedKernelMetric(kernel=Forest(FORESTS[0])).fit(X[:, :5], y), "5 features"),
        (lambda: LearnedKernelMetric(kernel=Forest(n_estimators=3)).fit(X, y).transform(X * 1e40), "single precision"),
        (lambda: LearnedKernelMetric(kernel=Forest()).fit(iter([(X, y)])), "all rows at once"),
        (lambda: FixedKernelMetric(kernel=Diagonal([Forest(), "rbf"])).fit(iter([(X, y)])), "all rows at once"),
        (lambda: KernelITML(kernel=Forest()).fit_pairs(np.stack([X[:20], X[20:40]], axis=1), [1, -1] * 10), "learns from targets"),
    ],
)
def test_what_is_refused(fit, message):
    with pytest.raises(ValueError, match=message):
        fit()


def test_blocks_are_refused_unless_the_forest_is_given():
    with pytest.raises(AttributeError):
        _ = LearnedKernelMetric(kernel=Forest()).partial_fit

    def blocks():
        return iter([(X[::2], y[::2]), (X[1::2], y[1::2])])

    model = LearnedKernelMetric(kernel=Forest(FORESTS[0]), n_landmarks=30, random_state=0).fit(blocks)
    assert KNeighborsClassifier(3).fit(model.transform(X[TRAIN]), y[TRAIN]).score(model.transform(X[TEST]), y[TEST]) > 0.8
