"""Splice junctions as strings: kernels that see substrings beside a Gaussian of single letters, a tenth of the rows for training.

The data are windows of 60 letters of DNA, with a donor site in the middle (EI), an acceptor site (IE), or neither (N): UCI's
molecular biology set, from --data-dir or the environment variable OUTMETRIC_DATA. Without it, such strings are generated. Rows,
splits, folds, weights and neighbours are those of the paper's experiments (`outmetric.paper.protocol`), so that the numbers compare
with its report. Each method chooses among four kernels by cross-validation on the training part.

    python examples/strings.py --data-dir uci
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats
from sklearn.model_selection import StratifiedKFold

from outmetric import LearnedKernelMetric, MetricSearchCV, plots
from outmetric.datasets import DataError, load_uci
from outmetric.kernels import Spectrum, WeightedDegree
from outmetric.paper import protocol

# The site is between the two letters in the middle of the window.
LENGTH = 60
NEARNESS = {scale: np.exp(-np.abs(np.arange(LENGTH) - (LENGTH - 1) / 2) / scale) for scale in (5, 10)}
KERNELS = {
    "spectrum (no positions)": [Spectrum(length) for length in (2, 3, 4, 5)],
    "weighted degree": [WeightedDegree(degree) for degree in (2, 4, 8, 16)],
    "weighted degree, Gaussian": [WeightedDegree(degree, bandwidth=b) for degree in (5, 10) for b in (0.5, 1.0)],
    "letters near the site, Gaussian": [
        WeightedDegree(1, position_weights=near, bandwidth=b) for near in NEARNESS.values() for b in (0.5, 1.0)
    ],
    "weighted degree near the site": [
        WeightedDegree(degree, position_weights=near) for near in NEARNESS.values() for degree in (2, 5)
    ],
}
BASELINE, SHOWN = "one-hot, Gaussian", "weighted degree near the site"


def load(data_dir):
    """(strings, one-hot table, classes, where they come from)."""
    try:
        table = load_uci("molecular", data_dir, download=False)
        return load_uci("molecular", data_dir, raw=True, download=False).data, table.data, table.target, "splice junctions"
    except DataError:
        if data_dir is not None:
            raise
        strings, classes = generate(600)
        letters = np.array([list(string) for string in strings])
        return strings, (letters[:, :, None] == list("ACGT")).reshape(len(letters), -1).astype(float), classes, "generated strings"


def generate(n, seed=0):
    """Random windows with one of two motifs, a fifth of its letters replaced, near the middle; or with neither."""
    rng = np.random.default_rng(seed)
    letters = rng.choice(list("ACGT"), (n, LENGTH))
    classes = np.arange(n) % 3
    for row, motif in zip(letters, np.array(["GGTAAGTA", "TTTCCAGG", ""])[classes], strict=True):
        kept = np.flatnonzero(rng.random(len(motif)) < 0.8)
        row[LENGTH // 2 - 4 + rng.integers(-1, 2) + kept] = np.array(list(motif), dtype=row.dtype)[kept]
    return np.array(["".join(row) for row in letters]), np.array(["EI", "IE", "N"])[classes]


def methods(trial, n_classes):
    """Tuned classifiers by name: model 2 as in the paper's experiments, and on strings."""
    folds = StratifiedKFold(protocol.FOLDS, shuffle=True, random_state=trial.split_seed)
    settings = {"n_neighbors": protocol.NEIGHBOURS, "scoring": "accuracy", "cv": folds}
    yield BASELINE, protocol.classifier(trial, n_classes)
    for name, kernels in KERNELS.items():
        grid = {"kernel": kernels, "regression_weight": [1.0, 10.0, 100.0]}
        yield name, MetricSearchCV(LearnedKernelMetric(), grid, **settings)


def interval(values):
    """The mean and half the length of its 95 % confidence interval over splits, as text."""
    half = stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return f"{np.mean(values):.1f} +- {half:.1f}"


def draw(fitted, y_train, y_test, path):
    """Maps of the first split, as letters and as strings."""
    figure, axes = plots.grid(1, 2)
    for ax, name in zip(axes[0], (BASELINE, SHOWN), strict=True):
        search, X_train, X_test = fitted[name]
        model = search.best_estimator_
        if name == BASELINE:
            model, X_train, X_test = model[-1], model[:-1].transform(X_train), model[:-1].transform(X_test)
        plots.output_map(model, X_test, y_test, X_train=X_train, y_train=y_train, ax=ax)
        ax.set_title(f"{name}: {search.score(fitted[name][2], y_test):.1%}")
    figure.savefig(path, dpi=110)
    plots.close(figure)


def main(arguments=None):
    """Compare on all splits, print the table, draw the maps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder with the UCI files")
    parser.add_argument("--repeats", type=int, default=protocol.REPEATS, help="how many splits")
    parser.add_argument("--picture", default="strings.png", help="where the maps go")
    options = parser.parse_args(arguments)
    strings, table, classes, source = load(options.data_dir)
    accuracies = {}
    for repeat in range(options.repeats):
        trial = protocol.Trial(repeat, 0.1, "molecular", "method2")
        rows = protocol.split(np.arange(len(classes)), classes, trial)
        fitted = {}
        for name, search in methods(trial, len(np.unique(classes))):
            X = table if name == BASELINE else strings
            fitted[name] = search.fit(X[rows.X_train], rows.y_train), X[rows.X_train], X[rows.X_test]
            accuracies.setdefault(name, []).append(100 * search.score(X[rows.X_test], rows.y_test))
        if repeat == 0:
            draw(fitted, rows.y_train, rows.y_test, options.picture)
    print(f"{source}: {len(rows.y_train)} for training, {len(rows.y_test)} for testing, {options.repeats} splits; accuracy in %\n")
    print(f"| kernel | accuracy | against {BASELINE} | better on |\n| --- | --- | --- | --- |")
    for name, values in accuracies.items():
        gain = np.subtract(values, accuracies[BASELINE])
        against = f"{interval(gain)} | {np.sum(gain > 0)} of {len(gain)}" if name != BASELINE else "|"
        print(f"| {name} | {interval(values)} | {against} |")
    print(f"\nmaps of the first split: {options.picture}")


if __name__ == "__main__":
    main()
