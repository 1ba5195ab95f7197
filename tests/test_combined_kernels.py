"""Are sums and products of scalar kernels those of their values, and groups of columns compared each by its own kernel?"""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import scale

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV
from outmetric.kernels import Columns, Forest, Scalar, ScalarProduct, ScalarSum, Separable, Spectrum

X, y = load_wine(return_X_y=True)
X = scale(X)
TRAIN, TEST = np.arange(0, 178, 3), np.arange(1, 178, 3)
RBF, LAPLACIAN, LINEAR = Scalar("rbf", bandwidth=3.0), Scalar("laplacian", bandwidth=5.0), Scalar("linear")


def rbf(one, others):
    return rbf_kernel(one, others, gamma=1 / 18)


def laplacian(one, others):
    return laplacian_kernel(one, others, gamma=1 / 5)


CASES = {
    "sum": (RBF + 0.5 * LAPLACIAN, lambda a, b: rbf(a, b) + 0.5 * laplacian(a, b)),
    "three": (2 * (RBF + LINEAR) + LAPLACIAN, lambda a, b: 2 * rbf(a, b) + 2 * linear_kernel(a, b) + laplacian(a, b)),
    "scaled": (0.3 * RBF, lambda a, b: 0.3 * rbf(a, b)),
    "product": (RBF * LAPLACIAN, lambda a, b: rbf(a, b) * laplacian(a, b)),
    "both": ((RBF + LINEAR * 0.1) * LAPLACIAN * 2, lambda a, b: 2 * (rbf(a, b) + 0.1 * linear_kernel(a, b)) * laplacian(a, b)),
    "by name": ("linear" + RBF, lambda a, b: rbf(a, b) + linear_kernel(a, b)),
}


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    kernel, expected = CASES[case]
    few = X[TEST[:9]]
    np.testing.assert_allclose(kernel.cross(few, X[TRAIN]), expected(few, X[TRAIN]), atol=1e-12)
    np.testing.assert_allclose(kernel.evaluator(X[TRAIN], np.float64)(few), expected(few, X[TRAIN]), atol=1e-12)
    assert kernel.evaluator(X[TRAIN], np.float32)(few).dtype == np.float32
    gram = expected(X[TRAIN], X[TRAIN])
    np.testing.assert_allclose(kernel.gram(X[TRAIN]), gram, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X[TRAIN]), np.diag(gram), atol=1e-12)
    np.testing.assert_allclose(kernel.columns(X[TRAIN])([2, 4]), gram[:, [2, 4]], atol=1e-12)
    np.testing.assert_allclose(kernel.lazy_gram(X[TRAIN]) @ np.eye(len(TRAIN)), gram, atol=1e-12)
    weights = np.random.default_rng(0).normal(size=(len(TRAIN), 2))
    np.testing.assert_allclose(kernel.expansion(X[TRAIN], weights)(few), expected(few, X[TRAIN]) @ weights, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", [LearnedKernelMetric, FixedKernelMetric])
def test_fits_files_and_graphs(case, model, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    from outmetric.export import to_onnx

    kernel, expected = CASES[case]
    found = model(kernel=kernel).fit(X[TRAIN], y[TRAIN])
    by_matrix = model(kernel="precomputed").fit(expected(X[TRAIN], X[TRAIN]), y[TRAIN])
    np.testing.assert_allclose(found.transform(X[TEST]), by_matrix.transform(expected(X[TEST], X[TRAIN])), atol=1e-5)
    outmetric.save(found, tmp_path / "model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").transform(X), found.transform(X))
    session = onnxruntime.InferenceSession(to_onnx(found, X).SerializeToString())
    np.testing.assert_allclose(session.run(["coordinates"], {"X": X})[0], found.transform(X), atol=1e-6)


def test_the_parts_are_resolved_and_named():
    kernel = Forest(n_estimators=5) + 0.5 * Scalar("rbf")
    assert kernel.supervised
    model = LearnedKernelMetric(kernel=kernel, random_state=0).fit(X, y)
    summary = model.summary()
    assert "forest + 0.5 * rbf" in summary
    assert "rbf bandwidth" in summary
    (resolved,) = model.metric_.kernel.scalars
    assert not resolved.supervised
    assert (2 * (RBF + LINEAR)).name == "2 * rbf + 2 * linear"
    assert ((RBF + LINEAR) * LAPLACIAN).name == "(rbf + linear) * laplacian"


@pytest.mark.parametrize("combine", [lambda a, b: a + 0.5 * b, lambda a, b: a * b])
def test_forests_in_sums_and_products(combine, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    from outmetric.export import to_onnx

    model = LearnedKernelMetric(kernel=combine(Forest(n_estimators=10), Scalar("rbf")), random_state=0).fit(X[TRAIN], y[TRAIN])
    forest, gaussian = model.metric_.kernel.scalars[0].kernels
    expected = combine(forest.values(X[TEST], X[TRAIN]), gaussian.values(X[TEST], X[TRAIN]))
    np.testing.assert_allclose(model.metric_.kernel.scalars[0].values(X[TEST], X[TRAIN]), expected, atol=1e-14)
    outmetric.save(model, tmp_path / "model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").transform(X), model.transform(X))
    session = onnxruntime.InferenceSession(to_onnx(model, X).SerializeToString())
    np.testing.assert_allclose(session.run(["coordinates"], {"X": X})[0], model.transform(X), atol=1e-6)


def test_a_search_equals_that_of_scikit_learn():
    grid = {"kernel": [Forest(n_estimators=40) + Scalar("rbf"), RBF * LAPLACIAN], "regression_weight": [0.3, 3.0]}
    folds, metric = StratifiedKFold(3, shuffle=True, random_state=0), LearnedKernelMetric(random_state=0)
    labels = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 0, y)
    ours = MetricSearchCV(metric, grid, cv=folds, n_neighbors=[3], scoring="accuracy").fit(X, labels)
    named = {f"learnedkernelmetric__{name}": values for name, values in grid.items()}
    theirs = GridSearchCV(make_pipeline(metric, KNeighborsClassifier(3)), named, cv=folds).fit(X, labels)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-12)


def test_strings():
    words = np.array(["banana", "bandana", "pepper", "paper"], dtype=object)
    kernel = Spectrum(2) + 0.5 * Scalar(Spectrum(3))
    np.testing.assert_allclose(kernel.gram(words), Spectrum(2)(words) + 0.5 * Spectrum(3)(words))


@pytest.mark.parametrize(
    ("combine", "error", "message"),
    [
        (lambda: -1 * RBF, ValueError, "finite number >= 0, not by -1"),
        (lambda: RBF * np.inf, ValueError, "finite number >= 0"),
        (lambda: RBF * np.nan, ValueError, "finite number >= 0"),
        (lambda: RBF + 1, TypeError, "multiplied by numbers"),
        (lambda: RBF + Separable("rbf"), TypeError, "Separable"),
        (lambda: Separable("rbf") + RBF, ValueError, "Separable"),
        (lambda: RBF * Separable("rbf"), TypeError, "Separable"),
        (lambda: RBF + Scalar("precomputed"), ValueError, "kernel values"),
        (lambda: RBF + "nonsense", ValueError, "not known"),
        (lambda: ScalarSum(()), ValueError, "at least one"),
        (lambda: ScalarSum((RBF,), (1.0, 2.0)), ValueError, "as many weights"),
        (lambda: ScalarProduct("rbf"), ValueError, "sequence"),
    ],
)
def test_what_is_refused(combine, error, message):
    with pytest.raises(error, match=message):
        combine()


pandas = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
KINDS = RNG.integers(3, size=120)
TABLE = pandas.DataFrame(
    {
        "age": RNG.normal(size=120) + KINDS,
        "name": [RNG.choice(["banana", "bandana", "pepper", "paper", "ananas"][kind : kind + 3]) for kind in KINDS],
        "unused": [None] * 120,
        "income": RNG.integers(100, size=120),
    }
)
LEARNED, NEW = TABLE.iloc[::2], TABLE.iloc[1::2]
NUMBERS = Scalar("rbf", bandwidth=2.0)


def by_hand(one, others, combine="product"):
    words = Spectrum(2)(list(one["name"]), list(others["name"]))
    numbers = rbf_kernel(one[["age", "income"]].to_numpy(float), others[["age", "income"]].to_numpy(float), gamma=1 / 8)
    return words * numbers if combine == "product" else words + numbers


@pytest.mark.parametrize("combine", ["product", "sum"])
@pytest.mark.parametrize("settings", [{}, {"n_landmarks": 60, "landmarks": "uniform"}])
@pytest.mark.parametrize("as_array", [False, True])
def test_columns(combine, settings, as_array, tmp_path):
    groups = [{("age", "income"): NUMBERS, "name": Spectrum(2)}, {(0, -1): NUMBERS, 1: Spectrum(2)}][as_array]
    first, new = [(LEARNED, NEW), (LEARNED.to_numpy(object), NEW.to_numpy(object))][as_array]
    model = LearnedKernelMetric(kernel=Columns(groups, combine), random_state=0, **settings).fit(first, KINDS[::2])
    expected = LearnedKernelMetric(kernel="precomputed").fit(by_hand(LEARNED, LEARNED, combine), KINDS[::2])
    found = model.transform(new)
    np.testing.assert_allclose(found, expected.transform(by_hand(NEW, LEARNED, combine)), atol=1e-4)
    outmetric.save(model, tmp_path / "model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").transform(new), found)
    distance = np.linalg.norm(found[0] - found[1])
    rows = new.to_numpy(object) if hasattr(new, "to_numpy") else new
    np.testing.assert_allclose(model.get_metric()(rows[0], rows[1]), distance, atol=1e-9)


def test_pairs_of_rows():
    model = LearnedKernelMetric(kernel=Columns({("age", "income"): NUMBERS, "name": Spectrum(2)})).fit(LEARNED, KINDS[::2])
    found = model.transform(NEW)
    rows = NEW.to_numpy(object)
    with pytest.warns(UserWarning, match="feature names"):
        distances = model.pair_distance(np.stack([rows[:5], rows[5:10]], axis=1))
    np.testing.assert_allclose(distances, np.linalg.norm(found[:5] - found[5:10], axis=1), atol=1e-9)


# A product is zero for rows that have nothing in common with any landmark; those fall together, and neighbours are then a matter of
# who comes first.
@pytest.mark.parametrize(
    ("landmarks", "combine"), [({}, "product"), ({}, "sum"), ({"n_landmarks": 30, "landmarks": "uniform"}, "sum")]
)
def test_a_search_over_kernels_of_columns(landmarks, combine):
    groups = {("age",): Forest(n_estimators=40), ("age", "income"): "rbf", "name": Spectrum(2)}
    grid = {
        "kernel": [Columns(groups, combine), Columns({**groups, "income": "laplacian"}, combine)],
        "regression_weight": [0.3, 3.0],
    }
    folds, metric = StratifiedKFold(3, shuffle=True, random_state=0), LearnedKernelMetric(random_state=0, **landmarks)
    ours = MetricSearchCV(metric, grid, cv=folds, n_neighbors=[3], scoring="accuracy").fit(TABLE, KINDS)
    named = {f"learnedkernelmetric__{name}": values for name, values in grid.items()}
    theirs = GridSearchCV(make_pipeline(metric, KNeighborsClassifier(3)), named, cv=folds).fit(TABLE, KINDS)
    assert np.isfinite(ours.cv_results_["mean_test_score"]).all()
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-12)
    assert (ours.predict(TABLE) == KINDS).mean() > 0.6


def test_the_name_of_a_kernel_of_columns():
    assert Columns({("age", "income"): "rbf", "name": Spectrum(2)}).name == "rbf of age, income * Spectrum(length=2) of name"


def fitted(groups, table=LEARNED):
    return LearnedKernelMetric(kernel=Columns(groups)).fit(table, KINDS[::2])


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: fitted({"size": "rbf"}), "no column 'size'"),
        (lambda: fitted({7: "rbf"}), "no column 7"),
        (lambda: fitted({("age", "name"): "rbf"}), "column 'name' is compared as a number"),
        (lambda: fitted({"unused": Spectrum(2)}), "column 'unused' has 60 missing"),
        (lambda: fitted({"unused": "rbf"}), "holds None in row 1"),
        (lambda: fitted({"age": Spectrum(2)}), "takes strings"),
        (lambda: fitted({"age": "rbf"}, LEARNED.assign(age=np.nan)), "'age' contains NaN"),
        (lambda: fitted({"age": "rbf"}).transform(NEW[["name", "age", "unused", "income"]]), "feature names"),
        (lambda: fitted({"age": "rbf"}, LEARNED["age"].to_numpy()), "Expected 2D"),
        (lambda: Columns({}), "a mapping of columns"),
        (lambda: Columns({"age": "precomputed"}), "kernel values"),
        (lambda: Columns({1.5: "rbf"}), "a name or position"),
        (lambda: Columns({"age": "rbf"}, "mean"), "'product' or 'sum'"),
        (lambda: Columns({"age": "rbf"}) + RBF, "table"),
        (lambda: LearnedKernelMetric(kernel=Columns({"age": "rbf"})).fit(iter([(LEARNED, KINDS[::2])])), "whole table"),
    ],
)
def test_tables_that_are_refused(fit, message):
    with pytest.raises(ValueError, match=message):
        fit()
