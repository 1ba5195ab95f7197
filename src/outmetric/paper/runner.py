"""Trials, run in parallel and kept one by one: a run that is stopped, however, goes on where it was.

Each finished trial is a small JSON file with a checksum, written to a temporary name and renamed, so that there are whole files
only. What is damaged, edited, failed or from another protocol counts as missing. Trials do not share anything random: their seeds
are hashes of their names, so the order, the number of jobs and interruptions change nothing.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import threading
import time
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from outmetric.foundation import write_whole
from outmetric.paper import protocol
from outmetric.paper.protocol import Split, Trial
from outmetric.rows import dask_client

COLUMNS = ("dataset", "method", "fraction", "repeat", "accuracy", "seconds", "n_train", "n_test", "protocol")
# Seconds after which workers look whether anybody waits for them.
WATCH = 1.0
State = Literal["done", "failed", "missing", "damaged", "outdated"]


@dataclass(frozen=True)
class TrialResult:
    """What a trial found; ``error`` is empty, or says why there is no accuracy."""

    trial: Trial
    protocol: str
    accuracy: float | None
    seconds: float
    n_train: int
    n_test: int
    chosen: str
    error: str


def run_trial(trial: Trial, data: Split) -> TrialResult:
    """Fit and score; whatever goes wrong becomes part of the result."""
    began = time.perf_counter()
    accuracy, chosen, error = None, "", ""
    try:
        with warnings.catch_warnings(), threadpool_limits(limits=1):
            warnings.simplefilter("ignore")
            model = protocol.classifier(trial, len(np.unique(data.y_train))).fit(data.X_train, data.y_train)
            accuracy = float(model.score(data.X_test, data.y_test))
            chosen = repr({**getattr(model, "best_params_", {}), **_neighbours(model)})
    except Exception:  # recorded, and tried again by the next run
        error = traceback.format_exc(limit=-5)
    seconds = time.perf_counter() - began
    return TrialResult(trial, protocol.digest(trial.method), accuracy, seconds, len(data.y_train), len(data.y_test), chosen, error)


def end_with(parent: int) -> None:
    """Let this worker end when the process that started it does, however that was: nobody would take its results."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _neighbours(model: Any) -> dict[str, int]:
    return {"n_neighbors": model.n_neighbors_} if hasattr(model, "n_neighbors_") else {}


class Store:
    """A folder of results.

    Parameters
    ----------
    folder : path
    table : path, optional
        Results of an earlier run, as `write_table` writes them; they count as done.
    """

    def __init__(self, folder: str | os.PathLike[str], table: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder)
        self.known = {result.trial: result for result in read_table(table)} if table is not None else {}

    def path(self, trial: Trial) -> Path:
        return self.folder / "trials" / f"{trial.name}.json"

    def write(self, result: TrialResult) -> None:
        path = self.path(result.trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = asdict(result)
        text = json.dumps({**content, "checksum": _checksum(content)}, indent=1)
        write_whole(path, (text + "\n").encode())

    def read(self, trial: Trial) -> tuple[State, TrialResult | None]:
        """What is known of a trial; a result comes with "done" and "failed" only."""
        known = self.known.get(trial)
        if known is not None and known.protocol == _digest(trial.method):
            return "done", known
        try:
            content = json.loads(self.path(trial).read_text())
        except FileNotFoundError:
            return "missing", None
        except (OSError, ValueError, RecursionError):
            return "damaged", None
        try:
            checksum = content.pop("checksum")
            result = TrialResult(**{**content, "trial": Trial(**content["trial"])})
        except (TypeError, KeyError, AttributeError):
            return "damaged", None
        if checksum != _checksum(content) or result.trial != trial:
            return "damaged", None
        if result.protocol != _digest(trial.method):
            return "outdated", None
        return ("failed" if result.error else "done"), result

    def prepare(self) -> None:
        """Raise OSError unless results can be written here."""
        probe = self.folder / "trials" / f".probe.{uuid.uuid4().hex}"
        probe.parent.mkdir(parents=True, exist_ok=True)
        write_whole(probe, b"")
        probe.unlink()

    def everything(self) -> list[TrialResult]:
        """All that is done, whatever was asked for."""
        found = {trial for trial in self.known if trial.method in protocol.METHODS}
        for path in (self.folder / "trials").glob("*.json"):
            with contextlib.suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
                found.add(Trial(**json.loads(path.read_text())["trial"]))
        return self.results(trial for trial in found if trial.method in protocol.METHODS)

    def results(self, trials: Iterable[Trial]) -> list[TrialResult]:
        """Those that are done, in order."""
        found = ((trial, self.read(trial)) for trial in sorted(trials))
        return [result for _, (state, result) in found if state == "done" and result is not None]


@cache
def _digest(method: str) -> str:
    return protocol.digest(method)


def _checksum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def run(
    trials: Sequence[Trial],
    store: Store,
    *,
    jobs: int = 1,
    data_dir: str | os.PathLike[str] | None = None,
    dask: str | None = None,
    on_result: Callable[[TrialResult], None] = lambda result: None,
) -> None:
    """Run the trials that are not done, and keep each result as it comes.

    Parameters
    ----------
    trials : sequence of Trial
    store : Store
    jobs : int
        Processes.
    data_dir : path, optional
        For `outmetric.datasets.load_uci`.
    dask : str, optional
        Address of a Dask scheduler whose workers run the trials; they need outmetric, but neither the data nor the folder.
    on_result : callable
        Called with each result, in the order in which they end.
    """
    tables = {name: protocol.SETS[name](data_dir) for name in dict.fromkeys(trial.dataset for trial in trials)}

    def calls() -> Iterator[Any]:
        for trial in trials:
            # Asked again just before: another run in the same folder may have done it by now.
            if store.read(trial)[0] != "done":
                yield joblib.delayed(run_trial)(trial, protocol.split(*tables[trial.dataset], trial))

    with _workers(dask, jobs) as settings:
        for result in joblib.Parallel(return_as="generator_unordered", **settings)(calls()):
            store.write(result)
            on_result(result)


@contextlib.contextmanager
def _workers(dask: str | None, jobs: int) -> Iterator[dict[str, Any]]:
    if dask is None:
        # Each worker watches from its start on: one that waits for its first trial would linger as well.
        watched = {"initializer": end_with, "initargs": (os.getpid(),)} if joblib.effective_n_jobs(jobs) > 1 else {}
        yield {"n_jobs": jobs, "pre_dispatch": "n_jobs", "batch_size": 1, **watched}
        return
    with dask_client(dask), joblib.parallel_config(backend="dask"):
        yield {"n_jobs": -1, "batch_size": 1}


def write_table(results: Iterable[TrialResult], path: str | os.PathLike[str]) -> None:
    """Results as a CSV file."""
    file = io.StringIO(newline="")
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    for result in sorted(results, key=lambda one: one.trial):
        trial = result.trial
        numbers = (repr(float(result.accuracy or 0)), f"{result.seconds:.3f}", result.n_train, result.n_test, result.protocol)
        rows.writerow((trial.dataset, trial.method, trial.fraction, trial.repeat, *numbers))
    write_whole(Path(path), file.getvalue().encode())


def read_table(path: str | os.PathLike[str]) -> list[TrialResult]:
    """Results from such a file; ValueError if it is not one."""
    with Path(path).open(newline="") as file:
        rows = csv.DictReader(file)
        if tuple(rows.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path} is not a table of results: its columns are {rows.fieldnames}, expected {list(COLUMNS)}.")
        try:
            return [_result(row) for row in rows]
        except (TypeError, ValueError, csv.Error) as error:
            raise ValueError(f"{path} is not a table of results: line {rows.line_num}: {error}.") from error


def _result(row: dict[str, str]) -> TrialResult:
    trial = Trial(int(row["repeat"]), float(row["fraction"]), row["dataset"], row["method"])
    accuracy, seconds, n_train, n_test = float(row["accuracy"]), float(row["seconds"]), int(row["n_train"]), int(row["n_test"])
    if not (0 <= accuracy <= 1 and seconds >= 0 and n_train > 0 and n_test > 0):
        raise ValueError(f"an accuracy of {accuracy} in {seconds} s on {n_train} and {n_test} points")
    return TrialResult(trial, row["protocol"], accuracy, seconds, n_train, n_test, "", "")
