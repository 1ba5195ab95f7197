"""What do MetricClassifier's searches and maps take for 100,000 rows, and with a time budget for a million?"""

import multiprocessing
import resource
import time

import numpy as np
from measure import publish
from scale import clusters
from sklearn.ensemble import RandomForestClassifier

from outmetric import MetricClassifier

# Rows, seconds that the fit may take, and whether a forest, which takes long for many, is fitted as well.
CASES = ((100_000, None, True), (1_000_000, 240, False))


def fitted(model: object, n: int) -> dict[str, object]:
    """In a process of its own, whose peak is that of this fit."""
    X, y = clusters(n, 1)
    X_test, y_test = clusters(20_000, 2)
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    model.fit(X, y)
    return {
        "seconds": time.perf_counter() - began,
        "peak GB beyond data": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) / 1e6,
        "accuracy": float(np.mean(model.predict(X_test) == y_test)),
    }


def main() -> None:
    rows = []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for n, budget, beside in CASES:
            row = {"rows": n, "time_budget": budget or "", **pool.apply(fitted, (automatic(budget), n))}
            forest = pool.apply(fitted, (RandomForestClassifier(500, n_jobs=2, random_state=0), n)) if beside else {}
            rows.append({**row, "forest": forest.get("seconds", ""), "its accuracy": forest.get("accuracy", "")})
    publish("automatic", rows)


def automatic(budget: float | None) -> MetricClassifier:
    return MetricClassifier(time_budget=budget, n_jobs=2, random_state=0)


if __name__ == "__main__":
    main()
