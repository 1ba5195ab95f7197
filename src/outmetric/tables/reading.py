"""Whole tables from files, of any format, as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from outmetric.columns import TableError
from outmetric.tables.formats import ReadOptions, by_content
from outmetric.tables.sources import arrow_package, as_table_error, load
from outmetric.tables.text import CSV, decode

MISSING = ("NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?")


def read_table(
    source: Path | str,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    missing: Collection[str] = MISSING,
    as_text: Collection[str] = (),
) -> Any:
    r"""A table from a file or from standard input.

    Parameters
    ----------
    source : path, or "-" for standard input
        CSV with a header (.csv, .txt, .tsv), ARFF, Parquet, Feather, .npz or .xlsx, or what was added by `register`, by the suffix;
        without one, and from standard input, by the content. Text may be packed: .gz, .bz2, .xz, .zst, or .zip with one file in it.
    encoding : str, optional
        Of text. Default: UTF-8, or what a byte order mark says.
    delimiter : str, optional
        Of CSV. Default: a tab for .tsv, otherwise a comma, semicolon, tab or "|", whichever cuts the first rows evenly.
    decimal : "." or ",", optional
        In the numbers of CSV. Default: a comma if the delimiter is another, some column can only be read so, and none has numbers
        with decimal points; otherwise a point.
    missing : words for missing values
        In CSV without quotes, or anywhere among numbers. An empty cell is always missing. ARFF has "?" only.
    as_text : names of columns
        To be kept as they are written, in CSV: "007" is otherwise the number 7.

    Returns
    -------
    DataFrame
        Columns of CSV in which every cell is a number are numbers, all others are text, also dates and truth values. A first column
        without a name that numbers the rows is left out, as is an empty column without a name.

    Raises
    ------
    TableError
        If the table cannot be read; the message says where and what to do.

    Notes
    -----
    An .npz file has the features in ``X``, of shape (n, d), perhaps their names in ``feature_names``, and other columns as arrays
    of length n, such as ``y``; or arrays of length n only.

    A workbook (.xlsx) must have one sheet with cells, whose first row names the columns. It needs the extra ``outmetric[excel]``.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("x;kind\n1,5;a\n;b\n")
    >>> read_table(path)["x"].tolist()
    [1.5, nan]
    """
    arrow_package()
    _check_marks(delimiter, decimal)
    found = load(source)
    options = ReadOptions(delimiter, decimal, missing, as_text)
    with as_table_error(found.name):
        if found.format is None or found.format.is_text:
            text = decode(found.data, found.name, encoding)
            frame = (found.format or by_content(text) or CSV).read(text, found.name, options)
        else:
            frame = found.format.read(found.data, found.name, options)
    if not len(frame.columns):
        raise TableError(f"{found.name} has no columns.")
    return frame


def _check_marks(delimiter: str | None, decimal: str | None) -> None:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0' or not delimiter.isascii()):
        raise TableError(f"the delimiter must be one plain character, such as ';', not {delimiter!r}.")
    if decimal not in (None, ".", ","):
        raise TableError(f"the decimal mark must be '.' or ',', not {decimal!r}.")
