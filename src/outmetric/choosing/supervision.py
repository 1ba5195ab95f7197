"""What a search is given: rows, labels or real targets of some or all of them, groups, weights, and further arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _check_method_params

from outmetric.choosing.candidates import metric_of, weight_parameter, weights_among
from outmetric.estimators import check_supervision, gaps, without_gaps
from outmetric.foundation import Array, check_sample_weight, n_points


@dataclass(frozen=True, eq=False)
class Supervision:
    """Checked.

    Attributes
    ----------
    X : data
    y : array
        Labels or real targets as fits take them: with gaps, if there are such.
    truth : array
        The same with anything in the gaps, which nobody asks for.
    labelled : bool
        Whether they are classes.
    missing : array of bool or None
        Which rows have none.
    absent : array of bool
        Which rows have the weight 0, and so enter nothing.
    groups : array or None
    params : dict
        Further arguments of the fits, weights of rows among them.
    """

    X: Any
    y: Array
    truth: Array
    labelled: bool
    missing: Array | None
    absent: Array
    groups: Any
    params: Mapping[str, Any]

    @classmethod
    def of(
        cls, search: Any, candidates: Iterable[Mapping[str, Any]], X: Any, y: Any, groups: Any, weights: Any, params: Any
    ) -> Supervision:
        """From what users give to `fit`."""
        X, y, groups = indexable(X, y, groups)
        n = n_points(X)
        missing = None
        if y is not None and _knows_gaps(search.estimator, candidates):
            found = gaps(y)
            missing = found if found.any() else None
        if missing is None:
            y, labelled = check_supervision(search, y, n)
            truth = y
        else:
            known, labelled = check_supervision(search, without_gaps(y, missing), int(np.sum(~missing)))
            truth = np.repeat(known[:1], n, axis=0)
            truth[~missing] = known
            y = np.asarray(y)
        params = _check_method_params(X, params)
        checked = check_sample_weight(weights, n)
        if checked is not None:
            params = {**params, weight_parameter(search.estimator): checked}
        # Routed weights may be for the scorers alone.
        counted = checked is not None and weights_among(search.estimator, params)[0] is not None
        absent = checked == 0 if counted and checked is not None else np.zeros(n, dtype=bool)
        return cls(X, y, truth, labelled, missing, absent, groups, params)

    @property
    def rows(self) -> Array:
        """Those with labels or targets that count."""
        return np.flatnonzero(~self.absent if self.missing is None else ~(self.absent | self.missing))

    @property
    def unlabelled(self) -> Array | None:
        """Those without that count."""
        return None if self.missing is None else np.flatnonzero(self.missing & ~self.absent)

    @property
    def known(self) -> Array:
        """The labels or targets that there are."""
        return self.truth[self.rows]

    def splits(self, splitter: Any, params: Mapping[str, Any]) -> list[tuple[Array, Array]]:
        """Row numbers of training and validation parts; all these rows have labels, and count."""
        if self.missing is None:
            rows, X = np.arange(len(self.truth)), self.X
        else:
            rows = np.flatnonzero(~self.missing)
            X, params = _safe_indexing(self.X, rows), _check_method_params(self.X, params, rows)
        parts = [(rows[train], rows[test]) for train, test in splitter.split(X, self.truth[rows], **params)]
        if not self.absent.any():
            return parts
        return [(train[~self.absent[train]], test[~self.absent[test]]) for train, test in parts]

    def told_apart(self, splits: list[tuple[Array, Array]]) -> Array:
        """What fits take: real targets as a column where those of a training part are all whole, and would seem to be classes."""
        y = self.y
        if self.labelled or y.ndim != 1:
            return y
        return y[:, None] if any((y[train] == np.rint(y[train])).all() for train, _ in splits) else y


def _knows_gaps(estimator: Any, candidates: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a candidate says what is to become of rows without labels."""
    prefix = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    own = getattr(metric_of(estimator), "unlabeled", None)
    return any(candidate.get(f"{prefix}unlabeled", own) is not None for candidate in candidates)
