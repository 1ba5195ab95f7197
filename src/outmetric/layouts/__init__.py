"""Honest maps: rows placed in the plane by models that have not seen them, and how far such a map may be believed."""

from outmetric.layouts.fitted import Fitted
from outmetric.layouts.layout import MapQuality
from outmetric.layouts.metric_map import MetricMap

__all__ = ["Fitted", "MapQuality", "MetricMap"]
