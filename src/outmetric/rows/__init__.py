"""Many rows: landmarks among them, sums over blocks of them, streams, and Dask."""

from outmetric.rows.chunks import Chunks, dask_client, is_dask, transform_lazily, weighted_rows
from outmetric.rows.landmarks import (
    CANDIDATES,
    CHOICES,
    EXACT_MEMBERS,
    EXACT_SAMPLES,
    EXACT_SEARCHED,
    LANDMARKS,
    LandmarkMap,
    choose,
)
from outmetric.rows.moments import blocks_of, gather, similarity_laplacian
from outmetric.rows.neighbours import NeighbourGraph
from outmetric.rows.pullback import Jacobians, PullBack, pull_back
from outmetric.rows.statistics import CheckedBlock, Statistics
from outmetric.rows.streams import BlockStream

__all__ = [
    "CANDIDATES",
    "CHOICES",
    "EXACT_MEMBERS",
    "EXACT_SAMPLES",
    "EXACT_SEARCHED",
    "LANDMARKS",
    "BlockStream",
    "CheckedBlock",
    "Chunks",
    "Jacobians",
    "LandmarkMap",
    "NeighbourGraph",
    "PullBack",
    "Statistics",
    "blocks_of",
    "choose",
    "dask_client",
    "gather",
    "is_dask",
    "pull_back",
    "similarity_laplacian",
    "transform_lazily",
    "weighted_rows",
]
