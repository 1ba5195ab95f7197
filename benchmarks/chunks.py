"""What does a local Dask cluster add to the time of a fit, and what does supervised UMAP take?"""

import time

import dask.array as da
from dask.distributed import Client, LocalCluster, wait
from measure import publish, seconds
from scale import clusters

from outmetric import LearnedKernelMetric

ROWS = 1_000_000


def fit(X: object, y: object) -> LearnedKernelMetric:
    return LearnedKernelMetric(solver="nystroem", n_landmarks=500, random_state=0).fit(X, y)


def main() -> None:
    X, y = clusters(ROWS, 1)
    rows = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        lazy = da.from_array(X, chunks=(ROWS // 20, X.shape[1])).persist()
        targets = da.from_array(y, chunks=ROWS // 20).persist()
        wait([lazy, targets])
        taken = seconds({"one process": lambda: fit(X, y), "2 Dask workers": lambda: fit(lazy, targets)}, repeats=3)
    for name, time_taken in taken.items():
        rows.append({"fit": name, "n": ROWS, "seconds": time_taken, "times ours": time_taken / taken["one process"]})
    try:
        from umap import UMAP
    except ImportError:
        print("umap-learn is not installed: no comparison with it")
    else:
        part = slice(50_000)
        ours = seconds({"ours": lambda: fit(X[part], y[part])}, repeats=3)["ours"]
        began = time.perf_counter()
        UMAP(random_state=None).fit(X[part], y=y[part])
        rows.append({"fit": "one process", "n": 50_000, "seconds": ours, "times ours": 1.0})
        umap = time.perf_counter() - began
        rows.append({"fit": "supervised UMAP", "n": 50_000, "seconds": umap, "times ours": umap / ours})
    publish("chunks", rows)


if __name__ == "__main__":
    main()
