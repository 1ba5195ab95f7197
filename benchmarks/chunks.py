"""What does a local Dask cluster add to the time of a fit and of a search, and what does supervised UMAP take?"""

import time
from functools import partial

import dask.array as da
from dask.distributed import Client, LocalCluster, wait
from measure import publish, seconds
from scale import clusters, tuned

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
        for what, task in {"fit": fit, "search": tuned}.items():
            ways = {f"{what}, one process": partial(task, X, y), f"{what}, 2 Dask workers": partial(task, lazy, targets)}
            taken = seconds(ways, repeats=3)
            ours = taken[f"{what}, one process"]
            rows += [{"what": name, "n": ROWS, "seconds": found, "times ours": found / ours} for name, found in taken.items()]
    try:
        from umap import UMAP
    except ImportError:
        print("umap-learn is not installed: no comparison with it")
    else:
        part = slice(50_000)
        ours = seconds({"ours": lambda: fit(X[part], y[part])}, repeats=3)["ours"]
        began = time.perf_counter()
        UMAP(random_state=None).fit(X[part], y=y[part])
        rows.append({"what": "fit, one process", "n": 50_000, "seconds": ours, "times ours": 1.0})
        umap = time.perf_counter() - began
        rows.append({"what": "supervised UMAP", "n": 50_000, "seconds": umap, "times ours": umap / ours})
    publish("chunks", rows)


if __name__ == "__main__":
    main()
