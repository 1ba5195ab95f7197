"""Digits in the plane: principal components, NCA, supervised UMAP (where it is installed) and MetricMap.

Each picture shows where the rows are that the method learned from, and says how many rows that it has not seen are named right by
five neighbours there; below it the same with permuted labels, of which MetricMap shows that there is nothing to see.
"""

import argparse
import importlib.util

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric, MetricMap, plots

# Found once by MetricClassifier, which takes longer than the map.
DIGITS = LearnedKernelMetric(bandwidth="0.5*median", regression_weight=100.0)


def by_steps(step):
    """A way to place rows: scaled, by a transformer that may look at labels."""

    def places(X, X_new, y):
        steps = make_pipeline(StandardScaler(), step).fit(X, y)
        return steps.transform(X), steps.transform(X_new)

    return places


def by_umap(X, X_new, y):
    """Places of known and of new rows."""
    from umap import UMAP

    mapper = UMAP(random_state=0).fit(X, y=y)
    return mapper.embedding_, mapper.transform(X_new)


def by_metric_map(X, X_new, y):
    """The same, where known rows are placed out of fold."""
    found = MetricMap(DIGITS, random_state=0).fit(X, y)
    return found.embedding_, found.transform(X_new)


METHODS = {
    "principal components": by_steps(PCA(2)),
    "NCA": by_steps(NeighborhoodComponentsAnalysis(2, max_iter=50, random_state=0)),
    "UMAP, supervised": by_umap,
    "MetricMap": by_metric_map,
}


def main(arguments=None):
    """Draw, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=900)
    parser.add_argument("--picture", default="honest-map.png")
    given = parser.parse_args(arguments)
    X, y = load_digits(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X / 16, y, train_size=given.rows, stratify=y, random_state=0)
    permuted = np.random.default_rng(0).permutation(y)
    methods = {name: places for name, places in METHODS.items() if "UMAP" not in name or importlib.util.find_spec("umap")}
    figure, axes = plots.grid(2, len(methods), size=4.2)
    print("| method | held-out rows right | with permuted labels |\n|---|---|---|")
    for column, (name, places) in zip(axes.T, methods.items(), strict=True):
        shares = []
        for ax, labels, kind in zip(column, (y, permuted), ("", ", permuted labels"), strict=True):
            known, new = places(X, X_new, labels)
            shares.append(KNeighborsClassifier(5).fit(known, labels).score(new, y_new))
            plots.honest_map(known, labels, title=f"{name}{kind}: {shares[-1]:.1%} of new rows right", legend=False, ax=ax)
        print(f"| {name} | {shares[0]:.1%} | {shares[1]:.1%} |", flush=True)
    figure.savefig(given.picture, dpi=110)


if __name__ == "__main__":
    main()
