"""Does the site say what is there: every public name, every example, the version, and no dead link in the repository?"""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import outmetric

PROJECT = Path(__file__).parents[1]
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"), PROJECT / "benchmarks" / "README.md"])
PAGES = [page for page in PAGES if not {"_build", "gallery", "generated"} & set(page.parts)]
# Pages that the build makes.
MADE = {"docs/gallery/index.rst"}


def text_of(page):
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)


def anchors(page):
    """Where links to its headings lead."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_links_between_pages_lead_somewhere(page):
    for path, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)\)", text_of(page)):
        target = (page.parent / path).resolve() if path else page
        if target.relative_to(PROJECT).as_posix() in MADE:
            continue
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), (path, anchor)


def test_every_page_has_a_place_in_the_site():
    listed = {"index"}
    for page in (PROJECT / "docs").glob("*.md"):
        for tree in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), flags=re.DOTALL):
            listed |= {line for line in tree.splitlines() if line and not line.startswith(":")}
    pages = {page.relative_to(PROJECT / "docs").with_suffix("").as_posix() for page in PAGES if (PROJECT / "docs") in page.parents}
    assert pages | {"gallery/index", "api/index"} == listed


def test_the_reference_has_every_public_name():
    text = (PROJECT / "docs" / "api" / "index.rst").read_text()
    names = set(re.findall(r"^   (outmetric\.\w+)$", text, flags=re.MULTILINE))
    public = {f"outmetric.{name}" for name in {*outmetric.__all__, *outmetric.ROOMS} - {"__version__", "maps"}}  # maps: see plots
    assert names == public
    assert outmetric.plots.__all__ == outmetric.maps.__all__


def test_the_gallery_has_an_order_for_every_example():
    order = runpy.run_path(str(PROJECT / "docs" / "extensions" / "gallery_order.py"))["ORDER"]
    assert sorted(order) == sorted(path.stem.removeprefix("plot_") for path in (PROJECT / "examples").glob("plot_*.py"))


def test_the_benchmark_page_says_what_the_results_say():
    """Its tables are written by the benchmarks; nobody has typed in them since."""
    tables = re.findall(
        r"<!-- ([\w-]+) -->\n(.*?)<!-- end -->", (PROJECT / "benchmarks" / "README.md").read_text(), flags=re.DOTALL
    )
    assert len(tables) >= 20
    for name, table in tables:
        header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        results = json.loads((PROJECT / "benchmarks" / "results" / f"{name}.json").read_text())
        assert header == list(results[0]), name
        assert rows == [[f"{x:.3g}" if isinstance(x, float) else str(x) for x in row.values()] for row in results], name


def test_the_citation_is_of_this_version():
    assert f"\nversion: {outmetric.__version__}\n" in (PROJECT / "CITATION.cff").read_text()


@pytest.mark.slow
def test_models_do_without_safetensors():
    """As the page on browsers says."""
    code = (
        "import sys; sys.modules['safetensors'] = None\n"
        "from outmetric import LearnedKernelMetric, MetricClassifier, MetricSearchCV, kernels, tuples, verification\n"
        "from outmetric.datasets import make_waveform\n"
        "LearnedKernelMetric().fit(*make_waveform(50, random_state=0))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("|x - x'| of coefficients_, m", r"\|x - x'\| of coefficients\_, m"),
        ("`save_` and ``|x|`` stay", "`save_` and ``|x|`` stay"),
        ("0.5 * n_features", r"0.5 \* n_features"),
    ],
)
def test_docstrings_are_plain_text(before, after):
    escaped = runpy.run_path(str(PROJECT / "docs" / "extensions" / "plain_docstrings.py"))["escaped"]
    assert escaped(before) == after


def test_dead_links_are_found(tmp_path):
    dead_links = runpy.run_path(str(PROJECT / "docs" / "extensions" / "internal_links.py"))["dead_links"]
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">b</a> <a href="#here">a</a> <a href="https://x.org">x</a>'
    )
    (tmp_path / "b.html").write_text('<img src="none.png"><a href="a.html#nowhere"></a><i id="there">')
    assert dead_links(tmp_path) == (["b.html: a.html#nowhere", "b.html: none.png"], ["https://x.org"])
