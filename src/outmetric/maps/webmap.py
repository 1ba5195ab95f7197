"""An interactive map of rows in the output space: one HTML page that needs no network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import string
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_array

from outmetric.foundation import Array, obstacle, write_whole
from outmetric.maps.canvas import COLOURS
from outmetric.maps.webcolumns import packed, table_columns, web_column


@dataclass(frozen=True)
class InteractiveMap:
    """A page that `interactive_map` made; notebooks show it in place."""

    title: str
    rows: int
    html: str = field(repr=False)

    def write(self, path: Path | str) -> Path:
        """Write the page to a file, whole or not at all."""
        path = Path(path)
        if trouble := obstacle(path):
            raise ValueError(trouble)
        # Bytes: other line ends would not fit the hashes of the scripts. Half a surrogate pair in the title becomes a reference.
        write_whole(path, self.html.encode("utf-8", errors="xmlcharrefreplace"))
        return path

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width: 100%; height: 640px; border: 1px solid #ddd"></iframe>'


def interactive_map(
    coordinates: Any,
    labels: Any = None,
    *,
    table: Any = None,
    ids: Any = None,
    metric_coordinates: Any = None,
    title: str = "Map of the learned metric",
    neighbors: int = 10,
) -> InteractiveMap:
    """Make a web page with a map of rows: hover to read a row, click to list its nearest neighbours.

    The page also colours the rows by any column, switches classes on and off, and finds rows by id. It is one file with everything
    in it, for current browsers with WebGL. It loads nothing, sends nothing, and runs nothing that is in the data.

    Parameters
    ----------
    coordinates : array of shape (n, 1), (n, 2) or (n, 3)
        Where the rows are drawn, such as ``model.transform(X)``. A single coordinate is drawn as a band for each class, or
        against real targets.
    labels : array of shape (n,), optional
        Classes. Numbers that are not all whole are real targets and become a range of colours; so are floats of shape (n, 1), whole
        or not. The name of a Series, or of the column of a DataFrame, is shown.
    table : DataFrame of pandas or polars, or dict of columns, optional
        What to show of the rows: numbers, dates, texts, categories, with gaps. All of it is in the page.
    ids : array of shape (n,), optional
        Names of the rows to show and to search for. Default: the index of a pandas table, otherwise 0 to n - 1.
    metric_coordinates : array of shape (n, m), optional
        Euclidean distance between these is the distance between rows, for the nearest neighbours. Default: ``coordinates``. A
        model with more than three components has a map of few coordinates and neighbours by all of them.
    title : str
    neighbors : int
        How many neighbours to list.

    Returns
    -------
    InteractiveMap
        With ``html`` and ``write(path)``.

    Raises
    ------
    ValueError
        If lengths or shapes do not fit, or a coordinate is not finite.
    ImportError
        Without plotly: ``pip install 'outmetric[web]'``.

    Notes
    -----
    The page has about 5 MB for plotly, and for each row 11 bytes a coordinate (half of it for float32), up to 11 bytes a number of
    the table, and 1 to 5 bytes a text beside the distinct texts themselves. Clicks are answered by brute force: n m operations.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from outmetric import LearnedKernelMetric
    >>> from outmetric.maps import interactive_map
    >>> data = load_wine(as_frame=True)
    >>> X = StandardScaler().fit_transform(data.data)
    >>> model = LearnedKernelMetric(n_components=2).fit(X, data.target)
    >>> page = interactive_map(model.transform(X), data.target, table=data.data, title="Wine")
    >>> page
    InteractiveMap(title='Wine', rows=178)
    >>> page.write("wine.html")  # doctest: +SKIP
    """
    points = _points(coordinates, "coordinates")
    rows, dimensions = points.shape
    if dimensions > 3:
        raise ValueError(
            f"a map has 1 to 3 coordinates; coordinates have shape {points.shape}. "
            "Pass the first three, and all of them as metric_coordinates."
        )
    metric = points if metric_coordinates is None else _points(metric_coordinates, "metric_coordinates")
    if len(metric) != rows:
        raise ValueError(f"metric_coordinates have {len(metric)} rows, but coordinates have {rows}.")
    if isinstance(neighbors, bool) or not isinstance(neighbors, int | np.integer) or neighbors < 1:
        raise ValueError(f"neighbors must be a whole number of at least 1, not {neighbors!r}.")
    columns = [web_column(name, values, rows) for name, values in table_columns(table)]
    # A single coordinate is drawn against a real target, or spread over a band of its class, as plots does it.
    height, heights = "nothing", 0.6 * (np.arange(rows) * 0.618 % 1 - 0.5)
    if labels is not None:
        label = web_column(_name(labels), labels, rows, is_label=True)
        columns.insert(0, label)
        if label.kind == "text":
            heights += label.values
        elif np.isfinite(label.values).all():
            height, heights = "target", label.values
    if ids is None:
        ids = getattr(table, "index", None)
    names = None if ids is None else [str(value) for value in ids]
    if names is not None and len(names) != rows:
        raise ValueError(f"{len(names)} ids came, but coordinates have {rows} rows.")
    drawn = points if dimensions > 1 else np.column_stack([points, heights])
    plotly, scale = _plotly()
    content = {
        "axes": [packed(axis) for axis in drawn.T],
        "height": "component" if dimensions > 1 else height,
        "metric": None if drawn is metric else [packed(component) for component in metric.T],
        "neighbors": int(neighbors),
        "ids": names,
        "labelled": labels is not None,
        "columns": [column.content() for column in columns],
        "colours": COLOURS,
        "scale": [[place, colour] for place, colour in zip(np.linspace(0, 1, len(scale)).tolist(), scale, strict=True)],
    }
    return InteractiveMap(title, rows, _page(title, content, plotly))


def _name(labels: Any) -> str:
    """Of a Series or of the one column of a DataFrame."""
    columns = list(getattr(labels, "columns", ()))
    return str(columns[0] if len(columns) == 1 else getattr(labels, "name", None) or "class")


def _points(coordinates: Any, name: str) -> Array:
    checked: Array = check_array(coordinates, dtype=[np.float64, np.float32], input_name=name)
    return checked


def _page(title: str, content: dict[str, Any], plotly: str) -> str:
    """The page; its policy lets the page's own scripts run and nothing else, and forbids all traffic."""
    folder = resources.files("outmetric.maps")
    template, style, script = (folder.joinpath(f"webmap.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    # The parser makes all line ends the same before it takes the hash.
    scripts = {"plotly": plotly.replace("\r\n", "\n").replace("\r", "\n"), "script": script}
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") for text in scripts.values()]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    policy = (
        # plotly compiles what it draws points with; hence eval.
        f"default-src 'none'; script-src {allowed} 'unsafe-eval'; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    # ASCII, and no "<": nothing in it can end the script element.
    data = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return string.Template(template).substitute(title=html.escape(title), policy=policy, style=style, data=data, **scripts)


def _plotly() -> tuple[str, list[str]]:
    """The source of plotly.js, and a colour scale that the colour-blind can read."""
    try:
        from plotly.colors import sequential
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("interactive maps need plotly: pip install 'outmetric[web]'") from error
    return get_plotlyjs(), sequential.Viridis
