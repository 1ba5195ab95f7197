"""Models in files that are safe to load."""

from outmetric.storage.codec import NotStorableError
from outmetric.storage.files import ModelFileError, load, save

__all__ = [
    "ModelFileError",
    "NotStorableError",
    "load",
    "save",
]
