"""Values from what a writer collected.

Reading calls constructors, which check and store, and nothing else that a file could choose: only classes that say how they are
stored are known, and whoever reads brings the functions that are named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from outmetric.foundation import (
    GENEROSITY,
    REGISTERED,
    STORABLE,
    Array,
    Storing,
    as_records,
    described,
    how_stored,
    objects,
    sample_of,
    tried_for,
    try_out,
)
from outmetric.storage.document import DEPTH, KNOWN_DTYPES, LOCAL, Node, is_attribute, n_numbers

# A kernel may be made of so many.
KERNELS = 1000
# A model may be made of so many objects, counted as often as they are used, and of so many for each in the file.
OBJECTS, OBJECTS_EACH = 10_000, GENEROSITY
# Bytes that may be allocated for any file, beside a share for each byte of it.
MEMORY = 2**24
# Work is counted in numbers that are looked at. So much may be done for any file, beside a share for each byte of it.
WORK = 2**26
# What it takes to check an object, or to make one, to call one that is fitted, or to evaluate a kernel, whatever its size.
CHECKED, MADE, CALLED, EVALUATED = 2000, 100, 100_000, 40_000
# For each number of a matrix that is checked for being positive semi-definite, times its side: factors are fast, but what a
# file shares among kernels is factored for each.
CUBIC, CUBIC_SHARED = 1 / 64, 1 / 4
# Sparse rows may have so many columns, beside a share for each byte of the file; a single dense row takes 8 bytes for each.
COLUMNS = 2**23
# Keys that are neither text nor numbers; files can be made so that all of those have the same hash.
ODD_KEYS = 100
# Whole numbers are of at most 64 bits, and no float needs more letters than this.
DIGITS, LONGEST_FLOAT = 20, 40
LARGEST_CODE_POINT = 0x10FFFF
# Letters that take the place of a number in an array.
NUMBER = 2
# Words in the state of NumPy's legacy generator.
TWISTER = 624


@dataclass(frozen=True)
class Extent:
    """What an object takes, with those that it refers to, each as often as it does: sharing saves room, but no work."""

    kernels: int = 0
    objects: int = 0
    numbers: int = 0
    work: int = 0  # for a row
    depth: int = 0  # of models within models

    def __add__(self, other: Extent) -> Extent:
        kernels, objects = self.kernels + other.kernels, self.objects + other.objects
        depth = max(self.depth, other.depth)
        return Extent(kernels, objects, self.numbers + other.numbers, self.work + other.work, depth)


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
        self._extents: list[Extent] = []
        # What has been read of the present object: numbers of its own, and objects that it refers to.
        self._numbers, self._referred = 0, Extent()
        # Letters of the longest word in the present sequence.
        self._longest = NUMBER
        self._converted: dict[tuple[str, Any], Any] = {}
        self._left = GENEROSITY * size + MEMORY
        self._work_left = GENEROSITY * size + WORK
        # Bytes of matrices that kernels were made of; more than the file has are shared.
        self._squared = 0
        self._kinds: dict[str, Callable[[Any], Any]] = {
            **{name: kind.__getitem__ for name, kind in STORABLE.items() if issubclass(kind, Enum)},
            "integers": self._integers,
            "words": self._words,
            "float": {"nan": np.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__,
            "number": self._number,
            "tuple": lambda content: tuple(self._sequence(content)),
            "dict": self._dict,
            "slice": lambda content: slice(*self._values(_sized(content, 3))),
            "dtype": self._dtype,
            "masked": self._masked,
            "array": self._array,
            "text": self._text,
            "objects": self._objects,
            "csr": self._sparse,
            "records": self._records,
            "random_state": self._random_state,
            "function": self._function,
            "object": self._reference,
        }

    def read(self, root: Node, entries: Any) -> Any:
        """The model; ``entries`` are the objects it is made of."""
        for entry in _list(entries):
            self._made.append(self._make(_exactly(entry, {"class", "params", "state"})))
        self._numbers, self._referred = 0, Extent()
        model = self.value(root)
        unused = set(self.arrays) - self.used
        if unused:
            raise ValueError(f"nothing refers to {len(unused)} of its arrays")
        self._charge(0, self._referred.work)
        # Where a model as a whole cannot be tried, its parts may.
        if not all(try_out(part, self.size) for part in tried_for(model, self.size)):
            for made, extent in zip(self._made, self._extents, strict=True):
                for part in tried_for(made, self.size):
                    if sample_of(part, self.size) is not None:
                        self._charge(0, extent.work)
                        try_out(part, self.size)
        return model

    def value(self, node: Node) -> Any:
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return self._sequence(node)
        ((kind, content),) = _sized(list(node.items()), 1)
        if kind not in self._kinds:
            raise ValueError(f"it holds a value of the unknown kind {kind[:100]!r}")
        return self._kinds[kind](content)

    def _values(self, nodes: Any) -> list[Any]:
        self._numbers += len(_list(nodes))
        return [self.value(node) for node in _list(nodes)]

    def _sequence(self, nodes: Any) -> list[Any]:
        """Values of which NumPy may make an array, where each takes the place of the longest word among them."""
        outside, self._longest = self._longest, NUMBER
        before = self._numbers
        values = self._values(nodes)
        longest = max([self._longest, *(len(value) for value in values if isinstance(value, str))])
        self._charge(4 * longest * (self._numbers - before))
        self._longest = max(outside, longest)
        return values

    def _number(self, content: Any) -> Any:
        dtype, node = _sized(content, 2)
        value = self.value(node)
        if type(value) not in (bool, int, float):
            raise ValueError(f"a number was expected, not {type(value).__name__}")
        return _known_dtype(dtype).type(value)

    def _dict(self, content: Any) -> Any:
        keys = [self.value(_sized(pair, 2)[0]) for pair in _list(content)]
        if sum(not isinstance(key, str | bool | int | float | np.generic | None) for key in keys) > ODD_KEYS:
            raise ValueError("a dictionary has too many keys that are neither text nor numbers")
        found = dict(zip(keys, self._values([pair[1] for pair in content]), strict=True))
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

    def _charge(self, n_bytes: int, work: int = 0) -> None:
        self._left -= n_bytes
        self._work_left -= work
        if self._left < 0 or self._work_left < 0:
            raise ValueError(f"it takes far more {'memory' if self._left < 0 else 'work'} than a file of its size should")

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
        self._numbers += len(found)
        self._charge(8 * len(found))
        return list(found)

    def _words(self, content: Any) -> Any:
        name, shape = _sized(content, 2)

        def make(found: Array) -> Array:
            words = parse(found.tobytes())
            if found.dtype != np.uint8 or not all(type(word) is str for word in _list(words)):
                raise ValueError("an array of words is none")
            return objects(words)

        found = self._once("words", name, make)
        return found.reshape(_shape(shape, len(found)))

    def _stored(self, name: Any) -> Array:
        self.used.add(name)
        found = self.arrays[name]
        self._numbers += found.size
        return found

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

    def _records(self, content: Any) -> Any:
        names, nodes = _sized(content, 2)
        columns = self._values(nodes)
        if len(_list(names)) != len(columns) or not columns:
            raise ValueError("a table has not as many names as columns")
        for column in columns:
            if not (isinstance(column, np.ndarray) and column.dtype in (np.float64, object) and column.shape == (len(columns[0]),)):
                raise ValueError("the columns of a table are none, or of different lengths")
        self._charge(sum(column.nbytes for column in columns))
        return as_records(names, columns)

    def _sparse(self, content: Any) -> Any:
        *parts, shape, is_array = _sized(content, 5)
        data, indices, indptr = self._values(parts)
        rows, columns = _sized(shape, 2)
        self._charge(16 * (np.size(data) + np.size(indices) + np.size(indptr)))
        if not (_holds(data, "biuf") and _holds(indices, "iu") and _holds(indptr, "iu")):
            raise ValueError("the entries of a sparse matrix are none")
        if type(rows) is not int or type(columns) is not int or len(indptr) != rows + 1 or not 0 <= columns < 2**31:
            raise ValueError("the shape of a sparse matrix does not fit to its entries")
        if columns > COLUMNS + GENEROSITY * self.size // 8:
            raise ValueError(f"a sparse matrix claims {columns} columns, of which a file of this size knows nothing")
        kind = scipy.sparse.csr_array if is_array else scipy.sparse.csr_matrix
        found = kind((data, indices, indptr), shape=(rows, columns))
        found.check_format(full_check=True)
        return found

    def _random_state(self, content: Any) -> Any:
        # NumPy takes over all of it as it is, and reads wherever the position says.
        state = self.value(content)
        name, words, position, has_gauss, gauss = state if type(state) is tuple and len(state) == 5 else (None,) * 5
        if (
            name != "MT19937"
            or not (isinstance(words, np.ndarray) and words.dtype == np.uint32 and words.shape == (TWISTER,) and words.any())
            or not (type(position) is int and 0 <= position <= TWISTER)
            or not (type(has_gauss) is int and has_gauss in (0, 1))
            or not (type(gauss) is float and math.isfinite(gauss))
        ):
            raise ValueError("the state of a random number generator is none")
        found = np.random.RandomState()
        found.set_state(state)
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
        self._referred += self._extents[index]
        return self._made[index]

    def _make(self, entry: dict[str, Any]) -> Any:
        kind, storing = _known_class(entry["class"])
        self._numbers, self._referred = 0, Extent()
        params, state = ({name: self.value(node) for name, node in _mapping(entry[part]).items()} for part in ("params", "state"))
        if not LOCAL.isdisjoint([*params, *state]):
            raise ValueError(f"it sets one of {sorted(LOCAL)}, which belong to a machine")
        # Objects that hold the same one twice, and so on, would be evaluated forever.
        extent = self._referred + Extent(int(storing.is_kernel), 1, self._numbers)
        if extent.kernels > KERNELS and not storing.holds_models:
            raise ValueError(f"a kernel is made of {extent.kernels} others")
        extent = replace(extent, depth=extent.depth + storing.holds_models)
        if extent.depth > DEPTH:
            raise ValueError(f"it has models within models, more than {DEPTH} deep")
        if extent.objects > OBJECTS + OBJECTS_EACH * (1 + len(self._extents)):
            raise ValueError(f"a model is made of {extent.objects} others")
        squares = [value for value in params.values() if storing.is_kernel and np.ndim(value) == 2]
        self._charge(8 * sum(n_numbers(value) for value in params.values()), sum(map(self._factoring, squares)))
        if state and not issubclass(kind, BaseEstimator):
            raise ValueError(f"{kind.__name__} has no fitted attributes")
        found = kind(**params)
        fitted = bool(state)
        if state and storing.restore is not None:
            storing.restore(found, state, self._charge)
            state = {}
        for name, value in state.items():
            if not is_attribute(name, kind, storing):
                raise ValueError(f"{kind.__name__} has no attribute {name[:100]!r}")
            vars(found)[name] = value
        width = getattr(found, "n_features_in_", None)
        if hasattr(found, "n_features_in_") and not (isinstance(width, int | np.integer) and 0 < width < 2**31):
            raise ValueError(f"{kind.__name__} claims {described(width)} features")
        _check_names(found, width)
        extent = replace(extent, work=_work(found, extent, storing, fitted))
        self._extents.append(extent)
        parts = 1 if storing.holds_models else 1 + extent.kernels
        self._charge(0, self._numbers + parts * (CHECKED if storing.checks else MADE))
        for check in storing.checks:
            check(found, self.size)
        return found

    def _factoring(self, matrix: Any) -> int:
        """The work of a check for being positive semi-definite."""
        self._squared += np.asarray(matrix).nbytes
        return int((CUBIC_SHARED if self._squared > self.size else CUBIC) * len(matrix) ** 3)


def _work(found: Any, extent: Extent, storing: Storing, fitted: bool) -> int:
    """What it takes to use an object for a row."""
    own = 0 if storing.work is None else storing.work(found)
    if storing.holds_models:
        return extent.work + extent.numbers + own + CALLED * fitted
    return (1 + extent.kernels) * (extent.numbers + EVALUATED * (extent.kernels > 0)) + own


def _check_names(found: Any, width: Any) -> None:
    names = getattr(found, "feature_names_in_", None)
    if names is None:
        return
    if not isinstance(names, np.ndarray) or names.shape != (width,) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{type(found).__name__} has names of features that are none")
    if len(set(names)) < len(names):
        raise ValueError(f"{type(found).__name__} has features of the same name")


def parse(text: bytes) -> Any:
    """JSON that has one meaning only: each key once, and no number beyond what a float or an array can hold."""
    return json.loads(
        text.decode(),  # as UTF-8; json would guess
        parse_constant=_no_number,
        parse_float=_finite,
        parse_int=lambda number: int(number) if len(number) <= DIGITS else _no_number(f"a number of {len(number)} digits"),
        object_pairs_hook=_each_once,
    )


def _finite(number: str) -> float:
    value = float(number) if len(number) <= LONGEST_FLOAT else math.inf
    return value if math.isfinite(value) else _no_number(f"{number:.20}")


def _no_number(what: str) -> Any:
    raise ValueError(f"it holds {what} where a number should be")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it says something twice")
    return found


def _known_class(name: Any) -> tuple[type, Storing]:
    kind = STORABLE.get(name)
    storing = None if kind is None else how_stored(kind)
    if kind is None or storing is None or issubclass(kind, Enum):
        shown = str(name)[:100]
        by = "kernels.register(name, cls)" if shown.startswith(REGISTERED) else "storage.register(cls, name)"
        advice = f": import the package that registers it, by outmetric.{by}" if set(shown) & {".", ":"} else ""
        raise ValueError(f"it holds an object of the unknown class {shown!r}{advice}")
    return kind, storing


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


def _holds(value: Any, kinds: str) -> bool:
    """Whether it is an array of numbers of these kinds."""
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds


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
