"""Do the examples in README and docs run as printed?"""

import re
import runpy
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
    (block,) = examples(PROJECT / "README.md")
    assert len([line for line in block.splitlines() if line]) <= 10
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("why.png", "map.png"))


@pytest.mark.parametrize("page", [page.name for page in sorted((PROJECT / "docs").glob("*.md")) if examples(page)])
def test_the_examples_of_the_docs_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec("\n".join(examples(PROJECT / "docs" / page)), {})


def test_the_metrics_page_draws_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec("\n".join(examples(PROJECT / "docs" / "metrics.md")), {})
    assert {path.name for path in tmp_path.glob("*.png")} == {"search.png", "map.png", "regions.png"}


@pytest.mark.slow
def test_the_command_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```bash\n(.*?)```", (PROJECT / "README.md").read_text(), flags=re.DOTALL)
    table, command = map(shlex.split, block.splitlines())
    assert table[:2] == ["python", "-c"]
    exec(table[2], {})  # writes wine.csv
    result = CliRunner().invoke(cli.app, command[1:])
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "wine.html").stat().st_size > 10_000


def test_the_numbers_of_the_readme_are_those_of_the_results():
    written = runpy.run_path(str(PROJECT / "benchmarks" / "readme.py"))["filled"]
    text = (PROJECT / "README.md").read_text()
    assert text == written(text), "run python benchmarks/readme.py"


def test_a_number_that_was_typed_is_replaced():
    written = runpy.run_path(str(PROJECT / "benchmarks" / "readme.py"))["filled"]
    text = (PROJECT / "README.md").read_text()
    assert written(re.sub(r"outmetric\*\*, nothing set \| [\d.]+", "outmetric**, nothing set | 99.9", text)) == text


def test_ci_finds_its_two_commands():
    demo, tests = re.findall(r"^```sh\n(.*?)^```$", (PROJECT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    assert "outmetric demo" in demo
    assert demo.count("\n") == tests.count("\n") == 1
    assert "pytest" in tests


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
