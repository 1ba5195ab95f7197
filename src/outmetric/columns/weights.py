"""Features weighted by what they tell about the targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from outmetric.foundation import Array, check_features, exportable, row_of_numbers, storable
from outmetric.kernels import Forest


def _to_onnx(graph: Any, model: Any, variables: Sequence[Any]) -> str:
    return str(graph("Mul", graph.rows(variables), model.weights_.astype(np.float64)))


@exportable(_to_onnx, lambda model: len(model.weights_))
@storable("FeatureWeights", check=check_features, sample=row_of_numbers)
class FeatureWeights(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Multiply each feature by R2^power, where R2 is the share of its variance that the targets explain.

    Of classes it is the share of the variance between their means; of real targets that of the best linear function of them. That
    looks at features one by one; a forest also finds those that matter together only.

    Parameters
    ----------
    power : float
        0 leaves the features alone.
    forest : kernels.Forest, optional
        Whose importances take the place of R2.
    random_state : int, RandomState or None
        For the forest.

    Attributes
    ----------
    weights_ : array of shape (n_features,)
        Relative to the largest.
    """

    # Those of version 0.1 have none.
    forest: Forest | None = None
    random_state: Any = None

    def __init__(self, power: float = 0.5, forest: Forest | None = None, random_state: Any = None) -> None:
        self.power = power
        self.forest = forest
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the weights."""
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        if self.forest is None:
            total = X.var(axis=0)
            shares = np.divide(_explained(X, np.asarray(y)), total, out=np.zeros_like(total), where=total > 0)
        elif isinstance(self.forest, Forest) and self.forest.forest is None:
            rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
            shares = self.forest.learned(X, rng, y).feature_importances_
        else:
            raise ValueError(f"forest is a kernels.Forest that learns, Forest(n_estimators=40) say, or None, not {self.forest!r}.")
        self.weights_ = weights_of(shares, self.power)
        return self

    def transform(self, X: Any) -> Array:
        """The weighted features."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return np.asarray(X * self.weights_.astype(X.dtype))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def weights_of(shares: Array, power: float) -> Array:
    """Powers of shares, relative to the largest; 1 if all are 0."""
    largest = shares.max(initial=0.0)
    return (shares / largest) ** power if largest > 0 else np.ones_like(shares)


def _explained(X: Array, y: Array) -> Array:
    """The variance of each feature that targets explain: classes (n,), or real targets (n, q)."""
    if y.ndim == 2 or type_of_target(y) == "continuous":
        centred = y.reshape(len(y), -1) - y.reshape(len(y), -1).mean(axis=0)
        basis = np.linalg.svd(centred, full_matrices=False)[0][:, : np.linalg.matrix_rank(centred)]
        return np.asarray(np.sum((basis.T @ (X - X.mean(axis=0))) ** 2, axis=0) / len(X))
    labels = np.unique(column_or_1d(y), return_inverse=True)[1]
    sizes = np.bincount(labels)
    means = np.array([X[labels == label].mean(axis=0) for label in range(len(sizes))])
    return np.asarray(sizes @ (means - X.mean(axis=0)) ** 2 / len(X))
