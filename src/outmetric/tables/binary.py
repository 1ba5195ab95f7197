"""Tables in binary formats: Parquet, Feather (Arrow), NumPy's .npz and Excel's .xlsx. Sizes are checked before anything is read."""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.lib import format as npy

from outmetric.columns import TableError, shown
from outmetric.foundation import Array
from outmetric.tables.formats import ReadOptions, TableFormat, register
from outmetric.tables.sources import arrow_package, check_names, check_room
from outmetric.tables.text import header_names

# What the name of a column takes, and how many columns a table without rows may have.
COLUMN_SIZE, EMPTY_COLUMNS = 100, 100_000
# The rows of a pandas table that has other labels for them than numbers.
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
# In the sheets of a workbook: rows, cells, their places, and cells that refer to a shared text.
SHEET_ROW = re.compile(rb"<(?:\w+:)?row[\s/>]")
SHEET_CELL = re.compile(rb"<(?:\w+:)?c[\s/>]")
SHEET_PLACE = re.compile(rb"""\sr\s*=\s*["']([A-Za-z]{0,3})(\d{1,10})["']""")
SHARED_TEXT = re.compile(rb"<(?:\w+:)?si[\s/>]")
SHARED_USE = re.compile(rb"""\st\s*=\s*["']s["'][^>]*>(?:<(?:\w+:)?v>(\d{1,9})<)?""")
# Bytes of memory that a cell of a workbook takes, and one that is empty, in the reader and here.
SHEET_CELL_SIZE = 100


def _read_parquet(data: bytes, name: str, options: ReadOptions) -> Any:
    """A DataFrame from Parquet."""
    arrow = arrow_package()
    import pyarrow.parquet

    schema = pyarrow.parquet.read_schema(arrow.BufferReader(data))
    check_names(schema.names, name)
    texts = [field.name for field in schema if _is_text(field.type)]
    # Texts stay encoded at first, since a long one that is repeated takes no room in the file.
    file = pyarrow.parquet.ParquetFile(arrow.BufferReader(data), read_dictionary=texts)
    groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
    check_room(max(sum(group.total_byte_size for group in groups), 8.0 * file.metadata.num_rows * len(schema)), name)
    return _frame(file.read(use_threads=False), name, encoded=texts)


def _read_feather(data: bytes, name: str, options: ReadOptions) -> Any:
    """A DataFrame from Arrow's format of files (Feather) or streams."""
    arrow = arrow_package()
    buffer = arrow.BufferReader(data)
    opened = arrow.ipc.open_file(buffer) if data.startswith(b"ARROW1") else arrow.ipc.open_stream(buffer)
    check_names(opened.schema.names, name)
    check_room(_unpacked_size(data), name)
    return _frame(opened.read_all(), name)


def _unpacked_size(data: bytes) -> float:
    """The bytes that Arrow will unpack, from what stands before each packed buffer, since it unpacks without asking.

    The places of buffers are in a flatbuffer: tables whose fields are found through a list of offsets (Message.fbs of Arrow).
    """
    arrow = arrow_package()

    def number(code: str, content: Any, place: int) -> int:
        return int(struct.unpack_from(f"<{code}", content, place)[0])

    def field(content: Any, table: int, slot: int) -> int | None:
        offsets = table - number("i", content, table)
        known = 4 + 2 * slot < number("H", content, offsets)
        offset = number("H", content, offsets + 4 + 2 * slot) if known else 0
        return table + offset if offset else None

    def follow(content: Any, place: int | None) -> int:
        if place is None:
            raise ValueError("a part of its header is missing")
        return place + number("I", content, place)

    total = 0.0
    start = 8 if data.startswith(b"ARROW1") else 0
    for message in arrow.ipc.MessageReader.open_stream(arrow.BufferReader(memoryview(data)[start:])):
        if message.type not in ("record batch", "dictionary"):
            continue
        content = message.metadata
        batch = follow(content, field(content, number("I", content, 0), 2))
        if message.type == "dictionary":
            batch = follow(content, field(content, batch, 1))
        if field(content, batch, 3) is None:  # not packed
            continue
        buffers = follow(content, field(content, batch, 2))
        for k in range(number("I", content, buffers)):
            offset, length = struct.unpack_from("<qq", content, buffers + 4 + 16 * k)
            total += max(number("q", message.body, offset), length) if length else 0
    return total


def _read_npz(data: bytes, name: str, options: ReadOptions) -> Any:
    """A DataFrame from arrays: the columns of X with the names feature_names, and each array of one dimension."""
    arrow_package()
    import pandas as pd

    arrays = _arrays(data, name)
    X = arrays.pop("X", None)
    parts = []
    if X is not None:
        X = X[:, None] if X.ndim == 1 else X
        names = arrays.pop("feature_names", np.array([f"x{k + 1}" for k in range(X.shape[-1])]))
        if X.ndim != 2 or names.shape != X.shape[1:]:
            raise TableError(f"{name}: X has the shape {X.shape} and feature_names {names.shape}; (n, d) and (d,) were expected.")
        parts.append(pd.DataFrame(X, columns=[str(title) for title in names]))
    odd = [f"{title} {array.shape}" for title, array in arrays.items() if array.ndim != 1]
    if odd:
        raise TableError(f"{name}: beside X, arrays must have one dimension, one value for each row; not so: {shown(odd)}.")
    lengths = {title: len(array) for title, array in {**({} if X is None else {"X": X}), **arrays}.items()}
    if len(set(lengths.values())) > 1:
        raise TableError(f"{name}: the arrays have different numbers of rows: {shown([f'{k} {n}' for k, n in lengths.items()])}.")
    parts.append(pd.DataFrame(arrays))
    check_names([title for part in parts for title in part.columns], name)
    return pd.concat(parts, axis=1)


def _frame(table: Any, name: str, encoded: Collection[str] = ()) -> Any:
    """An Arrow table as a DataFrame: decimals and columns without any value are numbers, ``encoded`` ones text."""
    arrow = arrow_package()
    import pyarrow.compute as pc

    table.validate(full=True)
    encoded, columns = set(encoded), {}
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = field.type
        if PANDAS_INDEX.fullmatch(field.name):
            continue
        if arrow.types.is_null(kind) or arrow.types.is_decimal(kind):
            column = column.cast(arrow.float64())
        elif arrow.types.is_dictionary(kind) and _is_text(kind.value_type):
            sizes = [pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0 for chunk in column.chunks]
            check_room(sum(sizes), name)
            column = column.cast(arrow.large_string()) if field.name in encoded else column
        columns[field.name] = column
    return arrow.table(columns).to_pandas()


def _is_text(kind: Any) -> bool:
    types = arrow_package().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _arrays(data: bytes, name: str) -> dict[str, Array]:
    """The arrays of an archive; never Python objects, which could be programs."""
    arrays: dict[str, Array] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        titles = {entry: entry.filename.removesuffix(".npy") for entry in archive.infolist()}
        check_names(list(titles.values()), name)
        total = 0.0
        for entry, title in titles.items():
            with archive.open(entry) as stream:
                version = npy.read_magic(stream)
                shape, _, dtype = npy.read_array_header_1_0(stream) if version == (1, 0) else npy.read_array_header_2_0(stream)
            if dtype.kind not in "biufcSUmM":
                raise TableError(f"{name}: the array {title!r} holds {dtype}; only numbers and text can be read.")
            size, width = math.prod(shape), shape[-1] if len(shape) > 1 else 1
            if not size and width > EMPTY_COLUMNS:  # an array without elements may claim any shape
                raise TableError(f"{name}: the array {title!r} has no rows, and claims {width} columns.")
            check_room(total := total + size * max(dtype.itemsize, 1) + COLUMN_SIZE * width, name)
        for entry, title in titles.items():
            with archive.open(entry) as stream:
                array = npy.read_array(stream, allow_pickle=False)
            arrays[title] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return arrays


def _read_xlsx(data: bytes, name: str, options: ReadOptions) -> Any:
    """A DataFrame from the one sheet of a workbook that has cells; its first row names the columns."""
    arrow_package()
    import pandas as pd

    try:
        from python_calamine import CalamineWorkbook
    except ImportError as error:
        raise ImportError(f"spreadsheets need one more package: pip install 'outmetric[excel]' ({error})") from error
    book = CalamineWorkbook.from_filelike(io.BytesIO(_checked_workbook(data, name)))
    sheets = {title: book.get_sheet_by_name(title).to_python() for title in book.sheet_names}
    filled = {title: rows for title, rows in sheets.items() if any(cell != "" for row in rows for cell in row)}
    if len(filled) != 1:
        raise TableError(f"{name} has {len(filled)} sheets with cells ({shown(list(filled))}); save the one with the table as CSV.")
    missing = {"", *options.missing}
    header, *rows = [[_sheet_value(cell, missing) for cell in row] for row in next(iter(filled.values()))]
    rows = [row for row in rows if any(cell is not None for cell in row)]
    titles = ["" if cell is None else str(cell).strip() for cell in header]
    names = header_names(titles, name)
    columns = {
        column: pd.Series([row[place] for row in rows])
        for place, column in enumerate(names)
        if titles[place] or any(row[place] is not None for row in rows)
    }
    written = set(options.as_text) & set(columns)
    columns |= {column: columns[column].astype(object).map(str, na_action="ignore") for column in written}
    return pd.DataFrame(columns)


def _checked_workbook(data: bytes, name: str) -> bytes:
    """The same workbook, not packed, if it is no larger than memory when a reader fills the rectangles of its sheets.

    What the reader gets was unpacked here, so that no size in it can be a lie.
    """
    whole = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(whole, "w") as checked:
        check_room(4.0 * sum(entry.file_size for entry in archive.infolist()), name)
        contents = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        for title, content in contents.items():
            checked.writestr(title, content)
    texts = [len(text) for content in contents.values() for text in SHARED_TEXT.split(content)[1:]]
    check_room(sum(_sheet_size(content, texts) for content in contents.values()), name)
    return whole.getvalue()


def _sheet_size(content: bytes, texts: list[int]) -> float:
    """Bytes that a sheet takes as a rectangle of cells with their own copies of shared texts."""
    cells = len(SHEET_CELL.findall(content))
    places = SHEET_PLACE.findall(content)
    height = max((int(row) for _, row in places), default=0)
    width = max((_column_number(letters) for letters, _ in places), default=0)
    if sum(letters != b"" for letters, _ in places) < cells:  # cells without a place follow each other
        parts = SHEET_ROW.split(content)
        height += len(parts)
        width += max(len(SHEET_CELL.findall(part)) for part in parts)
    longest = max(texts, default=0)
    used = [texts[int(place)] if place and int(place) < len(texts) else longest for place in SHARED_USE.findall(content)]
    return float(SHEET_CELL_SIZE) * height * width + 2.0 * sum(used)


def _column_number(letters: bytes) -> int:
    """26 for Z, 27 for AA."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - 64
    return number


def _sheet_value(cell: Any, missing: Collection[str]) -> Any:
    """None for nothing; whole numbers as such, since a workbook has floats only."""
    if isinstance(cell, str):
        return None if cell.strip() in missing else cell
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53 else cell


def _is_workbook(members: Sequence[str]) -> bool:
    return "xl/workbook.xml" in members


def _parquet_writer(sink: Any, schema: Any) -> Any:
    arrow_package()
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(sink, schema)


def _feather_writer(sink: Any, schema: Any) -> Any:
    return arrow_package().ipc.new_file(sink, schema)


def _holds_arrays(members: Sequence[str]) -> bool:
    return bool(members) and all(member.endswith(".npy") for member in members)


register(
    TableFormat(
        "parquet", (".parquet", ".pq"), _read_parquet, writer=_parquet_writer, magic=((b"PAR1", b"PAR1"),), in_blocks="parquet"
    )
)
register(
    TableFormat(
        "feather",
        (".feather", ".arrow"),
        _read_feather,
        writer=_feather_writer,
        magic=((b"ARROW1\0\0", b"ARROW1"), (b"\xff\xff\xff\xff", b"")),
    )
)
register(TableFormat("npz", (".npz",), _read_npz, is_archive=_holds_arrays))
register(TableFormat("xlsx", (".xlsx", ".xlsm"), _read_xlsx, is_archive=_is_workbook))
