"""Do maps hold for rows that they have not seen? MetricMap beside other ways to draw labelled data in the plane.

``python benchmarks/maps.py [FOLDER]``: digits (900 rows for training), 20 generated classes (560 rows) and, with the folder of the
paper's UCI files, its eight sets (half of the rows). Accuracy of five neighbours in the plane for rows that are held out. All but
kernel PCA and PaCMAP see the training labels. UMAP and PaCMAP take part where they are installed. One line for each trial goes to
results/maps.jsonl, and trials already there are not repeated.
"""

import argparse
import importlib.util
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from measure import FOLDER, publish
from sklearn.datasets import load_digits, make_classification
from sklearn.decomposition import KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import MetricMap

TRIALS = FOLDER / "results" / "maps.jsonl"
SPLITS = 5
OURS, CONTROL, METRIC = "MetricMap", "its control", "the metric itself"


def data(folder: Path | None, seed: int):
    X, y = load_digits(return_X_y=True)
    yield "digits", train_test_split(X, y, train_size=900, stratify=y, random_state=seed)
    shape = {"n_informative": 12, "n_redundant": 4, "n_classes": 20, "n_clusters_per_class": 1, "class_sep": 2.4}
    X, y = make_classification(800, 20, random_state=seed, **shape)
    yield "20 classes", train_test_split(X, y, train_size=560, stratify=y, random_state=seed)
    if folder is None:
        return
    from outmetric.paper import protocol

    for name in protocol.PAPER_SETS:
        found = protocol.split(*protocol.SETS[name](folder), protocol.Trial(seed, 0.5, name, "method2"))
        yield name, (found.X_train, found.X_test, found.y_train, found.y_test)


def ours(X, X_new, y, seed):
    found = MetricMap(random_state=seed, n_jobs=2).fit(X, y)
    control = found.control(X, y)
    inner = found.model_.transform(X), found.model_.transform(X_new)
    return {
        OURS: (found.embedding_, found.transform(X_new), y),
        CONTROL: (control.embedding_, control.transform(X_new), control.y_),
        METRIC: (*inner, y),
    }


def scaled(model):
    def places(X, X_new, y, seed):
        steps = make_pipeline(StandardScaler(), model(seed))
        known = np.asarray(steps.fit_transform(X, y))
        return known[:, :2], np.asarray(steps.transform(X_new))[:, :2]  # LDA has as many as classes, less one

    return places


def umap(X, X_new, y, seed):
    from umap import UMAP

    scaler = StandardScaler().fit(X)
    mapper = UMAP(random_state=seed).fit(scaler.transform(X), y=np.unique(y, return_inverse=True)[1])
    return mapper.embedding_, mapper.transform(scaler.transform(X_new))


def pacmap(X, X_new, y, seed):
    from pacmap import PaCMAP

    scaler = StandardScaler().fit(X)
    mapper = PaCMAP(random_state=seed, save_tree=True)
    rows = scaler.transform(X).astype(np.float32)
    known = mapper.fit_transform(rows)
    return known, mapper.transform(scaler.transform(X_new).astype(np.float32), basis=rows)


OTHERS = {
    "NCA": scaled(lambda seed: NeighborhoodComponentsAnalysis(2, random_state=seed)),
    "LDA": scaled(lambda seed: LinearDiscriminantAnalysis()),
    "kernel PCA": scaled(lambda seed: KernelPCA(2, kernel="rbf", random_state=seed)),
    "UMAP, supervised": umap,
    "PaCMAP": pacmap,
}
PACKAGES = {"UMAP, supervised": "umap", "PaCMAP": "pacmap"}


def plane(places):
    """LDA of two classes has one dimension."""
    return places if places.shape[1] > 1 else np.column_stack([places, np.zeros(len(places))])


def run(folder: Path | None, splits: int) -> None:
    done = {(one["set"], one["method"], one["split"]) for one in trials()}
    for seed in range(splits):
        for name, (X, X_new, y, y_new) in data(folder, seed):
            for method in [OURS, *OTHERS]:
                if (name, method, seed) in done or importlib.util.find_spec(PACKAGES.get(method, "numpy")) is None:
                    continue
                began = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = ours(X, X_new, y, seed) if method == OURS else {method: (*OTHERS[method](X, X_new, y, seed), y)}
                seconds = time.perf_counter() - began
                for which, (known, new, labels) in found.items():
                    accuracy = KNeighborsClassifier(5).fit(plane(known), labels).score(plane(new), y_new)
                    line = {"set": name, "method": which, "split": seed, "accuracy": accuracy, "seconds": seconds}
                    with TRIALS.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                    print(line, flush=True)


def trials() -> list[dict]:
    return [json.loads(line) for line in TRIALS.read_text().splitlines()] if TRIALS.exists() else []


def table() -> list[dict]:
    frame = pd.DataFrame(trials()).pivot_table(index="set", columns="method", values="accuracy", sort=False)
    shown = [name for name in [METRIC, OURS, *OTHERS, CONTROL] if name in frame]
    frame = frame[shown]
    frame.loc["mean"] = frame.mean()
    return [{"set": name, **{method: f"{100 * row[method]:.1f}" for method in shown}} for name, row in frame.iterrows()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        run(given.folder, given.splits)
    publish("maps", table())


if __name__ == "__main__":
    main()
