"""Classes of third parties whose objects may be in a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter, signature
from typing import Any

from sklearn.base import BaseEstimator

from outmetric.foundation import REGISTERED, how_stored, storable

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")
# Of names that we give, now or later.
RESERVED = frozenset({"gaussian_process", "outmetric", "sklearn"})


def register(cls: type, name: str, *, check: Callable[[Any, int], None] | None = None) -> None:
    """Let `save` and `load` take objects of a class of your own.

    The rule that keeps files safe to load: whoever loads a file lets it call the constructor of this class with arguments of the
    file's choosing, and set any fitted attributes. So the constructor must only check and store: never open files, import, run or
    allocate by what it is given. And ``check`` must refuse what does not fit together, before anybody relies on it. What it costs
    must be in proportion to the size of the file.

    Parameters
    ----------
    cls : class
        A scikit-learn estimator (its parameters and what is in ``vars`` are stored), or a frozen dataclass (its fields). Objects of
        its subclasses are not stored unless these are registered, too; they are checked as it is.
    name : str
        In files, for ever: it begins with the name of your package, "mypackage.MyScaler".
    check : function, optional
        Takes an object just loaded and the size of its file in bytes, and raises ValueError if the object does not fit together.

    Raises
    ------
    ValueError
        If the name is taken or does not say whose it is, or the class is neither.

    Examples
    --------
    >>> import numpy as np, outmetric.storage, tempfile
    >>> from sklearn.base import BaseEstimator, TransformerMixin
    >>> class Centred(TransformerMixin, BaseEstimator):
    ...     def fit(self, X, y=None):
    ...         self.mean_ = np.mean(X, axis=0)
    ...         return self
    ...     def transform(self, X):
    ...         return X - self.mean_
    >>> def check(found, size):
    ...     if np.ndim(getattr(found, "mean_", [])) != 1:
    ...         raise ValueError("a mean must be a vector")
    >>> outmetric.storage.register(Centred, "mypackage.Centred", check=check)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outmetric.save(Centred().fit([[1.0, 3.0], [3.0, 5.0]]), f"{folder}/centred.outmetric")
    ...     outmetric.load(f"{folder}/centred.outmetric").mean_
    array([2., 4.])
    """
    if not isinstance(name, str) or not NAME.fullmatch(name) or name.split(".")[0] in RESERVED:
        raise ValueError(f'the name must begin with your package and a dot, such as "mypackage.MyScaler"; it is {name!r}.')
    if not isinstance(cls, type):
        raise ValueError(f"only classes can be registered, not {cls!r}.")
    known = how_stored(cls)
    if known is not None and known.name != name and not str(known.name).startswith(REGISTERED):
        raise ValueError(f"{cls.__name__} is stored already, by the name {known.name!r}.")
    is_estimator = issubclass(cls, BaseEstimator)
    frozen = is_dataclass(cls) and getattr(cls, "__dataclass_params__").frozen  # noqa: B009
    if not is_estimator and not frozen:
        raise ValueError(f"{cls.__name__} must be an estimator (a BaseEstimator) or a frozen dataclass.")
    parameters = signature(cls).parameters
    if any(one.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for one in parameters.values()):
        raise ValueError(f"the constructor of {cls.__name__} must name its parameters; it has the signature {signature(cls)}.")
    if not is_estimator and set(parameters) != {field.name for field in fields(cls)}:
        raise ValueError(f"the constructor of {cls.__name__} must take exactly its fields; it has the signature {signature(cls)}.")
    # Any dataclass may be a kernel, or part of one, so it is counted among those that are evaluated together.
    storable(name, check=check, is_kernel=not is_estimator)(cls)
