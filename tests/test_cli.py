"""Does the command do its job, with results on stdout and talk on stderr?"""

import builtins
import importlib
import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, cli, plots
from outmetric.datasets import make_waveform

mpl.use("Agg")


def test_the_demo(tmp_path):
    picture = tmp_path / "maps.png"
    result = CliRunner().invoke(cli.app, ["demo", "--picture", str(picture)])
    assert result.exit_code == 0
    assert plt.imread(picture).shape[2] == 4
    assert "duality gap" in result.stdout
    assert "fitting" not in result.stdout
    assert "fitting model 1" in result.stderr
    accuracies = {}
    for line in result.stdout.splitlines():
        cells = [cell.strip() for cell in line.split("│")]
        if len(cells) > 3 and cells[2].endswith("%"):
            accuracies[cells[1]] = float(cells[2].rstrip("%"))
    assert accuracies["model 2, 9 components"] > 95


@pytest.mark.parametrize("picture", ["nowhere/maps.png", "maps.txt"])
def test_a_place_that_cannot_hold_the_picture_is_refused_at_once(picture, tmp_path):
    result = CliRunner().invoke(cli.app, ["demo", "--picture", str(tmp_path / picture)])
    assert result.exit_code == 2
    assert "existing folder" in result.stderr
    assert "fitting" not in result.stderr


def test_the_version():
    command = [sys.executable, "-c", "from outmetric.cli import main; main()", "--version"]
    assert subprocess.check_output(command, text=True).strip() == outmetric.__version__


def test_a_missing_extra_is_named(monkeypatch):
    plain_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in ("typer", "matplotlib"):
            raise ImportError(name)
        return plain_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SystemExit, match=r"outmetric\[cli\]"):
        importlib.reload(cli)
    with pytest.raises(ImportError, match=r"outmetric\[plot\]"):
        plots.grid(1, 1)


@pytest.mark.parametrize("model", [FixedKernelMetric, LearnedKernelMetric])
@pytest.mark.filterwarnings("ignore:n_components=3")
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_maps_show_every_point_where_transform_puts_it(model, n_components):
    X, y = make_waveform(60, random_state=0)
    fitted = model(n_components).fit(X[:30], y[:30])
    ax = plots.output_map(fitted, X[30:], y[30:], X_train=X[:30], y_train=y[:30])
    # For each class: training points, points, target.
    drawn = np.concatenate([_first_components(points) for points in ax.collections[1::3]])
    order = np.argsort(y[30:], kind="stable")
    np.testing.assert_allclose(drawn, fitted.transform(X[30:])[order][:, 0])
    targets = np.concatenate([_first_components(points) for points in ax.collections[2::3]])
    np.testing.assert_allclose(targets, (fitted.prototypes_ @ fitted.metric_factor_.T)[:, 0])
    assert ax.name == {1: "rectilinear", 2: "rectilinear", 3: "3d"}[n_components]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]
    plt.close("all")


def _first_components(points):
    return np.asarray(points.get_offsets())[:, 0]


def test_maps_that_cannot_be_drawn():
    X, y = make_waveform(30, random_state=0)
    with pytest.raises(ValueError, match="the model has 4"):
        plots.output_map(LearnedKernelMetric().fit(X, np.arange(30) % 5), X, y)
    with pytest.raises(ValueError, match="real targets"):
        plots.output_map(LearnedKernelMetric().fit(X, X[:, :2]), X, y)


def test_waveforms_have_the_moments_of_their_definition():
    X, y = make_waveform(60_000, random_state=1)
    position = np.arange(1, 22)
    h1, h2, h3 = (np.maximum(6 - np.abs(position - centre), 0) for centre in (7, 15, 11))
    for label, (a, b) in enumerate([(h1, h2), (h1, h3), (h2, h3)]):
        rows = X[y == label]
        np.testing.assert_allclose(rows.mean(axis=0), (a + b) / 2, atol=0.08)
        np.testing.assert_allclose(rows.var(axis=0), 1 + (a - b) ** 2 * (1001**2 - 1) / (12 * 1000**2), rtol=0.06)
    assert np.bincount(y).min() > 19_500
    np.testing.assert_array_equal(make_waveform(5, 3)[0], make_waveform(5, 3)[0])
