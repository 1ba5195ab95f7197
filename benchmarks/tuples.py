"""How well do metrics learned from some digits tell whether two images show the same one of the others?

Needs nothing but scikit-learn's digits. `python benchmarks/tuples.py --rows 200 --splits 2` is a quick look.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
from measure import publish
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from outmetric import FixedKernelMetric, LearnedKernelMetric
from outmetric.baselines.projections import sample_pairs
from outmetric.tuples import PairsITML, PairsKernelITML, QuadrupletsLMNN, TripletsKernelLMNN, TripletsLMNN

PAIRS = 1000  # of each kind, to learn from and to test with
NEAR, FAR = 3, 10


def pairs_of(labels: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    similar, dissimilar = sample_pairs(labels, PAIRS, rng)
    return np.concatenate([similar, dissimilar]), np.repeat([1, -1], [len(similar), len(dissimilar)])


def triplets_of(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Each row with its nearest rows of its class and of the others."""
    found = []
    for label in np.unique(labels):
        own, others = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        near = own[NearestNeighbors(n_neighbors=NEAR + 1).fit(X[own]).kneighbors(X[own], return_distance=False)[:, 1:]]
        far = others[NearestNeighbors(n_neighbors=FAR).fit(X[others]).kneighbors(X[own], return_distance=False)]
        found += [(a, b, c) for a, ones, rest in zip(own, near, far, strict=True) for b in ones for c in rest]
    return np.array(found)


def methods(X: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    pairs, alike = pairs_of(labels, rng)
    triplets = triplets_of(X, labels)
    quadruplets = np.hstack([pairs[alike > 0], pairs[alike < 0][: np.sum(alike > 0)]])
    return {
        "ITML, pairs": lambda: PairsITML(random_state=0).fit(X[pairs], alike),
        "KernelITML, pairs": lambda: PairsKernelITML(random_state=0).fit(X[pairs], alike),
        "LMNN, triplets": lambda: TripletsLMNN().fit(X[triplets]),
        "KernelLMNN, triplets": lambda: TripletsKernelLMNN().fit(X[triplets]),
        "LMNN, quadruplets": lambda: QuadrupletsLMNN().fit(X[quadruplets]),
        "model 1, labels": lambda: FixedKernelMetric(random_state=0).fit(X, labels),
        "model 2, labels": lambda: LearnedKernelMetric(random_state=0).fit(X, labels),
    }


def _lengths(pairs: np.ndarray) -> np.ndarray:
    return np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=450, help="to learn from")
    parser.add_argument("--splits", type=int, default=5, help="of the ten digits into five to learn from and five to test with")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    digits, labels = load_digits(return_X_y=True)
    digits = digits / 16
    areas: dict[str, list[list[float]]] = {}
    taken: dict[str, list[float]] = {}
    for split in range(options.splits):
        rng = np.random.default_rng(split)
        known = np.isin(labels, rng.permutation(10)[:5])
        rows, rest = np.split(rng.permutation(np.flatnonzero(known)), [options.rows])
        tests = [
            (digits[some][pairs], alike)
            for some in (np.flatnonzero(~known), rest)
            for pairs, alike in [pairs_of(labels[some], rng)]
        ]
        areas.setdefault("Euclidean", []).append([roc_auc_score(alike, -_lengths(pairs)) for pairs, alike in tests])
        for name, fit in methods(digits[rows], labels[rows], rng).items():
            began = time.perf_counter()
            model = fit()
            taken.setdefault(name, []).append(time.perf_counter() - began)
            areas.setdefault(name, []).append([roc_auc_score(alike, model.pair_score(pairs)) for pairs, alike in tests])
    publish(
        "tuples",
        [
            {
                "metric": name,
                "rows": options.rows,
                "AUC, new digits": f"{np.mean(found, axis=0)[0]:.3f}",
                "least": f"{np.min(found, axis=0)[0]:.3f}",
                "better than Euclidean": sum(one[0] > plain[0] for one, plain in zip(found, areas["Euclidean"], strict=True)),
                "AUC, new images of known digits": f"{np.mean(found, axis=0)[1]:.3f}",
                "seconds of a fit": statistics.mean(taken[name]) if name in taken else 0.0,
            }
            for name, found in areas.items()
        ],
    )


if __name__ == "__main__":
    main()
