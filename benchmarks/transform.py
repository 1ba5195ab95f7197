"""What does mapping new points cost beside the plain formula?"""

from measure import is_quick, publish, seconds
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel

from outmetric import FixedKernelMetric, LearnedKernelMetric


def main() -> None:
    rows = []
    for n, d in ((500, 20), (2000, 20), (2000, 100))[: 1 if is_quick() else 3]:
        X, y = make_classification(n + 10_000, d, n_informative=8, n_classes=4, random_state=0)
        train, new = X[:n], X[n:]
        models = {"model 1": FixedKernelMetric().fit(train, y[:n]), "model 2": LearnedKernelMetric().fit(train, y[:n])}
        C = models["model 1"].coefficients_
        gamma = 0.5 / models["model 1"].bandwidth_ ** 2
        tasks = {"plain": lambda new=new, train=train, gamma=gamma, C=C: rbf_kernel(new, train, gamma=gamma) @ C}
        tasks |= {name: lambda model=model, new=new: model.transform(new) for name, model in models.items()}
        taken = seconds(tasks)
        rows += [
            {
                "n": n,
                "features": d,
                "transform": name,
                "seconds": taken[name],
                "plain": taken["plain"],
                "ratio": taken[name] / taken["plain"],
            }
            for name in models
        ]
    publish("transform", rows)


if __name__ == "__main__":
    main()
