"""What the models draw points to: prototypes of their classes, or real targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outmetric.foundation import Array, check_finite
from outmetric.problem.prototypes import make_prototypes

LARGEST_TARGET = 1e100


@dataclass(frozen=True, eq=False)
class Targets:
    """What each training point should be mapped to.

    Attributes
    ----------
    values : array of shape (n, m)
        The targets Y.
    offset : array of shape (m,)
        Was taken off the user's targets (distances do not see it, and the models have no intercept); `map` adds it again.
    scales : array of shape (q,) or None
        What the user's real targets were divided by.
    classes, labels, prototypes : arrays or None
        For class targets: the distinct labels, the class index of each sample, and the target of each class.
    """

    values: Array
    offset: Array
    scales: Array | None = None
    classes: Array | None = None
    labels: Array | None = None
    prototypes: Array | None = None


def class_targets(y: Array, n_components: int | None = None, prototypes: str | Array = "simplex") -> Targets:
    """Targets of labelled samples: the prototype of each sample's class."""
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes[0]}): there is nothing to tell apart. Provide at least two classes, or real targets "
            "as an array of floats of shape (n_samples, n_targets)."
        )
    points = make_prototypes(len(classes), n_components, prototypes)
    return Targets(points[labels], np.zeros(points.shape[1]), None, classes, labels, points)


def real_targets(y: Array, n_components: int | None = None, weights: Array | None = None) -> Targets:
    """Real targets, centred, and in units of their standard deviations if there are several; reduced to their leading principal
    coordinates, or padded by zeros, to ``n_components`` columns. ``weights`` say how often each counts.
    """
    values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    check_finite(values, "y")
    if np.abs(values).max(initial=0.0) > LARGEST_TARGET:
        raise ValueError(f"y reaches {np.abs(values).max():.3g}, whose squares overflow; rescale it.")
    mean = np.average(values, axis=0, weights=weights)
    centred = values - mean
    if not centred.any():
        raise ValueError("y is constant: there are no distances to learn. Provide targets that vary.")
    counted = centred if weights is None else weights[:, None] * centred
    scales = target_scales(np.sum(counted * centred, axis=0), len(centred) if weights is None else weights.sum())
    turn = target_components((counted / scales).T @ (centred / scales), n_components)
    centred /= scales
    return Targets(centred @ turn, (mean / scales) @ turn, scales)


def target_scales(squares: Array, n_samples: float) -> Array:
    """What several targets are divided by, so that none decides because of its unit; ``squares`` are the sums of each."""
    if len(squares) == 1:
        return np.ones(1)  # its unit changes nothing
    deviations = np.sqrt(squares / n_samples)
    return np.where(deviations > 0, deviations, 1.0)


def target_components(squares: Array, n_components: int | None) -> Array:
    """The (q, m) matrix that takes centred targets, Y'Y = ``squares``, to their components: principal ones, or padded by zeros."""
    columns = len(squares)
    if n_components is None or n_components >= columns:
        return np.eye(columns, n_components)
    directions = np.linalg.eigh(squares)[1][:, ::-1][:, :n_components]
    return np.asarray(directions * np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(n_components)]))


def target_rank(squares: Array) -> int:
    """How many components targets with Y'Y = ``squares`` span: natural units must not depend on components that stay zero."""
    return max(1, int(np.linalg.matrix_rank(squares)))
