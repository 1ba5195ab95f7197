"""Points in the output space: by class, target or any other value, with the regions in which neighbours vote for each class."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_array, check_consistent_length

from outmetric.columns import content
from outmetric.foundation import Array, is_missing
from outmetric.layouts import Fitted
from outmetric.maps.canvas import add_title, axes, look
from outmetric.maps.islands import Layer, Telling, draw_classes, draw_values

# Neighbours that vote where the model does not say how many.
NEIGHBOURS = 5


def honest_map(
    coordinates: Any,
    y: Any = None,
    *,
    title: str | None = None,
    names: bool = True,
    scale: float | None = None,
    legend: bool | str = "auto",
    ax: Any = None,
) -> Any:
    """Draw the points of a layout by class or real value, with the names of classes at their islands and no axes.

    The function draws what it is given. A picture is honest if the coordinates are: those of rows by a model that has not seen
    their labels, with a title that says how well neighbours predict there.

    Parameters
    ----------
    coordinates : array of shape (n, 2) or (n, 3)
    y : array of shape (n,), optional
        Labels or real values: numbers that are not whole, and a column of floats of shape (n, 1), are real values. A point whose
        value is missing is grey, or hollow among real values. Default: all points are grey.
    title : str, optional
        A line above the map.
    names : bool
        Whether the names of up to 20 classes stand on the map, each where its points are densest and those of others are not. A
        class without an island, whose points lie among those of others everywhere, has no name there.
    scale : float, optional
        How long a distance of 1 of the metric is in the layout, if that keeps distances: a bar tells it, and in three dimensions
        the lines of a grid. Default: nothing is told.
    legend : bool or "auto"
        Whether there is a legend below, or a colour bar. "auto": a legend if some class has no name on the map.
    ax : matplotlib axes, optional
        A three-dimensional one for three columns.

    Returns
    -------
    ax

    Notes
    -----
    More than 5000 points are small, before contours that hold 30, 60 and 90 % of each class (of all points for more than ten
    classes or real values).
    """
    coordinates = check_array(coordinates, input_name="coordinates")
    if coordinates.shape[1] not in (2, 3):
        raise ValueError(f"a map has 2 or 3 dimensions; coordinates have {coordinates.shape[1]} columns.")
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive length, or None for a layout that keeps no distances; not {scale!r}.")
    layers = _layers(coordinates, y, coordinates, behind=False)
    named = _name(y)
    if y is not None and _are_real(y, np.array([])):
        ax = draw_values(layers, Telling(named or "target", scale, legend=_checked(legend)), ax)
    else:
        telling = Telling(named or "class", scale, names, _checked(legend))
        ax = draw_classes(layers, _all_names((), layers), None, telling, ax)
    if title is not None:
        add_title(ax, title)
    return ax


def output_map(
    model: Any, X: Any, y: Any = None, *, X_train: Any = None, y_train: Any = None, legend: bool | str = "auto", ax: Any = None
) -> Any:
    """Draw points in the output space of a model with up to three components.

    Euclidean distance in the picture is the learned metric, and a bar tells how long it is. Classes have their names at their
    islands; large outlined marks are their targets. With one component (two classes have no more) each class has a hump, its
    density, all of the same height, and a tick for each row. Real values are told by colour, and with one component by height.

    Parameters
    ----------
    model : fitted metric, Pipeline, MetricSearchCV, MetricClassifier or MetricRegressor
    X : data
        Rows that the model has not seen; where it has put its training rows says little.
    y : array of shape (n,), optional
        What to colour by: the classes or targets of the model, other labels, or other real values. Numbers that are not whole, and
        a column of floats of shape (n, 1), are real values, as is every number where the model was fitted on real targets. A point
        whose value is missing is grey, or hollow among real values. Default: all points are grey.
    X_train, y_train : data and labels or values, optional
        Drawn behind, small and pale.
    legend : bool or "auto"
        Whether there is a legend below, or a colour bar. "auto": a legend if some class has no name on the map. A pandas column
        tells by its name what it holds.
    ax : matplotlib axes, optional
        A three-dimensional one for three components.

    Returns
    -------
    ax
    """
    fitted = Fitted.of(model)
    layers = _layers(fitted.coordinates(X), y, X, behind=False)
    if X_train is not None:
        layers = [*_layers(fitted.coordinates(X_train), y_train, X_train, behind=True), *layers]
    given = [values for values in (y, y_train) if values is not None]
    named = next((name for name in map(_name, given) if name is not None), None)
    real = {_are_real(values, fitted.classes) for values in given}
    if len(real) > 1:
        raise ValueError("one of y and y_train holds labels and the other real values; colours can tell of one only.")
    if real == {True}:
        title = named or ("target" if fitted.classes is None else "value")
        return draw_values(layers, Telling(title, legend=_checked(legend)), ax)
    known = np.asarray(() if fitted.classes is None else fitted.classes)
    names = _all_names(known, layers)
    ours = len(known) > 0 and bool(np.isin(known, names).all())
    title = named or ("class" if ours and len(names) == len(known) else "label")
    return draw_classes(layers, names, fitted.targets if ours else None, Telling(title, legend=_checked(legend)), ax)


def point_map(
    coordinates: Array, y: Any, *, train: Array | None = None, y_train: Any = None, legend: bool | str = "auto", ax: Any = None
) -> Any:
    """Draw points in the plane or in space by class, with training points behind them, small and pale.

    Parameters
    ----------
    coordinates, y : array of shape (n, 2) or (n, 3), and labels
    train, y_train : array of shape (n_train, 2) or (n_train, 3), and labels, optional
    legend : bool or "auto"
        As of `output_map`.
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    layers = [Layer(np.asarray(coordinates), _column(y, coordinates))]
    if train is not None:
        layers.insert(0, Layer(np.asarray(train), _column(y_train, train), behind=True))
    return draw_classes(layers, _classes((), layers), None, Telling("class", scale=None, legend=_checked(legend)), ax)


def decision_map(
    model: Any,
    X: Any,
    y: Any,
    *,
    X_train: Any = None,
    y_train: Any = None,
    n_neighbors: int | None = None,
    resolution: int = 300,
    legend: bool | str = "auto",
    ax: Any = None,
) -> Any:
    """Draw the regions of a map with two components in which nearest neighbours vote for each class, and points over them.

    Parameters
    ----------
    model : fitted metric, Pipeline, MetricSearchCV or MetricClassifier
        A search, and a pipeline that ends in `KNeighborsClassifier`, have voters of their own, which are used. For a
        `MetricClassifier` its training rows vote in its best map; its committee may decide otherwise.
    X, y : data and labels to draw
    X_train, y_train : data and labels, optional
        Drawn behind, small and pale; those that vote, unless the model has voters. Without them X and y vote.
    n_neighbors : int, optional
        How many vote. Default: as many as in the model, or 5.
    resolution : int
        Fields along the longer side at which the vote is taken.
    legend : bool or "auto"
        As of `output_map`.
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    fitted = Fitted.of(model)
    if fitted.classes is None:
        raise ValueError("decision_map draws votes for classes; this model was fitted on real targets. Use output_map.")
    layers = [Layer(fitted.coordinates(X), _column(y, X))]
    if layers[0].coordinates.shape[1] != 2:
        n_components = layers[0].coordinates.shape[1]
        advice = "output_map draws it" if n_components == 1 else "draw a metric that was fitted with n_components=2"
        raise ValueError(f"regions are drawn in two dimensions; the model has {n_components}: {advice}.")
    if X_train is not None:
        layers.insert(0, Layer(fitted.coordinates(X_train), _column(y_train, X_train), behind=True))
    classes = _classes(fitted.classes, layers)
    voters = fitted.voters
    if voters is None:
        labels = layers[0].values
        assert labels is not None, "given above"
        codes = np.searchsorted(classes, labels)
        voters = KNeighborsClassifier(min(NEIGHBOURS, len(codes))).fit(layers[0].coordinates, codes)
    if n_neighbors is not None:
        voters = copy(voters).set_params(n_neighbors=n_neighbors)
    ax = axes(layout="compressed") if ax is None else ax
    draw_classes(layers, classes, None, Telling("class", legend=_checked(legend)), ax)
    _draw_regions(voters, classes, resolution, ax)
    return ax


def _draw_regions(voters: KNeighborsClassifier, classes: Array, resolution: int, ax: Any) -> None:
    """Fill the window of an ax, pale, with the colours of the classes; thin lines part them in print."""
    ax.set_aspect("equal", adjustable="box")  # with the limits free, margins without a region would appear
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    counts = np.maximum(2, np.ceil(resolution * (high - low) / (high - low).max()).astype(int))
    across, up = (np.linspace(start, end, count) for start, end, count in zip(low, high, counts, strict=True))
    fields = np.stack(np.meshgrid(across, up), axis=-1)
    votes = np.searchsorted(voters.classes_, voters.predict(fields.reshape(-1, 2))).reshape(fields.shape[:2])
    pale = np.array([_pale(look(index)["color"]) for index in range(len(classes))])
    half = (high - low) / (counts - 1) / 2
    extent = (low[0] - half[0], high[0] + half[0], low[1] - half[1], high[1] + half[1])
    ax.imshow(pale[votes], origin="lower", extent=extent, interpolation="nearest", zorder=0)
    for index in np.unique(votes) if np.ptp(votes) else ():
        ax.contour(across, up, votes == index, levels=[0.5], colors="0.45", linewidths=0.6, zorder=0.5)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def _pale(colour: str) -> list[float]:
    return [1 - 0.3 * (1 - int(colour[place : place + 2], 16) / 255) for place in (1, 3, 5)]


def _classes(known: Any, layers: Sequence[Layer]) -> Array:
    """The classes that vote and are drawn: those that the model knows, or all there are."""
    found = _all_names((), layers)
    strange = found[~np.isin(found, known)]
    if len(known) and len(strange):
        raise ValueError(f"y holds labels that the model does not know: {strange[:5].tolist()}; it knows {list(known[:10])}.")
    return np.asarray(known) if len(known) else found


def _all_names(known: Any, layers: Sequence[Layer]) -> Array:
    """The labels to draw: those that the model knows and then all others; or the others alone, if none is the model's."""
    values = [layer.values for layer in layers if layer.values is not None]
    if not values:
        return np.asarray(known)
    found = np.unique(np.concatenate(values))
    strange = found[~np.isin(found, known)]
    return found if len(strange) == len(found) else np.concatenate([np.asarray(known), strange])


def _are_real(y: Any, classes: Array | None) -> bool:
    """Whether these are numbers to be told by a scale of colours, not labels; the models draw the same line."""
    values = np.asarray(y)
    given = _given(values.ravel())
    if len(given) == 0 or content(given) != "number":
        return False
    whole = np.array_equal(given, np.round(given))
    return classes is None or (given.dtype.kind == "f" and (values.ndim == 2 or not whole))


def _name(y: Any) -> str | None:
    """What a column of pandas, or a table of one, says that it holds."""
    columns: Any = getattr(y, "columns", ())
    name = columns[0] if len(columns) == 1 else getattr(y, "name", None)
    return None if name is None else str(name)


def _checked(legend: bool | str) -> bool | str:
    if legend not in (True, False, "auto"):
        raise ValueError(f'legend must be True, False or "auto"; not {legend!r}.')
    return legend


def _layers(coordinates: Array, y: Any, X: Any, *, behind: bool) -> list[Layer]:
    """Points with a value, over those without."""
    if y is None:
        return [Layer(coordinates, None, behind)]
    values = _column(y, X)
    missing = _missing(values)
    found = [Layer(coordinates[missing], None, behind)] if missing.any() else []
    return found if missing.all() else [*found, Layer(coordinates[~missing], _given(values), behind)]


def _missing(values: Array) -> Array:
    return np.array([is_missing(value) for value in values.tolist()], dtype=bool)


def _given(values: Array) -> Array:
    """Those that are not missing, as texts or numbers."""
    given = values[~_missing(values)]
    return np.array(given.tolist()) if given.dtype.kind == "O" else given


def _column(y: Any, X: Any) -> Array:
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1:
        raise ValueError(f"y has {values.shape[1]} columns; give the one to colour by, y[:, 0] say.")
    values = values.ravel()
    check_consistent_length(X, values)
    return values
