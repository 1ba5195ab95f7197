"""Does the folder keep the shape that the architecture promises?"""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import outmetric

pytestmark = pytest.mark.slow
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
    "automatic",
    "baselines",
    "verification",
    "tuples",
    "layouts",
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
TREES = {path: ast.parse(path.read_text()) for path in MODULES}
CORE = {"numpy", "scipy", "sklearn", "joblib", "threadpoolctl", "safetensors", "outmetric", *sys.stdlib_module_names}
COMMAND = {"typer", "rich"}
# Names with an underscore that other packages give us to use or to set.
FOREIGN = {
    "_fit_X",  # the points of scikit-learn's neighbours
    "_n_features_out",  # what ClassNamePrefixFeaturesOutMixin asks for
}
# What the mathematics is made of knows nothing but arrays.
MATHEMATICS = ["problem", "solvers"]


def name_of(path):
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def imports(path):
    """The modules that are imported, and with names from packages of ours also these, as they may be modules."""
    for node in ast.walk(TREES[path]):
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


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_rooms_are_entered_through_their_door(path):
    """Other rooms are imported by what their __init__ exports; inside a room modules are imported."""
    room = name_of(path).split(".")[0]
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("outmetric.") and node.module.split(".")[1] != room:
            exported = importlib.import_module(node.module).__all__
            assert len(node.module.split(".")) == 2
            assert {alias.name for alias in node.names} <= {*exported, "*", "__all__"}


def private(name):
    return name.startswith("_") and not name.endswith("__") and name != "_"


def defined(tree):
    """The private names that a module gives to functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and getattr(node.value, "id", "") == "self":
            yield node.attr


DEFINED = {path: set(filter(private, defined(tree))) for path, tree in TREES.items()}
OURS = set().union(*DEFINED.values()) - FOREIGN


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_private_names_stay_in_their_module(path):
    """A class may override what a base in another room documents as meant for that, and so define it itself."""
    used = {node.attr for node in ast.walk(TREES[path]) if isinstance(node, ast.Attribute)}
    used |= {
        alias.name
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.ImportFrom) and node.module.startswith("outmetric")
        for alias in node.names
    }
    assert used & OURS <= DEFINED[path]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_and_classes_can_be_read_at_one_sitting(path):
    assert len(path.read_text().splitlines()) <= 450
    classes = [node for node in ast.walk(TREES[path]) if isinstance(node, ast.ClassDef)]
    assert all(sum(isinstance(part, ast.FunctionDef) for part in node.body) <= 25 for node in classes)


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_have_three_to_twelve_modules(room):
    assert 3 <= len(list((SOURCE / room).glob("*.py"))) - 1 <= 12


def at_import(nodes):
    """The statements that run when a module is imported by a program, not by a type checker."""
    for node in nodes:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        yield node
        for part in ("body", "orelse", "handlers"):
            if not isinstance(node, ast.FunctionDef):
                yield from at_import(getattr(node, part, []))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_optional_packages_are_imported_in_functions(path):
    packages = set()
    for node in at_import(TREES[path].body):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            packages.add(node.module.split(".")[0])
    assert packages <= (CORE | COMMAND if path.parent.name == "cli" else CORE)


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent.name != "cli"], ids=name_of)
def test_the_library_is_silent(path):
    calls = [node.func.id for node in ast.walk(TREES[path]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    assert "print" not in calls or name_of(path) == "foundation.progress"


def sentence(room):
    """What a room says that it is for."""
    return ast.get_docstring(TREES[SOURCE / room / "__init__.py"])


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_says_in_one_sentence_what_it_is_for(room):
    text = sentence(room)
    assert text.endswith(".")
    assert ". " not in text
    assert "\n" not in text


def test_the_table_of_rooms_is_that_of_their_own_words():
    rows = [f"| `{room}` | {sentence(room)} |" for room in ROOMS]
    table = "\n".join(["| room | what it is for |", "|---|---|", *rows])
    contributing = Path(__file__).parents[1] / "CONTRIBUTING.md"
    assert table in contributing.read_text(), f"put this into CONTRIBUTING.md:\n{table}"


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
    code = "import sys, outmetric; print(*sorted(name for name in sys.modules if name.split('.')[0] in ('numpy', 'outmetric')))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["outmetric", "outmetric.moved"]


def test_a_metric_loads_no_tables_pictures_files_or_baselines():
    names = ("baselines", "tuples", "verification", "maps", "tables", "storage", "export", "datasets", "paper", "cli")
    rooms = {f"outmetric.{room}" for room in names}
    code = f"import sys, outmetric; outmetric.LearnedKernelMetric; print(set(sys.modules) & {rooms})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


PUBLIC = ["baselines", "columns", "datasets", "export", "kernels", "maps", "plots", "storage", "tables", "tuples", "verification"]


@pytest.fixture(scope="module")
def attributes_of_a_fresh_library():
    """The names of the public rooms as attributes, each of a library that was imported anew.

    All in one process, since most of its time is for NumPy and scikit-learn, which stay.
    """
    code = f"""
import sys
for room in {PUBLIC}:
    for name in [name for name in sys.modules if name.split(".")[0] == "outmetric"]:
        del sys.modules[name]
    import outmetric
    assert f"outmetric.{{room}}" not in sys.modules
    print(room, getattr(outmetric, room).__name__)
"""
    lines = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    return dict(line.split() for line in lines)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_rooms_are_attributes(name, attributes_of_a_fresh_library):
    assert attributes_of_a_fresh_library[name] == f"outmetric.{name}"
    assert name in dir(outmetric)


def test_other_names_are_errors():
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = outmetric.nothing
