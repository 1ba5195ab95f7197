"""Do the examples in README and docs run as printed?"""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")


PROJECT = Path(__file__).parents[1]


def examples(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


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
