"""Scores and times of all candidates of a search as they come in."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from outmetric.choosing.evaluation import FoldScores
from outmetric.estimators import Gathered
from outmetric.foundation import Array

# Scores that differ by less are equal.
TIE = 1e-12


class BestGathered:
    """What passes over the data found, of the groups of candidates with the best score so far."""

    def __init__(self) -> None:
        self.score = -np.inf
        self.found: list[tuple[set[int], Gathered]] = []

    def enter(self, result: FoldScores, score: float) -> None:
        if score > self.score + TIE:
            self.score, self.found = score, []
        if result.gathered is not None and score >= self.score - TIE:
            self.found.append(({index for same in result.indices for index in same}, result.gathered))

    def of(self, candidate: int) -> Gathered | None:
        return next((gathered for members, gathered in self.found if candidate in members), None)


class ScoreTable:
    """Scores and times of all candidates as they come in."""

    def __init__(self, candidates: list[dict[str, Any]], neighbours: Array, n_splits: int) -> None:
        self.params = [{**candidate, "n_neighbors": int(count)} for candidate in candidates for count in neighbours]
        shape = (len(candidates), len(neighbours), n_splits)
        self.scores, self.fit_times, self.score_times = (np.full(shape, np.nan) for _ in range(3))

    def enter(self, result: FoldScores) -> None:
        members = sum(len(same) for same in result.indices)
        for same, scores in zip(result.indices, result.scores, strict=True):
            self.scores[same, :, result.fold] = scores
            self.fit_times[same, :, result.fold] = result.fit_time / (members * self.scores.shape[1])
            self.score_times[same, :, result.fold] = result.score_time / (members * self.scores.shape[1])

    def top(self, result: FoldScores) -> float:
        """The best mean score among the candidates of a result."""
        means = self.scores[[index for same in result.indices for index in same]].mean(axis=2)
        return float(np.nanmax(means, initial=-np.inf))

    def results(self) -> dict[str, Any]:
        """In the format of GridSearchCV."""
        found: dict[str, Any] = {}
        for name, times in (("fit_time", self.fit_times), ("score_time", self.score_times)):
            flat = times.reshape(len(self.params), -1)
            found[f"mean_{name}"], found[f"std_{name}"] = flat.mean(axis=1), flat.std(axis=1)
        for name in sorted({name for params in self.params for name in params}):
            column = np.ma.MaskedArray(np.empty(len(self.params)), mask=True, dtype=object)
            for row, params in enumerate(self.params):
                if name in params:
                    column[row] = params[name]
            found[f"param_{name}"] = column
        found["params"] = self.params
        scores = self.scores.reshape(len(self.params), -1)
        found |= {f"split{fold}_test_score": scores[:, fold] for fold in range(scores.shape[1])}
        means = scores.mean(axis=1)
        found["mean_test_score"], found["std_test_score"] = means, scores.std(axis=1)
        found["rank_test_score"] = rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32)
        return found

    def best(self, means: Array, simplicity: list[tuple[float, ...]]) -> int:
        """The best candidate; of several equally good ones the simplest (see `MetricSearchCV`)."""
        equal = np.flatnonzero(means >= np.nanmax(means) - TIE).tolist()
        counts = self.scores.shape[1]

        def order(row: int) -> tuple[float, ...]:
            return (*simplicity[row // counts], -float(self.params[row]["n_neighbors"]), float(row))

        return min(equal, key=order)
