"""How a table of numbers, categories and dates, with gaps, becomes numbers."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from outmetric.columns.contents import Content, content
from outmetric.columns.dates import are_dates, read_dates
from outmetric.columns.errors import TableError, shown
from outmetric.columns.kinds import identifier_trouble
from outmetric.columns.parts import DateParts
from outmetric.foundation import Array, is_missing, require_memory

# What is neither a date nor a number.
TIMES = (datetime.time, datetime.timedelta, np.timedelta64)


def without_na(X: Any) -> Any:
    """The table with NaN for pandas' NA in columns of text, which encoders do not know."""
    if not hasattr(X, "isna"):
        return X
    texts = [name for name in X.columns if getattr(X[name].dtype, "kind", "") == "O" and X[name].isna().any()]
    return X.assign(**{name: X[name].astype(object).where(X[name].notna(), np.nan) for name in texts}) if texts else X


def check_frame(X: Any, *, learning: bool) -> None:
    """Raise TableError for columns that no encoder takes; of a table to learn from, warn of columns that name the rows.

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
    for name in X.columns if learning else ():
        values = [] if are_dates(X[name]) else np.asarray(X[name]).tolist()
        texts = [value for value in values if isinstance(value, str)]
        if trouble := identifier_trouble(texts):
            warnings.warn(
                f"column {shown([name])} {trouble}: a model learns the rows by heart from it. Leave it out.",
                UserWarning,
                stacklevel=5,
            )


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
    if any(isinstance(value, list | dict | set | np.ndarray) for value in values):
        return "holds nested values"
    words = [isinstance(value, str) for value in values]
    others = [not word and not is_missing(value) for word, value in zip(words, values, strict=True)]
    if any(words) and any(others):
        word, other = words.index(True), others.index(True)
        found = f"{shown([values[other]])} in row {other + 1} and {shown([values[word]])} in row {word + 1}"
        return f"mixes numbers and words, {found} (counted from 1); make all of it text, or numbers"
    return None


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
