"""Dask arrays and data frames: rows fetched by number, statistics of chunks by a tree of sums, and a lazy `transform`."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing, check_array

from outmetric.foundation import Array, n_points, one_blas_thread
from outmetric.kernels import Features
from outmetric.rows.moments import blocks_of, gather
from outmetric.rows.pullback import Jacobians, PullBack, pull_back
from outmetric.rows.statistics import CheckedBlock, Statistics

# So many sums of chunks are added at once: a worker holds no more of them.
FAN_IN = 8


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__")


@contextmanager
def dask_client(address: str) -> Iterator[None]:
    """Let Dask compute on a cluster; OSError if its scheduler cannot be reached or is lost.

    Parameters
    ----------
    address : str
        Of the scheduler.
    """
    try:
        from distributed import Client
        from distributed.comm.core import CommClosedError
    except ImportError as error:
        raise ImportError("running on a Dask cluster needs dask: pip install 'outmetric[dask]'") from error
    advice = "start one there (`dask scheduler`, `dask worker`), or go on without"
    try:
        client: Any = Client(address)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise OSError(f"there is no Dask scheduler at {address}: {error}. Check the address, {advice}.") from error
    with client:
        try:
            yield
        except (CancelledError, CommClosedError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise OSError(f"the Dask scheduler at {address} was lost ({reason}); {advice}.") from error


class DaskRows:
    """The rows of a Dask collection, which stay where they are; those that are asked for by their numbers are fetched, and kept.

    Parameters
    ----------
    X : Dask array of shape (n, d), or Dask data frame

    Attributes
    ----------
    collection : X
    parts : list of delayed chunks of rows
    lengths : list of int
        Of the chunks; those of data frames are counted by a pass over them.
    """

    def __init__(self, X: Any) -> None:
        self.collection = X
        self.parts, self.lengths = _parts(X)
        self.shape = (sum(self.lengths), int(X.shape[1]))
        self._numbers: Array = np.empty(0, dtype=np.intp)
        self._held: Any = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        """Rows by their numbers, as arrays or pandas' data frames hold them; one pass fetches all that were not asked for yet."""
        rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        with self._lock:
            missing = np.setdiff1d(rows, self._numbers)
            if len(missing) or self._held is None:
                found = self._fetch(missing)
                numbers = np.concatenate([self._numbers, missing])
                order = np.argsort(numbers)
                self._held = _safe_indexing(_stacked([found] if self._held is None else [self._held, found]), order)
                self._numbers = numbers[order]
            return _safe_indexing(self._held, np.searchsorted(self._numbers, rows))

    def hold(self, rows: Array) -> None:
        """Fetch rows that will be asked for in parts."""
        self[np.unique(rows)]

    def _fetch(self, rows: Array) -> Any:
        """Rows with these sorted numbers."""
        from dask import delayed

        ends = np.cumsum(self.lengths)
        take, wanted = delayed(_take), []
        for part, start, end in zip(self.parts, ends - self.lengths, ends, strict=True):
            first, last = np.searchsorted(rows, [start, end])
            if last > first:
                wanted.append(take(part, rows[first:last] - start))
        return _stacked(list(compute(*wanted or [take(self.parts[0], rows[:0])])))

    def prepared(self, function: Callable[[Any], Array], n_columns: int) -> Any:
        """A Dask array of ``function`` of each chunk."""
        import dask
        import dask.array

        one = dask.delayed(partial(_rows, function, n_columns))
        arrays = [
            dask.array.from_delayed(one(part), (length, n_columns), dtype=np.float64)
            for part, length in zip(self.parts, self.lengths, strict=True)
        ]
        return dask.array.concatenate(arrays)


class ChunkedPoints:
    """Rows of a Dask collection as an estimator takes them: some by their numbers, sums over all or some of them chunk by chunk.

    Parameters
    ----------
    rows : DaskRows
    check : function of rows
        Must be picklable; returns them checked.
    """

    def __init__(self, rows: DaskRows, check: Callable[[Any], Any]) -> None:
        self.rows, self.check, self.shape = rows, check, rows.shape

    def __getitem__(self, rows: Any) -> Any:
        return self.check(self.rows[rows])

    def cells(self, features: Features, codes: Array, weights: Array | None = None) -> dict[int, Array]:
        """The moments of rows with the same code, as `gather` has them; rows with weight 0, or False, are left out."""
        found = self._chunks(codes, weights)._total(_cells, features)
        assert isinstance(found, Cells)
        return found.moments

    def pull_back(self, jacobians: Jacobians, kind: str, weights: Array | None = None) -> PullBack:
        """The learned metric pulled back; rows with weight 0 are left out."""
        return self._chunks(np.zeros(self.shape[0], dtype=np.uint8), weights).pull_back(jacobians, kind)

    def _chunks(self, codes: Array, weights: Array | None) -> Chunks:
        # What travels to the workers with every chunk should be small.
        codes = codes.astype(np.min_scalar_type(int(codes.max(initial=0))))
        return Chunks(self.rows, codes, partial(_coded_rows, self.check), weights)


class Cells:
    """Moments by cell; two may be added."""

    def __init__(self, moments: dict[int, Array]) -> None:
        self.moments = moments

    def __add__(self, other: Cells) -> Cells:
        total = dict(self.moments)
        for cell, moments in other.moments.items():
            total[cell] = total[cell] + moments if cell in total else moments
        return Cells(total)


class Chunks:
    """The row chunks of X and y.

    Parameters
    ----------
    X : Dask array of shape (n, d), Dask data frame, or DaskRows
    y : Dask array or series, or anything NumPy takes, of length n
    check : function of (X, y, weights) for one chunk
        Must be picklable; returns them checked.
    weights : as y, optional
    """

    def __init__(self, X: Any, y: Any, check: Callable[..., CheckedBlock], weights: Any = None) -> None:
        self.rows = X if isinstance(X, DaskRows) else DaskRows(X)
        self.parts, self.lengths = self.rows.parts, self.rows.lengths
        self.n = len(self.rows)
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None: give class labels or real targets.")
        self.targets = _split(y, self.lengths)
        self.weights = [None] * len(self.lengths) if weights is None else _split(weights, self.lengths)
        self.check = check

    def first(self) -> tuple[Any, Any, Any]:
        """The first chunk that has rows: X, y, weights or None."""
        index = next((index for index, length in enumerate(self.lengths) if length), None)
        if index is None:
            raise ValueError("Found array with 0 sample(s); at least one row is needed.")
        X, y, weights = compute(self.parts[index], self.targets[index], self.weights[index])
        return X, y, weights

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """At most ``count`` rows of X, checked; rows with weight 0 are not among them."""
        present = self._present()
        n = self.n if present is None else len(present)
        rows = np.arange(n) if count >= n else np.sort(rng.choice(n, count, replace=False))
        found = self.rows[rows if present is None else present[rows]]
        return np.asarray(check_array(np.asarray(found), dtype=[np.float64, np.float32], input_name="X"))

    def _present(self) -> Array | None:
        """The numbers of rows whose weight is not 0, if there are weights."""
        if self.weights[0] is None:
            return None
        return np.flatnonzero(np.concatenate([np.asarray(part) for part in compute(*self.weights)]))

    def gather(self, features: Features, *, labelled: bool, shift: Array | None = None) -> Statistics:
        """The statistics of all rows; the order of summation depends on the chunks alone."""
        statistics = self._total(_statistics, features, labelled, shift)
        assert isinstance(statistics, Statistics)
        return statistics

    def pull_back(self, jacobians: Jacobians, kind: str, of_classes: Mapping[Any, float] | None = None) -> PullBack:
        """The learned metric pulled back, over all rows; ``of_classes``: further weights by label."""
        pulled = self._total(_pulled_back, jacobians, kind, of_classes)
        assert isinstance(pulled, PullBack)
        return pulled

    def _total(self, function: Callable[..., Any], shared: Any, *settings: Any) -> Any:
        """The sum over chunks of function((X, y, weights), shared, *settings), along a tree."""
        import dask

        shared = dask.delayed(shared)
        one, add = dask.delayed(_of_chunk), dask.delayed(_add)
        found: list[Any] = [
            one(function, self.check, part, target, weights, shared, *settings)
            for part, target, weights, length in zip(self.parts, self.targets, self.weights, self.lengths, strict=True)
            if length
        ]
        while len(found) > 1:
            found = [add(found[start : start + FAN_IN]) for start in range(0, len(found), FAN_IN)]
        total = compute(found[0])[0]
        if total is None:
            raise ValueError("there are no rows: all weights are zero.")
        return total


def transform_lazily(function: Callable[[Any], Array], X: Any, n_columns: int) -> Any:
    """A Dask array of ``function`` of each chunk of rows."""
    import dask
    import dask.array

    function = partial(_rows, function, n_columns)
    if not hasattr(X, "to_dask_array"):
        X = X.rechunk({1: -1})
        return X.map_blocks(function, dtype=np.float64, chunks=(X.chunks[0], (n_columns,)))
    parts = [dask.delayed(function)(part) for part in X.to_delayed()]
    arrays = [dask.array.from_delayed(part, (np.nan, n_columns), dtype=np.float64) for part in parts]
    return dask.array.concatenate(arrays, allow_unknown_chunksizes=True)


def compute(*delayed: Any) -> tuple[Any, ...]:
    """Dask's compute; in this process every thread of the scheduler gets one BLAS thread."""
    import dask

    with one_blas_thread():
        return tuple(dask.compute(*delayed))


def _rows(function: Callable[[Any], Array], n_columns: int, part: Any) -> Array:
    return function(part) if len(part) else np.empty((0, n_columns))


def in_memory(values: Any) -> Any:
    """What is small, as labels are: computed if it is a Dask collection."""
    return compute(values)[0] if is_dask(values) else values


def cells_of(features: Features, points: Any, codes: Array, weights: Array | None = None) -> dict[int, Array]:
    """The moments of rows with the same code, of rows in memory or in chunks; see `gather`."""
    if isinstance(points, ChunkedPoints):
        return points.cells(features, codes, weights)
    return gather(features, blocks_of(points, codes, None, weights))


def _parts(X: Any) -> tuple[list[Any], list[int]]:
    if hasattr(X, "to_dask_array"):
        parts = list(X.to_delayed())
        return parts, _lengths(parts)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X has the shape {X.shape}.")
    parts = X.rechunk({1: -1}).to_delayed().ravel().tolist()
    known = not any(np.isnan(length) for length in X.chunks[0])
    return parts, list(X.chunks[0]) if known else _lengths(parts)


def _lengths(parts: Sequence[Any]) -> list[int]:
    import dask

    return list(compute(*(dask.delayed(len)(part) for part in parts)))


def _split(y: Any, lengths: list[int]) -> list[Any]:
    """What belongs to each chunk of X."""
    if is_dask(y):
        if hasattr(y, "to_dask_array"):
            parts = list(y.to_delayed())
            if _lengths(parts) == lengths:
                return parts
            y = y.to_dask_array(lengths=True)
        elif any(np.isnan(length) for length in y.chunks[0]):
            y = y.compute_chunk_sizes()
        if y.shape[0] == sum(lengths):
            columns = [(size,) for size in y.shape[1:]]
            return list(y.rechunk((tuple(lengths), *columns)).to_delayed().ravel())
    if len(y) != sum(lengths):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[sum(lengths), len(y)]}")
    values = np.asarray(y)
    ends = itertools.accumulate(lengths)
    return [values[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _take(part: Any, rows: Array) -> Any:
    return _safe_indexing(part if hasattr(part, "iloc") else np.asarray(part), rows)


def _stacked(parts: list[Any]) -> Any:
    """Arrays or data frames as one; their index means nothing here."""
    if not hasattr(parts[0], "iloc"):
        return np.concatenate(parts)
    import pandas as pd

    return pd.concat(parts, ignore_index=True)


def _of_chunk(
    function: Callable[..., Any], check: Callable[..., CheckedBlock], X: Any, y: Any, weights: Any, *settings: Any
) -> Any:
    """None if all its weights are zero."""
    block = check(X, y, weights)
    return function(block, *settings) if n_points(block[0]) else None


def _coded_rows(check: Callable[[Any], Any], X: Any, codes: Array, weights: Array | None) -> CheckedBlock:
    """The rows of a chunk whose weight is not 0, checked."""
    if weights is not None and not (weights > 0).all():
        rows = np.flatnonzero(weights)
        if not len(rows):
            return np.empty((0, X.shape[1])), codes[:0], None
        X, codes, weights = _take(X, rows), codes[rows], None if weights.dtype == bool else weights[rows]
    return check(X), codes.astype(np.intp), weights


def _cells(block: CheckedBlock, features: Features) -> Cells:
    X, codes, weights = block
    return Cells(gather(features, [(X, codes, None, weights)]))


def _statistics(block: CheckedBlock, features: Features, labelled: bool, shift: Array | None) -> Statistics:
    return Statistics.gather(features, [block], labelled=labelled, shift=shift)


def _pulled_back(block: CheckedBlock, jacobians: Jacobians, kind: str, of_classes: Mapping[Any, float] | None) -> PullBack:
    return pull_back([weighted_rows(block, of_classes)], jacobians, kind)


def weighted_rows(block: CheckedBlock, of_classes: Mapping[Any, float] | None) -> tuple[Any, Array | None]:
    """Rows and their weights, with those of their classes if there are such."""
    X, y, weights = block
    if of_classes is None:
        return X, weights
    own = np.array([of_classes[label] for label in y.tolist()])
    return X, own if weights is None else own * weights


def _add(parts: Sequence[Any]) -> Any:
    total = None
    for part in parts:
        total = part if total is None else total if part is None else total + part
    return total
