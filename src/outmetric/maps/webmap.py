"""An interactive map of rows in the output space: one HTML page that needs no network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import string
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_array

from outmetric.foundation import Array, obstacle, write_whole
from outmetric.maps.canvas import COLOURS
from outmetric.maps.webcolumns import WebColumn, outcome_columns, packed, table_columns, web_column
from outmetric.maps.webreasons import web_reasons

# The parts of the page's script, in their order.
SCRIPTS = ("webdata", "webdraw", "webchosen", "webfilter", "webplacer", "webmap")
# How far probabilities may be from 0 and 1 by the way they were computed.
ROUND_OFF = 1e-6


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
    model: Any = None,
    X: Any = None,
    fitted_coordinates: Any = None,
    honesty: str = "",
    probabilities: Any = None,
    classes: Any = None,
    predictions: Any = None,
    novelty: Any = None,
    placer: dict[str, Any] | None = None,
) -> InteractiveMap:
    """Make a web page with a map of rows: hover to read a row, click to list its nearest neighbours, and why they are near.

    The page also writes the names of classes on their islands, colours the rows by any column, hides those that a filter does not
    let through, switches classes on and off, finds rows by id, saves rows that are chosen by a lasso as CSV, and places rows of a
    CSV file that is dropped onto it. It is one file with everything in it, for current browsers with WebGL. It loads nothing, sends
    nothing, and runs nothing that is in the data.

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
    model : fitted metric, Pipeline, MetricSearchCV, MetricClassifier or MetricRegressor, optional
        The one that the coordinates are from. With it the page tells of each neighbour of a row up to three columns of the table
        for which it is near (see `outmetric.choosing.reasons_of_nearness`), if there are at most 500 rows (with 10 neighbours).
    X : table or array, optional
        The rows as the model takes them. Default: the table, of which it takes all columns.
    fitted_coordinates : array of the shape of ``coordinates``, optional
        Where the fitted model puts the rows, whose labels it has seen. The page then has a switch between these and
        ``coordinates``, which it calls "out of fold", and says what the former are.
    honesty : str
        How good the map is, in a few words, such as "96.9 % of held-out rows right by 5 neighbours here"; shown under the title.
    probabilities : array of shape (n, n_classes), optional
        What a model that has not seen them says of the rows' classes; NaN in rows of which nothing is known. Bars for the chosen
        row, and columns "prediction", "error" (right or wrong) and "confidence" (the largest probability) to colour by.
    classes : sequence of n_classes names
        Of the columns of ``probabilities``, as in the labels.
    predictions : array of shape (n,), optional
        The same for real targets: columns "prediction" and "error", prediction - target. Labels are numbers then, also whole ones.
    novelty : array of shape (n,), optional
        The share of rows that are less far from everything else, from 0 to 1. The page says so of a chosen row that has more than
        0.95, and has a column "novelty".
    placer : dict, optional
        What `web_placer` made of the model: the page places new rows with it, or says why it cannot.

    Returns
    -------
    InteractiveMap
        With ``html`` and ``write(path)``.

    Raises
    ------
    ValueError
        If lengths or shapes do not fit, a coordinate is not finite, or probabilities or novelty are not within 0 and 1.
    ImportError
        Without plotly: ``pip install 'outmetric[web]'``.

    Notes
    -----
    The page has about 5 MB for plotly, and for each row 11 bytes a coordinate (half of it for float32), up to 11 bytes a number of
    the table, and 1 to 5 bytes a text beside the distinct texts themselves; reasons take 7 bytes a neighbour. Clicks are answered
    by brute force: n m operations. Probabilities take 5 bytes a class and row.

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
    fitted = None if fitted_coordinates is None else _points(fitted_coordinates, "fitted_coordinates")
    if fitted is not None and fitted.shape != points.shape:
        raise ValueError(f"fitted_coordinates have shape {fitted.shape}, but coordinates have {points.shape}.")
    if isinstance(neighbors, bool) or not isinstance(neighbors, int | np.integer) or neighbors < 1:
        raise ValueError(f"neighbors must be a whole number of at least 1, not {neighbors!r}.")
    label = None
    if labels is not None:
        label = web_column(_name(labels), labels, rows, is_label=True, is_real=predictions is not None)
    shares, names = _shares(probabilities, classes, rows)
    guesses = _numbers(predictions, "predictions", rows)
    if guesses is not None and (shares is not None or (label is not None and label.kind != "number")):
        raise ValueError("predictions are for real targets; for classes give probabilities, and classes.")
    far = _numbers(novelty, "novelty", rows, within_one=True)
    shown = [web_column(name, values, rows) for name, values in table_columns(table)]
    labelling = [] if label is None else [label]
    taken = {column.name for column in [*labelling, *shown]}
    said = [
        replace(column, name=f"{column.name} (model)") if column.name in taken else column
        for column in outcome_columns(label, names, shares, guesses, far)
    ]
    columns = [*labelling, *said, *shown]
    if ids is None:
        ids = getattr(table, "index", None)
    row_names = None if ids is None else [str(value) for value in ids]
    if row_names is not None and len(row_names) != rows:
        raise ValueError(f"{len(row_names)} ids came, but coordinates have {rows} rows.")
    reasons = None if model is None else web_reasons(model, table if X is None else X, metric, neighbors, columns)
    drawn, height = _drawn(points, metric, label)
    plotly, scale = _plotly()
    content = {
        "axes": [packed(axis) for axis in drawn.T],
        "fitted": None if fitted is None else [packed(axis) for axis in np.column_stack([fitted, drawn[:, dimensions:]]).T],
        "height": height,
        "metric": None if drawn.dtype == metric.dtype and np.array_equal(drawn, metric) else [packed(part) for part in metric.T],
        "neighbors": int(neighbors),
        "reasons": reasons,
        "ids": row_names,
        "labelled": label is not None,
        "columns": [column.content() for column in columns],
        "probabilities": None if shares is None else packed(shares.astype(np.float32).ravel()),
        "classes": names,
        "novelty": None if far is None else columns.index(said[-1]),
        "placer": placer,
        "colours": COLOURS,
        "scale": [[place, colour] for place, colour in zip(np.linspace(0, 1, len(scale)).tolist(), scale, strict=True)],
    }
    return InteractiveMap(title, rows, _page(title, honesty, content, plotly))


def _drawn(points: Array, metric: Array, label: WebColumn | None) -> tuple[Array, str]:
    """What is drawn, and what its height is: a component of the metric, the target, nothing, or a place in a layout."""
    rows, dimensions = points.shape
    if dimensions > 1:
        return points, "component" if np.array_equal(points, metric[:, :dimensions]) else "place"
    # A single coordinate is drawn against a real target, or spread over a band of its class, as plots does it.
    height, heights = "nothing", 0.6 * (np.arange(rows) * 0.618 % 1 - 0.5)
    if label is not None and label.kind == "text":
        heights += label.values
    elif label is not None and np.isfinite(label.values).all():
        height, heights = "target", label.values
    return np.column_stack([points, heights]), height


def _numbers(given: Any, name: str, rows: int, *, within_one: bool = False) -> Array | None:
    """A number for each row, NaN where there is none."""
    if given is None:
        return None
    values = np.asarray(given, dtype=np.float64)
    values = values.ravel() if values.shape == (rows, 1) else values
    if values.shape != (rows,):
        raise ValueError(f"{name} must have one number for each of the {rows} rows; their shape is {values.shape}.")
    if within_one:
        _check_shares(values, name)
    return values


def _shares(probabilities: Any, classes: Any, rows: int) -> tuple[Array | None, list[str]]:
    """Probabilities, and the names of their columns."""
    if (probabilities is None) != (classes is None):
        raise ValueError("probabilities and classes, the names of their columns, come together; one of them is missing.")
    if probabilities is None:
        return None, []
    names = [str(name) for name in np.asarray(classes).ravel().tolist()]
    values = np.asarray(probabilities, dtype=np.float64)
    if not names or values.shape != (rows, len(names)):
        raise ValueError(
            f"probabilities must have a row for each of {rows} rows and a column for each of {len(names)} classes; their shape is "
            f"{values.shape}."
        )
    _check_shares(values, "probabilities")
    return values, names


def _check_shares(values: Array, name: str) -> None:
    told = values[~np.isnan(values)]
    if ((told < -ROUND_OFF) | (told > 1 + ROUND_OFF)).any():
        raise ValueError(f"{name} must be within 0 and 1 (or NaN); they are from {told.min():.4g} to {told.max():.4g}.")


def _name(labels: Any) -> str:
    """Of a Series or of the one column of a DataFrame."""
    columns = list(getattr(labels, "columns", ()))
    return str(columns[0] if len(columns) == 1 else getattr(labels, "name", None) or "class")


def _points(coordinates: Any, name: str) -> Array:
    checked: Array = check_array(coordinates, dtype=[np.float64, np.float32], input_name=name)
    return checked


def _page(title: str, honesty: str, content: dict[str, Any], plotly: str) -> str:
    """The page; its policy lets the page's own scripts run and nothing else, and forbids all traffic."""
    folder = resources.files("outmetric.maps")
    parts = "".join(folder.joinpath(f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    # The parser makes all line ends the same before it takes the hash.
    scripts = {
        "plotly": plotly.replace("\r\n", "\n").replace("\r", "\n"),
        "script": f'"use strict";\n(() => {{\n{parts}}})();\n',
    }
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") for text in scripts.values()]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    policy = (
        # plotly compiles what it draws points with; hence eval.
        f"default-src 'none'; script-src {allowed} 'unsafe-eval'; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    texts = {
        "title": html.escape(title),
        "honesty": f'<p id="honesty" dir="auto">{html.escape(honesty)}</p>' if honesty else "",
        "style": folder.joinpath("webmap.css").read_text("utf-8"),
        # ASCII, and no "<": nothing in it can end the script element.
        "data": json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    template = string.Template(folder.joinpath("webmap.html").read_text("utf-8"))
    return template.substitute(policy=policy, **texts, **scripts)


def _plotly() -> tuple[str, list[str]]:
    """The source of plotly.js, and a colour scale that the colour-blind can read."""
    try:
        from plotly.colors import sequential
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("interactive maps need plotly: pip install 'outmetric[web]'") from error
    return get_plotlyjs(), sequential.Viridis
