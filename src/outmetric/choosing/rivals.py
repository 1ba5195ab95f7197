"""What people use otherwise, tuned by cross-validation: Euclidean neighbours, NCA, an RBF-SVM, and a random forest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from outmetric.foundation import Array

FOLDS = 5
# Neighbours that vote, for all methods that end in a vote.
NEIGHBOURS = (1, 3, 5, 9, 15)
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Rival:
    """A classifier: its name, and ``build(n_classes, folds, seed)``, which makes it, tuning and scaling included."""

    label: str
    build: Callable[[int, StratifiedKFold, int], Any]


def _by_grid(steps: Sequence[tuple[str, Any]], grid: Grid, folds: StratifiedKFold) -> Any:
    pipeline = Pipeline([("scale", StandardScaler()), *steps])
    return GridSearchCV(pipeline, {name: list(values) for name, values in grid.items()}, cv=folds, scoring="accuracy")


def euclidean(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """Euclidean nearest neighbours."""
    return _by_grid([("vote", KNeighborsClassifier())], {"vote__n_neighbors": NEIGHBOURS}, folds)


def nca(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """Nearest neighbours after neighbourhood components analysis."""
    steps = [("metric", NeighborhoodComponentsAnalysis(random_state=seed, max_iter=30)), ("vote", KNeighborsClassifier())]
    return _by_grid(steps, {"metric__n_components": (2, None), "vote__n_neighbors": NEIGHBOURS}, folds)


def svm(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """A support vector machine with a Gaussian kernel."""
    # "scale" is one over the number of features, for scaled data.
    return _by_grid([("svm", _ScaledSVC())], {"svm__C": (0.1, 1.0, 10.0, 100.0, 1000.0), "svm__width": (0.1, 0.3, 1.0, 3.0)}, folds)


class _ScaledSVC(SVC):
    """An RBF-SVM whose gamma is ``width`` over the number of features."""

    def __init__(self, C: float = 1.0, width: float = 1.0) -> None:
        super().__init__(C=C)
        self.width = width

    def fit(self, X: Array, y: Array) -> Any:
        self.gamma = self.width / X.shape[1]
        return super().fit(X, y)


def forest(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """A random forest, which needs no tuning."""
    return RandomForestClassifier(500, random_state=seed)


RIVALS: Mapping[str, Rival] = {
    "knn": Rival("Euclidean k-NN", euclidean),
    "nca": Rival("NCA", nca),
    "svm": Rival("RBF-SVM", svm),
    "forest": Rival("random forest", forest),
}
