"""Do both estimators keep scikit-learn's contract?"""

import numpy as np
import polars
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from outmetric import FixedKernelMetric, LearnedKernelMetric, kernels

MODELS = [FixedKernelMetric, LearnedKernelMetric]


def not_a_kernel(estimator):
    """Some checks hand a precomputed kernel a matrix that is none: it has negative eigenvalues, which is an error here."""
    broken = ["check_positive_only_tag_during_fit", "check_estimators_dtypes"]
    drawn = [f"check_sample_weight_equivalence_on_{form}_data" for form in ("dense", "sparse")]
    return {
        **dict.fromkeys(broken if estimator.kernel == "precomputed" else [], "the matrix is not positive semi-definite"),
        **dict.fromkeys(drawn if estimator.landmarks == "leverage" else [], "other landmarks are drawn among repeated rows"),
    }


@parametrize_with_checks(
    [
        FixedKernelMetric(),
        FixedKernelMetric(kernel="laplacian", bandwidth=2.0),
        FixedKernelMetric(solver="cg"),
        FixedKernelMetric(n_landmarks=20, landmarks="leverage"),
        LearnedKernelMetric(),
        LearnedKernelMetric(kernel="chi2"),
        LearnedKernelMetric(kernel="laplacian", solver="dense"),
        LearnedKernelMetric(kernel="precomputed"),
        LearnedKernelMetric(solver="nystroem", n_landmarks=10),
        LearnedKernelMetric(kernel="precomputed", n_landmarks=10, landmarks="uniform"),
    ],
    expected_failed_checks=not_a_kernel,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture
def iris():
    return load_iris(return_X_y=True, as_frame=True)


@pytest.mark.parametrize("model", MODELS)
class TestFace:
    def test_pipeline_and_search(self, model, iris):
        X, y = iris
        pipeline = Pipeline([("scale", StandardScaler()), ("metric", model()), ("vote", KNeighborsClassifier())])
        grid = {"metric__regression_weight": [0.1, 10.0], "metric__bandwidth": ["median", 0.5], "vote__n_neighbors": [3]}
        search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
        assert search.best_score_ > 0.9

    def test_frames_in_frames_out(self, model, iris):
        X, y = iris
        fitted = model().set_output(transform="pandas").fit(X, y)
        names = [f"{model.__name__.lower()}{k}" for k in range(2)]
        table = fitted.transform(X)
        assert list(table.columns) == names == list(fitted.get_feature_names_out())
        assert table.index.equals(X.index)
        other = model().set_output(transform="polars").fit(X, y).transform(X)
        assert isinstance(other, polars.DataFrame)
        assert other.columns == names
        np.testing.assert_array_equal(fitted.feature_names_in_, X.columns)

    def test_clone_keeps_every_parameter(self, model):
        changed = {"n_components": 2, "kernel": kernels.Scalar("linear"), "similarity": np.eye(3), "max_iter": 7, "verbose": True}
        copy = clone(model(**changed))
        assert copy.get_params()["max_iter"] == 7
        assert copy.get_params()["kernel"].function == "linear"
        np.testing.assert_array_equal(copy.similarity, np.eye(3))

    def test_fit_leaves_the_parameters_alone(self, model, iris):
        X, y = iris
        estimator = model()
        before = dict(estimator.get_params())
        estimator.fit(X, y)
        assert estimator.get_params() == before

    def test_a_precomputed_kernel_follows_cross_validation(self, model, iris):
        X, y = iris
        X = StandardScaler().fit_transform(X)
        K = kernels.Scalar("rbf", 1.0).gram(X)
        plain = cross_val_score(make_pipeline(model(bandwidth=1.0), KNeighborsClassifier()), X, y, cv=3)
        given = cross_val_score(make_pipeline(model(kernel="precomputed"), KNeighborsClassifier()), K, y, cv=3)
        np.testing.assert_allclose(given, plain)
