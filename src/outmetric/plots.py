"""Pictures of fitted models and searches: each function takes an ``ax`` (or makes one), draws, and returns it.

Where a model is asked for, it may also be a fitted `Pipeline` that holds a metric, a `MetricSearchCV` or a `MetricClassifier`.
Colours can be told apart by the colour-blind, and marks and hatches without any colour.
"""

from outmetric.maps import *  # noqa: F403 (a public path to the room, which names a new picture once)
from outmetric.maps import __all__ as __all__
