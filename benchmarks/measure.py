"""Shared by the benchmarks: interleaved timing, and results kept as JSON and as a table in the README."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent


def _given() -> argparse.Namespace:
    """What every script of speed takes; see __main__.py."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)  # --table is another option
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", type=Path)
    return parser.parse_known_args()[0]


def is_quick() -> bool:
    """Whether only the smallest sizes are wanted."""
    return bool(_given().quick)


def seconds(tasks: Mapping[str, Callable[[], object]], repeats: int = 7) -> dict[str, float]:
    """Median wall-clock seconds of each task; the tasks take turns, so that noise of the machine hits all alike."""
    for task in tasks.values():
        task()
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            began = time.perf_counter()
            task()
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in taken.items()}


def peak_arrays(model, X, y) -> float:
    """The most memory that a fit takes, in arrays of n x n."""
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (8 * len(X) ** 2)


def in_process(python: str, code: str, path: Path, **settings: object) -> dict:
    """Run a script with the path of its data and its settings (as JSON); what it prints is JSON as well."""
    return json.loads(subprocess.check_output([python, "-c", code, str(path), json.dumps(settings)], text=True))


def publish(name: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Print a table, and unless it is a quick one write results/NAME.json and put it in the README between its markers."""
    header = list(rows[0])
    lines = [header, ["---"] * len(header), *([_text(row[key]) for key in header] for row in rows)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    print(table)
    given = _given()
    if given.tables is not None:
        with given.tables.open("a") as tables:
            tables.write(json.dumps({"name": name, "rows": rows}) + "\n")
    if given.quick:
        return
    (FOLDER / "results" / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    readme = FOLDER / "README.md"
    section = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    readme.write_text(re.sub(section, lambda found: f"{found[1]}{table}\n{found[2]}", readme.read_text(), flags=re.DOTALL))


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
