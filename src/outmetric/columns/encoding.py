"""How a table of numbers and categories, with gaps, becomes numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from outmetric.columns.contents import content


def without_na(X: Any) -> Any:
    """The table with NaN for pandas' NA in columns of text, which encoders do not know."""
    if not hasattr(X, "isna"):
        return X
    texts = [name for name in X.columns if getattr(X[name].dtype, "kind", "") == "O" and X[name].isna().any()]
    return X.assign(**{name: X[name].astype(object).where(X[name].notna(), np.nan) for name in texts}) if texts else X


def table_encoder(X: Any) -> ColumnTransformer | SimpleImputer | None:
    """How a table becomes numbers: None if it already is one without gaps."""
    if not hasattr(X, "columns"):
        return SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True) if np.isnan(X).any() else None
    # Of the arrays that the steps will see: numbers of pandas' own types with gaps are objects there.
    contents = [content(np.asarray(X[name])) for name in X.columns]
    unusable = [name for name, held in zip(X.columns, contents, strict=True) if held in ("date", "other")]
    if unusable:
        raise ValueError(f"columns {unusable} hold dates or complex numbers; turn them into numbers or categories first.")
    # By position, so that rows may also come without names.
    numbers = [place for place, held in enumerate(contents) if held == "number"]
    others = [place for place, held in enumerate(contents) if held != "number"]
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    return ColumnTransformer([("numbers", impute, numbers), ("categories", one_hot, others)])
