"""What does tuning cost beside the eigendecompositions it needs, and beside GridSearchCV?"""

import time

import numpy as np
import scipy.linalg
from measure import is_quick, publish, seconds
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric, MetricSearchCV
from outmetric.datasets import make_waveform

BANDWIDTHS, RATIOS = [2.0, 3.0, 5.0, 8.0, 12.0], [1e-3, 1e-2, 1e-1]
LAMBDAS, PENALTIES = 10.0 ** np.arange(-1, 2, 0.5), [0.13, 1.7, 11.0, 190.0]
NEIGHBOURS = [1, 3, 5, 7, 9, 15, 21, 31]
FOLDS = 5
GRIDS = [
    {
        "bandwidth": BANDWIDTHS,
        "regression_weight": [s],
        "collocation_weight": [r * s for r in RATIOS],
        "output_penalty": PENALTIES,
    }
    for s in LAMBDAS
]


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    small = make_classification(400, 20, n_informative=8, n_classes=4, random_state=0)
    if is_quick():
        return {"generated, 20 features": small}
    return {
        "generated, 20 features": small,
        "waveforms": make_waveform(1000, random_state=0),
        "generated, 60 features": make_classification(1000, 60, n_informative=12, n_classes=5, random_state=0),
    }


def grid_search_seconds(X: np.ndarray, y: np.ndarray) -> float:
    """Of all candidates, as far as a random twentieth of them tells."""
    candidates = list(ParameterGrid([{**grid, "n_neighbors": NEIGHBOURS} for grid in GRIDS]))
    chosen = np.random.default_rng(0).permutation(len(candidates))[: len(candidates) // 20]
    pipeline = Pipeline([("metric", LearnedKernelMetric()), ("vote", KNeighborsClassifier())])
    some = [
        {("vote__" if name == "n_neighbors" else "metric__") + name: [value] for name, value in candidates[k].items()}
        for k in chosen
    ]
    began = time.perf_counter()
    GridSearchCV(pipeline, some, scoring="accuracy", refit=False, cv=FOLDS).fit(X, y)
    return 20 * (time.perf_counter() - began)


def measure(name: str, X: np.ndarray, y: np.ndarray) -> list[dict[str, object]]:
    X = StandardScaler().fit_transform(X)
    training = len(X) - len(X) // FOLDS
    matrices = [rbf_kernel(X[:training], gamma=0.5 / bandwidth**2) for bandwidth in BANDWIDTHS]

    def search(jobs: int) -> MetricSearchCV:
        return MetricSearchCV(
            LearnedKernelMetric(), GRIDS, n_neighbors=NEIGHBOURS, scoring="accuracy", cv=FOLDS, n_jobs=jobs, refit=False
        ).fit(X, y)

    tasks = {
        "floor": lambda: [scipy.linalg.eigh(K) for K in matrices for _ in range(FOLDS * len(RATIOS))],
        "1 job": lambda: search(1),
        "2 jobs": lambda: search(2),
    }
    taken = seconds(tasks, repeats=3)
    done = search(1)
    grid_search = grid_search_seconds(X, y) if len(X) <= 400 else ""
    return [
        {
            "data": name,
            "n": len(X),
            "search": jobs,
            "candidates": len(done.cv_results_["params"]),
            "decompositions": done.n_decompositions_,
            "seconds": taken[jobs],
            "floor": taken["floor"],
            "ratio": taken[jobs] / taken["floor"],
            "GridSearchCV": grid_search,
            "times faster": grid_search / taken[jobs] if grid_search else "",
        }
        for jobs in ("1 job", "2 jobs")
    ]


def main() -> None:
    publish("search", [row for name, data in data_sets().items() for row in measure(name, *data)])


if __name__ == "__main__":
    main()
