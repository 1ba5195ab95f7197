"""The metric inside a fitted model, and the way of the data to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from outmetric.estimators import MetricTransformer
from outmetric.foundation import Array


@dataclass(frozen=True, eq=False)
class Fitted:
    """A metric with what stands before and behind it in a model.

    Attributes
    ----------
    metric : MetricTransformer
    before : Pipeline or None
        The steps before the metric.
    classes : array or None
        As the model's user names them; None for real targets, empty if they are not known.
    voters : KNeighborsClassifier or None
        Who votes on the coordinates in the model itself; its classes have the order of ``classes``.
    check : function of rows, or None
        How the model brings rows to the form in which it learned them, if it does.
    """

    metric: MetricTransformer
    before: Pipeline | None
    classes: Array | None
    voters: KNeighborsClassifier | None
    check: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, model: Any) -> Fitted:
        """Look into a model."""
        check_is_fitted(model)
        if hasattr(model, "cv_results_") and not hasattr(model, "best_estimator_"):
            raise ValueError(f"this {type(model).__name__} has scores but no model; search with refit=True.")
        inner = getattr(model, "best_estimator_", model)
        steps = [step for _, step in inner.steps] if isinstance(inner, Pipeline) else [inner]
        places = [place for place, step in enumerate(steps) if isinstance(step, MetricTransformer)]
        if not places:
            raise TypeError(f"{type(inner).__name__} is, or holds, no metric of outmetric.")
        place = places[-1]
        committee = getattr(model, "committee_", None)
        # A committee's best map may be read without neighbours, but knows them.
        voters = (committee[0].voters or model.neighbours_) if committee else getattr(model, "voters_", None)
        if place < len(steps) - 1 and isinstance(steps[place + 1], KNeighborsClassifier):
            voters = steps[place + 1]
        voters = voters if isinstance(voters, KNeighborsClassifier) else None
        classes = getattr(model, "classes_", getattr(steps[place], "classes_", ()))
        classes = None if classes is None else np.asarray(classes)
        check = partial(model.check_table, reset=False) if hasattr(model, "check_table") else None
        return cls(steps[place], inner[:place] if place else None, classes, voters, check)

    def prepared(self, X: Any) -> Any:
        """The data as the metric gets them."""
        X = X if self.check is None else self.check(X)
        return X if self.before is None else self.before.transform(X)

    def coordinates(self, X: Any) -> Array:
        """Points whose Euclidean distance is the learned metric."""
        return np.asarray(self.metric.transform(self.prepared(X)))

    @property
    def targets(self) -> Array | None:
        """Where the targets of the classes lie among the coordinates, if there are such."""
        prototypes = getattr(self.metric, "prototypes_", None)
        return None if prototypes is None else np.asarray(prototypes @ self.metric.metric_.metric_factor.T)
