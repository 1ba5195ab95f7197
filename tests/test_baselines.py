"""Do the baselines keep scikit-learn's contract and the face of the other metrics, and refuse bad input?"""

import pickle

import numpy as np
import pytest
import scipy.sparse
from peers import FitsOnce
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_lmnn import blobs

from outmetric import LearnedKernelMetric, MetricSearchCV, kernels
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.estimators.metric import LinearMetric, OutputMetric

LINEAR, WITH_KERNEL = [LMNN, ITML], [KernelLMNN, KernelITML]


def expected_failures(estimator):
    """Some checks hand a precomputed kernel a matrix that is none, and others take weights for repeated rows."""
    if getattr(estimator, "kernel", None) == "precomputed":
        return {"check_estimators_dtypes": "the matrix has negative eigenvalues, which is an error here"}
    names = [f"check_sample_weight_equivalence_on_{form}_data" for form in ("dense", "sparse")]
    return dict.fromkeys(names, "a repeated row would be a target neighbour, or a pair, of its copies")


@parametrize_with_checks(
    [
        LMNN(),
        LMNN(1, n_neighbors=1, init="pca"),
        KernelLMNN(),
        KernelLMNN(None, kernel="laplacian", bandwidth=2.0),
        KernelLMNN(kernel="precomputed"),
        ITML(random_state=0),
        KernelITML(random_state=0),
        KernelITML(3, kernel="chi2", random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [*LINEAR, *WITH_KERNEL])
class TestFace:
    X, y = blobs((15, 15, 15), d=4)

    def test_distances_agree(self, kind):
        model = kind().fit(self.X, self.y)
        pairs = np.random.default_rng(0).normal(size=(6, 2, 4))
        one, other = model.transform(pairs[:, 0]), model.transform(pairs[:, 1])
        distances = np.linalg.norm(one - other, axis=1)
        np.testing.assert_allclose(model.pair_distance(pairs), distances, rtol=1e-9)
        np.testing.assert_allclose(model.pair_score(pairs), -distances, rtol=1e-9)
        difference = model.map(pairs[:, 0]) - model.map(pairs[:, 1])
        by_matrix = np.einsum("ij,jk,ik->i", difference, model.get_mahalanobis_matrix(), difference)
        np.testing.assert_allclose(by_matrix, distances**2, rtol=1e-9)
        metric = model.get_metric()
        assert isinstance(metric, LinearMetric if kind in LINEAR else OutputMetric)
        assert metric(*pairs[0]) == pytest.approx(distances[0])
        assert metric(*pairs[0], squared=True) == pytest.approx(distances[0] ** 2)

    def test_survives_pickling_and_cloning(self, kind):
        model = kind().fit(self.X, self.y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(self.X), model.transform(self.X))
        changed = kind(tol=0.5, max_iter=7, verbose=True)
        assert clone(changed).get_params() == changed.get_params()

    def test_components_cannot_be_replaced_in_vain(self, kind):
        model = kind()
        assert not hasattr(model, "components_")
        model.fit(self.X, self.y)
        assert model.components_ is model.metric_.metric_factor
        with pytest.raises(AttributeError, match="components_"):
            model.components_ = np.eye(4)

    def test_fit_leaves_the_parameters_alone(self, kind):
        model = kind()
        before = dict(model.get_params())
        model.fit(self.X, self.y)
        assert model.get_params() == before

    def test_pipeline_and_tables(self, kind):
        X, y = load_iris(return_X_y=True, as_frame=True)
        pipeline = make_pipeline(StandardScaler(), kind(), KNeighborsClassifier())
        assert cross_val_score(pipeline, X, y).mean() > 0.9
        model = kind().set_output(transform="pandas").fit(X, y)
        assert list(model.transform(X).columns) == [f"{kind.__name__.lower()}{k}" for k in range(len(model.components_))]

    def test_single_precision_stays(self, kind):
        model = kind().fit(self.X.astype(np.float32), self.y)
        assert model.transform(self.X.astype(np.float32)).dtype == np.float32
        np.testing.assert_allclose(model.transform(self.X.astype(np.float32)), model.transform(self.X), rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            (np.full((6, 2), np.nan), [0, 0, 0, 1, 1, 1], "NaN"),
            (np.full((6, 2), np.inf), [0, 0, 0, 1, 1, 1], "infinity"),
            (np.ones((6, 2)), [0] * 6, "one class only"),
            (np.ones((8, 2)), [0, 0, 0, 0, 1, 1, 1, 1], "coincide|tell any two training points apart"),
            (np.eye(6), np.linspace(0, 1, 6), "needs class labels"),
            (np.eye(6), None, "requires y"),
            (np.eye(6), [0, 1], "inconsistent numbers"),
            (np.empty((0, 2)), [], "0 sample"),
            (np.ones((1, 2)), [0], "1 sample"),
            ([["a", "b"]] * 6, [0, 0, 0, 1, 1, 1], "could not convert"),
        ],
    )
    def test_bad_data(self, kind, X, y, message):
        with pytest.raises(ValueError, match=message):
            kind().fit(X, y)

    def test_constant_columns_and_duplicates(self, kind):
        X = np.hstack([np.vstack([self.X, self.X[:10]]), np.ones((55, 1))])
        y = np.concatenate([self.y, self.y[:10]])
        settings = {"random_state": 0} if "random_state" in kind().get_params() else {}
        model, plain = kind(**settings).fit(X, y), kind(**settings).fit(X[:, :-1], y)
        pairs = np.random.default_rng(0).integers(55, size=(20, 2))
        np.testing.assert_allclose(model.pair_distance(X[pairs]), plain.pair_distance(X[pairs][..., :-1]), rtol=0.02, atol=1e-6)


def test_sparse_and_dense_points_mix():
    X, y = blobs((15, 15, 15), d=4)
    for kind in (KernelLMNN, LearnedKernelMetric):
        model = kind().fit(scipy.sparse.csr_array(X), y)
        np.testing.assert_allclose(model.transform(X), model.transform(scipy.sparse.csr_array(X)), atol=1e-8)


@pytest.mark.parametrize("kind", LINEAR)
class TestSparse:
    X, y = blobs((15, 15, 15), d=4)
    X = np.where(np.abs(X) < 0.5, 0.0, X)

    @pytest.mark.parametrize("form", [scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array])
    def test_sparse_points_are_as_good_as_dense_ones(self, kind, form):
        settings = {"random_state": 0}
        dense, sparse = kind(**settings).fit(self.X, self.y), kind(**settings).fit(form(self.X), self.y)
        np.testing.assert_array_equal(sparse.components_, dense.components_)
        np.testing.assert_allclose(sparse.transform(form(self.X)), dense.transform(self.X), atol=1e-12)
        np.testing.assert_allclose(dense.transform(form(self.X)), dense.transform(self.X), atol=1e-12)
        np.testing.assert_array_equal(sparse.map(form(self.X)), self.X)
        assert sparse.transform(form(self.X.astype(np.float32))).dtype == np.float32
        one, other = scipy.sparse.csr_array(self.X[:1]), self.X[1]
        assert sparse.get_metric()(one, other) == pytest.approx(dense.get_metric()(self.X[0], other))

    def test_other_features_than_learned_on(self, kind):
        model = kind().fit(scipy.sparse.csr_array(self.X), self.y)
        with pytest.raises(ValueError, match="features"):
            model.transform(scipy.sparse.csr_array(self.X[:, :2]))
        with pytest.raises(ValueError, match="features"):
            model.get_metric().coordinates(scipy.sparse.csr_array(self.X[:, :2]))

    def test_more_than_memory_holds(self, kind, monkeypatch):
        monkeypatch.setattr("outmetric.foundation.memory.available_memory", lambda: 1000.0)
        with pytest.raises(MemoryError, match="TruncatedSVD"):
            kind().fit(scipy.sparse.csr_array(self.X), self.y)


@pytest.mark.parametrize("kind", [*LINEAR, *WITH_KERNEL])
class TestFit:
    X, y = blobs((15, 15, 15), d=4)

    def test_not_fitted(self, kind):
        with pytest.raises(NotFittedError):
            kind().transform(self.X)

    def test_other_features_than_learned_on(self, kind):
        model = kind().fit(self.X, self.y)
        with pytest.raises(ValueError, match="features"):
            model.transform(self.X[:, :2])
        with pytest.raises(ValueError, match="features"):
            model.get_metric().coordinates(self.X[:, :2])


@pytest.mark.parametrize("kind", WITH_KERNEL)
def test_kernels_are_used(kind):
    X, y = blobs((15, 15, 15), d=4)
    found = [
        kind(random_state=0, **settings).fit(X, y).pair_distance(X[:20].reshape(10, 2, 4))
        for settings in (
            {},
            {"bandwidth": 0.5},
            {"kernel": "laplacian"},
            {"kernel": "poly", "kernel_params": {"degree": 2}},
            {"kernel": kernels.Scalar("linear")},
            {"n_components": 2},
        )
    ]
    for position, one in enumerate(found):
        assert all(not np.allclose(one, other) for other in found[:position])


class TestSearch:
    @pytest.mark.parametrize(
        ("metric", "grid"),
        [
            (LMNN(), {"n_neighbors": [1, 3], "push_weight": [0.3, 0.7]}),
            (KernelLMNN(), {"bandwidth": [1.0, 3.0], "n_components": [2, 5]}),
            (ITML(random_state=0), {"gamma": [0.1, 10.0]}),
            (KernelITML(random_state=0), {"gamma": [0.1, 10.0], "kernel": ["rbf", "linear"]}),
        ],
    )
    def test_gives_the_scores_of_grid_search(self, metric, grid):
        X, y = blobs((30, 30, 30), spread=2.0)
        steps = [("scale", StandardScaler()), ("metric", metric)]
        grid = {f"metric__{name}": values for name, values in grid.items()}
        search = MetricSearchCV(Pipeline(steps), grid, n_neighbors=[1, 5], scoring="accuracy", cv=3).fit(X, y)
        voting = Pipeline([*steps, ("vote", KNeighborsClassifier())], memory=FitsOnce())
        plain = GridSearchCV(voting, {**grid, "vote__n_neighbors": [1, 5]}, cv=3).fit(X, y)
        assert search.n_decompositions_ == 0
        ours = {
            tuple(sorted((name.removeprefix("metric__"), str(value)) for name, value in params.items())): score
            for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
        }
        theirs = {
            tuple(sorted((name.split("__")[1] if name.startswith("metric") else "n_neighbors", str(v)) for name, v in p.items())): s
            for p, s in zip(plain.cv_results_["params"], plain.cv_results_["mean_test_score"], strict=True)
        }
        assert search.score(X, y) > 0.6
        assert len(ours) == len(search.cv_results_["params"])
        np.testing.assert_allclose([ours[key] for key in theirs], list(theirs.values()))
