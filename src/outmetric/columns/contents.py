"""What a column holds, by its type alone: the one answer for tables, encoders, maps and export."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

Content = Literal["number", "truth", "date", "span", "category", "other"]
# Fewer distinct values than this are never suspicious.
FEW = 10
# By NumPy's letters for types, which pandas has as well. Text and objects are categories, complex numbers something else.
CONTENTS: dict[str, Content] = {
    "i": "number",
    "u": "number",
    "f": "number",
    "b": "truth",
    "M": "date",
    "m": "span",
    "O": "category",
    "S": "category",
    "U": "category",
    "T": "category",
}


def content(column: Any) -> Content:
    """Numbers, truth values, dates, spans of time, categories (text, objects), or something else.

    Parameters
    ----------
    column : array, column of pandas or polars, or a type of NumPy, pandas or Arrow

    Examples
    --------
    >>> [content(np.asarray(values)) for values in ([1, 2], [True], ["a"], [1j])]
    ['number', 'truth', 'category', 'other']
    """
    given = getattr(column, "dtype", column)
    if hasattr(given, "kind"):
        return CONTENTS.get(given.kind, "other")
    if hasattr(given, "to_pandas_dtype"):
        return _of_arrow(given)
    return CONTENTS.get(np.asarray(column).dtype.kind, "other")


def _of_arrow(given: Any) -> Content:
    if hasattr(given, "index_type"):  # encoded categories
        return "category"
    try:
        found = given.to_pandas_dtype()
    except NotImplementedError:  # nested values and the like
        return "other"
    return content(found if hasattr(found, "kind") else np.dtype(found))
