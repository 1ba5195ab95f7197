"""How accurate, and how fast, are MetricClassifier and MetricRegressor, untouched, beside what people use for tables?

36 tables (``python benchmarks/tables.py FOLDER``: CSV files and their MANIFEST.json) or, by ``--openml NAME ...``, others from
OpenML; at most 1000 rows for training (``--rows 10000`` for those that have them), 70 % of small ones, at most 3000 for testing,
random splits. Rivals have their defaults; SVM and k-NN are tuned on the training part by 5-fold cross-validation, xRFM on a fifth
of it; of more than 2000 rows SVM and xRFM, which would take hours, are tuned on so many and then fitted on all. All use two jobs.
One line for each trial goes to results/tables.jsonl, and trials already there are not repeated, so the script can be stopped at
any time. LightGBM, CatBoost and xRFM take part where they are installed. ``--table`` only writes tables and pictures of what is
there.
"""

import argparse
import importlib
import importlib.util
import itertools
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from measure import FOLDER, publish
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR

from outmetric import MetricClassifier, MetricRegressor

TRIALS = FOLDER / "results" / "tables.jsonl"
SPLITS, TESTED, JOBS = 3, 3000, 2
# Rows on which methods are tuned that would take hours with more.
TUNED = 2000
OURS = "outmetric"
REFERENCE = "random forest"
# Rows with a probability below this count as if they had it.
LEAST = 1e-3


def encoded(model):
    """With categories one-hot, for those that take numbers only."""
    words = make_column_selector(dtype_exclude="number")
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), words),
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    return make_pipeline(columns, model)


def tuned(model, grid, classes):
    steps = make_pipeline(StandardScaler(), model)
    name = type(model).__name__.lower()
    scoring = "accuracy" if classes else "r2"
    return GridSearchCV(
        steps, {f"{name}__{key}": values for key, values in grid.items()}, scoring=scoring, n_jobs=JOBS, error_score="raise"
    )


class TunedOnSome(BaseEstimator):
    """A search on at most TUNED rows, and its best setting fitted on all."""

    def __init__(self, search, seed=0):
        self.search = search
        self.seed = seed

    def fit(self, X, y):
        if len(y) <= TUNED:
            self.best_ = clone(self.search).fit(X, y).best_estimator_
            return self
        some = np.random.default_rng(self.seed).choice(len(y), TUNED, replace=False)
        search = clone(self.search).set_params(refit=False).fit(X[some], y[some])
        self.best_ = clone(self.search.estimator).set_params(**search.best_params_).fit(X, y)
        return self

    def predict(self, X):
        return self.best_.predict(X)

    def predict_proba(self, X):
        return self.best_.predict_proba(X)


def other(package, name, **settings):
    """From a package that need not be installed."""
    return lambda seed: encoded(getattr(importlib.import_module(package), name)(random_state=seed, **settings))


class RecursiveFeatureMachine(BaseEstimator):
    """xRFM with its kernel, bandwidth and ridge chosen on a fifth of the rows, by which it stops its rounds as well."""

    KERNELS = (("l2", False), ("l1", True))
    BANDWIDTHS, RIDGES = (3.0, 10.0, 30.0), (1e-3, 1e-1)

    def __init__(self, seed=0):
        self.seed = seed

    def fit(self, X, y):
        self.scaler_ = StandardScaler().fit(X)
        rows = self.scaler_.transform(X).astype(np.float32)
        classes = y.dtype.kind not in "fi"
        if classes:
            self.classes_, learned = np.unique(y, return_inverse=True)
        else:
            self.centre_, self.spread_ = y.mean(), y.std()
            learned = ((y - self.centre_) / self.spread_).astype(np.float32)
        train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=self.seed)
        some, few = train[:TUNED], test[: TUNED // 4]
        best = np.inf
        for setting in itertools.product(self.KERNELS, self.BANDWIDTHS, self.RIDGES):
            model = self._machine(setting).fit(rows[some], learned[some], rows[few], learned[few])
            if classes:
                chosen = model.predict_proba(rows[few]).clip(LEAST, 1)[np.arange(len(few)), learned[few]]
                loss = -np.log(chosen).mean()
            else:
                loss = np.mean((model.predict(rows[few]).ravel() - learned[few]) ** 2)
            if loss < best:
                best, self.model_, chosen_setting = loss, model, setting
        if len(some) < len(train):
            self.model_ = self._machine(chosen_setting).fit(rows[train], learned[train], rows[test], learned[test])
        return self

    def _machine(self, setting):
        (kernel, diagonal), bandwidth, ridge = setting
        model = {"kernel": kernel, "bandwidth": bandwidth, "exponent": 1.0, "diag": diagonal, "bandwidth_mode": "constant"}
        fit = {"reg": ridge, "iters": 5, "verbose": False, "return_best_params": True}
        machine = importlib.import_module("xrfm").xRFM
        return machine({"model": model, "fit": fit}, device="cpu", random_state=self.seed, verbose=False, n_threads=JOBS)

    def predict(self, X):
        if hasattr(self, "classes_"):
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        return self.centre_ + self.spread_ * self._ask(self.model_.predict, X).ravel()

    def predict_proba(self, X):
        return self._ask(self.model_.predict_proba, X)

    def _ask(self, method, X):
        return method(self.scaler_.transform(X).astype(np.float32))


NEIGHBOURS = {"n_neighbors": [1, 3, 5, 9, 15, 25]}
SVM = {"C": [0.1, 1, 10, 100, 1000], "gamma": [0.003, 0.01, 0.03, 0.1, 0.3]}
CATBOOST = {"verbose": 0, "thread_count": JOBS, "allow_writing_files": False}
LIGHTGBM = {"n_jobs": JOBS, "verbose": -1}
# For classes, and for real targets; each takes a seed.
METHODS = {
    OURS: (
        lambda seed: MetricClassifier(random_state=seed, n_jobs=JOBS),
        lambda seed: MetricRegressor(random_state=seed, n_jobs=JOBS),
    ),
    REFERENCE: (
        lambda seed: encoded(RandomForestClassifier(500, random_state=seed, n_jobs=JOBS)),
        lambda seed: encoded(RandomForestRegressor(500, random_state=seed, n_jobs=JOBS)),
    ),
    "extra trees": (
        lambda seed: encoded(ExtraTreesClassifier(500, random_state=seed, n_jobs=JOBS)),
        lambda seed: encoded(ExtraTreesRegressor(500, random_state=seed, n_jobs=JOBS)),
    ),
    "HistGradientBoosting": (
        lambda seed: encoded(HistGradientBoostingClassifier(random_state=seed)),
        lambda seed: encoded(HistGradientBoostingRegressor(random_state=seed)),
    ),
    "SVM, tuned": (
        lambda seed: encoded(TunedOnSome(tuned(SVC(probability=True, random_state=seed), SVM, True), seed)),
        lambda seed: encoded(TunedOnSome(tuned(SVR(), SVM, False), seed)),
    ),
    "k-NN, tuned": (
        lambda seed: encoded(tuned(KNeighborsClassifier(), NEIGHBOURS, True)),
        lambda seed: encoded(tuned(KNeighborsRegressor(), NEIGHBOURS, False)),
    ),
    "LightGBM": (other("lightgbm", "LGBMClassifier", **LIGHTGBM), other("lightgbm", "LGBMRegressor", **LIGHTGBM)),
    "CatBoost": (other("catboost", "CatBoostClassifier", **CATBOOST), other("catboost", "CatBoostRegressor", **CATBOOST)),
    "xRFM, tuned": (lambda seed: encoded(RecursiveFeatureMachine(seed)), lambda seed: encoded(RecursiveFeatureMachine(seed))),
}
PACKAGES = {"LightGBM": "lightgbm", "CatBoost": "catboost", "xRFM, tuned": "xrfm"}


def is_here(method):
    return method not in PACKAGES or importlib.util.find_spec(PACKAGES[method]) is not None


def load(folder: Path) -> dict[str, tuple[pd.DataFrame, np.ndarray, bool]]:
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    found = {}
    for name, about in manifest.items():
        frame = pd.read_csv(folder / about["file"])
        classes = about["task"] == "classification"
        y = frame.pop("target").to_numpy()
        found[name] = frame, y.astype(str) if classes else y.astype(float), classes
    return found


def load_openml(names: list[str]) -> dict[str, tuple[pd.DataFrame, np.ndarray, bool]]:
    from sklearn.datasets import fetch_openml

    found = {}
    for name in names:
        data = fetch_openml(name, as_frame=True)
        classes = data.target.dtype.kind not in "fi"
        found[name] = data.data, data.target.to_numpy().astype(str if classes else float), classes
    return found


def split(n: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(n)
    cut = min(rows, int(0.7 * n))
    return order[:cut], order[cut : cut + TESTED]


def trial(X: pd.DataFrame, y: np.ndarray, classes: bool, method: str, train, test, seed: int) -> dict[str, float]:
    model = METHODS[method][0 if classes else 1](seed)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X.iloc[train], y[train])
        fit = time.perf_counter() - began
        predicted = np.asarray(model.predict(X.iloc[test])).ravel()
        found = {"fit": fit, "predict": time.perf_counter() - began - fit}
        if not classes:
            found["R2"] = float(r2_score(y[test], predicted))
            if method == OURS:
                low, high = model.predict_interval(X.iloc[test], 0.9).T
                found["coverage"] = float(np.mean((low <= y[test]) & (y[test] <= high)))
            return found
        found["accuracy"] = float(np.mean(predicted.astype(str) == y[test]))
        known = np.unique(y[train])
        tested = np.isin(y[test], known)
        probabilities = np.asarray(model.predict_proba(X.iloc[test]))[tested].clip(LEAST, 1)
        found["log-loss"] = float(log_loss(y[test][tested], probabilities / probabilities.sum(axis=1, keepdims=True), labels=known))
    return found


def run(data, rows: int, methods: list[str], splits: int) -> None:
    TRIALS.parent.mkdir(exist_ok=True)
    done = {(one["set"], one["method"], one["rows"], one["split"]) for one in trials()}
    for seed in range(splits):
        for name, (X, y, classes) in data.items():
            if rows > 1000 and len(y) < 1.4 * 1000:
                continue  # the smaller run has all of it
            train, test = split(len(y), rows, seed)
            for method in methods:
                if (name, method, rows, seed) in done:
                    continue
                found = trial(X, y, classes, method, train, test, seed)
                line = {
                    "set": name,
                    "classes": classes,
                    "method": method,
                    "rows": rows,
                    "split": seed,
                    "train": len(train),
                    **found,
                }
                with TRIALS.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, flush=True)


def trials() -> list[dict]:
    return [json.loads(line) for line in TRIALS.read_text().splitlines()] if TRIALS.exists() else []


def scores(some: list[dict], measure: str) -> pd.DataFrame:
    """Means over splits: a row for each set that all methods have, a column for each method."""
    frame = pd.DataFrame(some).pivot_table(index="set", columns="method", values=measure, aggfunc="mean")
    return frame.dropna()


def elo(table: pd.DataFrame) -> pd.Series:
    """Bradley-Terry strengths by wins over sets (half for a draw), one more draw each, in Elo units, the reference at 1000."""
    values = table.to_numpy()
    wins = (values[:, :, None] > values[:, None, :]).sum(axis=0) + 0.5 * (values[:, :, None] == values[:, None, :]).sum(axis=0)
    wins = wins + 0.5
    np.fill_diagonal(wins, 0)
    strength = np.ones(len(wins))
    for _ in range(1000):
        games = (wins + wins.T) / (strength[:, None] + strength[None])
        strength = wins.sum(axis=1) / games.sum(axis=1)
        strength /= strength.mean()
    found = pd.Series(400 * np.log10(strength), index=table.columns)
    return found - found[REFERENCE] + 1000


def summary(some: list[dict], measure: str) -> list[dict]:
    table = scores(some, measure)
    ranks = table.rank(axis=1, ascending=False)
    seconds = pd.DataFrame(some).pivot_table(index="set", columns="method", values="fit", aggfunc="mean").loc[table.index]
    times = seconds.div(seconds[REFERENCE], axis=0).median()
    rating = elo(table)
    rows = []
    for method in ranks.mean().sort_values().index:
        row = {"method": method, "sets": len(table), f"mean {measure}": f"{table[method].mean():.4f}"}
        row |= {
            f"median {measure}": f"{table[method].median():.4f}",
            "mean rank": f"{ranks[method].mean():.2f}",
            "Elo": f"{rating[method]:.0f}",
            "median time / forest": f"{times[method]:.2f}",
        }
        if method != OURS:
            row["ours: wins-losses"] = f"{(table[OURS] > table[method]).sum()}-{(table[OURS] < table[method]).sum()}"
        else:
            row["ours: wins-losses"] = ""
        rows.append(row)
    return rows


def by_set(some: list[dict], measure: str) -> list[dict]:
    """Every set, those first in which we are furthest behind the best of the others."""
    table = scores(some, measure)
    lead = table[OURS] - table.drop(columns=OURS).max(axis=1)
    return [
        {"set": name, **{method: f"{table.loc[name, method]:.3f}" for method in table.columns}} for name in lead.sort_values().index
    ]


def critical_difference(some: list[dict], measure: str, path: Path) -> None:
    """Mean ranks on a line, with bars over methods that do not differ (Nemenyi test at 5 %; Demsar 2006)."""
    from matplotlib.figure import Figure

    table = scores(some, measure)
    ranks = table.rank(axis=1, ascending=False).mean().sort_values()
    k, n = len(ranks), len(table)
    difference = stats.studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))
    figure = Figure(figsize=(8, 0.32 * k + 1.2), layout="constrained")
    ax = figure.subplots()
    places = np.arange(k)
    ax.hlines(places, ranks - difference / 2, ranks + difference / 2, color="0.75", lw=5)
    ax.plot(ranks, places, "o", color="C0")
    for place, rank in enumerate(ranks):
        ax.annotate(f"{rank:.2f}", (rank, place), (0, 7), textcoords="offset points", ha="center", fontsize=8)
    ax.set_yticks(places, list(ranks.index))
    ax.invert_yaxis()
    ax.set_xlabel(f"mean rank by {measure} on {n} tables; bars that do not overlap differ (Nemenyi, 5 %)")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(os.environ.get("OUTMETRIC_DATA", ".")) / ".." / "tables")
    parser.add_argument("--openml", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--methods", nargs="*", default=[method for method in METHODS if is_here(method)])
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        run(load_openml(given.openml) if given.openml else load(given.folder), given.rows, given.methods, given.splits)
    for rows in sorted({one["rows"] for one in trials()}):
        for classes, measure, name in ((True, "accuracy", "classes"), (True, "log-loss", "log-loss"), (False, "R2", "real")):
            some = [one for one in trials() if one["classes"] == classes and one["rows"] == rows]
            if measure == "log-loss":
                some = [{**one, measure: -one[measure]} for one in some]
            suffix = "" if rows == 1000 else f"-{rows}"
            if not some or OURS not in {one["method"] for one in some}:
                continue
            publish(f"tables-{name}{suffix}", summary(some, measure))
            if measure != "log-loss":
                publish(f"tables-{name}-sets{suffix}", by_set(some, measure))
                critical_difference(some, measure, FOLDER / "results" / f"tables-{name}{suffix}.png")
    covered = [one["coverage"] for one in trials() if "coverage" in one]
    if covered:
        print(f"coverage of 90 % intervals: {np.mean(covered):.3f}")


if __name__ == "__main__":
    main()
