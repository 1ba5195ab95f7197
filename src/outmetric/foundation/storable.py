"""How objects of a class are stored, and tried when read. A class says so itself; the room `storage` knows none by its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from outmetric.foundation.registry import Registry

Class = TypeVar("Class", bound=type)
Check = Callable[[Any, int], None]
# For each byte of a file reading may allocate so many.
GENEROSITY = 64
# What a model may be asked about rows.
METHODS = ("transform", "coordinates", "predict", "predict_proba")
# How the names of classes begin that are stored under the name of a kernel, whose owner may give them a name of their own later.
REGISTERED = "kernel:"
# By their names in files.
STORABLE: Registry[type] = Registry("storable class")


class Charge(Protocol):
    """Is told how many bytes are about to be allocated and how many numbers looked at; ValueError if that is out of proportion."""

    def __call__(self, n_bytes: int, work: int = 0) -> None: ...


@dataclass(frozen=True)
class Storing:
    """How objects of a class are stored.

    Attributes
    ----------
    name : str or None
        In files. None for a base class that only says what holds for those derived from it.
    checks : tuple of functions of the object and the size of its file in bytes
        They raise ValueError for what does not fit together, and may set what is derived.
    is_kernel : bool
        Whether it is evaluated with the kernels it is made of, whose number is limited.
    holds_models : bool
        Whether it may hold any number of kernels, since each belongs to a model of its own, and was checked with that.
    transient : frozenset of str
        Attributes that belong to a process rather than to a model, and are left out.
    omits_defaults : bool
        Whether parameters that have their default are left out.
    state : function of the object, optional
        What is stored as its fitted attributes, if not these.
    restore : function of the object, that state and a `Charge`, optional
        Fits the object again.
    sample : function of the object and the size of its file in bytes, optional
        A row of data that it takes, for a trial; None if it cannot be made up.
    used : function of the object and the size of its file in bytes, optional
        The objects that are used in its place, and tried.
    asks : function of the object, optional
        Functions of a row that are called when it is tried; by default the usual methods.
    work : function of the object, optional
        How many numbers are looked at when it is used for a row, beside its own and those of what it refers to.
    """

    name: str | None = None
    checks: tuple[Check, ...] = ()
    is_kernel: bool = False
    holds_models: bool = False
    transient: frozenset[str] = frozenset()
    omits_defaults: bool = False
    state: Callable[[Any], dict[str, Any]] | None = None
    restore: Callable[[Any, dict[str, Any], Charge], None] | None = None
    sample: Callable[[Any, int], Any] | None = None
    used: Callable[[Any, int], Collection[Any]] | None = None
    asks: Callable[[Any], list[Callable[[Any], Any]]] | None = None
    work: Callable[[Any], int] | None = None


_said: dict[type, Storing] = {}


def storable(
    name: str | None = None,
    *,
    check: Check | None = None,
    is_kernel: bool = False,
    holds_models: bool = False,
    transient: Collection[str] = (),
    omits_defaults: bool = False,
    state: Callable[[Any], dict[str, Any]] | None = None,
    restore: Callable[[Any, dict[str, Any], Charge], None] | None = None,
    sample: Callable[[Any, int], Any] | None = None,
    used: Callable[[Any, int], Collection[Any]] | None = None,
    asks: Callable[[Any], list[Callable[[Any], Any]]] | None = None,
    work: Callable[[Any], int] | None = None,
) -> Callable[[Class], Class]:
    """A decorator for classes whose objects may be in model files: estimators, frozen dataclasses and enumerations.

    Whoever loads a file lets it call the constructor with any arguments, so that must only check and store. Of ``check``,
    ``is_kernel``, ``holds_models``, ``transient`` and ``sample``, what is said of a class holds for those derived from it as well.

    Parameters
    ----------
    name : str, optional
        Part of the file format: a class that moves or is renamed keeps it. Without one the class itself is not stored, but what is
        said holds for those derived from it.
    check : function, optional
        Takes the object and the size of its file in bytes, and raises ValueError if the object does not fit together.

    See `Storing` for the others.
    """
    checks = () if check is None else (check,)
    own = frozenset(transient)
    said = Storing(name, checks, is_kernel, holds_models, own, omits_defaults, state, restore, sample, used, asks, work)

    def enter(kind: Class) -> Class:
        if name is not None:
            earlier = STORABLE.get(name)
            # A class that is defined once more, by a cell of a notebook for instance, takes its earlier self's place.
            again = earlier is not None and (earlier.__module__, earlier.__qualname__) == (kind.__module__, kind.__qualname__)
            STORABLE.add(name, kind, replace=again)
            if earlier is not None and again:
                _said.pop(earlier, None)
        _said[kind] = said
        return kind

    return enter


def how_stored(kind: type) -> Storing | None:
    """How objects of exactly this class are stored, by what it and its bases say; None if they are not."""
    if kind not in _said or _said[kind].name is None:
        return None
    chain = [_said[base] for base in reversed(kind.__mro__) if base in _said]
    return replace(
        _said[kind],
        checks=tuple(check for said in chain for check in said.checks),
        is_kernel=any(said.is_kernel for said in chain),
        holds_models=any(said.holds_models for said in chain),
        transient=frozenset(name for said in chain for name in said.transient),
        sample=next((said.sample for said in reversed(chain) if said.sample is not None), None),
    )


def sample_of(found: Any, size: int) -> Any:
    """A row that an object read from a file of this size takes; None if it cannot be made up, or trying it could take any time."""
    storing = how_stored(type(found))
    return None if storing is None or storing.sample is None else storing.sample(found, size)


def row_of_numbers(found: Any, size: int) -> Any:
    """A row of ones, sparse if it is longer than what data of the file explain; None if it is not known how long it is."""
    width = getattr(found, "n_features_in_", None)
    if width is None:
        return None
    if width > size:
        return scipy.sparse.csr_array((np.ones(1), ([0], [0])), shape=(1, width))
    return np.ones((1, width))


def tried_for(found: Any, size: int) -> Iterator[Any]:
    """What is tried to see whether an object can be used: itself, or what it says is used in its place."""
    storing = how_stored(type(found))
    for part in [found] if storing is None or storing.used is None else storing.used(found, size):
        if type(part) is type(found):
            yield part
        else:
            yield from tried_for(part, size)


def try_out(found: Any, size: int) -> bool:
    """Ask a fitted model for all that it has to say of a row; whether that was possible. What it raises tells what is wrong."""
    row = sample_of(found, size)
    if row is None or (isinstance(found, BaseEstimator) and not is_fitted(found)):
        return False
    storing = how_stored(type(found))
    for ask in usual_questions(found) if storing is None or storing.asks is None else storing.asks(found):
        try:
            answer = ask(row)
        except ImportError:  # an output that needs a package that is not here
            continue
        if np.shape(answer)[:1] != (1,):
            raise ValueError(f"a {type(found).__name__} gives {np.shape(answer)[:1]} answers for one row")
    return True


def usual_questions(found: Any) -> list[Callable[[Any], Any]]:
    """The methods that most models have."""
    return [asked for name in METHODS if callable(asked := getattr(found, name, None))]


def is_fitted(found: Any) -> bool:
    """Whether an estimator does not say that it is not fitted."""
    try:
        check_is_fitted(found)
    except NotFittedError:
        return False
    except TypeError:  # it cannot be fitted
        return True
    return True


def check_features(found: Any, size: int) -> None:
    """Whether an estimator of rows of numbers knows how many it was fitted to, if it was; what does not know cannot be tried."""
    fitted = [name for name in vars(found) if name.endswith("_")]
    if fitted and not hasattr(found, "n_features_in_") and not getattr(found, "_precomputed", False):
        raise ValueError(f"a {type(found).__name__} has {fitted[0]}, and does not know its features")


def check_same_features(found: Any, part: Any) -> None:
    """Whether an estimator and the part of it that gets its rows expect the same features."""
    for name in ("n_features_in_", "feature_names_in_"):
        own, other = getattr(found, name, None), getattr(part, name, None)
        if own is not None and other is not None and not np.array_equal(own, other):
            raise ValueError(f"{type(found).__name__} and its {type(part).__name__} do not have the same {name}")
