"""How many n x n arrays does a fit hold at its peak?"""

import tracemalloc

import numpy as np
import pytest
from problems import points

from outmetric import FixedKernelMetric, LearnedKernelMetric


@pytest.mark.parametrize("model", [FixedKernelMetric, LearnedKernelMetric])
def test_at_most_three_square_arrays(model):
    n = 1200
    X, y = points(n), np.arange(n) % 4
    model().fit(X[:50], y[:50])  # imports and caches
    tracemalloc.start()
    fitted = model().fit(X, y)
    fitted.transform(X[:10])
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * 8 * n**2
    assert kept < 0.2 * 8 * n**2
