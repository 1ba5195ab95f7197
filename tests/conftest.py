"""What several test modules need of pytest."""

import pytest

from outmetric.automatic import screening

FEW = {"SCALINGS": ("standard",), "KERNELS": ("rbf",), "FORESTS": (), "POWERS": (), "TRACKS": 0, "READ_BY_NEIGHBOURS": 1}


@pytest.fixture(scope="module")
def one_preparation():
    """`MetricClassifier` and `MetricRegressor` try one kernel and one scaling only: fast, and the same on machines of any speed."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in FEW.items():
            patch.setattr(screening, name, value)
        yield
