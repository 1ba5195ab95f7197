"""Does a kernel of somebody else's work by its name wherever ours do?"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV, kernels

X, y = load_iris(return_X_y=True)


@dataclass(frozen=True, eq=False)
class Cauchy(kernels.ScalarKernel):
    """1 / (1 + |x - x'|^2 / scale^2)."""

    scale: float = 1.0
    name = "test-cauchy"
    takes = "arrays"

    def values(self, X: Any, Z: Any) -> Any:
        return 1 / (1 + np.sum((X[:, None] - Z[None]) ** 2, axis=2) / self.scale**2)


kernels.register("test-cauchy", Cauchy)


def cauchy(x, z):
    return 1 / (1 + np.sum((x - z) ** 2) / 4)


@pytest.mark.parametrize("model", [LearnedKernelMetric, FixedKernelMetric])
@pytest.mark.parametrize("settings", [{}, {"solver": "cg"}, {"n_landmarks": 30, "landmarks": "kmeans++", "random_state": 0}])
def test_a_fit_is_that_with_the_function(model, settings):
    named = model(kernel="test-cauchy", kernel_params={"scale": 2.0}, **settings).fit(X[::2], y[::2])
    by_function = model(kernel=cauchy, **settings).fit(X[::2], y[::2])
    np.testing.assert_allclose(named.transform(X[1::2]), by_function.transform(X[1::2]), atol=1e-6)


def test_a_search_shares_its_decompositions():
    grid = {"kernel_params": [{"scale": 0.5}, {"scale": 2.0}], "regression_weight": [0.3, 3.0]}
    search = MetricSearchCV(LearnedKernelMetric(kernel="test-cauchy"), grid, cv=3, n_neighbors=[3]).fit(X[::3], y[::3])
    assert search.n_decompositions_ == 2 * 3
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_model_files_name_it(tmp_path):
    model = LearnedKernelMetric(kernel="test-cauchy").fit(X, y)
    outmetric.save(model, tmp_path / "model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").transform(X), model.transform(X))


def test_an_object_of_it_serves_as_well():
    by_name = LearnedKernelMetric(kernel="test-cauchy", kernel_params={"scale": 2.0}).fit(X, y)
    by_object = LearnedKernelMetric(kernel=Cauchy(2.0)).fit(X, y)
    np.testing.assert_array_equal(by_name.transform(X), by_object.transform(X))
    assert "test-cauchy" in by_object.summary()


def test_the_diagonal_and_columns_are_those_of_the_values():
    kernel = Cauchy(2.0)
    K = kernel.gram(X)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(K))
    np.testing.assert_allclose(kernel.columns(X)([3, 5]), K[:, [3, 5]])
    np.testing.assert_allclose(kernel.lazy_gram(X) @ np.eye(len(X)), K)


@pytest.mark.parametrize(
    ("name", "kernel", "message"),
    [
        ("rbf", Cauchy, "another kernel of the name 'rbf'"),
        ("", Cauchy, "must be a text"),
        ("test-other", cauchy, "is a subclass of"),
    ],
)
def test_what_cannot_be_registered(name, kernel, message):
    with pytest.raises(ValueError, match=message):
        kernels.register(name, kernel)


def test_unknown_names_are_told_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"kernel 'nothing' is not known; use one of .*'laplacian'.*'test-cauchy'"):
        LearnedKernelMetric(kernel="nothing").fit(X, y)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "additive"])
@pytest.mark.parametrize("gamma", [0.3, None])
def test_gamma_means_the_same_exactly_and_with_landmarks(kernel, gamma):
    settings = {"kernel": kernel, "kernel_params": {"gamma": gamma}, "tol": 1e-12}
    exact = LearnedKernelMetric(**settings).fit(X[::2], y[::2])
    landmarks = LearnedKernelMetric(landmarks=X[::2], **settings).fit(X[::2], y[::2])
    np.testing.assert_allclose(landmarks.transform(X), exact.transform(X), atol=1e-5)


def test_gamma_zero_is_no_missing_gamma():
    """k = 1 everywhere: all points have one image, exactly and with landmarks."""
    for settings in ({}, {"n_landmarks": 20, "random_state": 0}):
        with pytest.warns(UserWarning, match="the targets tell nothing"):
            model = FixedKernelMetric(kernel_params={"gamma": 0}, **settings).fit(X, y)
        assert np.ptp(model.transform(X), axis=0).max() < 1e-8


def test_parameters_that_a_kernel_does_not_have():
    for kernel in ("rbf", "laplacian", "additive", "linear", "poly", "chi2", "cosine", "additive_chi2"):
        with pytest.raises(TypeError, match=f"the kernel '{kernel}' has no parameter 'nothing'; it has "):
            LearnedKernelMetric(kernel=kernel, kernel_params={"nothing": 1}).fit(X, y)
    with pytest.raises(TypeError, match="the kernel 'precomputed' has no parameter 'gamma'; it has none"):
        LearnedKernelMetric(kernel="precomputed", kernel_params={"gamma": 1}).fit(X @ X.T, y)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "additive", "poly", "sigmoid", "chi2"])
@pytest.mark.parametrize("gamma", ["scale", -1.0, np.inf, True])
def test_a_gamma_that_is_none_is_told(kernel, gamma):
    with pytest.raises(ValueError, match=r"gamma must be a finite number >= 0, not "):
        LearnedKernelMetric(kernel=kernel, kernel_params={"gamma": gamma}).fit(X, y)


def test_functions_of_scikit_learn_take_samples():
    by_function = LearnedKernelMetric(kernel=rbf_kernel, kernel_params={"gamma": 0.4}).fit(X, y)
    by_name = LearnedKernelMetric(kernel="rbf", kernel_params={"gamma": 0.4}).fit(X, y)
    np.testing.assert_allclose(by_function.transform(X), by_name.transform(X), atol=1e-6)


def test_another_function_of_samples_is_told_from_one_of_points():
    def mine(X, Z):
        return rbf_kernel(X, Z)

    with pytest.raises(ValueError, match=r"'mine' wants two samples, not two points: .*pairwise=False"):
        LearnedKernelMetric(kernel=mine).fit(X, y)
    assert LearnedKernelMetric(kernel=kernels.Scalar(mine, pairwise=False)).fit(X, y).dual_gap_ < 1e-10
