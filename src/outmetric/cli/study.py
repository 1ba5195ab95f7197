"""Commands that look at a table: evaluate and map."""

from __future__ import annotations

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
    names_in,
    progress,
    reports_errors,
    talk,
)

if TYPE_CHECKING:
    from outmetric.columns import Columns
    from outmetric.foundation import Array
    from outmetric.tables import TableModel

PAGES = (".html", ".htm")


@reports_errors
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
    from outmetric.choosing import compare
    from outmetric.columns import align, check_columns

    if picture is not None:
        check_file(picture, PICTURES, data)
    with progress() as tell:
        frame = Reading(encoding, delimiter, decimal).read(data)
        columns = check_columns(frame, target, leave_out=names_in(leave_out), source=called(data))
        if not columns.classes:
            raise ValueError(f"{data}: the target {target} is a number; only classes can be evaluated.")
        X, y = align(frame, columns, source=called(data)), columns.targets(frame)
        found = compare(X, y, folds=folds, repeats=repeats, time_budget=time_budget, seed=seed, n_jobs=jobs, tell=tell)
    if picture is not None:
        _draw_accuracies(found, Path(data).stem, picture)
        talk(f"picture: {picture}")
    if as_json:
        give_json([_scores(found, name) for name in found.right])
    else:
        _print_accuracies(found)


def _draw_accuracies(found: Any, title: str, picture: Path) -> None:
    import numpy as np

    from outmetric.maps import accuracy_bars

    names = list(found.right)
    means, halves = (np.array([[of(name)] for name in names]) for of in (found.mean, found.half))
    draw(accuracy_bars([title], names, means, halves), picture)


def _print_accuracies(found: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    from outmetric.choosing import OURS

    table = Table("method", "accuracy in %", f"{OURS} is better by", "fit")
    for name in found.right:
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


@reports_errors
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
    from outmetric.columns import check_columns
    from outmetric.tables import fit_table

    check_file(output, (*PAGES, *PICTURES), data)
    with progress() as tell:
        frame = Reading(encoding, delimiter, decimal).read(data, identifier=identifier)
        columns = check_columns(frame, target, leave_out=names_in(leave_out), identifier=identifier, source=called(data))
        columns = as_real(columns, frame) if real else columns
        train, test = _parts(frame, columns, hold_out, seed)
        outcome = fit_table(
            frame.iloc[train],
            columns,
            kind="learned",
            tune=True,
            settings=_map_settings(frame.iloc[train], columns, components),
            seed=seed,
            n_jobs=jobs,
            tell=tell,
            source=called(data),
        )
    model = outcome.model
    title = f"{Path(data).name}: {target}" + (_success(model, frame.iloc[test]) if len(test) else "")
    if output.suffix.lower() in PAGES:
        _page(model, frame, test, title, output)
    else:
        _picture(model, frame, train, test, title, output)
    if model.coordinates.shape[1] < components:
        talk(f"the target has no more than {model.coordinates.shape[1]} dimension{'s' if components > 2 else ''} to be drawn in.")
    talk(f"{title}: {output}")


def _parts(frame: Any, columns: Columns, share: float, seed: int) -> tuple[Array, Array]:
    """Row numbers to learn from, and to hold out."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(frame))
    if not share:
        return rows, rows[:0]
    try:
        strata = columns.targets(frame) if columns.classes else None
        train, test = train_test_split(rows, test_size=share, stratify=strata, random_state=seed)
    except ValueError as error:
        raise ValueError(f"--hold-out {share} leaves too few rows of some class: {error}") from error
    return np.sort(train), np.sort(test)


def _map_settings(frame: Any, columns: Columns, components: int) -> dict[str, Any]:
    """As many components as are wanted and the targets can span."""
    if not columns.classes:
        return {}
    return {"n_components": min(components, len(set(columns.targets(frame))) - 1)}


def _success(model: TableModel, held_out: Any) -> str:
    """How well rows are predicted that the model has not seen."""
    from sklearn.metrics import accuracy_score, r2_score

    truth, predicted = model.columns.targets(held_out), model.predict(held_out)
    if model.columns.classes:
        return f"; {accuracy_score(truth, predicted):.1%} of {len(truth)} held-out rows recognised"
    return f"; R2 of {len(truth)} held-out rows {r2_score(truth, predicted):.3g}"


def _page(model: TableModel, frame: Any, test: Array, title: str, output: Path) -> None:
    import numpy as np

    from outmetric.maps import interactive_map

    columns = model.columns
    labels = type(frame[columns.target])(columns.targets(frame), name=columns.target)
    labels = labels if columns.classes else labels.to_frame()  # one column of floats: real targets, also if they are whole
    shown = frame[list(columns.features)]
    if len(test):
        shown = shown.assign(**{"held out": np.isin(np.arange(len(frame)), test)})
    names = model.row_names(frame)[1]
    interactive_map(model.transform(frame), labels, table=shown, ids=names, title=title).write(output)


def _picture(model: TableModel, frame: Any, train: Array, test: Array, title: str, output: Path) -> None:
    from outmetric.columns import align
    from outmetric.maps import output_map

    y = model.columns.targets(frame)
    X = align(frame, model.columns)
    drawn, behind = (test, train) if len(test) else (train, test)
    pale = {"X_train": X.iloc[behind], "y_train": y[behind]} if len(behind) else {}
    ax = output_map(model.mapping, X.iloc[drawn], y[drawn], **pale)
    ax.set_title(title, fontsize=10)
    draw(ax, output)
