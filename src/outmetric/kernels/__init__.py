"""What makes points comparable: scalar kernels, matrix-valued kernels, their Gram operators and Nystroem features."""

from outmetric.foundation import check_psd
from outmetric.kernels import distances, pairwise  # noqa: F401  (enter their kernels into the registry)
from outmetric.kernels.base import KERNELS, InputMetricKind, ScalarKernel, Takes, median_factor, register
from outmetric.kernels.combined import Columns, ScalarProduct, ScalarSum
from outmetric.kernels.forests import Forest, Trees
from outmetric.kernels.matrix import Callable, Diagonal, MatrixKernel, Precomputed, Separable, Sum
from outmetric.kernels.nystroem import Features, Landmarks
from outmetric.kernels.operators import (
    BlockDiagonal,
    GramOperator,
    Kronecker,
    SampleGram,
    row_blocks,
    symmetric_product,
    weighted_matrix,
)
from outmetric.kernels.scalar import Scalar, as_scalar
from outmetric.kernels.strings import Spectrum, WeightedDegree
from outmetric.kernels.transformed import Transformed

__all__ = [
    "KERNELS",
    "BlockDiagonal",
    "Callable",
    "Columns",
    "Diagonal",
    "Features",
    "Forest",
    "GramOperator",
    "InputMetricKind",
    "Kronecker",
    "Landmarks",
    "MatrixKernel",
    "Precomputed",
    "SampleGram",
    "Scalar",
    "ScalarKernel",
    "ScalarProduct",
    "ScalarSum",
    "Separable",
    "Spectrum",
    "Sum",
    "Takes",
    "Transformed",
    "Trees",
    "WeightedDegree",
    "as_scalar",
    "check_psd",
    "median_factor",
    "register",
    "row_blocks",
    "symmetric_product",
    "weighted_matrix",
]
