"""Do the scripts in examples run, and do they tell what they promise?"""

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No data folder, and an empty cache."""
    monkeypatch.delenv("OUTMETRIC_DATA", raising=False)
    monkeypatch.setenv("OUTMETRIC_CACHE", str(tmp_path / "cache"))
    return tmp_path


def table(text):
    """The rows of a printed table, as lists of cells, by the first cell."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}


def test_strings(nowhere, capsys):
    picture = nowhere / "strings.png"
    runpy.run_path(str(EXAMPLES / "strings.py"))["main"](["--repeats", "2", "--picture", str(picture)])
    printed = capsys.readouterr().out
    assert printed.startswith("generated strings: 60 for training, 540 for testing, 2 splits")
    accuracies = {name: float(cells[0].split()[0]) for name, cells in table(printed).items()}
    assert len(accuracies) == 6
    assert accuracies["spectrum (no positions)"] < accuracies["one-hot, Gaussian"] < accuracies["weighted degree near the site"]
    assert picture.stat().st_size > 1000


def test_graphs(tmp_path, capsys):
    picture = tmp_path / "graphs.png"
    runpy.run_path(str(EXAMPLES / "graphs.py"))["main"](["--graphs", "240", "--picture", str(picture)])
    printed = capsys.readouterr().out
    accuracies = {name: float(cells[1].removesuffix("%")) for name, cells in table(printed).items()}
    assert accuracies["learned metric"] > accuracies["neighbours"] > 25
    assert "families of the nearest training graphs:" in printed
    assert picture.stat().st_size > 1000


def test_honest_map(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # of UMAP, which need not be installed
    picture = tmp_path / "map.png"
    runpy.run_path(str(EXAMPLES / "honest_map.py"))["main"](["--rows", "300", "--picture", str(picture)])
    shares = {name: [float(cell.removesuffix("%")) for cell in cells] for name, cells in table(capsys.readouterr().out).items()}
    assert set(shares) == {"principal components", "NCA", "MetricMap"}
    assert shares["MetricMap"][0] > 90
    assert all(permuted < 20 for _, permuted in shares.values())
    assert picture.stat().st_size > 1000


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"strings.py", "graphs.py", "honest_map.py"}
