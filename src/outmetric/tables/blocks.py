"""Tables in files that are never held whole: CSV and Parquet, read in blocks, or by the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outmetric.columns import TableError, content
from outmetric.foundation import Array
from outmetric.tables.formats import TableFormat, by_suffix, known_suffixes
from outmetric.tables.sources import arrow_package, check_names

# Rows read at once.
ROWS = 2**16


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table with numeric columns and one target column, which is never held whole.

    Examples
    --------
    >>> TableFile.open("points.csv", "label").blocks  # doctest: +SKIP
    <bound method TableFile.blocks of ...>
    """

    path: Path
    target: str
    features: tuple[str, ...]

    @classmethod
    def open(cls, path: Path | str, target: str, leave_out: Sequence[str] = ()) -> TableFile:
        """Look at the header; columns that are not numbers are an error that names them."""
        path = Path(path)
        schema = _dataset(path).schema
        check_names(schema.names, str(path))
        missing = [name for name in (target, *leave_out) if name not in schema.names]
        if missing:
            raise TableError(f"{path} has no column {missing[0]!r}; it has: {', '.join(schema.names[:20])}.")
        features = [name for name in schema.names if name != target and name not in leave_out]
        if not features:
            raise TableError(f"{path} has no columns beside {target!r}.")
        wrong = [name for name in features if content(schema.field(name).type) != "number"]
        if wrong:
            raise TableError(f"{path}: not numbers: {', '.join(wrong[:20])}. Encode these columns, or leave them out.")
        return cls(path, target, tuple(features))

    @property
    def format(self) -> TableFormat:
        """What the file is."""
        return _format(self.path)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """(X, y) for some rows at a time."""
        arrow = arrow_package()
        columns = [*self.features, self.target]
        try:
            batches = _dataset(self.path).to_batches(columns=columns, batch_size=ROWS, batch_readahead=1, fragment_readahead=1)
            for batch in batches:
                if not batch.num_rows:
                    continue
                gaps = [name for name, column in zip(columns, batch.columns, strict=True) if column.null_count]
                if gaps:
                    raise TableError(f"{self.path} has missing values in {', '.join(gaps)}; fill them, or leave the columns out.")
                values = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
                single = all(value.dtype == np.float32 for value in values[:-1])
                yield np.stack(values[:-1], axis=1, dtype=np.float32 if single else np.float64), values[-1]
        except (arrow.lib.ArrowException, OSError) as error:
            raise TableError(f"{self.path} cannot be read: {error}") from error

    def scaled(self, mean: Array, spread: Array) -> Iterator[tuple[Array, Array]]:
        """The blocks with standardised features."""
        for X, y in self.blocks():
            yield ((X - mean) / spread).astype(X.dtype), y

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each feature (1 for constant ones), in one pass over the file."""
        count, mean, squares = 0, np.zeros(len(self.features)), np.zeros(len(self.features))
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            for X, _ in self.blocks():
                own = X.mean(axis=0, dtype=np.float64)
                shift = own - mean
                total = count + len(X)
                squares += ((X - own) ** 2).sum(axis=0) + shift**2 * (count * len(X) / total)
                mean += shift * (len(X) / total)
                count = total
        if not count:
            raise TableError(f"{self.path} has no rows.")
        if not np.isfinite(squares).all():
            wrong = [name for name, value in zip(self.features, squares, strict=True) if not np.isfinite(value)]
            raise TableError(f"{self.path} has NaN, infinite or huge values in {', '.join(wrong)}.")
        spread = np.sqrt(squares / count)
        return mean, np.where(spread > 0, spread, 1.0)


def lazy_table(path: Path | str, **options: Any) -> Any:
    """A CSV or Parquet file as a Dask data frame, which workers read: they must see the file under the same path.

    Parameters
    ----------
    path : path
    **options : arguments of pandas' `read_csv`
        For CSV only; None means the default.
    """
    import dask.dataframe

    path = Path(path)
    name = _format(path).name
    if not path.exists():
        raise TableError(f"there is no file {path}.")
    given = {option: value for option, value in options.items() if value is not None}
    if given and name != "csv":
        raise TableError(f"{path} is no CSV, for which alone {', '.join(given)} can be said.")
    try:
        read = dask.dataframe.read_csv if name == "csv" else dask.dataframe.read_parquet
        return read(str(path.resolve()), **given)
    except (OSError, ValueError) as error:  # those of pandas and pyarrow too
        raise TableError(f"{path} cannot be read: {error}") from error


def _dataset(path: Path) -> Any:
    arrow = arrow_package()
    import pyarrow.dataset

    if not path.exists():
        raise TableError(f"there is no file {path}.")
    try:
        return pyarrow.dataset.dataset(str(path), format=_format(path).in_blocks)
    except (arrow.lib.ArrowException, OSError, ValueError) as error:
        raise TableError(f"{path} cannot be read: {error}") from error


def _format(path: Path) -> TableFormat:
    for suffix in reversed(path.suffixes[-2:]):
        found = by_suffix(suffix)
        if found is not None and found.in_blocks is not None:
            return found
    raise TableError(f"{path}: only {known_suffixes('in_blocks')} files are known here (CSV also compressed, .csv.gz).")
