"""What does it cost to explain 100 pairs, beside the fit?"""

import numpy as np
from measure import publish, seconds

from outmetric import LearnedKernelMetric
from outmetric.kernels import Forest

SAMPLES, FEATURES, PAIRS = 1000, 30, 100


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(SAMPLES, FEATURES))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int) + (X[:, 3] > 0.5)
    new = rng.normal(size=(2, PAIRS, FEATURES))
    rows = []
    for name, kernel, how in (
        ("rbf", "rbf", "integrated"),
        ("exponential", "exponential", "integrated"),
        ("additive", "additive", "closed form"),
        ("laplacian", "laplacian", "closed form"),
        ("forest, 200 trees", Forest(), "exchange"),
    ):
        model = LearnedKernelMetric(kernel=kernel, random_state=0).fit(X, y)
        taken = seconds(
            {
                "fit": lambda kernel=kernel: LearnedKernelMetric(kernel=kernel, random_state=0).fit(X, y),
                "explain": lambda model=model: model.explain(*new),
            },
            repeats=5,
        )
        reasons = model.explain(*new)
        wrong = np.abs(reasons.contributions.sum(axis=1) / reasons.squared_distances - 1).max()
        ratio = taken["explain"] / taken["fit"]
        rows.append({"kernel": name, "how": how, **taken, "ratio": ratio, "sums wrong by at most": float(wrong)})
    publish("explain", rows)


if __name__ == "__main__":
    main()
