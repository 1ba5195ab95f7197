"""The bytes of a table: from a file or from standard input, unpacked, and never more of them than memory has room for."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outmetric.columns import Remedy, TableError, shown
from outmetric.foundation import available_memory
from outmetric.tables.formats import TableFormat, by_magic, by_members, by_suffix, known_suffixes

# What is read takes this many times its size at least, until it is a table.
TIMES = 4
# Where the system does not say how much memory is left.
USUAL_MEMORY = 2.0**33
BLOCK = 2**20
# How packed files begin; the header of a table in text does not look like that.
PACKINGS = {
    ".gz": rb"\x1f\x8b",
    ".bz2": rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)",
    ".xz": rb"\xfd7zXZ\x00",
    ".zst": rb"\x28\xb5\x2f\xfd",
    ".zip": rb"PK\x03\x04",
}


@dataclass(frozen=True, eq=False)
class Source:
    """The unpacked bytes of a table, a name for messages, and the format (None: some text)."""

    name: str
    format: TableFormat | None
    data: bytes


def load(source: Path | str) -> Source:
    """Read and unpack a file, or standard input for "-". Suffixes say the format; without one the content does."""
    piped = str(source) == "-"
    name = "standard input" if piped else str(source)
    suffixes = [] if piped else [suffix.lower() for suffix in Path(source).suffixes]
    known, packing = _named(name, suffixes)
    with as_table_error(name):
        with nullcontext(_standard_input()) if piped else Path(source).open("rb") as stream:
            data = _bounded(stream, name)
        if not data:
            raise TableError(f"{name} is empty.")
        if packing is not None and not re.match(PACKINGS[packing], data):
            raise TableError(f"{name} ends with {packing}, but its content does not begin like that; rename it or pack it again.")
        packing = next((suffix for suffix, begin in PACKINGS.items() if re.match(begin, data)), None)
        if packing == ".zip":
            known, data = _unzip(data, name, known)
        elif packing is not None:
            data = _bounded(_unpacked(data, packing), name)
    found = by_magic(data)
    if found and known not in (None, found):
        raise TableError(f"{name} is named like {known.name}, but its content is {found.name}; rename it.")
    return Source(name, known or found, data)


@contextmanager
def as_table_error(name: str, trouble: str = "cannot be read") -> Iterator[None]:
    """Turn what libraries raise over damaged or hostile files, which has no common type, into a TableError."""
    try:
        yield
    except (TableError, ImportError, BrokenPipeError):  # a closed pipe is nobody's fault, and the command line knows it
        raise
    except FileNotFoundError as error:
        raise TableError(f"there is no file {name}.") from error
    except MemoryError as error:
        raise TableError(f"{name} {trouble}: memory does not suffice.") from error
    except Exception as error:
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = message.partition("\n")[0] or type(error).__name__
        raise TableError(f"{name} {trouble}: {reason[:300]}") from error


def check_room(n_bytes: float, name: str) -> None:
    """Raise TableError for a table that takes more memory to read than there is."""
    room = _room()
    if n_bytes > room:
        raise TableError(
            f"{name} takes {n_bytes / 1e6:.3g} MB of memory or more to read; {room / 1e6:.3g} MB are left. Take fewer rows or "
            "columns, or read it in blocks.",
            Remedy("blocks"),
        )


def check_names(names: Sequence[str], source: str) -> None:
    """Raise TableError if two columns have the same name."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise TableError(f"{source} has several columns named {shown(twice)}. Rename them.")


def arrow_package() -> Any:
    """The package, or an error that says how to get it."""
    try:
        import pandas  # noqa: F401
        import pyarrow
    except ImportError as error:
        raise ImportError(f"tables in files need two more packages: pip install 'outmetric[tables]' ({error})") from error
    return pyarrow


def _named(name: str, suffixes: list[str]) -> tuple[TableFormat | None, str | None]:
    """(format, packing) by suffix; None where the content must tell."""
    packing = suffixes.pop() if suffixes and suffixes[-1] in PACKINGS else None
    if not suffixes:
        return None, packing
    known = by_suffix(suffixes[-1])
    if known is not None or packing is not None:  # such as results.2024.gz
        return known, packing
    packings = ", ".join(PACKINGS)
    raise TableError(f"{name}: known are {known_suffixes()}; those of text also with {packings}. Save it as one of these.")


def _standard_input() -> Any:
    if sys.stdin is None:
        raise TableError("standard input is closed; give the name of a file.")
    return sys.stdin.buffer


def _room() -> float:
    available = available_memory()
    return USUAL_MEMORY if available is None else available


def _bounded(stream: Any, name: str) -> bytes:
    blocks, total, room = [], 0, _room()
    while block := stream.read(BLOCK):
        blocks.append(block)
        total += len(block)
        if TIMES * total > room:
            check_room(TIMES * total, name)
    return b"".join(blocks)


def _unpacked(data: bytes, packing: str) -> Any:
    if packing == ".zst":
        arrow = arrow_package()
        return arrow.CompressedInputStream(arrow.BufferReader(data), "zstd")
    opened: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return opened[packing](io.BytesIO(data))


def _unzip(data: bytes, name: str, known: TableFormat | None) -> tuple[TableFormat | None, bytes]:
    """Format and content of the one file in an archive; formats that are archives themselves stay as they are."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [entry for entry in archive.namelist() if not entry.endswith("/") and not entry.startswith("__MACOSX/")]
        own = by_members(members) if known is None else known
        if own is not None and own.is_archive is not None:
            return own, data
        if len(members) != 1:
            raise TableError(f"{name} is an archive of {len(members)} files ({shown(members)}); unpack it and give one of them.")
        with archive.open(members[0]) as stream:
            content = _bounded(stream, name)
        return known or _named(name, [suffix.lower() for suffix in Path(members[0]).suffixes])[0], content
