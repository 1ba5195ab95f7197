"""The methods that kernel metric learning is compared with: LMNN and ITML, linear and with kernels."""

from outmetric.baselines.itml import ITML, KernelITML
from outmetric.baselines.lmnn import LMNN, KernelLMNN

__all__ = [
    "ITML",
    "LMNN",
    "KernelITML",
    "KernelLMNN",
]
