"""Data to learn from: the eight UCI sets of the paper's experiments, and a generator that needs no download."""

from outmetric.datasets.loading import load_uci
from outmetric.datasets.sets import DataError
from outmetric.datasets.waveform import make_waveform

__all__ = [
    "DataError",
    "load_uci",
    "make_waveform",
]
