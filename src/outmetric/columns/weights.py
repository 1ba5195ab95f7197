"""Features weighted by what they tell about the classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from outmetric.foundation import Array, exportable, row_of_numbers, storable


def _to_onnx(graph: Any, model: Any, variables: Sequence[Any]) -> str:
    return str(graph("Mul", graph.rows(variables), model.weights_.astype(np.float64)))


@exportable(_to_onnx, lambda model: len(model.weights_))
@storable("FeatureWeights", sample=row_of_numbers)
class FeatureWeights(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Multiply each feature by R2^power, where R2 is the share of its variance that the classes explain.

    Parameters
    ----------
    power : float
        0 leaves the features alone.

    Attributes
    ----------
    weights_ : array of shape (n_features,)
        Relative to the largest.
    """

    def __init__(self, power: float = 0.5) -> None:
        self.power = power

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the weights."""
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        labels = np.unique(column_or_1d(y), return_inverse=True)[1]
        sizes = np.bincount(labels)
        means = np.array([X[labels == label].mean(axis=0) for label in range(len(sizes))])
        between = sizes @ (means - X.mean(axis=0)) ** 2 / len(X)
        total = X.var(axis=0)
        explained = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
        largest = explained.max(initial=0.0)
        self.weights_ = (explained / largest) ** self.power if largest > 0 else np.ones_like(total)
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
