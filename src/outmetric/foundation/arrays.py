"""The type of arrays, samples of points, and checks of matrices: finite, symmetric, semi-definite up to round-off."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.linalg
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


def records(table: Any, names: Any = None) -> Array:
    """A table as an array of one record for each row: columns of numbers as float64, all others as objects.

    Parameters
    ----------
    table : DataFrame, or array of shape (n, d)
    names : sequence of str, optional
        Of the columns of an array; without names they are called by their position.
    """
    if hasattr(table, "columns"):
        given = list(table.columns)
        columns = [table.iloc[:, place] if hasattr(table, "iloc") else table[name] for place, name in enumerate(given)]
        names = given if all(isinstance(name, str) for name in given) else None
    else:
        columns = list(table.T)
    return as_records([str(place) for place in range(len(columns))] if names is None else names, [_entries(one) for one in columns])


def as_records(names: Any, columns: list[Array]) -> Array:
    """Records with these fields, of shape (n,)."""
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise ValueError("the columns of a table need names that differ, none of them empty")
    found = np.empty(len(columns[0]), dtype=[(str(name), column.dtype) for name, column in zip(names, columns, strict=True)])
    for name, column in zip(names, columns, strict=True):
        found[str(name)] = column
    return found


def _entries(column: Any) -> Array:
    values = np.asarray(column)
    if values.dtype.kind == "O" and all(isinstance(value, Real) for value in values):
        return values.astype(np.float64)
    return values.astype(np.float64) if values.dtype.kind in "fiub" else objects(values.tolist())


def check_psd(matrix: Array, name: str = "matrix", *, tolerance: float | None = None) -> None:
    """Raise ValueError unless the matrix is symmetric and positive semi-definite up to round-off.

    Costs a Cholesky decomposition, or if there is none one `scipy.linalg.eigvalsh`.

    Parameters
    ----------
    matrix : array of shape (n, n)
    name : str
        What the error message calls it.
    tolerance : float, optional
        Largest departure allowed, relative to the largest entry (symmetry) or eigenvalue (semi-definiteness).
        Default: the square root of the dtype's resolution.

    Examples
    --------
    >>> import numpy as np
    >>> check_psd(np.array([[1.0, 2.0], [2.0, 1.0]]), "my kernel")
    Traceback (most recent call last):
    ...
    ValueError: my kernel is not positive semi-definite: its smallest eigenvalue is -1, its largest 3 ...
    """
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be a square matrix; its shape is {matrix.shape}.")
    check_finite(matrix, name)
    usual = psd_tolerance(matrix.dtype)
    tolerance = usual if tolerance is None else tolerance
    check_symmetric(matrix, name, tolerance)
    # No eigenvalue is below -tolerance times the largest, which no entry of the diagonal exceeds, if this has a factor.
    shift = tolerance * float(np.diagonal(matrix).max(initial=0.0))
    if tolerance >= usual and shift > 0 and _has_factor(matrix, shift):
        return
    eigenvalues = scipy.linalg.eigvalsh(matrix)
    require_psd(eigenvalues[0], eigenvalues[-1], name, tolerance)


def _has_factor(matrix: Array, shift: float) -> bool:
    """Whether the matrix with this shift of its diagonal has a Cholesky factor; several times as fast as its eigenvalues."""
    shifted = np.array(matrix, dtype=np.result_type(matrix, np.float32))
    np.einsum("ii->i", shifted)[...] += shift
    try:
        scipy.linalg.cholesky(shifted, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return False
    return True


def check_finite(matrix: Array, name: str) -> None:
    """Raise ValueError if an entry is NaN or infinite (one pass, no temporary array)."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(matrix, dtype=np.float64)
    if not np.isfinite(total) and not np.isfinite(matrix).all():
        raise ValueError(f"{name} has entries that are NaN or infinite; rescale the data or change the kernel.")


def check_symmetric(matrix: Array, name: str, tolerance: float) -> None:
    """Raise ValueError if the matrix differs from its transpose by more than ``tolerance`` times its largest entry."""
    largest = float(max(matrix.max(initial=0.0), -matrix.min(initial=0.0)))
    worst = max((float(np.abs(matrix[part] - matrix[:, part].T).max()) for part in _parts(len(matrix))), default=0.0)
    if worst > tolerance * largest:
        raise ValueError(
            f"{name} is not symmetric: entries (i, j) and (j, i) differ by up to {worst:.3g}, where the largest entry is "
            f"{largest:.3g}. Symmetrise it, or mend the function that computed it."
        )


def require_psd(smallest: float, largest: float, name: str, tolerance: float) -> None:
    """Raise ValueError if the smallest eigenvalue is below -``tolerance`` times the largest in size."""
    if smallest < -tolerance * max(abs(smallest), abs(largest)):
        raise ValueError(
            f"{name} is not positive semi-definite: its smallest eigenvalue is {smallest:.3g}, its largest {largest:.3g} "
            f"(allowed: {-tolerance * abs(largest):.2g}). Use a kernel that is one (distances are none), or add at least "
            f"{-smallest:.3g} to its diagonal if that is acceptable for the problem."
        )


def psd_tolerance(dtype: np.dtype[Any]) -> float:
    """The negative eigenvalue, relative to the largest, that round-off of entries of this dtype may cause."""
    return float(np.sqrt(np.finfo(dtype if dtype.kind == "f" else np.float64).eps))


def scaled_rows(matrix: Any, factors: Array) -> Any:
    """diag(factors) X for a dense or sparse X, of the same kind."""
    if not scipy.sparse.issparse(matrix):
        return factors[:, None] * matrix
    sparse: Any = matrix
    return sparse.multiply(factors[:, None]).tocsr()


def _parts(size: int, block: int = 1024) -> list[slice]:
    return [slice(start, start + block) for start in range(0, size, block)]


def is_missing(value: Any) -> bool:
    """Whether it is None, NaN, NaT, or pandas.NA, which does not say whether it equals itself."""
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # arrays and the like
        return False
