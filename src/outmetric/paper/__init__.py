"""The paper's experiments: protocol, runner, statistics, claims and report."""

from outmetric.paper import protocol, report, runner
from outmetric.paper.protocol import Trial
from outmetric.paper.runner import State, Store, TrialResult

__all__ = [
    "State",
    "Store",
    "Trial",
    "TrialResult",
    "protocol",
    "report",
    "runner",
]
