"""The command that shows what the library does, on embedded data."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outmetric.cli.terminal import PICTURES, check_file, reports_errors, talk

if TYPE_CHECKING:
    from outmetric.foundation import Array


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
        from sklearn.model_selection import train_test_split
        from sklearn.preprocessing import StandardScaler

        X, y = data
        train, test, train_labels, test_labels = train_test_split(X, y, train_size=train_size, stratify=y, random_state=0)
        scaler = StandardScaler().fit(train)
        return cls(name, scaler.transform(train), scaler.transform(test), train_labels, test_labels)

    @property
    def n_classes(self) -> int:
        return len(set(self.train_labels))

    def accuracy(self, model: Any = None) -> float:
        """Held-out accuracy of five nearest neighbours, in the data or where a fitted model maps them."""
        from sklearn.neighbors import KNeighborsClassifier

        train, test = (part if model is None else model.transform(part) for part in (self.train, self.test))
        return float(KNeighborsClassifier().fit(train, self.train_labels).score(test, self.test_labels))


@reports_errors
def demo(
    picture: Annotated[Path, typer.Option("--picture", "-o", help="Where to write the maps.")] = Path("outmetric-demo.png"),
) -> None:
    """Learn both models on generated waveforms and on scikit-learn's digits; print accuracies and draw 2-D maps.

    Nothing is downloaded and nothing is tuned. Accuracies are those of five nearest neighbours on held-out points.
    """
    from rich.console import Console
    from rich.table import Table
    from sklearn.datasets import load_digits

    from outmetric.datasets import make_waveform
    from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric
    from outmetric.foundation import whole
    from outmetric.maps import grid

    check_file(picture, PICTURES)
    splits = [
        _Split.make("waveform", make_waveform(2000, random_state=0), 300),
        _Split.make("digits", load_digits(return_X_y=True), 900),
    ]
    models = {"model 1": FixedKernelMetric, "model 2": LearnedKernelMetric}
    table = Table("neighbours in", "accuracy", "certificate", "fit")
    figure, axes = grid(len(splits), len(models))
    for row, split in enumerate(splits):
        table.add_section()
        table.add_row(f"{split.name}, {len(split.train)} training, {len(split.test)} test points")
        table.add_row("  the data (Euclidean)", f"{split.accuracy():.1%}")
        for column, (name, kind) in enumerate(models.items()):
            # The default has classes - 1 components; a map has two.
            for n_components in sorted({split.n_classes - 1, 2}, reverse=True):
                model, accuracy = _fitted(split, name, kind(n_components), table)
            title = f"{split.name}, {name}: {accuracy:.1%} in two dimensions"
            _draw(split, model, axes[row, column], title)
    Console().print(table)
    figure.suptitle("held-out points; pale: training points; outlined: targets of the classes", fontsize=10)
    with whole(picture) as partial:
        figure.savefig(partial, dpi=110)
    print(f"maps in two dimensions: {picture}")


def _fitted(split: _Split, name: str, model: Any, table: Any) -> tuple[Any, float]:
    """The model, fitted, and its accuracy; both have a row in the table."""
    talk(f"{split.name}: fitting {name} with {model.n_components} components")
    began = time.perf_counter()
    model.fit(split.train, split.train_labels)
    seconds = time.perf_counter() - began
    accuracy = split.accuracy(model)
    where = f"  {name}, {model.n_components} components"
    table.add_row(where, f"{accuracy:.1%}", _certificate(model), f"{seconds:.2f} s")
    return model, accuracy


def _certificate(model: Any) -> str:
    from outmetric.estimators import LearnedKernelMetric

    if isinstance(model, LearnedKernelMetric):
        return f"duality gap {model.dual_gap_:.0e}"
    return f"gradient {model.history_[-1].optimality:.0e}"


def _draw(split: _Split, model: Any, ax: Any, title: str) -> None:
    from outmetric.maps import output_map

    output_map(model, split.test, split.test_labels, X_train=split.train, y_train=split.train_labels, ax=ax)
    ax.set_title(title, fontsize=10)
