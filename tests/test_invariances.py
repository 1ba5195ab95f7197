"""Is the learned distance a metric, and blind to what should not matter?"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from outmetric import FixedKernelMetric, LearnedKernelMetric

MODELS = [FixedKernelMetric, LearnedKernelMetric]
QUICK = settings(max_examples=15, deadline=None)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_classes, per_class, d = draw(st.integers(2, 4)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    y = np.repeat(np.arange(n_classes), per_class)
    X = rng.normal(size=(len(y), d)) * 10.0 ** draw(st.integers(-3, 3))
    return X, y, rng


def distances(model, X):
    return squareform(pdist(model.transform(X)))


def assert_same(first, second):
    np.testing.assert_allclose(first, second, atol=2e-5 * max(1e-12, first.max()))


@pytest.mark.parametrize("model", MODELS)
class TestInvariances:
    @given(problem=problems())
    @QUICK
    def test_axioms(self, model, problem):
        X, y, _ = problem
        fitted = model().fit(X, y)
        D = distances(fitted, X)
        n = len(X)
        pairs = np.array([[X[i], X[j]] for i in range(n) for j in range(n)])
        direct = fitted.pair_distance(pairs).reshape(n, n)
        np.testing.assert_allclose(direct, D, atol=1e-9 * max(1.0, D.max()))
        np.testing.assert_array_equal(direct, direct.T)
        np.testing.assert_array_equal(np.diag(direct), 0)
        assert np.all(direct[:, :, None] + direct[None] >= direct[:, None, :] - 1e-9 * max(1.0, D.max()))

    @given(problem=problems())
    @QUICK
    def test_the_order_of_samples(self, model, problem):
        X, y, rng = problem
        order = rng.permutation(len(y))
        assert_same(distances(model(tol=1e-10).fit(X, y), X), distances(model(tol=1e-10).fit(X[order], y[order]), X))

    @given(problem=problems())
    @QUICK
    def test_the_names_of_classes(self, model, problem):
        X, y, rng = problem
        names = rng.permutation(["d", "b", "a", "c"])
        assert_same(distances(model(tol=1e-10).fit(X, y), X), distances(model(tol=1e-10).fit(X, names[y]), X))

    @given(problem=problems())
    @QUICK
    def test_the_unit_and_origin_of_the_data(self, model, problem):
        X, y, _ = problem
        moved = 3.7 * X + 5.0
        assert_same(distances(model(tol=1e-10).fit(X, y), X), distances(model(tol=1e-10).fit(moved, y), moved))
