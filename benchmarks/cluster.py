"""What does a search on a Dask cluster cost, term by term, and what would many more rows take on many more workers?

Seconds = rows / workers * (kernel * landmarks * features + product * landmarks^2)
        + chunks / workers * add * classes * folds * landmarks^2
        + levels * move * bytes of one sum + solve * folds * landmarks^3 + start

Kernel values and products grow alike in the few settings that fit here, so that how the two compare is measured by itself, in
seconds of the processor; all else is fitted to wall-clock seconds.
"""

import time
from collections.abc import Callable

import dask.array as da
import numpy as np
import scipy.optimize
from dask.distributed import Client, LocalCluster, wait
from measure import publish
from sklearn.model_selection import StratifiedKFold

from outmetric import LearnedKernelMetric, MetricSearchCV
from outmetric.kernels import Scalar

FEATURES, CHUNKS, FAN_IN = 20, 12, 8
# rows, landmarks, classes, folds
MEASURED = [
    (24_000, 100, 2, 2),
    (96_000, 100, 2, 2),
    (24_000, 400, 2, 2),
    (60_000, 400, 2, 2),
    (24_000, 400, 12, 2),
    (24_000, 400, 12, 6),
    (24_000, 200, 40, 6),
]
TERMS = ("kernel values", "products", "sums in chunks", "sums moved", "solves", "start")


def costs(rows: float, landmarks: int, classes: int, folds: int, workers: int, chunks: int) -> np.ndarray:
    """How much of each term there is; seconds are these times what was fitted."""
    sums = classes * folds * landmarks**2
    levels = np.ceil(np.log(max(2, chunks)) / np.log(FAN_IN))
    return np.array(
        [
            rows / workers * landmarks * FEATURES,
            rows / workers * landmarks**2,
            chunks / workers * sums,
            levels * 8.0 * sums if workers > 1 else 0.0,
            folds * landmarks**3,
            1.0,
        ]
    )


def processor_seconds(work: Callable[[], object]) -> float:
    """The best of five."""
    taken = []
    for _ in range(5):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def compared() -> float:
    """How long a kernel value takes for each feature, in the unit of one of the landmarks' products."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, FEATURES))
    sizes, kernels, products = (200, 400, 800), [], []
    for size in sizes:
        kernel = Scalar("rbf", 4.0)
        values = kernel.evaluator(X[:size], np.dtype(np.float64))
        block = values(X)
        kernels.append(processor_seconds(lambda values=values: values(X)))
        products.append(processor_seconds(lambda block=block: block.T @ block))
    # Whitening is another product, of the same size but not symmetric: twice as long.
    return float(
        np.median([k / (size * FEATURES) / (3 * p / size**2) for size, k, p in zip(sizes, kernels, products, strict=True)])
    )


def search(X: object, y: np.ndarray, landmarks: int, folds: int) -> None:
    metric = LearnedKernelMetric(solver="nystroem", n_landmarks=landmarks, landmarks="uniform", random_state=0)
    MetricSearchCV(metric, {}, cv=StratifiedKFold(folds), n_neighbors=5, refit=False).fit(X, y)


def measured(workers: int) -> list[float]:
    """The best of two, of each setting."""
    rng = np.random.default_rng(0)
    found = []
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster, Client(cluster):
        for rows, landmarks, classes, folds in MEASURED:
            y = rng.integers(classes, size=rows)
            X = rng.normal(size=(rows, FEATURES)) + rng.normal(size=(classes, FEATURES))[y]
            lazy = da.from_array(X, chunks=(rows // CHUNKS, FEATURES)).persist()
            wait(lazy)
            taken = []
            for _ in range(2):
                began = time.perf_counter()
                search(lazy, y, landmarks, folds)
                taken.append(time.perf_counter() - began)
            found.append(min(taken))
    return found


def main() -> None:
    seconds = {workers: measured(workers) for workers in (1, 2)}
    terms = np.array([costs(*setting, workers, CHUNKS) for workers in seconds for setting in MEASURED])
    taken = np.concatenate(list(seconds.values()))
    # Relative errors count, and no term is negative.
    ratio = compared()
    together = np.column_stack([ratio * terms[:, 0] + terms[:, 1], terms[:, 2:]])
    scale = together.max(axis=0)
    one, *others = scipy.optimize.nnls(together / scale / taken[:, None], np.ones(len(taken)))[0] / scale
    fitted = np.array([ratio * one, one, *others])
    print(dict(zip(TERMS, fitted.tolist(), strict=True)))
    table = []
    for place, setting in enumerate(MEASURED):
        row: dict[str, object] = dict(zip(("rows", "landmarks", "classes", "folds"), setting, strict=True))
        for workers, times in seconds.items():
            row |= {f"{workers} workers": times[place], f"model, {workers}": float(costs(*setting, workers, CHUNKS) @ fitted)}
        table.append(row)
    publish("cluster", table)
    far = []
    for rows in (1e8, 1e9):
        for workers in (10, 100, 1000):
            for classes in (10, 1000):
                parts = costs(rows, 1000, classes, 5, workers, int(rows / 1e5)) * fitted
                row = {"rows": f"{rows:.0e}", "workers": workers, "classes": classes, "seconds": float(parts.sum())}
                far.append({**row, **{name: float(part) for name, part in zip(TERMS, parts, strict=True)}})
    publish("beyond", far)


if __name__ == "__main__":
    main()
