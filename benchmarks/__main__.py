"""All benchmarks of speed, one after the other, and what became slower since the last release.

``python -m benchmarks`` takes an hour and rewrites results and tables; ``--quick`` takes minutes, tries the smallest sizes only,
and rewrites nothing. Either compares its ratios with those of the last release, and ends with 1 if one of them is worse by more
than noise; ``--release`` keeps them as those of this one.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
RELEASED = FOLDER / "results" / "released.json"
QUICK = ("fit", "paper", "transform", "diagonal", "exact", "explain", "search", "scale", "rounds")
ALL = (*QUICK, "chunks", "cluster", "landmarks")
# These need tables or packages that are not at hand everywhere, or take hours; each says what.
OTHERS = ("ablation", "automatic", "itml", "lmnn", "maps", "tables", "times", "tuples", "unlabelled")
# Ratios of the same code differ by so much from run to run.
NOISE = 1.35

Ratios = dict[str, float]


def ratios(name: str, rows: Sequence[Mapping[str, object]]) -> Ratios:
    """The ratios of a table, smaller ones better, by names that stay the same from run to run."""
    found = {}
    for row in rows:
        cells = list(row.items())
        known = next((place for place, (_, value) in enumerate(cells) if isinstance(value, float)), len(cells))
        of_row = ", ".join(str(value) for _, value in cells[:known])
        for column, value in cells:
            if isinstance(value, float) and (column == "ratio" or column.startswith("times ")):
                found[f"{name}: {of_row}: {column}"] = 1 / value if column == "times faster" else value
    return found


def slower(now: Ratios, before: Ratios) -> list[str]:
    """What got worse by more than noise, in words."""
    return [
        f"{what}: {value / before[what]:.2f} times what it was"
        for what, value in now.items()
        if what in before and value > NOISE * before[what]
    ]


def run(name: str, *, quick: bool) -> Ratios:
    """Of one script, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tables = Path(folder) / "tables"
        subprocess.run([sys.executable, FOLDER / f"{name}.py", "--tables", tables, *(["--quick"] if quick else [])], check=True)
        found: Ratios = {}
        for line in tables.read_text().splitlines():
            found |= ratios(**json.loads(line))
        return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)}; all of them by default")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes, in minutes")
    parser.add_argument("--release", action="store_true", help="keep the ratios as those of this release")
    given = parser.parse_args()
    if unknown := set(given.names) - set(ALL):
        parser.error(f"{', '.join(sorted(unknown))}: not among {', '.join(ALL)}; run others by themselves")
    released = json.loads(RELEASED.read_text()) if RELEASED.exists() else {}
    size = "quick" if given.quick else "all"
    now: Ratios = {}
    for name in given.names or (QUICK if given.quick else ALL):
        began = time.perf_counter()
        print(f"\n{name}", flush=True)
        now |= run(name, quick=given.quick)
        print(f"{time.perf_counter() - began:.0f} s", flush=True)
    worse = slower(now, released.get(size, {}))
    compared = len(now.keys() & released.get(size, {}).keys())
    print(f"\n{len(now)} ratios, {compared} of them known from the last release; worse by more than noise: {len(worse)}")
    print("\n".join(worse))
    if given.release:
        released[size] = {**released.get(size, {}), **{what: round(value, 4) for what, value in now.items()}}
        RELEASED.write_text(json.dumps(released, indent=1, sort_keys=True) + "\n")
    sys.exit(bool(worse) and not given.release)


if __name__ == "__main__":
    main()
