"""The regressor that needs no settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsRegressor

from outmetric.automatic.base import AutomaticMetric
from outmetric.automatic.goals import RealGoal
from outmetric.automatic.members import check_committee, questions_to_committee, readers_of_maps, sample_of_committee, share_to_onnx
from outmetric.automatic.selection import Criterion, by_scorer
from outmetric.choosing import PredictedValues
from outmetric.estimators import check_real_targets
from outmetric.foundation import Array, check_integer, check_number, exportable_votes, storable


def _check_stored(found: MetricRegressor, size: int) -> None:
    if not hasattr(found, "committee_"):
        return
    check_committee(found)
    check_integer("n_targets_", found.n_targets_)
    for member in found.committee_:
        if member.temperature is not None or not isinstance(member.voters, KNeighborsRegressor | None):
            raise ValueError("a committee for real targets has a member that names classes")
    errors = found.out_of_fold_errors_
    if errors.shape[1:] != (found.n_targets_,) or not len(errors) or not np.isfinite(errors).all():
        raise ValueError("out-of-fold errors are numbers, a column for each target")


@storable("MetricRegressor", check=_check_stored, sample=sample_of_committee, asks=questions_to_committee, transient=["_search"])
@exportable_votes(readers_of_maps, share_to_onnx, own_preparations=True)
class MetricRegressor(RegressorMixin, AutomaticMetric):
    """A regressor in learned metrics that chooses all its settings itself: the twin of `MetricClassifier` for real targets.

    By out-of-fold predictions it compares scalings, kernels, feature weights, learned input metrics, bandwidths and regression
    weights, and whether targets are read off the map itself or averaged over neighbours. Those that predict best together are
    selected (`outmetric.automatic.selection`) and fitted on all rows.

    Parameters
    ----------
    scoring : str or callable
        What the committee is chosen by: a name or scorer of scikit-learn, such as "neg_mean_absolute_error". Default: the squared
        error, each target in units of its deviation.
    unlabeled : None, "graph" or "ignore"
        What becomes of rows whose targets are NaN; see `MetricClassifier`.
    time_budget, random_state, n_jobs, verbose : as for `MetricClassifier`

    Attributes
    ----------
    candidates_, committee_, best_estimator_, left_out_, novelty_ : as for `MetricClassifier`
    best_score_ : float
        Of the best map: minus its out-of-fold squared error, in units of the targets' variances.
    out_of_fold_errors_ : array of shape (n, q)
        Target minus prediction, by maps that were fitted without the row, of the rows that settings were compared on.
    n_targets_ : int
    has_columns_ : bool
        Whether targets came as columns, and so are predicted.

    Examples
    --------
    >>> from outmetric import MetricRegressor
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(150, random_state=0)
    >>> model = MetricRegressor(time_budget=2, random_state=0).fit(X[:100], y[:100])
    >>> model.score(X[100:], y[100:]) > 0.6
    True
    >>> low, high = model.predict_interval(X[100:], coverage=0.9).T
    """

    _kind = "a regressor, by learned maps and averages of neighbours in them"
    _loss_name = "minus squared error in units of the variance"

    def __init__(
        self,
        *,
        scoring: Any = "neg_mean_squared_error",
        unlabeled: Literal["graph", "ignore"] | None = None,
        time_budget: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | Callable[[int, int, str], object] = False,
    ) -> None:
        self.scoring = scoring
        self.unlabeled = unlabeled
        self.time_budget = time_budget
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_targets(self, y: Any) -> Array:
        self.has_columns_ = np.asarray(y).ndim == 2
        return check_real_targets(self, y)

    def _goal(self, y: Array, weights: Array | None) -> RealGoal:
        self.n_targets_ = y.shape[1]
        return RealGoal.make(y, weights)

    def _weights(self, goal: RealGoal, predictions: list[Array], rng: np.random.Generator) -> Array:
        if isinstance(self.scoring, str) and self.scoring in ("neg_mean_squared_error", "r2"):
            return Criterion(goal.essence, goal.loss_of_essence).weights(predictions, rng)
        ask = partial(self._ask, goal)
        return by_scorer(ask, lambda rows: True, goal.as_often_as_counted).weights(predictions, rng)

    def _ask(self, goal: RealGoal, predictions: Array, rows: Array) -> float:
        """The score that ``scoring`` gives to predictions for some rows."""
        scorer = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        return float(scorer(PredictedValues(predictions), np.empty((len(rows), 1)), goal.values[rows]))

    def _score_one_prediction(self, goal: RealGoal) -> None:
        self._ask(goal, np.broadcast_to(goal.centre, goal.values.shape), np.arange(goal.n_rows))

    def _learn_from(self, goal: RealGoal, predictions: Array) -> None:
        self.out_of_fold_errors_ = goal.values - predictions

    def predict(self, X: Any) -> Any:
        """The committee's mean, of shape (n,), or (n, q) if the targets had columns."""
        return self._shaped(self.mean_prediction(X))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Intervals that hold the target with this probability, shape (n, 2): lower and upper ends; (n, q, 2) for several.

        The half width is the quantile of the out-of-fold errors' sizes (with the correction for their number), so that rows that
        are drawn like the training rows are covered as often as asked for (out-of-fold conformal prediction; Barber et al. 2021).
        Each row counts once, whatever its weight.

        Parameters
        ----------
        X : data
        coverage : float
            Above 0 and below 1.
        """
        check_number("coverage", coverage, positive=True)
        if coverage >= 1:
            raise ValueError(f"coverage must be below 1, not {coverage}: no finite interval is certain to hold the target.")
        centre = self.mean_prediction(X)
        half = conformal_quantile(np.abs(self.out_of_fold_errors_), coverage)
        found = np.stack([centre - half, centre + half], axis=-1)
        return found if self.has_columns_ else found[:, 0]

    def _shaped(self, values: Any) -> Any:
        return values if self.has_columns_ else values[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def conformal_quantile(sizes: Array, coverage: float) -> Array:
    """Of errors' sizes (n, q), that which ceil((n + 1) coverage) of n + 1 exchangeable ones do not exceed; infinite for few."""
    n = len(sizes)
    place = int(np.ceil((n + 1) * coverage)) - 1
    return np.asarray(np.sort(sizes, axis=0)[place] if place < n else np.full(sizes.shape[1], np.inf))
