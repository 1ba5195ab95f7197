"""Models in files that are safe to load."""

# Classes that can be stored say so when their room is imported.
from outmetric import baselines, choosing, columns, estimators, kernels, problem, solvers, tables  # noqa: F401
from outmetric.storage import foreign  # noqa: F401
from outmetric.storage.errors import ModelFileError, NotStorableError, used_from
from outmetric.storage.files import load, save
from outmetric.storage.registration import register

__all__ = [
    "ModelFileError",
    "NotStorableError",
    "load",
    "register",
    "save",
    "used_from",
]
