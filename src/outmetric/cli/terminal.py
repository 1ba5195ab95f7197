"""What all commands share: how they read tables, tell of progress, and end. Results go to stdout, talk to stderr."""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from outmetric.columns import Columns, Remedy
    from outmetric.tables import TableModel

PICTURES = (".png", ".pdf", ".svg")
INTERRUPTED = 130  # as shells have it
BROKEN_PIPE = 141
# Names of columns to be copied from a message: no more of them than this, none longer.
COPIED, COPIED_LENGTH = 10, 50
# What mends a table, in the words of this command.
OPTIONS = {
    "decimal": "--decimal ,",
    "encoding": "--encoding latin-1",
    "model": "--model learned or --model fixed",
    "automatic": "--model auto",
    "blocks": "outmetric embed",
    "real": "--real",
}
Data = Annotated[
    str,
    typer.Argument(help="A table: .csv, .tsv, .parquet, .feather, .arff, .npz or .xlsx, text also packed (.gz ...); - for stdin."),
]
Target = Annotated[str, typer.Option("--target", "-t", help="The column to learn: classes, or numbers.")]
LeaveOut = Annotated[str, typer.Option(help="Columns to ignore, with commas between them.")]
Identifier = Annotated[str | None, typer.Option("--id", help="A column that names the rows. Default: their numbers, from 1.")]
Encoding = Annotated[str | None, typer.Option(help="Of text files. Default: UTF-8, or what a byte order mark says.")]
Delimiter = Annotated[str | None, typer.Option(help="Of CSV. Default: found out.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal mark of CSV, . or , (default: found out).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Threads that compare settings.")]
Seed = Annotated[int, typer.Option(min=0, help="For everything random.")]
TimeBudget = Annotated[
    float | None,
    typer.Option(min=0.1, help="Seconds that MetricClassifier or MetricRegressor may take; what is left out for that is told."),
]
Real = Annotated[bool, typer.Option("--real", help="Whole numbers in the target are numbers, not classes.")]
Output = Annotated[
    str, typer.Option("--output", "-o", help="Where the table goes: .csv, .tsv, .parquet or .feather; - for stdout.")
]


@dataclass(frozen=True)
class Reading:
    """How tables are to be read."""

    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None

    def read(self, source: str, columns: Columns | None = None, identifier: str | None = None) -> Any:
        """A table; identifiers, and what is a category for a model with these columns, stay as they are written."""
        from outmetric.tables import read_table

        as_text = [] if columns is None else [name for name, kind in columns.kinds_by_name.items() if kind == "category"]
        identifier = identifier if columns is None else columns.identifier
        as_text += [] if identifier is None else [identifier]
        return read_table(source, encoding=self.encoding, delimiter=self.delimiter, decimal=self.decimal, as_text=as_text)

    def read_lazily(self, source: str) -> Any:
        """A table that the workers of a Dask cluster read."""
        from outmetric.tables import lazy_table

        if source == "-":
            raise ValueError("workers cannot read standard input; give --dask a file that they see, .parquet or .csv.")
        return lazy_table(source, encoding=self.encoding, sep=self.delimiter, decimal=self.decimal)


def names_in(text: str) -> list[str]:
    """What was given with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def called(source: str) -> str:
    """What messages call a table."""
    return "standard input" if source == "-" else source


def printable(text: Any) -> str:
    """Text from a file that cannot do anything to a terminal."""
    from outmetric.foundation import printable

    return printable(text)


def as_real(columns: Columns, frame: Any) -> Columns:
    """The same columns, the target taken for numbers."""
    from outmetric.columns import content

    if content(frame[columns.target]) != "number":
        raise ValueError(f"the target {columns.target!r} holds no numbers; leave out --real.")
    return replace(columns, classes=False)


def tell_doubts(frame: Any, columns: Columns, *, identifier: bool = True) -> None:
    """Of columns that are learned from and say nothing of other rows, and what to do; the library's own warning is not for people.

    ``identifier``: whether the command has an option --id.
    """
    import warnings

    from outmetric.columns import Remedy, doubts, shown

    for name, doubt in doubts(frame[list(columns.features)]).items():
        names_rows = identifier and columns.identifier is None and frame[name].notna().all()
        ways = [*([f"--id {shown([name])}"] if names_rows else []), _option(Remedy("leave_out", (name,)))]
        talk(f"warning: column {shown([name])} {printable(doubt)}. Say {' or '.join(ways)}.")
    warnings.filterwarnings("ignore", message="column .* has no value in any row")


def talk(text: str) -> None:
    """Tell people something that is not the result."""
    print(text, file=sys.stderr)


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors that a person can do something about reported in a line, and exit code 2."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            if sys.stdout is None:
                raise OSError("standard output is closed.")
            command(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            talk("stopped.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read the output has seen enough; Python would complain once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        except FileNotFoundError as error:
            talk(f"error: {printable(error) if error.filename is None else f'there is no file {error.filename}.'}")
            raise typer.Exit(2) from error
        except (ValueError, ImportError, OSError, MemoryError) as error:
            talk(f"error: {printable(_with_options(error)) or type(error).__name__}")
            raise typer.Exit(2) from error

    return run


def _with_options(error: Exception) -> str:
    """What is wrong, and which options would mend it."""
    options = [_option(remedy) for remedy in getattr(error, "remedies", ())]
    return f"{str(error).removesuffix('.')}: {' or '.join(options)}" if options else str(error)


def _option(remedy: Remedy) -> str:
    if remedy.way != "leave_out":
        return OPTIONS[remedy.way]
    names = remedy.columns
    copied = len(names) <= COPIED and all(
        name.isprintable() and len(name) < COPIED_LENGTH and not set(name) & set(",'") for name in names
    )
    return f"--leave-out '{','.join(names) if copied else '...'}'"


def progress_bar(**settings: Any) -> Any:
    """A bar of rich on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), **settings)


@contextmanager
def progress() -> Iterator[Callable[[int, int | None, str], None]]:
    """A function (done, total, text) that moves a bar on stderr, which disappears in the end; without a total it only moves."""
    bar = progress_bar(transient=True)
    if not bar.console.is_terminal:
        yield lambda done, total, text: None  # a disabled bar of many versions of rich still ends its line
        return
    with bar:
        task = bar.add_task("reading the table", total=None)

        def tell(done: int, total: int | None, text: str) -> None:
            bar.update(task, completed=done, total=total, description=text)

        yield tell


def check_file(path: Path, suffixes: Sequence[str], *sources: Path | str) -> None:
    """Raise ValueError if a file of one of these kinds (none: any) could not be written there, or is one of what is read."""
    from outmetric.foundation import obstacle

    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"{path} must end with one of {', '.join(suffixes)}.")
    trouble = "- is no ordinary file; choose another name." if str(path) == "-" else obstacle(path)
    if trouble:
        raise ValueError(trouble)
    check_not_read(path, *sources)


def check_result(output: str, as_json: bool, *sources: Path | str) -> None:
    """Raise ValueError if a result could not be handed over in this way, or would replace one of what is read."""
    from outmetric.tables import check_output

    if as_json and output != "-":
        raise ValueError("--json goes to stdout; give either it or --output.")
    check_output(output)
    if output != "-":
        check_not_read(Path(output), *sources)


def check_not_read(path: Path, *sources: Path | str) -> None:
    """Raise ValueError if a file is one of what is read, under whatever name; standard input may be a file, too."""
    for source in sources:
        try:
            same = os.path.samestat(os.stat(path), os.fstat(sys.stdin.fileno()) if str(source) == "-" else os.stat(source))
        except (OSError, ValueError, AttributeError):  # one of them is not there; standard input may be closed, or no file at all
            continue
        if same:
            raise ValueError(f"{path} is what is read; give another name for the result.")


def load_model(path: Path) -> TableModel:
    """A model that `outmetric fit` made."""
    from outmetric.storage import load
    from outmetric.tables import TableModel

    found = load(path)
    if not isinstance(found, TableModel):
        raise ValueError(f"{path} holds a {type(found).__name__} without a table; the command takes models of `outmetric fit`.")
    return found


def draw(ax: Any, path: Path) -> None:
    """Write the picture that some axes belong to."""
    from outmetric.foundation import whole
    from outmetric.maps import close

    with whole(path) as partial:
        ax.figure.savefig(partial, dpi=150, bbox_inches="tight")
    close(ax.figure)


def give(found: Sequence[tuple[str, Any]], output: str, as_json: bool) -> None:
    """Hand over columns; a name that occurs again gets a number."""
    import numpy as np

    from outmetric.tables import write_table

    columns: dict[str, Any] = {}
    for name, column in found:
        places = (f"{name}{number or ''}" for number in itertools.chain([0], itertools.count(2)))
        columns[next(place for place in places if place not in columns)] = column
    if not as_json:
        write_table(columns, output)
        return
    values = {name: np.asarray(column).tolist() for name, column in columns.items()}
    give_json([dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)])


def give_json(value: Any) -> None:
    """Hand over something as JSON."""
    print(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))
