"""Commands that repeat the paper's experiments: paper run, status, report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from outmetric.cli.terminal import INTERRUPTED, progress_bar, talk

if TYPE_CHECKING:
    from outmetric.paper import Store, Trial, TrialResult

REPORTS = ("report.html", "report.md", "results.csv")
commands = typer.Typer(no_args_is_help=True, help="Repeat the experiments of the paper.")
Folder = Annotated[Path, typer.Option("--folder", "-f", help="Where trials are kept and the report is written.")]
Datasets = Annotated[str | None, typer.Option(help="Data sets, with commas between them. Default: the paper's eight.")]
Methods = Annotated[str | None, typer.Option(help="Methods, with commas between them. Default: all.")]
Fractions = Annotated[str | None, typer.Option(help="Shares for training, with commas between them. Default: 0.1,0.5.")]
Repeats = Annotated[int | None, typer.Option(min=1, help="Random splits. Default: 20.")]
Quick = Annotated[bool, typer.Option("--quick", help="Embedded data, the paper's methods, 2 splits: minutes, no download.")]
Known = Annotated[Path | None, typer.Option(help="A table of results from an earlier run (results.csv); they are not run again.")]


def _plan(datasets: str | None, methods: str | None, fractions: str | None, repeats: int | None, quick: bool) -> list[Trial]:
    from outmetric.paper import FRACTIONS, METHODS, PAPER_METHODS, PAPER_SETS, QUICK_SETS, REPEATS, plan

    usual_sets, usual_methods, usual_repeats = PAPER_SETS, tuple(METHODS), REPEATS
    if quick:
        usual_sets, usual_methods, usual_repeats = QUICK_SETS, PAPER_METHODS, 2
    try:
        return plan(
            datasets.split(",") if datasets else list(usual_sets),
            methods.split(",") if methods else list(usual_methods),
            [float(fraction) for fraction in fractions.split(",")] if fractions else FRACTIONS,
            repeats or usual_repeats,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _store(folder: Path, known: Path | None) -> Store:
    from outmetric.paper import Store

    try:
        return Store(folder, known)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error


@commands.command("run")
def run_trials(
    folder: Folder = Path("outmetric-paper"),
    datasets: Datasets = None,
    methods: Methods = None,
    fractions: Fractions = None,
    repeats: Repeats = None,
    quick: Quick = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes.")] = 1,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the UCI files; otherwise they are downloaded.")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to run on.")] = None,
    known: Known = None,
) -> None:
    """Run the trials that are not done yet, then write the report.

    A run can be stopped at any time; the same command goes on where it was. Failed trials are tried again. For example:

    outmetric paper run --quick --jobs 2

    outmetric paper run --data-dir uci --datasets robot,pima --methods method1,method2,svm --repeats 5
    """
    from outmetric.foundation import obstacle

    trials, store = _plan(datasets, methods, fractions, repeats, quick), _store(folder, known)
    try:
        store.prepare()
    except OSError as error:
        raise typer.BadParameter(f"results cannot be kept in {folder}: {error}") from error
    states = {trial: store.read(trial)[0] for trial in trials}
    for state, text in (("damaged", "damaged or edited"), ("outdated", "from another protocol"), ("failed", "failed before")):
        names = [trial.name for trial, found in states.items() if found == state]
        if names:
            talk(f"{len(names)} trials are {text} and run again: {', '.join(names[:5])}{' ...' if names[5:] else ''}")
    left = [trial for trial in trials if states[trial] != "done"]
    for path in (*map(store.path, left), *(folder / name for name in REPORTS)):
        if trouble := obstacle(path):
            raise typer.BadParameter(
                f"{trouble.partition(';')[0]}, where a result must go; move it away, or choose another --folder."
            )
    talk(f"{len(trials) - len(left)} of {len(trials)} trials are done.")
    failed = _run(left, store, jobs, data_dir, dask)
    for result in failed[:3]:
        talk(f"{result.trial.name} failed:\n{result.error}")
    _report(trials, store, data_dir)
    if failed:
        talk(f"{len(failed)} trials failed; run again to retry them.")
        raise typer.Exit(1)


def _run(trials: list[Trial], store: Store, jobs: int, data_dir: Path | None, dask: str | None) -> list[TrialResult]:
    """Run the trials under a bar; those that failed."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    from outmetric.datasets import DataError
    from outmetric.paper import run

    failed: list[TrialResult] = []
    with progress_bar() as bar:
        task = bar.add_task("trials", total=len(trials))

        def tell(result: TrialResult) -> None:
            bar.update(task, advance=1, description=result.trial.name)
            if result.error:
                failed.append(result)

        try:
            run(trials, store, jobs=jobs, data_dir=data_dir, dask=dask, on_result=tell)
        except (DataError, ImportError) as error:
            raise typer.BadParameter(str(error)) from error
        except (OSError, TerminatedWorkerError) as error:
            talk(f"{type(error).__name__}: {error}\nWhat is finished is kept, and the same command goes on from here.")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            talk("stopped; what is finished is kept, and the same command goes on from here.")
            raise typer.Exit(INTERRUPTED) from None
    return failed


@commands.command("status")
def status(
    folder: Folder = Path("outmetric-paper"),
    datasets: Datasets = None,
    methods: Methods = None,
    fractions: Fractions = None,
    repeats: Repeats = None,
    quick: Quick = False,
    known: Known = None,
) -> None:
    """Tell how many trials of each method are done, failed and missing."""
    from rich.console import Console
    from rich.table import Table

    from outmetric.paper import State

    trials, store = _plan(datasets, methods, fractions, repeats, quick), _store(folder, known)
    counts: dict[str, Counter[str]] = {}
    for trial in trials:
        counts.setdefault(trial.method, Counter())[store.read(trial)[0]] += 1
    states = get_args(State)
    table = Table("method", *states)
    for method, found in counts.items():
        table.add_row(method, *(str(found[state]) for state in states))
    Console().print(table)


@commands.command("report")
def report(
    folder: Folder = Path("outmetric-paper"),
    datasets: Datasets = None,
    methods: Methods = None,
    fractions: Fractions = None,
    repeats: Repeats = None,
    quick: Quick = False,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the UCI files, for the maps of Robot.")] = None,
    known: Known = None,
) -> None:
    """Write the report on what is done: report.html, report.md, results.csv and the figures."""
    _report(_plan(datasets, methods, fractions, repeats, quick), _store(folder, known), data_dir)


def _report(trials: list[Trial], store: Store, data_dir: Path | None) -> None:
    from outmetric.paper import write_report

    results = store.results(trials)
    if not results:
        talk("nothing is done yet; see: outmetric paper run --help")
        raise typer.Exit(1)
    written = write_report(results, store.folder, data_dir, store.everything())
    print(written.summary)
    print(f"report: {written.page}\npictures: {', '.join(str(path) for path in written.pictures)}")
