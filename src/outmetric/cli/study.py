"""Commands that look at a table: evaluate and map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from outmetric import plots
from outmetric.choosing import OURS, compare
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
    names_in,
    progress,
    talk,
    told,
)
from outmetric.columns import TableError, align, check_columns
from outmetric.foundation import Array
from outmetric.maps import interactive_map
from outmetric.tables import TableModel, fit_table

PAGES = (".html", ".htm")


@told
def evaluate(
    data: Data,
    target: Target,
    folds: Annotated[int, typer.Option(min=2, help="Parts that each are tested on once.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="How often the parts are drawn anew.")] = 1,
    picture: Annotated[Path | None, typer.Option(help="Draw the accuracies: .png, .pdf or .svg.")] = None,
    leave_out: LeaveOut = "",
    time_budget: TimeBudget = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """How well classes can be told: cross-validated accuracy beside Euclidean k-NN, NCA, an SVM and a random forest.

    All but the forest are tuned in each training part. Intervals are of 95 %, for new rows; how much fits differ does not enter.

    \b
    outmetric evaluate cars.csv --target origin
    outmetric evaluate cars.csv --target origin --repeats 4 --time-budget 10 --picture accuracy.png
    """
    if picture is not None:
        check_file(picture, PICTURES)
    with progress() as tell:
        frame = Reading(encoding, delimiter, decimal).read(data)
        columns = check_columns(frame, target, leave_out=names_in(leave_out), source=called(data))
        if not columns.classes:
            raise TableError(f"{data}: the target {target} is a number; only classes can be evaluated.")
        X, y = align(frame, columns, source=called(data)), columns.targets(frame)
        found = compare(X, y, folds=folds, repeats=repeats, time_budget=time_budget, seed=seed, n_jobs=jobs, tell=tell)
    names = list(found.right)
    if picture is not None:
        means, halves = (np.array([[of(name)] for name in names]) for of in (found.mean, found.half))
        draw(plots.accuracy_bars([Path(data).stem], names, means, halves), picture)
        talk(f"picture: {picture}")
    if as_json:
        give_json([_scores(found, name) for name in names])
        return
    table = Table("method", "accuracy in %", f"{OURS} is better by", "fit")
    for name in names:
        lead, half = found.lead(name)
        better = "" if name == OURS else f"{lead:+.1f} +- {half:.1f}"
        table.add_row(name, f"{found.mean(name):.1f} +- {found.half(name):.1f}", better, f"{found.seconds[name]:.1f} s")
    Console().print(table)


def _scores(found: Any, name: str) -> dict[str, Any]:
    lead, half = found.lead(name)
    return {
        "method": name,
        "accuracy": found.mean(name),
        "interval": found.half(name),
        "lead": lead,
        "lead_interval": half,
        "seconds": found.seconds[name],
    }


@told
def draw_map(
    data: Data,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="A page to explore (.html), or a picture (.png, .pdf, .svg).")],
    components: Annotated[int, typer.Option(min=2, max=3, help="Dimensions.")] = 2,
    hold_out: Annotated[float, typer.Option(min=0.0, max=0.9, help="Share of rows that are only drawn, not learned from.")] = 0.0,
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

    Rows that were learned from look better apart than they are; --hold-out shows how new ones fall.

    \b
    outmetric map cars.csv --target origin -o cars.html
    outmetric map cars.csv --target origin -o cars.png --hold-out 0.3
    outmetric map cars.csv --target origin -o cars.html --components 3 --id name
    """
    check_file(output, (*PAGES, *PICTURES), data)
    with progress() as tell:
        frame = Reading(encoding, delimiter, decimal).read(data, identifier=identifier)
        columns = check_columns(frame, target, leave_out=names_in(leave_out), identifier=identifier, source=called(data))
        columns = as_real(columns, frame) if real else columns
        train, test = _parts(frame, columns.targets(frame), columns.classes, hold_out, seed)
        outcome = fit_table(
            frame.iloc[train],
            columns,
            kind="learned",
            tune=True,
            settings=_map_settings(columns.targets(frame.iloc[train]), columns.classes, components),
            seed=seed,
            n_jobs=jobs,
            tell=tell,
            source=called(data),
        )
    model = outcome.model
    title = f"{Path(data).name}: {target}"
    if len(test):
        predicted, truth = model.predict(frame.iloc[test]), columns.targets(frame.iloc[test])
        if columns.classes:
            title += f"; {np.mean(predicted == truth):.1%} of {len(test)} held-out rows recognised"
        else:
            title += f"; R2 of {len(test)} held-out rows {r2_score(truth, predicted):.3g}"
    if output.suffix.lower() in PAGES:
        _page(model, frame, train, test, title, output)
    else:
        _picture(model, frame, train, test, title, output)
    if model.coordinates.shape[1] < components:
        talk(f"the target has no more than {model.coordinates.shape[1]} dimension{'s' if components > 2 else ''} to be drawn in.")
    talk(f"{title}: {output}")


def _parts(frame: Any, y: Array, classes: bool, share: float, seed: int) -> tuple[Array, Array]:
    """Row numbers to learn from, and to hold out."""
    rows = np.arange(len(frame))
    if not share:
        return rows, rows[:0]
    try:
        train, test = train_test_split(rows, test_size=share, stratify=y if classes else None, random_state=seed)
    except ValueError as error:
        raise TableError(f"--hold-out {share} leaves too few rows of some class: {error}") from error
    return np.sort(train), np.sort(test)


def _map_settings(y: Array, classes: bool, components: int) -> dict[str, Any]:
    """As many components as are wanted and the targets can span."""
    if not classes:
        return {}
    return {"n_components": min(components, len(np.unique(y)) - 1)}


def _page(model: TableModel, frame: Any, train: Array, test: Array, title: str, output: Path) -> None:
    columns = model.columns
    labels = type(frame[columns.target])(columns.targets(frame), name=columns.target)
    shown = frame[list(columns.features)]
    if len(test):
        shown = shown.assign(**{"held out": np.isin(np.arange(len(frame)), test)})
    names = model.row_names(frame)[1]
    interactive_map(model.transform(frame), labels, table=shown, ids=names, title=title).write(output)


def _picture(model: TableModel, frame: Any, train: Array, test: Array, title: str, output: Path) -> None:
    y = model.columns.targets(frame)
    X = align(frame, model.columns)
    drawn, behind = (test, train) if len(test) else (train, test)
    pale = {"X_train": X.iloc[behind], "y_train": y[behind]} if len(behind) else {}
    ax = plots.output_map(model.mapping, X.iloc[drawn], y[drawn], **pale)
    ax.set_title(title, fontsize=10)
    draw(ax, output)
