"""Tables to files, whole or not at all, and safe to open in a spreadsheet."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, cast

from outmetric.columns import TableError
from outmetric.foundation import obstacle, whole
from outmetric.tables.formats import TableFormat, by_suffix, known_suffixes
from outmetric.tables.sources import arrow_package, as_table_error, check_names
from outmetric.tables.text import CSV

# A spreadsheet takes a cell that begins so for a formula (OWASP: CSV injection), unless it is a plain number; it may overlook what
# cannot be seen before it. The last four are wide forms of the first.
FORMULA = r"^[\p{Cc}\p{Cf}]*[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]"
PLAIN_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def check_output(destination: Path | str) -> None:
    """Raise TableError if a table could not be written there."""
    if str(destination) == "-":
        return
    path = Path(destination)
    _format(path)
    if trouble := obstacle(path):
        raise TableError(trouble)


def write_table(table: Any, destination: Path | str) -> int:
    """Write a table to a file, or as CSV to standard output; returns the number of rows.

    The file is there with all its rows or not at all, whatever happens; one that was there before stays until then. Floats are
    written with as many digits as it takes to read the same number. In CSV all text is in quotes, and a text that a spreadsheet
    would take for a formula (it begins with =, +, -, @, a tab or the end of a line, perhaps after letters that cannot be seen, and
    is no plain number) gets an apostrophe before it; read back, the apostrophe is part of the text. Names of columns likewise.

    Parameters
    ----------
    table : DataFrame, or mapping from names to columns
    destination : path, or "-" for standard output
        .csv or .tsv, perhaps with .gz; .parquet, .pq; .feather, .arrow.

    Raises
    ------
    TableError
        If it cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out.csv"
    >>> write_table({"x": [0.1, -2.0], "note": ["=1+1", "-5"]}, path)
    2
    >>> print(path.read_text())
    "x","note"
    0.1,"'=1+1"
    -2,"-5"
    """
    names = [str(name) for name in (table if isinstance(table, Mapping) else table.columns)]
    columns = [table[name] for name in table]
    return write_blocks(destination, names, [columns])


def write_blocks(destination: Path | str, names: Sequence[str], blocks: Iterable[Sequence[Any]]) -> int:
    """Write columns block by block, as `write_table` does; returns the number of rows. Without any block nothing is written."""
    arrow_package()
    check_output(destination)
    check_names(names, "the table to be written")
    path = None if str(destination) == "-" else Path(destination)
    table_format = CSV if path is None else _format(path)
    label = "standard output" if path is None else str(path)
    blocks = iter(blocks)
    first = next(blocks, None)
    if first is None:
        return 0
    rows, writer = 0, cast(Any, None)
    try:
        with _sink(path) as sink:
            try:
                for block in chain([first], blocks):
                    with as_table_error(label, "cannot be written"):
                        batch = _batch(names, block, in_text=table_format.is_text)
                        writer = writer or _writer(table_format, sink, batch.schema)
                        writer.write_table(batch)
                    rows += batch.num_rows
            except BaseException:
                with suppress(Exception):  # it would complain later, when the file is gone
                    writer.close()
                raise
            writer.close()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TableError(f"{label} cannot be written: {error.strerror or error}") from error
    return rows


@contextmanager
def _sink(path: Path | None) -> Iterator[Any]:
    """A stream whose content gets to its file, or to standard output, when all of it has been written."""
    if path is None:
        memory = io.BytesIO()
        yield memory
        sys.stdout.flush()
        sys.stdout.buffer.write(memory.getbuffer())
        sys.stdout.buffer.flush()
        return
    with whole(path) as partial, partial.open("xb") as file:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                yield packed
        else:
            yield file


def _writer(table_format: TableFormat, sink: Any, schema: Any) -> Any:
    assert table_format.writer is not None, "checked before"
    return table_format.writer(sink, schema)


def _batch(names: Sequence[str], block: Sequence[Any], in_text: bool) -> Any:
    arrow = arrow_package()
    columns = [arrow.array(column, from_pandas=True) for column in block]
    if in_text:
        columns = [_harmless(column) for column in columns]
        names = _harmless(arrow.array(names, arrow.string())).to_pylist()
    return arrow.table(columns, names=list(names))


def _harmless(column: Any) -> Any:
    """Text with an apostrophe before what a spreadsheet would run; truth values as Python writes them; numbers as they are."""
    arrow = arrow_package()
    import pyarrow.compute as pc

    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if arrow.types.is_boolean(column.type):
        return pc.if_else(column, "True", "False")
    if not (arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type)):
        return column
    column = column.cast(arrow.large_string())
    apostrophe, nothing = (arrow.scalar(text, arrow.large_string()) for text in ("'", ""))
    formula = pc.and_not(pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, PLAIN_NUMBER))
    return pc.if_else(formula, pc.binary_join_element_wise(apostrophe, column, nothing), column)


def _format(path: Path) -> TableFormat:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    plain = suffixes[:-1] if packed else suffixes
    found = by_suffix(plain[-1]) if plain else None
    if found is None or found.writer is None or (packed and not found.is_text):
        raise TableError(f"{path}: tables are written to {known_suffixes('writer')} files, those of text also with .gz.")
    return found
