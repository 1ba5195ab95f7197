"""Rows without labels: the objective, the graph, searches, and what is refused."""

import sys

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricRegressor, MetricSearchCV, kernels
from outmetric.estimators import gaps
from outmetric.rows import NeighbourGraph, neighbours

RNG = np.random.default_rng(0)
N = 50
X = RNG.normal(size=(N, 2))
TRUE = (X[:, 0] > 0).astype(int)
KNOWN = RNG.random(N) < 0.3
Y = np.where(KNOWN, TRUE, -1)
NEW = RNG.normal(size=(15, 2))
MODELS = (LearnedKernelMetric, FixedKernelMetric)


def off(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def naive_graph(points, count):
    """Joined to the nearest in either direction, mean degree 1."""
    n = len(points)
    A = np.zeros((n, n))
    for i in range(n):
        distances = np.sum((points - points[i]) ** 2, axis=1)
        distances[i] = np.inf
        for j in np.argsort(distances)[:count]:
            A[i, j] = A[j, i] = 1
    return A * n / A.sum()


def naive_objective(F, C, K, targets, known, A, *, gamma, weight, regression, labels, B=None):
    """Roughness, collocation within classes, the graph, and regression of labelled rows, term by term."""
    roughness = 0.5 * np.sum(C * (K @ C if B is None else K @ C @ B))
    rows = np.flatnonzero(known)
    classes = 0.5 * gamma * sum(np.sum((F[i] - F[j]) ** 2) for i in rows for j in rows if labels[i] == labels[j])
    edges = 0.5 * (weight * regression / 2) * sum(A[i, j] * np.sum((F[i] - F[j]) ** 2) for i in range(N) for j in range(N))
    return roughness, classes + edges, 0.5 * regression * sum(np.sum((F[i] - targets[labels[i]]) ** 2) for i in rows)


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0])
def test_the_objective_and_its_optimum(weight):
    """Model 2 equals the naive sum, its gap bounds it, and no other map is better."""
    settings = {"regression_weight": 2.0, "collocation_weight": 0.05, "output_penalty": 0.7, "bandwidth": 0.8}
    model = LearnedKernelMetric(unlabeled="graph", graph_weight=weight, graph_neighbors=4, **settings).fit(X, Y)
    A, K = naive_graph(X, 4), rbf_kernel(X, gamma=1 / (2 * 0.8**2))
    B, C = model.output_matrix_, np.zeros((N, 1))
    C[model.landmark_indices_] = model.coefficients_
    assert_allclose(model.map(X), K @ C @ B, atol=1e-9)
    terms = naive_objective(
        model.map(X), C, K, model.prototypes_, KNOWN, A, gamma=0.05, weight=weight, regression=2.0, labels=TRUE, B=B
    )
    found = model.objective_terms_
    assert_allclose([found.roughness, found.collocation, found.regression], terms, rtol=1e-6)
    assert model.dual_gap_ <= 1e-6 * model.objective_

    def other(values):
        c, b = values[:-1, None], np.abs(values[-1:])[None]
        parts = naive_objective(
            K @ c @ b, c, K, model.prototypes_, KNOWN, A, gamma=0.05, weight=weight, regression=2.0, labels=TRUE, B=b
        )
        return sum(parts) + 0.35 * np.sum(b**2)

    start = np.concatenate([C[:, 0], B[0]])
    assert other(start) == pytest.approx(model.objective_, rel=1e-6)
    rng = np.random.default_rng(1)
    for scale in (1e-3, 1e-1):
        assert all(other(start + scale * rng.normal(size=N + 1)) > model.objective_ * (1 - 1e-9) for _ in range(20))
    few = minimize(other, 0.9 * start, method="L-BFGS-B", options={"maxiter": 5})
    assert few.fun > model.objective_ * (1 - 1e-9)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("settings", [{}, {"input_metric": "diagonal"}, {"class_weight": "balanced"}])
def test_no_weight_of_the_graph_is_to_ignore(model, settings):
    expected = model(**settings).fit(X[KNOWN], TRUE[KNOWN]).transform(NEW)
    for given in ({"unlabeled": "ignore"}, {"unlabeled": "graph", "graph_weight": 0.0}):
        found = model(**given, **settings).fit(X, Y)
        assert off(found.transform(NEW), expected) < 1e-12
        assert (found.n_samples_fit_, found.n_unlabeled_) == (KNOWN.sum(), N - KNOWN.sum())
    if "input_metric" in settings:
        return  # bandwidths of rounds are relative to the distances of all rows
    # A tiny weight is nearly none, also where all rows are landmarks.
    tiny = model(unlabeled="graph", graph_weight=1e-10, bandwidth=1.0, **settings).fit(X, Y)
    assert off(tiny.transform(NEW), model(bandwidth=1.0, **settings).fit(X[KNOWN], TRUE[KNOWN]).transform(NEW)) < 1e-5


@pytest.mark.parametrize("model", MODELS)
def test_landmarks_that_are_all_rows(model):
    settings = {"unlabeled": "graph", "bandwidth": 1.0}
    exact = model(**settings).fit(X, Y)
    assert exact.n_landmarks_ == N
    assert off(model(landmarks=X, **settings).fit(X, Y).transform(NEW), exact.transform(NEW)) < 1e-8
    assert off(model(n_landmarks=10, random_state=0, **settings).fit(X, Y).transform(NEW), exact.transform(NEW)) > 1e-3


@pytest.mark.parametrize("model", MODELS)
def test_every_row_labelled_needs_no_graph(model):
    assert_array_equal(model(unlabeled="graph").fit(X, TRUE).transform(NEW), model().fit(X, TRUE).transform(NEW))


def test_gaps():
    assert_array_equal(gaps([1, -1, 0]), [False, True, False])
    assert_array_equal(gaps([0.5, np.nan, -1.0]), [False, True, False])
    assert_array_equal(gaps(np.array(["a", None, np.nan, "b"], dtype=object)), [False, True, True, False])
    assert_array_equal(gaps(np.array([3, None, -1], dtype=object)), [False, True, True])
    assert_array_equal(gaps([[1.0, 2.0], [np.nan, np.nan]]), [False, True])
    assert_array_equal(gaps(["a", "-1"]), [False, False])
    with pytest.raises(ValueError, match="row 1 of y has some of its targets and lacks others"):
        gaps([[1.0, 2.0], [np.nan, 3.0]])


@pytest.mark.parametrize("model", MODELS)
def test_words_and_real_targets_may_be_missing(model):
    words = np.array([None if label < 0 else ["no", "yes"][label] for label in Y], dtype=object)
    named = model(unlabeled="graph").fit(X, words)
    assert off(named.transform(NEW), model(unlabeled="graph").fit(X, Y).transform(NEW)) < 1e-12
    assert named.transduction_[KNOWN].tolist() == words[KNOWN].tolist()
    assert set(named.transduction_) == {"no", "yes"}
    assert np.mean(named.transduction_ == np.array(["no", "yes"])[TRUE]) > 0.85
    for real in (X[:, 0] + X[:, 1] ** 2, np.column_stack([X[:, 0], 3 * X[:, 1]])):
        partly = real.copy()
        partly[~KNOWN] = np.nan
        found = model(unlabeled="graph", graph_weight=0.1).fit(X, partly)
        assert found.transduction_.shape == real.shape
        assert_array_equal(found.transduction_[KNOWN], real[KNOWN])
        assert np.corrcoef(found.transduction_[~KNOWN].ravel(), real[~KNOWN].ravel())[0, 1] > 0.6
        assert_allclose(found.transduction_[~KNOWN], found.map(X[~KNOWN]).reshape(real[~KNOWN].shape), atol=1e-9)


def test_components_of_targets_are_no_targets():
    partly = np.column_stack([X[:, 0], 3 * X[:, 1]])
    partly[~KNOWN] = np.nan
    model = LearnedKernelMetric(1, unlabeled="graph").fit(X, partly)
    assert not hasattr(model, "transduction_")
    assert model.transform(NEW).shape == (15, 1)


def test_the_graph_helps_where_classes_are_clusters():
    data, y = load_digits(return_X_y=True)
    data, y = data[:800] / 16, y[:800]
    partly = np.full(400, -1)
    partly[:50] = y[:50]
    plain, joined = (
        LearnedKernelMetric(unlabeled=how, regression_weight=10.0).fit(data[:400], partly) for how in ("ignore", "graph")
    )

    def accuracy(model):
        return np.mean((model.transform(data[400:]) @ model.prototypes_.T).argmax(axis=1) == y[400:])

    assert accuracy(joined) > accuracy(plain) + 0.02
    assert np.mean(joined.transduction_ == y[:400]) > 0.85


class TestGraph:
    def test_is_the_naive_one(self):
        assert_allclose(NeighbourGraph.of(X, 4, "arrays").matrix.toarray(), naive_graph(X, 4))

    def test_of_kernels_that_know_no_arrays(self):
        kernel = kernels.Scalar("rbf", 1.0)
        by_kernel = NeighbourGraph.of(X, 4, "objects", kernel)
        assert_allclose(by_kernel.matrix.toarray(), naive_graph(X, 4))
        K = rbf_kernel(X)
        settings = {"kernel": "precomputed", "unlabeled": "graph"}
        found = LearnedKernelMetric(**settings).fit(K, Y)
        same = LearnedKernelMetric(unlabeled="graph", bandwidth=1.0).fit(X, Y)  # gamma is 1 over the number of features
        assert off(found.transform(rbf_kernel(NEW, X)), same.transform(NEW)) < 1e-6
        words = np.array(["".join("ab"[int(value > 0)] for value in row) for row in RNG.normal(size=(N, 6))], dtype=object)
        assert LearnedKernelMetric(kernel=kernels.Spectrum(2), unlabeled="graph").fit(words, Y).status_.name == "CONVERGED"

    def test_of_coinciding_rows_has_no_loops(self):
        twice = np.repeat(X[:10], 3, axis=0)
        graph = NeighbourGraph.of(twice, 2, "arrays").matrix
        assert not graph.diagonal().any()
        assert (graph.sum(axis=1) > 0).all()

    def test_by_an_index_finds_nearly_all(self, monkeypatch):
        data = np.random.default_rng(2).normal(size=(3000, 8))
        exact = NeighbourGraph.of(data, 5, "arrays").matrix > 0
        monkeypatch.setattr(neighbours, "MANY_ROWS", 1000)
        found = NeighbourGraph.of(data, 5, "arrays").matrix > 0
        assert found.multiply(exact).sum() > 0.9 * exact.sum()
        monkeypatch.setitem(sys.modules, "faiss", None)
        with pytest.warns(UserWarning, match=r"pip install 'outmetric\[neighbours\]'"):
            assert_array_equal((NeighbourGraph.of(data, 5, "arrays").matrix > 0).toarray(), exact.toarray())

    def test_sparse_rows(self):
        sparse = scipy.sparse.csr_array(np.abs(X))
        assert_allclose(NeighbourGraph.of(sparse, 3, "arrays").matrix.toarray(), naive_graph(np.abs(X), 3))
        dense, fitted = (LearnedKernelMetric(unlabeled="graph").fit(rows, Y) for rows in (np.abs(X), sparse))
        assert off(fitted.transform(sparse), dense.transform(np.abs(X))) < 1e-6

    def test_laplacians_in_blocks(self, monkeypatch):
        model = LearnedKernelMetric(unlabeled="graph").fit(X, Y)
        monkeypatch.setattr("outmetric.rows.moments.similarity_laplacian.__defaults__", (7,))
        assert off(LearnedKernelMetric(unlabeled="graph").fit(X, Y).transform(NEW), model.transform(NEW)) < 1e-9

    def test_parts_without_labels_are_told(self):
        far = np.concatenate([X, X[:12] + 100])
        with pytest.warns(UserWarning, match="12 rows are in parts of the neighbour graph without any labelled row"):
            model = LearnedKernelMetric(unlabeled="graph", graph_neighbors=3, bandwidth=1.0).fit(far, np.append(Y, np.full(12, -1)))
        assert model.status_.name == "CONVERGED"
        assert np.abs(model.transform(far[N:])).max() < 1e-6  # nothing is known of them
        near = LearnedKernelMetric(unlabeled="graph", graph_neighbors=3, bandwidth=1.0).fit(X, Y)
        assert off(model.transform(NEW), near.transform(NEW)) < 0.3


def folds_of(labelled):
    return StratifiedKFold(3, shuffle=True, random_state=0).split(labelled, Y[labelled])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("third", [("regression_weight", [1.0, 10.0]), ("n_rounds", [0, 1])])
@pytest.mark.filterwarnings("ignore:.*no label reaches")
def test_searches_score_labelled_rows_and_learn_from_all(model, piped, weighted, third):
    metric = model(unlabeled="graph", input_metric="diagonal" if third[0] == "n_rounds" else None)
    prefix = "metric__" if piped else ""
    estimator = Pipeline([("scale", StandardScaler()), ("metric", metric)]) if piped else metric
    weights = np.random.default_rng(4).random(N) + 0.5 if weighted else None
    grid = {f"{prefix}graph_weight": [0.0, 0.1, 1.0], prefix + third[0]: third[1]}
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    search = MetricSearchCV(estimator, grid, n_neighbors=[1, 3], cv=cv, scoring="accuracy").fit(X, Y, sample_weight=weights)
    labelled, others = np.flatnonzero(KNOWN), np.flatnonzero(~KNOWN)
    maps = {}  # numbers of neighbours share one
    for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        own = {name: value for name, value in params.items() if name != "n_neighbors"}
        expected = []
        for fold, (train, test) in enumerate(folds_of(labelled)):
            rows = np.concatenate([labelled[train], others])
            given = {} if weights is None else {f"{prefix}sample_weight": weights[rows]}
            key = (fold, *own.values())
            if key not in maps:
                maps[key] = clone(estimator).set_params(**own).fit(X[rows], Y[rows], **given)
            fitted = maps[key]
            voters = KNeighborsClassifier(params["n_neighbors"]).fit(fitted.transform(X[labelled[train]]), Y[labelled[train]])
            expected.append(voters.score(fitted.transform(X[labelled[test]]), Y[labelled[test]]))
        assert score == pytest.approx(np.mean(expected), abs=1e-9)
    # A decomposition for each weight of the graph, and for each of its rounds.
    assert search.n_decompositions_ == 3 * (3 + (3 if third[0] == "n_rounds" else 0))
    assert search.n_samples_fit_ == KNOWN.sum()
    assert search.classes_.tolist() == [0, 1]
    assert len(search.voters_._fit_X) == KNOWN.sum()


@pytest.mark.filterwarnings("ignore:.*no label reaches")
def test_searches_of_real_targets_and_of_fits_of_their_own():
    real = np.where(KNOWN, X[:, 0] + X[:, 1] ** 2, np.nan)
    labelled, others = np.flatnonzero(KNOWN), np.flatnonzero(~KNOWN)
    cv = [(labelled[::2], labelled[1::2])]
    places = [(np.arange(len(labelled))[::2], np.arange(len(labelled))[1::2])]
    search = MetricSearchCV(
        LearnedKernelMetric(unlabeled="graph"), {"graph_weight": [0.0, 0.5]}, n_neighbors=2, cv=places, scoring="r2"
    ).fit(X, real)
    rows = np.concatenate([cv[0][0], others])
    fitted = LearnedKernelMetric(unlabeled="graph", graph_weight=0.5).fit(X[rows], real[rows])
    voters = KNeighborsRegressor(2).fit(fitted.transform(X[cv[0][0]]), real[cv[0][0]])
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(voters.score(fitted.transform(X[cv[0][1]]), real[cv[0][1]]))
    diagonal = MetricSearchCV(FixedKernelMetric(unlabeled="graph", metric_ridge=3.0), {"metric_ridge": [1.0, 3.0]}, cv=places)
    assert np.isfinite(diagonal.fit(X, Y).best_score_)


def test_what_is_refused():
    for estimator in (LearnedKernelMetric(unlabeled="all"), MetricClassifier(unlabeled="all", time_budget=1)):
        with pytest.raises(ValueError, match="unlabeled='all' is not known"):
            estimator.fit(X, Y)
    with pytest.raises(ValueError, match="graph_weight must be"):
        LearnedKernelMetric(graph_weight=-1.0).fit(X, TRUE)
    with pytest.raises(ValueError, match="graph_neighbors must be"):
        LearnedKernelMetric(graph_neighbors=0).fit(X, TRUE)
    with pytest.raises(ValueError, match="y holds no label at all"):
        LearnedKernelMetric(unlabeled="graph").fit(X, np.full(N, -1))
    with pytest.raises(ValueError, match="y has one class only"):
        LearnedKernelMetric(unlabeled="graph").fit(X, np.where(TRUE == 1, 1, -1))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LearnedKernelMetric(unlabeled="graph").fit(X, Y[:-1])
    with pytest.raises(ValueError, match="needs solver='auto' or 'nystroem', not 'cg'"):
        LearnedKernelMetric(unlabeled="graph", solver="cg").fit(X, Y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        LearnedKernelMetric().fit(X, np.where(KNOWN, X[:, 0], np.nan))
    three = np.where(X[:, 1] > 0.5, 2, Y)
    with pytest.warns(UserWarning, match="taken for one more class.*unlabeled='graph'"):
        assert LearnedKernelMetric().fit(X, three).classes_.tolist() == [-1, 0, 1, 2]


def test_blocks_and_chunks_may_ignore():
    expected = LearnedKernelMetric(landmarks=X[:20]).fit(X[KNOWN], TRUE[KNOWN]).transform(NEW)
    ignoring = LearnedKernelMetric(landmarks=X[:20], unlabeled="ignore")
    blocks = [(X[start : start + 10], Y[start : start + 10]) for start in range(0, N, 10)]
    blocks.insert(2, (X[:3], np.full(3, -1)))
    assert off(ignoring.fit(iter(blocks)).transform(NEW), expected) < 1e-9
    assert off(ignoring.fit(da.from_array(X, chunks=(10, 2)), da.from_array(Y, chunks=10)).transform(NEW), expected) < 1e-9
    called = LearnedKernelMetric(landmarks=X[:20], unlabeled="ignore")
    for block in blocks:
        called.partial_fit(*block)
    assert off(called.transform(NEW), expected) < 1e-9
    with pytest.raises(ValueError, match="rows in blocks have no neighbour graph"):
        LearnedKernelMetric(n_landmarks=20, unlabeled="graph").fit(iter(blocks))


class TestAutomatic:
    def test_a_classifier_tells_whether_they_helped(self, tmp_path):
        data, y = load_digits(return_X_y=True)
        partly = np.where(np.arange(500) < 60, y[:500], -1)
        model = MetricClassifier(unlabeled="graph", random_state=0).fit(data[:500], partly)
        assert model.n_unlabeled_ == 440
        used = [member for member in model.committee_ if "graph_weight" in member.candidate.description]
        assert "440 rows; " in model.summary()
        assert ("of the say use them" if used else "did not help") in model.summary()
        assert used  # digits are clusters
        ignoring = MetricClassifier(unlabeled="ignore", random_state=0).fit(data[:500], partly)
        plain = MetricClassifier(random_state=0).fit(data[:60], y[:60])
        assert_array_equal(ignoring.predict_proba(data[500:600]), plain.predict_proba(data[500:600]))
        assert model.score(data[500:], y[500:]) > plain.score(data[500:], y[500:]) - 0.01
        outmetric.save(model, tmp_path / "model")
        assert_allclose(outmetric.load(tmp_path / "model").predict_proba(data[500:520]), model.predict_proba(data[500:520]))

    def test_a_regressor(self):
        partly = np.where(np.arange(N) % 2 == 0, X[:, 0] + X[:, 1] ** 2, np.nan)
        model = MetricRegressor(unlabeled="graph", random_state=0).fit(X, partly)
        assert model.n_unlabeled_ == N // 2
        assert np.isfinite(model.predict(NEW)).all()
        with pytest.raises(ValueError, match="NaN"):
            MetricRegressor().fit(X, partly)

    def test_words(self):
        data, y = load_iris(return_X_y=True, as_frame=True)
        words = y.map({0: "a", 1: "b", 2: "c"}).astype(object)
        words[::2] = None
        model = MetricClassifier(unlabeled="graph", random_state=0).fit(data, words)
        assert model.classes_.tolist() == ["a", "b", "c"]
        assert model.score(data[::2], y.map({0: "a", 1: "b", 2: "c"})[::2]) > 0.9


def test_models_of_partly_labelled_rows_are_stored(tmp_path):
    model = LearnedKernelMetric(unlabeled="graph").fit(X, Y)
    outmetric.save(model, tmp_path / "model")
    loaded = outmetric.load(tmp_path / "model")
    assert_array_equal(loaded.transform(NEW), model.transform(NEW))
    assert_array_equal(loaded.transduction_, model.transduction_)
