"""Which candidates of a search share work: those with one kernel, one ratio of weights, one set of targets, or one map.

All candidates that differ only in weights, components or prototypes share one eigendecomposition in each fold (`outmetric.path`),
and candidates that the models cannot tell apart are fitted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric, MetricTransformer
from outmetric.kernels import Separable, median_factor

WEIGHTS = ("regression_weight", "collocation_weight", "metric_penalty", "metric_ridge", "output_penalty")
TARGETS = ("n_components", "prototypes")


@dataclass(frozen=True, eq=False)
class Member:
    """Candidates (by their numbers) that the model cannot tell apart, with the settings of the first.

    ``ratio`` is gamma/lambda or "auto", and ``targets`` a fingerprint of what decides the targets: members that agree in the first
    share a decomposition, in both a batch.
    """

    settings: dict[str, Any]
    indices: list[int]
    ratio: Any
    targets: Any


@dataclass(frozen=True, eq=False)
class Group:
    """Candidates with one kernel and one preparation of the data; not ``shared``: a single one that needs a fit of its own."""

    estimator: Any
    members: list[Member]
    shared: bool

    @property
    def n_decompositions(self) -> int:
        return len({member.ratio for member in self.members}) if self.shared else 0


def metric_of(estimator: Any) -> Any:
    """The metric itself, at the end of a pipeline or alone."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def shared_groups(
    estimator: Any, candidates: Iterable[Mapping[str, Any]], n_classes: int
) -> tuple[list[Group], list[tuple[float, ...]]]:
    """The groups of candidates, and for each candidate a tuple that is smaller the simpler it is."""
    groups: dict[Any, Group] = {}
    members: dict[Any, Member] = {}
    simplicity: list[tuple[float, ...]] = []
    prefix = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    for index, candidate in enumerate(candidates):
        flexible = {prefix + name for name in (*WEIGHTS, *TARGETS)} & set(candidate)
        common = {name: value for name, value in candidate.items() if name not in flexible}
        key = _fingerprint(common)
        if key not in groups:
            groups[key] = Group(clone(estimator).set_params(**clone(common, safe=False)), [], shared=True)
        metric = metric_of(groups[key].estimator)
        if not isinstance(metric, MetricTransformer):
            raise TypeError(f"MetricSearchCV tunes the metrics of outmetric, not {type(metric).__name__}.")
        if not isinstance(metric, FixedKernelMetric | LearnedKernelMetric):
            groups[index] = _alone(estimator, candidate, index)
            simplicity.append(())
            continue
        settings = {
            name: candidate.get(prefix + name, getattr(metric, name)) for name in (*WEIGHTS, *TARGETS) if hasattr(metric, name)
        }
        simplicity.append(_simplicity(settings, metric.bandwidth, n_classes))
        unknown = {name for name in flexible if name.removeprefix(prefix) not in settings}
        if unknown or not _is_served(metric) or settings.get("metric_ridge") == 0:
            groups[index] = _alone(estimator, candidate, index)
            continue
        clone(metric).set_params(**settings)._check_parameters()
        targets = _fingerprint({name: settings[name] for name in TARGETS})
        ratio = _weight_ratio(settings)
        essence = (key, targets, ratio, _essence(settings))
        if essence not in members:
            members[essence] = Member(settings, [], ratio, targets)
            groups[key].members.append(members[essence])
        members[essence].indices.append(index)
    return [group for group in groups.values() if group.members], simplicity


def _alone(estimator: Any, candidate: Mapping[str, Any], index: int) -> Group:
    """A candidate that needs a fit of its own; raises for parameters that the estimator does not know."""
    alone = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    return Group(alone, [Member({}, [index], None, None)], shared=False)


def _simplicity(settings: Mapping[str, Any], bandwidth: Any, n_classes: int) -> tuple[float, ...]:
    components, prototypes = settings["n_components"], settings["prototypes"]
    if components is None and isinstance(prototypes, str):
        components = n_classes if prototypes == "onehot" else n_classes - 1
    elif components is None:
        components = (np.shape(prototypes) or (0,))[-1]  # what is no matrix is told when it is fitted
    relative = median_factor(bandwidth) if isinstance(bandwidth, str) else None
    width = relative if relative is not None else float(bandwidth) if isinstance(bandwidth, Real) else 0.0
    return float(components), float(settings["regression_weight"]), float(relative is None), -width


def _is_served(metric: Any) -> bool:
    """Whether the shared decomposition can stand in for a fit."""
    kernel = metric._declared_kernel()
    if metric._landmarks_reason(0) is not None and not isinstance(metric.similarity, str):
        return False  # one pass for all folds knows classes only
    return isinstance(kernel, Separable) and kernel.output_matrix is None and metric.solver in ("auto", "spectral", "nystroem")


def _weight_ratio(settings: Mapping[str, Any]) -> Any:
    """Gamma / lambda, or "auto", which is a multiple of lambda as well."""
    gamma = settings["collocation_weight"]
    return gamma if isinstance(gamma, str) else float(f"{gamma / settings['regression_weight']:.12g}")


def _essence(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the distances depend on beside targets and gamma/lambda, up to a factor: one weight of each model is redundant.

    Model 2's map depends on lambda^3/rho only, model 1's on rho^2/lambda and the relative ridge. Automatic penalties follow lambda.
    """
    scale = settings["regression_weight"]
    if "output_penalty" in settings:
        penalty = settings["output_penalty"]
        return ((scale, penalty) if isinstance(penalty, str) else f"{3 * np.log(scale) - np.log(penalty):.10f}",)
    penalty = settings["metric_penalty"]
    strength = (scale, penalty) if isinstance(penalty, str) else f"{2 * np.log(penalty) - np.log(scale):.10f}"
    return strength, settings["metric_ridge"]


def _fingerprint(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for equal settings; a value that cannot be pickled, a lambda say, equals only itself."""
    return tuple((name, _fingerprint_of_one(values[name])) for name in sorted(values))


def _fingerprint_of_one(value: Any) -> Any:
    try:
        return joblib.hash(value)
    except Exception:  # pickling may fail in any way
        return id(value)
