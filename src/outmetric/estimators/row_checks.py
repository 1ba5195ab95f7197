"""Checks of rows that come in blocks: the first block decides what the others must be like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np

from outmetric.estimators.checks import check_points, check_supervision, check_targets
from outmetric.foundation import Array, n_points


@dataclass(eq=False)
class Blocks:
    """Checks blocks of rows with an estimator of its own, which can travel to the workers of a cluster."""

    estimator: Any
    labelled: bool = False
    label_kind: type | None = None
    n_targets: int | None = None

    def check(self, X: Any, y: Any) -> tuple[Any, Array]:
        """X and y of a block: labels of shape (n,) or real targets of shape (n, q)."""
        estimator = self.estimator
        if not hasattr(estimator, "_takes"):
            return self._check_first(X, y)
        X = check_points(estimator, X, estimator._takes, fitting=False)
        if self.labelled:
            y, labelled = check_supervision(estimator, y, n_points(X), whole=False)
            if not labelled:
                raise ValueError("blocks with class labels and blocks with real targets came in one stream.")
            if _label_kind(y) is not self.label_kind:
                raise ValueError(f"labels of different types came in one stream: {self.label_kind} and {_label_kind(y)}.")
            return X, y
        return X, self._real(y, n_points(X))

    def _check_first(self, X: Any, y: Any) -> tuple[Any, Array]:
        X = self.estimator._checked_points(X, at_least=1)
        y, self.labelled = check_supervision(self.estimator, y, n_points(X), whole=False)
        if self.labelled:
            self.label_kind = _label_kind(y)
            return X, y
        if self.estimator.collocation_weight != 0:
            raise ValueError("real targets that come in blocks have no similarities between blocks: set collocation_weight=0.")
        return X, self._real(y, n_points(X))

    def _real(self, y: Any, n_rows: int) -> Array:
        values = check_targets(y, n_rows)
        if self.n_targets not in (None, values.shape[1]):
            raise ValueError(f"blocks with {self.n_targets} and with {values.shape[1]} real targets came in one stream.")
        self.n_targets = values.shape[1]
        return values

    def hand_over(self, estimator: Any) -> None:
        """Tell the estimator that is fitted what the rows are like."""
        for name in ("n_features_in_", "feature_names_in_"):
            estimator.__dict__.pop(name, None)
        for name in ("n_features_in_", "feature_names_in_", "_takes"):
            if hasattr(self.estimator, name):
                setattr(estimator, name, getattr(self.estimator, name))

    def require_unchanged(self, estimator: Any) -> None:
        """The kernel and its landmarks must stay as they were at the first block."""
        for name in ("kernel", "bandwidth", "kernel_params", "n_landmarks", "landmarks"):
            now, then = getattr(estimator, name), getattr(self.estimator, name)
            if not _alike(now, then):
                raise ValueError(f"{name} changed between calls of partial_fit; call fit to begin anew.")


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return one is other or joblib.hash(one) == joblib.hash(other)


def _label_kind(labels: Array) -> type:
    """What labels are: numbers, truth values, strings, or other objects."""
    kinds: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str, "S": bytes}
    return kinds.get(labels.dtype.kind) or type(labels[0])
