"""Accuracies of a run and what can be said of them: means with intervals, ranks, and tests of differences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from outmetric.foundation import Array
from outmetric.paper.protocol import METHODS, SETS
from outmetric.paper.runner import TrialResult

LEVEL = 0.05


@dataclass(frozen=True)
class Mean:
    """A mean over runs with its 95 % confidence interval, ``mean`` +- ``half``."""

    mean: float
    half: float
    runs: int

    @property
    def text(self) -> str:
        return f"{self.mean:.1f}" if np.isnan(self.half) else f"{self.mean:.1f} +- {self.half:.1f}"


class Accuracies:
    """Accuracies in per cent, by share for training, data set and method."""

    def __init__(self, results: Iterable[TrialResult]) -> None:
        self.results = [result for result in results if result.accuracy is not None]

    @cached_property
    def datasets(self) -> list[str]:
        present = {result.trial.dataset for result in self.results}
        return [name for name in SETS if name in present]

    @cached_property
    def methods(self) -> list[str]:
        present = {result.trial.method for result in self.results}
        return [name for name in METHODS if name in present]

    @cached_property
    def fractions(self) -> list[float]:
        return sorted({result.trial.fraction for result in self.results})

    @cached_property
    def _runs(self) -> dict[tuple[float, str, str], dict[int, TrialResult]]:
        found: dict[tuple[float, str, str], dict[int, TrialResult]] = {}
        for result in self.results:
            trial = result.trial
            found.setdefault((trial.fraction, trial.dataset, trial.method), {})[trial.repeat] = result
        return found

    def runs(self, fraction: float, dataset: str, method: str) -> dict[int, float]:
        """Accuracy by repeat."""
        some = self._runs.get((fraction, dataset, method), {})
        return {repeat: 100 * float(result.accuracy or 0) for repeat, result in sorted(some.items())}

    def mean(self, fraction: float, dataset: str, method: str) -> Mean | None:
        """Over the runs; None if there are none."""
        values = list(self.runs(fraction, dataset, method).values())
        if not values:
            return None
        spread = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
        return Mean(float(np.mean(values)), float(stats.t.ppf(0.975, max(len(values) - 1, 1)) * spread), len(values))

    def complete(self, fraction: float) -> tuple[list[str], list[str]]:
        """The data sets and methods of which all combinations were run: those data sets that have every method."""
        methods = [name for name in self.methods if any(self.mean(fraction, dataset, name) for dataset in self.datasets)]
        datasets = [name for name in self.datasets if all(self.mean(fraction, name, method) for method in methods)]
        return datasets, methods

    def table(self, fraction: float) -> tuple[list[str], list[str], Array]:
        """(data sets, methods, means of shape (data sets, methods)) of what is complete, over the splits that all methods have."""
        datasets, methods = self.complete(fraction)
        rows = [self._common_means(fraction, dataset, methods) for dataset in datasets]
        kept = [(name, row) for name, row in zip(datasets, rows, strict=True) if row is not None]
        return [name for name, _ in kept], methods, np.array([row for _, row in kept]).reshape(len(kept), -1)

    def _common_means(self, fraction: float, dataset: str, methods: list[str]) -> list[float] | None:
        runs = [self.runs(fraction, dataset, method) for method in methods]
        common = set.intersection(*(set(one) for one in runs)) if runs else set()
        return [float(np.mean([one[repeat] for repeat in sorted(common)])) for one in runs] if common else None

    def ranks(self, fraction: float) -> tuple[list[str], Array]:
        """(methods, mean rank of each over the data sets); the best is 1."""
        datasets, methods, means = self.table(fraction)
        return methods, stats.rankdata(-means, axis=1).mean(axis=0) if datasets else np.full(len(methods), np.nan)

    def seconds(self, fraction: float, method: str) -> float:
        """Median time of a trial, tuning included."""
        times = [one.seconds for one in self.results if one.trial.fraction == fraction and one.trial.method == method]
        return float(np.median(times)) if times else np.nan

    def paired_t(self, fraction: float, dataset: str, one: str, other: str, *, corrected: bool) -> tuple[float, float]:
        """(mean difference, p-value) over common splits.

        Splits of one data set are not independent. The corrected test takes (1/J + n_test/n_train) times the variance of the J
        differences for that of their mean (Nadeau and Bengio 2003), which with few training points is very cautious; the plain
        one takes 1/J, which is bold.
        """
        first, second = (self._runs.get((fraction, dataset, name), {}) for name in (one, other))
        common = sorted(first.keys() & second.keys())
        if len(common) < 2:
            return np.nan, np.nan
        differences = np.array([100 * (float(first[k].accuracy or 0) - float(second[k].accuracy or 0)) for k in common])
        some = first[common[0]]
        factor = 1 / len(common) + (some.n_test / some.n_train if corrected else 0)
        variance = factor * float(np.var(differences, ddof=1))
        mean = float(differences.mean())
        if variance == 0:
            return mean, 1.0 if mean == 0 else 0.0
        return mean, float(2 * stats.t.sf(abs(mean) / np.sqrt(variance), len(common) - 1))

    def wilcoxon(self, fraction: float, one: str, other: str) -> float:
        """p-value of the signed-rank test over the means of all data sets that have both methods."""
        pairs = [self._common_means(fraction, dataset, [one, other]) for dataset in self.datasets]
        differences = np.array([pair[0] - pair[1] for pair in pairs if pair is not None])
        if len(differences) < 2:
            return np.nan
        return 1.0 if not differences.any() else float(stats.wilcoxon(differences).pvalue)

    def friedman(self, fraction: float) -> float:
        """p-value of Friedman's test that all methods are alike."""
        datasets, methods, means = self.table(fraction)
        return float(stats.friedmanchisquare(*means.T).pvalue) if len(datasets) > 1 and len(methods) > 2 else np.nan


def critical_difference(methods: int, datasets: int) -> float:
    """Mean ranks further apart differ significantly, by Nemenyi's test (Demsar 2006)."""
    return float(
        stats.studentized_range.ppf(1 - LEVEL, methods, np.inf) / np.sqrt(2) * np.sqrt(methods * (methods + 1) / (6 * datasets))
    )
