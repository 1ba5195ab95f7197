"""What does tuning on up to a million points cost beside one pass over the kernel values at the landmarks?"""

import resource
import time

import numpy as np
from measure import is_quick, publish
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

from outmetric import LearnedKernelMetric, MetricSearchCV

FEATURES, LANDMARKS, CLASSES = 20, 1000, 5
GRID = {"regression_weight": [0.3, 3.0, 30.0, 300.0], "collocation_weight": ["auto", 0.0], "output_penalty": ["auto", 1e3, 1e5]}


def clusters(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Five classes, each of four overlapping clusters."""
    rng = np.random.default_rng(seed)
    centres = 1.2 * np.random.default_rng(0).normal(size=(4 * CLASSES, FEATURES)).astype(np.float32)
    cluster = rng.integers(4 * CLASSES, size=n)
    return rng.standard_normal((n, FEATURES), dtype=np.float32) + centres[cluster], cluster % CLASSES


def floor(X: np.ndarray) -> None:
    """Kernel values at the landmarks and their symmetric product, single precision, plain NumPy."""
    landmarks, gamma, block = X[:LANDMARKS], np.float32(1 / 80), 8192
    squares = (landmarks**2).sum(axis=1)
    total = np.zeros((LANDMARKS, LANDMARKS), dtype=np.float32)
    for start in range(0, len(X), block):
        rows = X[start : start + block]
        values = rows @ landmarks.T
        values *= 2
        values -= (rows**2).sum(axis=1)[:, None]
        values -= squares
        values *= gamma
        np.exp(values, out=values)
        total += values.T @ values


def tuned(X: np.ndarray, y: np.ndarray) -> MetricSearchCV:
    metric = LearnedKernelMetric(solver="nystroem", n_landmarks=LANDMARKS, random_state=0)
    return MetricSearchCV(metric, GRID).fit(X, y)


def ridge(X: np.ndarray, y: np.ndarray) -> object:
    """Scikit-learn's way, one setting."""
    return make_pipeline(Nystroem(gamma=1 / 80, n_components=LANDMARKS, random_state=0), RidgeClassifier()).fit(X, y)


def timed(task: object, *data: np.ndarray) -> tuple[float, object]:
    began = time.perf_counter()
    made = task(*data)
    return time.perf_counter() - began, made


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    idle = peak()
    X_test, y_test = clusters(20_000, 2)
    warm = clusters(50_000, 3)
    tuned(*warm)
    rows = []
    for n in (100_000,) if is_quick() else (100_000, 200_000, 500_000, 1_000_000):
        X, y = clusters(n, 1)
        floors, ours = [], []
        for _ in range(2):
            floors.append(timed(floor, X)[0])
            taken, search = timed(tuned, X, y)
            ours.append(taken)
        row = {
            "n": n,
            "candidates": len(search.cv_results_["params"]),
            "tuned fit": float(np.median(ours)),
            "floor": float(np.median(floors)),
            "ratio": float(np.median(ours) / np.median(floors)),
            "peak GB beyond data": peak() - idle - X.nbytes / 1e9 - y.nbytes / 1e9,
            "accuracy": float(np.mean(search.predict(X_test) == y_test)),
        }
        rows.append(row)
    # Last, since it holds all features at once, and no more rows than that allows.
    for row in rows:
        row |= {"Nystroem + RidgeClassifier": "", "its accuracy": ""}
    for row in rows[:2]:
        seconds, model = timed(ridge, *clusters(row["n"], 1))
        row |= {"Nystroem + RidgeClassifier": seconds, "its accuracy": model.score(X_test, y_test)}
    publish("scale", rows)


if __name__ == "__main__":
    main()
