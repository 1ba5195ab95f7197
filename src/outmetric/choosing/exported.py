"""Votes of neighbours as nodes of an ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier


def smoothed_votes_to_onnx(graph: Any, voters: KNeighborsClassifier, coordinates: str) -> str:
    """Add (votes + 1/2) / (n_neighbors + classes/2) to a graph; of points at the same distance the first vote."""
    distances = graph.sum_over_features("squares", coordinates, np.asarray(voters._fit_X, dtype=np.float64))
    nearest = graph("TopK", distances, np.array([voters.n_neighbors]), n_outputs=2, largest=0)
    ballots = np.eye(len(voters.classes_))[voters._y]
    votes = graph("ReduceSum", graph("Gather", ballots, nearest, axis=0), np.array([1]), keepdims=0)
    return str(graph("Div", graph("Add", votes, 0.5), voters.n_neighbors + len(voters.classes_) / 2))
