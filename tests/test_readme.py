"""Do the README's examples run as printed?"""

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")


def test_the_examples_run_in_order(tmp_path, monkeypatch):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks), {})
    assert (tmp_path / "map.png").stat().st_size > 1000
