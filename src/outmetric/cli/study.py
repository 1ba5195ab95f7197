"""Commands that look at a table: evaluate and map."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outmetric.cli.terminal import (
    PICTURES,
    AsJson,
    Data,
    Decimal,
    Delimiter,
    Encoding,
    Identifier,
    Jobs,
    LeaveOut,
    Reading,
    Real,
    Seed,
    Target,
    TimeBudget,
    as_real,
    called,
    check_file,
    draw,
    give_json,
    load_model,
    names_in,
    progress,
    reports_errors,
    talk,
    tell_doubts,
)

if TYPE_CHECKING:
    from outmetric.automatic import Comparison
    from outmetric.columns import Columns
    from outmetric.foundation import Array
    from outmetric.layouts import MetricMap
    from outmetric.tables import TableModel

PAGES = (".html", ".htm")


@reports_errors
def evaluate(
    data: Data,
    target: Target,
    folds: Annotated[int, typer.Option(min=2, help="Parts that each are tested on once.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="How often the parts are drawn anew.")] = 1,
    picture: Annotated[Path | None, typer.Option(help="Draw the scores: .png, .pdf or .svg.")] = None,
    real: Real = False,
    leave_out: LeaveOut = "",
    time_budget: TimeBudget = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """How well the target can be told: cross-validated scores beside methods that you might take instead.

    Classes: accuracy, beside Euclidean k-NN, NCA, an SVM, a random forest and gradient boosting. Numbers: R2 and the mean absolute
    error, beside k-NN, an SVR, a random forest and gradient boosting, and how often intervals of 90 % held the number. All but
    forest and boosting are tuned in each training part. Intervals are of 95 %, for new rows; how much fits differ does not enter.

    \b
    outmetric evaluate cars.csv --target origin
    outmetric evaluate cars.csv --target price --real
    outmetric evaluate cars.csv --target origin --repeats 4 --time-budget 10 --picture accuracy.png
    """
    from outmetric.automatic import compare
    from outmetric.columns import align, check_columns

    if picture is not None:
        check_file(picture, PICTURES, data)
    with progress() as tell:
        frame = Reading(encoding, delimiter, decimal).read(data)
        columns = check_columns(frame, target, leave_out=names_in(leave_out), source=called(data))
        columns = as_real(columns, frame) if real else columns
        tell_doubts(frame, columns, identifier=False)
        X, y = align(frame, columns, source=called(data)), columns.targets(frame)
        found = compare(
            X,
            y,
            real=not columns.classes,
            folds=folds,
            repeats=repeats,
            time_budget=time_budget,
            seed=seed,
            n_jobs=jobs,
            tell=tell,
        )
    if picture is not None:
        _draw_scores(found, Path(data).stem, picture)
        talk(f"picture: {picture}")
    if as_json:
        give_json([_record(found, name) for name in found.values])
    else:
        _print_scores(found)


def _draw_scores(found: Comparison, title: str, picture: Path) -> None:
    import numpy as np

    from outmetric.maps import accuracy_bars

    scores = [found.score(name) for name in found.values]
    means, halves = np.array([[one.mean] for one in scores]), np.array([[one.half] for one in scores])
    measure, best = ("R2", 1.0) if found.real else ("accuracy in %", 100.0)
    draw(accuracy_bars([title], list(found.values), means, halves, measure=measure, best=best), picture)


def _print_scores(found: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    from outmetric.automatic import COVERAGE

    measure, places = ("R2", 3) if found.real else ("accuracy in %", 1)
    table = Table("method", measure, f"{found.ours} is better by")
    if found.real:
        table.add_column("mean absolute error")
    table.add_column("fit")
    table.columns[0].no_wrap = True
    for name in found.values:
        score, lead, error = found.score(name), found.lead(name), found.absolute_error(name)
        cells = [name, f"{score.mean:.{places}f} +- {score.half:.{places}f}"]
        cells.append("" if name == found.ours else f"{lead.mean:+.{places}f} +- {lead.half:.{places}f}")
        cells += [] if error is None else [f"{error.mean:.4g} +- {error.half:.2g}"]
        table.add_row(*cells, f"{found.seconds[name]:.1f} s")
    Console().print(table)
    coverage = found.coverage()
    if coverage is not None:
        held = f"{coverage.mean:.1f} +- {coverage.half:.1f} %"
        print(f"Intervals of {found.ours} for {100 * COVERAGE:.0f} % of the rows held {held} of them.")


def _record(found: Comparison, name: str) -> dict[str, Any]:
    score, lead, error = found.score(name), found.lead(name), found.absolute_error(name)
    record: dict[str, Any] = {
        "method": name,
        "R2" if found.real else "accuracy": score.mean,
        "interval": score.half,
        "lead": lead.mean,
        "lead_interval": lead.half,
        "seconds": found.seconds[name],
    }
    if error is not None:
        record |= {"absolute_error": error.mean, "absolute_error_interval": error.half}
    coverage = found.coverage() if name == found.ours else None
    if coverage is not None:
        record |= {"coverage": coverage.mean, "coverage_interval": coverage.half}
    return record


@reports_errors
def draw_map(
    data: Annotated[str, typer.Argument(help="A table, or '-' for stdin; or a model that `outmetric fit` made of one.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A page to explore (.html), or a picture (.png, .pdf, .svg).")],
    target: Annotated[str | None, typer.Option("--target", "-t", help="The column to learn; a model knows it.")] = None,
    components: Annotated[int, typer.Option(min=2, max=3, help="Dimensions.")] = 2,
    control: Annotated[bool, typer.Option("--control", help="Draw the same with permuted labels beside it.")] = False,
    hold_out: Annotated[float, typer.Option(min=0.0, max=0.9, help="Share of rows that are only placed, not learned from.")] = 0.0,
    real: Real = False,
    identifier: Identifier = None,
    leave_out: LeaveOut = "",
    seed: Seed = 0,
    jobs: Jobs = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
) -> None:
    """Draw a table: rows that are alike in the learned metric are close together.

    Each row is where a model that has not seen it puts it, so that the map shows what new rows would look like. A model is shown
    with the rows that it was learned from, and its settings are not searched again.

    \b
    outmetric map cars.csv --target origin -o cars.html
    outmetric map cars.csv --target origin -o cars.png --control
    outmetric map cars.model -o cars.html --components 3
    """
    check_file(output, (*PAGES, *PICTURES), data)
    with progress() as tell:
        table = _mapped_table(data, target, Reading(encoding, delimiter, decimal), identifier, leave_out, real)
        held_out = _held_out(table, hold_out, seed)
        found, permuted = _maps(table, held_out, components, control, seed, jobs, tell)
    title = f"{Path(data).name}: {table.columns.target}"
    success = _success(found, table.y, held_out) if held_out.any() else ""
    if output.suffix.lower() in PAGES:
        _page(found, table, held_out, title, output)
        if permuted is not None:
            beside = output.with_name(f"{output.stem}-control{output.suffix}")
            _page(permuted, replace(table, y=permuted.y_), held_out, f"{title}, labels permuted", beside)
            talk(f"the control: {beside}")
    else:
        _picture(found, permuted, table, title + success, output)
    talk(f"{title}{success}; {found.quality_.text()}: {output}")
    if permuted is not None:
        talk(f"with permuted labels: {permuted.quality_.text()}")


@dataclass(frozen=True, eq=False)
class _Mapped:
    """Rows to be mapped, as estimators take them and as people do, with targets and names; and what maps them, if that is known."""

    X: Any
    frame: Any
    y: Array
    names: Any
    columns: Columns
    estimator: Any = None


def _mapped_table(data: str, target: str | None, reading: Reading, identifier: str | None, leave_out: str, real: bool) -> _Mapped:
    """A table that is read, or that of a model."""
    from outmetric.columns import align, check_columns
    from outmetric.storage import is_model

    if data != "-" and is_model(data):
        if target is not None or identifier is not None or leave_out or real:
            raise ValueError("a model knows its target, columns and names; leave out --target, --id, --leave-out and --real.")
        return _of_model(load_model(Path(data)))
    if target is None:
        raise ValueError("which column is to be learned? Say so by --target, or give a model that `outmetric fit` made.")
    frame = reading.read(data, identifier=identifier)
    columns = check_columns(frame, target, leave_out=names_in(leave_out), identifier=identifier, source=called(data))
    columns = as_real(columns, frame) if real else columns
    tell_doubts(frame, columns)
    names = range(1, len(frame) + 1) if identifier is None else frame[identifier].to_numpy()
    return _Mapped(align(frame, columns), frame[list(columns.features)], columns.targets(frame), names, columns)


def _of_model(model: TableModel) -> _Mapped:
    import pandas as pd
    from sklearn.base import clone

    from outmetric.columns import align

    if model.table is None:
        raise ValueError("this model was made by an earlier version and does not hold its rows; give the table itself.")
    frame = pd.DataFrame(model.table)[list(model.columns.features)]
    unlearned = getattr(model.estimator, "unlearned_map", None)
    estimator = clone(model.mapping) if unlearned is None else unlearned()
    return _Mapped(align(frame, model.columns), frame, model.targets, model.names, model.columns, estimator)


def _held_out(table: _Mapped, share: float, seed: int) -> Array:
    """Which rows are not learned from."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    found = np.zeros(len(table.y), dtype=bool)
    if share:
        try:
            strata = table.y if table.columns.classes else None
            found[train_test_split(np.arange(len(table.y)), test_size=share, stratify=strata, random_state=seed)[1]] = True
        except ValueError as error:
            raise ValueError(f"--hold-out {share} leaves too few rows of some class: {error}") from error
    return found


def _maps(
    table: _Mapped, held_out: Array, components: int, control: bool, seed: int, jobs: int | None, tell: Any
) -> tuple[MetricMap, MetricMap | None]:
    from outmetric.automatic import MetricRegressor
    from outmetric.layouts import MetricMap

    estimator = table.estimator
    if table.columns.classes:
        _tell_of_lonely(table.y[~held_out])
    elif estimator is None:
        estimator = MetricRegressor(random_state=seed, n_jobs=jobs)  # of whole numbers, too
    declared = MetricMap(estimator, components, random_state=seed, n_jobs=jobs, verbose=tell)
    y = table.y.astype(object if table.columns.classes else float)
    y[held_out] = None if table.columns.classes else float("nan")
    y = y if table.columns.classes else y[:, None]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* classes have one row only")  # told already
        return declared.fit(table.X, y), declared.control(table.X, y) if control else None


def _tell_of_lonely(y: Array) -> None:
    """Tell of classes with one row, which no model without it knows, unless there is nothing else to draw."""
    import numpy as np

    from outmetric.columns import TableError

    names, counts = np.unique(y, return_counts=True)
    alone = names[counts == 1]
    if len(alone) and np.sum(counts > 1) < 2:
        raise TableError(f"the class {alone[0]} has one row only; to be mapped out of fold a class needs two.")
    if len(alone):
        talk(f"{len(alone)} classes have one row only, {alone[0]} for instance; these rows are placed as if they had no class.")


def _success(found: MetricMap, y: Array, held_out: Array) -> str:
    """How well neighbours in the map predict rows that the model has not seen."""
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    kind = KNeighborsRegressor if found.classes_ is None else KNeighborsClassifier
    known = found.labelled_
    score = kind(min(5, int(known.sum()))).fit(found.embedding_[known], y[known]).score(found.embedding_[held_out], y[held_out])
    if found.classes_ is None:
        return f"; R2 of {held_out.sum()} held-out rows {score:.3g}"
    return f"; {score:.1%} of {held_out.sum()} held-out rows recognised"


def _named(y: Array, columns: Columns) -> Any:
    """The target as a column with its name; real targets, also whole ones, as one of floats."""
    import pandas as pd

    return pd.Series(y, name=columns.target) if columns.classes else pd.DataFrame({columns.target: y.astype(float).ravel()})


def _page(found: MetricMap, table: _Mapped, held_out: Array, title: str, output: Path) -> None:
    from outmetric.maps import map_page

    shown = table.frame.assign(**{"held out": held_out}) if held_out.any() else table.frame
    page = map_page(found, table.X, _named(table.y, table.columns), table=shown, ids=table.names, title=title)
    page.write(output)


def _picture(found: MetricMap, permuted: MetricMap | None, table: _Mapped, title: str, output: Path) -> None:
    import numpy as np

    from outmetric.maps import map_picture

    axes = map_picture(found, _named(table.y, table.columns), control=permuted, title=title)
    draw(np.atleast_1d(axes)[0], output)
