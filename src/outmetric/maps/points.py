"""Points in the output space: by class, target or any other value, with the regions in which neighbours vote for each class."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_consistent_length

from outmetric.columns import content
from outmetric.estimators import shortened
from outmetric.foundation import Array, is_missing
from outmetric.maps.canvas import SEQUENTIAL, axes, look
from outmetric.maps.fitted import Fitted

# Up to so many points marks have their full size, and vector files hold them as vectors.
FEW, VECTORS = 400, 3000
# More points than a few are drawn in so many turns of all classes, so that no class hides the others.
TURNS = 8
# Rows of a legend before it begins another column.
LEGEND_ROWS = 16
# Neighbours that vote where the model does not say how many.
NEIGHBOURS = 5
# Points of which nothing is told.
GREY = {"color": "0.45", "marker": "o"}


@dataclass(frozen=True, eq=False)
class Layer:
    """Points to draw, by a value for each or (None) grey; those behind are small and pale."""

    coordinates: Array
    values: Array | None
    behind: bool = False

    @property
    def style(self) -> dict[str, Any]:
        shrunk = min(1.0, (FEW / max(1, len(self.coordinates))) ** 0.5)
        size, alpha = (9, 0.25) if self.behind else (20, 0.8)
        return {"s": max(2.0, size * shrunk), "alpha": alpha, "linewidths": 0, "rasterized": len(self.coordinates) > VECTORS}


def output_map(
    model: Any, X: Any, y: Any = None, *, X_train: Any = None, y_train: Any = None, legend: bool = True, ax: Any = None
) -> Any:
    """Draw points in the output space of a model with up to three components.

    Large outlined marks are the targets of the classes. With one component (two classes have no more) the classes are drawn one
    above the other. Real values are told by colour, and with one component also by height.

    Parameters
    ----------
    model : fitted metric, Pipeline, MetricSearchCV or MetricClassifier
        Euclidean distance in the picture is the learned metric.
    X : data
    y : array of shape (n,), optional
        What to colour by: the classes or targets of the model, other labels, or other real values. Numbers that are not whole, and
        a column of floats of shape (n, 1), are real values, as is every number where the model was fitted on real targets. A point
        whose value is missing is grey, or hollow among real values. Default: all points are grey.
    X_train, y_train : data and labels or values, optional
        Drawn behind, small and pale.
    legend : bool
        Whether to tell what colours mean. A pandas column tells by its name what it holds.
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
    told = [values for values in (y, y_train) if values is not None]
    named = next((str(values.name) for values in told if getattr(values, "name", None) is not None), None)
    real = {_are_real(values, fitted.classes) for values in told}
    if len(real) > 1:
        raise ValueError("one of y and y_train holds labels and the other real values; colours can tell of one only.")
    if real == {True}:
        return _draw_values(layers, named or ("target" if fitted.classes is None else "value"), legend, ax)
    known = np.asarray(() if fitted.classes is None else fitted.classes)
    names = _all_names(known, layers)
    ours = len(known) > 0 and bool(np.isin(known, names).all())
    title = named or ("class" if ours and len(names) == len(known) else "label")
    return _draw_classes(layers, names, fitted.targets if ours else None, legend, ax, title=title)


def point_map(
    coordinates: Array, y: Any, *, train: Array | None = None, y_train: Any = None, legend: bool = True, ax: Any = None
) -> Any:
    """Draw points in the plane or in space by class, with training points behind them, small and pale.

    Parameters
    ----------
    coordinates, y : array of shape (n, 2) or (n, 3), and labels
    train, y_train : array of shape (n_train, 2) or (n_train, 3), and labels, optional
    legend : bool
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    layers = [Layer(np.asarray(coordinates), _column(y, coordinates))]
    if train is not None:
        layers.insert(0, Layer(np.asarray(train), _column(y_train, train), behind=True))
    return _draw_classes(layers, _classes((), layers), None, legend, ax, name_axes=False)


def decision_map(
    model: Any,
    X: Any,
    y: Any,
    *,
    X_train: Any = None,
    y_train: Any = None,
    n_neighbors: int | None = None,
    resolution: int = 300,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw the regions of a map with two components in which nearest neighbours vote for each class, and points over them.

    Parameters
    ----------
    model : fitted metric, Pipeline, MetricSearchCV or MetricClassifier
        A search, and a pipeline that ends in `KNeighborsClassifier`, have voters of their own, which are used. So has a
        `MetricClassifier`, but these are the regions of its best map, and its committee may decide otherwise.
    X, y : data and labels to draw
    X_train, y_train : data and labels, optional
        Drawn behind, small and pale; those that vote, unless the model has voters. Without them X and y vote.
    n_neighbors : int, optional
        How many vote. Default: as many as in the model, or 5.
    resolution : int
        Fields along the longer side at which the vote is taken.
    legend : bool
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
    _draw_classes(layers, classes, None, legend, ax)
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


def _draw_classes(
    layers: Sequence[Layer],
    classes: Array,
    targets: Array | None,
    legend: bool,
    ax: Any,
    *,
    name_axes: bool = True,
    title: str = "class",
) -> Any:
    n_components = _n_components(layers)
    ax = _axes(n_components) if ax is None else ax
    for layer in layers:
        if layer.values is None:
            ax.scatter(*_place(layer.coordinates, len(classes)).T, **layer.style, **GREY)
            continue
        places = [_place(layer.coordinates[layer.values == name], index) for index, name in enumerate(classes)]
        turns = TURNS if len(layer.coordinates) > FEW else 1
        for turn in range(turns):
            for index, points in enumerate(places):
                ax.scatter(*points[turn::turns].T, **layer.style, **look(index))
    for index, target in enumerate(() if targets is None else targets):
        ax.scatter(*_place(target[None], index).T, s=130, edgecolors="black", zorder=3, **look(index))
    if name_axes:
        _name_axes(ax, n_components)
    if n_components == 1:
        rows = [shortened(name) for name in classes] + ["no label"] * any(layer.values is None for layer in layers)
        ax.set_yticks(range(len(rows)), rows)
        ax.set_ylabel(title if len(classes) else "")
    elif legend and len(classes):
        _add_legend(ax, classes, title)
    return ax


def _draw_values(layers: Sequence[Layer], title: str, legend: bool, ax: Any) -> Any:
    n_components = _n_components(layers)
    ax = _axes(n_components) if ax is None else ax
    every = np.concatenate([layer.values for layer in layers if layer.values is not None])
    for layer in layers:
        if layer.values is None:
            below = every.min() - 0.1 * np.ptp(every)
            places = layer.coordinates if n_components > 1 else np.insert(layer.coordinates, 1, below, axis=1)
            # Hollow, since the middle of the colours is grey as well.
            ax.scatter(*places.T, **{**layer.style, "linewidths": 0.8}, facecolors="none", edgecolors=GREY["color"])
            continue
        places = layer.coordinates if n_components > 1 else np.column_stack([layer.coordinates, layer.values])
        drawn = ax.scatter(*places.T, c=layer.values, cmap=SEQUENTIAL, vmin=every.min(), vmax=every.max(), **layer.style)
    _name_axes(ax, n_components)
    if n_components == 1:
        ax.set_ylabel(title)
    elif legend:
        bar = ax.figure.colorbar(drawn, ax=ax, label=title, **({"shrink": 0.7, "pad": 0.12} if n_components == 3 else {}))
        bar.solids.set_alpha(1)
    return ax


def _n_components(layers: Sequence[Layer]) -> int:
    n_components = int(layers[-1].coordinates.shape[1])
    if n_components > 3:
        raise ValueError(f"a map has at most 3 components; the model has {n_components}. Draw one with n_components=2.")
    return n_components


def _axes(n_components: int) -> Any:
    return axes(projection="3d", size=(7.5, 5.5)) if n_components == 3 else axes()


def _name_axes(ax: Any, n_components: int) -> None:
    ax.set_xlabel("component 1")
    if n_components > 1:
        ax.set_ylabel("component 2")
    if n_components == 2:
        ax.set_aspect("equal", adjustable="datalim")
    if n_components == 3:
        ax.set_zlabel("component 3")
        ax.locator_params(nbins=5)


def _add_legend(ax: Any, classes: Array, title: str) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linestyle="", markersize=7, **look(index)) for index in range(len(classes))]
    columns = -(-len(classes) // LEGEND_ROWS)
    where = {"loc": "center left", "bbox_to_anchor": (1.08 if ax.name == "3d" else 1, 0.5)}
    ax.legend(handles, [shortened(name) for name in classes], title=title, ncols=columns, frameon=False, **where)


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
    if content(values) != "number":
        return False
    given = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    whole = np.array_equal(given, np.round(given))
    return classes is None or (values.dtype.kind == "f" and (values.ndim == 2 or not whole))


def _layers(coordinates: Array, y: Any, X: Any, *, behind: bool) -> list[Layer]:
    """Points with a value, over those without."""
    if y is None:
        return [Layer(coordinates, None, behind)]
    values = _column(y, X)
    missing = np.array([is_missing(value) for value in values.tolist()], dtype=bool)
    found = [Layer(coordinates[missing], None, behind)] if missing.any() else []
    given = values[~missing]
    return [*found, Layer(coordinates[~missing], np.array(given.tolist()) if given.dtype.kind == "O" else given, behind)]


def _column(y: Any, X: Any) -> Array:
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1:
        raise ValueError(f"y has {values.shape[1]} columns; give the one to colour by, y[:, 0] say.")
    values = values.ravel()
    check_consistent_length(X, values)
    return values


def _place(coordinates: Array, index: int) -> Array:
    """Points of class ``index`` to draw; a single component is spread over a band of its class so that points stay apart."""
    if coordinates.shape[1] > 1:
        return coordinates
    golden = (np.arange(len(coordinates)) * 0.618) % 1 - 0.5 if len(coordinates) > 1 else np.zeros(1)
    return np.column_stack([coordinates, index + 0.6 * golden])
