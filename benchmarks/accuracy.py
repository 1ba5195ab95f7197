"""How well does MetricClassifier classify, untouched, beside tuned rivals on the paper's eight data sets?

Classes are balanced, at most 1000 rows are used, 10 % or 50 % of them for training; every choice is made on the training part. One
line for each trial goes to results/accuracy.jsonl, and trials already there are not repeated, so the script can be stopped at any
time; it takes hours.
"""

import json
import sys
import time

import numpy as np
from measure import FOLDER, publish
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from outmetric import MetricClassifier
from outmetric.datasets import load_uci
from outmetric.paper.protocol import PAPER_SETS

TRIALS = FOLDER / "results" / "accuracy.jsonl"
REPEATS = {0.1: 10, 0.5: 10}
METHODS = {
    "mc": "MetricClassifier",
    "best": "its best map alone",
    "rf": "random forest, 500",
    "svm": "RBF-SVM, tuned",
    "knn": "k-NN, tuned",
}


def split(y: np.ndarray, fraction: float, repeat: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(repeat)
    classes = np.unique(y)
    size = min(min(np.sum(y == label) for label in classes), 1000 // len(classes))
    rows = [rng.permutation(np.flatnonzero(y == label))[:size] for label in classes]
    cut = max(2, round(fraction * size))
    return np.concatenate([some[:cut] for some in rows]), np.concatenate([some[cut:] for some in rows])


def trial(X: np.ndarray, y: np.ndarray, fraction: float, repeat: int) -> dict[str, float]:
    train, test = split(y, fraction, repeat)
    folds = StratifiedKFold(5, shuffle=True, random_state=repeat)
    began = time.perf_counter()
    ours = MetricClassifier(random_state=repeat).fit(X[train], y[train])
    found = {"fit": time.perf_counter() - began, "mc": ours.score(X[test], y[test])}
    alone = ours.committee_[0].probabilities(X[test])
    found["best"] = float(np.mean(ours.classes_[alone.argmax(axis=1)] == y[test]))
    rivals = {
        "svm": GridSearchCV(
            make_pipeline(StandardScaler(), SVC()),
            {"svc__C": [0.1, 1, 10, 100, 1000], "svc__gamma": list(np.array([0.03, 0.1, 0.3, 1, 3]) / X.shape[1])},
            cv=folds,
        ),
        "rf": RandomForestClassifier(500, random_state=repeat),
        "knn": GridSearchCV(
            make_pipeline(StandardScaler(), KNeighborsClassifier()),
            {"kneighborsclassifier__n_neighbors": [1, 3, 5, 9, 15, 25] if len(train) > 40 else [1, 3, 5, 9]},
            cv=folds,
        ),
    }
    return found | {name: rival.fit(X[train], y[train]).score(X[test], y[test]) for name, rival in rivals.items()}


def table(trials: list[dict]) -> list[dict]:
    rows = []
    for fraction in REPEATS:
        some = [one for one in trials if one["frac"] == fraction]
        names = list(dict.fromkeys(one["set"] for one in some))
        for name in [*names, "mean"] if names else []:
            row = {"training": f"{fraction:.0%}", "set": name}
            for key, method in METHODS.items():
                by_set = [
                    [100 * one[key] for one in some if one["set"] == other] for other in ([name] if name != "mean" else names)
                ]
                # The interval of a mean of means: variances of the single means add up.
                error = np.sqrt(sum(np.var(values, ddof=1) / len(values) for values in by_set)) / len(by_set)
                wide = stats.t.ppf(0.975, min(len(values) for values in by_set) - 1) * error
                row[method] = f"{np.mean([np.mean(values) for values in by_set]):.1f} +- {wide:.1f}"
            row["splits"] = min(
                len([one for one in some if one["set"] == other]) for other in ([name] if name != "mean" else names)
            )
            rows.append(row)
    return rows


def main() -> None:
    TRIALS.parent.mkdir(exist_ok=True)
    trials = [json.loads(line) for line in TRIALS.read_text().splitlines()] if TRIALS.exists() else []
    if "--table" not in sys.argv:
        data = {name: load_uci(name, return_X_y=True) for name in PAPER_SETS}
        done = {(one["set"], one["frac"], one["rep"]) for one in trials}
        for fraction, repeats in REPEATS.items():
            for repeat in range(repeats):
                for name in data:
                    if (name, fraction, repeat) not in done:
                        trials.append({"set": name, "frac": fraction, "rep": repeat, **trial(*data[name], fraction, repeat)})
                        with TRIALS.open("a") as file:
                            file.write(json.dumps(trials[-1]) + "\n")
    publish("accuracy", table(trials))


if __name__ == "__main__":
    main()
