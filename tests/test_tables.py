"""Are tables in files learned from in blocks, and written whole or not at all?"""

import gzip
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from outmetric import LearnedKernelMetric
from outmetric.cli import app
from outmetric.datasets import make_waveform
from outmetric.rows import dask_client
from outmetric.tables import TableError, TableFile


@pytest.fixture
def table():
    X, y = make_waveform(600, random_state=0)
    names = np.array(["a", "b", "c"])[y]
    return pd.DataFrame(X, columns=[f"t{k}" for k in range(21)]).assign(note="words", kind=names)


def save(table, path):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pandas(table, preserve_index=False), path, row_group_size=100)
    else:
        table.to_csv(path, index=False)
    return path


@pytest.fixture(params=["points.csv", "points.csv.gz", "points.parquet"])
def path(request, table, tmp_path):
    return save(table, tmp_path / request.param)


def run(*arguments):
    done = CliRunner().invoke(app, ["embed", *map(str, arguments)], env={"COLUMNS": "400"})
    return done.exit_code, re.sub(r"[│\s]+", " ", done.output)


def test_blocks_are_the_table(path, table, monkeypatch):
    monkeypatch.setattr("outmetric.tables.blocks.ROWS", 64)
    opened = TableFile.open(path, "kind", ["note"])
    blocks = list(opened.blocks())
    assert len(blocks) > 5 or path.suffix != ".parquet"
    np.testing.assert_allclose(np.concatenate([X for X, _ in blocks]), table.iloc[:, :21])
    np.testing.assert_array_equal(np.concatenate([y for _, y in blocks]), table["kind"])
    mean, spread = opened.moments()
    np.testing.assert_allclose(mean, table.iloc[:, :21].mean())
    np.testing.assert_allclose(spread, table.iloc[:, :21].std(ddof=0))


@pytest.mark.parametrize("output", ["coordinates.csv", "coordinates.parquet"])
def test_embed_writes_the_coordinates_of_a_fit(path, table, tmp_path, output):
    code, said = run(path, "--target", "kind", "-o", tmp_path / output, "--leave-out", "note", "--landmarks", 1000)
    assert code == 0, said
    assert "600 rows, 21 features, 600 landmarks" in said
    read = pd.read_csv if output.endswith("csv") else pd.read_parquet
    written = read(tmp_path / output)
    assert list(written.columns) == ["x1", "x2", "kind"]
    numbers = table.iloc[:, :21]
    X = ((numbers - numbers.mean()) / numbers.std(ddof=0)).to_numpy()
    plain = LearnedKernelMetric().fit(X, table["kind"]).transform(X)
    np.testing.assert_allclose(written[["x1", "x2"]], plain, atol=1e-7)
    np.testing.assert_array_equal(written["kind"], table["kind"])
    assert [entry.name for entry in tmp_path.iterdir() if ".part" in entry.name] == []


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda t: t, [], "not numbers: note"),
        (lambda t: t, ["--leave-out", "nothing"], "no column 'nothing'"),
        (lambda t: t.drop(columns="kind"), ["--leave-out", "note"], "no column 'kind'"),
        (lambda t: t[["note", "kind"]], ["--leave-out", "note"], "no columns beside"),
        (lambda t: t.assign(t3=t["t3"].where(t.index > 5)), ["--leave-out", "note"], "missing values in t3"),
        (lambda t: t.assign(t3=t["t3"].where(t.index > 5, np.inf)), ["--leave-out", "note"], "infinite or huge values in t3"),
        (lambda t: t.assign(kind="a"), ["--leave-out", "note"], "one class only"),
        (lambda t: t.head(0).astype({"kind": str}), ["--leave-out", "note"], "."),
        (lambda t: t, ["--leave-out", "note", "--bandwidth", "wide"], "bandwidth must be"),
    ],
)
def test_what_cannot_be_used_is_named(table, tmp_path, change, arguments, message):
    path = save(change(table), tmp_path / "points.csv")
    code, said = run(path, "--target", "kind", "-o", tmp_path / "out.csv", *arguments)
    assert code == 2
    assert re.search(message, said)
    assert "Traceback" not in said
    assert not (tmp_path / "out.csv").exists()


def test_files_that_are_none(tmp_path, table):
    out = ["--target", "kind", "-o", tmp_path / "out.csv"]
    (tmp_path / "junk.parquet").write_bytes(b"PAR1 not really")
    (tmp_path / "junk.csv.gz").write_bytes(gzip.compress(b"kind,x\na,1\n")[:-12])
    for name in ("missing.csv", "junk.parquet", "junk.csv.gz", "table.xls"):
        code, said = run(tmp_path / name, *out)
        assert code == 2, name
        assert name in said.replace(" ", "")
    path = save(table, tmp_path / "points.csv")
    assert run(path, "--target", "kind", "-o", tmp_path / "no" / "out.csv", "--leave-out", "note")[0] == 2
    doubled = tmp_path / "twice.csv"
    doubled.write_text("t1,t1,kind\n1,2,a\n")
    with pytest.raises(TableError, match="t1"):
        list(TableFile.open(doubled, "kind").blocks())


def test_embed_on_a_dask_cluster(table, tmp_path):
    distributed = pytest.importorskip("distributed")
    path = save(table, tmp_path / "points.parquet")
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    options = ["--target", "kind", "--leave-out", "note", "--landmarks", "50"]
    with distributed.LocalCluster(**settings) as cluster:
        address = ["--dask", cluster.scheduler_address]
        code, said = run(path, *options, *address, "-o", tmp_path / "cluster.csv")
        assert code == 0, said
    assert run(path, *options, "-o", tmp_path / "here.csv")[0] == 0
    assert pd.read_csv(tmp_path / "cluster.csv").shape == pd.read_csv(tmp_path / "here.csv").shape == (600, 3)


CLUSTER = """
import time
import distributed

if __name__ == "__main__":
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50)
    print(cluster.scheduler_address, flush=True)
    time.sleep(100)
"""


def test_a_dask_scheduler_that_is_lost(tmp_path):
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    (tmp_path / "cluster.py").write_text(CLUSTER)
    command = [sys.executable, tmp_path / "cluster.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        address = process.stdout.readline().strip()
        threading.Timer(0.5, os.killpg, (process.pid, signal.SIGKILL)).start()
        with pytest.raises(OSError, match=f"the Dask scheduler at {address} was lost .* go on without"), dask_client(address):
            dask.compute([dask.delayed(time.sleep)(5)])


def test_a_dask_scheduler_that_is_not_there(table, tmp_path):
    dask = pytest.importorskip("dask")
    path = save(table, tmp_path / "points.parquet")
    options = ["--target", "kind", "--leave-out", "note", "--landmarks", "50", "--dask", "tcp://127.0.0.1:1"]
    with dask.config.set({"distributed.comm.timeouts.connect": "100ms"}):
        code, said = run(path, *options, "-o", tmp_path / "out.csv")
    assert code == 2
    assert "there is no Dask scheduler at tcp://127.0.0.1:1: " in said
