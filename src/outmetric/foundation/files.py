"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place to write to, which takes the place of ``path`` when all went well and is gone otherwise.

    It has the suffix of ``path``, and lies beside it (or beside what it links to). Only a regular file is replaced, never a device
    or a pipe, which others need; anything else there is an OSError.
    """
    _check_replaceable(path)
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(_no_folder(Path(path)))
    partial = target.with_name(f".{uuid.uuid4().hex}.part{target.suffix[:20]}")
    try:
        yield partial
        _check_replaceable(target)  # it may have come in the meantime
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that nobody ever sees half of, not even after a power loss."""
    with whole(path) as partial, partial.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def obstacle(path: str | os.PathLike[str]) -> str | None:
    """Why no file could be written there; None if it could."""
    path = Path(path)
    if not path.parent.is_dir():
        return _no_folder(path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return f"nothing may be written to the folder {path.parent}; choose another for {path.name}."
    return _occupant(path)


def _no_folder(path: Path) -> str:
    return f"there is no folder {path.parent} to write {path.name} to; choose an existing folder."


def _occupant(path: str | os.PathLike[str]) -> str | None:
    """Why what is there, if anything, may not be replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:  # not there, or writing to it will say what is wrong
        return f"{path} is a link that leads back to itself; choose another name." if error.errno == errno.ELOOP else None
    if stat.S_ISREG(mode):
        return None
    return f"{path} is {'a folder' if stat.S_ISDIR(mode) else 'no ordinary file'}; choose another name."


def _check_replaceable(path: str | os.PathLike[str]) -> None:
    if trouble := _occupant(path):
        raise OSError(trouble)
