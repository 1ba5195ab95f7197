"""The classes of scikit-learn whose objects may be in a file. Their names are part of its format."""

from __future__ import annotations

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
    "Pipeline": Pipeline,
    "ColumnTransformer": ColumnTransformer,
    "MissingIndicator": MissingIndicator,
    "OrdinalEncoder": OrdinalEncoder,
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
    "PowerTransformer": PowerTransformer,
    "QuantileTransformer": QuantileTransformer,
    "PCA": PCA,
    "VarianceThreshold": VarianceThreshold,
}
# Those that are fitted again, since their index is no plain data.
NEIGHBOURS: dict[str, type] = {"KNeighborsClassifier": KNeighborsClassifier, "KNeighborsRegressor": KNeighborsRegressor}
# Routing of metadata, and callbacks.
TRANSIENT = ["_metadata_request", "_skl_callbacks", "_parent_callback_ctx", "_callback_fit_ctx"]


def _complete_imputer(found: SimpleImputer, size: int) -> None:
    """Add what scikit-learn 1.6 does not know."""
    if hasattr(found, "_fit_dtype") and not sklearn.__version__.startswith("1.6."):
        vars(found).setdefault("_fill_dtype", found._fit_dtype)


def _derive_widths(found: OneHotEncoder, size: int) -> None:
    """Compute the widths of the output; false ones would be allocated."""
    if hasattr(found, "categories_"):
        found._n_features_outs = found._compute_n_features_outs()


def _learned_from(voters: Any) -> dict[str, Any]:
    """What neighbours were fitted to."""
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


def _fit_again(voters: Any, state: dict[str, Any], charge: Charge) -> None:
    if set(state) != {"points", "targets", "feature_names_in_"}:
        raise ValueError(f"neighbours cannot be fitted to {sorted(state)[:10]}")
    charge(16 * n_numbers(state["points"]))
    voters.fit(state["points"], state["targets"])
    if state["feature_names_in_"] is not None:
        voters.feature_names_in_ = state["feature_names_in_"]


# scikit-learn's defaults are left out: its other versions have other parameters.
storable(holds_models=True, transient=TRANSIENT)(BaseEstimator)
storable(is_kernel=True)(gaussian_process.Kernel)
for name, kind in PLAIN.items():
    storable(name, omits_defaults=True)(kind)
for name, kind in TRANSFORMERS.items():
    storable(name, omits_defaults=True, check=check_by_transforming)(kind)
for name, kind in NEIGHBOURS.items():
    storable(name, omits_defaults=True, state=_learned_from, restore=_fit_again)(kind)
storable("SimpleImputer", omits_defaults=True, check=_complete_imputer)(SimpleImputer)
storable("OneHotEncoder", omits_defaults=True, check=_derive_widths)(OneHotEncoder)
