import sys
import threading
import time

import numpy as np
import pytest
from scipy.stats import ortho_group

from outmetric.foundation import apply_reflectors, tridiagonal_eigensystem, tridiagonalise


def symmetric(n: int) -> np.ndarray:
    half = np.random.default_rng(n).normal(size=(n, n))
    return half + half.T


def whole(diagonal: np.ndarray, off_diagonal: np.ndarray) -> np.ndarray:
    return np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 65, 200])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_its_factors(n, order):
    W = symmetric(n)
    reflectors, scales, *bands = tridiagonalise(np.array(W, order=order))
    Q = apply_reflectors(reflectors, scales, np.eye(n))
    np.testing.assert_allclose(Q.T @ Q, np.eye(n), atol=1e-13)
    np.testing.assert_allclose(Q @ whole(*bands) @ Q.T, W, atol=1e-12 * n)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_numbers_that_are_no_doubles(kind):
    W = np.round(4 * symmetric(6)).astype(kind)
    given = W.copy()
    reflectors, scales, *bands = tridiagonalise(given)
    Q = apply_reflectors(reflectors, scales, np.eye(6, dtype=kind))
    np.testing.assert_allclose(Q @ whole(*bands) @ Q.T, W, atol=1e-12)
    np.testing.assert_array_equal(given, W)


def test_rows_of_a_larger_matrix():
    W = symmetric(12)
    part = W[::2, ::2]
    given = part.copy()
    reflectors, scales, *bands = tridiagonalise(part)
    Q = apply_reflectors(reflectors, scales, np.eye(6))
    np.testing.assert_allclose(Q @ whole(*bands) @ Q.T, given, atol=1e-12)


@pytest.mark.parametrize("columns", [0, 1, 5])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_reflectors_are_an_orthogonal_matrix(n, columns):
    reflectors, scales, *_ = tridiagonalise(symmetric(n))
    Q = apply_reflectors(reflectors, scales, np.eye(n))
    X = np.random.default_rng(0).normal(size=(columns, n)).T  # not in LAPACK's order, nor in NumPy's
    given = X.copy()
    np.testing.assert_allclose(apply_reflectors(reflectors, scales, X), Q @ X, atol=1e-13)
    np.testing.assert_allclose(apply_reflectors(reflectors, scales, X, transpose=True), Q.T @ X, atol=1e-13)
    np.testing.assert_array_equal(X, given)


@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_eigenvalues_and_eigenvectors_of_bands(n):
    rng = np.random.default_rng(n)
    diagonal, off_diagonal = rng.normal(size=n), rng.normal(size=n - 1)
    spectrum, Z = tridiagonal_eigensystem(diagonal, off_diagonal)
    np.testing.assert_allclose(spectrum, np.linalg.eigvalsh(whole(diagonal, off_diagonal)), atol=1e-13)
    np.testing.assert_allclose(Z.T @ Z, np.eye(n), atol=1e-13)
    np.testing.assert_allclose((Z * spectrum) @ Z.T, whole(diagonal, off_diagonal), atol=1e-13)


def test_eigenvalues_that_are_equal():
    turn = ortho_group.rvs(30, random_state=0)
    W = (turn * np.repeat([0.0, 1.0, 1e6], 10)) @ turn.T
    reflectors, scales, *bands = tridiagonalise((W + W.T) / 2)
    spectrum, Z = tridiagonal_eigensystem(*bands)
    V = apply_reflectors(reflectors, scales, Z)
    np.testing.assert_allclose(V.T @ V, np.eye(30), atol=1e-13)
    np.testing.assert_allclose((V * spectrum) @ V.T, W, atol=1e-8)


def test_what_is_not_finite_is_told():
    with pytest.raises(ValueError, match="finite"):
        tridiagonal_eigensystem(np.array([1.0, np.nan, 2.0, 1.0]), np.array([1.0, 1.0, 1.0]))


def test_others_may_compute_meanwhile():
    matrix, counted, ended = symmetric(600), [0], threading.Event()

    def count() -> None:
        while not ended.is_set():
            counted[0] += 1

    before = sys.getswitchinterval()
    sys.setswitchinterval(0.5)  # longer than the routine takes: who holds the lock is not asked to give it up
    other = threading.Thread(target=count)
    other.start()
    try:
        time.sleep(0)
        start = counted[0]
        tridiagonalise(matrix)
        assert counted[0] > start
    finally:
        ended.set()
        sys.setswitchinterval(before)
        other.join()
