"""How well do the baselines classify on the paper's data sets, tuned, beside the figures known for metric-learn's?

The same splits as accuracy.py; every choice by 5-fold cross-validation on the training part. Reads the UCI files from the folder in
OUTMETRIC_DATA. One line for each trial goes to results/rivals.jsonl, and trials already there are not repeated.
"""

import json
import os
import sys
import time
import warnings

import numpy as np
from accuracy import load, split
from measure import FOLDER, publish
from scipy import stats
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import MetricSearchCV
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN

TRIALS = FOLDER / "results" / "rivals.jsonl"
REPEATS = {0.1: 10, 0.5: 5}
BANDWIDTHS = ["0.5*median", "median", "2*median"]
METHODS = {
    "LMNN": (LMNN(tol=0.1), {"n_neighbors": [1, 3], "push_weight": [0.1, 0.5, 0.9]}),
    "ITML": (ITML(random_state=0), {"gamma": [0.01, 0.1, 1.0, 10.0]}),
    "KernelLMNN": (KernelLMNN(tol=0.1), {"n_components": [0.8, 0.9, 0.95], "bandwidth": BANDWIDTHS, "push_weight": [0.1, 0.5]}),
    "KernelITML": (KernelITML(random_state=0), {"gamma": [0.1, 1.0, 10.0], "bandwidth": BANDWIDTHS}),
}


def trial(X: np.ndarray, y: np.ndarray, fraction: float, repeat: int) -> dict[str, float]:
    train, test = split(y, fraction, repeat)
    folds = StratifiedKFold(5, shuffle=True, random_state=repeat)
    found = {}
    for name, (metric, grid) in METHODS.items():
        search = MetricSearchCV(
            Pipeline([("scale", StandardScaler()), ("metric", metric)]),
            {f"metric__{key}": values for key, values in grid.items()},
            cv=folds,
            scoring="accuracy",
        )
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small classes, equal points
            found[name] = search.fit(X[train], y[train]).score(X[test], y[test])
        found[f"{name} seconds"] = time.perf_counter() - began
    return found


def table(trials: list[dict]) -> list[dict]:
    rows = []
    for fraction in REPEATS:
        some = [one for one in trials if one["frac"] == fraction]
        names = list(dict.fromkeys(one["set"] for one in some))
        for name in [*names, "mean"] if names else []:
            row: dict[str, object] = {"training": f"{fraction:.0%}", "set": name}
            for method in METHODS:
                sets = [name] if name != "mean" else names
                by_set = [[100 * one[method] for one in some if one["set"] == other] for other in sets]
                error = np.sqrt(sum(np.var(values, ddof=1) / len(values) for values in by_set)) / len(by_set)
                wide = stats.t.ppf(0.975, min(len(values) for values in by_set) - 1) * error
                row[method] = f"{np.mean([np.mean(values) for values in by_set]):.1f} +- {wide:.1f}"
            row["splits"] = min(len([one for one in some if one["set"] == other]) for other in names)
            rows.append(row)
    return rows


def main() -> None:
    trials = [json.loads(line) for line in TRIALS.read_text().splitlines()] if TRIALS.exists() else []
    if "--table" not in sys.argv:
        data = load(os.environ["OUTMETRIC_DATA"])
        done = {(one["set"], one["frac"], one["rep"]) for one in trials}
        for fraction, repeats in REPEATS.items():
            for repeat in range(repeats):
                for name in data:
                    if (name, fraction, repeat) not in done:
                        trials.append({"set": name, "frac": fraction, "rep": repeat, **trial(*data[name], fraction, repeat)})
                        with TRIALS.open("a") as file:
                            file.write(json.dumps(trials[-1]) + "\n")
    publish("rivals", table(trials))


if __name__ == "__main__":
    main()
