"""Does the folder keep the shape that the architecture promises?"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import outmetric

SOURCE = Path(outmetric.__file__).parent
# A module may import those before it; "edge" modules may import optional packages, inside functions.
LAYERS = [
    "files",
    "memory",
    "threads",
    "operators",
    "targets",
    "scalar",
    "strings",
    "kernels",
    "objective",
    "solvers",
    "landmarks",
    "moments",
    "reduced",
    "streams",
    "chunks",
    "training",
    "path",
    "metric",
    "inputs",
    "describe",
    "face",
    "blocks",
    "fitting",
    "models",
    "votes",
    "candidates",
    "evaluation",
    "search",
    "classifier",
    "baselines.features",
    "baselines.margins",
    "baselines.projections",
    "baselines.spaces",
    "baselines.lmnn",
    "baselines.itml",
    "datasets",
    "tables.sources",
    "tables.text",
    "tables.arff",
    "tables.binary",
    "tables.reading",
    "tables.columns",
    "tables.writing",
    "tables.blocks",
    "tabular",
    "codec",
    "storage",
    "plots.canvas",
    "plots.fitted",
    "plots.maps",
    "plots.learning",
    "plots.comparisons",
    "webmap",
    "nodes",
    "export",
    "paper.protocol",
    "paper.runner",
    "paper.statistics",
    "paper.claims",
    "paper.maps",
    "paper.report",
    "comparison",
    "cli.terminal",
    "cli.models",
    "cli.study",
    "cli.embed",
    "cli.demo",
    "cli.paper",
]
MATHEMATICS = [
    "memory",
    "operators",
    "targets",
    "objective",
    "solvers",
    "training",
    "path",
    "baselines.margins",
    "baselines.projections",
]


def imports(module):
    tree = ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            package = node.module in ("outmetric", "outmetric.paper")
            yield from ([f"{node.module}.{alias.name}" for alias in node.names] if package else [node.module])


def test_every_module_has_its_place():
    found = {".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("*.py")}
    assert {name for name in found if not name.endswith("__init__")} == set(LAYERS)


@pytest.mark.parametrize("module", LAYERS)
def test_imports_point_one_way(module):
    own = {name.removeprefix("outmetric.") for name in imports(module) if name.startswith("outmetric.")}
    earlier = {*LAYERS[: LAYERS.index(module)], "__version__", "baselines", "plots", "tables"}
    assert own <= earlier


@pytest.mark.parametrize("module", MATHEMATICS)
def test_mathematics_needs_numpy_and_scipy_only(module):
    packages = {name.split(".")[0] for name in imports(module)}
    assert packages <= {"numpy", "scipy", "outmetric", *sys.stdlib_module_names}


def test_importing_the_library_imports_no_extra():
    extras = {"matplotlib", "plotly", "onnx", "typer", "cvxpy"}
    code = f"import sys, outmetric; print({{m.split('.')[0] for m in sys.modules}} & {extras})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_public_names():
    assert set(outmetric.__all__) == {name for name in outmetric.__all__ if hasattr(outmetric, name)}
    assert {"FixedKernelMetric", "LearnedKernelMetric"} <= set(outmetric.__all__)
