"""What does an exact fit cost beside its kernel matrix and one eigendecomposition?"""

import scipy.linalg
from measure import is_quick, peak_arrays, publish, seconds
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel

from outmetric import FixedKernelMetric, LearnedKernelMetric


def main() -> None:
    rows = []
    for n in (500, 1000) if is_quick() else (500, 1000, 2000, 4000):
        X, y = make_classification(n, 20, n_informative=8, n_classes=4, random_state=0)
        models = {"model 1": FixedKernelMetric(), "model 2": LearnedKernelMetric()}
        gamma = 0.5 / models["model 2"].fit(X, y).bandwidth_ ** 2
        K = rbf_kernel(X, gamma=gamma)
        tasks = {
            "kernel": lambda X=X, gamma=gamma: rbf_kernel(X, gamma=gamma),
            "eigh": lambda K=K: scipy.linalg.eigh(K),
            **{name: lambda model=model, X=X, y=y: model.fit(X, y) for name, model in models.items()},
        }
        taken = seconds(tasks, repeats=3 if n > 2000 else 7)
        floor = taken["kernel"] + taken["eigh"]
        for name, model in models.items():
            rows.append(
                {
                    "n": n,
                    "fit": name,
                    "seconds": taken[name],
                    "floor": floor,
                    "ratio": taken[name] / floor,
                    "peak n x n arrays": peak_arrays(model, X, y),
                    "iterations": model.n_iter_,
                }
            )
    publish("fit", rows)


if __name__ == "__main__":
    main()
