"""Does the paper's diagonal kernel converge, whatever its spreads?"""

import numpy as np
from measure import is_quick, publish, seconds
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

from outmetric import FixedKernelMetric


def main() -> None:
    rows = []
    for n in (500,) if is_quick() else (500, 2000):
        X, y = make_classification(n, 20, n_informative=8, n_classes=4, random_state=0)
        X = StandardScaler().fit_transform(X)
        middle = FixedKernelMetric().fit(X, y).bandwidth_
        for factor in (1.5, 3.0, 10.0):
            model = FixedKernelMetric(bandwidth=middle * factor ** np.array([-1.0, 0.0, 1.0]), solver="cg")
            tasks = {
                "shared": lambda X=X, y=y, middle=middle: FixedKernelMetric(bandwidth=middle).fit(X, y),
                "diagonal": lambda model=model, X=X, y=y: model.fit(X, y),
            }
            taken = seconds(tasks, repeats=3)
            rows.append(
                {
                    "n": n,
                    "factor": f"{factor:g}",
                    "seconds": taken["diagonal"],
                    "times the shared kernel": taken["diagonal"] / taken["shared"],
                    "rounds": model.n_iter_,
                    "cg iterations": sum(record.solver_iterations for record in model.history_),
                    "status": model.status_.name,
                }
            )
    publish("diagonal", rows)


if __name__ == "__main__":
    main()
