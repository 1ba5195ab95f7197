"""The two models as scikit-learn estimators: parameters, checks, fits, fitted metrics and their summaries."""

from outmetric.estimators.attribution import Reasons, exchanged
from outmetric.estimators.base import (
    KernelTransformer,
    MetricTransformer,
    bandwidth_of,
    check_new,
    check_training,
    coordinates_of_tuples,
    data_kind,
    kept_points,
    own_copy,
)
from outmetric.estimators.checks import (
    TUPLES,
    check_kernel_parameters,
    check_labels,
    check_points,
    check_real_targets,
    check_supervision,
    declared_kernel,
    gaps,
    located,
    mostly_alone,
    points_of_tuples,
    without_gaps,
)
from outmetric.estimators.fitting import exact_problem, landmark_map
from outmetric.estimators.kernel_metric import Gathered, KernelMetric
from outmetric.estimators.metric import LinearMetric, Metric, OutputMetric, exportable_metric
from outmetric.estimators.models import FixedKernelMetric, LearnedKernelMetric
from outmetric.estimators.rounds import Round, kernel_of_round, transform_of
from outmetric.estimators.settings import Settings, check_unlabelled, settings_of
from outmetric.estimators.streaming import chunked_points, with_checked_landmarks
from outmetric.estimators.summary import Described, Fact, data, leading_features, listed, number, setting, settings_text, shortened
from outmetric.estimators.unlabelled import PartlyLabelled

__all__ = [
    "TUPLES",
    "Described",
    "Fact",
    "FixedKernelMetric",
    "Gathered",
    "KernelMetric",
    "KernelTransformer",
    "LearnedKernelMetric",
    "LinearMetric",
    "Metric",
    "MetricTransformer",
    "OutputMetric",
    "PartlyLabelled",
    "Reasons",
    "Round",
    "Settings",
    "bandwidth_of",
    "check_kernel_parameters",
    "check_labels",
    "check_new",
    "check_points",
    "check_real_targets",
    "check_supervision",
    "check_training",
    "check_unlabelled",
    "chunked_points",
    "coordinates_of_tuples",
    "data",
    "data_kind",
    "declared_kernel",
    "exact_problem",
    "exchanged",
    "exportable_metric",
    "gaps",
    "kept_points",
    "kernel_of_round",
    "landmark_map",
    "leading_features",
    "listed",
    "located",
    "mostly_alone",
    "number",
    "own_copy",
    "points_of_tuples",
    "setting",
    "settings_of",
    "settings_text",
    "shortened",
    "transform_of",
    "with_checked_landmarks",
    "without_gaps",
]
