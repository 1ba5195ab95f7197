"""The two models as scikit-learn estimators: parameters, checks, fits, fitted metrics and their summaries."""

from outmetric.estimators.base import KernelTransformer, MetricTransformer
from outmetric.estimators.checks import check_points, check_supervision, points_of_pairs
from outmetric.estimators.fitting import Gathered
from outmetric.estimators.metric import LinearMetric, Metric, OutputMetric, exportable_metric
from outmetric.estimators.models import FixedKernelMetric, LearnedKernelMetric
from outmetric.estimators.summary import Described, Fact, data, listed, number, setting, settings, shortened

__all__ = [
    "Described",
    "Fact",
    "FixedKernelMetric",
    "Gathered",
    "KernelTransformer",
    "LearnedKernelMetric",
    "LinearMetric",
    "Metric",
    "MetricTransformer",
    "OutputMetric",
    "check_points",
    "check_supervision",
    "data",
    "exportable_metric",
    "listed",
    "number",
    "points_of_pairs",
    "setting",
    "settings",
    "shortened",
]
