"""Columns as a web page holds them: numbers, dates and texts, packed as bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from outmetric.columns import are_dates, content, read_dates, shown
from outmetric.foundation import Array, is_missing

# Whole numbers beyond this are not exact in a browser.
LARGEST_WHOLE = 2**53
NUMBERS = (int, float, np.integer, np.floating, Decimal)


@dataclass(frozen=True, eq=False)
class WebColumn:
    """Numbers, dates in milliseconds since 1970 (both with NaN for gaps), or codes into ``texts``; one code more is a gap."""

    name: str
    kind: str
    values: Array
    texts: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """What the page's script reads."""
        texts = {"texts": self.texts} if self.kind == "text" else {}
        return {"name": self.name, "kind": self.kind, "values": packed(self.values), **texts}


def table_columns(table: Any) -> Iterable[tuple[str, Any]]:
    """Names and columns of a table; none without one."""
    if table is None:
        return ()
    if hasattr(table, "get_columns"):
        return zip(table.columns, table.get_columns(), strict=True)
    if hasattr(table, "items") and not hasattr(table, "dtype"):
        return ((str(name), column) for name, column in table.items())
    raise TypeError(f"table must be a DataFrame of pandas or polars, or a dict of columns; a {type(table).__name__} came.")


def web_column(name: str, column: Any, rows: int, *, is_label: bool = False, is_real: bool = False) -> WebColumn:
    """What the page shows of a column. Labels that are whole numbers are classes, unless they are a matrix of one column of floats.

    The models draw the same line between labels and real targets. ``is_real``: somebody knows that they are the latter.
    """
    given = _values(column)
    is_class = is_label and not is_real and not (given.ndim == 2 and given.dtype.kind == "f")
    given = given.ravel() if given.shape == (rows, 1) else given
    if given.shape != (rows,):
        what = "labels have" if is_label else f"column {name!r} has"
        raise ValueError(f"{what} shape {given.shape}, but coordinates have {rows} rows; there must be one value for each.")
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if isinstance(categories, Iterable):
        return _text(name, list(column), {str(value): place for place, value in enumerate(categories)})
    named = is_label and any(isinstance(value, str) for value in given.tolist())  # classes may be called like dates
    dates = None if named else _dates(column if hasattr(column, "dtype") and np.ndim(given) == np.ndim(column) else given)
    if dates is not None:
        return WebColumn(name, "date", dates)
    values = _numbers(given) if given.dtype.kind == "O" else given
    held = content(values)
    if held == "span":
        return WebColumn(f"{name} (seconds)", "number", values / np.timedelta64(1, "s"))
    if held == "number" and not (is_class and np.array_equal(values, np.round(values), equal_nan=True)):
        numbers = _shortest(values)
        if numbers is not None:
            return WebColumn(name, "number", numbers)
    return _text(name, given.tolist())


def outcome_columns(
    label: WebColumn | None,
    names: list[str],
    probabilities: Array | None,
    predictions: Array | None,
    novelty: Array | None,
) -> list[WebColumn]:
    """What a model says of the rows: prediction, whether it is right or by how much it is wrong, confidence, novelty."""
    found = []
    if probabilities is not None:
        known = np.asarray(~np.isnan(probabilities).any(axis=1))
        filled = np.where(known[:, None], probabilities, 0.0)
        predicted = [names[place] if told else None for place, told in zip(filled.argmax(axis=1), known, strict=True)]
        found.append(_text("prediction", predicted, {name: place for place, name in enumerate(names)}))
        if label is not None:
            found.append(_text("error", _verdicts(label, predicted, names)))
        found.append(WebColumn("confidence", "number", np.where(known, filled.max(axis=1), np.nan).astype(np.float32)))
    if predictions is not None:
        found.append(WebColumn("prediction", "number", predictions))
        if label is not None:
            found.append(WebColumn("error", "number", predictions - label.values))
    if novelty is not None:
        found.append(WebColumn("novelty", "number", novelty.astype(np.float32)))
    return found


def _verdicts(label: WebColumn, predicted: list[str | None], names: list[str]) -> list[str | None]:
    if label.kind != "text":
        raise ValueError("probabilities are of classes, and the labels are real targets: give predictions instead.")
    if not set(names) & set(label.texts):
        raise ValueError(
            f"no label is one of the classes that the probabilities are of, {shown(names)}; labels are {shown(label.texts)}."
        )
    labels = [None if code == len(label.texts) else label.texts[code] for code in label.values]
    pairs = zip(labels, predicted, strict=True)
    return [None if one is None or other is None else "right" if one == other else "wrong" for one, other in pairs]


def _dates(column: Any) -> Array | None:
    """Milliseconds since 1970 on the dates' own calendar and clock; None if these are no dates, or not all of them are."""
    if not are_dates(column):
        return None
    try:
        return 1000 * read_dates(column).seconds()
    except ValueError:  # shown as it is
        return None


def _shortest(values: Array) -> Array | None:
    """The numbers in as few bytes as they need; None if a browser cannot tell them apart."""
    if values.dtype.kind == "f":
        return values.astype(np.float32 if values.itemsize < 8 else np.float64)
    least, largest = values.min(), values.max()
    if max(-int(least), int(largest)) > LARGEST_WHOLE:
        return None
    smallest = np.result_type(np.min_scalar_type(least), np.min_scalar_type(largest))
    return values.astype(smallest if smallest.itemsize < 8 else np.float64)


def _values(column: Any) -> Array:
    """An array of a column; of objects if it came without a type."""
    if isinstance(column, np.ma.MaskedArray):
        column = column.tolist()
    return np.asarray(column) if hasattr(column, "__array__") else np.fromiter(column, dtype=object)


def _numbers(values: Array) -> Array:
    """Objects as an array of numbers, if all but the gaps are such; otherwise as they are.

    By the values, since a page shows what `check_columns` would refuse, and also columns of polars and plain lists.
    """
    items = [None if is_missing(value) else value for value in values]
    kinds = {type(value) for value in items if value is not None}
    if not kinds or not all(issubclass(kind, NUMBERS) and kind is not bool for kind in kinds):
        return values
    if any(isinstance(value, int | np.integer) and abs(int(value)) > LARGEST_WHOLE for value in items):
        return values
    return np.array([np.nan if value is None else float(value) for value in items])


def _text(name: str, items: list[Any], places: dict[str, int] | None = None) -> WebColumn:
    """A column of texts, which come in the order of their places, or else of their values."""
    texts = [None if is_missing(value) else str(value) for value in items]
    values = {text: value for text, value in zip(texts, items, strict=True) if text is not None}
    order: dict[str, Any] = places or values
    try:
        distinct = sorted(values, key=order.__getitem__)
    except (TypeError, ValueError):  # values that cannot be compared
        distinct = sorted(values)
    codes: dict[str | None, int] = {None: len(distinct), **{text: code for code, text in enumerate(distinct)}}
    smallest = np.min_scalar_type(len(distinct))
    return WebColumn(name, "text", np.array([codes[text] for text in texts], dtype=smallest), tuple(distinct))


def packed(values: Array) -> dict[str, str]:
    """Little-endian bytes, and how the page calls their type."""
    ordered = values.astype(values.dtype.newbyteorder("<"))
    return {"type": ordered.dtype.str[1:], "bytes": base64.b64encode(ordered.tobytes()).decode("ascii")}
