"""Does the folder keep the shape that the architecture promises?"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import outmetric

SOURCE = Path(outmetric.__file__).parent
# A room may import those before it.
ROOMS = [
    "foundation",
    "kernels",
    "problem",
    "solvers",
    "rows",
    "estimators",
    "columns",
    "choosing",
    "baselines",
    "maps",
    "tables",
    "storage",
    "export",
    "datasets",
    "paper",
    "cli",
]
# Public names of what lies in rooms.
DOORS = {"__init__", "moved", "plots"}
MODULES = sorted(SOURCE.rglob("*.py"))
# What the mathematics is made of knows nothing but arrays.
MATHEMATICS = ["problem", "solvers"]


def name_of(path):
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def imports(path):
    """The modules that are imported, and with names from packages of ours also these, as they may be modules."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield node.module
            if node.module.split(".")[0] == "outmetric":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_of(path):
    """The rooms from which a module imports."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("outmetric.")} & set(ROOMS)


def test_every_module_lives_in_a_room():
    assert {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(ROOMS)
    assert {path.stem for path in SOURCE.glob("*.py")} == DOORS


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent != SOURCE], ids=name_of)
def test_imports_point_one_way(path):
    room = name_of(path).split(".")[0]
    assert rooms_of(path) <= set(ROOMS[: ROOMS.index(room) + 1])


@pytest.mark.parametrize("room", ROOMS)
def test_no_cycles_in_a_room(room):
    modules = {path.stem: path for path in (SOURCE / room).glob("*.py") if path.stem != "__init__"}
    needs = {
        stem: {name.split(".")[2] for name in imports(path) if name.startswith(f"outmetric.{room}.")} & set(modules)
        for stem, path in modules.items()
    }
    while needs:
        free = {stem for stem, needed in needs.items() if not needed & set(needs)}
        assert free, f"these import one another: {needs}"
        needs = {stem: needed for stem, needed in needs.items() if stem not in free}


@pytest.mark.parametrize("path", [path for room in MATHEMATICS for path in (SOURCE / room).glob("*.py")], ids=name_of)
def test_mathematics_needs_numpy_and_scipy_only(path):
    packages = {name.split(".")[0] for name in imports(path)}
    assert packages <= {"numpy", "scipy", "outmetric", *sys.stdlib_module_names}


def test_importing_the_library_imports_no_extra():
    extras = {"matplotlib", "plotly", "onnx", "typer", "cvxpy"}
    code = f"import sys, outmetric; print({{m.split('.')[0] for m in sys.modules}} & {extras})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_public_names():
    assert set(outmetric.__all__) == {name for name in outmetric.__all__ if hasattr(outmetric, name)}
    assert {"FixedKernelMetric", "LearnedKernelMetric"} <= set(outmetric.__all__)


def test_importing_the_library_loads_no_room():
    code = "import sys, outmetric; print({name for name in sys.modules if name.split('.')[0] in ('numpy', 'outmetric')})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "{'outmetric'}"


def test_a_metric_loads_no_tables_pictures_files_or_baselines():
    rooms = {f"outmetric.{room}" for room in ("baselines", "maps", "tables", "storage", "export", "datasets", "paper", "cli")}
    code = f"import sys, outmetric; outmetric.LearnedKernelMetric; print(set(sys.modules) & {rooms})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


@pytest.mark.parametrize("name", ["baselines", "columns", "datasets", "export", "kernels", "maps", "plots", "storage", "tables"])
def test_public_rooms_are_attributes(name):
    code = f"import outmetric; print(outmetric.{name}.__name__)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == f"outmetric.{name}"
    assert name in dir(outmetric)


def test_other_names_are_errors():
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = outmetric.nothing
