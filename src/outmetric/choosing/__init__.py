"""Settings chosen by cross-validation: votes, searches, committees, and the classifier that needs no settings."""

from outmetric.choosing.classifier import FINE, MetricClassifier
from outmetric.choosing.committee import Candidate, Member
from outmetric.choosing.comparison import OURS, compare
from outmetric.choosing.rivals import FOLDS, NEIGHBOURS, RIVALS, Grid, Rival
from outmetric.choosing.search import MetricSearchCV

__all__ = [
    "FINE",
    "FOLDS",
    "NEIGHBOURS",
    "OURS",
    "RIVALS",
    "Candidate",
    "Grid",
    "Member",
    "MetricClassifier",
    "MetricSearchCV",
    "Rival",
    "compare",
]
