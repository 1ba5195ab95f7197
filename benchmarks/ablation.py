"""What would it cost MetricClassifier and MetricRegressor to leave out one thing that they choose from?

``python benchmarks/ablation.py FOLDER``, with the tables of ``tables.py``, by ``--every 3`` every third of them: one split each, at
most 500 rows for training. Lines go to results/ablation.jsonl, and those already there are not repeated. ``--table`` only writes
the table of what is there.
"""

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from measure import FOLDER, publish
from tables import OURS, load, split, trial

from outmetric import MetricClassifier, MetricRegressor
from outmetric.automatic import base, screening, selection

RUNS = FOLDER / "results" / "ablation.jsonl"
ROWS = 500


def best_alone(self, goal, predictions, rng):
    return np.eye(len(predictions))[0]


def all_alike(self, goal, predictions, rng):
    few = min(len(predictions), selection.KEPT * 2)
    return np.where(np.arange(len(predictions)) < few, 1 / few, 0)


# Forests and the other kernels do not get half of the say each.
TOLD_APART = (screening.Screening, "cannot_be_told_apart", lambda self, tried, group: False)


def by(weights):
    """Members that have these weights."""
    return [(kind, "_weights", weights) for kind in (MetricClassifier, MetricRegressor)] + [TOLD_APART]


# What is changed, where, and to what.
VARIANTS = {
    "all": [],
    "no rounds": [(screening, "ROUNDS", 0)],
    "no forests": [(screening, "FORESTS", ())],
    "forests only": [(screening, "KERNELS", ())],
    "no feature weights": [(screening, "WEIGHED", 0)],
    "no neighbours": [(screening, "READ_BY_NEIGHBOURS", 0)],
    "standard scaling only": [(screening, "SCALINGS", ("standard",))],
    "quantiles only": [(screening, "SCALINGS", ("quantile",))],
    "no additive kernel": [(screening, "KERNELS", ("exponential", "laplacian", "rbf"))],
    "Gaussian kernel and forests only": [(screening, "KERNELS", ("rbf",))],
    "no second look with more landmarks": [(screening, "REFINED", 0)],
    "no equal say of forests": [TOLD_APART],
    "no selection: the best alone": by(best_alone),
    "no selection: six alike": by(all_alike),
    "no racing": [(selection, "RACING", np.inf)],
    "search on all rows": [(base, "SEARCHED_LANDMARKS", 10**6)],
}


def run(data, variants) -> None:
    done = {(one["set"], one["without"]) for one in lines()}
    for name, (X, y, classes) in data.items():
        train, test = split(len(y), ROWS, 0)
        for variant in variants:
            if (name, variant) in done:
                continue
            with ExitStack() as changes:
                for place, attribute, value in VARIANTS[variant]:
                    changes.enter_context(patch.object(place, attribute, value))
                found = trial(X, y, classes, OURS, train, test, 0)
            line = {"set": name, "classes": classes, "without": variant, "train": len(train), **found}
            with RUNS.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


def lines() -> list[dict]:
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []


def table() -> list[dict]:
    frame = pd.DataFrame(lines())
    columns = {name: frame.pivot(index="set", columns="without", values=name) for name in ("accuracy", "log-loss", "R2", "fit")}
    rows = []
    for variant in VARIANTS:
        accuracy, loss, r2 = (columns[name].dropna() for name in ("accuracy", "log-loss", "R2"))
        differs = pd.concat([one[variant] - one["all"] for one in (accuracy, r2)])
        rows.append(
            {
                "": variant,
                "mean accuracy": f"{accuracy[variant].mean():.4f}",
                "mean log-loss": f"{loss[variant].mean():.4f}",
                "mean R2": f"{r2[variant].mean():.4f}",
                "sets that lose, gain": f"{(differs < 0).sum()}, {(differs > 0).sum()}",
                "worst loss": f"{-differs.min():.3f} ({differs.idxmin()})" if variant != "all" else "",
                "median time": f"{(columns['fit'][variant] / columns['fit']['all']).median():.2f}",
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        run(dict(list(load(given.folder).items())[:: given.every]), given.variants)
    publish("ablation", table())


if __name__ == "__main__":
    main()
