"""Do the classifier and the regressor that need no settings learn from Dask collections what they learn in memory?"""

import functools

import numpy as np
import pytest
from clusters import WORKERS, deadly

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
from dask.distributed import Client, LocalCluster  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from outmetric import (  # noqa: E402
    MetricClassifier,
    MetricRegressor,
    cli,
    load,
    save,
)
from outmetric.automatic import base, landmarks, members  # noqa: E402
from outmetric.datasets import make_waveform  # noqa: E402

X, Y = make_waveform(520, random_state=0)
X = X[:, 5:15]
REAL = X[:, 0] + np.sin(X[:, 1]) + 0.5 * X[:, 2]


@pytest.fixture
def in_chunks(monkeypatch):
    """Few rows stay in their chunks, and are mapped with landmarks, as many would be."""
    monkeypatch.setattr(base, "EXACT_SAMPLES", 0)
    monkeypatch.setattr(landmarks, "EXACT_SAMPLES", 0)
    monkeypatch.setattr(landmarks, "LANDMARKS", 60)
    monkeypatch.setattr(landmarks, "MOST", 60)
    monkeypatch.setattr(landmarks, "VALIDATION", 100)


@functools.cache
def in_memory():
    """A classifier of rows in memory, which is compared with only; fitted while few rows count as many."""
    return MetricClassifier(random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(**WORKERS) as cluster:
        yield cluster


def near(one, other):
    np.testing.assert_allclose(one, other, atol=1e-8 * np.abs(other).max())


@pytest.mark.usefixtures("in_chunks")
def test_classes_of_arrays(tmp_path):
    plain = in_memory()
    rows = da.from_array(X, chunks=(100, 4))
    lazy = MetricClassifier(random_state=0).fit(rows, da.from_array(Y, chunks=111))
    assert {member.pipeline[-1].solver_ for member in plain.committee_} == {"nystroem"}
    assert len(lazy.committee_) == len(plain.committee_)
    near(lazy.predict_proba(X), plain.predict_proba(X))
    near(lazy.transform(X), plain.transform(X))
    near(lazy.novelty(X[:9]), plain.novelty(X[:9]))
    np.testing.assert_array_equal(lazy.kneighbors(X[:9])[1], plain.kneighbors(X[:9])[1])
    assert lazy.committee_[0].pipeline[-1].n_samples_fit_ == len(X)
    for method in (lazy.predict_proba, lazy.transform, lazy.predict):
        found = method(rows)
        assert isinstance(found, da.Array)
        near(found.compute(), method(X))
    assert "520 that were fetched" in lazy.summary()
    save(lazy, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), lazy.predict(X))


@pytest.mark.usefixtures("in_chunks")
def test_real_targets_of_data_frames_with_categories_gaps_and_weights():
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(word=np.array(["x", "y", "z"])[Y])
    frame.loc[::7, "b"] = np.nan
    weights = (np.arange(len(X)) % 5 > 0).astype(float)
    plain = MetricRegressor(random_state=0).fit(frame, REAL, sample_weight=weights)
    rows = dd.from_pandas(frame, npartitions=4)
    lazy = MetricRegressor(random_state=0).fit(rows, REAL, sample_weight=da.from_array(weights, chunks=77))
    near(lazy.predict(frame), plain.predict(frame))
    near(lazy.predict(rows).compute(), plain.predict(frame))
    assert lazy.sampled_rows_.tolist() == np.flatnonzero(weights).tolist()


@pytest.mark.usefixtures("in_chunks")
def test_a_sample_is_fetched_and_all_rows_are_learned_from(monkeypatch):
    monkeypatch.setattr(base, "SEARCHED_ROWS", 200)
    monkeypatch.setattr(base, "FETCHED_ROWS", 300)
    model = MetricClassifier(time_budget=2, random_state=0).fit(da.from_array(X, chunks=(100, 10)), Y)
    assert 200 <= len(model.sampled_rows_) <= 300
    assert model.best_estimator_[-1].n_samples_fit_ == len(X)
    _, rows = model.kneighbors(X[model.sampled_rows_[:20]], 1)
    np.testing.assert_array_equal(rows[:, 0], model.sampled_rows_[:20])
    assert np.mean(model.predict(X) == Y) > 0.8


def test_maps_of_rows_in_chunks_are_never_exact(monkeypatch):
    """However few of them are fetched: exact fits want all rows in memory."""
    monkeypatch.setattr(base, "EXACT_SAMPLES", 0)
    monkeypatch.setattr(members, "REDUCED", 100)
    model = MetricClassifier(random_state=0).fit(da.from_array(X, chunks=(100, 10)), Y)
    assert {member.pipeline[-1].solver_ for member in model.committee_} == {"nystroem"}
    assert model.best_estimator_[-1].n_samples_fit_ == len(X)


@pytest.mark.usefixtures("in_chunks")
def test_a_rare_class_is_among_the_rows_that_vote(monkeypatch):
    monkeypatch.setattr(base, "SEARCHED_ROWS", 100)
    monkeypatch.setattr(base, "FETCHED_ROWS", 150)
    labels = Y.copy()
    labels[77] = 7
    model = MetricClassifier(time_budget=2, random_state=0).fit(da.from_array(X, chunks=(100, 10)), labels)
    assert 77 in model.sampled_rows_
    assert len(model.neighbours_.classes_) == 4
    assert model.predict_proba(X).shape == (len(X), 4)


def test_few_rows_are_fetched_and_fitted_as_if_they_had_been_in_memory():
    settings = {"time_budget": 1000, "random_state": 0}
    lazy = MetricClassifier(**settings).fit(da.from_array(X[:90], chunks=(30, 10)), Y[:90])
    assert not hasattr(lazy, "sampled_rows_")
    near(lazy.predict_proba(X), MetricClassifier(**settings).fit(X[:90], Y[:90]).predict_proba(X))


@pytest.mark.usefixtures("in_chunks")
@pytest.mark.parametrize(
    ("rows", "labels", "settings", "message"),
    [
        (X, np.where(np.arange(len(Y)) < 9, -1, Y), {"unlabeled": "graph"}, "rows without labels need all rows in memory"),
        (X, Y[:-1], {}, "inconsistent numbers of samples"),
        (np.where(np.arange(len(X))[:, None] == 519, np.nan, X), Y, {}, "fill them before"),
    ],
    ids=["unlabelled", "lengths", "gaps"],
)
def test_what_cannot_be_done_is_told(rows, labels, settings, message, monkeypatch):
    monkeypatch.setattr(base, "SEARCHED_ROWS", 100)
    monkeypatch.setattr(base, "FETCHED_ROWS", 101)
    with pytest.raises(ValueError, match=message):
        MetricClassifier(time_budget=1, random_state=0, **settings).fit(da.from_array(rows, chunks=(130, 10)), labels)


@pytest.mark.slow
@pytest.mark.usefixtures("in_chunks")
def test_a_cluster_whose_worker_dies_gives_the_same(tmp_path):
    marker = tmp_path / "died"
    with LocalCluster(**WORKERS) as cluster, Client(cluster):
        rows = da.from_array(X, chunks=(100, 10)).map_blocks(deadly(marker), dtype=float, meta=np.empty((0, 0)))
        lazy = MetricClassifier(random_state=0).fit(rows, Y)
    assert marker.exists()
    near(lazy.predict_proba(X), in_memory().predict_proba(X))


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def mixed_table(n=500):
    words = np.array(["x", "y", "z"])[Y[:n]]
    frame = pd.DataFrame(X[:n, :6], columns=list("abcdef")).assign(word=words, name=[f"row {k}" for k in range(n)], kind=Y[:n] > 0)
    frame.loc[::9, "c"] = np.nan
    return frame


@pytest.mark.usefixtures("in_chunks")
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_command_learns_from_a_file_on_a_cluster(suffix, tmp_path, cluster):
    frame, path, model = mixed_table(), tmp_path / f"table.{suffix}", tmp_path / "table.model"
    frame.to_parquet(path, row_group_size=100) if suffix == "parquet" else frame.to_csv(path, index=False)
    options = ["--target", "kind", "--id", "name", "-o", model, "--time-budget", "3"]
    found = run("fit", path, *options, "--dask", cluster.scheduler_address)
    refused = run("fit", path, *options, "--dask", cluster.scheduler_address, "--model", "learned")
    assert found.exit_code == 0, found.stderr
    assert refused.exit_code == 2
    assert "learned from by the automatic model only" in " ".join(refused.stderr.split())
    fitted = load(model)
    assert fitted.names.tolist() == frame["name"].tolist()
    assert np.mean(fitted.predict(frame) == frame["kind"]) > 0.9
    shown = run("predict", model, path)
    assert shown.exit_code == 0, shown.stderr
    assert len(shown.stdout.splitlines()) == len(frame) + 1


def test_the_command_says_what_workers_cannot_read(tmp_path, cluster):
    for source, message in (
        ("-", "standard input"),
        (tmp_path / "no.parquet", "there is no file"),
        (tmp_path / "a.xls", "only"),
    ):
        found = run("fit", source, "-t", "kind", "-o", tmp_path / "model", "--dask", cluster.scheduler_address)
        assert found.exit_code == 2
        assert message in " ".join(found.stderr.split())
