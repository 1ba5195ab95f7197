"""Do weights mean repetition, everywhere?"""

import dask.array as da
import numpy as np
import oracles
import pytest
import scipy.sparse
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from peers import FitsOnce
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import get_scorer, recall_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricRegressor, MetricSearchCV, kernels
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN, projections
from outmetric.baselines.margins import Margins
from outmetric.baselines.projections import sample_pairs
from outmetric.foundation import check_sample_weight, class_weights
from outmetric.problem import ClassSimilarity, gaussian_similarity, matrix_similarity

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=N) > 0).astype(int) + (X[:, 1] > 0.8)
REAL = np.column_stack([np.sin(X[:, 0]), 10 * X[:, 1] ** 2])
TIMES = RNG.integers(0, 4, N)
ROWS = np.repeat(np.arange(N), TIMES)
NEW = RNG.normal(size=(20, 3))
NEAR = np.exp(-np.abs(np.subtract.outer(X[:, 0], X[:, 0])))
MODELS = (LearnedKernelMetric, FixedKernelMetric)
CASES = {
    "classes": (Y, {}),
    "a collocation weight": (Y, {"collocation_weight": 0.3}),
    "real targets": (REAL, {}),
    "one real target": (REAL[:, :1], {"collocation_weight": 0.0}),
    "fewer components": (REAL, {"n_components": 1}),
    "weights of classes": (Y, {"class_weight": {0: 2.5}}),
    "rounds": (Y, {"input_metric": "diagonal"}),
    "balanced classes and rounds": (Y, {"input_metric": "full", "class_weight": "balanced"}),
}


def off(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("solver", ["spectral", "dense", "cg"])
@pytest.mark.parametrize("case", CASES)
def test_whole_weights_are_repeated_rows(model, solver, case):
    y, settings = CASES[case]
    estimator = model(solver=solver, tol=1e-12, **settings)
    weighted = estimator.fit(X, y, sample_weight=TIMES)
    found, objective, terms = weighted.transform(NEW), weighted.objective_, weighted.objective_terms_
    repeated = estimator.fit(X[ROWS], y[ROWS])
    assert off(found, repeated.transform(NEW)) < 1e-8
    assert objective == pytest.approx(repeated.objective_, rel=1e-9)
    assert terms.collocation == pytest.approx(repeated.objective_terms_.collocation, rel=1e-6, abs=1e-12)
    assert weighted.status_.name == "CONVERGED"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("solver", ["spectral", "nystroem"])
def test_a_similarity_of_ones_own(model, kind, solver):
    settings = {"landmarks": X[:20]} if solver == "nystroem" else {}
    weighted = model(similarity=kind(NEAR), solver=solver, **settings).fit(X, Y, sample_weight=TIMES)
    repeated = model(similarity=kind(NEAR[np.ix_(ROWS, ROWS)]), solver=solver, **settings).fit(X[ROWS], Y[ROWS])
    assert off(weighted.transform(NEW), repeated.transform(NEW)) < 1e-8


def test_a_function_for_the_similarity():
    settings = {"similarity": lambda y: (y[:, None] == y).astype(float)}
    weighted, plain = (LearnedKernelMetric(**given).fit(X, Y, sample_weight=TIMES) for given in (settings, {}))
    assert off(weighted.transform(NEW), plain.transform(NEW)) < 1e-8


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("y", "settings"), [(Y, {}), (REAL, {"collocation_weight": 0.0}), (Y, {"class_weight": "balanced"})])
def test_landmarks_streams_chunks_and_calls(model, y, settings):
    estimator = model(landmarks=X[:25], **settings)
    expected = model(landmarks=X[:25], **settings).fit(X[ROWS], y[ROWS]).transform(NEW)
    assert off(estimator.fit(X, y, sample_weight=TIMES).transform(NEW), expected) < 1e-8

    def blocks():
        yield from ((X[start : start + 17], y[start : start + 17], TIMES[start : start + 17]) for start in range(0, N, 17))

    for rows in (blocks, blocks()):
        streamed = estimator.fit(rows)
        assert streamed.n_samples_fit_ == np.sum(TIMES > 0)
        assert off(streamed.transform(NEW), expected) < 1e-8
    for weights in (TIMES, da.from_array(TIMES, chunks=7)):
        chunked = estimator.fit(da.from_array(X, chunks=(17, 3)), da.from_array(y, chunks=13), sample_weight=weights)
        assert off(chunked.transform(NEW), expected) < 1e-8
    called = model(landmarks=X[:25], **settings)
    for part, targets, weights in blocks():
        called.partial_fit(part, targets, sample_weight=weights)
    assert off(called.transform(NEW), expected) < 1e-8
    before = called.transform(NEW)
    assert_array_equal(called.partial_fit(X[:5], y[:5], sample_weight=np.zeros(5)).transform(NEW), before)


@pytest.mark.parametrize("settings", [{"class_weight": "balanced"}, {"class_weight": {0: 3.0}}])
def test_rounds_over_blocks_and_chunks(settings):
    estimator = LearnedKernelMetric(landmarks=X[:25], input_metric="diagonal", **settings)
    expected = estimator.fit(X[ROWS], Y[ROWS]).transform(NEW)
    chunks = da.from_array(X, chunks=(17, 3)), da.from_array(Y, chunks=13)
    assert off(estimator.fit(*chunks, sample_weight=TIMES).transform(NEW), expected) < 1e-8
    streamed = estimator.fit(lambda: iter([(X[:30], Y[:30], TIMES[:30]), (X[30:], Y[30:], TIMES[30:])]))
    assert off(streamed.transform(NEW), expected) < 1e-8


def test_blocks_with_and_without_weights_may_be_mixed():
    estimator = LearnedKernelMetric(landmarks=X[:25])
    weights = np.concatenate([np.ones(30), TIMES[30:]])
    expected = estimator.fit(X, Y, sample_weight=weights).transform(NEW)
    mixed = estimator.fit(iter([(X[:30], Y[:30]), (X[30:], Y[30:], TIMES[30:])]))
    assert off(mixed.transform(NEW), expected) < 1e-10


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("solver", ["spectral", "cg", "nystroem"])
def test_ones_change_no_bit(model, solver):
    plain, weighted = (model(solver=solver, random_state=0).fit(X, Y, **given) for given in ({}, {"sample_weight": np.ones(N)}))
    assert_array_equal(plain.transform(NEW), weighted.transform(NEW))


@pytest.mark.parametrize("model", MODELS)
def test_balanced_classes_are_these_weights(model):
    given = np.random.default_rng(1).random(N) + 0.5
    for own in (None, given):
        counts = np.bincount(Y, own)
        expected = (counts.sum() / (3 * counts))[Y] * (1 if own is None else own)
        if own is None:
            assert_allclose(expected, compute_sample_weight("balanced", Y))
        by_class = model(class_weight="balanced").fit(X, Y, sample_weight=own)
        assert off(by_class.transform(NEW), model().fit(X, Y, sample_weight=expected).transform(NEW)) < 1e-10


def test_a_kernel_matrix_keeps_its_columns():
    K, K_new = rbf_kernel(X, gamma=0.3), rbf_kernel(NEW, X, gamma=0.3)
    for settings in ({}, {"n_landmarks": N, "landmarks": "uniform"}):
        weighted = LearnedKernelMetric(kernel="precomputed", **settings).fit(K, Y, sample_weight=TIMES)
        repeated = LearnedKernelMetric(kernel="precomputed").fit(K[np.ix_(ROWS, ROWS)], Y[ROWS])
        assert off(weighted.transform(K_new), repeated.transform(K_new[:, ROWS])) < 1e-8
        assert np.abs(weighted.coefficients_[TIMES == 0]).max() < 1e-8
    alone = np.where(Y == 2, 0, 1.0)
    assert LearnedKernelMetric(kernel="precomputed").fit(K, Y, sample_weight=alone).classes_.tolist() == [0, 1]


def test_kernels_of_several_outputs_and_words():
    diagonal = FixedKernelMetric(bandwidth=[1.0, 3.0])
    assert off(diagonal.fit(X, Y, sample_weight=TIMES).transform(NEW), diagonal.fit(X[ROWS], Y[ROWS]).transform(NEW)) < 1e-8
    assert off(diagonal.set_params(solver="cg").fit(X, Y, sample_weight=TIMES).transform(NEW), diagonal.transform(NEW)) < 1e-12
    blocks = FixedKernelMetric(kernel=kernels.Separable("rbf") + kernels.Diagonal(["linear", kernels.Scalar("rbf", 2.0)]))
    for solver in ("dense", "cg"):
        blocks.set_params(solver=solver)
        assert off(blocks.fit(X, Y, sample_weight=TIMES).transform(NEW), blocks.fit(X[ROWS], Y[ROWS]).transform(NEW)) < 1e-8
    words = np.array(["".join("ab"[int(value > 0)] for value in row) * 2 for row in RNG.normal(size=(N, 4))], dtype=object)
    spectrum = LearnedKernelMetric(kernel=kernels.Spectrum(2))
    weighted = spectrum.fit(words, Y, sample_weight=TIMES).transform(words[:9])
    assert off(weighted, spectrum.fit(words[ROWS], Y[ROWS]).transform(words[:9])) < 1e-8


def test_a_forest_does_not_know_weights_and_it_is_told():
    with pytest.warns(UserWarning, match="weights enter the map alone"):
        LearnedKernelMetric(kernel="forest", random_state=0).fit(X, Y, sample_weight=TIMES)


def test_many_rows_with_a_preconditioner():
    rng = np.random.default_rng(2)
    data = rng.normal(size=(1200, 3))
    labels, weights = (data[:, 0] > 0.3 * data[:, 1] ** 2).astype(int), rng.random(1200) * 3
    exact, iterated = (LearnedKernelMetric(solver=solver).fit(data, labels, sample_weight=weights) for solver in ("spectral", "cg"))
    assert iterated.status_.name == "CONVERGED"
    assert off(iterated.transform(NEW), exact.transform(NEW)) < 1e-5


@pytest.mark.parametrize("weights", [None, TIMES + 0.5])
def test_couplings_are_those_of_the_weighted_similarity(weights):
    """In scaled outputs P is lambda I + 2 gamma U^-1 Delta_w U^-1, with the Laplacian of s_ij w_i w_j."""
    W = np.ones(N) if weights is None else weights
    for S, similarity in (
        ((Y[:, None] == Y).astype(float), ClassSimilarity(Y, weights)),
        (NEAR, matrix_similarity(NEAR, N).__class__(NEAR, weights)),
    ):
        repeated = S * np.outer(W, W)
        delta = np.diag(repeated.sum(axis=1)) - repeated
        P = 0.7 * np.eye(N) + 2 * 0.3 * delta / np.outer(np.sqrt(W), np.sqrt(W))
        coupling = similarity.couple(0.7, 0.3)
        assert_allclose(coupling.apply(np.eye(N)), P, atol=1e-12)
        R = coupling.factor(np.eye(N))
        assert_allclose(R @ R.T, P, atol=1e-12)
        assert_allclose(coupling.factor(np.eye(N), transpose=True), R.T, atol=1e-12)
        assert_allclose(coupling.solve_factor(R), np.eye(N), atol=1e-10)
        K = rbf_kernel(X)
        assert_allclose(coupling.sandwich(K), R.T @ K @ R, atol=1e-11)
        degree = np.sum(W * ((S @ W) - np.diagonal(S))) / W.sum()
        assert similarity.mean_degree == pytest.approx(degree)


def test_the_width_of_real_targets_counts_weights():
    found, expected = gaussian_similarity(REAL, TIMES.astype(float)).matrix, gaussian_similarity(REAL[ROWS]).matrix
    assert_allclose(found[np.ix_(ROWS, ROWS)], expected, atol=1e-12)


def test_the_objective_is_the_naive_sum():
    weights = RNG.random(N) + 0.1
    model = LearnedKernelMetric(collocation_weight=0.2, regression_weight=1.5).fit(X, Y, sample_weight=weights)
    S = (Y[:, None] == Y) * np.outer(weights, weights)
    F, targets = model.map(X), model.prototypes_[Y]
    near = 0.1 * sum(S[i, j] * np.sum((F[i] - F[j]) ** 2) for i in range(N) for j in range(N))
    assert model.objective_terms_.collocation == pytest.approx(near)
    assert model.objective_terms_.regression == pytest.approx(0.75 * np.sum(weights[:, None] * (F - targets) ** 2))
    K = oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, model.bandwidth_), X, X)
    C, B = model.coefficients_, model.output_matrix_
    assert model.objective_terms_.roughness == pytest.approx(0.5 * np.trace(C.T @ K @ C @ B))
    assert_allclose(F, K @ C @ B, atol=1e-10)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(N), "must be finite and not negative.*in 60 places"),
        (np.where(np.arange(N) == 7, np.nan, 1.0), "row 7: nan"),
        (np.full(N, np.inf), "row 0: inf"),
        (np.zeros(N), "zero for all rows"),
        (np.ones(N - 1), r"each of the 60 rows; its shape is \(59,\)"),
        (np.ones((N, 1)), r"its shape is \(60, 1\)"),
        (["a"] * N, "a number for each row"),
    ],
)
def test_weights_that_are_none(weights, message):
    search = MetricSearchCV(LearnedKernelMetric(), {}, cv=2)
    for estimator in (LearnedKernelMetric(), FixedKernelMetric(n_landmarks=20), search, MetricClassifier(time_budget=1)):
        with pytest.raises(ValueError, match=message):
            estimator.fit(X, Y, sample_weight=weights)
    with pytest.raises(ValueError, match=message):
        MetricRegressor(time_budget=1).fit(X, REAL, sample_weight=weights)
    with pytest.raises(ValueError, match=message):
        LearnedKernelMetric().partial_fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("even", "class_weight='even' is not known"),
        ({7: 1.0}, "names 7, which is no class of y: these are 0, 1, 2"),
        ({0: 0.0}, "positive numbers; for the class 0 it is 0.0"),
        ({0: "2"}, "positive numbers"),
        (2.0, "must be None, 'balanced' or a dict"),
    ],
)
def test_weights_of_classes_that_are_none(given, message):
    for estimator in (LearnedKernelMetric(class_weight=given), MetricClassifier(class_weight=given, time_budget=1)):
        with pytest.raises(ValueError, match=message):
            estimator.fit(X, Y)
    with pytest.raises(ValueError, match=message):
        LearnedKernelMetric(class_weight=given, n_landmarks=9).fit(iter([(X, Y)]))


def test_what_does_not_fit_together():
    with pytest.raises(ValueError, match="class_weight belongs to classes"):
        LearnedKernelMetric(class_weight="balanced").fit(X, REAL)
    partly = np.where(np.arange(N)[:, None] % 2 == 0, REAL, np.nan)
    with pytest.raises(ValueError, match="class_weight belongs to classes"):
        LearnedKernelMetric(class_weight="balanced", unlabeled="graph").fit(X, partly)
    with pytest.raises(ValueError, match="blocks of rows bring their own weights"):
        LearnedKernelMetric(n_landmarks=9).fit(iter([(X, Y)]), sample_weight=np.ones(N))
    with pytest.raises(ValueError, match="y has one class only"):
        LearnedKernelMetric().fit(X, Y, sample_weight=(Y == 0).astype(float))


def test_checked_weights():
    assert check_sample_weight(None, 3) is None
    assert check_sample_weight(np.ones(3), 3) is None
    assert_array_equal(check_sample_weight(2, 3), [2, 2, 2])
    assert_array_equal(class_weights({"b": 2}, np.array(["a", "b"]), np.array([3.0, 1.0])), [1, 2])
    assert class_weights(None, np.array([0, 1]), np.array([3.0, 1.0])) is None


def by_params(results):
    names = [tuple(sorted((name.split("__")[-1], str(value)) for name, value in params.items())) for params in results["params"]]
    return dict(zip(names, results["mean_test_score"], strict=True))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize(
    ("y", "settings"),
    [
        (Y, {}),
        (REAL[:, 0], {}),
        (Y, {"class_weight": "balanced", "input_metric": "diagonal"}),
        (Y, {"class_weight": "balanced", "landmarks": X[:40]}),
        (Y, {"input_metric": "diagonal", "landmarks": X[:40]}),
    ],
)
def test_searches_have_the_scores_of_a_grid_search(model, piped, y, settings):
    weights = np.random.default_rng(3).random(N) * 3 + 0.1
    voters, scoring = (KNeighborsClassifier(), "accuracy") if y is Y else (KNeighborsRegressor(), "r2")
    before = [("scale", StandardScaler())] if piped else []
    inner = Pipeline([*before, ("metric", model(**settings))]) if piped else model(**settings)
    third = ("n_rounds", [0, 1]) if "input_metric" in settings else ("bandwidth", [0.5, 2.0])
    grid = {"regression_weight": [0.1, 10.0], "collocation_weight": [0.0, "auto"], third[0]: third[1]}
    cv = KFold(3, shuffle=True, random_state=0)
    own = {f"metric__{name}" if piped else name: values for name, values in grid.items()}
    search = MetricSearchCV(inner, own, n_neighbors=[3, 5], cv=cv, scoring=scoring).fit(X, y, sample_weight=weights)
    other = GridSearchCV(
        Pipeline([*before, ("metric", model(**settings)), ("vote", voters)], memory=FitsOnce()),
        {**{f"metric__{name}": values for name, values in grid.items()}, "vote__n_neighbors": [3, 5]},
        cv=cv,
        scoring=scoring,
    ).fit(X, y, metric__sample_weight=weights)
    found, expected = by_params(search.cv_results_), by_params(other.cv_results_)
    assert found.keys() == expected.keys()
    assert_allclose([found[name] for name in expected], list(expected.values()), atol=1e-9)
    best = {name: value for name, value in search.best_params_.items() if name != "n_neighbors"}
    refitted = inner.set_params(**best).fit(X, y, **{"metric__sample_weight" if piped else "sample_weight": weights})
    assert off(search.transform(NEW), refitted.transform(NEW)) < 1e-8


def test_routed_weights():
    weights = np.random.default_rng(3).random(N) * 3 + 0.1
    grid, cv = {"metric__regression_weight": [0.1, 10.0]}, KFold(3, shuffle=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        scoring = get_scorer("accuracy").set_score_request(sample_weight=True)
        for scaled in (False, True):
            steps = [
                ("scale", StandardScaler().set_fit_request(sample_weight=scaled)),
                ("metric", LearnedKernelMetric().set_fit_request(sample_weight=not scaled)),
            ]
            search = MetricSearchCV(Pipeline(steps), grid, n_neighbors=3, cv=cv, scoring=scoring)
            other = GridSearchCV(Pipeline([*steps, ("vote", KNeighborsClassifier(3))]), grid, cv=cv, scoring=scoring)
            assert_allclose(
                search.fit(X, Y, sample_weight=weights).cv_results_["mean_test_score"],
                other.fit(X, Y, sample_weight=weights).cv_results_["mean_test_score"],
            )


def test_a_search_leaves_rows_out():
    """Also groups, weights of other steps, and rows of a kernel matrix."""
    weights = np.where(np.arange(N) % 4 == 0, 0, 1.0 + np.arange(N) % 3)
    rows = np.flatnonzero(weights)
    grid = {"regression_weight": [0.1, 10.0]}
    folds = [(np.arange(N)[np.arange(N) % 3 != fold], np.arange(N)[np.arange(N) % 3 == fold]) for fold in range(3)]
    places = np.cumsum(weights > 0) - 1
    fewer = [tuple(places[part[weights[part] > 0]] for part in fold) for fold in folds]
    K = rbf_kernel(X)
    for metric, data, new in (
        (LearnedKernelMetric(), (X, X[rows]), (NEW, NEW)),
        (LearnedKernelMetric(landmarks=X[:20]), (X, X[rows]), (NEW, NEW)),
        (
            LearnedKernelMetric(kernel="precomputed"),
            (K, K[np.ix_(rows, rows)]),
            (rbf_kernel(NEW, X), rbf_kernel(NEW, X[rows])),
        ),
    ):
        whole = MetricSearchCV(metric, grid, cv=folds).fit(data[0], Y, sample_weight=weights)
        part = MetricSearchCV(metric, grid, cv=fewer).fit(data[1], Y[rows], sample_weight=weights[rows])
        assert whole.n_samples_fit_ == len(rows)
        assert_allclose(whole.cv_results_["mean_test_score"], part.cv_results_["mean_test_score"], atol=1e-9)
        assert_array_equal(whole.predict(new[0]), part.predict(new[1]))
    alone = MetricSearchCV(LearnedKernelMetric(), grid, cv=2).fit(X, Y, sample_weight=(Y < 2).astype(float))
    assert alone.classes_.tolist() == [0, 1]
    cv = 2
    with pytest.raises(TypeError, match="takes X, y and sample_weight, not 'wishes'"):
        MetricSearchCV(LearnedKernelMetric(), grid, cv=cv).fit(X, Y, wishes=weights)


class TestAutomatic:
    def test_a_weight_of_zero_is_absence(self):
        data, y = load_iris(return_X_y=True)
        weights = (np.arange(150) % 3 > 0).astype(float)
        rows = np.flatnonzero(weights)
        whole = MetricClassifier(random_state=0).fit(data, y, sample_weight=weights)
        assert_array_equal(whole.predict_proba(data), MetricClassifier(random_state=0).fit(data[rows], y[rows]).predict_proba(data))

    def test_ones_change_no_bit(self):
        plain = MetricRegressor(random_state=0).fit(X, REAL)
        assert_array_equal(plain.predict(NEW), MetricRegressor(random_state=0).fit(X, REAL, np.ones(N)).predict(NEW))

    def test_a_rare_class_is_found_if_it_counts(self):
        data, y = make_classification(1600, 6, weights=[0.92], class_sep=0.6, flip_y=0.02, random_state=1)
        train = np.arange(1600) % 4 == 0
        plain, balanced = (
            MetricClassifier(class_weight=given, random_state=0).fit(data[train], y[train]) for given in (None, "balanced")
        )
        found = [recall_score(y[~train], model.predict(data[~train])) for model in (plain, balanced)]
        assert found[1] > found[0] + 0.15
        assert balanced.predict_proba(data[~train])[:, 1].mean() > 1.5 * plain.predict_proba(data[~train])[:, 1].mean()

    def test_noise_that_does_not_count_does_no_harm(self):
        rng = np.random.default_rng(4)
        data = rng.normal(size=(300, 2))
        y = data[:, 0] + data[:, 1] ** 2
        noisy = rng.random(300) < 0.3
        spoilt = np.where(noisy, rng.normal(size=300) * 20, y)
        plain, weighted = (
            MetricRegressor(random_state=0).fit(data, spoilt, sample_weight=given) for given in (None, np.where(noisy, 1e-3, 1.0))
        )
        assert weighted.score(data[~noisy], y[~noisy]) > 0.95 > plain.score(data[~noisy], y[~noisy])


BASELINES = {
    "LMNN": LMNN(n_neighbors=2),
    "KernelLMNN": KernelLMNN(5, n_neighbors=2),
    "ITML": ITML(random_state=0),
    "KernelITML": KernelITML(5, random_state=0),
}


class TestBaselines:
    """LMNN weighs anchors, ITML the pairs that it draws."""

    IMPORTANCE = np.random.default_rng(5).random(N) * 3 + 0.1
    SOME = np.flatnonzero(TIMES)

    @pytest.mark.parametrize("name", BASELINES)
    def test_ones_change_no_bit(self, name):
        plain = clone(BASELINES[name]).fit(X, Y).transform(NEW)
        assert_array_equal(plain, clone(BASELINES[name]).fit(X, Y, sample_weight=np.ones(N)).transform(NEW))

    @pytest.mark.parametrize("name", BASELINES)
    @pytest.mark.parametrize("weights", [(TIMES > 0) * 1.0, TIMES * 1.5])
    def test_a_weight_of_zero_is_absence(self, name, weights):
        whole = clone(BASELINES[name]).fit(X, Y, sample_weight=weights)
        part = clone(BASELINES[name]).fit(X[self.SOME], Y[self.SOME], sample_weight=weights[self.SOME])
        assert_array_equal(whole.transform(NEW), part.transform(NEW))
        assert whole.n_samples_fit_ == len(self.SOME)

    @pytest.mark.parametrize("name", BASELINES)
    def test_all_weights_matter(self, name):
        plain = clone(BASELINES[name]).fit(X, Y).transform(NEW)
        assert off(clone(BASELINES[name]).fit(X, Y, sample_weight=self.IMPORTANCE).transform(NEW), plain) > 1e-3

    def test_rows_are_numbered_as_they_came(self):
        model = LMNN(n_neighbors=2).fit(X, Y, sample_weight=TIMES)
        targets = oracles.target_neighbours(X[self.SOME], Y[self.SOME], 2)
        assert_array_equal(model.target_neighbors_[self.SOME], self.SOME[np.array(targets)])
        assert (model.target_neighbors_[TIMES == 0] == -1).all()
        model = ITML(random_state=0).fit(X, Y, sample_weight=TIMES)
        assert (TIMES[model.pairs_] > 0).all()
        assert_array_equal(model.pair_signs_ > 0, Y[model.pairs_[:, 0]] == Y[model.pairs_[:, 1]])

    @pytest.mark.parametrize("kind", [KernelLMNN, KernelITML])
    def test_a_kernel_matrix_keeps_its_columns(self, kind):
        K, K_new = rbf_kernel(X, gamma=0.3), rbf_kernel(NEW, X, gamma=0.3)
        model = kind(5, kernel="precomputed", random_state=0)
        whole = clone(model).fit(K, Y, sample_weight=TIMES).transform(K_new)
        part = clone(model).fit(K[np.ix_(self.SOME, self.SOME)], Y[self.SOME], sample_weight=TIMES[self.SOME])
        assert_allclose(whole, part.transform(K_new[:, self.SOME]), rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("mu", [0.2, 0.5, 0.8])
    @pytest.mark.parametrize("whole", [False, True])
    def test_the_objective_of_lmnn_is_the_naive_sum(self, mu, whole):
        weights = TIMES + 1.0 if whole else self.IMPORTANCE
        targets = oracles.target_neighbours(X, Y, 2)
        problem = Margins(X, Y, np.array(targets), mu, weights)
        for scale in (0.1, 1.0, 5.0):
            factor = scale * np.random.default_rng(1).normal(size=(3, 3))
            found = problem.evaluate(problem.inner(factor)).objective
            assert found == pytest.approx(oracles.lmnn(factor, X, Y, targets, mu, weights))

    @pytest.mark.parametrize("rounding", [0.1, 1.0])
    def test_the_gradient_of_lmnn_equals_finite_differences(self, rounding):
        problem = Margins(X, Y, np.array(oracles.target_neighbours(X, Y, 2)), 0.4, self.IMPORTANCE)
        L = np.random.default_rng(2).normal(size=(3, 3))
        expected = oracles.numerical_gradient(lambda one: problem.evaluate(one, rounding).rounded, L)
        assert off(problem.evaluate(L, rounding).gradient, expected) < 1e-5

    @pytest.mark.parametrize("mu", [0.2, 0.5, 0.8])
    def test_the_optimum_of_lmnn_is_that_of_a_semidefinite_program(self, mu):
        rows, weights = self.SOME[:24], TIMES[self.SOME[:24]] ** 2 * 0.7
        targets = oracles.target_neighbours(X[rows], Y[rows], 2)
        expected = oracles.lmnn_by_cvxpy(X[rows], Y[rows], targets, mu, weights)
        model = LMNN(n_neighbors=2, push_weight=mu, tol=1e-5, max_iter=5000).fit(X[rows], Y[rows], sample_weight=weights)
        assert model.objective_ == pytest.approx(oracles.lmnn(model.components_, X[rows], Y[rows], targets, mu, weights))
        assert model.objective_ == pytest.approx(expected, rel=1e-4)
        assert model.dual_gap_ <= 1e-5
        assert model.objective_ * (1 - model.dual_gap_) <= expected * (1 + 1e-6)

    @pytest.mark.parametrize("rounding", [0.01, 0.1, 1.0])
    def test_the_bound_of_lmnn_holds_anywhere(self, rounding):
        rows, weights = self.SOME[:24], self.IMPORTANCE[:24]
        targets = oracles.target_neighbours(X[rows], Y[rows], 2)
        optimum = oracles.lmnn_by_cvxpy(X[rows], Y[rows], targets, 0.5, weights)
        problem = Margins(X[rows], Y[rows], np.array(targets), 0.5, weights)
        starts = [scale * np.random.default_rng(seed).normal(size=(3, 3)) for seed in range(5) for scale in (0.1, 0.5, 1.0)]
        bounds = [problem.lower_bound(L, rounding) for L in starts]
        assert max(bounds) <= optimum * (1 + 1e-6)
        assert max(bounds) > 0

    def test_a_common_factor_changes_no_optimum(self):
        plain, doubled = (LMNN(n_neighbors=2, tol=1e-4).fit(X, Y, sample_weight=times * self.IMPORTANCE) for times in (1, 2))
        assert doubled.objective_ == pytest.approx(2 * plain.objective_, rel=2e-4)
        pairs = [ITML(random_state=0).fit(X, Y, sample_weight=times * self.IMPORTANCE).pairs_ for times in (1, 2)]
        assert_array_equal(*pairs)

    def test_pairs_of_itml_are_as_likely_as_their_weights(self):
        """The first of two draws, and which pair is missing when all but one are drawn, by enumeration."""
        labels, weights = np.array([0, 0, 0, 1, 1]), np.array([1.0, 2.0, 4.0, 3.0, 0.5])
        rng = np.random.default_rng(0)
        drawn = [sample_pairs(labels, 2, rng, weights) for _ in range(4000)]
        for kind, alike in enumerate((True, False)):
            pairs = [(i, j) for i in range(5) for j in range(i) if (labels[i] == labels[j]) == alike]
            chances = np.array([weights[i] * weights[j] for i, j in pairs])
            chances /= chances.sum()
            second = np.array(
                [
                    sum(chances[k] * one / (1 - chances[k]) for k in range(len(pairs)) if k != place)
                    for place, one in enumerate(chances)
                ]
            )
            for draw, expected in ((0, chances), (1, second)):
                found = [tuple(sorted(both[kind][draw], reverse=True)) for both in drawn]
                shares = np.array([found.count(pair) for pair in pairs]) / len(found)
                assert_allclose(shares, expected, atol=4 * np.sqrt(0.25 / len(found)))

    def test_pairs_of_itml_are_distinct_in_any_blocks(self, monkeypatch):
        weights = 10.0 ** np.random.default_rng(0).integers(-200, 3, N)
        for block in (1, 500, 2**20):
            monkeypatch.setattr(projections, "DRAWN", block)
            for pairs, alike in zip(sample_pairs(Y, 300, np.random.default_rng(1), weights), (True, False), strict=True):
                assert len({frozenset(pair) for pair in pairs.tolist()}) == 300
                assert ((Y[pairs[:, 0]] == Y[pairs[:, 1]]) == alike).all()

    def test_heavy_rows_are_in_more_pairs(self):
        weights = np.where(np.arange(N) < 10, 20.0, 1.0)
        shares = [np.mean(ITML(random_state=0).fit(X, Y, sample_weight=given).pairs_ < 10) for given in (None, weights)]
        assert shares[1] > 2 * shares[0]

    def test_classes_without_weight_are_absent(self):
        for model in BASELINES.values():
            assert clone(model).fit(X, Y, sample_weight=np.where(Y == 2, 0, 1.0)).classes_.tolist() == [0, 1]
            with pytest.raises(ValueError, match="among rows of positive sample_weight y holds one class only, 1"):
                clone(model).fit(X, Y, sample_weight=Y == 1)
            with pytest.raises(ValueError, match="finite and not negative"):
                clone(model).fit(X, Y, sample_weight=-self.IMPORTANCE)
            with pytest.raises(ValueError, match="for each of the 60 rows"):
                clone(model).fit(X, Y, sample_weight=self.IMPORTANCE[:5])

    @pytest.mark.parametrize("name", BASELINES)
    @pytest.mark.parametrize("piped", [False, True])
    def test_a_search_passes_them_on(self, name, piped):
        before = [("scale", StandardScaler())] if piped else []
        metric, cv = clone(BASELINES[name]), KFold(3, shuffle=True, random_state=0)
        inner = Pipeline([*before, ("metric", metric)]) if piped else metric
        own = "metric__max_iter" if piped else "max_iter"
        search = MetricSearchCV(inner, {own: [800, 900]}, n_neighbors=[1, 3, 5], cv=cv, scoring="accuracy")
        search.fit(X, Y, sample_weight=self.IMPORTANCE)
        other = GridSearchCV(
            Pipeline([*before, ("metric", metric), ("vote", KNeighborsClassifier())], memory=FitsOnce()),
            {"metric__max_iter": [800, 900], "vote__n_neighbors": [1, 3, 5]},
            cv=cv,
        ).fit(X, Y, metric__sample_weight=self.IMPORTANCE)
        assert by_params(search.cv_results_) == pytest.approx(by_params(other.cv_results_))
        fitted = clone(inner).fit(X, Y, **{"metric__sample_weight" if piped else "sample_weight": self.IMPORTANCE})
        assert_allclose(search.transform(NEW), fitted.transform(NEW))

    @pytest.mark.parametrize("name", BASELINES)
    def test_they_are_routed(self, name):
        with sklearn.config_context(enable_metadata_routing=True):
            model = clone(BASELINES[name])
            found = {
                asked: make_pipeline(
                    StandardScaler().set_fit_request(sample_weight=True), clone(model).set_fit_request(sample_weight=asked)
                ).fit(X, Y, sample_weight=self.IMPORTANCE)
                for asked in (True, False)
            }
        scaler = StandardScaler().fit(X, sample_weight=self.IMPORTANCE)
        for asked, weights in {True: self.IMPORTANCE, False: None}.items():
            expected = model.fit(scaler.transform(X), Y, sample_weight=weights).transform(scaler.transform(NEW))
            assert_array_equal(found[asked].transform(NEW), expected)


def test_files_keep_the_weights_of_classes(tmp_path):
    model = LearnedKernelMetric(class_weight={0: 2.0}).fit(X, Y)
    outmetric.save(model, tmp_path / "model")
    loaded = outmetric.load(tmp_path / "model")
    assert loaded.class_weight == {0: 2.0}
    assert_array_equal(loaded.transform(NEW), model.transform(NEW))
