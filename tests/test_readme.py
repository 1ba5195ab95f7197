"""Do the examples in README and docs run as printed?"""

import re
import shlex
from pathlib import Path

import matplotlib as mpl
import pytest
from typer.testing import CliRunner

from outmetric import cli

mpl.use("Agg")


PROJECT = Path(__file__).parents[1]


def examples(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.slow
def test_the_examples_run_in_order(tmp_path, monkeypatch):
    blocks = examples(PROJECT / "README.md")
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks), {})
    assert (tmp_path / "map.png").stat().st_size > 1000


@pytest.mark.parametrize("page", [page.name for page in sorted((PROJECT / "docs").glob("*.md")) if examples(page)])
def test_the_examples_of_the_docs_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec("\n".join(examples(PROJECT / "docs" / page)), {})


def test_the_commands_of_the_docs_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PROJECT / "docs" / "tables.md"
    exec("\n".join(examples(page)), {})
    (commands,) = re.findall(r"```bash\n(.*?)```", page.read_text(), flags=re.DOTALL)
    for line in commands.splitlines():
        result = CliRunner().invoke(cli.app, shlex.split(line)[1:])
        assert result.exit_code == 0, (line, result.stderr)
    made = {"wine.html", "wine.png", "wine.model", "coordinates.csv", "wine.onnx"}
    assert made <= {path.name for path in tmp_path.iterdir()}
