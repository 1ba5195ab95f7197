"""Same or different: thresholds on distances of pairs, probabilities, error rates with intervals, and retrieval."""

from outmetric.verification.intervals import Estimate
from outmetric.verification.pairs import Pairs, draw_pairs, split_identities
from outmetric.verification.rates import PUBLISHED, OperatingPoints, best_threshold, check_strategy, operating_points
from outmetric.verification.retrieval import RetrievalScores, retrieval_scores
from outmetric.verification.verifier import PairVerifier

__all__ = [
    "PUBLISHED",
    "Estimate",
    "OperatingPoints",
    "PairVerifier",
    "Pairs",
    "RetrievalScores",
    "best_threshold",
    "check_strategy",
    "draw_pairs",
    "operating_points",
    "retrieval_scores",
    "split_identities",
]
