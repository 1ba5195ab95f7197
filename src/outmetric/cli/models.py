"""Commands that make models from tables and use them: fit, transform, predict, neighbors, distance, inspect, export."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outmetric.cli.terminal import (
    INTERRUPTED,
    AsJson,
    Data,
    Decimal,
    Delimiter,
    Encoding,
    Identifier,
    Jobs,
    LeaveOut,
    Output,
    Reading,
    Real,
    Seed,
    Target,
    TimeBudget,
    as_real,
    called,
    check_file,
    check_result,
    give,
    give_json,
    load_model,
    names_in,
    printable,
    progress,
    reports_errors,
    talk,
    tell_doubts,
)

if TYPE_CHECKING:
    from outmetric.foundation import Array
    from outmetric.tables import Outcome, TableModel

Model = Annotated[Path, typer.Argument(help="A model that `outmetric fit` wrote.")]


# Rows that messages name; and of a table on a cluster, those that tell what its columns hold.
SHOWN, LOOKED_AT = 10, 10_000


class Kind(StrEnum):
    """Which model is fitted."""

    AUTO = "auto"
    FIXED = "fixed"
    LEARNED = "learned"


@reports_errors
def fit(
    data: Data,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes, of any name.")],
    model: Annotated[
        Kind, typer.Option(help="auto chooses everything; fixed and learned are models 1 and 2 of the paper.")
    ] = Kind.AUTO,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose bandwidth and weights of fixed or learned by cross-validation.")
    ] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of fixed or learned; several times.")
    ] = None,
    real: Real = False,
    keep_best: Annotated[bool, typer.Option("--keep-best", help="After Ctrl-C write the best model found so far.")] = False,
    identifier: Identifier = None,
    leave_out: LeaveOut = "",
    time_budget: TimeBudget = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    dask: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers read the table (Parquet or CSV).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a metric from a table, and write the model to a file.

    Columns of numbers, categories and dates are used, gaps and all. The file is safe to load, also for others: it holds no code.

    \b
    outmetric fit cars.csv --target origin -o cars.model
    outmetric fit cars.csv -t origin -o cars.model --leave-out name,year
    outmetric fit cars.csv -t origin -o cars.model --time-budget 20
    outmetric fit cars.csv -t origin -o cars.model --model learned --tune
    outmetric fit cars.csv -t origin -o cars.model --model fixed --set bandwidth=2
    grep -v 1971 cars.csv | outmetric fit - -t origin -o cars.model
    outmetric fit flights.parquet -t delayed -o flights.model --dask tcp://10.0.0.1:8786
    """
    from outmetric.columns import check_columns
    from outmetric.storage import save

    check_file(output, (), data)
    given = _settings(settings or [])
    reading = Reading(encoding, delimiter, decimal)
    with progress() as tell, _cluster(dask):
        frame = reading.read(data, identifier=identifier) if dask is None else reading.read_lazily(data)
        # What the columns hold is told by some rows, if not all are here.
        known = frame if dask is None else _some_rows(frame)
        columns = check_columns(known, target, leave_out=names_in(leave_out), identifier=identifier, source=called(data))
        columns = as_real(columns, known) if real else columns
        tell_doubts(known, columns)
        fitted = _fitted(
            frame,
            columns,
            kind=model.value,
            tune=tune,
            settings=given,
            time_budget=time_budget,
            seed=seed,
            n_jobs=jobs,
            tell=tell,
            keep_best=keep_best,
            source=called(data),
        )
    save(fitted.model, output)
    facts = fitted.model.facts()
    size = f"{facts['rows']} rows, {len(facts['features'])} features"
    others = "".join(f", {name} {value:.3g}" for name, value in fitted.model.scores.items())
    talk(f"{size}; cross-validated {fitted.model.scoring} {fitted.model.score:.3g}{others}: {output}")
    left_out = getattr(fitted.model.estimator, "left_out_", [])
    if left_out:
        talk(f"left out for lack of time: {'; '.join(left_out)}.")
    if as_json:
        give_json({"file": str(output), **facts})
    if fitted.interrupted:
        talk("stopped; the model is the best of what was tried until then.")
        raise typer.Exit(INTERRUPTED)


@reports_errors
def transform(
    model: Model,
    data: Data,
    output: Output = "-",
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """Coordinates of rows, in which Euclidean distance is the learned metric.

    \b
    outmetric transform cars.model new-cars.csv -o coordinates.csv
    """
    check_result(output, as_json, model, data)
    with progress() as tell:
        fitted = load_model(model)
        frame = Reading(encoding, delimiter, decimal).read(data, fitted.columns)
        tell(0, None, f"mapping {len(frame)} rows")
        with _used_from(model):
            coordinates = fitted.transform(frame, called(data))
    axes = [(f"x{k + 1}", column) for k, column in enumerate(coordinates.T)]
    give([fitted.row_names(frame), *axes], output, as_json)


@reports_errors
def predict(
    model: Model,
    data: Data,
    interval: Annotated[
        float | None,
        typer.Option(help="For numbers: the ends of an interval that holds the number with this probability, such as 0.9."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", hidden=True)] = False,
    output: Output = "-",
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """The class of each row with the probabilities of all classes, or its number; and its novelty.

    Novelty, from 0 to 1, tells how far a row is from all that the model was learned from; at 1, further than any of these was from
    the others, what is predicted is a guess.

    \b
    outmetric predict cars.model new-cars.csv
    outmetric predict cars.model new-cars.csv --json | jq '.[0].prediction'
    outmetric predict prices.model new-cars.csv --interval 0.9
    """
    if explain:
        raise ValueError("No such option --explain: reasons are of pairs of rows; see `outmetric neighbors --explain`.")
    if interval is not None and not 0 < interval < 1:
        raise ValueError(f"--interval {interval:g} is no probability between 0 and 1, such as 0.9.")
    check_result(output, as_json, model, data)
    with progress() as tell:
        fitted = load_model(model)
        frame = Reading(encoding, delimiter, decimal).read(data, fitted.columns)
        tell(0, None, f"predicting {len(frame)} rows")
        with _used_from(model):
            found = _predictions(fitted, frame, called(data))
            if interval is not None:
                low, high = fitted.predict_interval(frame, interval, called(data)).T
                found += [("lower", low), ("upper", high)]
            novelty = fitted.novelty(frame, called(data))
    found += [] if novelty is None else [("novelty", novelty)]
    give([fitted.row_names(frame), *found], output, as_json)
    _tell_novel_rows(*fitted.row_names(frame), novelty)


@reports_errors
def neighbors(
    model: Model,
    query: Data,
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 5,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why: up to three features that make the two rows near, with both values.")
    ] = False,
    output: Output = "-",
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """The nearest rows, of those that the model was learned from, with their distances and labels.

    \b
    outmetric neighbors cars.model my-car.csv -k 3
    outmetric neighbors cars.model my-car.csv --explain
    """
    import numpy as np

    check_result(output, as_json, model, query)
    with progress() as tell:
        fitted = load_model(model)
        frame = Reading(encoding, delimiter, decimal).read(query, fitted.columns)
        tell(0, None, f"finding neighbours of {len(frame)} rows")
        with _used_from(model):
            distances, rows = fitted.neighbors(fitted.transform(frame, called(query)), k)
            novelty = fitted.novelty(frame, called(query))
            reasons = fitted.reasons(frame, rows, called(query)) if explain else None
    name, queries = fitted.row_names(frame)
    found = [
        (name, np.repeat(queries, k)),
        ("rank", np.tile(np.arange(1, k + 1), len(queries))),
        ("neighbor", fitted.names[rows].ravel()),
        ("distance", distances.ravel()),
        (str(fitted.columns.target), fitted.targets[rows].ravel()),
    ]
    found += [] if reasons is None else [("reasons", reasons.ravel())]
    give(found, output, as_json)
    _tell_novel_rows(name, queries, novelty)


@reports_errors
def distance(
    model: Model,
    a: Annotated[str, typer.Argument(help="A table, or the name of a row that the model was learned from.")],
    b: Annotated[str, typer.Argument(help="Likewise. Tables are compared row by row; a single row with each of the other's.")],
    output: Output = "-",
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """The learned distance of rows.

    \b
    outmetric distance cars.model 12 57
    outmetric distance cars.model my-car.csv new-cars.csv
    """
    import numpy as np

    check_result(output, as_json, model, a, b)
    fitted = load_model(model)
    reading = Reading(encoding, delimiter, decimal)
    with _used_from(model):
        (names_a, one), (names_b, other) = (_places(fitted, given, reading) for given in (a, b))
    if len(one) != len(other) and 1 not in (len(one), len(other)):
        raise ValueError(f"{a} has {len(one)} rows and {b} has {len(other)}; give as many in both, or one in either.")
    lengths = np.linalg.norm(one - other, axis=1)
    n = len(lengths)
    give([("a", np.broadcast_to(names_a, n)), ("b", np.broadcast_to(names_b, n)), ("distance", lengths)], output, as_json)


@reports_errors
def inspect(model: Model, as_json: AsJson = False) -> None:
    """What a model is, what it was learned from, and how well it did.

    \b
    outmetric inspect cars.model
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    fitted = load_model(model)
    with _used_from(model):
        facts, summary = fitted.facts(), "" if as_json else fitted.summary()
    if as_json:
        give_json({"file": str(model), "bytes": model.stat().st_size, **facts})
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(name, Text(printable(_shown(value))))
    table.add_row("file", Text(printable(f"{model}, {model.stat().st_size / 1e6:.2f} MB")))
    Console().print(table)
    print()
    print("\n".join(printable(line) for line in summary.partition("\n\n")[2].splitlines()))


@reports_errors
def export(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the ONNX model goes.")],
) -> None:
    """Write a model in the ONNX format, for programs in other languages.

    \b
    outmetric export cars.model -o cars.onnx
    """
    from outmetric.export import to_onnx
    from outmetric.foundation import write_whole

    check_file(output, (".onnx",), model)
    fitted = load_model(model)
    with _used_from(model):
        content = to_onnx(fitted.estimator, fitted.example()).SerializeToString()
    write_whole(output, content)
    talk(f"{len(content) / 1e6:.2f} MB: {output}")


def _fitted(*args: Any, settings: dict[str, Any], **kwargs: Any) -> Outcome:
    """As `fit_table`; values of the wrong kind are the fault of whoever set them."""
    from outmetric.tables import fit_table

    try:
        return fit_table(*args, settings=settings, **kwargs)
    except TypeError as error:
        if not settings:
            raise
        raise ValueError(f"a value of --set does not suit: {error}") from error


def _cluster(address: str | None) -> AbstractContextManager[None]:
    from outmetric.rows import dask_client

    return nullcontext() if address is None else dask_client(address)


def _some_rows(frame: Any) -> Any:
    """Of a table on a cluster, spread over all of it."""
    import numpy as np

    from outmetric.rows import DaskRows

    rows = DaskRows(frame)
    return rows[np.unique(np.linspace(0, max(0, len(rows) - 1), min(len(rows), LOOKED_AT), dtype=np.intp))]


def _used_from(path: Path) -> AbstractContextManager[None]:
    from outmetric.storage import used_from

    return used_from(path)


def _predictions(fitted: TableModel, frame: Any, source: str) -> list[tuple[str, Array]]:
    """The columns of what is predicted: numbers, or classes and their probabilities."""
    if fitted.classes is None:
        return [("prediction", fitted.predict(frame, source))]
    labels, shares = fitted.classify(frame, source)
    return [
        ("prediction", labels),
        *((f"probability of {name}", share) for name, share in zip(fitted.classes, shares.T, strict=True)),
    ]


def _tell_novel_rows(name: str, rows: Array, novelty: Array | None) -> None:
    """That rows are far from everything that the model knows."""
    if novelty is None:
        talk("how new these rows are is not known: the model is of an earlier version, or of very few rows.")
        return
    novel = [printable(row) for row in rows[novelty == 1]]
    if novel:
        some = ", ".join(novel[:SHOWN]) + (f" and {len(novel) - SHOWN} more" if len(novel) > SHOWN else "")
        talk(f"further from all that the model was learned from than any of its rows, so do not rely on it: {name} {some}.")


def _settings(given: list[str]) -> dict[str, Any]:
    """NAME=VALUE pairs; values are JSON where they can be, otherwise text."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"--set {text} must be NAME=VALUE, such as --set bandwidth=1.5.")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = None if value == "None" else value
    return found


def _places(fitted: TableModel, given: str, reading: Reading) -> tuple[Array, Array]:
    """Names and coordinates of the rows of a table, or of one known row."""
    import numpy as np

    if given != "-" and not Path(given).exists():
        return np.array([given]), fitted.row(given)[None]
    frame = reading.read(given, fitted.columns)
    return fitted.row_names(frame)[1].astype(str), fitted.transform(frame, called(given))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        some = [f"{name} ({item})" for name, item in list(value.items())[:12]]
        return ", ".join(some) + (f", and {len(value) - 12} more" if len(value) > 12 else "")
    return f"{value:.4g}" if isinstance(value, float) else str(value)
