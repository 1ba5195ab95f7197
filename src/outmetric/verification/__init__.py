"""Same or different: thresholds on distances of pairs, probabilities, error rates with intervals, and retrieval."""

from outmetric.verification.intervals import Estimate
from outmetric.verification.pairs import Pairs, draw_pairs, split_identities
from outmetric.verification.rates import OperatingPoints, operating_points
from outmetric.verification.retrieval import RetrievalScores, retrieval_scores
from outmetric.verification.verifier import PairVerifier

__all__ = [
    "Estimate",
    "OperatingPoints",
    "PairVerifier",
    "Pairs",
    "RetrievalScores",
    "draw_pairs",
    "operating_points",
    "retrieval_scores",
    "split_identities",
]
