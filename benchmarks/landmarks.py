"""How many landmarks does it take? Accuracy on real data against their number, beside the exact model.

Reads robot from the folder OUTMETRIC_DATA, with all its rows; digits comes with scikit-learn. Draws docs/landmarks.png.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from measure import publish
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric
from outmetric.datasets import load_uci, make_waveform

mpl.use("Agg")
import matplotlib.pyplot as plt


def robot() -> tuple[np.ndarray, np.ndarray]:
    found = load_uci("robot")
    return found.data, found.target


COUNTS = (10, 30, 100, 300, 1000)
CHOICES = ("uniform", "kmeans++", "leverage")
SPLITS = 3
# The default bandwidth, and for robot half of it, which serves it better but has more directions.
SETS = {
    "robot": (robot, "median"),
    "robot, half the bandwidth": (robot, "0.5*median"),
    "digits": (lambda: load_digits(return_X_y=True), "median"),
    "wave": (lambda: make_waveform(5000, random_state=0), "median"),
}


def accuracy(data: tuple, **settings: object) -> float:
    X_train, X_test, y_train, y_test = data
    model = LearnedKernelMetric(regression_weight=10.0, **settings).fit(X_train, y_train)
    voters = KNeighborsClassifier(5).fit(model.transform(X_train), y_train)
    return float(voters.score(model.transform(X_test), y_test))


def main() -> None:
    rows, figure = [], plt.figure(figsize=(13, 3.4), layout="constrained")
    for position, (name, (load, bandwidth)) in enumerate(SETS.items(), 1):
        X, y = load()
        splits = []
        for seed in range(SPLITS):
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
            scaler = StandardScaler().fit(X_train)
            splits.append((scaler.transform(X_train), scaler.transform(X_test), y_train, y_test))
        exact = 100 * np.mean([accuracy(data, bandwidth=bandwidth, solver="cg", random_state=0) for data in splits])
        ax = figure.add_subplot(1, len(SETS), position)
        ax.axhline(exact, color="black", linewidth=1, linestyle="--", label="exact")
        for choice, marker in zip(CHOICES, "os^", strict=True):
            scores = [
                [accuracy(data, bandwidth=bandwidth, n_landmarks=count, landmarks=choice, random_state=0) for data in splits]
                for count in COUNTS
            ]
            means = 100 * np.mean(scores, axis=1)
            ax.plot(COUNTS, means, marker=marker, markersize=4, label=choice)
            rows.append(
                {
                    "set": name,
                    "n": len(splits[0][0]),
                    "landmarks": choice,
                    **dict(zip(map(str, COUNTS), means.tolist(), strict=True)),
                }
                | {"exact": float(exact)}
            )
        ax.set(xscale="log", xlabel="landmarks", title=f"{name}, n = {len(splits[0][0])}")
        if position == 1:
            ax.set_ylabel("test accuracy in %")
            ax.legend()
    figure.savefig(Path(__file__).parents[1] / "docs" / "landmarks.png", dpi=120)
    publish("landmarks", rows)


if __name__ == "__main__":
    main()
