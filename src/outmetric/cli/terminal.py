"""What all commands share: how they read tables, tell of progress, and end. Results go to stdout, talk to stderr."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from outmetric import plots
from outmetric.tables import Columns, TableError, read_table, write_table

PICTURES = (".png", ".pdf", ".svg")
INTERRUPTED = 130  # as shells have it
BROKEN_PIPE = 141

Data = Annotated[
    str, typer.Argument(help="A table: .csv, .tsv, .parquet, .feather, .arff or .npz, text also packed (.gz ...); - for stdin.")
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
TimeBudget = Annotated[float | None, typer.Option(min=0.1, help="Seconds after which no further settings are tried.")]
Output = Annotated[
    str, typer.Option("--output", "-o", help="Where the table goes: .csv, .tsv, .parquet or .feather; - for stdout.")
]


@dataclass(frozen=True)
class Reading:
    """How tables are to be read."""

    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None

    def read(self, source: str, columns: Columns | None = None) -> Any:
        """A table; ``columns`` of a model tell what must stay as it is written."""
        as_text = [] if columns is None else [name for name, kind in columns.kinds_by_name.items() if kind == "category"]
        if columns is not None and columns.identifier is not None:
            as_text.append(columns.identifier)
        return read_table(source, encoding=self.encoding, delimiter=self.delimiter, decimal=self.decimal, as_text=as_text)


def names_in(text: str) -> list[str]:
    """What was given with commas between."""
    return [name for name in text.split(",") if name]


def talk(text: str) -> None:
    """Tell people something that is not the result."""
    print(text, file=sys.stderr)


def told(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with trouble that a person can do something about told in a line, and exit code 2."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            talk("stopped.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read the output has seen enough; Python would complain once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        except (ValueError, ImportError, OSError, MemoryError) as error:
            talk(f"error: {error or type(error).__name__}")
            raise typer.Exit(2) from error

    return run


@contextmanager
def progress() -> Iterator[Callable[[int, int | None, str], None]]:
    """A function (done, total, text) that moves a bar on stderr, which disappears in the end; without a total it only moves."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading the table", total=None)

        def tell(done: int, total: int | None, text: str) -> None:
            bar.update(task, completed=done, total=total, description=text)

        yield tell


def check_file(path: Path, suffixes: Sequence[str]) -> None:
    """Raise TableError if a file of one of these kinds could not be written there; none: of any kind."""
    if suffixes and path.suffix.lower() not in suffixes:
        raise TableError(f"{path} must end with one of {', '.join(suffixes)}.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise TableError(f"{path} must lie in an existing folder that can be written to.")
    if path.is_dir():
        raise TableError(f"{path} is a folder; give the name of a file.")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place to write to that takes the name of ``path`` when all went well, and is gone otherwise."""
    partial = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def draw(ax: Any, path: Path) -> None:
    """Write the picture that some axes belong to."""
    with whole(path) as partial:
        ax.figure.savefig(partial, dpi=150)
    plots.close(ax.figure)


def give(columns: Mapping[str, Any], output: str, as_json: bool) -> None:
    """Hand over a table."""
    if not as_json:
        write_table(columns, output)
        return
    if output != "-":
        raise TableError("--json goes to stdout; give either it or --output.")
    values = {name: np.asarray(column).tolist() for name, column in columns.items()}
    give_json([dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)])


def give_json(value: Any) -> None:
    """Hand over something as JSON; what is not a number there is null."""
    print(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))
