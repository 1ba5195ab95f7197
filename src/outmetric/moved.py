"""Where the modules of version 0.1 went: its pickles, and code that imports from them, go on working.

This finder is asked only for modules that are not there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# The rooms that have what the module had.
MOVED = {
    "candidates": ("choosing",),
    "classifier": ("automatic", "columns", "choosing"),
    "comparison": ("automatic",),
    "describe": ("estimators",),
    "face": ("estimators",),
    "files": ("foundation",),
    "fitting": ("estimators",),
    "inputs": ("estimators", "foundation"),
    "landmarks": ("kernels", "rows"),
    "memory": ("foundation",),
    "metric": ("estimators", "foundation"),
    "models": ("estimators",),
    "moments": ("rows", "foundation"),
    "objective": ("problem",),
    "operators": ("kernels", "foundation"),
    "path": ("solvers",),
    "plots.maps": ("maps",),
    "reduced": ("problem", "solvers"),
    "scalar": ("kernels", "foundation"),
    "search": ("choosing",),
    "streams": ("rows",),
    "strings": ("kernels",),
    "tables.columns": ("columns",),
    "tabular": ("tables",),
    "targets": ("problem",),
    "threads": ("foundation",),
    "training": ("solvers", "problem"),
    "votes": ("choosing",),
    "webmap": ("maps",),
}


class _Moved(Loader):
    """Makes a module whose names are looked up in rooms."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        own = module.__name__.removeprefix("outmetric.")

        def find(name: str) -> Any:
            for room in MOVED[own]:
                found = import_module(f"outmetric.{room}")
                if name in found.__all__:
                    return getattr(found, name)
            raise AttributeError(
                f"outmetric.{own}.{name} was part of version 0.1 and is gone. Fit the model anew, or store it with outmetric.save "
                "in version 0.1: such files are read by all later ones."
            )

        vars(module)["__getattr__"] = find


class MovedFinder(MetaPathFinder):
    """Finds the modules of version 0.1."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """What stands in for a module, if it is one of these."""
        return ModuleSpec(name, _Moved()) if name.removeprefix("outmetric.") in MOVED and name.startswith("outmetric.") else None


def install() -> None:
    """Let Python ask for these modules, after all others."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())
