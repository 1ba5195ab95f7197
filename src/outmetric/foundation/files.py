"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place to write to, which takes the place of ``path`` when all went well and is gone otherwise.

    It has the suffix of ``path``, and lies beside it (or beside what it links to).
    """
    target = Path(path).resolve()
    partial = target.with_name(f".{uuid.uuid4().hex}.part{target.suffix[:20]}")
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
