"""The paper's experiments: protocol, runner, statistics, claims and report."""

from outmetric.paper.protocol import METHODS, Trial
from outmetric.paper.runner import Result, State, Store

__all__ = [
    "METHODS",
    "Result",
    "State",
    "Store",
    "Trial",
]
