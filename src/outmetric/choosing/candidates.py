"""Which candidates of a search share work: those with one kernel, one ratio of weights, one set of targets, or one map.

All candidates that differ only in weights, components or prototypes share one eigendecomposition in each fold
(`outmetric.solvers.batch`), and candidates that the models cannot tell apart are fitted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import joblib
import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from outmetric.estimators import KernelMetric, MetricTransformer, Settings, settings_of
from outmetric.kernels import median_factor
from outmetric.problem import FixedKernelModel, LearnedKernelModel

WEIGHTS = ("regression_weight", "collocation_weight", "graph_weight", *FixedKernelModel.weights, *LearnedKernelModel.weights)
TARGETS = ("n_components", "prototypes")
ROUNDS = ("n_rounds",)


@dataclass(frozen=True)
class Alike:
    """Candidates, by their numbers, that the model cannot tell apart, with the settings of the first.

    ``ratio`` is gamma/lambda or "auto", with the weight of the graph, and ``targets`` a fingerprint of what decides the targets:
    those that agree in the first share a decomposition, in both a batch. Those of one ``track`` differ in nothing but the
    ``rounds`` of their input metric.
    """

    settings: Mapping[str, Any]
    indices: tuple[int, ...]
    ratio: Any = None
    targets: Any = None
    track: Any = None
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class Group:
    """Candidates with one kernel and one preparation of the data.

    ``settings`` are those of the metric before the candidates change its weights; None: a single candidate that needs a fit of its
    own.
    """

    estimator: Any
    members: tuple[Alike, ...]
    settings: Settings | None

    @property
    def shared(self) -> bool:
        """Whether its candidates share decompositions."""
        return self.settings is not None

    @cached_property
    def n_decompositions(self) -> int:
        if not self.shared:
            return 0
        longest: dict[Any, int] = {}
        for member in self.members:
            longest[member.track] = max(longest.get(member.track, 0), member.rounds)
        return len({member.ratio for member in self.members}) + sum(longest.values())

    @property
    def uses_graph(self) -> bool:
        """Whether rows without labels enter its fits, if there are such."""
        return self.settings is not None and self.settings.unlabeled == "graph"

    def landmarks_reason(self, n_samples: int) -> str | None:
        """Why the candidates are fitted with landmarks and can share the pass, or None."""
        return None if self.settings is None else self.settings.landmarks_reason(n_samples)


def metric_of(estimator: Any) -> Any:
    """The metric itself, at the end of a pipeline or alone."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def weight_parameter(estimator: Any) -> str:
    """The argument of the estimator's fit that gives weights to the rows of its metric."""
    if get_config()["enable_metadata_routing"] or not isinstance(estimator, Pipeline):
        return "sample_weight"
    return f"{estimator.steps[-1][0]}__sample_weight"


def weights_among(estimator: Any, params: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The metric's weights of rows among the arguments of a fit, and those for the steps before it."""
    name = weight_parameter(estimator)
    weights = params.get(name)
    routed = get_config()["enable_metadata_routing"]  # whoever requests it gets it
    asked = not routed or bool(metric_of(estimator).get_metadata_routing().consumes("fit", [name]))
    if not isinstance(estimator, Pipeline):
        return weights if asked else None, {}
    if routed:
        before = Pipeline(estimator.steps[:-1] or [("none", "passthrough")]).get_metadata_routing()
        return weights if asked else None, {key: params[key] for key in before.consumes("fit_transform", list(params))}
    return weights, {key: value for key, value in params.items() if key != name}


def shared_groups(
    estimator: Any,
    candidates: Iterable[Mapping[str, Any]],
    dimension: int,
    n_samples: int,
    *,
    labelled: bool = True,
    partly: bool = False,
) -> tuple[list[Group], list[tuple[float, ...]]]:
    """The groups of candidates, and for each candidate a tuple that is smaller the simpler it is.

    ``dimension`` is that of the targets unless candidates say otherwise; ``n_samples`` are in all folds together. Real targets
    (not ``labelled``) with other components make other rows similar, so candidates share their components too. ``partly``: there
    are rows without labels.
    """
    prefix = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    bases: dict[Any, tuple[Any, Settings | None]] = {}
    essences: dict[Any, dict[Any, Alike]] = {}
    alone: dict[int, Group] = {}
    order: list[Any] = []
    simplicity: list[tuple[float, ...]] = []
    for index, candidate in enumerate(candidates):
        flexible = {prefix + name for name in (*WEIGHTS, *(TARGETS if labelled else ()), *ROUNDS)} & set(candidate)
        common = {name: value for name, value in candidate.items() if name not in flexible}
        if partly and candidate.get(prefix + "graph_weight", getattr(metric_of(estimator), "graph_weight", None)) == 0:
            common[prefix + "unlabeled"] = "ignore"
        key = _fingerprint(common)
        if key not in bases:
            base = clone(estimator).set_params(**clone(common, safe=False))
            bases[key] = base, _served(metric_of(base), labelled, n_samples, partly)
            order.append(key)
        base, settings = bases[key]
        metric = metric_of(base)
        if not isinstance(metric, KernelMetric):
            simplicity.append(())
            alone[index] = _alone(estimator, candidate, index)
            continue
        names = ("regression_weight", "collocation_weight", "graph_weight", *metric.model.weights, *TARGETS, *ROUNDS)
        given = {name: candidate.get(prefix + name, getattr(metric, name)) for name in names}
        simplicity.append(_simplicity(given, metric.bandwidth, dimension))
        unknown = {name for name in flexible if name.removeprefix(prefix) not in given}
        if unknown or settings is None or given.get("metric_ridge") == 0:
            alone[index] = _alone(estimator, candidate, index)
            continue
        try:
            rounds = settings.with_weights(given).rounds
        except (ValueError, TypeError):  # its own fit will tell
            alone[index] = _alone(estimator, candidate, index)
            continue
        targets = _fingerprint({name: given[name] for name in TARGETS})
        ratio = _weight_ratio(given), given["graph_weight"] if partly and settings.unlabeled == "graph" else None
        # Rounds are prefixes of one another, so that all candidates of one track cost what the longest of them does.
        track = targets, ratio, metric.model.essence(given, given["regression_weight"])
        found = essences.setdefault(key, {})
        known = found.get((track, rounds), Alike(given, (), ratio, targets, track, rounds))
        found[track, rounds] = replace(known, indices=(*known.indices, index))
    groups = [Group(bases[key][0], tuple(essences[key].values()), bases[key][1]) for key in order if key in essences]
    return [*groups, *alone.values()], simplicity


def _alone(estimator: Any, candidate: Mapping[str, Any], index: int) -> Group:
    """A candidate that needs a fit of its own; raises for parameters that the estimator does not know."""
    own = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    return Group(own, (Alike({}, (index,)),), None)


def _served(metric: Any, labelled: bool, n_samples: int, partly: bool) -> Settings | None:
    """The settings of a metric if a shared decomposition can stand in for its fits."""
    if not isinstance(metric, MetricTransformer):
        raise TypeError(f"MetricSearchCV tunes the metrics of outmetric, not {type(metric).__name__}.")
    if not isinstance(metric, KernelMetric):
        return None
    try:
        settings = settings_of(metric)
    except (ValueError, TypeError):  # a fit of its own will tell
        return None
    if partly and not (labelled and isinstance(metric.similarity, str)):
        return None
    if partly and settings.unlabeled != "graph" and settings.landmarks_reason(n_samples) is not None:
        return None  # one pass for all folds would take what is in the gaps for labels
    if settings.landmarks_reason(n_samples) is not None and not (labelled and isinstance(metric.similarity, str)):
        return None  # one pass for all folds knows classes only
    if (settings.kernel.supervised or settings.kernel.takes == "table") and settings.landmarks_reason(n_samples) is not None:
        return None  # one pass for all folds would show a kernel the targets of validation rows; and it takes arrays
    served = settings.kernel.is_separable and settings.kernel.n_outputs is None
    return settings if served and settings.solver in ("auto", "spectral", "nystroem") else None


def _simplicity(given: Mapping[str, Any], bandwidth: Any, dimension: int) -> tuple[float, ...]:
    components, prototypes = given["n_components"], given["prototypes"]
    if components is None and isinstance(prototypes, str):
        components = dimension + (prototypes == "onehot")
    elif components is None:
        components = (np.shape(prototypes) or (0,))[-1]
    relative = median_factor(bandwidth) if isinstance(bandwidth, str) else None
    width = relative if relative is not None else _number(bandwidth)
    return _number(components), _number(given["regression_weight"]), float(relative is None), -width


def _number(value: Any) -> float:
    """What is no number counts as 0: its fit will tell."""
    return float(value) if isinstance(value, Real) else 0.0


def _weight_ratio(given: Mapping[str, Any]) -> Any:
    """Gamma / lambda, or "auto", which is a multiple of lambda as well."""
    gamma = given["collocation_weight"]
    return gamma if isinstance(gamma, str) else float(f"{gamma / given['regression_weight']:.12g}")


def _fingerprint(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for equal settings; a value that cannot be pickled, a lambda say, equals only itself."""
    return tuple((name, _fingerprint_of_one(values[name])) for name in sorted(values))


def _fingerprint_of_one(value: Any) -> Any:
    try:
        return joblib.hash(value)
    except Exception:  # pickling may fail in any way
        return id(value)
