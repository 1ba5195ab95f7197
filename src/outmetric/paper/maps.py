"""The plane maps of the paper: kernel PCA and the two models, trained on the same few points, test points drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.metrics import silhouette_samples
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from outmetric.automatic import FOLDS
from outmetric.choosing import MetricSearchCV
from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric
from outmetric.foundation import Array
from outmetric.kernels import Scalar
from outmetric.paper import protocol
from outmetric.paper.protocol import Trial

VOTERS = 5
# Of the median distance: the spreads that are tried.
FACTORS = tuple(float(factor) for factor in np.geomspace(0.25, 4, 9))


@dataclass(frozen=True, eq=False)
class PlaneMap:
    """Training and test points in the plane, the accuracy of five neighbours there in per cent, and silhouettes of the classes."""

    name: str
    train: Array
    test: Array
    accuracy: float
    silhouettes: Array


def plane_maps(dataset: str, data_dir: Any = None) -> tuple[list[PlaneMap], Array, Array]:
    """(maps, training labels, test labels) for a tenth of the data; each kernel has the spread of the best neighbour vote."""
    trial = Trial(0, 0.1, dataset, "method1")
    data = protocol.split(*protocol.SETS[dataset](data_dir), trial)
    scaler = StandardScaler().fit(data.X_train)
    train, test = scaler.transform(data.X_train), scaler.transform(data.X_test)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=trial.split_seed)
    median = float(Scalar("rbf").resolve(train, np.random.default_rng(0)).settings["bandwidth"])
    pipeline = Pipeline([("map", KernelPCA(2, kernel="rbf", eigen_solver="dense")), ("vote", KNeighborsClassifier(VOTERS))])
    gammas = [float(0.5 / (factor * median) ** 2) for factor in FACTORS]
    models = {"KPCA": GridSearchCV(pipeline, {"map__gamma": gammas}, cv=folds).fit(train, data.y_train).best_estimator_[0]}
    # The diagonal kernel needs spreads that differ; the second component has twice the first one's.
    spreads = {
        "Method 1": (FixedKernelMetric(2, tol=1e-6), [[f"{f / 2**0.5:.4g}*median", f"{f * 2**0.5:.4g}*median"] for f in FACTORS]),
        "Method 2": (LearnedKernelMetric(2), [f"{f:.4g}*median" for f in FACTORS]),
    }
    for name, (metric, bandwidths) in spreads.items():
        grid = {"bandwidth": bandwidths, "regression_weight": [1.0, 10.0, 100.0]}
        search = MetricSearchCV(metric, grid, n_neighbors=VOTERS, scoring="accuracy", cv=folds)
        models[name] = search.fit(train, data.y_train).best_estimator_
    found = []
    for name, model in models.items():
        placed, new = np.asarray(model.transform(train)), np.asarray(model.transform(test))
        votes = KNeighborsClassifier(VOTERS).fit(placed, data.y_train)
        samples = silhouette_samples(new, data.y_test)
        silhouettes = np.array([samples[data.y_test == label].mean() for label in np.unique(data.y_test)])
        found.append(PlaneMap(name, placed, new, 100 * float(votes.score(new, data.y_test)), silhouettes))
    return found, data.y_train, data.y_test
