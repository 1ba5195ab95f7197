"""The command that shows what the library does, on embedded data."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from outmetric import plots
from outmetric.cli.terminal import PICTURES, check_file, talk, told
from outmetric.datasets import make_waveform
from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric
from outmetric.foundation import Array, whole


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


@told
def demo(
    picture: Annotated[Path, typer.Option("--picture", "-o", help="Where to write the maps.")] = Path("outmetric-demo.png"),
) -> None:
    """Learn both models on generated waveforms and on scikit-learn's digits; print accuracies and draw 2-D maps.

    Nothing is downloaded and nothing is tuned. Accuracies are those of five nearest neighbours on held-out points.
    """
    check_file(picture, PICTURES)
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
                talk(f"{split.name}: fitting {name} with {n_components} components")
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
    with whole(picture) as partial:
        figure.savefig(partial, dpi=110)
    print(f"maps in two dimensions: {picture}")
