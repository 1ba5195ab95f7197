"""What does tuning cost beside the eigendecompositions it needs, and beside GridSearchCV?"""

import time

import numpy as np
import scipy.linalg
from measure import publish, seconds
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric, MetricSearchCV

BANDWIDTHS, RATIOS = [2.0, 3.0, 5.0, 8.0, 12.0], [1e-3, 1e-2, 1e-1]
LAMBDAS, PENALTIES = 10.0 ** np.arange(-1, 2, 0.5), [0.13, 1.7, 11.0, 190.0]
NEIGHBOURS = [1, 3, 5, 7, 9, 15, 21, 31]


def main() -> None:
    X, y = make_classification(400, 20, n_informative=8, n_classes=4, random_state=0)
    X = StandardScaler().fit_transform(X)
    grids = [
        {
            "bandwidth": BANDWIDTHS,
            "regression_weight": [s],
            "collocation_weight": [r * s for r in RATIOS],
            "output_penalty": PENALTIES,
        }
        for s in LAMBDAS
    ]
    matrices = [rbf_kernel(X[:320], gamma=0.5 / bandwidth**2) for bandwidth in BANDWIDTHS]

    def search(jobs: int) -> MetricSearchCV:
        return MetricSearchCV(
            LearnedKernelMetric(), grids, n_neighbors=NEIGHBOURS, scoring="accuracy", n_jobs=jobs, refit=False
        ).fit(X, y)

    tasks = {
        "floor": lambda: [scipy.linalg.eigh(K) for K in matrices for _ in range(15)],
        "1 job": lambda: search(1),
        "2 jobs": lambda: search(2),
    }
    taken = seconds(tasks, repeats=3)
    done = search(1)
    candidates = list(ParameterGrid([{**grid, "n_neighbors": NEIGHBOURS} for grid in grids]))
    chosen = np.random.default_rng(0).permutation(len(candidates))[: len(candidates) // 20]
    pipeline = Pipeline([("metric", LearnedKernelMetric()), ("vote", KNeighborsClassifier())])
    some = [
        {("vote__" if name == "n_neighbors" else "metric__") + name: [value] for name, value in candidates[k].items()}
        for k in chosen
    ]
    began = time.perf_counter()
    GridSearchCV(pipeline, some, scoring="accuracy", refit=False).fit(X, y)
    grid_search = 20 * (time.perf_counter() - began)
    publish(
        "search",
        [
            {
                "search": name,
                "candidates": len(candidates),
                "decompositions": done.n_decompositions_,
                "seconds": taken[name],
                "floor": taken["floor"],
                "ratio": taken[name] / taken["floor"],
                "GridSearchCV": grid_search,
                "times faster": grid_search / taken[name],
            }
            for name in ("1 job", "2 jobs")
        ],
    )


if __name__ == "__main__":
    main()
