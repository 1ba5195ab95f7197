"""What the classifier and the regressor that need no settings share: how they choose, fit, and tell."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted

from outmetric.automatic.goals import Goal
from outmetric.automatic.inputs import Inputs, RowsInChunks
from outmetric.automatic.landmarks import rewarding_landmarks
from outmetric.automatic.members import (
    Candidate,
    Chosen,
    Member,
    MemberFits,
    committee_predictions,
    fit_committee,
    to_learn_anew,
)
from outmetric.automatic.screening import Screening
from outmetric.automatic.selection import combine
from outmetric.choosing import BestMapMixin, Novelty, committee_facts, unnamed_rows
from outmetric.columns import table_encoder
from outmetric.estimators import Described, Fact, check_unlabelled, data, gaps, without_gaps
from outmetric.foundation import (
    Array,
    Budget,
    announce,
    check_number,
    check_sample_weight,
    fits_in_memory,
    n_points,
    side_by_side,
)
from outmetric.rows import EXACT_SAMPLES, DaskRows, in_memory, is_dask, transform_lazily

# Of a Dask collection with more rows than would be fitted exactly, so many are fetched at most, to learn how tables are encoded and
# scaled, to grow forests, and to vote.
FETCHED_ROWS = 10_000
# Rows that settings are compared on, and landmarks among them, at most.
SEARCHED_ROWS, SEARCHED_LANDMARKS = 3000, 200
# With a time budget: the share of it that comparing settings may take at most.
SEARCH_SHARE = 0.5
# By how many rows novelty is judged; and the neighbours that `kneighbors` has unless another number is asked for.
NOVELTY_ROWS, NEIGHBOURS = 500, 5


@dataclass(frozen=True, eq=False)
class Search:
    """What `fit` found out before it fits a committee, for `finish` should it be interrupted."""

    screening: Screening
    encoder: Any
    numbers: Array
    goal: Goal
    seed: int
    table: Any
    unlabelled: Array | None = None
    chunks: RowsInChunks | None = None


class AutomaticMetric(ClassNamePrefixFeaturesOutMixin, BestMapMixin, TransformerMixin, Described):
    """Chooses maps by out-of-fold predictions, and lets the best predict together."""

    unlabeled: Literal["graph", "ignore"] | None
    time_budget: float | None
    random_state: Any
    n_jobs: int | None
    verbose: bool | Callable[[int, int, str], object]
    committee_: list[Member]
    classes_: Array
    n_targets_: int
    # What it is, and what its scores are, for people.
    _kind: ClassVar[str] = ""
    _loss_name: ClassVar[str] = ""

    @abstractmethod
    def _check_targets(self, y: Any) -> Array:
        """Labels of shape (n,), or real targets of shape (n, q)."""

    @abstractmethod
    def _goal(self, y: Array, weights: Array | None) -> Goal:
        """Of checked targets, and weights that are positive; sets what of them is fitted."""

    def _select(self, screening: Screening, rng: np.random.Generator) -> list[Chosen]:
        """Those that predict together, by their out-of-fold predictions.

        Forests and kernels of distances err in different ways, and with few rows it is luck which of them looks better: as long as
        they cannot be told apart, each has half of the say.
        """
        tried = screening.kept
        predictions = [one.reading.predictions for one in tried]
        forests = np.array([one.setting.scaling is None for one in tried])
        weights = self._weights(screening.goal, predictions, rng)
        if forests.any() and not forests.all() and screening.cannot_be_told_apart(tried, forests):
            halves = np.zeros((2, len(tried)))
            for half, group in zip(halves, (forests, ~forests), strict=True):
                half[group] = self._weights(screening.goal, [predictions[place] for place in np.flatnonzero(group)], rng)
            weights = halves.mean(axis=0)
        self._learn_from(screening.goal, combine(weights, predictions))
        return [Chosen(one, float(weight)) for one, weight in zip(tried, weights, strict=True) if weight > 0]

    @abstractmethod
    def _weights(self, goal: Any, predictions: list[Array], rng: np.random.Generator) -> Array:
        """Of candidates with these out-of-fold predictions, best first."""

    @abstractmethod
    def _score_one_prediction(self, goal: Any) -> None:
        """Score the same prediction for all rows, if ``scoring`` asks a scorer."""

    @abstractmethod
    def _learn_from(self, goal: Any, predictions: Array) -> None:
        """What is learned from the committee's own out-of-fold predictions."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose everything and fit.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Dask's too: the maps are then sums over all chunks, and made of landmarks; at most 10,000 rows are fetched, from which
            it is learned how the table is encoded and scaled, and which grow forests and vote.
        y : array of shape (n,), or (n, q) for several real targets
            If ``unlabeled`` is not None, some may be missing: -1 among whole numbers, NaN among real targets, None or NaN among
            words.
        sample_weight : array of shape (n,), optional
            How often each row counts, in the maps and in the losses by which they are chosen; 0 leaves it out. Neighbours, where
            they are asked, vote once each, and features are scaled without regard to weights.
        """
        budget = Budget(self.time_budget)
        for name in [name for name in vars(self) if name.endswith("_") or name == "_search"]:
            delattr(self, name)  # nothing of an earlier fit may survive one that ends early
        if self.time_budget is not None:
            check_number("time_budget", self.time_budget, positive=True)
        check_unlabelled(self.unlabeled, 0.0)
        if is_dask(X):
            X, y, sample_weight = DaskRows(X), in_memory(y), in_memory(sample_weight)
            few = len(X) <= EXACT_SAMPLES and fits_in_memory(8.0 * 3 * len(X) * X.shape[1])
            X = X[:] if few else X
        X = X if isinstance(X, DaskRows) else self.check_table(X, reset=True)
        n = n_points(X)
        missing = np.zeros(n, dtype=bool)
        if self.unlabeled is not None and y is not None:
            missing = gaps(y)
        targets = self._check_targets(without_gaps(y, missing) if missing.any() else y)
        if len(targets) != np.sum(~missing) or len(missing) != n:
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n, n_points(y)]}")
        weights = check_sample_weight(sample_weight, n)
        counted = np.ones(n, dtype=bool) if weights is None else weights > 0
        known = counted & ~missing
        targets = targets[counted[~missing]]
        # Once absent rows are gone, those that are left may all count once.
        goal = self._goal(targets, None if weights is None else check_sample_weight(weights[known], len(targets)))
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31))
        whole, chunks = X, None
        if isinstance(X, DaskRows):
            if missing.any():
                raise ValueError("rows without labels need all rows in memory; take those with labels, X[known], or fewer rows.")
            X, goal, rows, chunks = self._fetched(X, np.flatnonzero(known), goal, rng, seed)
        else:
            X = X if known.all() else _safe_indexing(X, np.flatnonzero(known))
            rows = None
        encoder = table_encoder(X)
        numbers = np.asarray(X if encoder is None else encoder.fit_transform(X), dtype=np.float64)
        unlabelled = None
        if self.unlabeled == "graph" and (missing & counted).any():
            others = _safe_indexing(whole, np.flatnonzero(missing & counted))
            unlabelled = np.asarray(others if encoder is None else encoder.transform(others), dtype=np.float64)
        rows = goal.some_rows(SEARCHED_ROWS, rng) if rows is None else rows
        own = goal.of(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._score_one_prediction(own)  # so that a scorer that does not suit the targets is told before the search
        search = budget.keeping(0.0 if self.time_budget is None else (1 - SEARCH_SHARE) * self.time_budget)
        screening = Screening(
            Inputs.make(numbers[rows], SEARCHED_LANDMARKS, np.random.default_rng(seed), seed),
            own.folds(rng),
            seed,
            unlabelled,
            goal=own,
            n_jobs=self.n_jobs,
            budget=search,
            tell=self._tell,
        )
        self._search = Search(screening, encoder, numbers, goal, seed, X, unlabelled, chunks)
        try:
            screening.run()
        finally:
            self.candidates_ = [
                Candidate(None, {}, reading.n_neighbors, -reading.loss, setting.description)
                for setting, reading in sorted(screening.losses, key=lambda pair: pair[1].loss)
            ]
        with side_by_side():
            return self._conclude(budget)

    def _fetched(
        self, X: DaskRows, numbers: Array, goal: Goal, rng: np.random.RandomState, seed: int
    ) -> tuple[Any, Goal, Array, RowsInChunks]:
        """Some of the rows that count, what is to be predicted of them, and which of them settings are compared on; and all."""
        searched = goal.some_rows(SEARCHED_ROWS, rng)
        others = goal.some_rows(max(1, FETCHED_ROWS - len(searched)), np.random.RandomState(seed))
        few = goal.n_rows <= FETCHED_ROWS
        sample = np.arange(goal.n_rows) if few else np.unique(np.concatenate([searched, others, goal.indispensable]))
        chunks = RowsInChunks(X, numbers, goal.learned, goal.weights, sample)
        return self.check_table(chunks.fetched, reset=True), goal.of(sample), np.searchsorted(sample, searched), chunks

    def finish(self, X: Any, y: Any) -> Self:
        """Go on after `fit` was interrupted, with the candidates that were scored until then.

        Parameters
        ----------
        X, y : as for `fit`
        """
        budget = Budget(self.time_budget)
        if not hasattr(self, "_search") or not getattr(self, "candidates_", None):
            raise NotFittedError("there is no interrupted fit with a candidate that was scored: there is nothing to go on from.")
        if not is_dask(X):
            self.check_table(X, reset=True)
        with side_by_side():
            return self._conclude(budget)

    def _conclude(self, budget: Budget) -> Self:
        """Select, fit the committee, and learn what novelty is judged by.

        With one BLAS thread: maps are fitted side by side, and must not depend on how many at once.
        """
        found = self._search
        self.left_out_: list[str] = list(found.screening.left_out)
        chosen = self._select(found.screening, np.random.default_rng(found.seed))
        chosen.sort(key=lambda one: (one.tried.loss, -one.weight))
        self._tell(1, 1, f"fitting {len(chosen)} maps" + (", if there is time" if budget.limited else ""))
        fits = MemberFits(
            found.screening, found.encoder, found.numbers, found.goal, found.seed, self.n_jobs, found.unlabelled, found.chunks
        )
        usual = rewarding_landmarks(fits, chosen[0], budget)
        committee, left_out = fit_committee(fits, chosen, usual, budget)
        self.left_out_ += left_out
        best = committee[0]
        self.novelty_ = Novelty.learn(
            fits.unlearned(best.pipeline), best.pipeline, found.table, found.goal.learned, NEIGHBOURS, most=NOVELTY_ROWS
        )
        self.neighbours_ = fits.neighbours(best.pipeline, NEIGHBOURS)
        self.committee_, self.best_estimator_ = committee, best.pipeline
        self.best_score_ = best.candidate.score
        self._n_features_out = self.best_estimator_[-1].coefficients_.shape[1]
        if found.chunks is not None:
            self.sampled_rows_ = found.chunks.numbers[found.chunks.sample]
        if found.unlabelled is not None:
            self.n_unlabeled_ = len(found.unlabelled)
        self.fit_time_ = budget.spent
        del self._search
        if self.time_budget is not None and self.fit_time_ > 1.2 * self.time_budget + 1:
            warnings.warn(
                f"time_budget={self.time_budget:g} s was not enough for the smallest model: it took {self.fit_time_:.1f} s.",
                UserWarning,
                stacklevel=3,
            )
        return self

    def unlearned_map(self) -> Any:
        """The best map, not fitted, to be learned anew from other rows, those of a fold say.

        Whatever learned from targets in it (an input metric, feature weights, a forest) does so again.
        """
        check_is_fitted(self)
        return to_learn_anew(self.best_estimator_, self.committee_[0].candidate.description, real=not hasattr(self, "classes_"))

    def mean_prediction(self, X: Any) -> Any:
        """The committee's weighted mean: probabilities (n, classes), or real targets (n, q); lazily for Dask collections."""
        check_is_fitted(self)
        if is_dask(X):
            return transform_lazily(self.mean_prediction, X, len(self.classes_) if hasattr(self, "classes_") else self.n_targets_)
        X = self.check_table(X, reset=False)
        with unnamed_rows():
            return committee_predictions(self.committee_, X)

    def _tell(self, done: int, total: int, text: str) -> None:
        if callable(self.verbose):
            self.verbose(done, total, text)
        elif self.verbose:
            announce(type(self).__name__, text if done == total else f"{done} of {total}; now {text}")

    def _facts(self) -> list[Fact]:
        left_out = getattr(self, "left_out_", ())
        metric = self.best_estimator_[-1]
        return [
            Fact("kind", self._kind),
            Fact("learned from", data(metric.n_samples_fit_, self.n_features_in_, getattr(self, "classes_", ()))),
            Fact("compared", f"{len(self.candidates_)} candidates"),
            *self._unlabelled_facts(),
            *self._chunk_facts(),
            *([Fact("left out", f"for lack of time: {'; '.join(left_out)}")] if left_out else []),
            Fact("committee", f"{len(self.committee_)} maps vote"),
            *committee_facts(self._loss_name, self.committee_),
            *self.reason_facts(),
            Fact("time", f"{self.fit_time_:.1f} s"),
        ]

    def _chunk_facts(self) -> list[Fact]:
        """What was not learned from all rows."""
        if not hasattr(self, "sampled_rows_"):
            return []
        return [
            Fact("in chunks", f"maps are of all rows; scales, forests and votes of {len(self.sampled_rows_)} that were fetched")
        ]

    def _unlabelled_facts(self) -> list[Fact]:
        """Whether rows without labels did help."""
        if not hasattr(self, "n_unlabeled_"):
            return []
        used = [member.weight for member in self.committee_ if "graph_weight" in member.candidate.description]
        told = f"maps with {sum(used):.0%} of the say use them" if used else "they did not help, and are not used"
        return [Fact("without labels", f"{self.n_unlabeled_} rows; {told}")]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
