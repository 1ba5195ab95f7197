"""How fast is ITML beside metric-learn 0.7.0 on the same pairs and bounds?

Needs metric-learn in an environment of its own, see lmnn.py.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import in_process, publish
from scipy.spatial.distance import pdist
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from outmetric.baselines.projections import sample_pairs

REPEATS = 3
DATA = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
FIT = """
import json, sys, time, warnings
import numpy as np
from {package} import ITML
warnings.simplefilter("ignore")
path, settings = sys.argv[1], json.loads(sys.argv[2])
data = np.load(path)
X, pairs, signs, bounds = (data[name] for name in ("X", "pairs", "signs", "bounds"))
began = time.perf_counter()
model = {fit}
seconds = time.perf_counter() - began
A, V = model.get_mahalanobis_matrix(), X[pairs[:, 0]] - X[pairs[:, 1]]
distances, own = np.einsum("ij,jk,ik->i", V, A, V), np.where(signs > 0, *bounds)
relaxed = np.where(signs * (distances - own) <= 0, own, distances)
objective = np.trace(A) - np.linalg.slogdet(A)[1] - len(A) + np.sum(relaxed / own - np.log(relaxed / own) - 1)
print(json.dumps(dict(seconds=seconds, objective=float(objective), sweeps=int(model.n_iter_))))
"""
OURS = FIT.format(package="outmetric.baselines", fit="ITML(bounds=tuple(bounds), **settings).fit_pairs(pairs, signs, X)")
THEIRS = FIT.format(package="metric_learn", fit="ITML(**settings).fit(X[pairs], signs, bounds=bounds.copy())")


def main() -> None:
    peer = os.environ["METRIC_LEARN_PYTHON"]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for label, source in DATA.items():
            X, y = source(return_X_y=True)
            X = StandardScaler().fit_transform(X)
            similar, dissimilar = sample_pairs(y, 20 * len(np.unique(y)) ** 2, np.random.default_rng(0))
            pairs = np.concatenate([similar, dissimilar])
            signs = np.repeat([1, -1], [len(similar), len(dissimilar)])
            apart = (X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1)
            path = Path(name) / "data.npz"
            np.savez(path, X=X, pairs=pairs[apart], signs=signs[apart], bounds=np.percentile(pdist(X, "sqeuclidean"), [5, 95]))
            runs = [(in_process(peer, THEIRS, path), in_process(sys.executable, OURS, path)) for _ in range(REPEATS)]
            theirs, ours = (list(column) for column in zip(*runs, strict=True))
            times = [statistics.median(one["seconds"] for one in group) for group in (theirs, ours)]
            rows.append(
                {
                    "data": label,
                    "features": X.shape[1],
                    "pairs": int(apart.sum()),
                    "metric-learn objective": f"{theirs[0]['objective']:.6g}",
                    "our objective": f"{ours[0]['objective']:.6g}",
                    "metric-learn seconds": times[0],
                    "our seconds": times[1],
                    "times faster": times[0] / times[1],
                    "metric-learn sweeps": theirs[0]["sweeps"],
                    "our sweeps": ours[0]["sweeps"],
                }
            )
    publish("itml", rows)


if __name__ == "__main__":
    main()
