"""Same or different? A threshold on the learned distance of two rows, chosen on pairs of which that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from types import FunctionType
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from outmetric.foundation import (
    Array,
    check_integer,
    described,
    generator,
    is_fitted,
    objects,
    sample_of,
    storable,
)
from outmetric.verification.distances import check_metric, pair_distances
from outmetric.verification.intervals import Estimate, estimate
from outmetric.verification.pairs import DIFFERENT, SAME, check_pair_identities, check_same
from outmetric.verification.probabilities import CALIBRATIONS, IsotonicProbability, LogisticProbability, learn_probability
from outmetric.verification.rates import OperatingPoints, check_rate, check_strategy, operating_points


def _check_stored(found: PairVerifier, size: int) -> None:
    _check_threshold(getattr(found, "threshold_", 0.0))
    if hasattr(found, "threshold_") and isinstance(found.metric, BaseEstimator) and not is_fitted(found.metric):
        raise ValueError("a verifier has a threshold for a metric that is not fitted")
    if hasattr(found, "threshold_"):
        try:
            check_metric(found.metric)
        except TypeError as error:
            raise ValueError(f"a verifier has no metric: {error}") from error
    if hasattr(found, "probability_") and not isinstance(found.probability_, IsotonicProbability | LogisticProbability):
        raise ValueError(f"a verifier has probabilities by a {type(found.probability_).__name__}")
    classes = getattr(found, "classes_", np.array([DIFFERENT, SAME]))
    if not isinstance(classes, np.ndarray) or not np.array_equal(classes, [DIFFERENT, SAME]):
        raise ValueError("a verifier tells other things apart than the same and different")


def _sample(found: PairVerifier, size: int) -> Any:
    """A pair; None if it cannot be made up."""
    row = np.zeros((1, 1)) if found.metric is None else sample_of(found.metric, size)
    if row is None or hasattr(row, "columns") or scipy.sparse.issparse(row) or np.asarray(row).dtype.names is not None:
        return None
    row = np.asarray(row)
    return objects([(row[0], row[0])]) if row.ndim == 1 else np.stack([row, row], axis=1)


def _used(found: PairVerifier, size: int) -> list[Any]:
    """Itself, or at least its metric."""
    if _sample(found, size) is not None:
        return [found]
    return [] if isinstance(found.metric, FunctionType) else [found.metric]


def _asks(found: PairVerifier) -> list[Callable[[Any], Any]]:
    asked: list[Callable[[Any], Any]] = [found.predict] if hasattr(found, "threshold_") else [found.pair_distance]
    return [*asked, found.predict_proba] if hasattr(found, "probability_") else asked


def _has_probabilities(verifier: PairVerifier) -> bool:
    """A threshold that was set says nothing of probabilities."""
    if hasattr(verifier, "threshold_") and not hasattr(verifier, "probability_"):
        raise AttributeError("the threshold was set, and probabilities are learned from pairs: use calibrate.")
    return True


@storable("PairVerifier", check=_check_stored, sample=_sample, used=_used, asks=_asks, holds_models=True)
class PairVerifier(ClassifierMixin, BaseEstimator):
    """Tells of two rows whether they are the same (a person, a product, a class) by their distance.

    Two rows are the same if their distance is at most a threshold, which `calibrate` chooses on pairs of which that is known. Take
    pairs of other identities than those that the metric was learned from (`split_identities`, `draw_pairs`): it knows the latter
    too well, and a threshold that suits them is too small for others.

    Parameters
    ----------
    metric : fitted metric, function of two points, or None
        A model of outmetric, a `MetricSearchCV`, `MetricClassifier`, LMNN or ITML, or any other object with `pair_distance`; a
        Pipeline that ends in one, or anything else with `transform`, whose Euclidean distances are taken; a function of two points,
        such as `get_metric` gives. None: pairs are given by coordinates, such as ``model.transform(table)[pairs]``, and their
        distance is Euclidean.
    calibration : "isotonic" or "logistic"
        How `predict_proba` makes probabilities of distances. Isotonic regression assumes only that they never rise with the
        distance; with fewer than some hundred pairs logistic regression (after Platt) is better.
    prior : float, optional
        The share of pairs that are the same where probabilities are used. Default: that of the pairs of `calibrate`, which is
        usually far too large if as many of both kinds were drawn.

    Attributes
    ----------
    threshold_ : float
        The distance up to which pairs are the same.
    probability_ : object whose ``of(distances)`` is P(same)
    classes_ : array [-1, 1]
        Different, same; as in metric-learn.

    Notes
    -----
    `sklearn.base.clone` keeps the fitted metric, as that of a `FrozenEstimator`, and forgets the threshold. So `cross_val_score`
    calibrates on some pairs and scores others; pairs of one identity may be among both.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from outmetric import LearnedKernelMetric
    >>> from outmetric.verification import PairVerifier, draw_pairs
    >>> X, y = load_digits(return_X_y=True)
    >>> learned, known, new = y < 4, (y >= 4) & (y < 7), y >= 7
    >>> metric = LearnedKernelMetric().fit(X[learned], y[learned])
    >>> pairs = draw_pairs(y[known], 2000, random_state=0)
    >>> verifier = PairVerifier(metric).calibrate(X[known][pairs.rows], pairs.y)
    >>> others = draw_pairs(y[new], 2000, random_state=0)
    >>> bool(verifier.score(X[new][others.rows], others.y) > 0.6)
    True
    """

    def __init__(self, metric: Any = None, *, calibration: str = "isotonic", prior: float | None = None) -> None:
        self.metric = metric
        self.calibration = calibration
        self.prior = prior

    def calibrate(
        self,
        pairs: Any,
        y: Any,
        *,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
        far: float | None = None,
    ) -> Self:
        """Choose the threshold, and learn what `predict_proba` gives.

        Parameters
        ----------
        pairs : array of shape (n_pairs, 2, d), or sequence of pairs of objects
        y : array of shape (n_pairs,)
            1 for the same, -1 or 0 for different; or truth values.
        strategy : "accuracy", "f_beta", "max_tpr", "max_tnr" or "far"
            What is best on these pairs: the share of right answers; F_beta; the most true positives (same pairs that are accepted)
            among thresholds with at least ``min_rate`` of true negatives (different pairs that are rejected); the most true
            negatives with at least ``min_rate`` of true positives. These are metric-learn's. Of several best thresholds it is the
            smallest, but for "max_tnr" that with the most true positives. "far": the largest threshold with a rate of false accepts
            of at most ``far``.
        min_rate : float, from 0 to 1
        beta : float
            How much more recall weighs than precision in F_beta.
        far : float, between 0 and 1
            The share of different pairs that may be accepted.

        Raises
        ------
        ValueError
            If pairs or y are not what they should be, only one kind of pairs came, or the strategy has not what it needs.

        Warns
        -----
        UserWarning
            If there are too few different pairs for ``far``: none of them is accepted then.

        Notes
        -----
        A threshold lies midway between the two distances that it separates, so that round-off does not decide; one that accepts
        no pair is negative.
        """
        check_strategy(strategy, min_rate=min_rate, beta=beta, far=far)
        if self.calibration not in CALIBRATIONS:
            raise ValueError(f"calibration must be one of {', '.join(map(repr, CALIBRATIONS))}, not {described(self.calibration)}.")
        if self.prior is not None:
            check_rate("prior", self.prior)
        distances, same = self._known(pairs, y)
        points = operating_points(distances, same)
        self.threshold_ = points.threshold(strategy, min_rate=min_rate, beta=beta, far=far)
        self.probability_ = learn_probability(self.calibration, distances, same, self.prior)
        self.classes_ = np.array([DIFFERENT, SAME])
        return self

    def fit(self, pairs: Any, y: Any) -> Self:
        """As `calibrate` with the strategy "accuracy", for cross-validation; the metric stays as it is."""
        return self.calibrate(pairs, y)

    def set_threshold(self, threshold: float) -> Self:
        """Take this threshold; what `predict_proba` gives stays as it is."""
        _check_threshold(threshold)
        self.threshold_ = float(threshold)
        self.classes_ = np.array([DIFFERENT, SAME])
        return self

    def pair_distance(self, pairs: Any) -> Array:
        """The distance of each pair, shape (n_pairs,)."""
        return pair_distances(self.metric, pairs)

    def pair_score(self, pairs: Any) -> Array:
        """Minus `pair_distance`: the larger, the more similar."""
        return -self.pair_distance(pairs)

    def decision_function(self, pairs: Any) -> Array:
        """The threshold minus the distance, shape (n_pairs,): the larger, the more surely the same, which it is from 0 on."""
        check_is_fitted(self)
        return np.asarray(self.threshold_ - self.pair_distance(pairs))

    def predict(self, pairs: Any) -> Array:
        """1 for pairs that are the same, -1 for different ones, shape (n_pairs,)."""
        return np.where(self.decision_function(pairs) >= 0, SAME, DIFFERENT)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, pairs: Any) -> Array:
        """P(different) and P(same), by the distance, shape (n_pairs, 2). The latter never rises with the distance."""
        check_is_fitted(self)
        same = self.probability_.of(self.pair_distance(pairs))
        return np.column_stack([1 - same, same])

    def operating_points(self, pairs: Any, y: Any) -> OperatingPoints:
        """The rates of true and false accepts at all thresholds, for curves."""
        return operating_points(*self._known(pairs, y))

    def score(self, pairs: Any, y: Any) -> float:
        """The area under the ROC curve, as in metric-learn: the probability that a same pair is nearer than a different one.

        Not the accuracy: which pairs were drawn, and how many of each kind, would decide that, and the threshold. This judges the
        distances. For accuracy use `sklearn.metrics.accuracy_score` on `predict`.
        """
        return self.operating_points(pairs, y).auc

    def equal_error_rate(
        self,
        pairs: Any,
        y: Any,
        identities: Any = None,
        *,
        n_bootstrap: int = 1000,
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> Estimate:
        """The rate of errors at the threshold at which as many same pairs are rejected as different ones are accepted.

        Parameters
        ----------
        pairs, y
            As for `calibrate`.
        identities : array of shape (n_pairs, 2), optional
            Of both members of each pair. With them, the confidence interval is that of a bootstrap over identities: pairs that
            share one err together, so a bootstrap over pairs would find far too short intervals. Those of few identities (below
            about 20) are too short nevertheless.
        n_bootstrap : int
        confidence : float
            Of the interval.
        random_state : int, RandomState or None

        Returns
        -------
        Estimate
            ``value``, ``low`` and ``high``; the latter are NaN without identities.
        """
        known = self._judged(pairs, y, identities, n_bootstrap, confidence)
        return estimate(lambda points: points.equal_error_rate, *known, n_bootstrap, confidence, generator(random_state))

    def rates_at(
        self,
        pairs: Any,
        y: Any,
        far: float | Sequence[float] = (0.01, 0.001),
        identities: Any = None,
        *,
        n_bootstrap: int = 1000,
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> Estimate:
        """The rates of true accepts at given rates of false accepts: the most that any threshold reaches with at most so many.

        Parameters
        ----------
        pairs, y
            As for `calibrate`.
        far : float or sequence of float, between 0 and 1
            Rates of false accepts.
        identities, n_bootstrap, confidence, random_state
            As for `equal_error_rate`.

        Returns
        -------
        Estimate
            ``value``, ``low`` and ``high``, each with one entry for each rate in ``far``.

        Warns
        -----
        UserWarning
            If there are too few different pairs for a rate.
        """
        rates = np.atleast_1d(np.asarray(far, dtype=object))
        for rate in rates:
            check_rate("far", rate)
        rates = rates.astype(np.float64)
        known = self._judged(pairs, y, identities, n_bootstrap, confidence)
        operating_points(*known[:2]).warn_if_few(float(rates.min()))
        return estimate(lambda points: points.true_accepts_at(rates), *known, n_bootstrap, confidence, generator(random_state))

    def _known(self, pairs: Any, y: Any) -> tuple[Array, Array]:
        """Distances, and which pairs are the same."""
        distances = self.pair_distance(pairs)
        return distances, check_same(y, len(distances))

    def _judged(self, pairs: Any, y: Any, identities: Any, n_bootstrap: Any, confidence: Any) -> tuple[Array, Array, Any]:
        check_integer("n_bootstrap", n_bootstrap)
        check_rate("confidence", confidence)
        distances, same = self._known(pairs, y)
        return distances, same, None if identities is None else check_pair_identities(identities, same)

    def __sklearn_clone__(self) -> PairVerifier:
        """A verifier that is not calibrated, of the same metric, which stays fitted."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "threshold_")


def _check_threshold(threshold: Any) -> None:
    if not isinstance(threshold, Real) or isinstance(threshold, bool) or not np.isfinite(float(threshold)):
        raise ValueError(f"the threshold must be a finite number, not {described(threshold)}.")
