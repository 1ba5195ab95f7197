"""Does the command do its job, with results on stdout and talk on stderr?"""

import builtins
import importlib
import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

import outmetric
from outmetric import cli, plots

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


@pytest.mark.parametrize(
    ("picture", "message"), [("nowhere/maps.png", "existing folder"), ("maps.txt", "must end with one of .png")]
)
def test_a_place_that_cannot_hold_the_picture_is_refused_at_once(picture, message, tmp_path):
    result = CliRunner().invoke(cli.app, ["demo", "--picture", str(tmp_path / picture)])
    assert result.exit_code == 2
    assert message in result.stderr
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
