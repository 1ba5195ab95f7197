"""How fast is LMNN, and how much memory does it take, beside metric-learn 0.7.0 on the same data and neighbours?

metric-learn needs an environment of its own, since it does not run on current scikit-learn: Python 3.11 or 3.12 with
metric-learn==0.7.0, scikit-learn==1.3.2, numpy==1.26.4 and scipy==1.12.0. Give its interpreter in METRIC_LEARN_PYTHON; without it
only our own rows are measured. Each fit runs in a process of its own, and the two take turns.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import in_process, publish, seconds
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics.pairwise import rbf_kernel

from outmetric.baselines import KernelLMNN

REPEATS = 2
# Objectives are the same if they differ by less, relatively.
SAME = 1e-5
# What Linux says of this process; the peak is reset, since it begins with that of its parent.
MEMORY = """
open("/proc/self/clear_refs", "w").write("5")
def memory(kind):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(kind)) / 1024
"""
OURS = (
    MEMORY
    + """
import json, sys, time, warnings
import numpy as np
from outmetric.baselines import LMNN
warnings.simplefilter("ignore")
path, settings = sys.argv[1], json.loads(sys.argv[2])
data = np.load(path)
X, y = data["X"], data["y"]
before = memory("VmRSS")
began = time.perf_counter()
model = LMNN(**settings).fit(X, y)
seconds = time.perf_counter() - began
peak = memory("VmHWM")
trace = [record.objective for record in model.history_]
print(json.dumps(dict(seconds=seconds, extra=peak - before, peak=peak, trace=trace, objective=model.objective_)))
"""
)
THEIRS = (
    MEMORY
    + """
import json, sys, time
import numpy as np
from metric_learn import LMNN
path, settings = sys.argv[1], json.loads(sys.argv[2])
data = np.load(path)
X, y = data["X"], data["y"]
model, trace = LMNN(**settings), []
evaluate = model._loss_grad
def spy(*arguments):
    found = evaluate(*arguments)
    trace.append(float(found[1]))
    return found
model._loss_grad = spy
before = memory("VmRSS")
began = time.perf_counter()
model.fit(X, y)
seconds = time.perf_counter() - began
peak = memory("VmHWM")
print(json.dumps(dict(seconds=seconds, extra=peak - before, peak=peak, trace=trace, objective=min(trace))))
"""
)


def median(runs: list[dict], key: str) -> float:
    return statistics.median(one[key] for one in runs)


def side_by_side(name: str, X: np.ndarray, y: np.ndarray, peer: str, folder: Path) -> list[dict]:
    """The time until our objective is that at which metric-learn stops, and until we stop."""
    path = folder / "data.npz"
    np.savez(path, X=X, y=y)
    settings = {"n_neighbors": 3, "learn_rate": 1e-3}
    target = in_process(peer, THEIRS, path, **settings)["objective"]
    full = in_process(sys.executable, OURS, path, n_neighbors=3)
    reached = next(step + 1 for step, objective in enumerate(full["trace"]) if objective <= target * (1 + SAME))
    runs = [
        (
            in_process(peer, THEIRS, path, **settings),
            in_process(sys.executable, OURS, path, n_neighbors=3, max_iter=reached, tol=0),
            in_process(sys.executable, OURS, path, n_neighbors=3),
        )
        for _ in range(REPEATS)
    ]
    theirs, same, whole = (list(column) for column in zip(*runs, strict=True))
    return [
        {
            "data": name,
            "n": len(X),
            "d": X.shape[1],
            "fit": label,
            "objective": f"{median(group, 'objective'):.6g}",
            "seconds": median(group, "seconds"),
            "times faster": median(theirs, "seconds") / median(group, "seconds"),
            "extra MB": median(group, "extra"),
            "share of its memory": median(group, "extra") / median(theirs, "extra"),
        }
        for label, group in (("metric-learn", theirs), ("to the same objective", same), ("to our tol", whole))
    ]


def kernel_data() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(1000, 20, n_informative=8, n_classes=4, random_state=0)


def kernel_triplets() -> dict:
    """A fit beside the formulation with f(x) = W k(x), whose gradient adds up an n x n matrix over triplets."""
    X, y = kernel_data()
    model = KernelLMNN()
    fit = seconds({"fit": lambda: model.fit(X, y)}, repeats=REPEATS)["fit"]
    K = rbf_kernel(X, gamma=0.5 / model.bandwidth_**2)
    W = model.components_ @ model.get_metric().coefficients.T
    values = []
    evaluation = seconds({"evaluation": lambda: values.append(triplet_sum(W, K, y, model.target_neighbors_))}, repeats=REPEATS)
    assert abs(values[0] - model.objective_) < 1e-6 * model.objective_
    total = evaluation["evaluation"] * model.n_iter_
    return {
        "n": len(X),
        "components": len(W),
        "fit seconds": fit,
        "steps": model.n_iter_,
        "seconds of one sum over triplets": evaluation["evaluation"],
        "of as many": total,
        "times faster": total / fit,
    }


def triplet_sum(W: np.ndarray, K: np.ndarray, y: np.ndarray, targets: np.ndarray, mu: float = 0.5) -> float:
    """Objective and gradient with all triplets of a point at once, vectorised; returns the former."""
    Z = K @ W.T
    squares = (Z**2).sum(axis=1)
    distances = squares[:, None] + squares - 2 * Z @ Z.T
    objective, scatter = 0.0, np.zeros_like(K)
    for i, own in enumerate(targets):
        others = np.flatnonzero(y != y[i])
        violations = 1 + distances[i, own][:, None] - distances[i, others]
        near, far = np.nonzero(violations > 0)
        objective += (1 - mu) * distances[i, own].sum() + mu * violations[near, far].sum()
        pulled, pushed, all_pulled = K[i] - K[own[near]], K[i] - K[others[far]], K[i] - K[own]
        scatter += (1 - mu) * all_pulled.T @ all_pulled + mu * (pulled.T @ pulled - pushed.T @ pushed)
    gradient = 2 * W @ scatter
    assert np.isfinite(gradient).all()
    return objective


def large(folder: Path) -> dict:
    X, y = make_classification(10_000, 50, n_informative=20, n_classes=5, class_sep=1.5, random_state=0)
    path = folder / "large.npz"
    np.savez(path, X=X, y=y)
    found = in_process(sys.executable, OURS, path, n_neighbors=3)
    return {
        "data": "generated",
        "n": len(X),
        "d": X.shape[1],
        "fit": "to our tol",
        "objective": f"{found['objective']:.6g}",
        "seconds": found["seconds"],
        "times faster": "",
        "extra MB": found["extra"],
        "share of its memory": f"peak of the process: {found['peak']:.0f} MB",
    }


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = os.environ.get("METRIC_LEARN_PYTHON")
        if peer:
            X, y = load_digits(return_X_y=True)
            rows += side_by_side("digits / 16", X / 16, y, peer, folder)
            X, y = make_classification(2000, 30, n_informative=5, flip_y=0.3, random_state=0)
            rows += side_by_side("overlapping classes", X, y, peer, folder)
            X, y = kernel_data()
            rows += side_by_side("kernel components", KernelLMNN().fit(X, y).map(X), y, peer, folder)
        rows.append(large(folder))
    publish("lmnn", rows)
    publish("kernel-lmnn", [kernel_triplets()])


if __name__ == "__main__":
    main()
