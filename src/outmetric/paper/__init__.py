"""The paper's experiments: protocol, runner, statistics, claims and report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from outmetric.paper.protocol import FRACTIONS, METHODS, PAPER_METHODS, PAPER_SETS, QUICK_SETS, REPEATS, Trial, plan
from outmetric.paper.runner import State, Store, TrialResult, run

if TYPE_CHECKING:
    from outmetric.paper.report import Written


def write_report(
    results: Sequence[TrialResult], folder: str | os.PathLike[str], data_dir: Any = None, others: Sequence[TrialResult] = ()
) -> Written:
    """Write the report on a run; `others` are kept in its table of results as well."""
    from outmetric.paper.report import write  # workers run trials without any pictures

    return write(results, folder, data_dir, others)


__all__ = [
    "FRACTIONS",
    "METHODS",
    "PAPER_METHODS",
    "PAPER_SETS",
    "QUICK_SETS",
    "REPEATS",
    "State",
    "Store",
    "Trial",
    "TrialResult",
    "plan",
    "run",
    "write_report",
]
