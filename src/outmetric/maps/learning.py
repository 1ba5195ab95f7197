"""What was learned, and how: the course of a fit, and the matrices of the metric."""

from __future__ import annotations

from typing import Any

import numpy as np

from outmetric.estimators import shortened
from outmetric.layouts import Fitted
from outmetric.maps.canvas import DIVERGING, axes, look

# What records of the methods hold: values of the objective and its terms; and how far from the end an iteration is.
VALUES = ("objective", "fit", "roughness", "penalty", "rounded", "divergence")
DISTANCES = {"optimality": "relative gradient", "steepness": "steepness", "correction": "largest correction"}
# Matrices up to this size have their numbers written in, and up to the second their rows named.
WRITTEN, NAMED = 10, 30


def history(model: Any, *, ax: Any = None) -> Any:
    """Draw the course of a fit: the objective and its terms, and on a logarithmic axis at the right how far from the end it was.

    The distance is the relative duality gap of `LearnedKernelMetric`, the relative gradient of the metric of `FixedKernelMetric`,
    the steepness of `LMNN`, and the largest correction in a sweep of `ITML`.

    Parameters
    ----------
    model : fitted metric, Pipeline, MetricSearchCV, MetricClassifier or MetricRegressor
    ax : matplotlib axes, optional

    Returns
    -------
    ax
        The one at the left; the other is its twin.
    """
    metric = Fitted.of(model).metric
    records = metric.history_
    if not records:
        raise ValueError(f"this {type(metric).__name__} was finished before its first iteration; there is no history to draw.")
    ax = axes() if ax is None else ax
    iterations = [record.iteration for record in records]
    mark = max(1, len(records) // 12)
    names = [name for name in VALUES if hasattr(records[0], name)]
    lines = []
    for index, name in enumerate(names):
        values = [getattr(record, name) for record in records]
        lines += ax.plot(iterations, values, label=name, markevery=mark, markersize=5, **look(index))
    twin = ax.twinx()
    name = next(name for name in DISTANCES if hasattr(records[0], name))
    label = "duality gap" if getattr(records[0], "gap", None) is not None else DISTANCES[name]
    # An exact zero has no place on a logarithmic axis.
    distances = np.array([getattr(record, name) for record in records], dtype=float)
    distances[distances <= 0] = np.nan
    lines += twin.plot(iterations, distances, label=f"{label} (right)", color="black", linestyle="--", marker=".", markevery=mark)
    twin.set_yscale("log")
    twin.set_ylabel(label)
    ax.set_xlabel("iteration")
    ax.set_ylabel(f"{names[0]} and its terms" if "fit" in names else names[0])
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(handles=lines, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    return ax


def metric_matrix(model: Any, which: str | None = None, *, ax: Any = None) -> Any:
    """Draw a matrix of the metric; colour is neutral at zero.

    Parameters
    ----------
    model : fitted metric, Pipeline, MetricSearchCV, MetricClassifier or MetricRegressor
    which : "A" or "B", optional
        A: the squared distance is (f(x) - f(x'))' A (f(x) - f(x')). B: the output matrix of `LearnedKernelMetric`, whose A is the
        identity. Default: B where there is one.
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    metric = Fitted.of(model).metric
    has_output_matrix = hasattr(metric, "output_matrix_")
    which = which or ("B" if has_output_matrix else "A")
    if which not in ("A", "B"):
        raise ValueError(f"which={which!r} is not known; use 'A' or 'B'.")
    if which == "B" and not has_output_matrix:
        raise ValueError(f"{type(metric).__name__} has no matrix B; only LearnedKernelMetric learns one. Use which='A'.")
    matrix = metric.output_matrix_ if which == "B" else metric.get_mahalanobis_matrix()
    size = len(matrix)
    ax = axes() if ax is None else ax
    largest = float(np.abs(matrix).max()) or 1.0
    edges = (0.5, size + 0.5, size + 0.5, 0.5)  # rows and columns are counted from 1
    image = ax.imshow(matrix, cmap=DIVERGING, vmin=-largest, vmax=largest, extent=edges)
    ax.figure.colorbar(image, ax=ax, label=f"entries of {which}")
    if size <= WRITTEN:
        form = "z.2f" if 0.1 <= largest < 1000 else ".1e"
        for (row, column), value in np.ndenumerate(matrix):
            look_of = {"fontsize": 9 if size <= 5 else 7, "color": "white" if abs(value) > 0.6 * largest else "black"}
            ax.text(column + 1, row + 1, f"{value:{form}}", ha="center", va="center", **look_of)
    features = getattr(metric, "feature_names_in_", None)
    if features is not None and len(features) == size <= NAMED and not hasattr(metric, "kernel"):
        names = [shortened(name) for name in features]
        ax.set_xticks(range(1, size + 1), names, rotation=90)
        ax.set_yticks(range(1, size + 1), names)
    elif size <= NAMED:
        ax.set(xticks=range(1, size + 1), yticks=range(1, size + 1))
    return ax
