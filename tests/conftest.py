"""What several test modules need of pytest."""

import pytest

from outmetric.choosing import classifier


@pytest.fixture(scope="module")
def one_preparation():
    """`MetricClassifier` tries one preparation of the data only: fast, and the same on machines of any speed."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SCALINGS": ("standard",), "KERNELS": ("rbf",), "POWERS": (0.0,), "REFINED": 0}.items():
            patch.setattr(classifier, name, value)
        yield
