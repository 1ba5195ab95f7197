"""The methods that kernel metric learning is compared with: LMNN and ITML, linear and with kernels.

They have the face of the other estimators here and of metric-learn: `fit`, `transform`, `pair_distance`, `get_metric`,
`get_mahalanobis_matrix`.
"""

from outmetric.baselines.itml import ITML, KernelITML
from outmetric.baselines.lmnn import LMNN, KernelLMNN

__all__ = ["ITML", "LMNN", "KernelITML", "KernelLMNN"]
