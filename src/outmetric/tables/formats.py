"""The formats of tables in files: what each is called, how it is known, read and written. One registry has them all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from outmetric.foundation import Registry


@dataclass(frozen=True)
class ReadOptions:
    """What `outmetric.tables.read_table` was told of a table in text."""

    delimiter: str | None = None
    decimal: str | None = None
    missing: Collection[str] = ()
    as_text: Collection[str] = ()


@dataclass(frozen=True)
class TableFormat:
    """A format of tables in files.

    Attributes
    ----------
    name : str
        For messages.
    suffixes : tuple of str
        Of its files, such as ".csv"; no other format has them.
    read : function (content, name, options) -> DataFrame
        From text or bytes; ``name`` is what messages call the table, and ``options`` are `ReadOptions`.
    is_text : bool
        Whether ``content`` is text; its files may then be packed.
    writer : function (sink, schema) -> object, optional
        For tables with this Arrow schema into a binary stream: it has ``write_table(table)`` and ``close()``. None: only read.
    magic : pairs of bytes
        How its files begin and end, where the name of a file says nothing.
    is_content : function text -> bool, optional
        The same for formats of text.
    is_archive : function (names of files) -> bool, optional
        For formats that are zip archives: whether one with these files in it is such a table.
    in_blocks : optional
        What `pyarrow.dataset.dataset` calls the format, if it can be read in blocks.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Any, str, ReadOptions], Any]
    is_text: bool = False
    writer: Callable[[Any, Any], Any] | None = None
    magic: tuple[tuple[bytes, bytes], ...] = ()
    is_content: Callable[[str], bool] | None = None
    is_archive: Callable[[Sequence[str]], bool] | None = None
    in_blocks: Any = None


FORMATS: Registry[TableFormat] = Registry("format of tables")


def register(table_format: TableFormat) -> None:
    """Make a format known to `read_table`, `write_table` and all that use them.

    Parameters
    ----------
    table_format : TableFormat

    Raises
    ------
    ValueError
        If another format has the name or a suffix.

    Examples
    --------
    >>> import pandas as pd
    >>> def read_words(text, name, options):
    ...     return pd.DataFrame({"word": text.split()})
    >>> register(TableFormat("words", (".words",), read_words, is_text=True))  # doctest: +SKIP
    """
    taken = {suffix: known.name for known in FORMATS.values() for suffix in known.suffixes if known is not table_format}
    for suffix in table_format.suffixes:
        if not suffix.startswith(".") or suffix != suffix.lower():
            raise ValueError(f"a suffix must be such as '.csv', in small letters; not {suffix!r}.")
        if suffix in taken:
            raise ValueError(f"{suffix} files are of the format {taken[suffix]!r}; choose another suffix.")
    FORMATS.add(table_format.name, table_format)


def by_suffix(suffix: str) -> TableFormat | None:
    """The format of files with this suffix."""
    return next((known for known in FORMATS.values() if suffix.lower() in known.suffixes), None)


def by_magic(data: bytes) -> TableFormat | None:
    """The binary format whose files begin and end like this."""
    for known in FORMATS.values():
        if any(data.startswith(begin) and data.endswith(end) for begin, end in known.magic):
            return known
    return None


def by_content(text: str) -> TableFormat | None:
    """The format of text that says so itself."""
    return next((known for known in FORMATS.values() if known.is_content is not None and known.is_content(text)), None)


def by_members(members: Sequence[str]) -> TableFormat | None:
    """The format of zip archives with such files in them."""
    return next((known for known in FORMATS.values() if known.is_archive is not None and known.is_archive(members)), None)


def known_suffixes(ability: Literal["read", "writer", "in_blocks"] = "read") -> str:
    """For messages, those of the formats that can be read, written, or read in blocks."""
    able = (known for known in FORMATS.values() if getattr(known, ability) is not None)
    return ", ".join(suffix for known in able for suffix in known.suffixes)
