"""Does `python -m benchmarks` run every benchmark of speed, and tell what became slower?"""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
FOLDER = PROJECT / "benchmarks"
ROWS = [
    {"n": 500, "fit": "model 1", "seconds": 0.2, "ratio": 1.5, "iterations": 6},
    {"n": 500, "fit": "model 2", "seconds": 0.1, "times faster": 20.0, "times SVC": 3.0},
]


@pytest.fixture(scope="module")
def command():
    return runpy.run_path(str(FOLDER / "__main__.py"))


def test_every_script_is_run_or_named(command):
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"__main__", "measure", "readme"}
    assert scripts == {*command["ALL"], *command["OTHERS"]}


def test_ratios_have_names_that_stay(command):
    assert command["ratios"]("fit", ROWS) == {
        "fit: 500, model 1: ratio": 1.5,
        "fit: 500, model 2: times faster": 1 / 20,
        "fit: 500, model 2: times SVC": 3.0,
    }


def test_what_became_slower_is_told(command):
    before = command["ratios"]("fit", ROWS)
    later = command["ratios"]("fit", [{**ROWS[0], "ratio": 3.0}, {**ROWS[1], "times faster": 5.0}, {**ROWS[1], "n": 700}])
    assert command["slower"](later, before) == [
        "fit: 500, model 1: ratio: 2.00 times what it was",
        "fit: 500, model 2: times faster: 4.00 times what it was",
    ]
    assert command["slower"](before, before) == []


def test_ratios_of_the_last_release_are_known(command):
    released = json.loads(command["RELEASED"].read_text())
    for name in command["QUICK"]:
        assert any(what.startswith(name) for what in released["quick"]), name


def test_unknown_names_are_refused():
    done = subprocess.run([sys.executable, "-m", "benchmarks", "fits"], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "fits: not among fit, paper" in done.stderr
