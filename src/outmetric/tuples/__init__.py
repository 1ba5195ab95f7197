"""Baselines that learn from pairs, triplets and quadruplets of points, and classify these, with metric-learn's methods."""

from outmetric.tuples.comparisons import QuadrupletsKernelLMNN, QuadrupletsLMNN, TripletsKernelLMNN, TripletsLMNN
from outmetric.tuples.pairs import PairsITML, PairsKernelITML

__all__ = [
    "PairsITML",
    "PairsKernelITML",
    "QuadrupletsKernelLMNN",
    "QuadrupletsLMNN",
    "TripletsKernelLMNN",
    "TripletsLMNN",
]
