"""Does every Gram operator do what its blocks say?"""

import numpy as np
import oracles
import pytest
from problems import OPERATORS, gram_operators, points
from scipy.sparse.linalg import LinearOperator

from outmetric import kernels as operators


@pytest.fixture(params=OPERATORS)
def case(request):
    return gram_operators(points(7), 3)[request.param]


def test_apply_is_the_sum_over_blocks(case):
    operator, blocks = case
    C = np.random.default_rng(1).normal(size=(7, 3))
    np.testing.assert_allclose(operator.apply(C), oracles.outputs(blocks, C), rtol=1e-12, atol=1e-12)


def test_dense_form_is_the_block_matrix(case):
    operator, blocks = case
    np.testing.assert_allclose(operator.to_dense(), oracles.block_matrix(blocks), atol=1e-13)
    assert operator.shape == (7, 7, 3)


def test_the_default_dense_form_needs_apply_only(case):
    operator, blocks = case
    np.testing.assert_allclose(operators.GramOperator.to_dense(operator), oracles.block_matrix(blocks), atol=1e-13)


def test_output_blocks_are_the_diagonal_of_the_blocks(case):
    operator, blocks = case
    found = [operator.output_block(k) for k in range(3)]
    held = [block for block in found if block is not None]
    np.testing.assert_allclose(np.array(held), [blocks[:, :, k, k] for k in range(len(held))], atol=1e-13)
    assert len(held) in (0, 3)


def test_sums_and_multiples(case):
    operator, blocks = case
    total = operator + 2.0 * operator
    np.testing.assert_allclose(total.to_dense(), 3 * oracles.block_matrix(blocks), atol=1e-12)


def test_a_sum_with_one_output_matrix_stays_separable():
    K, B = np.eye(3), np.array([[2.0, 1.0], [1.0, 2.0]])
    total = operators.Kronecker(K, B) + operators.Kronecker(2 * K, B)
    sample_gram, output_matrix = total.kronecker_factors()
    np.testing.assert_array_equal(sample_gram, 3 * K)
    np.testing.assert_array_equal(output_matrix, B)
    assert (operators.Kronecker(K, B) + operators.Kronecker(K, np.eye(2))).kronecker_factors() is None


def test_operators_of_different_shape_do_not_add():
    with pytest.raises(ValueError, match=r"\(3, 3, 2\) and \(3, 3, 1\)"):
        operators.Kronecker(np.eye(3), np.eye(2)) + operators.Kronecker(np.eye(3), np.eye(1))


def test_lazy_rows_are_evaluated_in_blocks():
    K = np.random.default_rng(0).normal(size=(10, 6))
    asked = []

    def rows(part):
        asked.append(part)
        return K[part]

    lazy = operators.row_blocks(rows, K.shape, 4)
    assert isinstance(lazy, LinearOperator)
    assert asked == []
    np.testing.assert_allclose(lazy @ np.eye(6), K)
    assert [part.start for part in asked] == [0, 4, 8]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue is -1, its largest 3"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "differ by up to 0.5"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "NaN or infinite"),
        (np.ones((2, 3)), r"shape is \(2, 3\)"),
    ],
)
def test_check_psd_says_by_how_much(matrix, message):
    with pytest.raises(ValueError, match=message):
        operators.check_psd(matrix, "it")


def test_check_psd_accepts_rank_deficient_matrices_and_huge_entries():
    operators.check_psd(np.ones((20, 20)))
    operators.check_psd(np.full((3, 3), 1e308) * np.eye(3))
