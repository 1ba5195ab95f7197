"""Pictures of fitted models: each function takes an ``ax`` (or makes one), draws, and returns it."""

from __future__ import annotations

from typing import Any

import numpy as np

from outmetric.operators import Array

# Petroff (2021), "Accessible color sequences for data visualization": ten colours that the colour-blind can tell apart.
COLOURS = ["#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"]
MARKERS = "osD^vP*X<>"


def output_map(model: Any, X: Any, y: Any, *, X_train: Any = None, y_train: Any = None, ax: Any = None) -> Any:
    """Draw points in the output space of a model with two or three components.

    Parameters
    ----------
    model : fitted FixedKernelMetric or LearnedKernelMetric
        With class targets. Euclidean distance in the picture is the learned metric.
    X, y : data and labels to draw
    X_train, y_train : data and labels, optional
        Drawn behind, small and pale.
    ax : matplotlib axes, optional
        A three-dimensional one for three components.

    Returns
    -------
    ax
    """
    if model.classes_ is None:
        raise ValueError("output_map colours by class; this model was fitted on real targets.")
    coordinates = model.transform(X)
    n_components = coordinates.shape[1]
    if n_components not in (2, 3):
        raise ValueError(f"a map has 2 or 3 components; the model has {n_components}. Fit it with n_components=2.")
    ax = _axes(n_components) if ax is None else ax
    background = None if X_train is None else (model.transform(X_train), np.asarray(y_train))
    labels = np.asarray(y)
    prototypes = model.prototypes_ @ model.metric_factor_.T
    for index, name in enumerate(model.classes_):
        style = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index // len(COLOURS) % len(MARKERS)]}
        if background is not None:
            points = background[0][background[1] == name]
            ax.scatter(*points.T, s=10, alpha=0.25, linewidths=0, **style)
        ax.scatter(*coordinates[labels == name].T, s=16, alpha=0.8, linewidths=0, label=str(name), **style)
        ax.scatter(*prototypes[index], s=130, edgecolors="black", linewidths=1.2, zorder=3, **style)
    ax.set_xlabel("component 1")
    ax.set_ylabel("component 2")
    if n_components == 2:
        ax.set_aspect("equal", adjustable="datalim")
    else:
        ax.set_zlabel("component 3")
    return ax


def _axes(n_components: int) -> Any:
    figure = _pyplot().figure()
    return figure.add_subplot(projection="3d" if n_components == 3 else None)


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'outmetric[plot]'") from error
    return plt


def grid(rows: int, columns: int, *, size: float = 4.5) -> tuple[Any, Array]:
    """A figure with rows x columns axes, and the array of these."""
    figure, axes = _pyplot().subplots(rows, columns, figsize=(size * columns, size * rows), squeeze=False, layout="constrained")
    return figure, axes
