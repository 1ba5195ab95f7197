"""Many rows: landmarks among them, sums over blocks of them, streams, and Dask."""

from outmetric.rows.chunks import (
    ChunkedPoints,
    Chunks,
    DaskRows,
    cells_of,
    dask_client,
    in_memory,
    is_dask,
    transform_lazily,
    weighted_rows,
)
from outmetric.rows.folds import ClassSums, class_summary, fold_sums, sums_bytes
from outmetric.rows.landmarks import (
    CANDIDATES,
    CHOICES,
    EXACT_SAMPLES,
    EXACT_SEARCHED,
    LANDMARKS,
    LandmarkMap,
    choose,
)
from outmetric.rows.moments import blocks_of, gather, similarity_laplacian
from outmetric.rows.neighbours import NeighbourGraph
from outmetric.rows.pullback import Jacobians, PullBack, pull_back
from outmetric.rows.statistics import CheckedBlock, ReducedStatistics, Statistics, target_summary
from outmetric.rows.streams import BlockStream

__all__ = [
    "CANDIDATES",
    "CHOICES",
    "EXACT_SAMPLES",
    "EXACT_SEARCHED",
    "LANDMARKS",
    "BlockStream",
    "CheckedBlock",
    "ChunkedPoints",
    "Chunks",
    "ClassSums",
    "DaskRows",
    "Jacobians",
    "LandmarkMap",
    "NeighbourGraph",
    "PullBack",
    "ReducedStatistics",
    "Statistics",
    "blocks_of",
    "cells_of",
    "choose",
    "class_summary",
    "dask_client",
    "fold_sums",
    "gather",
    "in_memory",
    "is_dask",
    "pull_back",
    "similarity_laplacian",
    "sums_bytes",
    "target_summary",
    "transform_lazily",
    "weighted_rows",
]
