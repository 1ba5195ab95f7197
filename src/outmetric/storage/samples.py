"""Rows that scikit-learn's estimators take, by what was fitted: for the trial of what was read from a file."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

from outmetric.estimators import Metric
from outmetric.foundation import Array, is_fitted, row_of_numbers, sample_of

# More than these are not mapped one by one.
MANY_COLUMNS = 1000


def function_row(found: FunctionTransformer, size: int) -> Any:
    """Nobody knows what a function takes."""
    return row_of_numbers(found, size) if found.func is None and found.inverse_func is None else None


def columns_row(found: Any, size: int) -> Any:
    """Numbers; not if mapping column after column would take seconds."""
    return row_of_numbers(found, size) if getattr(found, "n_features_in_", 0) <= MANY_COLUMNS else None


def encoder_row(found: Any, size: int) -> Array | None:
    """The first categories."""
    categories = getattr(found, "categories_", ())
    if not len(categories) or not all(map(len, categories)):
        return None
    row = np.empty((1, len(categories)), dtype=object)
    row[0] = [values[0] for values in categories]
    return row


def imputer_row(found: Any, size: int) -> Any:
    """What is filled in where that is text, else numbers; none of them missing."""
    filled = getattr(found, "statistics_", None)
    if isinstance(filled, np.ndarray) and filled.dtype == object and any(isinstance(value, str) for value in filled):
        return filled.reshape(1, -1)
    row = row_of_numbers(found, size)
    if getattr(found, "_precomputed", False):  # an imputer's own, which gets a mask
        return None
    return 2 * row if row is not None and found.missing_values == 1 else row


def neighbours_row(found: Any, size: int) -> Any:
    """The first point; of a function nobody knows how long it takes."""
    if not hasattr(found, "_fit_X") or not isinstance(found.metric, str | Metric):
        return None
    return found._fit_X[:1]


def table_row(found: ColumnTransformer, size: int) -> Any:
    """What the parts take, each in its columns; numbers elsewhere."""
    width = getattr(found, "n_features_in_", None)
    if width is None or not hasattr(found, "transformers_"):
        return None
    if width > size:
        raise ValueError(f"ColumnTransformer claims {width} features")
    row = np.ones((1, width), dtype=object)
    words: set[int] = set()
    numbers: set[int] = set()
    for name, part, _ in found.transformers_:
        if part is None or isinstance(part, str):
            continue
        places = found._transformer_to_input_indices[name]
        if not len(places):
            continue
        cells = sample_of(part, size)
        if cells is None:
            return None
        cells = cells.toarray() if hasattr(cells, "toarray") else np.asarray(cells)
        if cells.shape != (1, len(places)):
            raise ValueError(f"a ColumnTransformer gives {len(places)} columns to a {type(part).__name__} that takes others")
        for place, cell in zip(places, cells[0], strict=True):
            if isinstance(cell, str):
                words.add(place)
                row[0, place] = cell
            elif isinstance(cell, datetime.date):  # which may come as text
                row[0, place] = row[0, place] if place in words else cell
            elif not _is_transparent(part):
                numbers.add(place)
                row[0, place] = row[0, place] if place in words else cell
    if words & numbers:
        raise ValueError("a ColumnTransformer takes a column for text as well as for numbers")
    if any(isinstance(label, str) for _, _, columns in found.transformers_ for label in np.ravel(columns).tolist()):
        return _frame(row, found.feature_names_in_)
    return row if any(isinstance(cell, str | datetime.date) for cell in row[0]) else row.astype(np.float64)


def _frame(row: Array, names: Array) -> Any:
    """The same with names, which some transformers ask for; None without pandas."""
    try:
        import pandas as pd
    except ImportError:
        return None
    return pd.DataFrame({name: [cell] for name, cell in zip(names, row[0], strict=True)})


def pipeline_row(found: Pipeline, size: int) -> Any:
    """What the first step takes that is not content with anything; None if a later one may ask for what no trial can know."""
    steps = [step for _, step in found.steps if step is not None and step != "passthrough"]
    rows = [sample_of(step, size) for step in steps]
    if any(row is None for row in rows):
        return None
    place = next((place for place, step in enumerate(steps) if not _is_transparent(step)), 0)
    if not rows or any(_is_particular(step) for step in steps[place + 1 :]):
        _check_widths(steps, rows)
        return None
    if rows[place].shape == rows[0].shape:
        return rows[place]
    return None if _is_particular(steps[place]) else rows[0]


def _check_widths(steps: list[Any], rows: list[Any]) -> None:
    """Whether each step hands on as many columns as the next was fitted to, where a trial of all of them is not possible."""
    for step, row, following in zip(steps, rows, steps[1:], strict=False):
        width, wanted = np.shape(step.transform(row))[1], getattr(following, "n_features_in_", None)
        if wanted not in (None, width):
            raise ValueError(f"a {type(step).__name__} gives {width} columns to a {type(following).__name__} that takes {wanted}")


def stretches(found: Pipeline, size: int) -> list[Any]:
    """The pipeline itself; if it cannot be tried as a whole, before that the stretches between steps that cannot."""
    if sample_of(found, size) is not None or not is_fitted(found):
        return [found]
    triable: list[list[Any]] = [[]]
    for name, step in found.steps:
        if step is None or step == "passthrough":
            continue
        if sample_of(step, size) is None:
            triable.append([])
        else:
            triable[-1].append((name, step))
    return [*(Pipeline(stretch) for stretch in triable if stretch), found]


def _is_transparent(step: Any) -> bool:
    """Whether it hands on what it gets, of whatever kind."""
    return isinstance(step, SimpleImputer | FunctionTransformer)


def _is_particular(step: Any) -> bool:
    """Whether it may refuse values that it has not seen before."""
    return isinstance(step, OneHotEncoder | OrdinalEncoder | ColumnTransformer) or (
        isinstance(step, Pipeline) and any(_is_particular(part) for _, part in step.steps)
    )
