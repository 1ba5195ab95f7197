"""How well does MetricClassifier classify, untouched, beside tuned rivals on the paper's eight data sets?

Reads the UCI files from the folder in OUTMETRIC_DATA. Classes are balanced, at most 1000 rows are used, 10 % or 50 % of them for
training; every choice is made on the training part. One line for each trial goes to results/accuracy.jsonl, and trials already
there are not repeated, so the script can be stopped at any time; it takes hours.
"""

import glob
import json
import os
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

TRIALS = FOLDER / "results" / "accuracy.jsonl"
REPEATS = {0.1: 10, 0.5: 10}
METHODS = {
    "mc": "MetricClassifier",
    "best": "its best map alone",
    "rf": "random forest, 500",
    "svm": "RBF-SVM, tuned",
    "knn": "k-NN, tuned",
}


def load(folder: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    def lines(name: str, separator: str | None = ",") -> list[list[str]]:
        with open(os.path.join(folder, name)) as file:
            return [[part.strip() for part in line.split(separator)] for line in file if line.strip()]

    def numeric(rows: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([row[:-1] for row in rows], dtype=float), np.array([row[-1] for row in rows])

    wine = np.genfromtxt(os.path.join(folder, "wine/winequality-white.csv"), delimiter=";", skip_header=1)
    wine = wine[np.isin(wine[:, -1], [5, 6, 7])]
    cardio = np.genfromtxt(os.path.join(folder, "cardio/CTG.csv"), delimiter=",", skip_header=1)
    vehicle = [os.path.relpath(name, folder) for name in sorted(glob.glob(os.path.join(folder, "vehicle/xa?.dat")))]
    genes = lines("molecular/splice.data")
    letters = np.array([list(row[2]) for row in genes])
    return {
        "wine": (wine[:, :-1], wine[:, -1].astype(int)),
        "robot": numeric(lines("robot/sensor_readings_24.data")),
        "vehicle": numeric([row for name in vehicle for row in lines(name, None)]),
        "molecular": (
            np.concatenate([letters == letter for letter in "ACGT"], axis=1).astype(float),
            np.array([r[0] for r in genes]),
        ),
        "wave": numeric(lines("wave/waveform.data")),
        "iono": numeric(lines("iono/ionosphere.data")),
        "cardio": (cardio[:, :21], cardio[:, -1].astype(int)),
        "pima": numeric(lines("pima/pima-indians-diabetes.csv")),
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
        data = load(os.environ["OUTMETRIC_DATA"])
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
