"""Files of models, small ones that have all storable classes between them, and ways to tamper with such files.

``python tests/tampering.py CASES FOLDER`` tries as many cases, in processes of their own, and writes to the folder what it finds.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import resource
import struct
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.numpy
import scipy.sparse
from sklearn import set_config
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import VarianceThreshold
from sklearn.gaussian_process import kernels as gaussian
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
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
from sklearn.utils.validation import check_is_fitted

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricSearchCV, kernels, tables
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.columns import check_columns
from outmetric.foundation import STORABLE
from outmetric.storage import ModelFileError
from outmetric.storage import files as storage

ROWS = np.arange(0, 150, 6)
X, y = (part[ROWS] for part in load_iris(return_X_y=True))
NAMES = np.array(["setosa", "versicolor", "virginica"])[y]
WORDS = np.array([f"{name[:4]}{round(10 * width)}" for name, width in zip(NAMES, X[:, 1], strict=True)], dtype=object)
# What a case may take: seconds of the processor, and bytes beside a share for each byte of the file.
SECONDS, BYTES, BYTES_EACH = 2.0, 2**26, 64


def likeness(s: Any, t: Any) -> float:
    """A kernel on any objects."""
    return float(str(s) == str(t)) + 0.5


def likenesses(s: Any, t: Any) -> Any:
    """A matrix-valued one."""
    return likeness(s, t) * np.eye(2)


def doubled(rows: Any) -> Any:
    """What a FunctionTransformer may do."""
    return np.multiply(rows, 2)


FUNCTIONS = {"likeness": likeness, "likenesses": likenesses, "doubled": doubled}


def table() -> pd.DataFrame:
    frame = pd.DataFrame(X.copy(), columns=["length", "width", "petal length", "petal width"])
    frame["colour"] = np.where(X[:, 1] > 3, "blue", "white").astype(object)
    frame.loc[3, "length"] = np.nan
    return frame


def classifier(data: Any) -> MetricClassifier:
    model = MetricClassifier(time_budget=0.01, random_state=0).fit(data, NAMES)
    model.committee_ = model.committee_[:3]
    model.candidates_ = model.candidates_[:4]
    return model


def table_model() -> Any:
    frame = table().assign(kind=NAMES)
    return tables.fit_table(frame, check_columns(frame, "kind"), kind="learned").model


def real_table_model() -> Any:
    frame = table()
    return tables.fit_table(frame, check_columns(frame, "petal width"), kind="learned").model


def searched(splitter: Any) -> MetricSearchCV:
    groups = np.arange(len(y)) % 5
    grid = {"learnedkernelmetric__bandwidth": [1.0, "median"]}
    search = MetricSearchCV(make_pipeline(StandardScaler(), LearnedKernelMetric()), grid, n_neighbors=[1, 3], cv=splitter)
    return search.fit(X, NAMES, groups=groups)


def learned(*steps: Any, data: Any = X, targets: Any = y) -> Any:
    return make_pipeline(*steps, LearnedKernelMetric(), KNeighborsClassifier(3)).fit(data, targets)


GAUSSIAN_PROCESS = (
    gaussian.RBF(2.0) * gaussian.ConstantKernel(2.0)
    + gaussian.Matern()
    + gaussian.RationalQuadratic()
    + gaussian.ConstantKernel(1e-4) * gaussian.ExpSineSquared()  # which is no kernel of several features
    + gaussian.DotProduct() ** 2
    + gaussian.WhiteKernel(2.0)
    + gaussian.PairwiseKernel(metric="rbf")
)
SUMS = kernels.Separable("linear", np.eye(2)) + 0.5 * kernels.Diagonal(["rbf", "laplacian"])
BLOCKS = (X @ X.T)[:, :, None, None] * np.eye(2)
ENCODED = (
    make_column_transformer(
        (OneHotEncoder(), ["colour"]),
        (OrdinalEncoder(), ["colour"]),
        (make_pipeline(SimpleImputer(add_indicator=True), Normalizer()), ["length"]),
        remainder="passthrough",
    ),
    StandardScaler(),
)
# (how a model is fitted, data that it takes)
MODELS: dict[str, tuple[Any, Any]] = {
    "model 1": (lambda: FixedKernelMetric(kernel=SUMS).fit(X, y), X),
    "model 2": (lambda: LearnedKernelMetric(2, random_state=np.random.RandomState(3)).fit(X, NAMES), X),
    "landmarks": (lambda: LearnedKernelMetric(n_landmarks=8).fit(X, y), X),
    "real targets": (lambda: LearnedKernelMetric(regression_weight=0.5).fit(X, X[:, 2:]), X),
    "precomputed": (lambda: FixedKernelMetric(kernel="precomputed").fit(X @ X.T, y), X @ X.T),
    "blocks": (lambda: FixedKernelMetric(kernel=kernels.Precomputed(BLOCKS)).fit(np.arange(25)[:, None], y), np.arange(25)[:, None]),
    "Gaussian process": (lambda: FixedKernelMetric(kernel=GAUSSIAN_PROCESS).fit(X, y), X),
    "sparse": (lambda: LearnedKernelMetric(kernel="cosine").fit(scipy.sparse.csr_array(X), y), scipy.sparse.csr_array(X)),
    "words": (lambda: LearnedKernelMetric(kernel=kernels.Spectrum(2)).fit(WORDS, y), WORDS),
    "words and votes": (
        lambda: make_pipeline(FixedKernelMetric(kernel=kernels.WeightedDegree(2, 1)), KNeighborsClassifier(3)).fit(WORDS, y),
        WORDS,
    ),
    "function": (lambda: FixedKernelMetric(kernel=likeness).fit(WORDS, y), WORDS),
    "matrix function": (lambda: FixedKernelMetric(kernel=kernels.Callable(likenesses, 2)).fit(WORDS, y), WORDS),
    "metric": (lambda: LearnedKernelMetric().fit(X, y).get_metric(), X),
    "linear metric": (lambda: LMNN().fit(X, y).get_metric(), X),
    "LMNN": (lambda: LMNN().fit(X, y), X),
    "ITML": (lambda: ITML(n_constraints=30, max_iter=5).fit(X, y), X),
    "kernel LMNN": (lambda: KernelLMNN().fit(X, y), X),
    "kernel ITML": (lambda: KernelITML(n_constraints=30).fit(X, y), X),
    "scalers": (lambda: learned(StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), FunctionTransformer()), X),
    "columns": (lambda: learned(PowerTransformer(), QuantileTransformer(n_quantiles=5), VarianceThreshold(), PCA(2)), X),
    "indicator": (lambda: make_pipeline(Normalizer(), MissingIndicator(features="all"), FunctionTransformer(doubled)).fit(X), X),
    "regression": (lambda: make_pipeline(StandardScaler(), LearnedKernelMetric(), KNeighborsRegressor()).fit(X, X[:, 3]), X),
    "neighbours": (lambda: KNeighborsClassifier(3, algorithm="ball_tree", weights="distance").fit(X, NAMES), X),
    "table": (lambda: learned(*ENCODED, data=table().fillna(1.0)), table().fillna(1.0)),
    "frames": (lambda: learned(StandardScaler(), PCA(2)).set_output(transform="pandas"), X),
    "search": (lambda: searched(StratifiedKFold(2)), X),
    "searches": (
        lambda: make_pipeline(
            StandardScaler(),
            MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [1.0]}, n_neighbors=1, cv=ShuffleSplit(2, random_state=0)),
        ).fit(X, y),
        X,
    ),
    "splitters": (
        lambda: searched(StratifiedGroupKFold(2)).set_params(
            param_grid=[
                *({"cv": [one]} for one in (GroupKFold(2), KFold(2), RepeatedKFold(n_splits=2))),
                *({"cv": [one]} for one in (RepeatedStratifiedKFold(n_splits=2), StratifiedShuffleSplit(2))),
            ]
        ),
        X,
    ),
    "classifier": (lambda: classifier(X), X),
    "classifier of a table": (lambda: classifier(table()), table()),
    "table model": (table_model, table()),
    "real table model": (real_table_model, table()),
}


# Files, and parts of files.


def parts(path: Path) -> tuple[str, dict[str, Any]]:
    """(text of the document, arrays) of a model's file."""
    with safetensors.safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return arrays.pop(storage.DOCUMENT).tobytes().decode(), arrays


def forge(path: Path, text: str, arrays: dict[str, Any]) -> None:
    """A file with a check sum that is right for whatever it holds."""
    arrays = {**arrays, storage.DOCUMENT: np.frombuffer(text.encode(), np.uint8)}
    safetensors.numpy.save_file(arrays, path, {storage.KEY: storage._digest(arrays)})


def raw(path: Path, header: Any, content: bytes = b"") -> None:
    """A file with any header."""
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)


@dataclass(frozen=True, eq=False)
class Sound:
    """A model as it was saved."""

    name: str
    model: Any
    data: Any
    content: bytes
    text: str
    arrays: dict[str, Any]

    @classmethod
    def of(cls, name: str, folder: Path) -> Sound:
        fit, data = MODELS[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit()
        path = folder / "sound"
        outmetric.save(model, path)
        return cls(name, model, data, path.read_bytes(), *parts(path))


# What a tampered document may hold at any place.
POOL: list[Any] = [
    *(None, True, -1, 0, 1, 3, 2**31, 2**62, 1e308, -0.5, 1.5, "", "rbf", "linear", "precomputed", "x" * 5000, [], [[]], {}),
    *([0] * 1000, {"float": "nan"}, {"float": "inf"}, {"float": "x"}, {"number": ["<f8", "x"]}, {"number": ["O", 1]}),
    *({"number": ["<i8", 3]}, {"number": ["|b1", True]}, {"tuple": [1, 2]}, {"tuple": 3}, {"tuple": []}, {"dict": [[1, 2]]}),
    *({"dict": []}, {"dict": [[[], 1]]}, {"slice": [0, 2**60, 1]}, {"slice": []}, {"slice": [None, None, None]}),
    *({"status": "DIVERGED"}, {"status": 1}, {"dtype": ["<f8", True]}, {"dtype": ["<f4", False]}, {"dtype": ["O", True]}),
    *({"dtype": ["(1000000,1000000)f8", False]}, {"masked": [[1], [0]]}, {"array": ["a0", False]}, {"array": ["a1", True]}),
    *({"array": ["a2", 1]}, {"text": ["a0", False]}, {"text": ["a3", True]}, {"objects": [[1, "a"], [2]]}, {"objects": [[], [0]]}),
    *({"objects": [[1], [2**40]]}, {"csr": [[1.0], [0], [0, 1], [1, 2**50], True]}, {"function": "eval"}, {"function": "doubled"}),
    *({"csr": [{"array": ["a0", False]}] * 3 + [[150, 4], False]}, {"random_state": {"tuple": ["MT19937", [0] * 624, 0, 0, 0.0]}}),
    *({"object": 0}, {"object": 1}, {"object": 2}, {"object": 10**6}, "passthrough", "drop", "auto", "mahalanobis", "pandas"),
]
# -1 and -2 have the same hash, and so have all tuples of them.
EQUAL_HASHES = [{"tuple": list(signs)} for signs in itertools.product([-1, -2], repeat=11)]


def walk(node: Any) -> Any:
    """All (container, key, value) below a node."""
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in pairs:
        yield node, key, value
        yield from walk(value)


def pick(rng: Any, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def one_value(rng: Any, document: Any, arrays: Any) -> None:
    """Some value takes the place of another: plain, of one of the kinds, or from elsewhere in the document."""
    places = list(walk(document))
    container, key, _ = pick(rng, places)
    container[key] = copy.deepcopy(pick(rng, POOL) if rng.random() < 0.7 else pick(rng, places)[2])


def near_number(rng: Any, document: Any, arrays: Any) -> None:
    """A number that is almost right."""
    places = [place for place in walk(document) if type(place[2]) in (int, float)]
    container, key, value = pick(rng, places)
    container[key] = pick(rng, [value + 1, value - 1, -value, 2 * value, 10**6, 0, float(value), str(value), [value]])


def object_for_a_value(rng: Any, document: Any, arrays: Any) -> None:
    """An object where a number, a text or an array is expected."""
    index = int(rng.integers(len(document["objects"])))
    entry = pick(rng, document["objects"][index:])
    places = [place for part in ("params", "state") for place in walk(entry[part])]
    if places:
        container, key, _ = pick(rng, places)
        container[key] = {"object": index}


def lost_or_foreign(rng: Any, document: Any, arrays: Any) -> None:
    """An attribute or a parameter is missing, or that of another object."""
    entry, other = pick(rng, document["objects"]), pick(rng, document["objects"])
    part = entry[pick(rng, ["params", "state"])]
    given = {**other["params"], **other["state"]}
    if part and rng.random() < 0.5:
        del part[pick(rng, list(part))]
    elif part and given:
        part[pick(rng, list(part))] = copy.deepcopy(pick(rng, list(given.values())))


def other_class(rng: Any, document: Any, arrays: Any) -> None:
    pick(rng, document["objects"])["class"] = pick(rng, sorted(STORABLE))


def swapped_objects(rng: Any, document: Any, arrays: Any) -> None:
    one, other = pick(rng, document["objects"]), pick(rng, document["objects"])
    part = pick(rng, ["class", "params", "state"])
    one[part], other[part] = copy.deepcopy((other[part], one[part]))


def shared_arrays(rng: Any, document: Any, arrays: Any) -> None:
    """One array in the place of several."""
    places = [place for place in walk(document) if place[1] in ("array", "text", "integers", "words")]
    if places:
        chosen = pick(rng, places)
        for container, key, _ in places:
            if rng.random() < 0.3 and key == chosen[1]:
                container[key] = copy.deepcopy(chosen[2])


def many_objects(rng: Any, document: Any, arrays: Any) -> None:
    """Very many objects that share all that they have."""
    entries, root = document["objects"], document["model"]
    index = int(rng.integers(len(entries)))
    if rng.random() < 0.5:
        entries += [copy.deepcopy(entries[index]) for _ in range(int(rng.integers(2, 3000)))]
        uses = [{"object": k} for k in range(len(entries))]
    else:
        uses = [{"object": index}] * int(rng.integers(2, 3000))
    entries.append({"class": "LearnedKernelMetric", "params": {"kernel_params": uses}, "state": {}})
    document["model"] = pick(rng, [root, {"object": len(entries) - 1}])


def nested(rng: Any, document: Any, arrays: Any) -> None:
    """An object within others, and so on, each of which has it once or twice."""
    entries = document["objects"]
    inner, times = int(rng.integers(len(entries))), int(rng.integers(1, 3))
    for _ in range(int(rng.integers(1, 60))):
        uses = [{"object": inner}] * times
        steps = [{"tuple": [f"step {k}", use]} for k, use in enumerate(uses)]
        wide = [{"tuple": [f"step {k}", use, {"slice": [None, None, None]}]} for k, use in enumerate(uses)]
        entries.append(
            {
                "Pipeline": {"class": "Pipeline", "params": {"steps": steps}, "state": {}},
                "KernelSum": {"class": "KernelSum", "params": {"kernels": uses}, "state": {}},
                "Diagonal": {"class": "Diagonal", "params": {"kernels": uses}, "state": {}},
                "Wide": {"class": "ColumnTransformer", "params": {"transformers": wide},
                         "state": {"transformers_": wide, "n_features_in_": 4}},
                "Search": {"class": "MetricSearchCV", "params": {"estimator": uses[0], "param_grid": {"dict": []}}, "state": {}},
            }[pick(rng, ["Pipeline", "Pipeline", "KernelSum", "Diagonal", "Wide", "Search"])]
        )  # fmt: skip
        inner = len(entries) - 1
    document["model"] = pick(rng, [document["model"], {"object": inner}])


def used_often(rng: Any, document: Any, arrays: Any) -> None:
    """Steps, kernels, members or columns are listed many times over."""
    lists = [place[2] for place in walk(document) if isinstance(place[2], list) and 0 < len(place[2]) < 50]
    if lists:
        chosen = pick(rng, lists)
        chosen[:] *= int(rng.integers(2, max(3, min(400, 200_000 // len(json.dumps(chosen))))))


def wide(rng: Any, document: Any, arrays: Any) -> None:
    """More features than data explain, in all arrays or in none."""
    factor = int(pick(rng, [2, 100, 10_000]))
    width = len(X[0])
    for container, key, value in list(walk(document)):
        if key in ("n_features_in_", "_n_features_out", "n_components_") and type(value) is int:
            container[key] = value * factor
    if rng.random() < 0.5:
        for name, array in arrays.items():
            if array.ndim and array.shape[-1] == width and array.size * factor < 2**17:
                arrays[name] = np.tile(array, factor)


def equal_hashes(rng: Any, document: Any, arrays: Any) -> None:
    """Very many keys, categories or names that have the same hash."""
    container, key, _ = pick(rng, [place for entry in document["objects"] for place in walk(entry)])
    node: Any = pick(rng, ["dict", "objects", "list"])
    if node == "dict":
        container[key] = {"dict": [[one, 0] for one in EQUAL_HASHES]}
    else:
        container[key] = {"objects": [EQUAL_HASHES, [len(EQUAL_HASHES)]]} if node == "objects" else EQUAL_HASHES


def other_numbers(rng: Any, document: Any, arrays: Any) -> None:
    """Arrays of other shapes, types or values."""
    name = pick(rng, list(arrays))
    old = arrays[name]
    shape = [int(rng.integers(0, 2 * length + 2)) for length in old.shape]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choices = [
            np.zeros(shape, old.dtype),
            old.astype(pick(rng, [np.float32, np.float64, np.int64, np.uint8, np.bool_])),
            old.ravel(),
            old[..., None],
            old[: len(old) // 2] if old.ndim else old,
            np.full_like(old, pick(rng, [0, 1, 2])),
            np.full(old.shape, pick(rng, [np.nan, np.inf, -1e308, 1e-308])),
            np.where(rng.random(old.shape) < 0.1, pick(rng, [np.nan, np.inf, 1e300, 0]), old),
            rng.integers(-(2**62), 2**62, shape),
        ]
    arrays[name] = np.ascontiguousarray(pick(rng, choices))


IN_DOCUMENTS = [
    *(one_value, one_value, one_value, near_number, near_number, object_for_a_value, lost_or_foreign, lost_or_foreign, other_class),
    *(swapped_objects, shared_arrays, many_objects, nested, used_often, wide, equal_hashes, other_numbers, other_numbers),
]


def tamper_with_content(rng: Any, path: Path, sound: Sound) -> None:
    document, arrays = json.loads(sound.text), dict(sound.arrays)
    for _ in range(int(rng.integers(1, 3))):
        with suppress(AttributeError, LookupError, TypeError, ValueError):  # where the first change left nothing for a second
            pick(rng, IN_DOCUMENTS)(rng, document, arrays)
    try:
        text = json.dumps(document)
    except (RecursionError, ValueError):  # it came to contain itself
        text = sound.text
    used = {name: array for name, array in arrays.items() if f'"{name}"' in text}  # or it would be refused for the others
    forge(path, text, used)


def tamper_with_header(rng: Any, path: Path, sound: Sound) -> None:
    content = sound.content
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    name = pick(rng, [name for name in header if name != "__metadata__"])
    field = pick(rng, ["dtype", "shape", "data_offsets"])
    values = {"dtype": ["F64", "I64", "U8", "BOOL", "BF16", "F8_E5M2", "O", 3],
              "shape": [[], [2**40], [0, 2**40], [-1], [150, 4], "x"],
              "data_offsets": [[0, 0], [0, 2**60], [5, 1], [-8, 8], [0]]}[field]  # fmt: skip
    header[name][field] = pick(rng, values)
    raw(path, header, content[8 + length :])


def tamper_with_bytes(rng: Any, path: Path, sound: Sound) -> None:
    content = bytearray(sound.content)
    places = rng.integers(0, len(content), rng.integers(1, 9))
    start = int(places[0])
    some = rng.bytes(int(rng.integers(1, 64)))
    choices = [
        lambda: [content.__setitem__(place, content[place] ^ int(rng.integers(1, 256))) for place in places.tolist()],
        lambda: content.__delitem__(slice(start, None)),
        lambda: content.__setitem__(slice(start, start), some),
        lambda: content.__delitem__(slice(start, start + 40)),
        lambda: content.__setitem__(slice(0, 8), rng.bytes(8)),
        lambda: content.__setitem__(slice(0, None), rng.bytes(int(rng.integers(0, 4000)))),
        lambda: content.__setitem__(slice(8, 8 + len(some)), some),
    ]
    pick(rng, choices)()
    path.write_bytes(content)


def tamper(rng: Any, path: Path, sound: Sound) -> None:
    """A file that was made of a sound one."""
    share = rng.random()
    way = tamper_with_header if share < 0.03 else tamper_with_bytes if share < 0.06 else tamper_with_content
    way(rng, path, sound)


# What a model that was loaded is asked.


def right_rows(model: Any, sound: Sound) -> Any:
    """Two rows of the kind that a loaded model says it takes: those of the sound model, unless it says otherwise."""
    if type(model).__name__ == "TableModel":
        kinds = model.columns.kinds_by_name
        known = sound.data if isinstance(sound.data, pd.DataFrame) else table()
        usual = {"number": 1.0, "category": "blue"}
        return pd.DataFrame({name: known[name][:2] if name in known else [usual[kind]] * 2 for name, kind in kinds.items()})
    data = sound.data[:2]
    if hasattr(model, "metric_factor"):
        width = getattr(model, "points", model.metric_factor).shape[1:]
        return data if not width or width == data.shape[1:] else np.ones((2, *width))
    width = getattr(model, "n_features_in_", None)
    names = getattr(model, "feature_names_in_", None)
    if type(model) is not type(sound.model):  # a part of it
        return _rows_of(model, width)
    if isinstance(data, pd.DataFrame) and names is not None and width == data.shape[1]:
        return data.set_axis(list(names), axis=1)
    if width is not None and width != np.shape(data)[1]:
        return np.ones((2, width))
    return data


def _rows_of(model: Any, width: Any) -> Any:
    first = model.steps[0][1] if hasattr(model, "steps") and model.steps else model
    if hasattr(first, "categories_"):
        rows = np.empty((2, len(first.categories_)), dtype=object)
        rows[:] = [values[0] for values in first.categories_]
        return rows
    if hasattr(getattr(first, "metric_", None), "points"):
        points = first.metric_.points
        takes = first.metric_.kernel.takes
        return points[:2] if takes != "kernel values" else np.ones((2, len(points)))
    if type(first).__name__ == "ColumnTransformer":
        return table().fillna(1.0)[:2]
    return None if width is None else np.ones((2, width))


def outputs(model: Any, rows: Any) -> list[Any]:
    """All that a model has to say about data."""
    if hasattr(model, "coordinates") and not hasattr(model, "transform"):
        return [model.coordinates(rows)]
    names = ["transform", "predict", "predict_proba"]
    if type(model).__name__ == "TableModel" and not model.columns.classes:
        names.remove("predict_proba")  # it has none of real targets, and says so
    return [getattr(model, name)(rows) for name in names if hasattr(model, name)]


def is_unfitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        return True
    return False


def outcome(path: Path, sound: Sound) -> tuple[str, str]:
    """What came of a file: "refused", "loaded", or what must not be, with its text."""
    try:
        model = outmetric.load(path, functions=FUNCTIONS)
    except ModelFileError as error:
        return "refused", str(error)
    try:
        rows = right_rows(model, sound)
        if rows is not None:
            outputs(model, rows)
    except ModelFileError:
        return "refused", ""
    except NotFittedError as error:
        return ("unfitted", "") if is_unfitted(model) else ("error", f"NotFittedError: {error}")
    return "loaded", ""


@dataclass
class Watched:
    """What came of a case, and what it took."""

    what: str
    text: str
    seconds: float
    n_bytes: int
    allowed: int


def watched(path: Path, sound: Sound, *, traced: bool) -> Watched:
    """The same, with what it took: bytes as Python counts them, which takes its time, or as the system does, where it tells."""
    allowed = BYTES_EACH * path.stat().st_size + BYTES
    if traced:
        tracemalloc.start()
    else:
        before = _resident(reset=True)
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            what, text = outcome(path, sound)
    except Exception as error:  # each is a finding
        trace, places = error.__traceback__, []
        while trace is not None:
            places.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
            trace = trace.tb_next
        what, text = "error", f"{type(error).__name__}: {error} [{' '.join(places[-6:])}]"
    seconds = 0.0 if traced else time.process_time() - began
    n_bytes = tracemalloc.get_traced_memory()[1] if traced else _resident() - before
    tracemalloc.stop()
    return Watched(what, text, seconds, n_bytes, allowed)


def _resident(*, reset: bool = False) -> int:
    """The largest resident size since the last reset, in bytes; 0 where the system does not tell."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


# The long run.

CHUNK, PATIENCE = 500, 60


def _chunk(name: str, start: int, stop: int, folder: Path) -> None:
    """Cases of one model, each told of in a line; the last line is of the case that ended the process, should one do so."""
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
    set_config(assume_finite=False)
    sound = Sound.of(name, folder)
    path = folder / "model"
    with open(folder / "told", "a", buffering=1) as told:
        for seed in range(start, stop):
            told.write(f"{seed} ")
            tamper(np.random.default_rng([seed, list(MODELS).index(name)]), path, sound)
            found = watched(path, sound, traced=seed % 20 == 0)
            tags = [found.what]
            if found.seconds > SECONDS:
                tags.append(f"SLOW {found.seconds:.1f}")
            if found.n_bytes > found.allowed:
                tags.append(f"LARGE {found.n_bytes / found.allowed:.1f}")
            told.write(f"{','.join(tags)} {found.text[:600]!r}\n" if found.what == "error" or len(tags) > 1 else f"{found.what}\n")


def run(n_cases: int, folder: Path, names: list[str], first: int = 0) -> Counter[str]:
    """So many cases, divided among the models; findings are told in the folder as they come."""
    counts: Counter[str] = Counter()
    each = -(-n_cases // len(names))
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "findings", "a", buffering=1) as findings:
        for begin in range(first, first + each, CHUNK):
            for name in names:
                _watch(name, begin, min(begin + CHUNK, first + each), folder, counts, findings)
                (folder / "counts").write_text(json.dumps(counts, indent=1))
    return counts


def _watch(name: str, start: int, stop: int, folder: Path, counts: Counter[str], findings: Any) -> None:
    told = folder / "told"
    while start < stop:
        told.write_text("")
        worker = subprocess.Popen([sys.executable, __file__, "--chunk", name, str(start), str(stop), str(folder)])
        size, since = -1, time.monotonic()
        while worker.poll() is None:
            time.sleep(0.2)
            now = told.stat().st_size
            size, since = (now, time.monotonic()) if now != size else (size, since)
            if time.monotonic() - since > PATIENCE:
                worker.kill()
                worker.wait()
        lines = told.read_text().splitlines()
        for line in lines:
            seed, _, rest = line.partition(" ")
            what, _, text = rest.partition(" ")
            ended = not what.strip()
            tags = ["hang" if worker.returncode == -9 else "crash"] if ended else what.split(",")
            counts.update(["cases", *(tag.split()[0] for tag in tags)])
            if text or ended:
                counts["slow"] += "SLOW" in rest
                findings.write(f"{name} {seed} {what or tags[0]} {text}\n")
        if worker.returncode == 0 and len(lines) == stop - start:
            return
        if not lines:
            findings.write(f"{name} {start} no case could be begun\n")
            return
        start = int(lines[-1].split()[0]) + 1


if __name__ == "__main__":
    if sys.argv[1] == "--chunk":
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        _chunk(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    else:
        chosen = sys.argv[4].split(",") if len(sys.argv) > 4 else list(MODELS)
        print(run(int(sys.argv[1]), Path(sys.argv[2]), chosen, int(sys.argv[3]) if len(sys.argv) > 3 else 0))
