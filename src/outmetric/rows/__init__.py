"""Many rows: landmarks among them, sums over blocks of them, streams, and Dask."""

from outmetric.rows.chunks import Chunks, is_dask, transform_lazily
from outmetric.rows.landmarks import CANDIDATES, CHOICES, choose
from outmetric.rows.moments import blocks_of, gather, similarity_laplacian
from outmetric.rows.statistics import Statistics
from outmetric.rows.streams import Stream

__all__ = [
    "CANDIDATES",
    "CHOICES",
    "Chunks",
    "Statistics",
    "Stream",
    "blocks_of",
    "choose",
    "gather",
    "is_dask",
    "similarity_laplacian",
    "transform_lazily",
]
