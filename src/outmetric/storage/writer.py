"""Fitted models as plain data: a JSON document for their structure beside named arrays for their numbers.

Only objects of classes that say how they are stored are written. An object is the name of its class, the constructor's parameters
and, for estimators, the fitted attributes; objects that are shared stay shared. Functions are not stored but named.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import UserList
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import signature
from types import FunctionType
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from outmetric.foundation import Array, Storing, how_stored
from outmetric.storage.document import DEPTH, DTYPES, LARGEST_INTEGER, LOCAL, SHORT, Node, is_attribute
from outmetric.storage.errors import NotStorableError


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
        self._depth = 0  # of models within models, at present
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
        kind = type(value)
        storing = how_stored(kind)
        if storing is not None:
            return {storing.name: value.name} if isinstance(value, Enum) else self._object(value, storing, where)
        what = "a nameless function" if kind is FunctionType else f"a {kind.__module__}.{kind.__qualname__}"
        raise NotStorableError(
            f"{where} is {what}, which cannot be stored. Models of this library, scikit-learn's usual preparations, named "
            "functions, arrays, numbers, text and containers of these can; so can estimators of your own, after "
            "outmetric.storage.register, and kernels that are frozen dataclasses, after outmetric.kernels.register. Pickle takes "
            "more, but is not safe to load."
        )

    def _nodes(self, values: Any, where: str) -> list[Node]:
        return [self.node(value, f"{where}[{index}]") for index, value in enumerate(values)]

    def _array(self, value: Array, where: str) -> Node:
        if value.dtype.kind == "O" and value.size > SHORT and all(type(item) in (str, np.str_) for item in value.flat):
            words = json.dumps(value.ravel().tolist()).encode()
            return {"words": [self._keep(np.frombuffer(words, np.uint8)), list(value.shape)]}
        if value.dtype.kind == "O":
            return {"objects": [self._nodes(value.ravel().tolist(), where), list(value.shape)]}
        if value.dtype.names is not None and value.ndim == 1:
            return {"records": [list(value.dtype.names), self._nodes([value[name] for name in value.dtype.names], where)]}
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

    def _object(self, value: Any, storing: Storing, where: str) -> Node:
        if id(value) not in self._seen:
            where = f"{where}.{type(value).__name__}" if where == "the model" else where
            params, state = _parts(value, storing)
            self._depth += storing.holds_models
            if self._depth > DEPTH:
                raise NotStorableError(f"{where} is within other models, more than {DEPTH} deep; make one Pipeline of several.")
            entry = {
                "class": storing.name,
                "params": {name: self.node(item, f"{name} of {where}") for name, item in params.items()},
                "state": {name: self.node(item, f"{name} of {where}") for name, item in state.items()},
            }
            self._depth -= storing.holds_models
            self.objects.append(entry)
            self._seen[id(value)] = {"object": len(self.objects) - 1}, value
        return self._seen[id(value)][0]


def _parts(value: Any, storing: Storing) -> tuple[dict[str, Any], dict[str, Any]]:
    """The constructor's parameters of an object, and its fitted attributes."""
    if not isinstance(value, BaseEstimator):
        return _arguments(value), {}
    usual = {name: one.default if storing.omits_defaults else one.empty for name, one in signature(type(value)).parameters.items()}
    given = {name: item for name, item in value.get_params(deep=False).items() if name not in LOCAL}
    params = {name: item for name, item in given.items() if item is not usual[name]}
    if callable(params.get("verbose")):
        params["verbose"] = False
    if storing.state is not None:
        return params, storing.state(value)
    state = {name: item for name, item in vars(value).items() if name not in given and name not in storing.transient | LOCAL}
    for name in state:
        if not is_attribute(name, type(value), storing):
            raise NotStorableError(
                f"{type(value).__name__} has the attribute {name!r}, which cannot be stored: its name must be that of no attribute "
                "of the class, and must not begin with two underscores."
            )
    return params, state


def _arguments(value: Any) -> dict[str, Any]:
    """What the constructor of a dataclass, a splitter or a kernel of scikit-learn was given."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.name not in LOCAL}
    given = {**getattr(value, "cvargs", {}), **vars(value)}
    return {name: given[name] for name in signature(type(value)).parameters if name in given}
