"""The type of arrays, and samples of points: arrays, sparse matrices, or sequences of any objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array = NDArray[Any]


def to_array(matrix: Any) -> Array:
    """A dense array from a dense or sparse matrix."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def n_points(X: Any) -> int:
    """How many points a sample has, be it an array, a sparse matrix or a sequence of objects."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def stack(parts: list[Any]) -> Any:
    """Blocks of rows as one."""
    if len(parts) == 1:
        return parts[0]
    sparse = any(scipy.sparse.issparse(part) for part in parts)
    return scipy.sparse.vstack(parts, format="csr") if sparse else np.concatenate(parts)


def objects(points: Any) -> Array:
    """A one-dimensional array of arbitrary Python objects, which NumPy must not look into."""
    sample = np.empty(len(points), dtype=object)
    for index, point in enumerate(points):
        sample[index] = point
    return sample
