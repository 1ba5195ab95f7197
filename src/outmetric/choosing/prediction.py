"""What the best candidate of a search, once it was fitted on all data, maps, predicts, scores, and finds far or near."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.utils import RegressorTags
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import check_is_fitted, validate_data

from outmetric.choosing.novelty import Novelty
from outmetric.choosing.reasons import ReasonsMixin, explain
from outmetric.choosing.reasons import unnamed_rows as unnamed_rows
from outmetric.choosing.scores import is_multimetric, scorer_of, scoring_for, smoothed_votes
from outmetric.choosing.votes import counted_votes
from outmetric.columns import DateParts, TableError, as_learned, check_frame, content, without_na
from outmetric.estimators import Fact, Reasons, located, number, settings_text
from outmetric.foundation import Array
from outmetric.rows import is_dask, transform_lazily

Class = TypeVar("Class", bound=type)
# Maps that a summary tells of.
SHOWN = 5


class _AfterRefit:
    """A method that is there only with ``refit``, and for classes only if it is about them.

    scikit-learn's `available_if` would not say why it is not there.
    """

    def __init__(self, method: Callable[..., Any], *, classes_only: bool) -> None:
        self.method, self.classes_only = method, classes_only
        self.__doc__ = method.__doc__

    def __get__(self, search: Any, kind: type) -> Any:
        if search is None:
            return self.method
        if not search.refit:
            raise NotFittedError(
                f"this {kind.__name__} has no {self.method.__name__}, since refit=False; best_params_ tells what to fit."
            )
        if self.classes_only and search.learned_real_targets:
            raise AttributeError(f"this {kind.__name__} learned real targets, so it has no {self.method.__name__}; use predict.")
        return MethodType(self.method, search)


def _after_refit(*names: str, classes_only: bool = False) -> Callable[[Class], Class]:
    """Decorates classes, since TransformerMixin wraps `transform` when the class is made."""

    def hide(kind: Class) -> Class:
        for name in names:
            setattr(kind, name, _AfterRefit(getattr(kind, name), classes_only=classes_only))
        return kind

    return hide


@_after_refit("transform", "get_feature_names_out", "predict")
@_after_refit("predict_proba", "predict_log_proba", classes_only=True)
class BestCandidateMixin(ReasonsMixin, ClassifierMixin, TransformerMixin):
    """Asks ``best_estimator_`` for coordinates, and ``voters_`` for votes or averages among them."""

    scoring: Any
    refit: Any
    multimetric_: bool
    best_estimator_: Any
    voters_: Any
    n_neighbors_: int
    classes_: Array
    n_targets_: int

    @property
    def learned_real_targets(self) -> bool:
        """Whether the targets that came with `fit` were real, not classes."""
        return hasattr(self, "n_targets_")

    @property
    def asked_scoring(self) -> Any:
        """What ``scoring`` means for the targets that came; before, for classes."""
        return scoring_for(self.scoring, real=self.learned_real_targets)

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
        """The class with most votes, of several the first; for real targets the neighbours' average, of the form that y had."""
        if self.learned_real_targets:
            self.check_refitted()
            return np.asarray(self.voters_.predict(np.asarray(self.transform(X))))
        votes = self._votes(X)
        return np.asarray(self.classes_[votes.argmax(axis=1)])

    def _best_map(self) -> Any:
        self.check_refitted()
        return self.best_estimator_

    def _votes(self, X: Any) -> Array:
        self.check_refitted()
        return counted_votes(self.voters_, self.transform(X))

    @property
    def scorer_(self) -> Any:
        """scikit-learn's scorer, or scorers by name, or the function that was given."""
        check_is_fitted(self)
        scorer = scorer_of(self.asked_scoring)
        return scorer._scorers if is_multimetric(self.scoring) else scorer

    def score(self, X: Any, y: Any = None, **params: Any) -> float:
        """The score that ``scoring`` asks for, and of several that which ``refit`` names.

        Parameters
        ----------
        X : data that the estimator takes
        y : array of shape (n,) or (n, q)
            Class labels, or real targets.
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.learned_real_targets:
            tags.estimator_type = "regressor"
            tags.classifier_tags, tags.regressor_tags = None, RegressorTags()
            tags.target_tags.multi_output = True
        return tags

    def check_refitted(self) -> None:
        """Raise NotFittedError unless there is a model."""
        if hasattr(self, "cv_results_") and not hasattr(self, "best_estimator_"):
            raise NotFittedError("this MetricSearchCV has scores but no model: refit=False, or the search was interrupted.")
        check_is_fitted(self, "best_estimator_")


@dataclass(frozen=True, eq=False)
class PreparedMetric:
    """A learned metric on rows as they come, before they are encoded and scaled; independent of the model that learned it.

    Called on two rows it returns their distance. For many distances `coordinates` is faster by far.

    Parameters
    ----------
    pipeline : fitted Pipeline
        Its last step is the metric.
    """

    pipeline: Any

    def coordinates(self, X: Any) -> Array:
        """Points whose Euclidean distance is the learned distance."""
        with unnamed_rows():
            return np.asarray(self.pipeline.transform(as_learned(X, self.pipeline[0])))

    def distances(self, X: Any, Z: Any) -> Array:
        """The learned distance between row i of X and row i of Z, shape (n,)."""
        return np.asarray(np.linalg.norm(self.coordinates(X) - self.coordinates(Z), axis=1))

    def explain(self, X: Any, Z: Any) -> Reasons:
        """The squared learned distance of row i of X and row i of Z, attributed to their columns."""
        return explain(self.pipeline, X, Z)

    def __call__(self, x: Any, z: Any, squared: bool = False) -> float:
        """The distance between two rows (or its square); a row is a sequence of values, or a table of one row."""
        distance = float(self.distances(_one_row(x), _one_row(z))[0])
        return distance**2 if squared else distance


def _one_row(x: Any) -> Any:
    return x if hasattr(x, "columns") else np.asarray(x).reshape(1, -1)


class BestMapMixin(ReasonsMixin):
    """The maps of a committee, whatever it predicts: arrays and tables are checked, and the best map tells what is near."""

    committee_: list[Any]
    neighbours_: Any
    best_estimator_: Any
    novelty_: Novelty | None
    n_features_in_: int

    def transform(self, X: Any) -> Any:
        """Coordinates of the best map: Euclidean distance there is the learned metric. Lazily for Dask collections."""
        check_is_fitted(self)
        if is_dask(X):
            return transform_lazily(self.transform, X, self.best_estimator_[-1].coefficients_.shape[1])
        X = self.check_table(X, reset=False)
        with unnamed_rows():
            return np.asarray(self.best_estimator_.transform(X))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "committee_")

    def _best_map(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def _rows(self, X: Any) -> Any:
        return self.check_table(X, reset=False)

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """The nearest training rows in the best map, as scikit-learn's `KNeighborsClassifier.kneighbors` has them.

        Parameters
        ----------
        X : data, optional
            Without it the neighbours of each training row, itself not among them.
        n_neighbors : int, optional
            Default: 5.
        return_distance : bool

        Returns
        -------
        distances : array of shape (n, n_neighbors)
            Nearest first; only with ``return_distance``.
        rows : array of shape (n, n_neighbors)
            Numbers of training rows.
        """
        check_is_fitted(self)
        voters = getattr(self, "neighbours_", None) or self.committee_[0].voters  # models of version 0.1 have the latter only
        found = voters.kneighbors(None if X is None else self.transform(X), n_neighbors, return_distance)
        numbers = getattr(self, "sampled_rows_", None)  # which rows of a Dask collection they are
        if numbers is None:
            return found
        return (found[0], numbers[found[1]]) if return_distance else numbers[found]

    def pair_distance(self, pairs: Any) -> Array:
        """The learned distance, in the best map, of each pair of rows.

        Parameters
        ----------
        pairs : array of shape (n_pairs, 2, n_features)

        Returns
        -------
        array of shape (n_pairs,)
        """
        check_is_fitted(self)
        pairs = np.asarray(pairs)
        if pairs.ndim != 3 or pairs.shape[1:] != (2, self.n_features_in_):
            raise ValueError(f"pairs must have the shape (n_pairs, 2, {self.n_features_in_}); theirs is {pairs.shape}.")
        with unnamed_rows():
            points = self.transform(pairs.reshape(-1, self.n_features_in_))
        return np.asarray(np.linalg.norm(points[::2] - points[1::2], axis=1))

    def pair_score(self, pairs: Any) -> Array:
        """Minus `pair_distance`: the larger, the more similar."""
        return -self.pair_distance(pairs)

    def get_metric(self) -> PreparedMetric:
        """The metric of the best map as a function of two rows, independent of this estimator."""
        check_is_fitted(self)
        return PreparedMetric(self.best_estimator_)

    def novelty(self, X: Any) -> Array:
        """How far rows are from all training rows, from 0 to 1, shape (n,).

        The share of training rows whose own nearest neighbours, in a map that was learned without them, are nearer than those of
        the row: what is like the training data has values from all of 0 to 1, and 1 means further than any of them. Distances are
        looked at in the best map and among the scaled features before it (see `Novelty`).
        """
        check_is_fitted(self)
        if getattr(self, "novelty_", None) is None:
            raise ValueError(
                "this model does not know how far its training rows are from one another: it was saved by an earlier version, or "
                "they are too few. Fit it again, on more rows."
            )
        assert self.novelty_ is not None
        X = self.check_table(X, reset=False)
        with unnamed_rows():
            return self.novelty_.of(X, self.best_estimator_)

    def check_table(self, X: Any, *, reset: bool) -> Any:
        """Rows that can be learned from, or (without ``reset``) that the model can be asked about."""
        if hasattr(X, "to_frame") and len(X.shape) == 1:
            raise ValueError(
                f"X is a Series of {len(X)} values, and rows of a table were expected. One row of a table is X.iloc[[0]], with two "
                "brackets, and one column X[['name']]."
            )
        if hasattr(X, "columns") and hasattr(X, "dtypes"):
            with located(X):
                validate_data(self, X, reset=reset, skip_check_array=True)
            if reset and len(X) < 2:
                raise ValueError(f"at least 2 rows are needed; n_samples = {len(X)} came.")
            if not len(X):
                raise TableError("X has no rows; at least one is needed.")
            X = without_na(X) if reset else as_learned(without_na(X), self.best_estimator_[0])
            check_frame(X, learning=reset)
            return X
        takes_dates = reset or isinstance(self.best_estimator_[0], ColumnTransformer | DateParts)
        X, mixed = (X, False) if reset or not takes_dates else self._unnamed_table(X)
        dates = takes_dates and content(getattr(X, "dtype", None)) == "date"
        gaps = reset or "encode" in self.best_estimator_.named_steps
        try:
            with located(X):
                return validate_data(
                    self,
                    X,
                    reset=reset,
                    dtype=object if mixed else None if dates else np.float64,
                    ensure_all_finite="allow-nan" if gaps else True,
                    ensure_min_samples=2 if reset else 1,
                )
        except ValueError as error:
            if gaps or "contains NaN" not in str(error):
                raise
            raise ValueError(
                f"{error} The array that the model was fitted on had no missing values; to have them filled, fit on a DataFrame, "
                "or on an array that has some."
            ) from error

    def _unnamed_table(self, X: Any) -> tuple[Any, bool]:
        """Rows of a table without its names, and whether they hold more than numbers; gaps are NaN, as in a data frame."""
        rows = np.asarray(X)
        mixed = rows.dtype.kind in "OU"
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            return X, mixed  # what is wrong with that is told of all arrays
        rows = np.where([[value is None for value in row] for row in rows], np.nan, rows) if rows.dtype.kind == "O" else rows
        found = as_learned(rows, self.best_estimator_[0])
        return (found, True) if mixed or found is not rows else (X, False)


def committee_facts(scoring: str, members: Sequence[Any]) -> list[Fact]:
    """How well the best members of a committee did in cross-validation, and how much they have to say."""
    others = {name for member in members[:SHOWN] for name in member.candidate.scores}
    texts = []
    for member in members[:SHOWN]:
        chosen = member.candidate
        scores = "".join(f", {name} {number(value)}" for name, value in chosen.scores.items())
        votes = "" if chosen.n_neighbors is None else f", {chosen.n_neighbors} neighbours"
        texts.append(f"{number(chosen.score)}{scores}: {settings_text(chosen.description)}{votes}, weight {member.weight:.2f}")
    told = " and ".join([scoring, *sorted(others)])
    return [
        Fact("scores", f"{told} in cross-validation; of the best of many, so a little too good"),
        *(Fact(f"map {place}", text) for place, text in enumerate(texts, start=1)),
    ]
