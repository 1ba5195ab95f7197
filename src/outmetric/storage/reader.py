"""Values from what a writer collected.

Reading calls constructors, which check and store, and nothing else that a file could choose: only classes that say how they are
stored are known, and whoever reads brings the functions that are named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from outmetric.foundation import GENEROSITY, STORABLE, Array, Storing, how_stored, objects
from outmetric.storage.document import KNOWN_DTYPES, LOCAL, Node, is_attribute, n_numbers

# A kernel may be made of so many.
KERNELS = 1000
LARGEST_CODE_POINT = 0x10FFFF
# Words in the state of NumPy's legacy generator.
TWISTER = 624


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
            **{name: kind.__getitem__ for name, kind in STORABLE.items() if issubclass(kind, Enum)},
            "integers": self._integers,
            "words": self._words,
            "float": {"nan": np.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__,
            "number": self._number,
            "tuple": lambda content: tuple(self._values(content)),
            "dict": self._dict,
            "slice": lambda content: slice(*self._values(_sized(content, 3))),
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
        self._referred += self._kernels[index]
        return self._made[index]

    def _make(self, entry: dict[str, Any]) -> Any:
        kind, storing = _known_class(entry["class"])
        self._referred = 0
        params, state = ({name: self.value(node) for name, node in _mapping(entry[part]).items()} for part in ("params", "state"))
        if not LOCAL.isdisjoint([*params, *state]):
            raise ValueError(f"it sets one of {sorted(LOCAL)}, which belong to a machine")
        # Kernels that hold the same kernel twice, and so on, would be evaluated forever.
        self._kernels.append(self._referred + storing.is_kernel)
        if self._kernels[-1] > KERNELS and not storing.holds_models:
            raise ValueError(f"a kernel is made of {self._kernels[-1]} others")
        self._charge(8 * sum(n_numbers(value) for value in params.values()))
        if state and not issubclass(kind, BaseEstimator):
            raise ValueError(f"{kind.__name__} has no fitted attributes")
        found = kind(**params)
        if state and storing.restore is not None:
            storing.restore(found, state, self._charge)
            state = {}
        for name, value in state.items():
            if not is_attribute(name, kind, storing):
                raise ValueError(f"{kind.__name__} has no attribute {name[:100]!r}")
            vars(found)[name] = value
        width = getattr(found, "n_features_in_", None)
        if width is not None and not (isinstance(width, int | np.integer) and 0 < width < 2**31):
            raise ValueError(f"{kind.__name__} claims {width} features")
        for check in storing.checks:
            check(found, self.size)
        return found


def _known_class(name: Any) -> tuple[type, Storing]:
    kind = STORABLE.get(name)
    storing = None if kind is None else how_stored(kind)
    if kind is None or storing is None or issubclass(kind, Enum):
        shown = str(name)[:100]
        advice = ": import the package that registers it, by outmetric.storage.register(cls, name)" if "." in shown else ""
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
