"""What a web page needs of a fitted model to place new rows: columns, preparation and kernel expansion, if plain and small.

The page's script (webplacer.js) computes x -> sum over terms of k(x)' W + c from it, in double precision.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, QuantileTransformer, RobustScaler, StandardScaler
from sklearn.utils import _safe_indexing

from outmetric.choosing import column_names
from outmetric.columns import FeatureWeights
from outmetric.estimators import LinearMetric, OutputMetric
from outmetric.foundation import Array
from outmetric.kernels import KERNELS, Scalar, ScalarKernel, Transformed
from outmetric.layouts import Fitted
from outmetric.maps.webcolumns import packed

# Letters of what the page holds of the model.
MOST_LETTERS = 5_000_000
# Rows for which it is tried whether the metric says all of the model.
FEW = 5
# The kernels that the page's script knows.
PAGE_KERNELS = ("rbf", "exponential", "laplacian", "linear")


def web_placer(model: Any, X: Any, coordinates: Any, metric_coordinates: Any = None) -> dict[str, Any]:
    """What `interactive_map` takes as ``placer``: the model as the page computes it, so that new rows can be dropped onto the map.

    Parameters
    ----------
    model : fitted metric, Pipeline, MetricSearchCV, MetricClassifier or MetricRegressor
        A metric with kernels "rbf", "exponential", "laplacian" or "linear", sums of them, perhaps with an input metric, or one that
        is linear in the data. Before it there may be scalers, quantiles, `FeatureWeights`, imputed medians or means, and one-hot
        categories, as the library's own tables have them.
    X : table or array
        Rows as the model takes them. New rows are asked for columns of these names; those of an array are x0, x1, ...
    coordinates, metric_coordinates : array
        As `interactive_map` takes them. New rows are placed among the rows that are near in the latter.

    Returns
    -------
    dict
        For JSON. If the page cannot place new rows, its one entry, "missing", is a sentence that says why.
    """
    try:
        found = _placer(model, X, coordinates if metric_coordinates is None else metric_coordinates)
    except _NotPlaceableError as reason:
        return {"missing": f"New rows cannot be placed on this page: {reason}."}
    letters = len(json.dumps(found))
    if letters > MOST_LETTERS:
        size = f"the model takes {letters / 1e6:.1f} MB, more than the {MOST_LETTERS / 1e6:.0f} MB that are allowed"
        return {"missing": f"New rows cannot be placed on this page: {size}."}
    return found


class _NotPlaceableError(Exception):
    """Why a model does not fit into a page."""


@dataclass(frozen=True)
class _Feature:
    """What is made of a cell: a number (of a gap: ``fill``, or an error), 1 for a gap, or 1 for one of some texts; otherwise 0.

    The text of a gap is None.
    """

    column: int
    kind: str = "number"
    fill: float | None = None
    texts: tuple[str | None, ...] = ()


def _placer(model: Any, X: Any, metric_coordinates: Any) -> dict[str, Any]:
    try:
        fitted = Fitted.of(model)
    except TypeError as error:
        raise _NotPlaceableError(str(error).rstrip(".")) from error
    metric = fitted.metric.get_metric()
    own, width = len(metric.metric_factor), np.shape(metric_coordinates)[1]
    if own != width:
        raise _NotPlaceableError(f"the model has {own} coordinates, and the metric of this map {width}")
    if len(np.shape(X)) != 2:
        raise _NotPlaceableError("its rows have no columns")
    names = _names(model, X)
    few = _safe_indexing(X, np.arange(min(FEW, X.shape[0])))
    if hasattr(model, "transform") and not _are_close(model.transform(few), fitted.coordinates(few)):
        raise _NotPlaceableError("a step after the metric changes its coordinates")
    features = [_Feature(column) for column in range(len(names))]
    stages: list[dict[str, Any]] = []
    for step in _steps(fitted.before):
        if type(step) in FEATURE_STEPS:
            if stages:
                raise _NotPlaceableError(f"a {type(step).__name__} follows a scaler")
            features = FEATURE_STEPS[type(step)](step, features)
        elif type(step) in STAGES:
            stages.append({name: packed(np.asarray(values)) for name, values in STAGES[type(step)](step).items()})
        else:
            raise _NotPlaceableError(f"{type(step).__name__}, a step of the model, is not known here")
    return {
        "columns": names,
        "features": [asdict(feature) for feature in features],
        "stages": stages,
        **_expansion(metric),
    }


def _are_close(one: Any, other: Array) -> bool:
    return np.shape(one) == other.shape and np.allclose(one, other)


def _names(model: Any, X: Any) -> list[str]:
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    if np.asarray(X).dtype.kind not in "fiub":
        raise _NotPlaceableError("its rows are no table of numbers or categories")
    return list(column_names(model))


def _steps(before: Any) -> list[Any]:
    steps = [] if before is None else [step for _, step in before.steps]
    return [step for step in steps if step is not None and not isinstance(step, str)]


# Cells to numbers.


def _imputed(step: SimpleImputer, features: list[_Feature]) -> list[_Feature]:
    statistics = np.asarray(step.statistics_, dtype=object)
    numbers = all(isinstance(value, int | float | np.number) for value in statistics.tolist())
    if not numbers or not isinstance(step.missing_values, float) or any(feature.kind != "number" for feature in features):
        raise _NotPlaceableError("gaps are filled with something else than numbers")
    kept = [place for place, value in enumerate(statistics.tolist()) if np.isfinite(value)]
    filled = [replace(features[place], fill=float(statistics[place])) for place in kept]
    indicated = [] if step.indicator_ is None else step.indicator_.features_
    return filled + [_Feature(features[place].column, "gap") for place in indicated]


def _one_hot(step: OneHotEncoder, features: list[_Feature]) -> list[_Feature]:
    rare = step.min_frequency is not None or step.max_categories is not None
    if step.handle_unknown != "ignore" or step.drop is not None or rare:
        raise _NotPlaceableError("a OneHotEncoder of the model leaves out, gathers or refuses categories")
    groups = zip(features, step.categories_, strict=True)
    return [_Feature(feature.column, "category", texts=_spellings(value)) for feature, own in groups for value in own.tolist()]


def _spellings(category: Any) -> tuple[str | None, ...]:
    """How a category is written in a file."""
    if category is None or category != category:
        return (None,)
    if isinstance(category, bool):
        return ("True", "true", "TRUE", "1") if category else ("False", "false", "FALSE", "0")
    if not isinstance(category, str):
        raise _NotPlaceableError(f"a category is no text but {category!r}")
    return (category,)


def _by_columns(step: ColumnTransformer, features: list[_Feature]) -> list[_Feature]:
    if step.transformer_weights or step.sparse_output_:
        raise _NotPlaceableError("a ColumnTransformer has weights, or sparse features")
    found = []
    for name, part, _ in step.transformers_:
        own = [features[place] for place in step._transformer_to_input_indices[name]]
        if isinstance(part, str) or not own:
            found += [] if isinstance(part, str) and part == "drop" else own
        elif type(part) in FEATURE_STEPS:
            found += FEATURE_STEPS[type(part)](part, own)
        else:
            raise _NotPlaceableError(f"{type(part).__name__}, which prepares columns of the model, is not known here")
    return found


FEATURE_STEPS: dict[type, Callable[[Any, list[_Feature]], list[_Feature]]] = {
    SimpleImputer: _imputed,
    OneHotEncoder: _one_hot,
    ColumnTransformer: _by_columns,
}


# Numbers to numbers: x scale + shift, or levels among quantiles.


def _standard(step: StandardScaler) -> dict[str, Array]:
    scale = np.ones(step.n_features_in_) if step.scale_ is None else 1 / step.scale_
    return {"centre": np.zeros(len(scale)) if step.mean_ is None else step.mean_, "scale": scale}


def _robust(step: RobustScaler) -> dict[str, Array]:
    scale = np.ones(step.n_features_in_) if step.scale_ is None else 1 / step.scale_
    return {"centre": np.zeros(len(scale)) if step.center_ is None else step.center_, "scale": scale}


def _min_max(step: MinMaxScaler) -> dict[str, Array]:
    if step.clip:
        raise _NotPlaceableError("a MinMaxScaler of the model clips")
    return {"centre": -step.min_ / step.scale_, "scale": step.scale_}


def _levels(step: QuantileTransformer) -> dict[str, Array]:
    if step.output_distribution != "uniform":
        raise _NotPlaceableError(f"a QuantileTransformer makes a {step.output_distribution} distribution")
    return {"quantiles": step.quantiles_.T.ravel(), "levels": step.references_}


STAGES: dict[type, Callable[[Any], dict[str, Array]]] = {
    StandardScaler: _standard,
    RobustScaler: _robust,
    MinMaxScaler: _min_max,
    MaxAbsScaler: lambda step: {"centre": np.zeros(step.n_features_in_), "scale": 1 / step.scale_},
    FeatureWeights: lambda step: {"centre": np.zeros(len(step.weights_)), "scale": step.weights_},
    QuantileTransformer: _levels,
}


# The kernel expansion.


def _expansion(metric: Any) -> dict[str, Any]:
    """The points z_j, the terms of the sum, and its constant."""
    if isinstance(metric, LinearMetric):
        points, offset = metric.metric_factor, np.zeros(len(metric.metric_factor))
        terms = [_packed_term("linear", np.eye(len(points)))]
    elif isinstance(metric, OutputMetric):
        if metric.kernel.takes not in ("arrays", "sparse") or not metric.kernel.has_terms or hasattr(metric.points, "toarray"):
            raise _NotPlaceableError("its kernel compares something else than rows of numbers")
        points, offset = np.asarray(metric.points), metric.offset @ metric.metric_factor.T
        terms = [_term(scalar, weights, points.shape[1]) for scalar, weights in metric.terms]
    else:
        raise _NotPlaceableError(f"a {type(metric).__name__} is not known here")
    return {"points": packed(points.ravel()), "terms": terms, "offset": packed(np.asarray(offset, dtype=np.float64))}


def _term(scalar: ScalarKernel, weights: Array, n_features: int) -> dict[str, Any]:
    transform = scalar.transform if isinstance(scalar, Transformed) else None
    kernel: Any = scalar.kernel if isinstance(scalar, Transformed) else scalar
    kernel = kernel.kernel if isinstance(kernel, Scalar) else kernel
    # By class: a function may be called anything.
    name = next((name for name in PAGE_KERNELS if type(kernel) is KERNELS[name]), None)
    if name is None:
        raise _NotPlaceableError(f"its kernel is {kernel.name!r}, and known are {', '.join(PAGE_KERNELS)}")
    return _packed_term(name, weights, 0.0 if name == "linear" else kernel.rate(n_features), transform)


def _packed_term(kernel: str, weights: Array, rate: float = 0.0, transform: Array | None = None) -> dict[str, Any]:
    return {
        "kernel": kernel,
        "rate": rate,
        "weights": packed(np.asarray(weights, dtype=np.float64).ravel()),
        "transform": None if transform is None else packed(transform.ravel()),
    }
