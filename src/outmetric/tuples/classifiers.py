"""Fitted metrics as classifiers of tuples: are two points similar, is one pair nearer than another?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from outmetric.estimators import Fact, MetricTransformer, coordinates_of_tuples, data, number
from outmetric.foundation import Array, storable
from outmetric.verification import PUBLISHED, best_threshold, check_strategy


class TupleClassifier(ClassifierMixin, MetricTransformer):
    """A metric that answers 1 or -1 for each tuple of ``_size`` points, or of as many row numbers if it has a preprocessor."""

    classes_ = np.array([-1, 1])
    _size: int

    @property
    def _baseline(self) -> Any:
        """Itself as the baseline that it is beside this class, with a method that learns from tuples."""
        return self

    @abstractmethod
    def decision_function(self, tuples: Any) -> Array:
        """Positive, or large, where the answer is 1."""

    def _facts(self) -> list[Fact]:
        features = getattr(self, "n_features_in_", None)
        return [Fact("learned from", data(self.n_samples_fit_, features, ())), *super()._facts()[1:]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.classifier_tags.multi_class = False
        return tags


def questions(found: TupleClassifier) -> list[Callable[[Any], Any]]:
    """What one that was read from a file is asked about a row."""
    return [found.transform, partial(_decision, found)]


def _decision(found: TupleClassifier, row: Any) -> Array:
    """That for the tuple of this row with itself; of row numbers, which a preprocessor would want, none are known."""
    if scipy.sparse.issparse(row) or getattr(found, "preprocessor", None) is not None:
        return np.zeros(1)
    return found.decision_function([[row[0]] * found._size])


def _check_threshold(found: PairsClassifier, size: int) -> None:
    threshold = getattr(found, "threshold_", 0.0)
    if not isinstance(threshold, float) or not np.isfinite(threshold):
        raise ValueError(f"{type(found).__name__} has a threshold that is {threshold!r:.100}")


@storable(check=_check_threshold)
class PairsClassifier(TupleClassifier):
    """Calls pairs similar (1) up to a distance of ``threshold_``, and dissimilar (-1) beyond."""

    threshold_: float
    _size = 2

    def fit(self, pairs: Any, y: Any, calibration_params: Mapping[str, Any] | None = None) -> Self:
        """Learn the metric from pairs, and the threshold that is best for them.

        Parameters
        ----------
        pairs : array of shape (n_pairs, 2, d), sequence of pairs of objects, or array of shape (n_pairs, 2)
            Pairs of points; or of row numbers, with a preprocessor.
        y : array of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        calibration_params : dict, optional
            ``strategy``, ``min_rate`` and ``beta`` for `calibrate_threshold`.

        Returns
        -------
        self
        """
        calibration = _checked({} if calibration_params is None else calibration_params)
        self.fit_pairs(pairs, y)
        self.threshold_ = best_threshold(self.pair_distance(pairs), np.asarray(y) > 0, **calibration)
        return self

    def fit_pairs(self, pairs: Any, y: Any, X: Any = None) -> Self:
        """Learn the metric alone, as the baseline's `fit_pairs`: there is no threshold then, until one is set or calibrated."""
        self.__dict__.pop("threshold_", None)
        learner: Any = super()
        learner.fit_pairs(pairs, y, X)
        return self

    def decision_function(self, pairs: Any) -> Array:
        """Minus the distance of each pair: the larger, the more similar."""
        return self.pair_score(pairs)

    def predict(self, pairs: Any) -> Array:
        """1 for pairs that are no further apart than ``threshold_``, -1 for others."""
        check_is_fitted(self)
        if not hasattr(self, "threshold_"):
            raise AttributeError(f"{type(self).__name__} has no threshold yet: call fit, calibrate_threshold or set_threshold.")
        return np.where(self.pair_distance(pairs) <= self.threshold_, 1, -1)

    def score(self, pairs: Any, y: Any) -> float:
        """The area under the ROC curve of `decision_function`, which does not depend on the threshold."""
        return float(roc_auc_score(_is_similar(y), self.decision_function(pairs)))

    def set_threshold(self, threshold: float) -> Self:
        """Call pairs similar up to this distance."""
        check_is_fitted(self)
        if not isinstance(threshold, Real) or not np.isfinite(threshold):
            raise ValueError(f"threshold must be a real number, a distance; it is {threshold!r}.")
        self.threshold_ = float(threshold)
        return self

    def calibrate_threshold(
        self, pairs_valid: Any, y_valid: Any, strategy: str = "accuracy", min_rate: float | None = None, beta: float = 1.0
    ) -> Self:
        """Choose the threshold that is best for these pairs.

        Parameters
        ----------
        pairs_valid, y_valid
            Pairs, and 1 or -1 for each, as for `fit`; best ones that the metric was not learned from.
        strategy : "accuracy", "f_beta", "max_tpr" or "max_tnr"
            What is as large as possible: the share of right answers; the F score; the share of similar pairs that are called so,
            while at least ``min_rate`` of the dissimilar ones are; or the share of dissimilar ones, while at least ``min_rate`` of
            the similar ones are.
        min_rate : float
            For "max_tpr" and "max_tnr", from 0 to 1; with the others it is left out.
        beta : float
            Weight of recall in the F score, not negative.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        calibration = _checked({"strategy": strategy, "min_rate": min_rate, "beta": beta})
        distances, similar = self.pair_distance(pairs_valid), _is_similar(y_valid)
        if similar.shape != distances.shape:
            raise ValueError(f"pairs must have one y each: {len(distances)} pairs came, and y of the shape {similar.shape}.")
        self.threshold_ = best_threshold(distances, similar, **calibration)
        return self

    def _outcome(self) -> list[Fact]:
        known = hasattr(self, "threshold_")
        return [*super()._outcome(), *([Fact("threshold", f"similar up to {number(self.threshold_)}")] if known else [])]


def _checked(calibration: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of `calibrate_threshold`."""
    unknown = sorted(map(str, calibration.keys() - {"strategy", "min_rate", "beta"}))
    if unknown:
        raise ValueError(f"calibration_params has {', '.join(unknown)}, and may have strategy, min_rate and beta.")
    found = {"strategy": "accuracy", **calibration}
    check_strategy(**found, known=PUBLISHED)
    return found


def _is_similar(y: Any) -> Array:
    signs = np.asarray(y)
    if not np.isin(signs, [1, -1]).all():
        raise ValueError(f"y must be 1 for similar pairs and -1 for dissimilar ones; it holds {np.unique(signs)[:5].tolist()}.")
    return signs > 0


class ComparisonClassifier(TupleClassifier):
    """Says whether the near pair of a tuple is nearer (1) than its far pair, or not (-1)."""

    _near: tuple[int, int]
    _far: tuple[int, int]

    @abstractmethod
    def fit(self, tuples: Any, y: Any = None) -> Self:
        """Learn the metric."""

    def decision_function(self, tuples: Any) -> Array:
        """The distance of the far pair of each tuple minus that of its near pair."""
        coordinates = coordinates_of_tuples(self, tuples, self._size)
        (a, b), (c, e) = self._near, self._far
        far = np.linalg.norm(coordinates[:, c] - coordinates[:, e], axis=1)
        return np.asarray(far - np.linalg.norm(coordinates[:, a] - coordinates[:, b], axis=1))

    def predict(self, tuples: Any) -> Array:
        """1 for tuples whose near pair is nearer, -1 for others, those with equal distances among them."""
        return np.where(self.decision_function(tuples) > 0, 1, -1)

    def score(self, tuples: Any, y: Any = None) -> float:
        """The share of tuples whose near pair is nearer; ``y`` is not looked at."""
        return float(np.mean(self.predict(tuples) == 1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


class TripletsClassifier(ComparisonClassifier):
    """Of triplets (anchor, near, far)."""

    _size, _near, _far = 3, (0, 1), (0, 2)

    def fit(self, triplets: Any, y: Any = None) -> Self:
        """Learn the metric from triplets, each of which says that its first point is nearer to the second than to the third.

        Parameters
        ----------
        triplets : array of shape (n_triplets, 3, d), sequence of triplets of objects, or array of shape (n_triplets, 3)
            Triplets of points; or of row numbers, with a preprocessor.
        y : not used

        Returns
        -------
        self
        """
        self._baseline.fit_triplets(triplets)
        return self


class QuadrupletsClassifier(ComparisonClassifier):
    """Of quadruplets, whose first two points are to be nearer than the last two."""

    _size, _near, _far = 4, (0, 1), (2, 3)

    def fit(self, quadruplets: Any, y: Any = None) -> Self:
        """Learn the metric from quadruplets, each of which says that its first two points are nearer than its last two.

        Parameters
        ----------
        quadruplets : array of shape (n_quadruplets, 4, d), sequence of quadruplets of objects, or array of shape (n_quadruplets, 4)
            Quadruplets of points; or of row numbers, with a preprocessor.
        y : not used

        Returns
        -------
        self
        """
        self._baseline.fit_quadruplets(quadruplets)
        return self
