"""Makes metric_learn.json: what metric-learn 0.7.0 reaches on small problems.

    python3.11 -m venv side && side/bin/pip install 'metric-learn==0.7.0' 'scikit-learn==1.3.2' 'numpy==1.26.4' 'scipy==1.12.0'
    side/bin/python tests/reference/make_metric_learn.py

LMNN runs with two learning rates, its default and one that moves the metric, and the lower objective is kept. ITML gets the bounds
as squared distances, which is what it compares them with, and runs until its multipliers change by less than 1e-7.
"""

import json
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

DATA = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}


def data(name):
    X, y = DATA[name](return_X_y=True)
    X = StandardScaler().fit_transform(X[:500])
    return X + 1e-3 * np.sin(np.arange(X.size)).reshape(X.shape), y[:500]  # no two distances alike, so no choice of neighbours


def lmnn(X, y, n_neighbors):
    from metric_learn import LMNN

    reached = []
    for rate in (1e-7, 1e-3):
        model = LMNN(n_neighbors=n_neighbors, learn_rate=rate, max_iter=1000, convergence_tol=1e-3)
        evaluate = model._loss_grad

        def spy(*arguments, evaluate=evaluate):
            found = evaluate(*arguments)
            reached.append(float(found[1]))
            return found

        model._loss_grad = spy
        model.fit(X, y)
    return min(reached)


def itml(X, y, gamma):
    """Every point with three others, by a fixed rule."""
    from metric_learn import ITML

    n = len(X)
    first = np.repeat(np.arange(n), 3)
    second = (first + np.tile([1, n // 3, n // 2 + 1], n)) % n
    signs = np.where(y[first] == y[second], 1, -1)
    bounds = np.percentile(pdist(X, "sqeuclidean"), [5, 95])
    model = ITML(gamma=gamma, max_iter=200_000, tol=1e-7).fit(np.stack([X[first], X[second]], axis=1), signs, bounds=bounds.copy())
    A = model.get_mahalanobis_matrix()
    return {
        "gamma": gamma,
        "bounds": bounds.tolist(),
        "divergence": float(np.trace(A) - np.linalg.slogdet(A)[1] - len(A)),
        "matrix": A.round(10).tolist(),
    }


def main():
    found = {
        "lmnn": {name: {str(k): lmnn(*data(name), k) for k in (1, 3)} for name in DATA},
        "itml": {name: itml(*data(name), gamma) for name, gamma in (("iris", 1.0), ("wine", 0.1))},
    }
    Path(__file__).with_name("metric_learn.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
