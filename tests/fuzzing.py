"""What comes of files of models that were tampered with: a result, or a ModelFileError; in time, and with little memory.

``python tests/fuzzing.py CASES FOLDER`` tries as many, in processes of their own, and writes to the folder what it finds.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from stored_models import FUNCTIONS, MODELS, table
from tampering import Sound, tamper

import outmetric
from outmetric.storage import ModelFileError
from outmetric.tuples.classifiers import PairsClassifier, QuadrupletsClassifier, TripletsClassifier, TupleClassifier

# What a case may take: seconds of the processor, and bytes beside a share for each byte of the file.
SECONDS, BYTES, BYTES_EACH = 2.0, 2**26, 64
# Rows that are made up have so many columns at most.
WIDEST = 2**19


def right_rows(model: Any, sound: Sound) -> Any:
    """Two rows of the kind that a loaded model says it takes: those of the sound model, unless it says otherwise."""
    if type(model).__name__ == "TableModel":
        kinds = model.columns.kinds_by_name
        known = sound.data if isinstance(sound.data, pd.DataFrame) else table()
        usual = {"number": 1.0, "category": "blue", "date": np.datetime64("2020-01-01", "s")}
        return pd.DataFrame({name: known[name][:2] if name in known else [usual[kind]] * 2 for name, kind in kinds.items()})
    if type(model).__name__ == "PairVerifier":
        return _pairs_of(model.metric, sound)
    data = sound.data[:2]
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is not None and data.ndim == 1:  # objects come as row numbers
        return None if callable(preprocessor) or not len(preprocessor) else np.zeros(2, dtype=int)
    if hasattr(model, "coefficients") and model.kernel.takes == "kernel values":
        return np.ones((2, len(model.coefficients)))
    if hasattr(model, "metric_factor"):
        width = getattr(model, "points", model.metric_factor).shape[1:]
        return data if not width or width == data.shape[1:] else np.ones((2, *width))
    width = getattr(model, "n_features_in_", None)
    if width is None and hasattr(model, "steps"):  # the first step keeps no state
        width = next((step.n_features_in_ for _, step in model.steps if hasattr(step, "n_features_in_")), None)
    names = getattr(model, "feature_names_in_", None)
    if type(model) is not type(sound.model):  # a part of it
        return _rows_of(model, width, data if isinstance(data, pd.DataFrame) else table().fillna(1.0)[:2])
    if isinstance(data, pd.DataFrame) and names is not None and width == data.shape[1]:
        return data.set_axis(list(names), axis=1)
    if width is not None and data.ndim == 2 and width != data.shape[1]:
        return _ones(width)
    return data


def _pairs_of(metric: Any, sound: Sound) -> Any:
    """Two pairs of rows; a verifier without a metric takes coordinates."""
    pairs = sound.data[:2]
    width = 1 if metric is None else getattr(metric, "n_features_in_", None)
    return pairs if width is None or width == np.shape(pairs)[-1] else np.ones((2, 2, width))


def _ones(width: int) -> Any:
    """None if they would take more room than the file: whoever asks such a model brings them himself."""
    return np.ones((2, width)) if width <= WIDEST else None


def _rows_of(model: Any, width: Any, frame: Any) -> Any:
    first = model
    while hasattr(first, "steps") and first.steps:
        first = first.steps[0][1]
    if hasattr(first, "categories_"):
        rows = np.empty((2, len(first.categories_)), dtype=object)
        rows[:] = [values[0] for values in first.categories_]
        return rows
    if hasattr(getattr(first, "metric_", None), "points"):
        points = first.metric_.points
        takes = first.metric_.kernel.takes
        return points[:2] if takes != "kernel values" else np.ones((2, len(points)))
    if type(first).__name__ == "ColumnTransformer":
        return frame
    return None if width is None else _ones(width)


def outputs(model: Any, rows: Any) -> list[Any]:
    """All that a model has to say about data."""
    if hasattr(model, "coordinates") and not hasattr(model, "transform"):
        return [model.coordinates(rows)]
    if isinstance(model, TupleClassifier):
        return [model.transform(rows), *_answers(model, rows)]
    names = ["transform", "predict", "predict_proba"]
    if type(model).__name__ == "TableModel" and not model.columns.classes:
        names.remove("predict_proba")  # it has none of real targets, and says so
    if getattr(model, "novelty_", None) is not None or getattr(model, "knows_novelty", False):
        names.append("novelty")
    return [getattr(model, name)(rows) for name in names if hasattr(model, name)]


def _answers(model: TupleClassifier, rows: Any) -> list[Any]:
    """What a classifier of tuples says of rows beside themselves; of pairs only where it has a threshold, which it may lack."""
    if getattr(model, "preprocessor", None) is not None and np.ndim(rows) == 1:
        return []
    size = {PairsClassifier: 2, TripletsClassifier: 3, QuadrupletsClassifier: 4}
    (tuples,) = ([[row] * number for row in rows] for kind, number in size.items() if isinstance(model, kind))
    if isinstance(model, PairsClassifier) and not hasattr(model, "threshold_"):
        return [model.decision_function(tuples)]
    return [model.decision_function(tuples), model.predict(tuples)]


def is_unfitted(model: Any) -> bool:
    """Whether it says so itself, or ends in a step that would not know, or in a search that was interrupted."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if hasattr(model, "steps") and not any(name.endswith("_") for name in vars(last)):
        return True
    if hasattr(last, "cv_results_") and not hasattr(last, "best_estimator_"):
        return True
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        return True
    return False


def outcome(path: Path, sound: Sound, load: Any = outmetric.load) -> tuple[str, str]:
    """What came of a file: "refused", "loaded", or what must not be, with its text."""
    try:
        model = load(path, functions=FUNCTIONS)
    except ModelFileError as error:
        return "refused", str(error)
    try:
        rows = right_rows(model, sound)
        if rows is not None:
            outputs(model, rows)
    except ModelFileError:
        return "refused", ""
    except NotFittedError as error:
        return ("unfitted", "") if is_unfitted(model) else ("error", f"NotFittedError: {error}")
    return "loaded", ""


@dataclass
class Watched:
    """What came of a case, and what it took."""

    what: str
    text: str
    seconds: float
    n_bytes: int
    allowed: int


def watched(path: Path, sound: Sound, *, traced: bool, load: Any = outmetric.load) -> Watched:
    """The same, with what it took: bytes as Python counts them, which takes its time, or as the system does, where it tells."""
    allowed = BYTES_EACH * path.stat().st_size + BYTES
    if traced:
        tracemalloc.start()
    else:
        before = _resident(reset=True)
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            what, text = outcome(path, sound, load)
    except Exception as error:  # each is a finding
        trace, places = error.__traceback__, []
        while trace is not None:
            places.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
            trace = trace.tb_next
        what, text = "error", f"{type(error).__name__}: {error} [{' '.join(places[-6:])}]"
    seconds = 0.0 if traced else time.process_time() - began
    n_bytes = tracemalloc.get_traced_memory()[1] if traced else _resident() - before
    tracemalloc.stop()
    return Watched(what, text, seconds, n_bytes, allowed)


def _resident(*, reset: bool = False) -> int:
    """The largest resident size since the last reset, in bytes; 0 where the system does not tell."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


# The long run.

# Seconds of the processor in which a case must end, and seconds on a machine that does much else.
CHUNK, PATIENCE, LONG_PATIENCE = 500, 60, 1800


def _chunk(name: str, start: int, stop: int, folder: Path) -> None:
    """Cases of one model, each told of in a line; the last line is of the case that ended the process, should one do so."""
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
    sound = Sound.of(name, folder)
    path = folder / "model"
    with open(folder / "told", "a", buffering=1) as told:
        for seed in range(start, stop):
            told.write(f"{seed} ")
            tamper(np.random.default_rng([seed, list(MODELS).index(name)]), path, sound)
            found = watched(path, sound, traced=seed % 20 == 0)
            tags = [found.what]
            if found.seconds > SECONDS:
                tags.append(f"SLOW {found.seconds:.1f}")
            if found.n_bytes > found.allowed:
                tags.append(f"LARGE {found.n_bytes / found.allowed:.1f}")
            told.write(f"{','.join(tags)} {found.text[:600]!r}\n" if found.what == "error" or len(tags) > 1 else f"{found.what}\n")


def run(n_cases: int, folder: Path, names: list[str], first: int = 0) -> Counter[str]:
    """So many cases, divided among the models; findings are told in the folder as they come."""
    counts: Counter[str] = Counter()
    each = -(-n_cases // len(names))
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "findings", "a", buffering=1) as findings:
        for begin in range(first, first + each, CHUNK):
            for name in names:
                _watch(name, begin, min(begin + CHUNK, first + each), folder, counts, findings)
                (folder / "counts").write_text(json.dumps(counts, indent=1))
    return counts


def _worked(process: int) -> float:
    """Seconds of the processor that it took; 0 where the system does not tell, or once it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _watch(name: str, start: int, stop: int, folder: Path, counts: Counter[str], findings: Any) -> None:
    told = folder / "told"
    while start < stop:
        told.write_text("")
        worker = subprocess.Popen([sys.executable, __file__, "--chunk", name, str(start), str(stop), str(folder)])
        size, since = -1, np.zeros(2)
        while worker.poll() is None:
            time.sleep(0.2)
            told_of, now = told.stat().st_size, np.array([_worked(worker.pid), time.monotonic()])
            size, since = (told_of, now) if told_of != size else (size, since)
            if (now - since > [PATIENCE, LONG_PATIENCE]).any():
                worker.kill()
                worker.wait()
        lines = told.read_text().splitlines()
        for line in lines:
            seed, _, rest = line.partition(" ")
            what, _, text = rest.partition(" ")
            ended = not what.strip()
            tags = ["hang" if worker.returncode == -9 else "crash"] if ended else what.split(",")
            counts.update(["cases", *(tag.split()[0] for tag in tags)])
            if text or ended:
                counts["slow"] += "SLOW" in rest
                findings.write(f"{name} {seed} {what or tags[0]} {text}\n")
        if worker.returncode == 0 and len(lines) == stop - start:
            return
        if not lines:
            findings.write(f"{name} {start} no case could be begun: the process ended with {worker.returncode}\n")
            return
        start = int(lines[-1].split()[0]) + 1


if __name__ == "__main__":
    if sys.argv[1] == "--chunk":
        _chunk(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    else:
        chosen = sys.argv[4].split(",") if len(sys.argv) > 4 else list(MODELS)
        print(run(int(sys.argv[1]), Path(sys.argv[2]), chosen, int(sys.argv[3]) if len(sys.argv) > 3 else 0))
