"""What pictures are drawn on and with: figures, colours, marks and hatches, bare axes with a scale, and legends below them."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from outmetric.estimators import shortened
from outmetric.foundation import Array

# The first ten are of Petroff (2021), "Accessible color sequences for data visualization". The others were added one by one, each
# the furthest from all before it: any two of the twenty differ by 17 or more in CIELAB, also for protanopes and deuteranopes.
COLOURS = ["#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"]
COLOURS += ["#4900ff", "#614986", "#61ceff", "#f3ce6d", "#c2dbb6", "#6d79ff", "#2455f3", "#863d49", "#4992b6", "#9e2424"]
# Numbers of marks and hatches that share no factor with that of colours, so that pairs repeat late; in an order in which marks that
# first share a colour look least alike.
MARKERS = "osD^v><*PXhpd"
HATCHES = ["", "////", "....", "xxxx", "\\\\\\\\", "----", "oo", "++", "||||"]
# A series of values from small to large, also in print; and one with a neutral middle.
SEQUENTIAL, DIVERGING = "cividis", "PuOr"
# Names and titles are shown as they are: "$" and "_" begin no formula.
LITERAL = {"parse_math": False, "usetex": False}
# The font sizes of what is said beside a map.
SMALL = 9
# A scale bar is at most this share of the width of a map.
BAR = 0.22
# Inches that a scale bar below a map takes.
BELOW = 0.3
# Names in a legend, which would else be the picture, and its columns.
LEGEND_MOST, WIDEST = 100, 12


def look(index: int) -> dict[str, Any]:
    """Colour and mark of the index-th class or line."""
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


def axes(*, size: tuple[float, float] | None = None, projection: str | None = None, layout: str = "constrained") -> Any:
    """New axes in a figure of their own."""
    return pyplot().figure(figsize=size, layout=layout).add_subplot(projection=projection)


def pyplot() -> Any:
    """matplotlib.pyplot, if it is there."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'outmetric[plot]'") from error
    return plt


def close(figure: Any) -> None:
    """Let go of a figure that has been saved."""
    pyplot().close(figure)


def grid(rows: int, columns: int, *, size: float = 4.5, projection: str | None = None) -> tuple[Any, Array]:
    """A figure with rows x columns axes, and the array of these."""
    settings = {"squeeze": False, "layout": "constrained", "subplot_kw": {"projection": projection}}
    figure, axes = pyplot().subplots(rows, columns, figsize=(size * columns, size * rows), **settings)
    return figure, axes


def written(name: Any) -> str:
    """A name on one line, with its middle left out if it is long."""
    return shortened(" ".join(str(name).split()))


def round_length(longest: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is at most ``longest``."""
    power = 10.0 ** np.floor(np.log10(longest))
    # A power of ten that was rounded to less than itself must not fall to the half of it.
    return float(max(step * power for step in (1, 2, 5) if step * power <= longest * (1 + 1e-9)))


def bare_axes(ax: Any, scale: float | None) -> None:
    """Take away what says nothing on a map, and tell how long a distance is.

    Parameters
    ----------
    ax : matplotlib axes with points in them, in two or three dimensions
    scale : float or None
        How long a distance of 1 is in the units of the ax; None if the map keeps no distances.
    """
    if ax.name == "3d":
        _bare_box(ax, scale)
        return
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_aspect("equal", adjustable="datalim")
    width = np.ptp(ax.get_xlim())
    if scale is not None and width > 0:
        _add_bar(ax, scale, round_length(BAR * width / scale))


def _add_bar(ax: Any, scale: float, length: float) -> None:
    """A bar of some length below the right end of an ax."""
    from matplotlib.font_manager import FontProperties
    from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar

    where = {"loc": "upper right", "bbox_to_anchor": (1, 0), "bbox_transform": ax.transAxes}
    text = {"fontproperties": FontProperties(size=SMALL), "label_top": True, "sep": 2}
    space = {"pad": 0.2, "borderpad": 0, "frameon": False}
    bar = AnchoredSizeBar(ax.transData, scale * length, f"distance {length:g}", color="0.25", **where, **text, **space)
    ax.add_artist(bar)


def _bare_box(ax: Any, scale: float | None) -> None:
    """In three dimensions, where near is longer than far, the lines of the grid are the scale."""
    limits = np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()])
    step = np.ptp(limits, axis=1).max() / 4 if scale is None else scale * round_length(np.ptp(limits, axis=1).max() / 3 / scale)
    for axis, (low, high) in zip((ax.xaxis, ax.yaxis, ax.zaxis), limits, strict=True):
        ticks = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
        axis.set_ticks(ticks, [""] * len(ticks))
        # Labels have a place even if they are empty; where it is far outside, matplotlib 3.8 finds no room for the axes.
        axis.set_tick_params(color="none", label1On=False)
        axis.line.set_color("0.7")
    ax.set(xlabel="", ylabel="", zlabel="")
    ax.set_aspect("equal")
    if scale is not None:
        ax.text2D(1, 0, f"between lines: distance {step / scale:g}", transform=ax.transAxes, ha="right", va="top", fontsize=SMALL)


def add_title(ax: Any, title: str) -> None:
    """A title above the left end of an ax, in lines that are no longer than it."""
    # Matplotlib breaks lines itself, but takes "$" for the beginning of a formula then. A letter is about half as wide as high.
    letters = ax.get_window_extent().width / ax.figure.dpi * 72 / (0.5 * SMALL)
    ax.set_title(fill(title, max(1, int(letters))), loc="left", fontsize=SMALL, **LITERAL)


def legend_below(ax: Any, names: Sequence[Any], title: str) -> Any:
    """Names with the looks of the classes, in columns below an ax and its scale."""
    from matplotlib.lines import Line2D
    from matplotlib.transforms import ScaledTranslation

    texts = [written(name) for name in names[:LEGEND_MOST]]
    handles = [Line2D([], [], linestyle="", markersize=6, **look(index)) for index in range(len(texts))]
    if len(names) > LEGEND_MOST:
        texts.append(f"… and {len(names) - LEGEND_MOST} more")
        handles.append(Line2D([], [], linestyle=""))
    down = ax.transAxes + ScaledTranslation(0, -BELOW, ax.figure.dpi_scale_trans)
    where = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": down, "borderaxespad": 0}
    space = {"handlelength": 1, "handletextpad": 0.4, "columnspacing": 1.5, "fontsize": SMALL, "title_fontsize": SMALL}
    for columns in range(min(len(texts), WIDEST), 0, -1):
        legend = literal_legend(ax, handles, texts, title=title, ncols=columns, **where, **space)
        if legend.get_window_extent().width <= ax.get_window_extent().width:
            break
    return legend


def literal_legend(ax: Any, handles: Sequence[Any], texts: Sequence[str], **options: Any) -> Any:
    """A legend that shows names as they are."""
    # They are set afterwards, since matplotlib leaves out those that begin with "_".
    legend = ax.legend(handles, ["x"] * len(texts), frameon=False, **options)
    for label, text in zip(legend.get_texts(), texts, strict=True):
        label.set(text=text, **LITERAL)
    legend.get_title().set(**LITERAL)
    return legend
