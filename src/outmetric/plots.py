"""Pictures of fitted models: each function takes an ``ax`` (or makes one), draws, and returns it."""

from __future__ import annotations

from typing import Any

import numpy as np

from outmetric.operators import Array

# Petroff (2021), "Accessible color sequences for data visualization": ten colours that the colour-blind can tell apart.
COLOURS = ["#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"]
MARKERS = "osD^vP*X<>"


def output_map(model: Any, X: Any, y: Any, *, X_train: Any = None, y_train: Any = None, legend: bool = True, ax: Any = None) -> Any:
    """Draw points in the output space of a model with up to three components.

    Large outlined marks are the targets of the classes. With one component (two classes have no more) the classes are drawn one
    above the other.

    Parameters
    ----------
    model : fitted FixedKernelMetric or LearnedKernelMetric
        With class targets. Euclidean distance in the picture is the learned metric.
    X, y : data and labels to draw
    X_train, y_train : data and labels, optional
        Drawn behind, small and pale.
    legend : bool
    ax : matplotlib axes, optional
        A three-dimensional one for three components.

    Returns
    -------
    ax
    """
    if model.classes_ is None:
        raise ValueError("output_map colours by class; this model was fitted on real targets.")
    n_components = model.coefficients_.shape[1]
    if n_components > 3:
        raise ValueError(f"a map has at most 3 components; the model has {n_components}. Fit it with n_components=2.")
    ax = _axes(n_components) if ax is None else ax
    drawn = [(model.transform(X), np.asarray(y), {"s": 18, "alpha": 0.8})]
    if X_train is not None:
        drawn.insert(0, (model.transform(X_train), np.asarray(y_train), {"s": 9, "alpha": 0.25}))
    prototypes = model.prototypes_ @ model.metric_factor_.T
    for index, name in enumerate(model.classes_):
        style = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
        for coordinates, labels, look in drawn:
            points = _place(coordinates[labels == name], index)
            ax.scatter(*points.T, linewidths=0, **look, **style)
        ax.scatter(*_place(prototypes[[index]], index).T, s=130, edgecolors="black", zorder=3, label=str(name), **style)
    ax.set_xlabel("component 1")
    if n_components == 1:
        ax.set_yticks(range(len(model.classes_)), [str(name) for name in model.classes_])
        ax.set_ylabel("class")
    else:
        ax.set_ylabel("component 2")
    if n_components == 2:
        ax.set_aspect("equal", adjustable="datalim")
    if n_components == 3:
        ax.set_zlabel("component 3")
    if legend:
        ax.legend(title="class", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return ax


def _place(coordinates: Array, index: int) -> Array:
    """Points of class ``index`` to draw; a single component is spread over a band of its class so that points stay apart."""
    if coordinates.shape[1] > 1:
        return coordinates
    golden = (np.arange(len(coordinates)) * 0.618) % 1 - 0.5 if len(coordinates) > 1 else np.zeros(1)
    return np.column_stack([coordinates, index + 0.6 * golden])


def _axes(n_components: int) -> Any:
    figure = _pyplot().figure(layout="constrained")
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
