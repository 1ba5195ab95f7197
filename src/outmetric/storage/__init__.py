"""Models in files that are safe to load."""

# Classes that can be stored say so when their room is imported.
from outmetric import (  # noqa: F401
    automatic,
    baselines,
    choosing,
    columns,
    estimators,
    kernels,
    layouts,
    problem,
    solvers,
    tables,
    tuples,
    verification,
)
from outmetric.storage import foreign  # noqa: F401
from outmetric.storage.errors import ModelFileError, NotStorableError, used_from
from outmetric.storage.files import is_model, load, save
from outmetric.storage.registration import register

__all__ = [
    "ModelFileError",
    "NotStorableError",
    "is_model",
    "load",
    "register",
    "save",
    "used_from",
]
