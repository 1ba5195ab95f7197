"""Which column of a table each prepared feature was made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder

from outmetric.columns.parts import DateParts
from outmetric.foundation import Array


def column_origins(step: Any, columns: Array) -> Array | None:
    """For each feature that a fitted step puts out, which of these columns it was made of; None if it mixes them, or nobody knows.

    Parameters
    ----------
    step : fitted transformer, Pipeline or ColumnTransformer, or "passthrough", "drop" or None
    columns : integer array
        What the columns that go in were made of.

    Examples
    --------
    >>> import numpy as np
    >>> encoder = OneHotEncoder().fit([["red", "round"], ["blue", "round"]])
    >>> column_origins(encoder, np.array([0, 1]))
    array([0, 0, 1])
    """
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return columns
    if isinstance(step, str):
        return columns[:0]
    if isinstance(step, Pipeline):
        found: Array | None = columns
        for _, part in step.steps:
            found = None if found is None else column_origins(part, found)
        return found
    if isinstance(step, ColumnTransformer):
        return _of_parts(step, columns)
    if isinstance(step, OneHotEncoder):
        found = np.repeat(columns, [len(one) for one in step.categories_])
        # Categories may be left out, or taken together.
        return found if len(found) == len(step.get_feature_names_out()) else None
    if isinstance(step, DateParts):
        return np.repeat(columns, 1 + 2 * step.cycles_.sum(axis=1) + step.gaps_)
    if isinstance(step, SimpleImputer):
        empty = not step.keep_empty_features and np.any([value != value for value in step.statistics_])
        gaps = step.indicator_.features_ if step.add_indicator else []
        return None if empty else np.concatenate([columns, columns[np.asarray(gaps, dtype=np.intp)]])
    return columns if isinstance(step, OneToOneFeatureMixin) and not isinstance(step, Normalizer) else None


def _of_parts(step: ColumnTransformer, columns: Array) -> Array | None:
    found: list[tuple[int, Array]] = []
    names = list(getattr(step, "feature_names_in_", ()))
    for name, part, chosen in step.transformers_:
        place = step.output_indices_[name]
        if isinstance(chosen, str):
            chosen = [chosen]
        if not isinstance(chosen, slice) and len(chosen) and isinstance(chosen[0], str):
            chosen = [names.index(one) for one in chosen]
        if not isinstance(chosen, slice) and not len(chosen):
            continue
        origins = column_origins(part, columns[chosen])
        if origins is None or len(origins) != place.stop - place.start:
            return None
        found.append((place.start, origins))
    return np.concatenate([origins for _, origins in sorted(found, key=lambda one: one[0])]) if found else None
