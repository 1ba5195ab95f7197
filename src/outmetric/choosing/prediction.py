"""What the best candidate of a search maps, predicts and scores, once it was fitted on all data."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import check_is_fitted

from outmetric.choosing.votes import counted_votes, is_multimetric, scorer_of, smoothed_votes
from outmetric.foundation import Array

Class = TypeVar("Class", bound=type)


class _AfterRefit:
    """A method that is there only with ``refit``; scikit-learn's `available_if` would not say why it is not."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, search: Any, kind: type) -> Any:
        if search is None:
            return self.method
        if not search.refit:
            raise NotFittedError(
                f"this {kind.__name__} has no {self.method.__name__}, since refit=False; best_params_ tells what to fit."
            )
        return MethodType(self.method, search)


def _after_refit(*names: str) -> Callable[[Class], Class]:
    """Decorates classes, since TransformerMixin wraps `transform` when the class is made."""

    def hide(kind: Class) -> Class:
        for name in names:
            setattr(kind, name, _AfterRefit(getattr(kind, name)))
        return kind

    return hide


@_after_refit("transform", "get_feature_names_out", "predict_proba", "predict_log_proba", "predict")
class BestCandidateMixin(ClassifierMixin, TransformerMixin):
    """Asks ``best_estimator_`` for coordinates, and ``voters_`` for votes among them."""

    scoring: Any
    refit: Any
    multimetric_: bool
    best_estimator_: Any
    voters_: Any
    n_neighbors_: int
    classes_: Array

    def transform(self, X: Any) -> Any:
        """The best estimator's coordinates."""
        self.check_refitted()
        return self.best_estimator_.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The best estimator's names of its coordinates."""
        self.check_refitted()
        return self.best_estimator_.get_feature_names_out(input_features)

    def predict_proba(self, X: Any) -> Array:
        """Smoothed votes of the neighbours, (votes + 1/2) / (n_neighbors + classes/2), shape (n, classes)."""
        return smoothed_votes(self._votes(X), self.n_neighbors_)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> Array:
        """The class with most votes; of several the first."""
        votes = self._votes(X)
        return np.asarray(self.classes_[votes.argmax(axis=1)])

    def _votes(self, X: Any) -> Array:
        self.check_refitted()
        return counted_votes(self.voters_, self.transform(X))

    @property
    def scorer_(self) -> Any:
        """scikit-learn's scorer, or scorers by name, or the function that was given."""
        check_is_fitted(self)
        scorer = scorer_of(self.scoring)
        return scorer._scorers if is_multimetric(self.scoring) else scorer

    def score(self, X: Any, y: Any = None, **params: Any) -> float:
        """The score that ``scoring`` asks for, and of several that which ``refit`` names.

        Parameters
        ----------
        X : data that the estimator takes
        y : array of shape (n,)
            Class labels.
        **params : further arguments of the scorer, ``sample_weight`` for example
            Those that it requests, if scikit-learn routes metadata.
        """
        self.check_refitted()
        if get_config()["enable_metadata_routing"]:
            params = process_routing(self, "score", **params).scorer.score
        several = getattr(self, "multimetric_", False)
        if several and callable(self.refit):
            raise ValueError("score takes one metric: refit is a function, so none of several is named; ask scorer_ for one.")
        scorer = self.scorer_
        if isinstance(scorer, dict):
            return float(scorer[self.refit](self, X, y, **params))
        found = scorer(self, X, y, **params)
        return float(found[self.refit] if several else found)

    def check_refitted(self) -> None:
        """Raise NotFittedError unless there is a model."""
        if hasattr(self, "cv_results_") and not hasattr(self, "best_estimator_"):
            raise NotFittedError("this MetricSearchCV has scores but no model: refit=False, or the search was interrupted.")
        check_is_fitted(self, "best_estimator_")
