"""How a table of numbers, categories and dates, with gaps, becomes numbers."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from outmetric.columns.contents import Content, content
from outmetric.columns.dates import are_dates, read_dates
from outmetric.columns.errors import TableError, shown
from outmetric.columns.kinds import identifier_trouble, numbering_trouble, text_of
from outmetric.columns.parts import DateParts
from outmetric.foundation import Array, is_missing, objects, require_memory, warn_caller

# What is neither a date nor a number.
TIMES = (datetime.time, datetime.timedelta, np.timedelta64)
# What is no value of a table.
NESTED = (list, dict, set, np.ndarray)


def without_na(X: Any) -> Any:
    """The table with NaN for pandas' NA in columns of text, which encoders do not know."""
    if not hasattr(X, "isna"):
        return X
    texts = [name for name in X.columns if getattr(X[name].dtype, "kind", "") == "O" and X[name].isna().any()]
    return X.assign(**{name: X[name].astype(object).where(X[name].notna(), np.nan) for name in texts}) if texts else X


def check_frame(X: Any, *, learning: bool) -> None:
    """Raise TableError for columns that no encoder takes; of a table to learn from, warn of columns that say nothing.

    Parameters
    ----------
    X : DataFrame of pandas or polars
    learning : bool
        Whether it is learned from; a row that is only predicted may have anything where names stand.
    """
    troubles = {name: trouble for name in X.columns if (trouble := _trouble(X[name]))}
    if troubles:
        told = "; ".join(f"{shown([name])} {trouble}" for name, trouble in list(troubles.items())[:10])
        raise TableError(f"X: {told}. Mend this, or leave it out.")
    for name, doubt in doubts(X).items() if learning else ():
        warn_caller(f"column {shown([name])} {doubt}. Leave it out.")


def doubts(X: Any) -> dict[Any, str]:
    """Of columns that a model learns nothing from that holds for other rows, what they are: names of the rows, or nothing."""
    found = {name: _doubt(X[name]) for name in X.columns}
    return {name: doubt for name, doubt in found.items() if doubt is not None}


def _doubt(column: Any) -> str | None:
    values = np.asarray(column)
    if all(is_missing(value) for value in values):
        return "has no value in any row, so it says nothing"
    if trouble := numbering_trouble(values):
        return f"{trouble}: a model learns their order from it"
    if values.dtype.kind not in "OUT" or are_dates(column):
        return None
    trouble = identifier_trouble([value for value in values.tolist() if isinstance(value, str)])
    return None if trouble is None else f"{trouble}: a model learns the rows by heart from it"


def _trouble(column: Any) -> str | None:
    if are_dates(column):
        try:
            read_dates(column)
        except ValueError as error:
            return str(error)
        return None
    values = np.asarray(column)
    if values.dtype.kind == "f" and np.isinf(values).any():
        return f"has an infinite number in row {np.isinf(values).argmax() + 1} (counted from 1)"
    if values.dtype.kind != "O":
        return None
    if any(isinstance(value, NESTED) for value in values):
        return "holds nested values"
    words = [isinstance(value, str) for value in values]
    others = [not word and not is_missing(value) for word, value in zip(words, values, strict=True)]
    if any(words) and any(others):
        word, other = words.index(True), others.index(True)
        found = f"{shown([values[other]])} in row {other + 1} and {shown([values[word]])} in row {word + 1}"
        return f"mixes numbers and words, {found} (counted from 1); make all of it text, or numbers"
    return None


def as_learned(X: Any, encoder: Any) -> Any:
    """Rows that a model is asked about, with columns of categories as they were learned, whatever type they come in.

    Where nothing is given, or in a single row, a column of text comes as floats, and postcodes come as whole numbers. What is
    missing stays so, and where texts were learned numbers become text, 12345.0 being "12345".

    Parameters
    ----------
    X : DataFrame of pandas or polars, or array of shape (n, d)
        It is not changed.
    encoder : what `table_encoder` gave, fitted
        Of other preparations nothing is known, and the rows stay as they are.

    Raises
    ------
    TableError
        If numbers were learned, and something else came.
    """
    if not isinstance(encoder, ColumnTransformer):
        return X
    places = encoder._transformer_to_input_indices
    _check_numbers(X, places.get("numbers", ()), getattr(encoder, "feature_names_in_", None))
    learned = getattr(encoder.named_transformers_.get("categories"), "categories_", ())
    changed = {}
    for place, known in zip(places.get("categories", ()) if len(learned) else (), learned, strict=True):
        came = np.asarray(_column(X, place))
        if came.dtype == known.dtype != object:
            continue
        cells = _categories_as(known, came)
        if came.dtype != object or any(cell is not value for cell, value in zip(cells, came, strict=True)):
            changed[place] = cells
    return _with_columns(X, changed) if changed else X


def _column(X: Any, place: int) -> Any:
    if not hasattr(X, "columns"):
        return X[:, place]
    return X.iloc[:, place] if hasattr(X, "iloc") else X[X.columns[place]]


def _with_columns(X: Any, changed: dict[int, list[Any]]) -> Any:
    """The same rows with some columns exchanged for columns of objects."""
    if hasattr(X, "isetitem"):
        import pandas as pd

        X = X.copy()
        for place, cells in changed.items():
            X.isetitem(place, pd.Series(cells, index=X.index, dtype=object))
        return X
    if hasattr(X, "with_columns"):  # polars
        names = {place: X.columns[place] for place in changed}
        return X.with_columns([type(X[name])(name, changed[place], dtype=object) for place, name in names.items()])
    X = np.array(X, dtype=object)
    for place, cells in changed.items():
        X[:, place] = objects(cells)
    return X


def _categories_as(known: Array, came: Array) -> list[Any]:
    """Categories of the kind of the known ones: text, truth values, or as they are."""
    gap = next((value for value in known.tolist() if is_missing(value)), np.nan)  # encoders tell None from NaN
    given = [value for value in known.tolist() if not is_missing(value)]
    texts, truths = (bool(given) and all(isinstance(value, kind) for value in given) for kind in (str, bool))

    def category(value: Any) -> Any:
        if is_missing(value):
            return value if type(value) is type(gap) else gap
        if isinstance(value, (str, *NESTED)):
            return value
        if truths:
            return bool(value) if value in (0, 1) else value
        return text_of(value) if texts else value

    return [category(value) for value in came.astype(object)]


def _check_numbers(X: Any, places: Any, names: Any) -> None:
    """Raise TableError for columns of numbers in which something else stands."""
    names = X.columns if hasattr(X, "columns") else [f"x{place}" for place in range(X.shape[1])] if names is None else names
    troubles = []
    for place in places:
        values = np.asarray(_column(X, place))
        wrong = [] if content(values) in ("number", "truth") else [row for row, value in enumerate(values) if not _is_number(value)]
        if wrong:
            others = f", and {len(wrong) - 1} more such rows" if len(wrong) > 1 else ""
            first = values[wrong[0]]
            told = shown([str(first) if isinstance(first, str) else first])  # not np.str_('x')
            troubles.append(f"column {shown([names[place]])} has {told} in row {wrong[0] + 1}{others}")
    if troubles:
        raise TableError(f"X: {'; '.join(troubles[:10])} (counted from 1). The model was learned from numbers there.")


def _is_number(value: Any) -> bool:
    """Whether it can be taken for a number, or is missing."""
    if is_missing(value):
        return True
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, np.datetime64 | np.timedelta64)


def table_encoder(X: Any) -> ColumnTransformer | SimpleImputer | DateParts | None:
    """How a table becomes numbers: None if it already is one without gaps."""
    impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    if not hasattr(X, "columns"):
        if content(X) == "date":
            return DateParts()
        return impute if np.isnan(X).any() else None
    contents = [held(X[name]) for name in X.columns]
    unusable = [name for name, what in zip(X.columns, contents, strict=True) if what in ("span", "other")]
    if unusable:
        raise ValueError(
            f"columns {unusable} hold times of day, spans of time or complex numbers; turn them into numbers or categories first."
        )
    _check_size(X, contents)

    def places(*kinds: Content) -> list[int]:  # by position, so that rows may also come without names
        return [place for place, what in enumerate(contents) if what in kinds]

    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    steps = [("numbers", impute, places("number")), ("categories", one_hot, places("category", "truth"))]
    return ColumnTransformer([*steps, ("dates", DateParts(), places("date"))] if "date" in contents else steps)


def _check_size(X: Any, contents: list[Content]) -> None:
    """Raise MemoryError for categories so many that the encoded table would not fit in memory."""
    categories = [name for name, what in zip(X.columns, contents, strict=True) if what in ("category", "truth")]
    widths = {name: len({value for value in np.asarray(X[name]).tolist() if not is_missing(value)}) for name in categories}
    widest = sorted(widths, key=lambda name: -widths[name])[:3]
    most = f" ({', '.join(f'{shown([name])}: {widths[name]}' for name in widest)})" if widest else ""
    size = 8.0 * len(X) * (len(contents) - len(widths) + sum(widths.values()))
    require_memory(size, "the encoded table", f"take fewer rows, or leave out columns with many categories{most}.")


def held(column: Any) -> Content:
    """What a column of a table holds as the steps will see it: numbers of pandas' own types with gaps are objects there.

    Dates are dates anywhere, also with a time zone, as objects or as text.
    """
    if are_dates(column):
        return "date"
    values: Array = np.asarray(column)
    if values.dtype.kind == "O" and any(isinstance(value, TIMES) for value in values):
        return "span"
    return content(values)
