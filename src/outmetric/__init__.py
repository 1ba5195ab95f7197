"""Supervised distance metric learning with kernels: a non-linear map into R^m and a Mahalanobis metric there.

Public names are loaded from their rooms when they are first used, so that the import itself costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from outmetric import moved

if TYPE_CHECKING:
    from outmetric import baselines as baselines
    from outmetric import columns as columns
    from outmetric import datasets as datasets
    from outmetric import export as export
    from outmetric import kernels as kernels
    from outmetric import maps as maps
    from outmetric import plots as plots
    from outmetric import storage as storage
    from outmetric import tables as tables
    from outmetric import tuples as tuples
    from outmetric import verification as verification
    from outmetric.automatic import MetricClassifier, MetricRegressor
    from outmetric.choosing import MetricSearchCV
    from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric, OutputMetric
    from outmetric.layouts import MetricMap
    from outmetric.solvers import Status
    from outmetric.storage import load, save

__version__ = "0.2.0"

__all__ = [
    "FixedKernelMetric",
    "LearnedKernelMetric",
    "MetricClassifier",
    "MetricMap",
    "MetricRegressor",
    "MetricSearchCV",
    "OutputMetric",
    "Status",
    "__version__",
    "kernels",
    "load",
    "save",
]

# The rooms that public names come from, and public rooms.
ROOM_OF = {
    "FixedKernelMetric": "estimators",
    "LearnedKernelMetric": "estimators",
    "MetricClassifier": "automatic",
    "MetricMap": "layouts",
    "MetricRegressor": "automatic",
    "MetricSearchCV": "choosing",
    "OutputMetric": "estimators",
    "Status": "solvers",
    "load": "storage",
    "save": "storage",
}
ROOMS = ("baselines", "columns", "datasets", "export", "kernels", "maps", "plots", "storage", "tables", "tuples", "verification")


def _load(name: str) -> object:
    """A public name, from its room."""
    if name in ROOMS:
        return import_module(f"outmetric.{name}")
    if name not in ROOM_OF:
        raise AttributeError(f"module 'outmetric' has no attribute {name!r}")
    return getattr(import_module(f"outmetric.{ROOM_OF[name]}"), name)


if not TYPE_CHECKING:  # checkers know the names from above, and that there are no others
    __getattr__ = _load


moved.install()


def __dir__() -> list[str]:
    return sorted({*__all__, *ROOMS})
