"""Supervised distance metric learning with kernels: a non-linear map into R^m and a Mahalanobis metric there."""

from outmetric import kernels
from outmetric.choosing import MetricClassifier, MetricSearchCV
from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric, OutputMetric
from outmetric.solvers import Status
from outmetric.storage import load, save

__version__ = "0.1.0"

__all__ = [
    "FixedKernelMetric",
    "LearnedKernelMetric",
    "MetricClassifier",
    "MetricSearchCV",
    "OutputMetric",
    "Status",
    "__version__",
    "kernels",
    "load",
    "save",
]
