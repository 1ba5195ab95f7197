"""What can go wrong with a model's file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


class NotStorableError(ValueError):
    """Something in a model cannot be written to a file."""


class ModelFileError(ValueError):
    """A file that is no model, is damaged, or was made by a newer version; the message says which."""


@contextmanager
def used_from(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what only a model that does not fit together raises while it is used into a ModelFileError."""
    try:
        yield
    except (AttributeError, TypeError, LookupError) as error:
        raise ModelFileError(f"{path} holds a model that cannot be used: {type(error).__name__}: {str(error)[:300]}.") from error
