"""The command that tells of pairs of rows whether they are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outmetric.cli.models import Model
from outmetric.cli.terminal import (
    AsJson,
    Data,
    Decimal,
    Delimiter,
    Encoding,
    Output,
    Reading,
    called,
    check_result,
    give,
    give_json,
    load_model,
    progress,
    reports_errors,
    talk,
)

if TYPE_CHECKING:
    from outmetric.foundation import Array
    from outmetric.tables import TableModel

FIRST, SECOND, KNOWN = "first", "second", "same"
# What the column `same` may hold, in small letters.
YES, NO = {"1", "+1", "1.0", "true", "yes"}, {"0", "-1", "0.0", "-1.0", "false", "no"}
# Rates of false accepts that are reported on.
REPORTED = (0.01, 0.001)


@reports_errors
def verify(
    model: Model,
    pairs: Data,
    rows: Annotated[
        str | None,
        typer.Option(help="The table whose rows the pairs name. Default: the rows that the model was learned from."),
    ] = None,
    far: Annotated[float, typer.Option(help="The share of different pairs that may be taken for the same.")] = 0.01,
    output: Output = "-",
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """Are two rows the same? The distance of each pair, and, by pairs of which it is known, probability and decision.

    The table of pairs has two columns, first and second, that name rows by the model's identifier or by their number, from 1. A
    third one, same, tells of some or all pairs whether they are (1 or 0, yes or no, true or false): with it the threshold is
    chosen, and rates of errors are told. Pairs with an empty cell there are decided by the others.

    \b
    outmetric verify faces.model pairs.csv --rows new-faces.csv
    outmetric verify faces.model pairs.csv --rows new-faces.csv --far 0.001 -o decided.csv
    """
    import numpy as np

    from outmetric.storage import used_from

    if not 0 < far < 1:
        raise ValueError(f"--far {far:g} is no rate between 0 and 1, such as 0.01.")
    check_result(output, as_json, model, pairs, *([] if rows is None else [rows]))
    if pairs == rows == "-":
        raise ValueError("standard input holds one table; give a file for the pairs or for --rows.")
    reading = Reading(encoding, delimiter, decimal)
    with progress() as tell:
        fitted = load_model(model)
        named = _read_pairs(reading, pairs)
        known = _known(named, called(pairs))
        tell(0, None, f"comparing {len(named)} pairs")
        with used_from(model):
            names, coordinates = _rows(fitted, rows, reading)
        places = [
            _places(named[column], column, names, "the model" if rows is None else called(rows)) for column in (FIRST, SECOND)
        ]
    both = np.stack([coordinates[place] for place in places], axis=1)
    lengths = np.linalg.norm(both[:, 0] - both[:, 1], axis=1)
    columns = [(FIRST, named[FIRST].to_numpy(dtype=str)), (SECOND, named[SECOND].to_numpy(dtype=str)), ("distance", lengths)]
    report, judged = ({}, []) if known is None else _judged(both, known, far)
    if as_json:
        values = {name: np.asarray(column).tolist() for name, column in columns + judged}
        give_json({**report, "pairs": [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]})
    else:
        give(columns + judged, output, as_json)
    _tell(report, known is not None, rows is None)


def _read_pairs(reading: Reading, source: str) -> Any:
    """The table of pairs, whose names are text."""
    from outmetric.tables import TableError, read_table

    frame = read_table(
        source,
        encoding=reading.encoding,
        delimiter=reading.delimiter,
        decimal=reading.decimal,
        as_text=[FIRST, SECOND, KNOWN],
    )
    missing = [name for name in (FIRST, SECOND) if name not in frame.columns]
    if missing:
        held = ", ".join(map(str, list(frame.columns)[:10]))
        raise TableError(
            f"{called(source)} has no column {' or '.join(missing)}; pairs are named in columns {FIRST} and {SECOND}, and it has "
            f"{held}."
        )
    if not len(frame):
        raise TableError(f"{called(source)} has no pairs.")
    for name in (FIRST, SECOND):
        gaps = frame[name].isna().to_numpy().nonzero()[0]
        if len(gaps):
            raise TableError(f"{called(source)}, column {name}: row {gaps[0] + 1} is empty.")
        frame[name] = frame[name].astype(str)
    return frame


def _known(frame: Any, source: str) -> Array | None:
    """1 for pairs that are the same, 0 for others, NaN where that is not known; None if it is known of none."""
    import numpy as np

    from outmetric.tables import TableError

    if KNOWN not in frame.columns or frame[KNOWN].isna().all():
        return None
    texts = frame[KNOWN].where(frame[KNOWN].notna(), "").astype(str).str.strip().str.lower().tolist()
    wrong = [number for number, text in enumerate(texts) if text and text not in YES | NO]
    if wrong:
        raise TableError(
            f"{source}, column {KNOWN}: {texts[wrong[0]]!r} in row {wrong[0] + 1} is neither 1 nor 0 (yes or no, true or false)."
        )
    found = np.array([np.nan if not text else float(text in YES) for text in texts])
    for kind, word in ((1, "the same"), (0, "different")):
        if not (found == kind).any():
            raise TableError(f"{source}, column {KNOWN}: no pair is {word}; a threshold needs both kinds.")
    return found


def _rows(fitted: TableModel, source: str | None, reading: Reading) -> tuple[list[str], Array]:
    """Names and coordinates of the rows that pairs may name."""
    if source is None:
        return [str(name) for name in fitted.names.tolist()], fitted.coordinates
    frame = reading.read(source, fitted.columns)
    return [str(name) for name in fitted.row_names(frame)[1].tolist()], fitted.transform(frame, called(source))


def _places(wanted: Any, column: str, names: list[str], source: str) -> list[int]:
    """Numbers of the rows of these names, each of which must be the name of one row."""
    from outmetric.tables import TableError

    numbers: dict[str, int] = {}
    twice = set()
    for number, name in enumerate(names):
        if numbers.setdefault(name, number) != number:
            twice.add(name)
    for row, name in enumerate(wanted, start=1):
        if name not in numbers:
            advice = "; --rows gives another table" if source == "the model" else ""
            raise TableError(f"pair {row}, column {column}: {source} has no row {name!r}{advice}.")
        if name in twice:
            raise TableError(f"pair {row}, column {column}: {source} has several rows {name!r}.")
    return [numbers[name] for name in wanted]


def _judged(both: Array, known: Array, far: float) -> tuple[dict[str, Any], list[tuple[str, Array]]]:
    """What is told of the pairs that are known, and the probabilities and decisions of all."""
    import warnings

    import numpy as np

    from outmetric.verification import PairVerifier

    told = ~np.isnan(known)
    same = known[told] == 1
    verifier = PairVerifier()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that pairs are too few is told below
        verifier.calibrate(both[told], same, strategy="far", far=far)
    points = verifier.operating_points(both[told], same)
    place = points.place_of(verifier.threshold_)
    report: dict[str, Any] = {
        "same": int(points.n_same),
        "different": int(points.n_different),
        "auc": points.auc,
        "equal error rate": points.equal_error_rate,
        **{
            f"true accepts at {rate:g}": float(points.true_accepts_at(np.array(rate))) if rate * points.n_different >= 1 else None
            for rate in REPORTED
        },
        "far": far,
        "threshold": verifier.threshold_,
        "true accepts": float(points.true_accepts[place]),
        "false accepts": float(points.false_accepts[place]),
    }
    decisions = np.where(verifier.predict(both) > 0, "same", "different")
    return report, [("probability", verifier.predict_proba(both)[:, 1]), ("decision", decisions)]


def _tell(report: dict[str, Any], known: bool, learned_from: bool) -> None:
    """The report for people."""
    if not known:
        talk(f"no threshold: the pairs have no column {KNOWN} that tells of some of them whether they are the same.")
        return
    different = report["different"]
    talk(
        f"{report['same']} same and {different} different pairs; area under the curve {report['auc']:.4f}, "
        f"equal error rate {report['equal error rate']:.2%}"
    )
    for rate in REPORTED:
        share = report[f"true accepts at {rate:g}"]
        found = f"not to be told of fewer than {1 / rate:g} different pairs" if share is None else f"{share:.1%}"
        talk(f"true accepts at {rate:.1%} false accepts: {found}")
    talk(
        f"threshold {report['threshold']:.6g} for {report['far']:g} of false accepts: {report['false accepts']:.2%} of the "
        f"different pairs accepted, and {report['true accepts']:.1%} of the same"
    )
    if report["far"] * different < 1:
        talk(f"of {different} different pairs none may be accepted then, so little is known of that rate: give more of them.")
    if learned_from:
        talk("the model was learned from these rows, so all of this is too good: give pairs of others, with --rows.")
