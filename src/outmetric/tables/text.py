"""Tables in text: which characters, which delimiter and which decimal mark, and the columns that the cells become."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from outmetric.columns import Remedy, TableError, shown
from outmetric.tables.formats import ReadOptions, TableFormat, register
from outmetric.tables.sources import TIMES, arrow_package, as_table_error, check_names, check_room

DELIMITERS = (",", ";", "\t", "|")
# Rows by which the delimiter is told.
TELLING_ROWS = 20
# Bytes that are cut into cells at once; no row may be longer.
BLOCK = 2**30
# Cells that are tried before all of a column.
TELLING_CELLS = 1000
# Bytes of memory, measured: for each cell beside its text, for a cell that stays text, and for each column beside its cells.
CELL_SIZE, TEXT_SIZE, COLUMN_SIZE = 40, 120, 10_000
MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
DECIMAL_COMMA = r"^\s*[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?\s*$"
THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})*\s*$"
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# So few numbers can fall by chance.
FEW_STEPS = 10
LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
LAST = "the end of this table"


def decode(data: bytes, name: str, encoding: str | None = None) -> str:
    """The text of a table, in UTF-8 unless a byte order mark or ``encoding`` says otherwise."""
    marked = next((codec for mark, codec in MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding or marked).removeprefix("\ufeff")
    except LookupError as error:
        raise TableError(f"there is no text encoding {encoding!r}; some that there are: utf-8, latin-1, cp1252, utf-16.") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TableError(
            f"{name}, line {line}: the byte 0x{data[error.start]:02x} (byte {error.start + 1} of the file) is not "
            f"{(encoding or marked).upper()}. Save the table as UTF-8, or say its encoding, such as latin-1 or cp1252.",
            Remedy("encoding"),
        ) from error
    if (place := text.find("\0")) >= 0:
        raise TableError(
            f"{name}, line {text.count(chr(10), 0, place) + 1}: a NUL character, which no table in text has. If it is UTF-16, "
            "say its encoding: utf-16-le."
        )
    if not text.strip():
        raise TableError(f"{name} is empty.")
    return text


def _read_csv(text: str, name: str, options: ReadOptions) -> Any:
    """A DataFrame from text with delimiters; see `outmetric.tables.read_table`."""
    arrow = arrow_package()
    import pyarrow.compute as pc

    delimiter = options.delimiter or _delimiter(text)
    header = [cell.strip() for cell in next(_rows(text, delimiter), (0, []))[1]]
    if not header:
        raise TableError(f"{name}: its first line must name the columns, but has a cell too long for that.")
    names = header_names(header, name)
    n_cells = text.count(delimiter) + text.count("\n") + text.count("\r")
    check_room(float(TIMES) * len(text) + CELL_SIZE * n_cells + COLUMN_SIZE * len(names), name)
    cells = _cells(text, name, delimiter, len(names), options.missing)
    words = arrow.array(sorted({"", *options.missing}))
    as_text = set(options.as_text)

    def numbers(mark: str) -> list[Any]:
        pairs = zip(names, cells, strict=True)
        return [None if title in as_text else _numbers(column, mark, words) for title, column in pairs]

    columns = numbers(options.decimal or ".")
    if options.decimal is None and delimiter != "," and _has_decimal_commas(cells, columns):
        columns = numbers(",")
    check_room(float(TEXT_SIZE) * len(cells[0]) * sum(found is None for found in columns), name)
    kept = {}
    for place, (title, found) in enumerate(zip(names, columns, strict=True)):
        column = pc.if_else(pc.equal(cells[place], ""), None, cells[place]) if found is None else found
        unused = column.null_count == len(column) or (place == 0 and _is_row_number(column))
        if header[place] or not unused:
            kept[title] = column
    return arrow.table(kept).to_pandas()


def header_names(header: list[str], name: str) -> list[str]:
    """Names for all columns from the cells of the first line.

    Raises TableError for a line of values: mostly numbers, which do not rise or fall as years or wavelengths do.
    """
    numbers = [float(cell) for cell in header if NUMBER.fullmatch(cell)]
    steps = np.diff(numbers)
    in_order = (steps > 0).all() or (len(steps) > FEW_STEPS and (steps < 0).all())
    if len(numbers) > len(header) / 2 and not in_order:
        raise TableError(
            f"{name} has no header: its first line is {shown(header)}. Put a line with the names of the columns above it."
        )
    names = [cell or f"column {place}" for place, cell in enumerate(header, start=1)]
    check_names(names, name)
    return names


def lines(text: str) -> Iterator[str]:
    """The lines with their ends, whichever they are, one by one."""
    return (match[0] for match in LINE.finditer(text))


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of all rows that are not blank, up to a cell that is beyond all measure."""
    reader = csv.reader(lines(text), delimiter=delimiter)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error:
        return


def _delimiter(text: str) -> str:
    """That which cuts the header and the first rows into the same number of cells, the larger the better."""

    def rank(delimiter: str) -> tuple[bool, int]:
        widths = [len(row) for _, row in islice(_rows(text, delimiter), TELLING_ROWS)] or [1]
        return widths[0] > 1 and len(set(widths)) == 1, widths[0]

    return max(DELIMITERS, key=rank)


def _cells(text: str, name: str, delimiter: str, width: int, missing: Collection[str]) -> list[Any]:
    """The columns as they are written, without the header; null where a word for missing values is not in quotes."""
    arrow = arrow_package()
    import pyarrow.csv

    places = [str(place) for place in range(width)]
    # A quote that is never closed would swallow the rest; then this last row is not found again.
    data = f"{text}\n{delimiter.join([LAST] * width)}".encode()
    with as_table_error(name):
        try:
            table = pyarrow.csv.read_csv(
                arrow.BufferReader(data),
                read_options=pyarrow.csv.ReadOptions(use_threads=False, column_names=places, block_size=min(len(data), BLOCK)),
                parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(places, arrow.string()),
                    null_values=["", *missing],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except arrow.ArrowInvalid:
            for line, row in _rows(text, delimiter):
                if len(row) != width:
                    raise TableError(
                        f"{name}, line {line}: the number of cells is {len(row)}, but that of the header is {width}. A text with "
                        f"{delimiter!r} in it needs quotes; a missing value still needs its delimiter."
                    ) from None
            raise
    if not table or table.column(0)[-1].as_py() != LAST:
        starts = [line for line, _ in _rows(text, delimiter)]
        raise TableError(f"{name}: a quote that opens in the row at line {starts[-1]} is never closed.")
    return [column.combine_chunks() for column in table.slice(1, len(table) - 2).columns]


def _numbers(cells: Any, decimal: str, words: Any) -> Any:
    """The numbers that the cells are: whole ones if all are whole, None if some cell is no number."""
    import pyarrow.compute as pc

    found = _cast(cells) if decimal == "." else None
    if found is not None:
        return found
    cells = pc.utf8_trim_whitespace(cells)
    cells = pc.if_else(pc.is_in(cells, value_set=words), None, cells)  # in quotes, too, or beside blanks
    if decimal != ".":
        if pc.any(pc.match_substring(cells, ".")).as_py():  # such as 1.234,5
            return None
        cells = pc.replace_substring(cells, decimal, ".")
    return _cast(cells)


def _cast(cells: Any) -> Any:
    """Whole numbers, or else floats, or else None."""
    arrow = arrow_package()
    for kind in (arrow.int64(), arrow.float64()):
        try:
            if len(cells) > TELLING_CELLS:
                cells[:TELLING_CELLS].cast(kind)  # each cell that is no number takes time
            return cells.cast(kind)
        except arrow.ArrowInvalid:
            continue
    return None


def _has_decimal_commas(cells: list[Any], numbers: list[Any]) -> bool:
    """Whether some column can only be numbers with decimal commas, and none has numbers with decimal points."""
    import pyarrow.compute as pc

    if any(found is not None and found.type == "double" for found in numbers):
        return False

    def matches(column: Any, pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(column, pattern)).as_py())

    return any(
        found is None and matches(column, DECIMAL_COMMA) and not matches(column, THOUSANDS)
        for column, found in zip(cells, numbers, strict=True)
    )


def _is_row_number(column: Any) -> bool:
    """Whether a first column without a name is what pandas and R write before each row."""
    import pyarrow.compute as pc

    return bool(column.type == "int64" and not column.null_count and pc.count_distinct(column).as_py() == len(column))


def _read_tsv(text: str, name: str, options: ReadOptions) -> Any:
    return _read_csv(text, name, replace(options, delimiter=options.delimiter or "\t"))


def _csv_writer(sink: Any, schema: Any, delimiter: str = ",") -> Any:
    arrow_package()
    import pyarrow.csv

    return pyarrow.csv.CSVWriter(sink, schema, write_options=pyarrow.csv.WriteOptions(delimiter=delimiter))


def _tsv_writer(sink: Any, schema: Any) -> Any:
    return _csv_writer(sink, schema, delimiter="\t")


CSV = TableFormat("csv", (".csv",), _read_csv, is_text=True, writer=_csv_writer, in_blocks="csv")
register(CSV)
register(TableFormat("tsv", (".tsv",), _read_tsv, is_text=True, writer=_tsv_writer))
register(TableFormat("txt", (".txt",), _read_csv, is_text=True))
