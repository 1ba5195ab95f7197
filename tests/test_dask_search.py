"""Does a search on Dask collections give the scores and the model of the search in memory?"""

import functools

import numpy as np
import pytest
from clusters import WORKERS, deadly

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
from dask.distributed import Client, LocalCluster  # noqa: E402
from sklearn.model_selection import KFold  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV  # noqa: E402
from outmetric.baselines import LMNN  # noqa: E402
from outmetric.choosing import search as search_module  # noqa: E402
from outmetric.datasets import make_waveform  # noqa: E402
from outmetric.rows import DaskRows  # noqa: E402

X, Y = make_waveform(1600, random_state=0)
GRID = {"bandwidth": ["median", 4.0], "regression_weight": [0.3, 3.0], "collocation_weight": ["auto", 0.0]}


@pytest.fixture
def in_chunks(monkeypatch):
    """Few rows stay in their chunks as many would."""
    monkeypatch.setattr(search_module, "EXACT_SAMPLES", 0)


def search(model=LearnedKernelMetric, grid=GRID, **settings):
    metric = model(n_landmarks=40, random_state=0) if isinstance(model, type) else model
    return MetricSearchCV(metric, grid, **{"n_neighbors": [1, 5, 15], "cv": 3, **settings})


@functools.cache
def in_memory(model):
    """The search in memory, which is compared with only."""
    return search(model).fit(X, Y)


def near(one, other):
    np.testing.assert_allclose(one, other, atol=1e-8 * np.abs(other).max())


def assert_same(lazy, plain, rows=X):
    assert lazy.best_params_ == plain.best_params_
    for name, scores in plain.cv_results_.items():
        if "test" in name or "train" in name:
            np.testing.assert_allclose(lazy.cv_results_[name], scores, rtol=1e-8, atol=1e-8, err_msg=name)
    near(lazy.transform(rows), plain.transform(rows))
    np.testing.assert_array_equal(lazy.predict(rows), plain.predict(rows))


def frames():
    frame = pd.DataFrame(X, columns=[f"t{k}" for k in range(21)]).assign(y=np.array(["b", "a", "c"])[Y])
    lazy = dd.from_pandas(frame, npartitions=5)
    return lazy.drop(columns="y"), lazy["y"]


@pytest.mark.usefixtures("in_chunks")
@pytest.mark.parametrize("model", [FixedKernelMetric, LearnedKernelMetric])
class TestEqualsNumPy:
    @pytest.mark.parametrize("chunks", [(1600, 21), (300, 8), (60, 21)])
    def test_arrays(self, model, chunks):
        plain = in_memory(model)
        for y in (Y, da.from_array(Y, chunks=333)):
            lazy = search(model).fit(da.from_array(X, chunks=chunks), y)
            assert_same(lazy, plain)
        mapped = lazy.transform(da.from_array(X, chunks=chunks))
        assert isinstance(mapped, da.Array)
        near(mapped.compute(), plain.transform(X))

    def test_data_frames(self, model):
        rows, labels = frames()
        lazy = search(model).fit(rows, labels)
        plain = search(model).fit(rows.compute(), labels.compute())
        assert list(lazy.feature_names_in_) == list(rows.columns)
        assert_same(lazy, plain, rows.compute())

    def test_weights_of_rows_and_classes(self, model):
        weights = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
        metric = model(n_landmarks=40, random_state=0, class_weight={0: 1.0, 1: 2.0, 2: 5.0})
        settings = {"model": metric, "grid": {"regression_weight": [0.3, 3.0]}}
        plain = search(**settings).fit(X, Y, sample_weight=weights)
        for given in (weights, da.from_array(weights, chunks=200)):
            assert_same(search(**settings).fit(da.from_array(X, chunks=(300, 21)), Y, sample_weight=given), plain)

    def test_rounds_of_an_input_metric(self, model):
        metric = model(n_landmarks=30, random_state=0, input_metric="diagonal")
        grid = {"n_rounds": [0, 1], "regression_weight": [3.0]}
        lazy = search(metric, grid).fit(da.from_array(X, chunks=(400, 21)), Y)
        assert_same(lazy, search(metric, grid).fit(X, Y))


@pytest.mark.usefixtures("in_chunks")
def test_chunks_of_unknown_size():
    lazy, labels = da.from_array(X, chunks=(200, 21)), da.from_array(Y, chunks=200)
    kept = labels != 0
    assert_same(search().fit(lazy[kept], labels[kept]), search().fit(X[Y != 0], Y[Y != 0]))


@pytest.mark.usefixtures("in_chunks")
def test_other_folds_scores_and_jobs():
    settings = {"cv": KFold(4, shuffle=True, random_state=1), "scoring": ["accuracy", "f1_macro"], "refit": "accuracy"}
    lazy = search(**settings, n_jobs=2, return_train_score=True).fit(da.from_array(X, chunks=(500, 21)), Y)
    assert_same(lazy, search(**settings, return_train_score=True).fit(X, Y))


@pytest.mark.usefixtures("in_chunks")
def test_many_rows_vote_by_a_sample_of_them():
    rows, labels = make_waveform(12_000, random_state=1)
    grid = {"regression_weight": [0.3, 3.0]}
    lazy = search(grid=grid).fit(da.from_array(rows, chunks=(3000, 21)), labels)
    assert_same(lazy, search(grid=grid).fit(rows, labels), rows[:500])
    assert lazy.voters_.n_samples_fit_ == search_module.VOTERS


@pytest.mark.usefixtures("in_chunks")
def test_real_targets_have_a_fit_for_each_candidate_and_fold():
    targets = X[:600, :2] @ [[1.0, 0.2], [0.0, 3.0]] + 5
    metric = LearnedKernelMetric(n_landmarks=40, random_state=0, collocation_weight=0.0)
    grid = {"regression_weight": [0.3, 3.0]}
    lazy = search(metric, grid).fit(da.from_array(X[:600], chunks=(100, 21)), targets)
    plain = search(metric, grid).fit(X[:600], targets)
    for name in ("split0_test_score", "mean_test_score"):
        np.testing.assert_allclose(lazy.cv_results_[name], plain.cv_results_[name], rtol=1e-7)
    np.testing.assert_allclose(lazy.predict(X), plain.predict(X), rtol=1e-7)


def test_few_rows_are_fetched_and_searched_as_if_they_had_been_in_memory():
    pipeline = make_pipeline(StandardScaler(), LearnedKernelMetric())
    grid = {"learnedkernelmetric__regression_weight": [0.3, 3.0]}
    lazy = search(pipeline, grid).fit(da.from_array(X[:300], chunks=(100, 21)), da.from_array(Y[:300], chunks=70))
    assert_same(lazy, search(pipeline, grid).fit(X[:300], Y[:300]))
    assert lazy.best_estimator_[-1].solver_ == "spectral"


@pytest.mark.usefixtures("in_chunks")
@pytest.mark.parametrize(
    ("estimator", "settings", "message"),
    [
        (make_pipeline(StandardScaler(), LearnedKernelMetric(n_landmarks=30)), {}, "prepare the collection before"),
        (LearnedKernelMetric(n_landmarks=30), {"cv": [(np.r_[:100, :100], np.arange(100, 200))]}, "repeat rows"),
        (LearnedKernelMetric(solver="spectral"), {}, "need solver='auto' or 'nystroem'"),
        (LMNN(), {}, "LMNN cannot be fitted to parts of a Dask collection"),
    ],
    ids=["pipeline", "bootstrap", "exact", "baseline"],
)
def test_what_cannot_be_done_is_told(estimator, settings, message):
    with pytest.raises(ValueError, match=message):
        search(estimator, {}, **settings).fit(da.from_array(X, chunks=(500, 21)), Y)


@pytest.mark.usefixtures("in_chunks")
def test_rows_without_labels_are_told():
    metric = LearnedKernelMetric(n_landmarks=30, unlabeled="ignore")
    with pytest.raises(ValueError, match="rows without labels need all rows in memory"):
        search(metric, {}).fit(da.from_array(X, chunks=(500, 21)), np.where(np.arange(len(Y)) < 9, -1, Y))


def test_rows_are_fetched_once(monkeypatch):
    passes = []
    monkeypatch.setattr(DaskRows, "_fetch", lambda self, rows: passes.append(len(rows)) or X[rows])
    rows = DaskRows(da.from_array(X, chunks=(100, 21)))
    np.testing.assert_array_equal(rows[[7, 3, 900]], X[[7, 3, 900]])
    np.testing.assert_array_equal(rows[np.array([900, 5, 7, 7])], X[[900, 5, 7, 7]])
    assert passes == [3, 1]


@pytest.mark.slow
@pytest.mark.usefixtures("in_chunks")
def test_a_cluster_whose_worker_dies_gives_the_same(tmp_path):
    marker = tmp_path / "died"
    with LocalCluster(**WORKERS) as cluster, Client(cluster):
        rows = da.from_array(X, chunks=(200, 21)).map_blocks(deadly(marker), dtype=float, meta=np.empty((0, 0)))
        lazy = search(n_jobs=2).fit(rows, Y)
        assert marker.exists()
        assert_same(lazy, in_memory(LearnedKernelMetric))
