"""The methods that kernel metric learning is compared with: LMNN and ITML, linear and with kernels.

They have the face of the other estimators here and of metric-learn: `fit`, `transform`, `pair_distance`, `get_metric`,
`get_mahalanobis_matrix`.
"""

from outmetric.baselines.estimators import ITML, LMNN, KernelITML, KernelLMNN

__all__ = ["ITML", "LMNN", "KernelITML", "KernelLMNN"]
