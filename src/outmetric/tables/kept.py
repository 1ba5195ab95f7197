"""The rows that a model was learned from, as its file holds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from outmetric.columns import Columns, read_dates
from outmetric.foundation import Array, is_missing


def kept_columns(X: Any, columns: Columns) -> dict[str, Array]:
    """The features of a table as a model file can hold them: floats for numbers, otherwise texts, None where there is no value."""
    return {name: _kept(X[name], kind) for name, kind in columns.kinds_by_name.items()}


def _kept(column: Any, kind: str) -> Array:
    if kind == "number":
        return np.asarray(column, dtype=np.float64)
    if kind == "date":
        dates = read_dates(column)
        # Python's own dates know their zone; what has none is on the clock that it shows.
        values = column.tolist() if dates.zone is not None else dates.shown.tolist()
    else:
        values = column.tolist()
    return np.array([None if is_missing(value) else str(value) for value in values], dtype=object)


def check_kept(table: Any, columns: Columns, rows: int) -> None:
    """Raise ValueError unless these can be the columns that `kept_columns` made of a table of so many rows."""
    if not isinstance(table, dict) or list(table) != list(columns.features):
        raise ValueError("a model of a table knows other columns of its rows than it was learned from")
    for name, kind in columns.kinds_by_name.items():
        values = table[name]
        if not isinstance(values, np.ndarray) or values.shape != (rows,):
            raise ValueError("a model of a table has columns of other rows than it was learned from")
        numbers = kind == "number"
        if values.dtype != (np.float64 if numbers else object):
            raise ValueError(f"a model of a table has a column of {kind}s that holds none")
        if not numbers and not all(value is None or type(value) is str for value in values):
            raise ValueError(f"a model of a table has a column of {kind}s that holds none")


def row_names(column: Any) -> Array:
    """As text, nothing for what is missing."""
    missing = column.isna()
    return np.asarray(["" if gap else str(value) for value, gap in zip(column.tolist(), missing, strict=True)], dtype=str)
