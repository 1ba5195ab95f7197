"""Shared by the benchmarks: interleaved timing, and results kept as JSON and as a table in the README."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent


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


def in_process(python: str, code: str, path: Path, **settings: object) -> dict:
    """Run a script with the path of its data and its settings (as JSON); what it prints is JSON as well."""
    return json.loads(subprocess.check_output([python, "-c", code, str(path), json.dumps(settings)], text=True))


def publish(name: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Write results/NAME.json, put the table in the README between its markers, and print it."""
    (FOLDER / "results").mkdir(exist_ok=True)
    (FOLDER / "results" / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    header = list(rows[0])
    lines = [header, ["---"] * len(header), *([_text(row[key]) for key in header] for row in rows)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    print(table)
    readme = FOLDER / "README.md"
    section = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    readme.write_text(re.sub(section, lambda found: f"{found[1]}{table}\n{found[2]}", readme.read_text(), flags=re.DOTALL))


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
