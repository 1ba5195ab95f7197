"""The classifier that needs no settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin

from outmetric.automatic.base import AutomaticMetric
from outmetric.automatic.goals import ClassGoal
from outmetric.automatic.members import check_committee, questions_to_committee, readers_of_maps, sample_of_committee, share_to_onnx
from outmetric.automatic.selection import Criterion, by_scorer, combine
from outmetric.choosing import CountedVotes, check_voters, scorer_of
from outmetric.estimators import check_labels
from outmetric.foundation import Array, combined_weights, exportable_votes, storable
from outmetric.rows import is_dask

# How many times the logarithms of the classes' frequencies are taken off before the most probable class is named.
DISCOUNTS = (0.0, 0.25, 0.5, 0.75, 1.0)


def _check_stored(found: MetricClassifier, size: int) -> None:
    if not hasattr(found, "committee_"):
        return
    check_committee(found)
    for member in found.committee_:
        if member.voters is not None:
            check_voters(member.voters, found.classes_)
        elif member.temperature is None:
            raise ValueError("a committee for classes has a member that predicts numbers")
    if np.shape(getattr(found, "class_offsets_", np.zeros(len(found.classes_)))) != (len(found.classes_),):
        raise ValueError("a committee has offsets for other classes")


@storable("MetricClassifier", check=_check_stored, sample=sample_of_committee, asks=questions_to_committee, transient=["_search"])
@exportable_votes(readers_of_maps, share_to_onnx, own_preparations=True)
class MetricClassifier(ClassifierMixin, AutomaticMetric):
    """A classifier in learned metrics that chooses all its settings itself.

    By out-of-fold predictions it compares how features are scaled (standard, or by quantiles), kernels (l1 and l2 Laplacians,
    Gaussian, additive, random and extremely random forests), feature weights, learned input metrics (of the features, or of all
    directions), bandwidths and regression weights, and whether classes are read off the distances to their prototypes or by votes
    of neighbours. Those that predict best together are selected (`outmetric.automatic.selection`) and fitted on all rows, exactly
    up to 10,000 of them, beyond with as many landmarks as validation rewards.

    Tables may have numeric and categorical columns (anything that is neither a number nor a date: encoded one-hot, a missing value
    and categories unknown at training time count as "none of these"), dates (their parts that vary, see
    `outmetric.columns.DateParts`; also texts such as "2024-02-29 12:30"), and missing numbers and dates (replaced by the median,
    with a column that says so). An array holds numbers, or dates (datetime64).

    Parameters
    ----------
    scoring : str or callable
        What the committee is chosen by: a name or scorer of scikit-learn. "neg_log_loss" (default) gives good probabilities, and
        with few samples better classes than "accuracy". For rare classes: "balanced_accuracy", "roc_auc", "average_precision";
        where the score depends on the classes that are named, these are named as it rewards, while probabilities stay honest.
    class_weight : None, "balanced" or dict
        How often the rows of each class count, beside ``sample_weight`` of `fit`; "balanced": all classes as much as one another.
        Probabilities are then those of such data.
    unlabeled : None, "graph" or "ignore"
        What becomes of rows whose label is missing (-1 among whole numbers, None or NaN among words). None: -1 is a class, and what
        is missing an error. "ignore": they are left out. "graph": maps that are smooth along the neighbour graph of all rows are
        compared with the others, and used if they predict better; `summary` tells.
    time_budget : float, optional
        Seconds that `fit` may take as a whole. It is kept by comparing fewer settings, and by fitting fewer maps, with landmarks;
        ``left_out_`` tells. There is always a model; if even the smallest takes longer, a warning says so. Default: all that is
        described above.
    random_state : int, RandomState or None
        For folds, landmarks and forests.
    n_jobs : int, optional
        Through joblib; the result does not depend on it.
    verbose : bool or function
        Tell on stderr what is being done; or call ``function(done, total, text)``.

    Attributes
    ----------
    classes_ : array
    candidates_ : list of Candidate
        All that was tried, best first.
    committee_ : list of Member
        Those that predict together, each with its weight, best first.
    best_estimator_ : Pipeline
        The best map, fitted on all data.
    best_score_ : float
        Its out-of-fold log-likelihood per sample; optimistic, since it is the best of many.
    class_offsets_ : array of shape (classes,)
        Added to the logarithms of probabilities before the most probable class is named; zero unless ``scoring`` rewards others.
    left_out_ : list of str
        What was left out for lack of time, in words.
    novelty_ : Novelty or None
        What `novelty` goes by.

    Examples
    --------
    >>> from outmetric import MetricClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MetricClassifier(time_budget=2, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _kind = "a classifier, by distances and votes in learned maps"
    _loss_name = "log-likelihood per sample"

    def __init__(
        self,
        *,
        scoring: Any = "neg_log_loss",
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        unlabeled: Literal["graph", "ignore"] | None = None,
        time_budget: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | Callable[[int, int, str], object] = False,
    ) -> None:
        self.scoring = scoring
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.time_budget = time_budget
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickles of version 0.1 lack these.
        super().__setstate__({"scoring": "neg_log_loss", "class_weight": None, "unlabeled": None, **state})

    def _check_targets(self, y: Any) -> Array:
        return check_labels(self, y)

    def _goal(self, y: Array, weights: Array | None) -> ClassGoal:
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only ({self.classes_[0]}); MetricClassifier needs at least two classes.")
        return ClassGoal(labels, len(self.classes_), combined_weights(weights, self.class_weight, y))

    def _weights(self, goal: ClassGoal, predictions: list[Array], rng: np.random.Generator) -> Array:
        plain = Criterion(goal.essence, goal.loss_of_essence)
        weights = plain.weights(predictions, rng)
        if self._wants_probabilities:
            return weights
        discount = self._best_discount(goal, combine(weights, predictions))
        everything = len(np.unique(goal.labels))
        scored = by_scorer(
            lambda found, rows: self._ask(goal, found, rows, discount),
            lambda rows: len(np.unique(goal.labels[rows])) == everything,
            goal.as_often_as_counted,
        )
        return scored.weights(predictions, rng)

    def _score_one_prediction(self, goal: ClassGoal) -> None:
        if not self._wants_probabilities:
            self._ask(goal, np.tile(goal.frequencies, (goal.n_rows, 1)), np.arange(goal.n_rows), 0.0)

    @property
    def _wants_probabilities(self) -> bool:
        return isinstance(self.scoring, str) and self.scoring == "neg_log_loss"

    def _ask(self, goal: ClassGoal, probabilities: Array, rows: Array, discount: float) -> float:
        """The score that ``scoring`` gives to predictions for some rows."""
        asked = CountedVotes(self.classes_, probabilities, goal.frequencies, discount)
        return float(scorer_of(self.scoring)(asked, np.empty((len(rows), 1)), self.classes_[goal.labels[rows]]))

    def _best_discount(self, goal: ClassGoal, predictions: Array) -> float:
        """Of several that score alike the smallest."""
        rows = goal.as_often_as_counted
        return max(DISCOUNTS, key=lambda discount: (self._ask(goal, predictions[rows], rows, discount), -discount))

    def _learn_from(self, goal: ClassGoal, predictions: Array) -> None:
        """How far the classes' frequencies are discounted when one is named."""
        discount = 0.0 if self._wants_probabilities else self._best_discount(goal, predictions)
        self.class_offsets_ = -discount * np.log(goal.frequencies)

    def predict_proba(self, X: Any) -> Any:
        """The committee's mean of probabilities, shape (n, classes); lazily for Dask collections, as `predict`."""
        return self.mean_prediction(X)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> Any:
        """The most probable class, or the one that ``scoring`` rewards."""
        probabilities = self.predict_proba(X)
        if is_dask(X):
            return probabilities.map_blocks(self._named, drop_axis=1, dtype=self.classes_.dtype)
        return self._named(probabilities)

    def _named(self, probabilities: Array) -> Array:
        offsets = getattr(self, "class_offsets_", np.zeros(len(self.classes_)))  # models of version 0.1 have none
        return np.asarray(self.classes_[(probabilities * np.exp(offsets)).argmax(axis=1)])
