"""Weights of rows and of classes: how often each counts."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from outmetric.foundation.arrays import Array


def check_sample_weight(weights: Any, n_rows: int, *, some: bool = True) -> Array | None:
    """One number >= 0 for each row, not all of them 0 if ``some`` row must count; None if all are 1, or none are given."""
    if weights is None:
        return None
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be a number for each row ({error}).") from None
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise ValueError(f"sample_weight must be a number for each of the {n_rows} rows; its shape is {values.shape}.")
    wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if len(wrong):
        raise ValueError(
            f"sample_weight must be finite and not negative: it says how often a row counts. It is not in {len(wrong)} places, the "
            f"first is row {wrong[0]}: {values[wrong[0]]}. For a row that is absent give 0."
        )
    if some and not (values > 0).any():
        raise ValueError("sample_weight is zero for all rows, so there is nothing to learn from.")
    return None if (values == 1).all() else values


def class_weights(given: Any, classes: Array, counts: Array) -> Array | None:
    """The weight of each class; ``counts`` are the rows of each, or the sums of their weights. None: all are 1.

    ``given`` is None, "balanced" (all classes count as much, and all rows together as before), or a dict by label, in which classes
    that are not named have the weight 1.
    """
    if given is None:
        return None
    if isinstance(given, str):
        if given != "balanced":
            raise ValueError(f"class_weight={given!r} is not known; use None, 'balanced' or a dict of weights by label.")
        return np.asarray(counts.sum() / (len(counts) * counts))
    if not isinstance(given, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict of weights by label, not {given!r}.")
    unknown = [label for label in given if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, which is no class of y: these are {_named(classes)}.")
    for label, weight in given.items():
        if not isinstance(weight, Real) or isinstance(weight, bool) or not 0 < float(weight) < np.inf:
            raise ValueError(f"class_weight must be positive numbers; for the class {label!r} it is {weight!r}.")
    return np.array([float(given.get(label, 1.0)) for label in classes.tolist()])


def _named(classes: Array) -> str:
    shown = ", ".join(repr(label) for label in classes[:10].tolist())
    return shown + (", ..." if len(classes) > 10 else "")


def combined_weights(sample_weight: Array | None, class_weight: Any, labels: Array) -> Array | None:
    """The weight of each row, with that of its class."""
    if class_weight is None:
        return sample_weight
    classes, codes = np.unique(labels, return_inverse=True)
    of_classes = class_weights(class_weight, classes, np.bincount(codes, sample_weight))
    assert of_classes is not None
    own = of_classes[codes]
    return own if sample_weight is None else own * sample_weight
