"""What pictures are drawn on and with: figures, colours, marks and hatches."""

from __future__ import annotations

from typing import Any

from outmetric.foundation import Array

# Petroff (2021), "Accessible color sequences for data visualization": ten colours that the colour-blind can tell apart.
COLOURS = ["#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"]
# Numbers of marks and hatches that share no factor with that of colours, so that pairs repeat late.
MARKERS = "osD^vP*X<>phd"
HATCHES = ["", "////", "....", "xxxx", "\\\\\\\\", "----", "oo", "++", "||||"]
# A series of values from small to large, also in print; and one with a neutral middle.
SEQUENTIAL, DIVERGING = "cividis", "PuOr"


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


def grid(rows: int, columns: int, *, size: float = 4.5) -> tuple[Any, Array]:
    """A figure with rows x columns axes, and the array of these."""
    figure, axes = pyplot().subplots(rows, columns, figsize=(size * columns, size * rows), squeeze=False, layout="constrained")
    return figure, axes
