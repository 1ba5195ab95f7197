"""Do rows without labels help? The same search with and without them, beside scikit-learn's semi-supervised estimators.

``python benchmarks/unlabelled.py [FOLDER]``: digits and, with the folder of the paper's UCI files, its eight sets. A tenth of the
rows has labels, the others have none, and on these accuracy is measured. All settings are chosen by cross-validation on the rows
with labels; the weight of the graph is one of 0, 0.1, 1 and 10. One line for each trial goes to results/unlabelled.jsonl, and
trials already there are not repeated. ``--rows 100000`` takes the time of a fit on so many generated rows, 500 of them with labels.
"""

import argparse
import itertools
import json
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from measure import FOLDER, publish
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from outmetric import LearnedKernelMetric, MetricClassifier, MetricSearchCV

TRIALS = FOLDER / "results" / "unlabelled.jsonl"
SPLITS = 10
GRID = {"metric__bandwidth": ["0.5*median", "1*median"], "metric__regression_weight": [1.0, 10.0, 100.0]}
WEIGHTS = [0.0, 0.1, 1.0, 10.0]
WITHOUT, WITH = "search without them", "search with them"


def data(folder: Path | None):
    yield "digits", *load_digits(return_X_y=True)
    if folder is not None:
        from outmetric.paper import protocol

        for name in protocol.PAPER_SETS:
            yield name, *protocol.SETS[name](folder)


def searched(grid: dict, scaler, seed: int):
    metric = LearnedKernelMetric(unlabeled="graph", n_landmarks=500, random_state=0)
    steps = Pipeline([("scale", scaler), ("metric", metric)])
    return MetricSearchCV(steps, grid, cv=StratifiedKFold(5, shuffle=True, random_state=seed), n_neighbors=(1, 3, 5, 9))


def of_grid(model, grid: dict, scaler, labelled: np.ndarray, y: np.ndarray, seed: int):
    """scikit-learn's cross-validation does not know rows without labels: they are added to every training part."""
    others = np.setdiff1d(np.arange(len(y)), labelled)
    folds = StratifiedKFold(3, shuffle=True, random_state=seed).split(labelled, y[labelled])
    splits = [(np.concatenate([labelled[train], others]), labelled[test]) for train, test in folds]
    steps = Pipeline([("scale", scaler), ("model", model)])
    return GridSearchCV(steps, {f"model__{name}": values for name, values in grid.items()}, cv=splits)


def methods(scaler, labelled: np.ndarray, y: np.ndarray, seed: int):
    grids = {"kernel": ["knn"], "n_neighbors": [5, 10, 20]}
    machine = SelfTrainingClassifier(SVC(probability=True, random_state=seed))
    return {
        WITHOUT: lambda: searched({**GRID, "metric__graph_weight": [0.0]}, scaler, seed),
        WITH: lambda: searched({**GRID, "metric__graph_weight": WEIGHTS}, scaler, seed),
        "MetricClassifier without": lambda: MetricClassifier(unlabeled="ignore", random_state=seed, n_jobs=2),
        "MetricClassifier with": lambda: MetricClassifier(unlabeled="graph", random_state=seed, n_jobs=2),
        "LabelSpreading": lambda: of_grid(LabelSpreading(), {**grids, "alpha": [0.2, 0.8]}, scaler, labelled, y, seed),
        "LabelPropagation": lambda: of_grid(LabelPropagation(max_iter=2000), grids, scaler, labelled, y, seed),
        "SelfTraining(SVC)": lambda: of_grid(machine, {"estimator__C": [1.0, 10.0]}, scaler, labelled, y, seed),
    }


def run(folder: Path | None, splits: int, wanted: list[str]) -> None:
    done = [json.loads(line) for line in TRIALS.read_text().splitlines()] if TRIALS.exists() else []
    known = {(one["set"], one["split"], one["method"]) for one in done}
    for split, (name, X, y) in sorted(itertools.product(range(splits), data(folder)), key=lambda one: one[1][0] != "digits"):
        scaler = "passthrough" if name == "digits" else StandardScaler()  # pixels are alike
        y = np.unique(y, return_inverse=True)[1]
        labelled = np.sort(train_test_split(np.arange(len(y)), train_size=0.1, stratify=y, random_state=split)[0])
        partly = np.full(len(y), -1)
        partly[labelled] = y[labelled]
        hidden = partly < 0
        for method, make in methods(scaler, labelled, y, split).items():
            if (name, split, method) in known or method not in wanted:
                continue
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = make().fit(np.asarray(X, dtype=float), partly)
                accuracy = float(np.mean(model.predict(np.asarray(X, dtype=float)[hidden]) == y[hidden]))
            trial = {
                "set": name,
                "split": split,
                "method": method,
                "accuracy": accuracy,
                "seconds": time.perf_counter() - began,
            }
            with TRIALS.open("a") as file:
                file.write(json.dumps(trial) + "\n")
            print(trial, flush=True)


def table() -> None:
    trials = pd.DataFrame([json.loads(line) for line in TRIALS.read_text().splitlines()])
    means = 100 * trials.pivot_table(index="set", columns="method", values="accuracy", sort=False)
    rows = [
        {
            "set": name,
            "splits": int(trials[trials["set"] == name]["split"].nunique()),
            **row.round(1).to_dict(),
            "gain of the search": round(row[WITH] - row[WITHOUT], 1),
        }
        for name, row in means.iterrows()
    ]
    publish("unlabelled", rows)


def many(n: int) -> None:
    shape = {"n_informative": 12, "n_classes": 5, "n_clusters_per_class": 1, "class_sep": 1.5, "random_state": 0}
    X, y = make_classification(n + 2000, 20, **shape)
    partly = np.where(np.arange(n) < 500, y[:n], -1)
    for how in ("ignore", "graph"):
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        model = LearnedKernelMetric(unlabeled=how, random_state=0).fit(X[:n], partly)
        taken = time.perf_counter() - began
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
        found = (model.transform(X[n:]) @ model.prototypes_.T).argmax(axis=1)
        print(f"{how}: {taken:.1f} s, {more:.2f} GB more, accuracy {np.mean(found == y[n:]):.4f} of 2000 new rows")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--methods", nargs="*", default=list(methods(None, np.empty(0), np.empty(0), 0)))
    options = parser.parse_args()
    if options.rows:
        many(options.rows)
    else:
        run(options.folder, options.splits, options.methods)
        table()
