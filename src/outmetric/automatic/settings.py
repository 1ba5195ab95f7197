"""What a map is made of, and the features that it has on given rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outmetric.automatic.inputs import Distances, Inputs
from outmetric.automatic.ridge import Features
from outmetric.foundation import Array
from outmetric.kernels import KERNELS, Forest, ScalarKernel, Transformed

# Rows in a leaf, at least.
REAL_LEAF = 4


@dataclass(frozen=True)
class MapSetting:
    """How a map is made.

    Attributes
    ----------
    scaling : str or None
        None: features as they are, for forests.
    kernel : str
        Its name.
    bandwidth : float
        In median distances.
    regression_weight : float
    power : float
        Of `FeatureWeights`.
    input_metric : str or None
        "diagonal" or "full".
    n_rounds : int
        How often the learned metric was pulled back.
    parent : MapSetting or None
        Whose map was pulled back last.
    graph_weight : float
        Of the neighbour graph of all rows, those without labels among them; 0: these are ignored.
    """

    scaling: str | None
    kernel: str
    bandwidth: float = 1.0
    regression_weight: float = 1.0
    power: float = 0.0
    input_metric: str | None = None
    n_rounds: int = 0
    parent: MapSetting | None = None
    graph_weight: float = 0.0

    @property
    def family(self) -> tuple[Any, ...]:
        """The same for maps that differ in bandwidth and regression weight only."""
        return self.scaling, self.kernel, self.power, self.input_metric, self.n_rounds, self.graph_weight > 0

    @property
    def description(self) -> dict[str, Any]:
        """For people."""
        found: dict[str, Any] = {"kernel": self.kernel, "regression_weight": self.regression_weight}
        if self.scaling is not None:
            found |= {"scaling": self.scaling, "bandwidth": f"{self.bandwidth:g}*median"}
        if self.power:
            found["power"] = self.power
        if self.n_rounds:
            found |= {"input_metric": self.input_metric, "n_rounds": self.n_rounds}
        if self.graph_weight:
            found["graph_weight"] = self.graph_weight
        return found

    def with_weight(self, regression_weight: float) -> MapSetting:
        return replace(self, regression_weight=regression_weight)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows whose kernel values at the landmarks can be had for any bandwidth.

    Attributes
    ----------
    rows : array of shape (n, d)
        Scaled and transformed.
    landmarks : array
        Row numbers.
    kind : class of kernels
    distances : Distances or None
        None for a kernel that is no function of one distance.
    """

    rows: Array
    landmarks: Array
    kind: Any
    distances: Distances | None

    @classmethod
    def of(cls, inputs: Inputs, scaling: str, kernel: str, transform: Array | None = None) -> Prepared:
        """The rows of one scaling, perhaps with an input metric."""
        kind: Any = KERNELS[kernel]
        rows = inputs.scaled(scaling)
        if transform is None:
            distances = inputs.distances(scaling, kind.norm) if kind.norm else None
            return cls(rows, inputs.landmarks, kind, distances)
        rows = rows * transform if transform.ndim == 1 else rows @ transform
        distances = Distances.between(rows, inputs.landmarks, kind.norm) if kind.norm else None
        return cls(rows, inputs.landmarks, kind, distances)

    def kernel(self, bandwidth: float) -> Any:
        """The kernel, with a bandwidth in median distances."""
        if self.distances is not None:
            return self.kind.make(bandwidth * self.distances.median, {})
        return self.kind.make(f"{bandwidth!r}*median", {}).resolve(self.rows[self.landmarks], np.random.default_rng(0))

    def features(self, kernel: Any) -> Features:
        """Of all rows."""
        if self.distances is not None:
            values = kernel.profile(self.distances.values)
        else:
            values = kernel.values(self.rows, self.rows[self.landmarks])
        return Features.of(values, self.landmarks)


def forest_of(kind: str, n_trees: int, *, real: bool, n_jobs: int | None = None) -> Forest:
    """The forest whose kernel is tried.

    Of real targets, trees that grow until each row is alone in its leaf would call no two rows alike.
    """
    more = {"max_features": 0.5 if kind == "random" else 1.0, "min_samples_leaf": REAL_LEAF} if real else {}
    return Forest(n_estimators=n_trees, kind=kind, n_jobs=n_jobs, **more)  # type: ignore[arg-type]


def transformed(kernel: ScalarKernel, transform: Array | None) -> ScalarKernel:
    """The kernel on the rows before the transform."""
    return kernel if transform is None else Transformed(kernel, transform)
