"""Pictures of fitted models and searches, and the interactive map."""

from outmetric.maps.canvas import close, grid
from outmetric.maps.comparisons import accuracy_bars, critical_difference, neighbor_purity, search_map, search_path, verification
from outmetric.maps.learning import history, metric_matrix
from outmetric.maps.points import decision_map, honest_map, output_map, point_map
from outmetric.maps.reasons import importances, reasons
from outmetric.maps.shown import map_page, map_picture
from outmetric.maps.webmap import interactive_map
from outmetric.maps.webplacer import web_placer

__all__ = [
    "accuracy_bars",
    "close",
    "critical_difference",
    "decision_map",
    "grid",
    "history",
    "honest_map",
    "importances",
    "interactive_map",
    "map_page",
    "map_picture",
    "metric_matrix",
    "neighbor_purity",
    "output_map",
    "point_map",
    "reasons",
    "search_map",
    "search_path",
    "verification",
    "web_placer",
]
