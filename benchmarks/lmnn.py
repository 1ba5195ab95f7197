"""How fast is LMNN, and how much memory does it take, beside metric-learn 0.7.0 on the same data and neighbours?

metric-learn needs an environment of its own, since it does not run on current scikit-learn: Python 3.11 or 3.12 with
metric-learn==0.7.0, scikit-learn==1.3.2, numpy==1.26.4 and scipy==1.12.0. Give its interpreter in METRIC_LEARN_PYTHON; without it
only our own rows are measured. Each fit runs in a process of its own, and the two take turns.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import publish
from sklearn.datasets import load_digits, make_classification

from outmetric.baselines import KernelLMNN

REPEATS = 3
OURS = """
import json, resource, sys, time, warnings
import numpy as np
from outmetric.baselines import LMNN
warnings.simplefilter("ignore")
path, settings = sys.argv[1], json.loads(sys.argv[2])
data = np.load(path)
X, y = data["X"], data["y"]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
model = LMNN(**settings).fit(X, y)
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
trace = [record.objective for record in model.history_]
print(json.dumps(dict(seconds=seconds, extra=(peak - before) / 1024, peak=peak / 1024, trace=trace, objective=model.objective_)))
"""
THEIRS = """
import json, resource, sys, time
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
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
model.fit(X, y)
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(dict(seconds=seconds, extra=(peak - before) / 1024, peak=peak / 1024, trace=trace, objective=min(trace))))
"""


def run(python: str, code: str, path: Path, **settings) -> dict:
    return json.loads(subprocess.check_output([python, "-c", code, str(path), json.dumps(settings)], text=True))


def median(runs: list[dict], key: str) -> float:
    return statistics.median(one[key] for one in runs)


def side_by_side(name: str, X: np.ndarray, y: np.ndarray, peer: str, folder: Path) -> list[dict]:
    """The time until our objective is that at which metric-learn stops, and until we stop."""
    path = folder / "data.npz"
    np.savez(path, X=X, y=y)
    settings = {"n_neighbors": 3, "learn_rate": 1e-3}
    target = run(peer, THEIRS, path, **settings)["objective"]
    full = run(sys.executable, OURS, path, n_neighbors=3)
    reached = next(step + 1 for step, objective in enumerate(full["trace"]) if objective <= target)
    runs = [
        (
            run(peer, THEIRS, path, **settings),
            run(sys.executable, OURS, path, n_neighbors=3, max_iter=reached, tol=0),
            run(sys.executable, OURS, path, n_neighbors=3),
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


def large(folder: Path) -> dict:
    X, y = make_classification(10_000, 50, n_informative=20, n_classes=5, class_sep=1.5, random_state=0)
    path = folder / "large.npz"
    np.savez(path, X=X, y=y)
    found = run(sys.executable, OURS, path, n_neighbors=3)
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
            X, y = make_classification(1000, 20, n_informative=8, n_classes=4, random_state=0)
            components = KernelLMNN(None).fit(X, y).map(X)
            rows += side_by_side("kernel components", components, y, peer, folder)
        rows.append(large(folder))
    publish("lmnn", rows)


if __name__ == "__main__":
    main()
