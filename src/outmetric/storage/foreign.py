"""The classes of scikit-learn whose objects may be in a file. Their names are part of its format."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from itertools import islice
from types import FunctionType
from typing import Any

import numpy as np
import sklearn
import sklearn.gaussian_process.kernels as gaussian_process
import sklearn.model_selection as splitters
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from outmetric.foundation import Array, Charge, check_by_transforming, storable
from outmetric.storage.document import n_numbers
from outmetric.storage.errors import NotStorableError

PLAIN: dict[str, type] = {
    "MissingIndicator": MissingIndicator,
    "Normalizer": Normalizer,
    "FunctionTransformer": FunctionTransformer,
    "KFold": splitters.KFold,
    "StratifiedKFold": splitters.StratifiedKFold,
    "RepeatedKFold": splitters.RepeatedKFold,
    "RepeatedStratifiedKFold": splitters.RepeatedStratifiedKFold,
    "GroupKFold": splitters.GroupKFold,
    "StratifiedGroupKFold": splitters.StratifiedGroupKFold,
    "ShuffleSplit": splitters.ShuffleSplit,
    "StratifiedShuffleSplit": splitters.StratifiedShuffleSplit,
    "gaussian_process.RBF": gaussian_process.RBF,
    "gaussian_process.Matern": gaussian_process.Matern,
    "gaussian_process.RationalQuadratic": gaussian_process.RationalQuadratic,
    "gaussian_process.ExpSineSquared": gaussian_process.ExpSineSquared,
    "gaussian_process.DotProduct": gaussian_process.DotProduct,
    "gaussian_process.ConstantKernel": gaussian_process.ConstantKernel,
    "gaussian_process.WhiteKernel": gaussian_process.WhiteKernel,
    "gaussian_process.Sum": gaussian_process.Sum,
    "gaussian_process.Product": gaussian_process.Product,
    "gaussian_process.Exponentiation": gaussian_process.Exponentiation,
    "gaussian_process.PairwiseKernel": gaussian_process.PairwiseKernel,
}
# Those whose state is checked by mapping a point.
TRANSFORMERS: dict[str, type] = {
    "StandardScaler": StandardScaler,
    "MinMaxScaler": MinMaxScaler,
    "MaxAbsScaler": MaxAbsScaler,
    "RobustScaler": RobustScaler,
    "PCA": PCA,
    "VarianceThreshold": VarianceThreshold,
}
# Those that map each column by itself, in a loop.
BY_COLUMNS: dict[str, type] = {"PowerTransformer": PowerTransformer, "QuantileTransformer": QuantileTransformer}
# Those made of others.
COMPOSITE: dict[str, type] = {"Pipeline": Pipeline, "ColumnTransformer": ColumnTransformer}
# Those that are fitted again, since their index is no plain data.
NEIGHBOURS: dict[str, type] = {"KNeighborsClassifier": KNeighborsClassifier, "KNeighborsRegressor": KNeighborsRegressor}
# A composition may have so many steps, those of its steps included, and widen a table so many times.
STEPS, WIDENING = 1000, 100
# Columns of a transformer that are tried.
TRIED = 4
# Building a tree of neighbours looks at each number so often.
TREE = 32
# Routing of metadata, and callbacks.
TRANSIENT = ["_metadata_request", "_skl_callbacks", "_parent_callback_ctx", "_callback_fit_ctx"]


def _complete_imputer(found: SimpleImputer, size: int) -> None:
    """Add what scikit-learn 1.6 does not know."""
    if hasattr(found, "_fit_dtype") and not sklearn.__version__.startswith("1.6."):
        vars(found).setdefault("_fill_dtype", found._fit_dtype)


def _check_categories(found: Any, size: int) -> None:
    """Whether the categories are values that people have, none of which can be made to share all its hash with others."""
    for categories in getattr(found, "categories_", ()):
        if not isinstance(categories, np.ndarray) or categories.ndim != 1:
            raise ValueError(f"{type(found).__name__} has categories that are no array")
        if categories.dtype == object and not all(isinstance(one, str | bool | int | float | None) for one in categories):
            raise ValueError(f"{type(found).__name__} has categories that are neither text nor numbers")


def _try_categories(found: Any, size: int) -> None:
    """Whether a row of the first categories can be encoded."""
    categories = getattr(found, "categories_", ())
    if len(categories) and all(map(len, categories)) and "_sklearn_output_config" not in vars(found):
        row = np.empty((1, len(categories)), dtype=object)
        row[0] = [values[0] for values in categories]
        found.transform(row)


def _check_ordinal(found: OrdinalEncoder, size: int) -> None:
    _check_categories(found, size)
    _try_categories(found, size)


def _derive_widths(found: OneHotEncoder, size: int) -> None:
    """Compute the widths of the output; false ones would be allocated."""
    _check_categories(found, size)
    if hasattr(found, "categories_"):
        found._n_features_outs = found._compute_n_features_outs()
    _try_categories(found, size)


def _check_by_columns(found: Any, size: int) -> None:
    """Whether some of its columns can be mapped, and all are alike; mapping thousands one by one would take seconds."""
    width = getattr(found, "n_features_in_", None)
    if width is None:
        return
    few = copy.copy(found)
    parts = [few]
    if isinstance(found, PowerTransformer) and found.standardize:
        few._scaler = copy.copy(found._scaler)
        parts.append(few._scaler)
    for part in parts:
        for name in ("lambdas_", "quantiles_", "mean_", "var_", "scale_"):
            values = vars(part).get(name)
            if values is None:
                continue
            if values.shape[-1:] != (width,) or values.dtype.kind != "f":
                raise ValueError(f"{type(found).__name__} claims {width} features, and its {name} is of others")
            vars(part)[name] = values[..., :TRIED]
        vars(part).pop("feature_names_in_", None)
        part.n_features_in_ = min(width, TRIED)
    check_by_transforming(few, size)


def _check_composition(found: Any, size: int) -> None:
    """Whether it ends in time, and its table stays in proportion: steps that are used twice, and so on, double with each."""
    strange = [step for step, _ in _parts(found) if not isinstance(step, BaseEstimator | str | None)]
    if strange:
        raise ValueError(f"a {type(found).__name__} has a step that is a {type(strange[0]).__name__}")
    if sum(1 for _ in islice(_steps(found), STEPS + 1)) > STEPS:
        raise ValueError(f"a {type(found).__name__} has more than {STEPS} steps")
    widening = _widening(found)
    if widening > WIDENING:
        raise ValueError(f"a {type(found).__name__} makes a table {widening:.3g} times as wide")


def _parts(found: Any) -> list[tuple[Any, float]]:
    """The steps of a composition, each with the share of the columns that it gets."""
    if isinstance(found, Pipeline):
        return [(step, 1.0) for _, step in found.steps]
    if isinstance(found, ColumnTransformer):
        listed = getattr(found, "transformers_", found.transformers)
        width = getattr(found, "n_features_in_", None) or _n_named(listed)
        return [(part, _n_columns(columns, width) / width) for _, part, columns in listed]
    return []


def _n_named(listed: Any) -> int:
    """How many columns a transformer that is not fitted names; the least that its table can have."""
    named = {str(column) for _, _, columns in listed if not isinstance(columns, slice) for column in np.ravel(columns).tolist()}
    return max(1, len(named))


def _n_columns(columns: Any, width: int) -> int:
    if isinstance(columns, slice):
        ends = (columns.start, columns.stop, columns.step)
        return len(range(width)[columns]) if all(end is None or type(end) is int for end in ends) else width
    return 1 if isinstance(columns, str) or np.ndim(columns) == 0 else len(columns)


def _steps(found: Any) -> Iterator[Any]:
    """All steps of a composition, and theirs."""
    for step, _ in _parts(found):
        yield step
        yield from _steps(step)


def _widening(found: Any) -> float:
    """How many times as wide a composition may make a table, encoders of categories aside, whose categories are in the file."""
    if isinstance(found, Pipeline):
        return math.prod(_widening(step) for step, _ in _parts(found))
    if isinstance(found, ColumnTransformer):
        return sum(share * _widening(step) for step, share in _parts(found))
    return 2.0 if isinstance(found, SimpleImputer) and found.add_indicator else 1.0


def _learned_from(voters: Any) -> dict[str, Any]:
    """What neighbours were fitted to."""
    if not isinstance(voters.metric, str | FunctionType):
        raise NotStorableError(
            f"neighbours by a metric that is a {type(voters.metric).__name__} cannot be stored; put the metric's estimator before "
            "them in a Pipeline, and leave them theirs."
        )
    if not hasattr(voters, "_fit_X"):
        return {}
    if isinstance(voters, KNeighborsClassifier) and voters.outputs_2d_:
        raise NotStorableError("a neighbour vote on several targets at once cannot be stored.")
    targets: Array = voters.classes_[voters._y] if isinstance(voters, KNeighborsClassifier) else voters._y
    return {
        "points": voters._fit_X,
        "targets": np.asarray(targets),
        "feature_names_in_": getattr(voters, "feature_names_in_", None),
    }


def _check_voters(voters: Any, size: int) -> None:
    # An object would be called for each pair of points, as often as it takes to sort them.
    if not isinstance(voters.metric, str | FunctionType):
        raise ValueError(f"neighbours have a metric that is a {type(voters.metric).__name__}")


def _fit_again(voters: Any, state: dict[str, Any], charge: Charge) -> None:
    if set(state) != {"points", "targets", "feature_names_in_"}:
        raise ValueError(f"neighbours cannot be fitted to {sorted(state)[:10]}")
    _check_voters(voters, 0)
    points = state["points"]
    charge(16 * n_numbers(points), TREE * n_numbers(points))
    if voters.metric == "mahalanobis":  # it may take the inverse of a covariance
        width = points.shape[1]
        charge(16 * width**2, width**3)
    voters.fit(points, state["targets"])
    if isinstance(voters.metric, str) and n_numbers(points):
        voters.kneighbors(points[:1], n_neighbors=1)
    if state["feature_names_in_"] is not None:
        voters.feature_names_in_ = state["feature_names_in_"]


# scikit-learn's defaults are left out: its other versions have other parameters.
storable(holds_models=True, transient=TRANSIENT)(BaseEstimator)
storable(is_kernel=True)(gaussian_process.Kernel)
for name, kind in PLAIN.items():
    storable(name, omits_defaults=True)(kind)
for name, kind in TRANSFORMERS.items():
    storable(name, omits_defaults=True, check=check_by_transforming)(kind)
for name, kind in BY_COLUMNS.items():
    storable(name, omits_defaults=True, check=_check_by_columns)(kind)
for name, kind in COMPOSITE.items():
    storable(name, omits_defaults=True, check=_check_composition)(kind)
for name, kind in NEIGHBOURS.items():
    storable(name, omits_defaults=True, state=_learned_from, restore=_fit_again, check=_check_voters)(kind)
storable("SimpleImputer", omits_defaults=True, check=_complete_imputer)(SimpleImputer)
storable("OneHotEncoder", omits_defaults=True, check=_derive_widths)(OneHotEncoder)
storable("OrdinalEncoder", omits_defaults=True, check=_check_ordinal)(OrdinalEncoder)
