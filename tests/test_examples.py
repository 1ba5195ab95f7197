"""Do the scripts in examples run, and do they tell what they promise?"""

import itertools
import runpy
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
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


def in_order(shares, names):
    """Whether each of these has more than the one before it."""
    return all(shares[less] < shares[more] for less, more in itertools.pairwise(names))


# What the words of each page of the gallery promise, by the names that its program leaves behind.
GALLERY = {
    "honest_map": lambda left: in_order(left["right"], ["principal components", "NCA", "MetricMap"]),
    "random_labels": lambda left: left["control"].quality_.in_map < 0.5 < 0.9 < left["honest"].quality_.in_map,
    "real_targets": lambda left: left["r2"] > 0.7 and 0.75 < left["held"].mean() < 0.85,
    "what_it_looks_at": lambda left: left["model"].feature_importances_[:5].min() > left["model"].feature_importances_[5:].max(),
    "few_labels": lambda left: all(more > less for less, more in zip(*left["right"].values(), strict=True)),
    "same_or_different": lambda left: in_order(left["areas"], ["Euclidean", "learned"]),
    "tuning": lambda left: left["tried"] == 7 * 6 * 2 * 5 and left["decompositions"] == 7 * 2 * 5,
    "own_similarity": lambda left: np.degrees(np.median(np.abs(left["errors"]))) < 20,
    "strings": lambda left: in_order(left["right"], list(left["kernels"])),
    "graphs": lambda left: left["right"] > 0.9,
    "forest_kernels": lambda left: in_order(left["right"], ["Gaussian kernel", "random forest", "metric on a forest kernel"]),
    "output_matrix": lambda left: in_order(left["shares"], ["cat or lynx", "dog or wolf", "cats or dogs", "trout or not"]),
    "million_rows": lambda left: left["search"].best_estimator_.solver_ == "nystroem" and min(left["right"]) > 0.84,
    "method_one": lambda left: [status.name for status in left["status"].values()] == ["DIVERGED"] + 3 * ["CONVERGED"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GALLERY)
def test_gallery(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    with warnings.catch_warnings():  # one of them turns warnings off
        left = runpy.run_path(str(EXAMPLES / f"plot_{name}.py"))
    assert plt.get_fignums(), "no picture"
    plt.close("all")
    assert GALLERY[name](left)


def test_every_example_is_run():
    scripts = {"strings", "graphs", "honest_map"}
    extending = {"extending_kernel", "extending_estimator", "extending_table_format"}  # see test_extending.py
    assert {path.stem for path in EXAMPLES.glob("*.py")} == scripts | extending | {f"plot_{name}" for name in GALLERY}
