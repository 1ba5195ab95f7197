"""Pictures of fitted models and searches: each function takes an ``ax`` (or makes one), draws, and returns it.

Where a model is asked for, it may also be a fitted `Pipeline` that holds a metric, a `MetricSearchCV` or a `MetricClassifier`.
Colours can be told apart by the colour-blind, and marks and hatches without any colour.
"""

from outmetric.maps import (
    accuracy_bars,
    close,
    critical_difference,
    decision_map,
    grid,
    history,
    metric_matrix,
    neighbor_purity,
    output_map,
    point_map,
    search_map,
    search_path,
)

__all__ = [
    "accuracy_bars",
    "close",
    "critical_difference",
    "decision_map",
    "grid",
    "history",
    "metric_matrix",
    "neighbor_purity",
    "output_map",
    "point_map",
    "search_map",
    "search_path",
]
