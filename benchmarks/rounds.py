"""What do rounds of an input metric, and forest kernels, cost beside what they are built on?"""

import numpy as np
from measure import is_quick, publish, seconds
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric, MetricSearchCV
from outmetric.kernels import Forest, Scalar
from outmetric.rows import Jacobians, pull_back

BANDWIDTHS = ["0.5*median", "median", "2*median"]
TREES = 200


def data(n: int, d: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(n, d, n_informative=8, n_classes=n_classes, random_state=0)
    return StandardScaler().fit_transform(X), y


def row(what: str, n: int, taken: float, beside: str, other: float, goal: float | str) -> dict[str, object]:
    return {"what": what, "n": n, "seconds": taken, "beside": beside, "its seconds": other, "ratio": taken / other, "goal": goal}


def search(X: np.ndarray, y: np.ndarray, **settings: list[object]) -> MetricSearchCV:
    metric = LearnedKernelMetric(input_metric="full", **({} if "n_rounds" in settings else {"n_rounds": 0}))
    return MetricSearchCV(metric, {"bandwidth": BANDWIDTHS, **settings}, refit=False).fit(X, y)


def searches() -> list[dict[str, object]]:
    X, y = data(1000, 20, 4)
    rounds, weights = [0, 1, 2, 3], [0.3, 3.0, 30.0]
    taken = seconds(
        {
            "plain": lambda: search(X, y),
            "rounds": lambda: search(X, y, n_rounds=rounds),
            "plain, weights": lambda: search(X, y, regression_weight=weights),
            "rounds, weights": lambda: search(X, y, n_rounds=rounds, regression_weight=weights),
        },
        repeats=2,
    )
    return [
        row("search, 0 to 3 rounds", len(X), taken["rounds"], "search without rounds", taken["plain"], 5.0),
        row("the same, 3 weights", len(X), taken["rounds, weights"], "search without rounds", taken["plain, weights"], ""),
    ]


def pull_backs() -> list[dict[str, object]]:
    X, _ = data(2000, 50, 4)
    weights = np.random.default_rng(0).normal(size=(len(X), 5))
    kernels = {name: Scalar(name).resolve(X, np.random.default_rng(0)) for name in ("rbf", "exponential", "laplacian", "additive")}
    gram = kernels["rbf"].gram(X)
    tasks = {"decomposition": lambda: np.linalg.eigh(gram)}
    for name, kernel in kernels.items():
        tasks[name] = lambda kernel=kernel: pull_back([(X, None)], Jacobians([(kernel, weights)], X), kernel.input_metrics[-1])
    taken = seconds(tasks, repeats=5)
    return [
        row(f"pulling back, {name}", len(X), taken[name], "decomposition", taken["decomposition"], 1 / 3 if name == "rbf" else "")
        for name in kernels
    ]


def forests() -> list[dict[str, object]]:
    X, y = data(5000, 20, 4)
    taken = seconds(
        {
            "forest": lambda: RandomForestClassifier(TREES, random_state=0).fit(X, y),
            "gaussian": lambda: LearnedKernelMetric().fit(X, y),
            "both": lambda: LearnedKernelMetric(kernel=Forest(n_estimators=TREES), random_state=0).fit(X, y),
        },
        repeats=1,
    )
    floor = taken["forest"] + taken["gaussian"]
    return [row("exact fit, forest kernel", len(X), taken["both"], "forest + exact fit, Gaussian kernel", floor, 3.0)]


def main() -> None:
    publish("rounds", pull_backs() if is_quick() else [*searches(), *pull_backs(), *forests()])


if __name__ == "__main__":
    main()
