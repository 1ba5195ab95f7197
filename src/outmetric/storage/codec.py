"""Fitted models as plain data, and back: a JSON document for their structure beside named arrays for their numbers.

Only classes in `CLASSES` are written or made. An object is its class's name, the constructor's parameters and, for estimators, the
fitted attributes; objects that are shared stay shared. Reading calls constructors, which check and store, and nothing else that a
file could choose: functions are not stored but named, and whoever reads has to bring them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import UserList
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from inspect import signature
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

from outmetric import kernels
from outmetric.baselines import itml, lmnn, margins, projections
from outmetric.choosing import Candidate, Member, MetricClassifier, MetricSearchCV
from outmetric.columns import Columns, FeatureWeights
from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric, LinearMetric, MetricTransformer, OutputMetric
from outmetric.foundation import Array, objects
from outmetric.problem import Terms
from outmetric.solvers import Record, Status
from outmetric.tables import TableModel

Node = Any  # what JSON can hold
# The names are part of the file format: a class that moves or is renamed keeps its own.
CLASSES: dict[str, type] = {
    "FixedKernelMetric": FixedKernelMetric,
    "LearnedKernelMetric": LearnedKernelMetric,
    "MetricSearchCV": MetricSearchCV,
    "MetricClassifier": MetricClassifier,
    "FeatureWeights": FeatureWeights,
    "Candidate": Candidate,
    "Member": Member,
    "LMNN": lmnn.LMNN,
    "KernelLMNN": lmnn.KernelLMNN,
    "ITML": itml.ITML,
    "KernelITML": itml.KernelITML,
    "OutputMetric": OutputMetric,
    "LinearMetric": LinearMetric,
    "Terms": Terms,
    "Record": Record,
    "Sweep": projections.Sweep,
    "Columns": Columns,
    "TableModel": TableModel,
    "Spectrum": kernels.Spectrum,
    "WeightedDegree": kernels.WeightedDegree,
    "Scalar": kernels.Scalar,
    "Separable": kernels.Separable,
    "Diagonal": kernels.Diagonal,
    "Precomputed": kernels.Precomputed,
    "Pipeline": Pipeline,
    "ColumnTransformer": ColumnTransformer,
    "SimpleImputer": SimpleImputer,
    "MissingIndicator": MissingIndicator,
    "OneHotEncoder": OneHotEncoder,
    "OrdinalEncoder": OrdinalEncoder,
    "PCA": PCA,
    "VarianceThreshold": VarianceThreshold,
    "StandardScaler": StandardScaler,
    "MinMaxScaler": MinMaxScaler,
    "MaxAbsScaler": MaxAbsScaler,
    "RobustScaler": RobustScaler,
    "Normalizer": Normalizer,
    "PowerTransformer": PowerTransformer,
    "QuantileTransformer": QuantileTransformer,
    "FunctionTransformer": FunctionTransformer,
    "KNeighborsClassifier": KNeighborsClassifier,
    "KNeighborsRegressor": KNeighborsRegressor,
    "KFold": splitters.KFold,
    "StratifiedKFold": splitters.StratifiedKFold,
    "RepeatedKFold": splitters.RepeatedKFold,
    "RepeatedStratifiedKFold": splitters.RepeatedStratifiedKFold,
    "GroupKFold": splitters.GroupKFold,
    "StratifiedGroupKFold": splitters.StratifiedGroupKFold,
    "ShuffleSplit": splitters.ShuffleSplit,
    "StratifiedShuffleSplit": splitters.StratifiedShuffleSplit,
    "MarginRecord": margins.MarginRecord,
    "KernelSum": kernels.Sum,
    "KernelCallable": kernels.Callable,
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
NAMES = {kind: name for name, kind in CLASSES.items()}
NEIGHBOURS = (KNeighborsClassifier, KNeighborsRegressor)
# Those whose state is checked by mapping a point.
TRANSFORMERS = (
    *(StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PowerTransformer, QuantileTransformer, PCA, VarianceThreshold),
    FeatureWeights,
)
# Parameters that belong to a machine rather than to a model; a file that has them could start processes and write to folders.
LOCAL = frozenset({"n_jobs", "memory"})
# What belongs to this process rather than to the model: rows seen by `partial_fit`, routing of metadata, and callbacks.
TRANSIENT = frozenset({"_stream", "_scored", "_metadata_request", "_skl_callbacks", "_parent_callback_ctx", "_callback_fit_ctx"})
ATTRIBUTE = re.compile(r"_?[a-z][a-zA-Z0-9_]*")
DTYPES = frozenset("?bhilqBHILQefd")
KNOWN_DTYPES = {np.dtype(code).str: np.dtype(code) for code in sorted(DTYPES)}
KNOWN_DTYPES["|O"] = np.dtype(object)
LARGEST_INTEGER = 2**63
# Longer lists of integers and arrays of words are kept as arrays, which are shared.
SHORT = 32
# For each byte of a file reading may allocate so many; and a kernel may be made of so many.
GENEROSITY, KERNELS = 64, 1000
LARGEST_CODE_POINT = 0x10FFFF


class NotStorableError(ValueError):
    """Something in a model cannot be written to a file."""


class Writer:
    """Collects the objects and arrays of a model.

    Attributes
    ----------
    arrays : dict of name to array
        Each content once.
    objects : list
        In an order in which each refers only to earlier ones.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.objects: list[Node] = []
        self._known: dict[Any, str] = {}
        self._functions: dict[str, Any] = {}
        self._seen: dict[int, tuple[Node, Any]] = {}  # with the object, so that its id stays its own

    def node(self, value: Any, where: str = "the model") -> Node:
        """A value as JSON; ``where`` names it in errors."""
        if value is None or isinstance(value, bool) or type(value) in (str, np.str_):
            return value if value is None or isinstance(value, bool) else str(value)
        if type(value) is int and abs(value) < LARGEST_INTEGER:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.generic) and value.dtype.char in DTYPES:
            return {"number": [value.dtype.str, self.node(value.item())]}
        if isinstance(value, UserList):  # scikit-learn 1.6 has some
            return self.node(list(value.data), where)
        if type(value) is list:
            whole = len(value) > SHORT and all(type(item) is int and abs(item) < LARGEST_INTEGER for item in value)
            return {"integers": self._keep(np.array(value, dtype="<i8"))} if whole else self._nodes(value, where)
        if type(value) is tuple:
            return {"tuple": self._nodes(value, where)}
        if type(value) is dict:
            if not LOCAL.isdisjoint(value):
                raise NotStorableError(f"{where} sets one of {sorted(LOCAL)}, which belong to a machine; leave it out.")
            pairs = [[self.node(key, where), self.node(item, f"{where}[{key!r}]")] for key, item in value.items()]
            return {"dict": pairs}
        if isinstance(value, slice):
            return {"slice": self._nodes([value.start, value.stop, value.step], where)}
        if isinstance(value, Status):
            return {"status": value.name}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"dtype": [np.dtype(value).str, isinstance(value, type)]}
        if isinstance(value, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(value)
            return {"masked": self._nodes([value.filled(None) if value.dtype == object else value.filled(), mask], where)}
        if type(value) in (np.ndarray, np.memmap):
            return self._array(value, where)
        if scipy.sparse.issparse(value):
            return self._sparse(value, where)
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.node(value.get_state(), where)}
        if isinstance(value, FunctionType) and value.__name__ != "<lambda>":
            if self._functions.setdefault(value.__name__, value) is not value:
                raise NotStorableError(f"{where} is a second function of the name {value.__name__}; give each a name of its own.")
            return {"function": value.__name__}
        if type(value) in NAMES:
            return self._object(value, where)
        kind = type(value)
        what = "a nameless function" if kind is FunctionType else f"a {kind.__module__}.{kind.__qualname__}"
        raise NotStorableError(
            f"{where} is {what}, which cannot be stored. Models of this library, scikit-learn's usual preparations, named "
            "functions, arrays, numbers, text and containers of these can; pickle takes more, but is not safe to load."
        )

    def _nodes(self, values: Any, where: str) -> list[Node]:
        return [self.node(value, f"{where}[{index}]") for index, value in enumerate(values)]

    def _array(self, value: Array, where: str) -> Node:
        if value.dtype.kind == "O" and value.size > SHORT and all(type(item) in (str, np.str_) for item in value.flat):
            words = json.dumps(value.ravel().tolist()).encode()
            return {"words": [self._keep(np.frombuffer(words, np.uint8)), list(value.shape)]}
        if value.dtype.kind == "O":
            return {"objects": [self._nodes(value.ravel().tolist(), where), list(value.shape)]}
        # The order of the elements in memory decides how products are rounded.
        turned = value.flags.f_contiguous and not value.flags.c_contiguous
        content = np.ascontiguousarray(value.T if turned else value)
        if value.dtype.kind == "U" and value.itemsize:
            letters = content.astype(content.dtype.newbyteorder("<")).reshape(*content.shape, 1).view("<u4")
            return {"text": [self._keep(letters), turned]}
        if value.dtype.char not in DTYPES:
            raise NotStorableError(f"{where} is an array of dtype {value.dtype}, which cannot be stored; use numbers or text.")
        content = content.reshape((value.T if turned else value).shape)  # ascontiguousarray makes a number an array
        return {"array": [self._keep(content.astype(content.dtype.newbyteorder("<"), copy=False)), turned]}

    def _sparse(self, value: Any, where: str) -> Node:
        csr = value.tocsr()
        parts = self._nodes([csr.data, csr.indices, csr.indptr], where)
        return {"csr": [*parts, list(csr.shape), isinstance(value, scipy.sparse.sparray)]}

    def _keep(self, content: Array) -> str:
        key = content.dtype.str, content.shape, hashlib.sha256(content.data if content.size else b"").digest()
        if key not in self._known:
            self._known[key] = f"a{len(self.arrays)}"
            self.arrays[self._known[key]] = content
        return self._known[key]

    def _object(self, value: Any, where: str) -> Node:
        if id(value) not in self._seen:
            where = f"{where}.{type(value).__name__}" if where == "the model" else where
            params, state = _parts(value)
            entry = {
                "class": NAMES[type(value)],
                "params": {name: self.node(item, f"{name} of {where}") for name, item in params.items()},
                "state": {name: self.node(item, f"{name} of {where}") for name, item in state.items()},
            }
            self.objects.append(entry)
            self._seen[id(value)] = {"object": len(self.objects) - 1}, value
        return self._seen[id(value)][0]


def _parts(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The constructor's parameters of an object, and its fitted attributes."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}, {}
    if not isinstance(value, BaseEstimator):
        given = {**getattr(value, "cvargs", {}), **vars(value)}
        names = [name for name in signature(type(value)).parameters if name in given]
        return {name: given[name] for name in names}, {}
    # scikit-learn's defaults are left out: its other versions have other parameters.
    foreign = type(value).__module__.startswith("sklearn.")
    usual = {name: one.default if foreign else one.empty for name, one in signature(type(value)).parameters.items()}
    given = {name: item for name, item in value.get_params(deep=False).items() if name not in LOCAL}
    params = {name: item for name, item in given.items() if item is not usual[name]}
    if callable(params.get("verbose")):
        params["verbose"] = False
    if isinstance(value, NEIGHBOURS) and hasattr(value, "_fit_X"):
        return params, {"points": value._fit_X, "targets": _targets(value), "feature_names_in_": _names(value)}
    kept = {name: item for name, item in vars(value).items() if name not in given and name not in TRANSIENT | LOCAL}
    return params, kept


def _targets(voters: Any) -> Array:
    """What neighbours were fitted to."""
    if isinstance(voters, KNeighborsRegressor):
        return np.asarray(voters._y)
    if voters.outputs_2d_:
        raise NotStorableError("a neighbour vote on several targets at once cannot be stored.")
    return np.asarray(voters.classes_[voters._y])


def _names(estimator: Any) -> Any:
    return getattr(estimator, "feature_names_in_", None)


class Reader:
    """Makes values from what a `Writer` collected; whatever does not look like it is a ValueError.

    Parameters
    ----------
    arrays : mapping of name to array
    functions : mapping of name to function
        Those that the model needs.
    size : int
        Of the file, in bytes; what is made of it may be so large, within reason.
    """

    def __init__(self, arrays: Mapping[str, Array], functions: Mapping[str, Callable[..., Any]], size: int) -> None:
        self.arrays, self.functions, self.size = arrays, functions, size
        self.used: set[str] = set()
        self._made: list[Any] = []
        self._kernels: list[int] = []  # how many kernels are evaluated with each object
        self._referred = 0
        self._converted: dict[tuple[str, Any], Any] = {}
        self._left = GENEROSITY * size + 2**20
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "integers": self._integers,
            "words": self._words,
            "float": {"nan": np.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__,
            "number": self._number,
            "tuple": lambda content: tuple(self._values(content)),
            "dict": self._dict,
            "slice": lambda content: slice(*self._values(_sized(content, 3))),
            "status": Status.__getitem__,
            "dtype": self._dtype,
            "masked": self._masked,
            "array": self._array,
            "text": self._text,
            "objects": self._objects,
            "csr": self._sparse,
            "random_state": self._random_state,
            "function": self._function,
            "object": self._reference,
        }

    def read(self, root: Node, entries: Any) -> Any:
        """The model; ``entries`` are the objects it is made of."""
        for entry in _list(entries):
            self._made.append(self._make(_exactly(entry, {"class", "params", "state"})))
        model = self.value(root)
        unused = set(self.arrays) - self.used
        if unused:
            raise ValueError(f"nothing refers to {len(unused)} of its arrays")
        return model

    def value(self, node: Node) -> Any:
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return self._values(node)
        ((kind, content),) = _sized(list(node.items()), 1)
        if kind not in self._kinds:
            raise ValueError(f"it holds a value of the unknown kind {kind[:100]!r}")
        return self._kinds[kind](content)

    def _values(self, nodes: Any) -> list[Any]:
        return [self.value(node) for node in _list(nodes)]

    def _number(self, content: Any) -> Any:
        dtype, value = _sized(content, 2)
        return _known_dtype(dtype).type(self.value(value))

    def _dict(self, content: Any) -> Any:
        found = {self.value(key): self.value(value) for key, value in (_sized(pair, 2) for pair in _list(content))}
        if len(found) != len(content) or not LOCAL.isdisjoint(found):
            raise ValueError(f"a dictionary holds a key twice, or one of {sorted(LOCAL)}")
        return found

    def _dtype(self, content: Any) -> Any:
        name, is_type = _sized(content, 2)
        return _known_dtype(name).type if is_type else _known_dtype(name)

    def _masked(self, content: Any) -> Any:
        values, mask = self._values(_sized(content, 2))
        self._charge(16 * (np.size(values) + np.size(mask)))
        return np.ma.MaskedArray(values, mask=mask)

    def _charge(self, n_bytes: int) -> None:
        self._left -= n_bytes
        if self._left < 0:
            raise ValueError("it takes far more memory than a file of its size should")

    def _once(self, kind: str, name: Any, make: Callable[[Array], Any]) -> Any:
        """What is made of an array; the same for all that refer to it."""
        if (kind, name) not in self._converted:
            self._charge(8 * self._stored(name).nbytes)
            self._converted[kind, name] = make(self._stored(name))
        return self._converted[kind, name]

    def _integers(self, name: Any) -> list[int]:
        def make(found: Array) -> list[int]:
            if found.dtype != np.int64 or found.ndim != 1:
                raise ValueError("a list of integers is none")
            return list(found.tolist())

        found = self._once("integers", name, make)
        self._charge(8 * len(found))
        return list(found)

    def _words(self, content: Any) -> Any:
        name, shape = _sized(content, 2)

        def make(found: Array) -> Array:
            words = json.loads(found.tobytes().decode())  # as UTF-8; json would guess
            if found.dtype != np.uint8 or not all(type(word) is str for word in _list(words)):
                raise ValueError("an array of words is none")
            return objects(words)

        found = self._once("words", name, make)
        return found.reshape(_shape(shape, len(found)))

    def _stored(self, name: Any) -> Array:
        self.used.add(name)
        return self.arrays[name]

    def _array(self, content: Any) -> Any:
        name, turned = _sized(content, 2)
        return self._stored(name).T if turned else self._stored(name)

    def _text(self, content: Any) -> Any:
        name, turned = _sized(content, 2)
        letters = self._stored(name)
        self._charge(letters.nbytes)
        if letters.dtype != np.uint32 or letters.ndim < 1 or not letters.shape[-1] or letters.max(initial=0) > LARGEST_CODE_POINT:
            raise ValueError("an array that should hold text does not")
        words = np.ascontiguousarray(letters).view(f"<U{letters.shape[-1]}")[..., 0]
        return words.T if turned else words

    def _objects(self, content: Any) -> Any:
        nodes, shape = _sized(content, 2)
        found = objects(self._values(nodes))
        return found.reshape(_shape(shape, len(found)))

    def _sparse(self, content: Any) -> Any:
        *parts, shape, is_array = _sized(content, 5)
        data, indices, indptr = self._values(parts)
        rows, columns = _sized(shape, 2)
        self._charge(16 * (np.size(data) + np.size(indices) + np.size(indptr)))
        if len(indptr) != rows + 1 or not 0 <= columns < 2**31:
            raise ValueError("the shape of a sparse matrix does not fit to its entries")
        kind = scipy.sparse.csr_array if is_array else scipy.sparse.csr_matrix
        found = kind((data, indices, indptr), shape=(rows, columns))
        found.check_format(full_check=True)
        return found

    def _random_state(self, content: Any) -> Any:
        found = np.random.RandomState()
        found.set_state(self.value(content))
        return found

    def _function(self, name: Any) -> Any:
        if name not in self.functions:
            raise ValueError(
                f"it needs the function {name!r:.100}, which files do not hold: give load(..., functions={{name: function}})"
            )
        return self.functions[name]

    def _reference(self, index: Any) -> Any:
        if type(index) is not int or not 0 <= index < len(self._made):
            raise ValueError("an object is referred to before it is described")
        self._referred += self._kernels[index]
        return self._made[index]

    def _make(self, entry: dict[str, Any]) -> Any:
        if entry["class"] not in CLASSES:
            raise ValueError(f"it holds an object of the unknown class {str(entry['class'])[:100]!r}")
        kind = CLASSES[entry["class"]]
        self._referred = 0
        params, state = ({name: self.value(node) for name, node in _mapping(entry[part]).items()} for part in ("params", "state"))
        if not LOCAL.isdisjoint([*params, *state]):
            raise ValueError(f"it sets one of {sorted(LOCAL)}, which belong to a machine")
        # Kernels that hold the same kernel twice, and so on, would be evaluated forever.
        self._kernels.append(self._referred + issubclass(kind, kernels.MatrixKernel | kernels.Scalar | gaussian_process.Kernel))
        if self._kernels[-1] > KERNELS and not issubclass(kind, BaseEstimator | Candidate | Member | TableModel):
            raise ValueError(f"a kernel is made of {self._kernels[-1]} others")
        self._charge(8 * sum(_n_numbers(value) for value in params.values()))
        if not issubclass(kind, BaseEstimator):
            if state:
                raise ValueError(f"{kind.__name__} has no fitted attributes")
            return self._checked(kind(**params))
        found = kind(**params)
        if issubclass(kind, NEIGHBOURS) and state:
            _exactly(state, {"points", "targets", "feature_names_in_"})
            self._charge(16 * _n_numbers(state["points"]))
            found.fit(state["points"], state["targets"])
            state = {} if state["feature_names_in_"] is None else {"feature_names_in_": state["feature_names_in_"]}
        for name, value in state.items():
            if not ATTRIBUTE.fullmatch(name) or hasattr(kind, name) or name in TRANSIENT:
                raise ValueError(f"{kind.__name__} has no attribute {name[:100]!r}")
            vars(found)[name] = value
        return self._checked(found)

    def _checked(self, found: Any) -> Any:
        """An object that fits together; where that is cheap, a point is mapped to see that it does."""
        width = getattr(found, "n_features_in_", None)
        if width is not None and not (isinstance(width, int | np.integer) and 0 < width < 2**31):
            raise ValueError(f"{type(found).__name__} claims {width} features")
        if isinstance(found, OutputMetric):
            outputs = found.coefficients.shape[1]
            if 8 * outputs**2 > GENEROSITY * self.size:
                raise ValueError(f"the map has {outputs} outputs, more than the file can hold the metric of")
            named = [isinstance(one.function, str) for one in found.kernel.scalars]
            if named and all(named) and found.points.ndim == 2 and found.points.shape[1]:
                found.coordinates(found.points[:1])
        elif isinstance(found, TRANSFORMERS) and width is not None and "_sklearn_output_config" not in vars(found):
            if width > self.size:
                raise ValueError(f"{type(found).__name__} claims {width} features")
            found.transform(np.ones((1, width)))
        elif isinstance(found, SimpleImputer) and hasattr(found, "_fit_dtype") and not sklearn.__version__.startswith("1.6."):
            vars(found).setdefault("_fill_dtype", found._fit_dtype)  # scikit-learn 1.6 knows none
        elif isinstance(found, OneHotEncoder) and hasattr(found, "categories_"):
            # The width of its output is derived; a false one would be allocated.
            found._n_features_outs = found._compute_n_features_outs()
        elif isinstance(found, MetricTransformer) and hasattr(found, "metric_") and width is not None:
            learned_on = (
                found.metric_.points.shape[1] if isinstance(found.metric_, OutputMetric) else found.metric_.metric_factor.shape[1]
            )
            if learned_on not in (0, width):  # a precomputed kernel keeps no points
                raise ValueError(f"{type(found).__name__} claims {width} features and was learned on {learned_on}")
        elif isinstance(found, MetricSearchCV) and hasattr(found, "voters_"):
            _require_voters(found.voters_, found.classes_)
        elif isinstance(found, MetricClassifier) and hasattr(found, "committee_"):
            for member in found.committee_:
                _require_voters(member.voters, found.classes_)
        return found


def _n_numbers(value: Any) -> int:
    return int(getattr(value, "nnz", getattr(value, "size", 0)))


def _require_voters(voters: Any, classes: Any) -> None:
    if not isinstance(voters, KNeighborsClassifier) or len(voters.classes_) != len(classes):
        raise ValueError("voters and classes do not fit together")


def _known_dtype(name: Any) -> np.dtype[Any]:
    # Looked up, since NumPy parses what it is given.
    if name not in KNOWN_DTYPES:
        raise ValueError(f"numbers of type {str(name)[:20]!r} are not known")
    return KNOWN_DTYPES[name]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"a list was expected, not {type(value).__name__}")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a mapping was expected, not {type(value).__name__}")
    return value


def _sized(value: Any, size: int) -> list[Any]:
    if len(_list(value)) != size:
        raise ValueError(f"{size} values were expected, not {len(value)}")
    return _list(value)


def _exactly(value: Any, keys: set[str]) -> dict[str, Any]:
    if set(_mapping(value)) != keys:
        raise ValueError(f"the keys {sorted(keys)} were expected, not {sorted(value)[:10]}")
    return _mapping(value)


def _shape(shape: Any, size: int) -> tuple[int, ...]:
    if not all(type(length) is int and 0 <= length <= max(size, 1) for length in _list(shape)) or math.prod(shape) != size:
        raise ValueError(f"{size} values do not have the shape {str(shape)[:100]}")
    return tuple(shape)
