"""The classifier and the regressor that need no settings: maps are screened, a committee is chosen, and its maps are fitted."""

from outmetric.automatic.classifier import MetricClassifier
from outmetric.automatic.comparison import COVERAGE, FOLDS, NEIGHBOURS, OURS, RIVALS, Comparison, Grid, Rival, compare
from outmetric.automatic.members import Candidate, Member
from outmetric.automatic.regressor import MetricRegressor

__all__ = [
    "COVERAGE",
    "FOLDS",
    "NEIGHBOURS",
    "OURS",
    "RIVALS",
    "Candidate",
    "Comparison",
    "Grid",
    "Member",
    "MetricClassifier",
    "MetricRegressor",
    "Rival",
    "compare",
]
