"""The classes of scikit-learn whose objects may be in a file. Their names are part of its format."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterator
from itertools import islice
from types import FunctionType
from typing import Any

import numpy as np
import scipy.sparse
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

from outmetric.estimators import Metric
from outmetric.foundation import GENEROSITY, Array, Charge, check_features, is_fitted, n_points, row_of_numbers, storable
from outmetric.storage.document import n_numbers
from outmetric.storage.errors import NotStorableError
from outmetric.storage.samples import (
    columns_row,
    encoder_row,
    function_row,
    imputer_row,
    neighbours_row,
    pipeline_row,
    stretches,
    table_row,
)

PLAIN: dict[str, type] = {
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
}
# Those whose state is checked by mapping a row.
TRANSFORMERS: dict[str, type] = {
    "Normalizer": Normalizer,
    "StandardScaler": StandardScaler,
    "MinMaxScaler": MinMaxScaler,
    "MaxAbsScaler": MaxAbsScaler,
    "RobustScaler": RobustScaler,
    "PCA": PCA,
    "VarianceThreshold": VarianceThreshold,
}
# Those that map each column by itself, in a loop.
BY_COLUMNS: dict[str, type] = {"PowerTransformer": PowerTransformer, "QuantileTransformer": QuantileTransformer}
# Those that are fitted again, since their index is no plain data.
NEIGHBOURS: dict[str, type] = {"KNeighborsClassifier": KNeighborsClassifier, "KNeighborsRegressor": KNeighborsRegressor}
# A composition may have so many steps, those of its steps included, and widen a table so many times.
STEPS, WIDENING = 1000, 100
# Encoders may make so many columns, and indicators look at so many, beside as many as take the place of the file so many times.
COLUMNS = 2**20
# Columns that are tried of a transformer that maps each by itself.
FEW = 4
# What it takes to map a column of a row by itself, and to call a metric for two points, in numbers that are looked at.
COLUMN, CALLED = 1500, 20_000
# A vote by a metric that is an object may take so much for each row.
PAIRWISE = 2**23
# Beyond it, squares of distances are not representable.
LARGEST = 1e150
# Fitting neighbours takes so much whatever their number, and building their tree looks at each number so often.
REFITTED, TREE = 400_000, 32
# Routing of metadata, and callbacks.
TRANSIENT = ["_metadata_request", "_skl_callbacks", "_parent_callback_ctx", "_callback_fit_ctx"]


def _check_width(found: Any, size: int) -> None:
    """Whether there are data for as many features as it claims."""
    _check_parameters(found)
    check_features(found, size)
    width = getattr(found, "n_features_in_", None)
    if width is not None and width > size and not isinstance(found, Normalizer):
        raise ValueError(f"{type(found).__name__} claims {width} features")


def _check_parameters(found: Any) -> None:
    """Whether it has no estimators where it takes numbers and words; messages about these would tell all of them."""
    for name, value in vars(found).items():
        if isinstance(value, BaseEstimator) and name != "_scaler" and name != "indicator_":
            raise ValueError(f"{type(found).__name__} has a {type(value).__name__} as its {name}")


def _check_imputer(found: Any, size: int) -> None:
    """Also add what scikit-learn 1.6 does not know."""
    _check_width(found, size)
    if hasattr(found, "_fit_dtype") and not sklearn.__version__.startswith("1.6."):
        vars(found).setdefault("_fill_dtype", found._fit_dtype)


def _check_indicator(found: MissingIndicator, size: int) -> None:
    """Whether it looks at no more columns than any data have; it has nothing for each of them."""
    check_features(found, size)
    if getattr(found, "n_features_in_", 0) > COLUMNS + size:
        raise ValueError(f"a MissingIndicator claims {found.n_features_in_} features")


def _check_categories(found: Any, size: int) -> None:
    """Whether the categories are values that people have, none of which can be made to share all its hash with others."""
    check_features(found, size)
    if hasattr(found, "n_features_in_") and len(getattr(found, "categories_", ())) != found.n_features_in_:
        raise ValueError(f"{type(found).__name__} has not the categories of each feature")
    for categories in getattr(found, "categories_", ()):
        if not isinstance(categories, np.ndarray) or categories.ndim != 1:
            raise ValueError(f"{type(found).__name__} has categories that are no array")
        if categories.dtype == object and not all(isinstance(one, str | bool | int | float | None) for one in categories):
            raise ValueError(f"{type(found).__name__} has categories that are neither text nor numbers")


def _derive_widths(found: OneHotEncoder, size: int) -> None:
    """Compute the widths of the output; false ones would be allocated."""
    _check_categories(found, size)
    if hasattr(found, "categories_"):
        found._n_features_outs = found._compute_n_features_outs()
        if sum(found._n_features_outs) > COLUMNS + GENEROSITY // 8 * size:
            raise ValueError(f"a OneHotEncoder makes {sum(found._n_features_outs)} columns")


def _each_column(found: Any) -> int:
    """What it takes to loop over columns."""
    width = getattr(found, "n_features_in_", 0)
    return COLUMN * int(width) if isinstance(width, int | np.integer) else 0


def _check_by_columns(found: Any, size: int) -> None:
    """Whether all columns are alike, and some of them can be mapped; mapping thousands one by one would take seconds."""
    _check_width(found, size)
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
            if name == "quantiles_" and np.isfinite(values).any(axis=0).tolist() != _ascending(values).tolist():
                raise ValueError("quantiles do not ascend")
            vars(part)[name] = values[..., :FEW]
        for name in ("feature_names_in_", "_sklearn_output_config"):
            vars(part).pop(name, None)
        part.n_features_in_ = min(width, FEW)
    few.transform(np.ones((1, min(width, FEW))))


def _ascending(values: Array) -> Array:
    """Which columns hold finite numbers, none below the one before; a column of gaps has none."""
    return np.asarray(np.isfinite(values).all(axis=0) & (np.diff(values, axis=0) >= 0).all(axis=0))


def _check_function(found: FunctionTransformer, size: int) -> None:
    if not all(one is None or isinstance(one, FunctionType) for one in (found.func, found.inverse_func)):
        raise ValueError("a FunctionTransformer has a function that is none")


def _check_pairwise(found: gaussian_process.PairwiseKernel, size: int) -> None:
    if not isinstance(found.metric, str | FunctionType):
        raise ValueError(f"a kernel has a metric that is a {type(found.metric).__name__}")


def _check_composition(found: Any, size: int) -> None:
    """Whether it ends in time, and its table stays in proportion: steps that are used twice, and so on, double with each."""
    words = ("passthrough",) if isinstance(found, Pipeline) else ("passthrough", "drop")
    strange = [step for step, _ in _parts(found) if not (step is None or isinstance(step, BaseEstimator) or step in words)]
    if strange:
        raise ValueError(f"a {type(found).__name__} has a step that is a {type(strange[0]).__name__}")
    if isinstance(found, Pipeline) and not found.steps:
        raise ValueError("a Pipeline has no steps")
    if sum(1 for _ in islice(_steps(found), STEPS + 1)) > STEPS:
        raise ValueError(f"a {type(found).__name__} has more than {STEPS} steps")
    widening = _widening(found)
    if widening > WIDENING:
        raise ValueError(f"a {type(found).__name__} makes a table {widening:.3g} times as wide")
    _check_fitted(found)
    if isinstance(found, ColumnTransformer) and is_fitted(found):
        if not hasattr(found, "transformers_"):
            raise ValueError("a ColumnTransformer is fitted, and does not know its parts")
        _check_columns(found)


def _check_fitted(found: Any) -> None:
    """Whether all of what is fitted is; what keeps no state never says that it is not."""
    if isinstance(found, Pipeline):
        steps = [step for _, step in found.steps if isinstance(step, BaseEstimator)]
        steps = steps if steps and _has_state(steps[-1]) else []
    else:  # those that get no columns are not fitted
        listed, places = getattr(found, "transformers_", ()), getattr(found, "_transformer_to_input_indices", {})
        steps = [step for name, step, _ in listed if isinstance(step, BaseEstimator) and len(places[name])]
    lacking = [step for step in steps if not is_fitted(step) or getattr(step, "_precomputed", False)]
    if lacking:
        raise ValueError(f"a fitted {type(found).__name__} has a {type(lacking[0]).__name__} that is not")


def _has_state(found: Any) -> bool:
    if isinstance(found, Pipeline):
        return bool(found.steps) and _has_state(found.steps[-1][1])
    return any(name.endswith("_") for name in getattr(found, "__dict__", ()))


def _check_columns(found: ColumnTransformer) -> None:
    """Whether its parts get columns that there are, and that they know; of a data frame they get them by name."""
    for places in getattr(found, "_transformer_to_input_indices", {}).values():
        whole = all(isinstance(place, int | np.integer) and not isinstance(place, bool) for place in places)
        if not whole or not all(0 <= place < found.n_features_in_ for place in places):
            raise ValueError("a ColumnTransformer has columns that there are not")
    names = getattr(found, "feature_names_in_", None)
    if names is None:
        return
    for name, part, columns in found.transformers_:
        places = found._transformer_to_input_indices[name]
        if len(set(places)) < len(places):
            raise ValueError("a ColumnTransformer takes a column of a table twice")
        labels = [columns] if isinstance(columns, str) else list(columns) if np.ndim(columns) else []
        wanted = [label for label in labels if isinstance(label, str)]
        if isinstance(part, FunctionTransformer) and len(places) and not hasattr(part, "n_features_in_"):
            raise ValueError("a fitted ColumnTransformer has a FunctionTransformer that is not")
        if wanted and wanted != [names[place] for place in places]:
            raise ValueError("a ColumnTransformer has other columns than it names")
        known = getattr(part, "feature_names_in_", None)
        if known is not None and list(known) != [names[place] for place in places]:
            raise ValueError(f"a ColumnTransformer gives a {type(part).__name__} other columns than this knows")


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
    if not isinstance(voters.metric, str | FunctionType | Metric):
        raise NotStorableError(
            f"neighbours by a metric that is a {type(voters.metric).__name__} cannot be stored; put the metric's estimator before "
            "them in a Pipeline, and leave them theirs."
        )
    if isinstance(voters.metric, Metric) and voters.algorithm != "brute":
        raise NotStorableError(
            f"neighbours by a learned metric can be stored with algorithm='brute', and theirs is {voters.algorithm!r}; or put the "
            "metric's estimator before them in a Pipeline, which is much faster."
        )
    if not hasattr(voters, "_fit_X"):
        return {}
    if isinstance(voters.metric, Metric) and _pairwise_work(voters.metric, voters._fit_X) > PAIRWISE:
        raise NotStorableError(
            f"a vote of {n_points(voters._fit_X)} neighbours by a learned metric takes too long to be stored; put the "
            "metric's estimator before them in a Pipeline, which is much faster."
        )
    if isinstance(voters, KNeighborsClassifier) and voters.outputs_2d_:
        raise NotStorableError("a neighbour vote on several targets at once cannot be stored.")
    targets: Array = voters.classes_[voters._y] if isinstance(voters, KNeighborsClassifier) else voters._y
    return {
        "points": voters._fit_X,
        "targets": np.asarray(targets),
        "feature_names_in_": getattr(voters, "feature_names_in_", None),
    }


def _pairwise_work(metric: Metric, points: Any) -> int:
    """What it takes to compare a point with these, one by one."""
    return int(min(n_points(points) * (2 * metric.cost() + CALLED), sys.maxsize))


def _neighbours_work(voters: Any) -> int:
    """A metric that is an object is called for each point."""
    return _pairwise_work(voters.metric, voters._fit_X) if isinstance(voters.metric, Metric) and hasattr(voters, "_fit_X") else 0


def _check_voters(voters: Any, size: int) -> None:
    _check_parameters(voters)
    # Any other object would be called for each pair of points, as often as it takes to sort them.
    if not isinstance(voters.metric, str | FunctionType | Metric):
        raise ValueError(f"neighbours have a metric that is a {type(voters.metric).__name__}")
    if isinstance(voters.metric, Metric) and voters.algorithm != "brute":
        raise ValueError("neighbours by a learned metric must be found with algorithm='brute'")
    params = voters.metric_params
    if params is not None and not all(isinstance(value, int | float | np.generic | np.ndarray) for value in params.values()):
        raise ValueError("parameters of a metric are no numbers")


def _fit_again(voters: Any, state: dict[str, Any], charge: Charge) -> None:
    if set(state) != {"points", "targets", "feature_names_in_"}:
        raise ValueError(f"neighbours cannot be fitted to {sorted(state)[:10]}")
    _check_voters(voters, 0)
    points: Any = state["points"]
    of_numbers = isinstance(points, np.ndarray) or scipy.sparse.issparse(points)
    if not of_numbers:
        raise ValueError(f"neighbours cannot be fitted to a {type(points).__name__}")
    if np.abs(getattr(points, "data" if hasattr(points, "nnz") else "real")).max(initial=0) > LARGEST:
        raise ValueError("neighbours have points whose distances are no numbers")
    charge(16 * n_numbers(points), REFITTED + TREE * n_numbers(points))
    if isinstance(voters.metric, Metric) and _pairwise_work(voters.metric, points) > PAIRWISE:
        raise ValueError("it takes far more work than a file of its size should")
    if voters.metric == "mahalanobis":  # it may take the inverse of a covariance
        width = points.shape[1]
        charge(16 * width**2, width**3)
    voters.fit(points, state["targets"])
    if isinstance(voters.metric, FunctionType) and isinstance(points, np.ndarray):
        float(voters.metric(points[0], points[0], **(voters.metric_params or {})))
    if state["feature_names_in_"] is not None:
        voters.feature_names_in_ = state["feature_names_in_"]


# scikit-learn's defaults are left out: its other versions have other parameters.
storable(holds_models=True, transient=TRANSIENT)(BaseEstimator)
storable(is_kernel=True)(gaussian_process.Kernel)
for name, kind in PLAIN.items():
    storable(name, omits_defaults=True)(kind)
for name, kind in TRANSFORMERS.items():
    storable(name, omits_defaults=True, check=_check_width, sample=row_of_numbers)(kind)
for name, kind in BY_COLUMNS.items():
    storable(name, omits_defaults=True, check=_check_by_columns, sample=columns_row, work=_each_column)(kind)
for name, kind in NEIGHBOURS.items():
    storable(
        name,
        omits_defaults=True,
        state=_learned_from,
        restore=_fit_again,
        check=_check_voters,
        sample=neighbours_row,
        work=_neighbours_work,
    )(kind)
storable("Pipeline", omits_defaults=True, check=_check_composition, sample=pipeline_row, used=stretches)(Pipeline)
storable("ColumnTransformer", omits_defaults=True, check=_check_composition, sample=table_row)(ColumnTransformer)
storable("FunctionTransformer", omits_defaults=True, check=_check_function, sample=function_row)(FunctionTransformer)
storable("MissingIndicator", omits_defaults=True, check=_check_indicator, sample=imputer_row)(MissingIndicator)
storable("SimpleImputer", omits_defaults=True, check=_check_imputer, sample=imputer_row)(SimpleImputer)
storable("OneHotEncoder", omits_defaults=True, check=_derive_widths, sample=encoder_row, work=_each_column)(OneHotEncoder)
storable("OrdinalEncoder", omits_defaults=True, check=_check_categories, sample=encoder_row, work=_each_column)(OrdinalEncoder)
storable("gaussian_process.PairwiseKernel", omits_defaults=True, check=_check_pairwise)(gaussian_process.PairwiseKernel)
