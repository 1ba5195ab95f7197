"""Does the command do its job, with results on stdout and talk on stderr?"""

import builtins
import importlib
import os
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


# What commands work with; help and completion must not wait for it.
WORK = {"numpy", "scipy", "sklearn", "joblib", "pandas", "pyarrow", "matplotlib"}


def loaded(arguments, **environment):
    """The output of the command, and what of WORK it loaded."""
    code = f"""
import sys
sys.argv = ["outmetric", *sys.argv[1:]]
from outmetric.cli import main
try:
    main()
finally:
    print("loaded:", *sorted({{name.split(".")[0] for name in sys.modules}} & {WORK}))
"""
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    output, _, names = run.stdout.rpartition("loaded:")
    return output, names.split()


@pytest.mark.parametrize(
    "arguments",
    ["--help", "--version", "fit --help", "map -h", "demo --help", "embed --help", "verify -h", "paper run --help"],
)
def test_help_loads_nothing_that_commands_work_with(arguments):
    output, names = loaded(arguments.split())
    assert output.strip()
    assert names == []


def test_completion_loads_nothing_that_commands_work_with():
    asked = {"_OUTMETRIC_COMPLETE": "complete_bash", "COMP_WORDS": "outmetric e", "COMP_CWORD": "1"}
    output, names = loaded([], **asked)
    assert set(output.split()) == {"export", "evaluate", "embed"}
    assert names == []


@pytest.mark.slow
def test_what_a_command_loads_is_seen():
    """The tests above see what is loaded if something is."""
    assert "numpy" in loaded(["inspect", "nothing"])[1]
