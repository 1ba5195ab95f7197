"""Are generated data what their definition says?"""

import numpy as np

from outmetric.datasets import make_waveform


def test_waveforms_have_the_moments_of_their_definition():
    X, y = make_waveform(60_000, random_state=1)
    position = np.arange(1, 22)
    h1, h2, h3 = (np.maximum(6 - np.abs(position - centre), 0) for centre in (7, 15, 11))
    for label, (a, b) in enumerate([(h1, h2), (h1, h3), (h2, h3)]):
        rows = X[y == label]
        np.testing.assert_allclose(rows.mean(axis=0), (a + b) / 2, atol=0.08)
        np.testing.assert_allclose(rows.var(axis=0), 1 + (a - b) ** 2 * (1001**2 - 1) / (12 * 1000**2), rtol=0.06)
    assert np.bincount(y).min() > 19_500
    np.testing.assert_array_equal(make_waveform(5, 3)[0], make_waveform(5, 3)[0])
