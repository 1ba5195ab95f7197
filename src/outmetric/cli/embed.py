"""The command for tables that do not fit in memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outmetric.cli.terminal import LeaveOut, Seed, check_not_read, names_in, progress, reports_errors, talk

if TYPE_CHECKING:
    from outmetric.estimators import LearnedKernelMetric
    from outmetric.foundation import Array
    from outmetric.tables import TableFile


@reports_errors
def embed(
    data: Annotated[Path, typer.Argument(help="A table: CSV (also .csv.gz) or Parquet, of any size.")],
    target: Annotated[str, typer.Option("--target", "-t", help="The column with the classes.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the coordinates go: .csv or .parquet.")],
    landmarks: Annotated[int, typer.Option(min=1, help="How many landmarks the map is made of.")] = 1000,
    components: Annotated[int | None, typer.Option(min=1, help="Dimensions. Default: classes - 1.")] = None,
    bandwidth: Annotated[str, typer.Option(help="Of the Gaussian kernel: a number, or such as '0.5*median'.")] = "median",
    weight: Annotated[float, typer.Option(help="regression_weight: 0.1 for noisy classes, 100 for clean ones.")] = 3.0,
    leave_out: LeaveOut = "",
    seed: Seed = 0,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to gather statistics on (Parquet or CSV).")] = None,
) -> None:
    """Learn a metric from a table that need not fit in memory, and write the coordinates of its rows.

    The table is read in blocks: once for the scale of its features, once for landmarks, once to learn, once to map. Euclidean
    distance between coordinates is the learned metric.

    \b
    outmetric embed flights.parquet --target delayed --landmarks 500 -o coordinates.parquet
    """
    from outmetric.estimators import LearnedKernelMetric
    from outmetric.tables import TableFile, check_output, write_blocks

    began = time.perf_counter()
    check_output(output)
    check_not_read(output, data)
    with progress() as tell:
        table = TableFile.open(data, target, names_in(leave_out))
        tell(0, None, "scale of the features")
        mean, spread = table.moments()
        model = LearnedKernelMetric(
            components,
            bandwidth=bandwidth if bandwidth.endswith("median") else _number(bandwidth),
            regression_weight=weight,
            solver="nystroem",
            n_landmarks=landmarks,
            random_state=seed,
        )
        tell(0, None, "learning")
        if dask is None:
            model.fit(lambda: table.scaled(mean, spread))
        else:
            _fit_on_dask(model, table, mean, spread, dask)
        tell(0, None, "mapping")
        names = [f"x{k + 1}" for k in range(model.coefficients_.shape[1])]
        coordinates = ((*model.transform(X).T, y) for X, y in table.scaled(mean, spread))
        rows = write_blocks(output, [*names, target], coordinates)
    taken = time.perf_counter() - began
    talk(f"{rows} rows, {len(table.features)} features, {model.n_landmarks_} landmarks; {taken:.1f} s: {output}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--bandwidth must be a number or such as '0.5*median', not {text!r}.") from None


def _fit_on_dask(model: LearnedKernelMetric, table: TableFile, mean: Array, spread: Array, address: str) -> None:
    from outmetric.rows import dask_client
    from outmetric.tables import lazy_table

    with dask_client(address):
        frame = lazy_table(table.path)
        features = (frame[list(table.features)] - mean) / spread
        model.fit(features.to_dask_array(lengths=True), frame[table.target])
