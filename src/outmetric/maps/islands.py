"""Points by class or value on a map: marks, contours where there are many, names at islands, and curves along one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_filter1d
from scipy.spatial.distance import cdist

from outmetric.foundation import Array
from outmetric.maps.canvas import LITERAL, SEQUENTIAL, SMALL, axes, bare_axes, legend_below, look, written

# Up to so many points marks have their full size, and vector files hold them as vectors; above the last there are contours.
FEW, VECTORS, CROWD = 400, 3000, 5000
# More points than a few are drawn in so many turns of all classes, so that no class hides the others.
TURNS = 8
# Points of which nothing is told.
GREY = {"color": "0.45", "marker": "o"}
# More classes than these are not named on a map, or share one set of contours.
NAMED, CONTOURED = 20, 10
# Points of a class by which its island is found, and the neighbours there that say whether it is one.
SAMPLE, NEIGHBOURS = 200, 50
# The radius of a class's target, in points.
MARK = 7.0
# Contours hold these shares of a class; its density is counted in fields of a grid and smoothed over so many of them.
SHARES, FIELDS, SMOOTH = (0.9, 0.6, 0.3), 160, 3.0
# Along one line: fields of the density, the height of its hump in a lane of height 1, and where the rows are below it.
STEPS, HUMP, RUG, RUG_BEHIND = 400, 0.58, -0.09, -0.2
LINE = "learned coordinate (differences are distances)"


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
        # Small crosses that are rounded to whole pixels vanish.
        drawn = {"snap": False, "rasterized": len(self.coordinates) > VECTORS}
        return {"s": max(2.0, size * shrunk), "alpha": alpha, "linewidths": 0, **drawn}


@dataclass(frozen=True)
class Telling:
    """How a map says what it shows.

    Attributes
    ----------
    title : str
        What classes or values are: the heading of a legend, or the label of a colour bar.
    scale : float or None
        How long a distance of 1 of the metric is on the map.
    names : bool
        Whether classes have their names at their islands.
    legend : bool or "auto"
        "auto": where a class has no name on the map. For values: whether there is a colour bar.
    """

    title: str
    scale: float | None = 1.0
    names: bool = True
    legend: bool | str = "auto"


def draw_classes(layers: Sequence[Layer], classes: Array, targets: Array | None, telling: Telling, ax: Any) -> Any:
    """Draw points by class, and the targets of the classes as large outlined marks."""
    n_components = _n_components(layers)
    if n_components == 1:
        return _draw_curves(layers, classes, targets, telling.title, ax)
    own_figure = ax is None
    ax = _axes(layers) if own_figure else ax
    if n_components == 2:
        _draw_contours(layers, classes, ax)
    for layer in layers:
        if layer.values is None:
            ax.scatter(*layer.coordinates.T, **layer.style, **GREY)
            continue
        members = [layer.coordinates[layer.values == name] for name in classes]
        turns = TURNS if len(layer.coordinates) > FEW else 1
        for turn in range(turns):
            for index, points in enumerate(members):
                ax.scatter(*points[turn::turns].T, **layer.style, **look(index))
    for index, target in enumerate(() if targets is None else targets):
        ax.scatter(*target[:, None], s=130, edgecolors="black", zorder=3, **look(index))
    bare_axes(ax, telling.scale)
    coloured = targets is not None or any(layer.values is not None for layer in layers)
    named = telling.names and n_components == 2 and _name_islands(layers, classes, targets, ax)
    if coloured and (telling.legend is True or (telling.legend == "auto" and not named)):
        legend = legend_below(ax, list(classes), telling.title)
        if own_figure:  # the map keeps its size
            width, height = ax.figure.get_size_inches()
            ax.figure.set_size_inches(width, height + legend.get_window_extent().height / ax.figure.dpi)
    return ax


def draw_values(layers: Sequence[Layer], telling: Telling, ax: Any) -> Any:
    """Draw points by a real value: its colour, and with one component its height."""
    n_components = _n_components(layers)
    ax = _axes(layers) if ax is None else ax
    if n_components == 2:
        _draw_contours(layers, np.array([]), ax)
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
    if n_components == 1:
        ax.set_xlabel(LINE)
        ax.set_ylabel(telling.title, **LITERAL)
        ax.spines[["top", "right"]].set_visible(False)
        return ax
    bare_axes(ax, telling.scale)
    if telling.legend:
        bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.6, aspect=30, pad=0.08 if n_components == 3 else 0.02)
        bar.set_label(telling.title, **LITERAL)
        bar.solids.set_alpha(1)
        bar.outline.set_visible(False)
    return ax


def _n_components(layers: Sequence[Layer]) -> int:
    n_components = int(layers[-1].coordinates.shape[1])
    if n_components > 3:
        raise ValueError(f"a map has at most 3 components; the model has {n_components}. Draw one with n_components=2.")
    return n_components


def _axes(layers: Sequence[Layer]) -> Any:
    """New axes, in the plane about as high as the points ask for."""
    points = np.concatenate([layer.coordinates for layer in layers])
    if points.shape[1] == 3:
        return axes(projection="3d", size=(7, 6))
    if points.shape[1] == 1:
        return axes()
    width, height = np.ptp(points, axis=0)
    return axes(size=(6.4, 0.5 + 6.4 * float(np.clip(height / width if width else 1, 0.5, 1))))


def _draw_contours(layers: Sequence[Layer], classes: Array, ax: Any) -> None:
    """Contours of each class behind many points; of all together where classes are too many, or none."""
    front = [layer for layer in layers if not layer.behind]
    every = np.concatenate([layer.coordinates for layer in front])
    if len(every) <= CROWD:
        return
    margin = 0.05 * np.ptp(every, axis=0)
    window = np.transpose([every.min(axis=0) - margin, every.max(axis=0) + margin])
    labelled = [layer for layer in front if layer.values is not None]
    if not 0 < len(classes) <= CONTOURED or not labelled:
        _draw_contour(every, window, GREY["color"], ax)
        return
    for index, name in enumerate(classes):
        members = np.concatenate([layer.coordinates[layer.values == name] for layer in labelled])
        if len(members):
            _draw_contour(members, window, look(index)["color"], ax)


def _draw_contour(points: Array, window: Array, colour: str, ax: Any) -> None:
    from matplotlib.colors import to_rgba

    counts, across, up = np.histogram2d(points[:, 0], points[:, 1], bins=FIELDS, range=window)
    density = gaussian_filter(counts, SMOOTH, mode="constant")
    descending = np.sort(density, axis=None)[::-1]
    held = np.cumsum(descending) / descending.sum()
    levels = np.unique([descending[np.searchsorted(held, share)] for share in SHARES])
    middles = [(edges[1:] + edges[:-1]) / 2 for edges in (across, up)]
    fills = [to_rgba(colour, 0.12 + 0.1 * depth) for depth in range(len(levels))]
    ax.contourf(*middles, density.T, levels=[*levels, np.inf], colors=fills, zorder=0.6)
    ax.contour(*middles, density.T, levels=levels, colors=[colour], linewidths=0.7, zorder=0.7)


def _name_islands(layers: Sequence[Layer], classes: Array, targets: Array | None, ax: Any) -> bool:
    """Write names of classes at their islands; whether all have one.

    A class without an island, among whose nearest points are too many of others, has no name: labels that mean nothing show no
    islands. Neither has any class if there are too many names, or if some would be too far from where they belong.
    """
    if len(classes) > NAMED:
        return False
    labelled = [layer for layer in layers if layer.values is not None]
    # A model has seen the labels of those behind, and may have made islands of them.
    labelled = [layer for layer in labelled if not layer.behind] or labelled
    points = np.concatenate([layer.coordinates for layer in labelled]) if labelled else np.empty((0, 2))
    labels = np.concatenate([layer.values for layer in labelled]) if labelled else np.empty(0)
    places, radii, texts = [], [], []
    for index, name in enumerate(classes):
        members = labels == name
        if members.any():
            place = home(points[members], points[~members])
            radius = 1.5 * np.median(np.linalg.norm(points[members] - place, axis=1))
            if not _is_island(place, points, members):
                continue
        elif targets is not None and index < len(targets):
            place, radius = targets[index], np.nan
        else:
            continue
        places.append(place)
        radii.append(radius)
        texts.append(written(name))
    if not places:
        return False
    names = Names(ax, np.array(places), texts, radii=np.array(radii), size=11 if len(texts) <= 10 else 9)
    if not names.have_room():
        names.remove()
        return False
    return len(places) == len(classes)


def home(points: Array, others: Array) -> Array:
    """The middle of where the points of a class are densest, and those of other classes are not.

    Outliers do not move it, and it is not between two islands of the class.
    """
    every = -(-len(points) // SAMPLE)
    points, others = points[::every], others[::every]
    distances = cdist(points, points)
    # The quarter of all pairs that are nearest have their points in one island, even if there are two.
    width = np.quantile(distances, 0.25) or 1.0
    weights = np.exp(-((distances / width) ** 2) / 2)
    foreign = np.exp(-((cdist(points, others) / width) ** 2) / 2)
    nearby = weights[(weights.sum(axis=1) - foreign.sum(axis=1)).argmax()]
    return np.asarray(nearby @ points / nearby.sum())


def _is_island(place: Array, points: Array, members: Array) -> bool:
    """Whether the points around the home of a class are its own: halfway from its share in all to all of them, not by chance."""
    count, share = min(NEIGHBOURS, int(members.sum())), members.mean()
    nearest = np.argsort(np.linalg.norm(points - place, axis=1), kind="stable")[:count]
    # The home was sought, so that chance is two standard deviations; few points must all be of the class.
    enough = share + 2 * np.sqrt(share * (1 - share) / count)
    return bool(members[nearest].mean() >= np.clip(enough, (1 + share) / 2, 1))


class Names:
    """Names near their places, moved apart anew whenever they are drawn: only then is it known how large they and the ax are.

    Parameters
    ----------
    ax : matplotlib axes
    places : array of shape (n, 2)
    texts : n names
    radii : array of shape (n,)
        Of the islands, in the units of the ax. A name stands on its island, or above one that is smaller than itself and that it
        would hide; NaN: above a mark.
    size : float
        Of the font, in points.
    """

    def __init__(self, ax: Any, places: Array, texts: Sequence[str], *, radii: Array, size: float) -> None:
        from matplotlib.patheffects import withStroke

        self.ax = ax
        self.places = places
        self.radii = radii
        self._drawn: tuple[bytes, Array, Array] | None = None
        style = {"ha": "center", "va": "center", "fontsize": size, "fontweight": "bold", "zorder": 5, **LITERAL}
        halo = [withStroke(linewidth=3, foreground="white")]
        self.texts = [
            # Names are inside the ax, and so no matter of the layout of the figure.
            ax.annotate(text, place, (0, 0), textcoords=partial(self._at, index), path_effects=halo, in_layout=False, **style)
            for index, (text, place) in enumerate(zip(texts, places, strict=True))
        ]

    def have_room(self) -> bool:
        """Whether names do not overlap, and each is near its place still."""
        self.ax.apply_aspect()
        boxes = np.array([text.get_window_extent().get_points() for text in self.texts])
        middles, sizes = boxes.mean(axis=1), np.ptp(boxes, axis=1)
        assert self._drawn is not None, "whoever asks for an extent places the names"
        moved = np.abs(middles - self._drawn[1])
        return not _overlaps(middles, sizes).any() and bool(np.all(moved <= sizes / 2 + 2 * sizes[:, 1:]))

    def remove(self) -> None:
        """Take the names away."""
        for text in self.texts:
            text.remove()

    def _at(self, index: int, renderer: Any) -> Any:
        """The transform by which matplotlib places a name, in pixels."""
        from matplotlib.transforms import Affine2D

        window = self.ax.get_window_extent(renderer).get_points()
        points = self.ax.transData.transform(self.places)
        pixels = renderer.points_to_pixels(1.0)
        state = np.concatenate([[pixels], *window, *points]).tobytes()
        if self._drawn is None or self._drawn[0] != state:
            sizes = np.array([_extent(text, renderer) for text in self.texts]) + 2 * pixels
            tops = self.ax.transData.transform(self.places + np.outer(self.radii, [0, 1]))
            reach = np.where(np.isnan(self.radii), MARK * pixels, tops[:, 1] - points[:, 1])
            above = np.isnan(self.radii) | (sizes[:, 0] > 2 * reach)
            wanted = points + np.outer(above * (reach + sizes[:, 1] / 2), [0, 1])
            self._drawn = state, wanted, moved_apart(wanted, sizes, window)
        return Affine2D().translate(*self._drawn[2][index])


def _extent(text: Any, renderer: Any) -> tuple[float, float]:
    """Width and height; every line is at least as high as one with ascenders and descenders."""
    font = text.get_fontproperties()
    width, height, _ = renderer.get_text_width_height_descent(text.get_text(), font, ismath=False)
    return width, max(height, renderer.get_text_width_height_descent("lp", font, ismath=False)[1])


def moved_apart(middles: Array, sizes: Array, window: Array, *, rounds: int = 300) -> Array:
    """Move boxes as little as it takes, so that none overlaps another and all are inside a window.

    Parameters
    ----------
    middles, sizes : array of shape (n, 2)
    window : array of shape (2, 2)
        Its lower left and upper right corner.
    rounds : int
        In each, boxes that overlap push one another along the side on which they overlap least. Too many boxes overlap still.
    """
    lowest, highest = window[0] + sizes / 2, window[1] - sizes / 2
    highest = np.maximum(lowest, highest)  # a box that is larger than the window
    middles = np.clip(middles, lowest, highest)
    order = np.sign(np.subtract.outer(np.arange(len(middles)), np.arange(len(middles))))
    for _ in range(rounds):
        overlaps = _overlaps(middles, sizes)
        if not overlaps.any():
            break
        least = overlaps == np.where(overlaps > 0, overlaps, np.inf).min(axis=2, keepdims=True)
        apart = middles[:, None] - middles
        # Boxes in the same place part in the order in which they are given, one above the other.
        direction = np.where(apart == 0, order[:, :, None], np.sign(apart))
        least[..., 0] &= ~least[..., 1]
        # A pixel more than it takes, so that the end is reached.
        pushes = direction * (overlaps + 1) * least
        pushing = np.maximum(1, (overlaps > 0).any(axis=2).sum(axis=1))
        middles = np.clip(middles + pushes.sum(axis=1) / 2 / pushing[:, None], lowest, highest)
    return np.asarray(middles)


def _overlaps(middles: Array, sizes: Array) -> Array:
    """How far boxes overlap along each axis; zero for those that do not, and for a box and itself."""
    depths = (sizes[:, None] + sizes) / 2 - np.abs(middles[:, None] - middles)
    depths[np.diag_indices(len(middles))] = 0
    return np.asarray(depths * (depths > 0).all(axis=2, keepdims=True))


def _draw_curves(layers: Sequence[Layer], classes: Array, targets: Array | None, title: str, ax: Any) -> Any:
    """Points on a line: for each class a lane with its density as a hump, and its rows as ticks below."""
    labelled = any(layer.values is not None for layer in layers)
    lanes = [written(name) for name in classes] if labelled else []
    unlabelled = len(lanes)
    if any(layer.values is None for layer in layers):
        lanes.append("no label" if labelled else "")
    ax = axes(size=(6.4, max(3.6, 1.2 + 0.45 * len(lanes)))) if ax is None else ax
    targets = np.empty((0, 1)) if targets is None else targets
    every = np.concatenate([targets, *(layer.coordinates for layer in layers)])
    margin = 0.15 * np.ptp(every) or 1.0
    line = np.linspace(every.min() - margin, every.max() + margin, STEPS + 1)
    peaks = {}
    for layer in layers:
        members = {unlabelled: layer.coordinates}
        if layer.values is not None:
            members = {lane: layer.coordinates[layer.values == name] for lane, name in enumerate(classes)}
        for lane, points in members.items():
            if len(points):
                colour = GREY["color"] if lane == unlabelled else look(lane)["color"]
                peaks[lane] = _draw_hump(points.ravel(), line, -lane, colour, layer, ax)
    named = [(lanes[lane], peak, HUMP - lane) for lane, peak in peaks.items() if lanes[lane]]
    for index, target in enumerate(targets):
        lane = index if labelled else 0
        ax.scatter(target, [-lane], s=130, edgecolors="black", zorder=3, **look(index))
        if not labelled or lane not in peaks:
            named.append((written(classes[index]), target[0], -lane))
    ax.set(xlim=line[[0, -1]], ylim=(0.65 - len(lanes), 1), yticks=[], xlabel=LINE)
    ax.set_ylabel(title if labelled else "", **LITERAL)
    ax.spines[["top", "left", "right"]].set_visible(False)
    if named:
        texts, *places = zip(*named, strict=True)
        Names(ax, np.transpose(places), texts, radii=np.full(len(named), np.nan), size=SMALL + 1)
    return ax


def _draw_hump(points: Array, line: Array, base: float, colour: str, layer: Layer, ax: Any) -> float:
    """Draw a density and the rows that it is of; where it is highest."""
    counts, _ = np.histogram(points, line)
    step = line[1] - line[0]
    # Silverman's rule, by the lesser of two measures of spread, since outliers and two humps widen the first.
    spread = min(np.std(points), np.subtract(*np.quantile(points, [0.75, 0.25])) / 1.34)
    width = max(0.9 * spread * len(points) ** -0.2, 2 * step)
    density = gaussian_filter1d(counts.astype(float), width / step, mode="constant")
    middles, heights = (line[1:] + line[:-1]) / 2, base + HUMP * density / density.max()
    if not layer.behind:
        ax.fill([line[0], *middles, line[-1]], [base, *heights, base], color=colour, alpha=0.35, linewidth=0)
    ax.plot(middles, heights, color=colour, linewidth=0.8 if layer.behind else 1.6, alpha=0.6 if layer.behind else 1)
    below, size, alpha = (RUG_BEHIND, 30, 0.25) if layer.behind else (RUG, 70, 0.6)
    ticks = {"marker": "|", "s": size, "alpha": alpha, "linewidths": 0.8, "rasterized": len(points) > VECTORS}
    ax.scatter(points, np.full(len(points), base + below), color=colour, **ticks)
    return float(middles[density.argmax()])
