"""What is minimised: targets, coupling, objective, and one object for each of the two models."""

from outmetric.problem.coupling import (
    ClassSimilarity,
    Coupling,
    MatrixSimilarity,
    Similarity,
    gaussian_similarity,
    matrix_similarity,
)
from outmetric.problem.models import Factors, FixedKernelModel, LearnedKernelModel, Model
from outmetric.problem.objective import (
    Terms,
    coefficient_residual,
    map_terms,
    residual_scatter,
)
from outmetric.problem.prototypes import make_prototypes, simplex, spread
from outmetric.problem.summary import ClassSummary, Summary, real_summary
from outmetric.problem.targets import (
    LARGEST_TARGET,
    Targets,
    class_targets,
    real_targets,
    target_components,
    target_rank,
    target_scales,
)

__all__ = [
    "LARGEST_TARGET",
    "ClassSimilarity",
    "ClassSummary",
    "Coupling",
    "Factors",
    "FixedKernelModel",
    "LearnedKernelModel",
    "MatrixSimilarity",
    "Model",
    "Similarity",
    "Summary",
    "Targets",
    "Terms",
    "class_targets",
    "coefficient_residual",
    "gaussian_similarity",
    "make_prototypes",
    "map_terms",
    "matrix_similarity",
    "real_summary",
    "real_targets",
    "residual_scatter",
    "simplex",
    "spread",
    "target_components",
    "target_rank",
    "target_scales",
]
