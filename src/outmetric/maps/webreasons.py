"""Why the neighbours of each row of a web map are near, as the page holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import _safe_indexing

from outmetric.choosing import REFERENCES, column_names, explain, reasons_of_nearness, usual_contributions
from outmetric.foundation import Array
from outmetric.maps.webcolumns import WebColumn, packed

# Pairs of rows that are compared; more would take minutes.
MOST_PAIRS = 15_000
# Reasons of each neighbour.
MOST = 3


def web_reasons(model: Any, X: Any, metric: Array, n_neighbors: int, columns: Sequence[WebColumn]) -> dict[str, Any]:
    """What the page's script reads: the neighbours of each row, and of each the places of up to three columns.

    A place that is the number of columns stands for none. For too many rows there is a sentence instead that says so.
    """
    if X is None:
        raise ValueError("the reasons of a model need the rows as it takes them: give table, or X.")
    rows = len(metric)
    if X.shape[0] != rows:
        raise ValueError(f"X has {X.shape[0]} rows, but coordinates have {rows}.")
    n_neighbors = min(n_neighbors, rows - 1)
    most_rows = MOST_PAIRS // (n_neighbors + REFERENCES)
    if rows > most_rows:
        return {"missing": f"(Reasons are given in maps of up to {most_rows} rows.)"}
    if n_neighbors < 1:
        return {"missing": ""}
    shown = [column.name for column in columns]
    features = column_names(model)
    absent = [name for name in features if name not in shown]
    if absent:
        raise ValueError(f"the table has no column {absent[0]!r}, which the model looks at; show it, or leave out the model.")
    places = np.array([len(shown) - 1 - shown[::-1].index(name) for name in features])  # the label, perhaps of that name, is first
    near = NearestNeighbors(n_neighbors=n_neighbors).fit(metric).kneighbors(return_distance=False)
    first = np.repeat(np.arange(rows), n_neighbors)
    contributions = explain(model, _safe_indexing(X, first), _safe_indexing(X, near.ravel())).contributions
    found = np.full((len(first), MOST), len(shown))
    for pair, reasons in enumerate(reasons_of_nearness(contributions, usual_contributions(model, X, X)[first], MOST)):
        found[pair, : len(reasons)] = places[reasons]
    return {
        "most": MOST,
        "neighbours": packed(near.ravel().astype(np.uint16)),
        "places": packed(found.ravel().astype(np.min_scalar_type(len(shown)))),
    }
