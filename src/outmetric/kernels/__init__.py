"""What makes points comparable: scalar kernels, matrix-valued kernels, their Gram operators and Nystroem features."""

from outmetric.foundation import check_psd
from outmetric.kernels.matrix import Callable, Diagonal, MatrixKernel, Precomputed, Separable, Sum
from outmetric.kernels.nystroem import Features, Landmarks
from outmetric.kernels.operators import BlockDiagonal, GramOperator, Kronecker, SampleGram, row_blocks
from outmetric.kernels.scalar import Scalar, Takes, median_distance, median_factor
from outmetric.kernels.strings import Spectrum, WeightedDegree

__all__ = [
    "BlockDiagonal",
    "Callable",
    "Diagonal",
    "Features",
    "GramOperator",
    "Kronecker",
    "Landmarks",
    "MatrixKernel",
    "Precomputed",
    "SampleGram",
    "Scalar",
    "Separable",
    "Spectrum",
    "Sum",
    "Takes",
    "WeightedDegree",
    "check_psd",
    "median_distance",
    "median_factor",
    "row_blocks",
]
