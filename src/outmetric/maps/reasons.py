"""What a model looks at, and why it finds two rows near or far."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from outmetric.choosing import beside, explain, importances_of
from outmetric.estimators import shortened
from outmetric.foundation import Array, to_array
from outmetric.maps.canvas import COLOURS, axes

# Letters of a name beside a bar.
LETTERS = 32


def importances(model: Any, *, most: int = 15, ax: Any = None) -> Any:
    """Draw how much each feature matters to a model: the learned metric, pulled back to the features.

    Parameters
    ----------
    model : fitted metric, Pipeline that ends in one, MetricSearchCV, MetricClassifier or MetricRegressor
        A table's columns count with all that is made of them, their categories for example.
    most : int
        Bars; of more features the others are summed in the last one.
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    check_is_fitted(model)
    best = getattr(model, "best_estimator_", model)
    shares = getattr(best, "feature_importances_", None)
    shares = importances_of(best) if shares is None else shares
    given = getattr(best, "feature_names_in_", None)
    names = [f"x{place}" for place in range(len(shares))] if given is None else given
    ax = _bars([shortened(name, LETTERS) for name in names], 100 * np.asarray(shares), most, ax)
    ax.set_xlabel("importance in %")
    return ax


def reasons(model: Any, x: Any, x_other: Any, *, most: int = 12, ax: Any = None) -> Any:
    """Draw what each feature contributes to the squared learned distance of two rows, with the values of both.

    Parameters
    ----------
    model : fitted metric, Pipeline that ends in one, MetricSearchCV, MetricClassifier or MetricRegressor
    x, x_other : rows
        Tables or arrays of one row, or sequences of values.
    most : int
        Bars; of more features the others are summed in the last one.
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    check_is_fitted(model)
    one, other = _one_row(x), _one_row(x_other)
    best = model[:-1] if isinstance(model, Pipeline) and not hasattr(model, "transform") else model  # without its votes
    found = explain(best, one, other)
    values = zip(found.feature_names, _cells(one), _cells(other), strict=True)
    labels = [f"{shortened(name, LETTERS)}\n{beside(*cells)}" for name, *cells in values]
    ax = _bars(labels, found.contributions[0], most, ax)
    ax.set_title(f"squared distance {found.squared_distances[0]:.3g}", fontsize=10)
    ax.set_xlabel("contribution")
    return ax


def _bars(names: list[str], values: Array, most: int, ax: Any) -> Any:
    """Horizontal bars, the largest on top."""
    order = np.argsort(-np.abs(values), kind="stable")
    shown, rest = (order, order[:0]) if len(order) <= most else (order[: most - 1], order[most - 1 :])
    labels, lengths = [names[place] for place in shown], [float(values[place]) for place in shown]
    if len(rest):
        labels.append(f"{len(rest)} others")
        lengths.append(float(values[rest].sum()))
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    ax = axes(size=(6.5, 1 + 0.3 * len(labels) * (0.75 + 0.5 * (lines - 1)) + 0.2 * lines)) if ax is None else ax
    places = np.arange(len(labels))
    negative = np.array(lengths) < 0
    looks = [(~negative, {"color": COLOURS[0]}), (negative, {"color": COLOURS[1], "hatch": "////", "edgecolor": "white"})]
    for chosen, look in looks:
        ax.barh(places[chosen], np.array(lengths)[chosen], 0.72, linewidth=0, **look)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(places, labels, fontsize=9)
    ax.invert_yaxis()
    ax.xaxis.grid(True, alpha=0.3)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def _one_row(x: Any) -> Any:
    if hasattr(x, "to_frame") and hasattr(x, "index"):  # a row of a table
        x = x.to_frame().T.infer_objects()
    rows = x if hasattr(x, "columns") or hasattr(x, "toarray") else np.atleast_2d(np.asarray(x))
    if rows.shape[0] != 1:
        raise ValueError(f"reasons are drawn for one pair of rows; {rows.shape[0]} rows came. `explain` takes many.")
    return rows


def _cells(row: Any) -> list[Any]:
    if hasattr(row, "columns"):
        return [np.asarray(row[name]).tolist()[0] for name in row.columns]
    return list(to_array(row)[0].tolist())
