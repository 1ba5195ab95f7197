"""Steps of scikit-learn that skl2onnx converts in too few cases, as nodes of an ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer

from outmetric.export.graph import Graph, element_type
from outmetric.foundation import Array, ExportedTransformer

# Intervals between quantiles that are no wider have no slope in double precision.
NO_WIDTH = 1e-300
# How truth values may come as strings, whichever of these the model was fitted on.
SPELLINGS = {"true": ("true", "True", "TRUE", "1"), "false": ("false", "False", "FALSE", "0")}
# The sum over intervals of how far x is through each, from 0 to 1.
LEVELS = """levels (double[n, 1] x, double[1, k] start, double[1, k] slope, double[1, k] shift) => (double[n, 1] level) {
    difference = Sub (x, start) product = Mul (difference, slope) passed = Add (product, shift)
    least = Constant <value = double {0}> () most = Constant <value = double {1}> () axes = Constant <value = int64[1] {1}> ()
    clipped = Clip (passed, least, most) level = ReduceSum (clipped, axes)
}"""


def imputed(graph: Graph, model: SimpleImputer, variables: Sequence[Any]) -> str:
    """`SimpleImputer` of numbers, with indicators if it has them."""
    rows = graph.rows(variables)
    missing = graph("IsNaN", rows) if np.isnan(model.missing_values) else graph("Equal", rows, float(model.missing_values))
    filled = graph("Where", missing, model.statistics_.astype(np.float64), rows)
    parts = [graph("Gather", filled, _imputed_columns(model), axis=1)]
    if model.indicator_ is not None:
        parts.append(graph("Gather", graph.double(missing), model.indicator_.features_, axis=1))
    return graph.beside(parts)


def _imputed_columns(model: SimpleImputer) -> Array:
    """Those that the imputer does not leave out for want of values."""
    return np.flatnonzero(~np.isnan(model.statistics_.astype(np.float64)))


def one_hot(graph: Graph, model: Any, variables: Sequence[Any]) -> str:
    """`OneHotEncoder` that ignores unknown categories; a missing string is '', and truth values have several spellings."""
    from onnx import TensorProto

    columns = [
        (graph("Gather", variable.full_name, np.array([column]), axis=1), element_type(variable) == TensorProto.STRING)
        for variable in variables
        for column in range(variable.type.shape[1])
    ]
    parts = []
    for (column, holds_strings), categories in zip(columns, model.categories_, strict=True):
        # None and NaN are both None here.
        known = [None if category is None or category != category else category for category in categories.tolist()]
        parts.append((_one_of_strings if holds_strings else _one_of_numbers)(graph, column, known))
    return graph.beside([graph.double(part) for part in parts])


def _one_of_strings(graph: Graph, column: str, categories: list[Any]) -> str:
    names = ["" if category is None else str(category) for category in categories]
    if len(set(names)) < len(names):
        raise ValueError(f"the categories {names[:20]} are not distinct as strings, where a missing value is ''.")
    numbers = {name: number for number, name in enumerate(names)}
    if _are_truth_values(names):
        numbers |= {other: number for name, number in numbers.items() for other in SPELLINGS.get(name.lower(), ())}
    keys, values = list(numbers), list(numbers.values())
    number = graph("LabelEncoder", column, domain="ai.onnx.ml", keys_strings=keys, values_int64s=values, default_int64=-1)
    return graph("Equal", number, np.arange(len(names)))


def _are_truth_values(names: list[str]) -> bool:
    """Whether texts are true and false, each in one spelling, or one of them; a missing value may be among them."""
    words = [name.lower() for name in names if name]
    return bool(words) and set(words) <= set(SPELLINGS) and len(set(words)) == len(words)


def _one_of_numbers(graph: Graph, column: str, categories: list[Any]) -> str:
    words = [category for category in categories if isinstance(category, str)]
    if _are_truth_values(words):
        categories = [category.lower() == "true" if isinstance(category, str) else category for category in categories]
    elif words:
        raise ValueError(f"a column with categories such as {words[0]!r} would get numbers: give some rows of the table as X.")
    number = graph.double(column)
    missing = np.array([category is None for category in categories])
    equal = graph("Equal", number, np.array([np.nan if category is None else float(category) for category in categories]))
    return graph("Or", equal, graph("And", graph("IsNaN", number), missing))


def quantile_levels(graph: Graph, model: Any, variables: Sequence[Any]) -> str:
    """`QuantileTransformer` to a uniform distribution: the mean over intervals of how far a value is through each, from 0 to 1.

    At a value that many training points share there are intervals of no width. There scikit-learn is half through them; but not at
    all at the smallest value, and wholly at the largest.
    """
    rows = graph.rows(variables)
    quantiles = model.quantiles_
    start, width = quantiles[:-1], np.diff(quantiles, axis=0)
    within = np.where(start == quantiles[0], 0.0, np.where(start == quantiles[-1], 1.0, 0.5))
    slope, shift = 1 / np.maximum(width, NO_WIDTH), np.where(width > NO_WIDTH, 0.0, within)
    intervals = [values.T[:, None, :] for values in (start, slope, shift)]
    levels = graph.loop(LEVELS, [], [graph.by_feature(rows), *intervals])
    levels = graph("Squeeze", graph("Transpose", levels, perm=[1, 0, 2]), np.array([2]))
    # Missing values stay.
    return graph("Where", graph("IsNaN", rows), rows, graph("Div", levels, float(max(1, len(start)))))


def _imputed_width(model: SimpleImputer) -> int:
    return len(_imputed_columns(model)) + (0 if model.indicator_ is None else len(model.indicator_.features_))


# Where ours does not suit, skl2onnx's own converter serves.
REPLACED: dict[type, ExportedTransformer] = {
    SimpleImputer: ExportedTransformer(
        imputed,
        _imputed_width,
        suits=lambda model: all(isinstance(value, Real) for value in (model.missing_values, *model.statistics_)),
    ),
    OneHotEncoder: ExportedTransformer(
        one_hot,
        lambda model: sum(map(len, model.categories_)),
        suits=lambda model: model.handle_unknown == "ignore" and model.drop_idx_ is None and not model._infrequent_enabled,
    ),
    QuantileTransformer: ExportedTransformer(
        quantile_levels,
        lambda model: int(model.quantiles_.shape[1]),
        suits=lambda model: model.output_distribution == "uniform",
    ),
}
