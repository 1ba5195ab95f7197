"""The waveform data of Breiman et al., generated."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from outmetric.foundation import Array

WAVEFORM_POSITIONS = np.arange(1, 22)
# Three triangles of height 6; each class mixes two of them.
WAVEFORM_BASES = np.maximum(6 - np.abs(WAVEFORM_POSITIONS - np.array([[7], [15], [11]])), 0)
WAVEFORM_PAIRS = np.array([[0, 1], [0, 2], [1, 2]])


def make_waveform(n_samples: int = 5000, random_state: Any = None) -> tuple[Array, Array]:
    """The waveform data of Breiman et al. (1984), as the UCI generator (version 1) makes them.

    A row of class k is u * a + (1 - u) * b + noise at 21 positions: a and b are the two triangular waves of the class, u is
    uniform on {0, 0.001, ..., 1}, the noise is standard normal, and values are rounded to two decimals. Classes are equally
    likely; the best possible accuracy is about 86 %.

    Parameters
    ----------
    n_samples : int
    random_state : int, RandomState or None

    Returns
    -------
    X : array of shape (n_samples, 21)
    y : array of shape (n_samples,)
        Classes 0, 1, 2.

    Examples
    --------
    >>> X, y = make_waveform(100, random_state=0)
    >>> X.shape
    (100, 21)
    """
    rng = check_random_state(random_state)
    y = rng.randint(3, size=n_samples)
    share = rng.randint(1001, size=(n_samples, 1)) / 1000
    first, second = WAVEFORM_BASES[WAVEFORM_PAIRS[y]].transpose(1, 0, 2)
    noise = rng.normal(size=(n_samples, 21))
    return np.round(share * first + (1 - share) * second + noise, 2), y
