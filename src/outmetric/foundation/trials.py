"""A trial of what was read from a file: does a fitted model do what it is for, with a row of the kind that it says it takes?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from outmetric.foundation.storable import how_stored

METHODS = ("transform", "coordinates", "predict", "predict_proba")


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
    for name in METHODS:
        try:
            asked = getattr(found, name, None)
            answer = asked(row) if callable(asked) else row
        except ImportError:  # an output that needs a package that is not here
            continue
        if np.shape(answer)[:1] != (1,):
            raise ValueError(f"{type(found).__name__}.{name} gives {np.shape(answer)[:1]} answers for one row")
    return True


def is_fitted(found: Any) -> bool:
    """Whether an estimator does not say that it is not fitted."""
    try:
        check_is_fitted(found)
    except NotFittedError:
        return False
    except TypeError:  # it cannot be fitted
        return True
    return True


def check_same_features(found: Any, part: Any) -> None:
    """Whether an estimator and the part of it that gets its rows expect the same features."""
    for name in ("n_features_in_", "feature_names_in_"):
        own, other = getattr(found, name, None), getattr(part, name, None)
        if own is not None and other is not None and not np.array_equal(own, other):
            raise ValueError(f"{type(found).__name__} and its {type(part).__name__} do not have the same {name}")
