"""An interactive map of rows in the output space: one HTML page that needs no network."""

from __future__ import annotations

import base64
import datetime
import hashlib
import html
import json
import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_array

from outmetric.columns import content
from outmetric.foundation import Array, obstacle, write_whole
from outmetric.maps.canvas import COLOURS

# Whole numbers beyond this are not exact in a browser.
LARGEST_WHOLE = 2**53
NUMBERS = (int, float, np.integer, np.floating, Decimal)


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
        Classes. Numbers that are not all whole are real targets and become a range of colours. The name of a Series is shown.
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
    columns = [_column(name, values, rows) for name, values in _table_columns(table)]
    # A single coordinate is drawn against a real target, or spread over a band of its class, as plots does it.
    height, heights = "nothing", 0.6 * (np.arange(rows) * 0.618 % 1 - 0.5)
    if labels is not None:
        label = _column(str(getattr(labels, "name", None) or "class"), labels, rows, is_label=True)
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
        "axes": [_packed(axis) for axis in drawn.T],
        "height": "component" if dimensions > 1 else height,
        "metric": None if drawn is metric else [_packed(component) for component in metric.T],
        "neighbors": int(neighbors),
        "ids": names,
        "labelled": labels is not None,
        "columns": [column.content() for column in columns],
        "colours": COLOURS,
        "scale": [[place, colour] for place, colour in zip(np.linspace(0, 1, len(scale)).tolist(), scale, strict=True)],
    }
    return InteractiveMap(title, rows, _page(title, content, plotly))


@dataclass(frozen=True, eq=False)
class _Column:
    """Numbers, dates in milliseconds since 1970 (both with NaN for gaps), or codes into ``texts``; one code more is a gap."""

    name: str
    kind: str
    values: Array
    texts: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        texts = {"texts": self.texts} if self.kind == "text" else {}
        return {"name": self.name, "kind": self.kind, "values": _packed(self.values), **texts}


def _points(coordinates: Any, name: str) -> Array:
    checked: Array = check_array(coordinates, dtype=[np.float64, np.float32], input_name=name)
    return checked


def _table_columns(table: Any) -> Iterable[tuple[str, Any]]:
    if table is None:
        return ()
    if hasattr(table, "get_columns"):
        return zip(table.columns, table.get_columns(), strict=True)
    if hasattr(table, "items") and not hasattr(table, "dtype"):
        return ((str(name), column) for name, column in table.items())
    raise TypeError(f"table must be a DataFrame of pandas or polars, or a dict of columns; a {type(table).__name__} came.")


def _column(name: str, column: Any, rows: int, *, is_label: bool = False) -> _Column:
    """What the page shows of a column. Labels that are whole numbers are classes; other whole numbers are numbers."""
    given = _values(column)
    given = given.ravel() if given.shape == (rows, 1) else given
    if given.shape != (rows,):
        what = "labels have" if is_label else f"column {name!r} has"
        raise ValueError(f"{what} shape {given.shape}, but coordinates have {rows} rows; there must be one value for each.")
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if isinstance(categories, Iterable):
        return _text(name, list(column), {str(value): place for place, value in enumerate(categories)})
    values = _typed(given) if given.dtype.kind == "O" else given
    held = content(values)
    if held == "date":
        return _dates(name, values)
    if held == "number" and not (is_label and np.array_equal(values, np.round(values), equal_nan=True)):
        numbers = _shortest(values)
        if numbers is not None:
            return _Column(name, "number", numbers)
    return _text(name, given.tolist())


def _dates(name: str, values: Array) -> _Column:
    if values.dtype.kind == "m":
        return _Column(f"{name} (seconds)", "number", values / np.timedelta64(1, "s"))
    since = values.astype("datetime64[ms]").astype(np.int64)
    return _Column(name, "date", np.where(np.isnat(values), np.nan, since))


def _shortest(values: Array) -> Array | None:
    """The numbers in as few bytes as they need; None if a browser cannot tell them apart."""
    if values.dtype.kind == "f":
        return values.astype(np.float32 if values.itemsize < 8 else np.float64)
    least, largest = values.min(), values.max()
    if max(-int(least), int(largest)) > LARGEST_WHOLE:
        return None
    smallest = np.result_type(np.min_scalar_type(least), np.min_scalar_type(largest))
    return values.astype(smallest if smallest.itemsize < 8 else np.float64)


def _values(column: Any) -> Array:
    """An array of a column; of objects if it came without a type."""
    if isinstance(column, np.ma.MaskedArray):
        column = column.tolist()
    if getattr(getattr(column, "dtype", None), "time_zone", None):
        column = column.dt.replace_time_zone(None)  # the array of a polars column would be in UTC
    return np.asarray(column) if hasattr(column, "__array__") else np.fromiter(column, dtype=object)


def _typed(values: Array) -> Array:
    """Objects as an array of dates or of numbers, if all but the gaps are such; otherwise as they are.

    By the values, since a page shows what `check_columns` would refuse, and also columns of polars and plain lists.
    """
    items = [None if _is_missing(value) else value for value in values]
    kinds = {type(value) for value in items if value is not None}
    if kinds and all(issubclass(kind, datetime.date | np.datetime64) for kind in kinds):
        # What calendar and clock show in the dates' own time zone.
        clocks = [value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value for value in items]
        return np.array(clocks, dtype="datetime64[ms]")
    if not kinds or not all(issubclass(kind, NUMBERS) and kind is not bool for kind in kinds):
        return values
    if any(isinstance(value, int | np.integer) and abs(int(value)) > LARGEST_WHOLE for value in items):
        return values
    return np.array([np.nan if value is None else float(value) for value in items])


def _text(name: str, items: list[Any], places: dict[str, int] | None = None) -> _Column:
    """A column of texts, which come in the order of their places, or else of their values."""
    texts = [None if _is_missing(value) else str(value) for value in items]
    values = {text: value for text, value in zip(texts, items, strict=True) if text is not None}
    order: dict[str, Any] = places or values
    try:
        distinct = sorted(values, key=order.__getitem__)
    except (TypeError, ValueError):  # values that cannot be compared
        distinct = sorted(values)
    codes: dict[str | None, int] = {None: len(distinct), **{text: code for code, text in enumerate(distinct)}}
    smallest = np.min_scalar_type(len(distinct))
    return _Column(name, "text", np.array([codes[text] for text in texts], dtype=smallest), tuple(distinct))


def _is_missing(value: Any) -> bool:
    """None, NaN, NaT, or pandas.NA, which does not say whether it equals itself."""
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # arrays and the like
        return False


def _packed(values: Array) -> dict[str, str]:
    """Little-endian bytes, and how the page calls their type."""
    ordered = values.astype(values.dtype.newbyteorder("<"))
    return {"type": ordered.dtype.str[1:], "bytes": base64.b64encode(ordered.tobytes()).decode("ascii")}


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
