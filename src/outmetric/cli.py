"""The `outmetric` command. Results go to stdout, talk to stderr."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from outmetric import __version__, plots, tables
from outmetric.datasets import DataError, make_waveform
from outmetric.models import FixedKernelMetric, LearnedKernelMetric
from outmetric.operators import Array
from outmetric.paper import protocol, report, runner
from outmetric.paper.protocol import Trial
from outmetric.paper.runner import Result, State, Store
from outmetric.tables import TableError, TableFile

try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Table
except ImportError:
    sys.exit("the outmetric command needs two more packages: pip install 'outmetric[cli]'")

PICTURES = (".png", ".pdf", ".svg")

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def outmetric(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Learn a non-linear map and the metric in its output space."""


paper_app = typer.Typer(no_args_is_help=True, help="Repeat the experiments of the paper.")
app.add_typer(paper_app, name="paper")

Folder = Annotated[Path, typer.Option("--folder", "-f", help="Where trials are kept and the report is written.")]
Datasets = Annotated[str | None, typer.Option(help="Data sets, with commas between them. Default: the paper's eight.")]
Methods = Annotated[str | None, typer.Option(help="Methods, with commas between them. Default: all.")]
Fractions = Annotated[str | None, typer.Option(help="Shares for training, with commas between them. Default: 0.1,0.5.")]
Repeats = Annotated[int | None, typer.Option(min=1, help="Random splits. Default: 20.")]
Quick = Annotated[bool, typer.Option("--quick", help="Embedded data, the paper's methods, 2 splits: minutes, no download.")]
Known = Annotated[Path | None, typer.Option(help="A table of results from an earlier run (results.csv); they are not run again.")]


@dataclass(frozen=True)
class _Split:
    """A data set, standardised by its training part."""

    name: str
    train: Array
    test: Array
    train_labels: Array
    test_labels: Array

    @classmethod
    def make(cls, name: str, data: tuple[Array, Array], train_size: int) -> _Split:
        X, y = data
        train, test, train_labels, test_labels = train_test_split(X, y, train_size=train_size, stratify=y, random_state=0)
        scaler = StandardScaler().fit(train)
        return cls(name, scaler.transform(train), scaler.transform(test), train_labels, test_labels)

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.train_labels))

    def accuracy(self, transform: Any = np.asarray) -> float:
        """Held-out accuracy of five nearest neighbours after the transformation."""
        voters = KNeighborsClassifier().fit(transform(self.train), self.train_labels)
        return float(voters.score(transform(self.test), self.test_labels))


def _certificate(model: Any) -> str:
    if isinstance(model, LearnedKernelMetric):
        return f"duality gap {model.dual_gap_:.0e}"
    return f"gradient {model.history_[-1].optimality:.0e}"


@app.command()
def demo(
    picture: Annotated[Path, typer.Option("--picture", "-o", help="Where to write the maps.")] = Path("outmetric-demo.png"),
) -> None:
    """Learn both models on generated waveforms and on scikit-learn's digits; print accuracies and draw 2-D maps.

    Nothing is downloaded and nothing is tuned. Accuracies are those of five nearest neighbours on held-out points.
    """
    if not picture.parent.is_dir() or picture.suffix not in PICTURES:
        raise typer.BadParameter(f"{picture} must lie in an existing folder and end with one of {', '.join(PICTURES)}.")
    splits = [
        _Split.make("waveform", make_waveform(2000, random_state=0), 300),
        _Split.make("digits", load_digits(return_X_y=True), 900),
    ]
    models = {"model 1": FixedKernelMetric, "model 2": LearnedKernelMetric}
    table = Table("neighbours in", "accuracy", "certificate", "fit")
    figure, axes = plots.grid(len(splits), len(models))
    for row, split in enumerate(splits):
        table.add_section()
        table.add_row(f"{split.name}, {len(split.train)} training, {len(split.test)} test points")
        table.add_row("  the data (Euclidean)", f"{split.accuracy():.1%}")
        for column, (name, kind) in enumerate(models.items()):
            # The default has classes - 1 components; a map has two.
            for n_components in sorted({split.n_classes - 1, 2}, reverse=True):
                print(f"{split.name}: fitting {name} with {n_components} components", file=sys.stderr)
                began = time.perf_counter()
                model = kind(n_components).fit(split.train, split.train_labels)
                seconds = time.perf_counter() - began
                accuracy = split.accuracy(model.transform)
                where = f"  {name}, {n_components} components"
                table.add_row(where, f"{accuracy:.1%}", _certificate(model), f"{seconds:.2f} s")
            ax = plots.output_map(
                model,
                split.test,
                split.test_labels,
                X_train=split.train,
                y_train=split.train_labels,
                legend=column == len(models) - 1,
                ax=axes[row, column],
            )
            ax.set_title(f"{split.name}, {name}: {accuracy:.1%} in two dimensions", fontsize=10)
    Console().print(table)
    figure.suptitle("held-out points; pale: training points; outlined: targets of the classes", fontsize=10)
    figure.savefig(picture, dpi=110)
    print(f"maps in two dimensions: {picture}")


def _plan(datasets: str | None, methods: str | None, fractions: str | None, repeats: int | None, quick: bool) -> list[Trial]:
    usual_sets, usual_methods, usual_repeats = protocol.PAPER_SETS, tuple(protocol.METHODS), protocol.REPEATS
    if quick:
        usual_sets, usual_methods, usual_repeats = protocol.QUICK_SETS, protocol.PAPER_METHODS, 2
    try:
        return protocol.plan(
            datasets.split(",") if datasets else list(usual_sets),
            methods.split(",") if methods else list(usual_methods),
            [float(fraction) for fraction in fractions.split(",")] if fractions else protocol.FRACTIONS,
            repeats or usual_repeats,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _store(folder: Path, known: Path | None) -> Store:
    try:
        return Store(folder, known)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error


@app.command()
def embed(
    data: Annotated[Path, typer.Argument(help="A table: CSV (also .csv.gz) or Parquet, of any size.")],
    target: Annotated[str, typer.Option("--target", "-t", help="The column with the classes.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the coordinates go: .csv or .parquet.")],
    landmarks: Annotated[int, typer.Option(min=1, help="How many landmarks the map is made of.")] = 1000,
    components: Annotated[int | None, typer.Option(min=1, help="Dimensions. Default: classes - 1.")] = None,
    bandwidth: Annotated[str, typer.Option(help="Of the Gaussian kernel: a number, or such as '0.5*median'.")] = "median",
    weight: Annotated[float, typer.Option(help="regression_weight: 0.1 for noisy classes, 100 for clean ones.")] = 3.0,
    leave_out: Annotated[str, typer.Option(help="Columns to ignore, with commas between them.")] = "",
    seed: Annotated[int, typer.Option(help="For the choice of landmarks.")] = 0,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to gather statistics on (Parquet or CSV).")] = None,
) -> None:
    """Learn a metric from a table that need not fit in memory, and write the coordinates of its rows.

    The table is read in blocks: once for the scale of its features, once for landmarks, once to learn, once to map. Euclidean
    distance between coordinates is the learned metric. For example:

    outmetric embed flights.parquet --target delayed --landmarks 500 -o coordinates.parquet
    """
    began = time.perf_counter()
    try:
        table = TableFile.open(data, target, [name for name in leave_out.split(",") if name])
        tables.check_output(output)
        mean, spread = table.moments()
        model = LearnedKernelMetric(
            components,
            bandwidth=float(bandwidth) if bandwidth.replace(".", "", 1).isdigit() else bandwidth,
            regression_weight=weight,
            solver="nystroem",
            n_landmarks=landmarks,
            random_state=seed,
        )
        if dask is None:
            model.fit(lambda: table.scaled(mean, spread))
        else:
            _fit_on_dask(model, table, mean, spread, dask)
        names = [f"x{k + 1}" for k in range(model.coefficients_.shape[1])]
        coordinates = ((*model.transform(X).T, y) for X, y in table.scaled(mean, spread))
        rows = tables.write_blocks(output, [*names, target], coordinates)
    except (TableError, ValueError, ImportError, MemoryError) as error:
        raise typer.BadParameter(str(error)) from error
    taken = time.perf_counter() - began
    print(f"{rows} rows, {len(table.features)} features, {model.n_landmarks_} landmarks; {taken:.1f} s: {output}", file=sys.stderr)


def _fit_on_dask(model: LearnedKernelMetric, table: TableFile, mean: Array, spread: Array, address: str) -> None:
    try:
        import dask.dataframe
        from distributed import Client
    except ImportError as error:
        raise ImportError("running on a Dask cluster needs dask: pip install 'outmetric[dask]'") from error
    client: Any = Client
    with client(address):
        read = dask.dataframe.read_csv if ".csv" in table.path.suffixes else dask.dataframe.read_parquet
        frame = read(str(table.path.resolve()))
        features = (frame[list(table.features)] - mean) / spread
        model.fit(features.to_dask_array(lengths=True), frame[table.target])


@paper_app.command("run")
def paper_run(
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
    trials, store = _plan(datasets, methods, fractions, repeats, quick), _store(folder, known)
    try:
        store.prepare()
    except OSError as error:
        raise typer.BadParameter(f"results cannot be kept in {folder}: {error}") from error
    states = {trial: store.read(trial)[0] for trial in trials}
    for state, text in (("damaged", "damaged or edited"), ("outdated", "from another protocol"), ("failed", "failed before")):
        names = [trial.name for trial, found in states.items() if found == state]
        if names:
            print(
                f"{len(names)} trials are {text} and run again: {', '.join(names[:5])}{' ...' if names[5:] else ''}",
                file=sys.stderr,
            )
    left = [trial for trial in trials if states[trial] != "done"]
    print(f"{len(trials) - len(left)} of {len(trials)} trials are done.", file=sys.stderr)
    failed = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("trials", total=len(left))

        def tell(result: Result) -> None:
            progress.update(task, advance=1, description=result.trial.name)
            if result.error:
                failed.append(result)

        try:
            runner.run(left, store, jobs=jobs, data_dir=data_dir, dask=dask, on_result=tell)
        except (DataError, ImportError) as error:
            raise typer.BadParameter(str(error)) from error
        except (OSError, TerminatedWorkerError) as error:
            print(
                f"{type(error).__name__}: {error}\nWhat is finished is kept, and the same command goes on from here.",
                file=sys.stderr,
            )
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            print("stopped; what is finished is kept, and the same command goes on from here.", file=sys.stderr)
            raise typer.Exit(130) from None
    for result in failed[:3]:
        print(f"{result.trial.name} failed:\n{result.error}", file=sys.stderr)
    _report(trials, store, data_dir)
    if failed:
        print(f"{len(failed)} trials failed; run again to retry them.", file=sys.stderr)
        raise typer.Exit(1)


@paper_app.command("status")
def paper_status(
    folder: Folder = Path("outmetric-paper"),
    datasets: Datasets = None,
    methods: Methods = None,
    fractions: Fractions = None,
    repeats: Repeats = None,
    quick: Quick = False,
    known: Known = None,
) -> None:
    """Tell how many trials of each method are done, failed and missing."""
    trials, store = _plan(datasets, methods, fractions, repeats, quick), _store(folder, known)
    counts: dict[str, Counter[str]] = {}
    for trial in trials:
        counts.setdefault(trial.method, Counter())[store.read(trial)[0]] += 1
    states = get_args(State)
    table = Table("method", *states)
    for method, found in counts.items():
        table.add_row(method, *(str(found[state]) for state in states))
    Console().print(table)


@paper_app.command("report")
def paper_report(
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
    results = store.results(trials)
    if not results:
        print("nothing is done yet; see: outmetric paper run --help", file=sys.stderr)
        raise typer.Exit(1)
    written = report.write(results, store.folder, data_dir, store.everything())
    print(written.summary)
    print(f"report: {written.page}\npictures: {', '.join(str(path) for path in written.pictures)}")


def main() -> None:
    """Entry point of the command."""
    app()
