"""A MetricMap as a picture, with its control beside it, and as a page."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outmetric.choosing import column_names
from outmetric.foundation import Array
from outmetric.layouts import Fitted, MetricMap
from outmetric.maps.canvas import SMALL, axes, grid
from outmetric.maps.points import honest_map
from outmetric.maps.webmap import InteractiveMap, interactive_map
from outmetric.maps.webplacer import web_placer

# Columns of an array that a page shows.
SHOWN_COLUMNS = 100
# What is said above a control.
PERMUTED = "the same with permuted labels"
# What is said of the axes of a plane that has one learned coordinate.
ACROSS, UP = "what was learned (distances)", "what varies most beside it (nothing learned)"


def map_picture(found: MetricMap, y: Any = None, *, control: MetricMap | None = None, title: str = "", ax: Any = None) -> Any:
    """Draw a `MetricMap`: its rows out of fold, and how far the picture may be believed.

    Parameters
    ----------
    found : fitted MetricMap
    y : array of shape (n,), optional
        What to colour by. Default: the labels or targets that it was fitted on.
    control : fitted MetricMap, optional
        From `MetricMap.control`, drawn beside it.
    title : str
        Put before what is said of the map's quality.
    ax : matplotlib axes, optional
        Two of them with a control.

    Returns
    -------
    ax, or an array of two with a control
    """
    for one in (found, control):
        _check_map(one)
    if control is not None:
        if ax is None:
            solid = found.embedding_.shape[1] == 3
            ax = grid(1, 2, size=5.5, projection="3d" if solid else None)[1][0]
        whose = (found, y, title), (control, None, PERMUTED)
        return np.array([map_picture(one, values, title=said, ax=own) for (one, values, said), own in zip(whose, ax, strict=True)])
    values = _shown_labels(found) if y is None else y
    said = [part for part in (title, found.quality_.text()) if part]
    solid = found.embedding_.shape[1] == 3
    if ax is None:
        width, height = np.ptp(found.embedding_[:, :2], axis=0)
        flat = 1.0 if solid or not width else float(np.clip(height / width, 0.4, 1))
        ax = axes(size=(7.5, 0.5 + 6 * flat), projection="3d" if solid else None)
    ax = honest_map(found.embedding_, values, title="; ".join(said), scale=found.scale_, ax=ax)
    if found.beside_ is not None and not solid:
        ax.set_xlabel(ACROSS, fontsize=SMALL, color="0.25")
        ax.set_ylabel(UP, fontsize=SMALL, color="0.25")
    return ax


def map_page(
    found: MetricMap, X: Any, y: Any = None, *, table: Any = None, ids: Any = None, title: str = "Map of the learned metric"
) -> InteractiveMap:
    """Make a page of a `MetricMap`: its rows out of fold, with a switch to where the model that has seen them puts them.

    Parameters
    ----------
    found : fitted MetricMap
    X : data
        The rows that it was fitted on.
    y : array or Series of shape (n,), optional
        Labels or targets to show. Default: those that it was fitted on.
    table : DataFrame or dict of columns, optional
        What to show of the rows; see `interactive_map`. Default: X, if it has columns, at most 100 of them.
    ids : array of shape (n,), optional
    title : str

    Returns
    -------
    InteractiveMap
    """
    _check_map(found)
    opinions = found.opinions_
    if found.classes_ is not None:
        said: dict[str, Any] = {"probabilities": opinions, "classes": found.classes_}
    else:
        said = {"predictions": opinions[:, 0]} if opinions.shape[1] == 1 else {}
    table = _table_of(X) if table is None else table
    # Why rows are near is told of columns that can be seen.
    if _shows_all(table, found.model_):
        said |= {"model": found.model_, "X": X}
    return interactive_map(
        found.embedding_,
        _shown_labels(found) if y is None else y,
        table=table,
        ids=ids,
        metric_coordinates=found.coordinates_,
        title=title,
        fitted_coordinates=found.fitted_embedding_,
        honesty=found.quality_.text(),
        novelty=found.novelty_,
        placer=web_placer(found.model_, X, found.embedding_, found.coordinates_),
        **said,
    )


def _check_map(found: Any) -> None:
    if found is None:
        return
    if not isinstance(found, MetricMap):
        name = type(found).__name__
        raise TypeError(
            f"a fitted MetricMap is drawn here, and a {name} came. MetricMap({name}(...)).fit(X, y) makes one; "
            "plots.output_map(model, X, y) draws a model itself."
        )
    check_is_fitted(found, "model_")


def _table_of(X: Any) -> Any:
    """Rows as a table to be shown; None for objects and kernel values."""
    if hasattr(X, "columns"):
        return X
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "biuf" or not 0 < X.shape[1] <= SHOWN_COLUMNS:
        return None
    return {f"x{place}": column for place, column in enumerate(X.T)}


def _shows_all(table: Any, model: Any) -> bool:
    """Whether a table has all columns that the model looks at."""
    if table is None or getattr(Fitted.of(model).metric.metric_, "n_features", 1) == 0:
        return False
    return set(column_names(model)) <= {str(name) for name in (table.columns if hasattr(table, "columns") else table)}


def _shown_labels(found: MetricMap) -> Array:
    """Labels, or real targets as one column of floats; of several the first."""
    if found.classes_ is not None:
        return found.y_
    values = np.asarray(found.y_, dtype=np.float64)
    return values[:, None] if values.ndim == 1 else values[:, :1]
