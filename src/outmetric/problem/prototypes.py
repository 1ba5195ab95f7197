"""Targets of classes: points on the unit sphere, as far apart as they can be."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from outmetric.foundation import Array, check_finite


def make_prototypes(n_classes: int, n_components: int | None, prototypes: str | Array) -> Array:
    """The targets of the classes, (classes, m), as asked for by name or given."""
    if isinstance(prototypes, str):
        if prototypes == "simplex":
            n_components = n_classes - 1 if n_components is None else n_components
            return simplex(n_classes, n_components) if n_components >= n_classes - 1 else spread(n_classes, n_components)
        if prototypes == "onehot":
            if n_components not in (None, n_classes):
                raise ValueError(
                    f"prototypes='onehot' needs as many components as classes ({n_classes}), not n_components={n_components}; "
                    "use prototypes='simplex' for any other number."
                )
            return np.eye(n_classes)
        raise ValueError(f"prototypes={prototypes!r} is not known; use 'simplex', 'onehot' or an array (classes, components).")
    points = np.asarray(prototypes, dtype=np.float64)
    expected = (n_classes, points.shape[-1] if n_components is None and points.ndim == 2 else n_components)
    if points.shape != expected:
        raise ValueError(
            f"prototypes must have one row per class and n_components columns, {expected}; their shape is {points.shape}."
        )
    check_finite(points, "prototypes")
    if len(np.unique(points, axis=0)) < n_classes:
        raise ValueError("prototypes repeat a row: classes with the same target cannot be told apart. Make the rows distinct.")
    return points


def simplex(n_classes: int, n_components: int) -> Array:
    """The vertices of a regular simplex on the unit sphere, padded by zeros to ``n_components`` >= n_classes - 1 columns.

    Examples
    --------
    >>> simplex(3, 2).round(3)
    array([[ 1.   ,  0.   ],
           [-0.5  ,  0.866],
           [-0.5  , -0.866]])
    """
    points = np.zeros((n_classes, n_components))
    for k in range(n_classes - 1):
        # Vertex k uses axis k for what its first k coordinates leave of unit length; all later vertices share
        # the coordinate on axis k that makes their inner product with vertex k equal to -1 / (n_classes - 1).
        points[k, k] = np.sqrt(1 - points[k, :k] @ points[k, :k])
        points[k + 1 :, k] = (-1 / (n_classes - 1) - points[k, :k] @ points[k, :k]) / points[k, k]
    return points


def spread(n_classes: int, n_components: int) -> Array:
    """Points as far apart as possible on the unit sphere of fewer than n_classes - 1 dimensions; the same at every call.

    On the line they are equally spaced over [-1, 1], in the plane they are a regular polygon. In more dimensions the largest
    inner product is minimised through a soft maximum that is sharpened step by step.
    """
    if n_components == 1:
        return np.linspace(-1, 1, n_classes)[:, None]
    if n_components == 2:
        angles = 2 * np.pi * np.arange(n_classes) / n_classes
        return np.column_stack([np.cos(angles), np.sin(angles)])
    shape = (n_classes, n_components)
    upper = np.triu_indices(n_classes, k=1)

    def soft_maximum(flat: Array, sharpness: float) -> tuple[float, Array]:
        raw = flat.reshape(shape)
        norms = np.linalg.norm(raw, axis=1, keepdims=True)
        points = raw / norms
        products = sharpness * (points @ points.T)[upper]
        top = products.max()
        weights = np.exp(products - top)
        pull = np.zeros((n_classes, n_classes))
        pull[upper] = weights / weights.sum()
        gradient = (pull + pull.T) @ points
        gradient -= np.sum(gradient * points, axis=1, keepdims=True) * points
        return float(top + np.log(weights.sum())) / sharpness, (gradient / norms).ravel()

    rng = np.random.default_rng(0)
    best, closest = np.empty(shape), np.inf
    for _ in range(max(1, min(8, 200 // n_classes))):
        flat = rng.normal(size=shape).ravel()
        for sharpness in (4.0, 16.0, 64.0, 256.0, 1024.0):
            flat = minimize(soft_maximum, flat, args=(sharpness,), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
        points = flat.reshape(shape) / np.linalg.norm(flat.reshape(shape), axis=1, keepdims=True)
        largest = (points @ points.T)[upper].max()
        if largest < closest - 1e-9:
            best, closest = points, largest
    return best
