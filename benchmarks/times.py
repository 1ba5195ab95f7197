"""How long do MetricClassifier and MetricRegressor take beside a random forest of 500 trees, for 100 to 20,000 rows?

``python benchmarks/times.py FOLDER``: tables as in tables.py, and generated ones, since few have 20,000 rows. Each number of rows
is tried on the tables that have about as many (70 % of a table at most); a table is fitted once by each method, with two jobs.
``--rows 5000 20000`` measures these only, and keeps what is known of others.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from measure import FOLDER, publish
from sklearn.datasets import make_classification, make_friedman1, make_regression
from tables import METHODS, OURS, REFERENCE, load, split

# Rows for training, and tables that have at least this share of them.
ROWS, SHARE, TABLES = (100, 500, 1000, 5000, 20_000), 0.6, 10


def generated(rows: int):
    shape = {"n_informative": 10, "n_clusters_per_class": 3, "class_sep": 1.0, "random_state": 0}
    for classes in (2, 5):
        X, y = make_classification(rows, 20, n_classes=classes, **shape)
        yield f"generated, {classes} classes", (pd.DataFrame(X), y.astype(str), True)
    for name, (X, y) in {
        "friedman1": make_friedman1(rows, 20, noise=1.0, random_state=0),
        "linear": make_regression(rows, 20, n_informative=10, noise=20.0, random_state=0),
    }.items():
        yield name, (pd.DataFrame(X), y, False)


def seconds(X, y, classes, method, train, test) -> tuple[float, float]:
    model = METHODS[method][0 if classes else 1](0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        model.fit(X.iloc[train], y[train])
        taken = time.perf_counter() - began
        return taken, float(model.score(X.iloc[test], y[test]))


def summary(n: int, found: list[tuple[float, float, float, float]]) -> dict:
    """Of (ratio, our seconds, those of the forest, our score less that of the forest) for each table."""
    ratios, ours, forests, gains = np.array(found).T
    return {
        "rows": n,
        "tables": len(found),
        "seconds, median": float(np.median(ours)),
        "forest": float(np.median(forests)),
        "ratio, median": float(np.median(ratios)),
        "least": float(ratios.min()),
        "most": float(ratios.max()),
        "more accurate than the forest": int(np.sum(gains > 0)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    given = parser.parse_args()
    known = load(given.folder)
    path = FOLDER / "results" / "times.json"
    rows = [one for one in json.loads(path.read_text()) if one["rows"] not in given.rows] if path.exists() else []
    for n in given.rows:
        large = {name: one for name, one in known.items() if 0.7 * len(one[1]) >= SHARE * n}
        data = dict(list(large.items())[:: max(1, len(large) // TABLES)])
        if len(data) < TABLES // 2:
            data |= dict(generated(n + 3000))
        found = []
        for name, (X, y, classes) in data.items():
            train, test = split(len(y), n, 0)
            (ours, score), (forest, other) = (seconds(X, y, classes, method, train, test) for method in (OURS, REFERENCE))
            found.append((ours / forest, ours, forest, score - other))
            print(
                f"{n}, {name} ({len(train)} rows): {ours:.1f} s, {ours / forest:.1f} times; {score:.3f} beside {other:.3f}",
                flush=True,
            )
        rows.append(summary(n, found))
    publish("times", sorted(rows, key=lambda one: one["rows"]))


if __name__ == "__main__":
    main()
