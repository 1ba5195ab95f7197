"""Do Dask collections give the same fits, on threads and on a cluster, even if a worker dies?"""

import numpy as np
import pytest
from clusters import WORKERS, deadly

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
from dask.distributed import Client, LocalCluster  # noqa: E402

from outmetric import FixedKernelMetric, LearnedKernelMetric  # noqa: E402
from outmetric.datasets import make_waveform  # noqa: E402
from outmetric.rows.chunks import FAN_IN  # noqa: E402

MODELS = [FixedKernelMetric, LearnedKernelMetric]


@pytest.fixture(scope="module")
def wave():
    return make_waveform(1500, random_state=0)


def near(one, other):
    np.testing.assert_allclose(one, other, atol=1e-8 * np.abs(other).max())


@pytest.mark.parametrize("model", MODELS)
class TestEqualsNumPy:
    def estimator(self, model, **settings):
        return model(solver="nystroem", n_landmarks=60, random_state=0, **settings)

    @pytest.mark.parametrize("chunks", [(1500, 21), (400, 5), (40, 21)])
    def test_arrays(self, model, chunks, wave):
        X, y = wave
        assert chunks[0] > 40 or len(X) / chunks[0] > FAN_IN**1.5  # the tree has several levels
        plain = self.estimator(model).fit(X, y)
        lazy = da.from_array(X, chunks=chunks)
        for targets in (y, da.from_array(y, chunks=333)):
            fitted = self.estimator(model).fit(lazy, targets)
            near(fitted.transform(X), plain.transform(X))
        mapped = fitted.transform(lazy)
        assert isinstance(mapped, da.Array)
        assert mapped.shape == (1500, 2)
        near(mapped.compute(), plain.transform(X))
        near(fitted.map(lazy).compute(), plain.map(X))
        assert fitted.solver_reason_.startswith("rows came in chunks")

    def test_data_frames(self, model, wave):
        X, y = wave
        frame = pd.DataFrame(X, columns=[f"t{k}" for k in range(21)]).assign(y=y)
        lazy = dd.from_pandas(frame, npartitions=4)
        fitted = self.estimator(model).fit(lazy.drop(columns="y"), lazy["y"])
        plain = self.estimator(model).fit(X, y)
        assert list(fitted.feature_names_in_) == list(frame.columns[:-1])
        near(fitted.transform(lazy.drop(columns="y")).compute(), plain.transform(X))

    def test_unknown_chunk_sizes(self, model, wave):
        X, y = wave
        lazy, targets = da.from_array(X, chunks=(200, 21)), da.from_array(y, chunks=200)
        kept = targets != 0
        fitted = self.estimator(model).fit(lazy[kept], targets[kept])
        near(fitted.transform(X), self.estimator(model).fit(X[y != 0], y[y != 0]).transform(X))

    def test_real_targets(self, model, wave):
        X, _ = wave
        Y = X[:, :2] @ [[1.0, 0.2], [0.0, 3.0]] + 5
        fitted = self.estimator(model, collocation_weight=0.0).fit(da.from_array(X, chunks=(300, 21)), Y)
        near(fitted.map(X), self.estimator(model, collocation_weight=0.0).fit(X, Y).map(X))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (da.ones((10, 2), chunks=5), np.arange(9), "inconsistent"),
        (da.ones((10, 2), chunks=5), da.arange(9, chunks=3), "inconsistent"),
        (da.ones((10, 2), chunks=5), None, "requires y"),
        (da.ones(10, chunks=5), np.arange(10) % 2, "Expected 2D"),
        (da.from_array(np.r_[np.ones((9, 2)), [[np.nan, 1]]], chunks=5), np.arange(10) % 2, "NaN"),
        (da.from_array(np.random.default_rng(0).normal(size=(10, 2)), chunks=5), np.zeros(10), "one class"),
        (da.ones((0, 2), chunks=5), np.empty(0), "0 sample"),
    ],
)
def test_bad_input(X, y, message):
    with pytest.raises(ValueError, match=message):
        LearnedKernelMetric(bandwidth=1.0).fit(X, y)


def test_partitions_without_rows(wave):
    X, y = wave
    fitted = LearnedKernelMetric(n_landmarks=20).fit(X, y)
    lazy = da.from_array(X, chunks=(500, 21))
    assert fitted.transform(lazy[lazy[:, 0] > 1e9]).compute().shape == (0, 2)


def test_transform_checks_the_columns(wave):
    X, y = wave
    fitted = LearnedKernelMetric(n_landmarks=20).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        fitted.transform(da.from_array(X[:, :5], chunks=500)).compute()


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing(wave, tmp_path):
    X, y = wave
    plain = LearnedKernelMetric(n_landmarks=60, random_state=0).fit(X, y)
    marker = tmp_path / "died"
    with LocalCluster(**WORKERS) as cluster, Client(cluster):
        lazy = da.from_array(X, chunks=(150, 21)).map_blocks(deadly(marker), dtype=float, meta=np.empty((0, 0)))
        fitted = LearnedKernelMetric(n_landmarks=60, random_state=0).fit(lazy, y)
        assert marker.exists()
        near(fitted.transform(X), plain.transform(X))
        near(fitted.transform(lazy).compute(), plain.transform(X))
