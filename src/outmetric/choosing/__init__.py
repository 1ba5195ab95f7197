"""Settings chosen by cross-validation: votes, searches, committees, and the classifier that needs no settings."""

from outmetric.choosing.classifier import FINE, MetricClassifier
from outmetric.choosing.committee import Candidate, Member, Novelty
from outmetric.choosing.comparison import FOLDS, NEIGHBOURS, OURS, RIVALS, Grid, Rival, compare
from outmetric.choosing.scoring import Scoring
from outmetric.choosing.search import MetricSearchCV
from outmetric.choosing.votes import AverageVote

__all__ = [
    "FINE",
    "FOLDS",
    "NEIGHBOURS",
    "OURS",
    "RIVALS",
    "AverageVote",
    "Candidate",
    "Grid",
    "Member",
    "MetricClassifier",
    "MetricSearchCV",
    "Novelty",
    "Rival",
    "Scoring",
    "compare",
]
