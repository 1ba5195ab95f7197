"""The two models, one object each: penalty and its automatic scale, minimiser over the metric, optimality, redundant weights.

    Model 1   L = -rho (M + epsilon I)^-1                 `FixedKernelModel`    (eq:solution_L_general, with our ridge)
    Model 2   B = (E / (2 rho))^(1/3),  E = B C'K C B     `LearnedKernelModel`  (F held fixed, where the problem is jointly convex)

What is learned beside the map, L or B, is called ``learned`` here. Everything works on stacks of matrices (..., m, m), with
penalties of shape (...,): a search asks for many settings at once, and a single fit is a stack of none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from outmetric.foundation import Array, check_number
from outmetric.problem.objective import duality_gap, fixed_kernel_penalty, learned_kernel_penalty, metric_gradient
from outmetric.problem.targets import target_rank

# Without ridge: L this many times its first size means that the objective has no minimum.
DIVERGENCE_FACTOR = 1e8
# Eigenvalues of B C'K C B below this share of the largest have lost half of their digits.
UNEVEN = 1e-8


class Step(Protocol):
    """What an exact coefficient step gives."""

    @property
    def scatter(self) -> Array:
        """M(F), the residual scatter, (..., m, m)."""

    @property
    def squared_norm(self) -> Any:
        """|f|^2, (...,)."""

    @property
    def energy(self) -> Array | None:
        """C'K C, for separable kernels, (..., m, m)."""

    @property
    def coupled_norm(self) -> Any:
        """<F, P F>, (...,)."""

    @property
    def residual(self) -> float:
        """Norm of what is left of the whitened equation."""

    @property
    def relative_residual(self) -> float:
        """The same, relative to its right-hand side."""


@dataclass(frozen=True, eq=False)
class Factors:
    """What a coefficient step is solved for: the metric factor L, and B if it takes the place of the kernel's own matrix."""

    metric_factor: Array
    output_matrix: Array | None = None


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """One of the paper's two models with its penalties in absolute terms."""

    # The parameters that are its penalties; whether its optimality is a duality gap; and whether B is learned.
    weights: ClassVar[tuple[str, ...]]
    certifies: ClassVar[bool]
    learns_output_matrix: ClassVar[bool]

    @classmethod
    @abstractmethod
    def check(cls, given: Mapping[str, Any]) -> None:
        """Raise ValueError for penalties that are none."""

    @classmethod
    @abstractmethod
    def scaled(cls, given: Mapping[str, Any], regression_weight: Any, squares: Array, identity_energy: Callable[[], Any]) -> Self:
        """With penalties in absolute terms.

        Parameters
        ----------
        given : mapping of the names in ``weights`` to what users give: numbers, "auto", or sequences of these for a stack
        regression_weight : float, or array for a stack
            lambda.
        squares : array of shape (m, m)
            Y'Y.
        identity_energy : function without arguments
            tr(C'K C) of the map with B = I.
        """

    @classmethod
    @abstractmethod
    def essence(cls, given: Mapping[str, Any], regression_weight: float) -> tuple[Any, ...]:
        """What distances depend on beside targets and gamma/lambda, up to a factor: one weight of each model is redundant."""

    @classmethod
    @abstractmethod
    def residual_tolerance(cls, tol: float) -> float:
        """How exact the coefficient step must be, relatively, for an optimality of ``tol``."""

    @abstractmethod
    def start(self, scatter: Array) -> Array:
        """L or B to begin with; ``scatter`` is that of the zero map, lambda Y'Y."""

    @abstractmethod
    def of_zero_map(self, scatter: Array) -> Array:
        """The best L or B for the zero map, whose scatter this is."""

    @abstractmethod
    def factors(self, learned: Array) -> Factors:
        """What the coefficient step is solved for."""

    @abstractmethod
    def output_weights(self, learned: Array) -> Array:
        """The symmetric A that weighs the outputs of a kernel k(x, x') I: L'L or B."""

    @abstractmethod
    def penalty(self, learned: Array) -> Any:
        """The term of the objective that depends on L or B alone."""

    @abstractmethod
    def optimality(self, learned: Array, step: Step, objective: Any) -> Any:
        """Zero if and only if map and L or B are stationary."""

    @abstractmethod
    def minimiser(self, learned: Array, step: Step) -> Array:
        """L or B that minimises the objective for the map just solved for."""

    @abstractmethod
    def admits(self, learned: Array) -> Any:
        """Whether L or B has the definiteness that every minimiser has."""

    def is_bounded(self, scatter: Array, typical: float) -> bool:
        """Whether the objective has a minimum over L or B; ``typical`` is the size of the zero map's scatter."""
        return True

    def fit_term(self, learned: Array, step: Step) -> Any:
        """The collocation and regression terms together, 1/2 tr(A M) with A = L'L."""
        factor = self.factors(learned).metric_factor
        return 0.5 * np.sum((np.swapaxes(factor, -1, -2) @ factor) * step.scatter, axis=(-2, -1))

    def objective(self, learned: Array, step: Step) -> Any:
        """The functional, from what an exact coefficient step gives."""
        return self.fit_term(learned, step) + 0.5 * step.squared_norm + self.penalty(learned)

    def take(self, some: Array) -> Self:
        """Those for some of a stack of settings."""
        return replace(self, **{field.name: getattr(self, field.name)[some] for field in fields(self)})


@dataclass(frozen=True, eq=False)
class FixedKernelModel(Model):
    """Model 1: a given kernel, and L, which is negative definite; only A = L'L enters distances.

    Parameters
    ----------
    metric_penalty : float or array
        rho.
    metric_ridge : float or array
        epsilon.
    """

    metric_penalty: Any
    metric_ridge: Any
    weights = ("metric_penalty", "metric_ridge")
    certifies = False
    learns_output_matrix = False

    @classmethod
    def check(cls, given: Mapping[str, Any]) -> None:
        check_number("metric_penalty", given["metric_penalty"], positive=True, word="auto")
        check_number("metric_ridge", given["metric_ridge"])

    @classmethod
    def scaled(cls, given: Mapping[str, Any], regression_weight: Any, squares: Array, identity_energy: Callable[[], Any]) -> Self:
        # In units of tr(lambda Y'Y)/m, the automatic penalty makes L about -I for the zero map.
        unit = regression_weight * np.trace(squares) / target_rank(squares)
        ridge = unit * np.asarray(given["metric_ridge"], dtype=np.float64)
        return cls(_or_automatic(given["metric_penalty"], lambda: unit + ridge), ridge)

    @classmethod
    def essence(cls, given: Mapping[str, Any], regression_weight: float) -> tuple[Any, ...]:
        # The map depends on rho^2/lambda and the relative ridge only; automatic penalties follow lambda.
        penalty = given["metric_penalty"]
        automatic = isinstance(penalty, str)
        strength = (regression_weight, penalty) if automatic else f"{2 * np.log(penalty) - np.log(regression_weight):.10f}"
        return strength, given["metric_ridge"]

    @classmethod
    def residual_tolerance(cls, tol: float) -> float:
        return 0.01 * tol

    def start(self, scatter: Array) -> Array:
        return metric_minimiser(scatter, self.metric_penalty, self.metric_ridge)

    def of_zero_map(self, scatter: Array) -> Array:
        return self.start(scatter)

    def factors(self, learned: Array) -> Factors:
        return Factors(learned)

    def output_weights(self, learned: Array) -> Array:
        return np.asarray(learned @ learned)  # L is symmetric

    def penalty(self, learned: Array) -> Any:
        return fixed_kernel_penalty(learned, self.metric_penalty, self.metric_ridge)

    def optimality(self, learned: Array, step: Step, objective: Any) -> Any:
        gradient = metric_gradient(learned, step.scatter, _each(self.metric_penalty), _each(self.metric_ridge))
        relative = np.linalg.norm(gradient, axis=(-2, -1)) / (self.metric_penalty * np.sqrt(gradient.shape[-1]))
        # What an inexact coefficient step costs is quadratic in its residual.
        return np.maximum(relative, step.relative_residual**2)

    def minimiser(self, learned: Array, step: Step) -> Array:
        return metric_minimiser(step.scatter, self.metric_penalty, self.metric_ridge)

    def admits(self, learned: Array) -> Any:
        # Without ridge this is the paper's own update, step by step.
        return (np.linalg.eigvalsh(learned)[..., -1] < 0) & np.asarray(self.metric_ridge > 0)

    def is_bounded(self, scatter: Array, typical: float) -> bool:
        return bool(self.metric_ridge > 0 or np.linalg.eigvalsh(scatter)[0] * DIVERGENCE_FACTOR > typical)


@dataclass(frozen=True, eq=False)
class LearnedKernelModel(Model):
    """Model 2: the kernel k(x, x') B with a learned B >= 0.

    Parameters
    ----------
    output_penalty : float or array
        rho.
    """

    output_penalty: Any
    weights = ("output_penalty",)
    certifies = True
    learns_output_matrix = True

    @classmethod
    def check(cls, given: Mapping[str, Any]) -> None:
        check_number("output_penalty", given["output_penalty"], positive=True, word="auto")

    @classmethod
    def scaled(cls, given: Mapping[str, Any], regression_weight: Any, squares: Array, identity_energy: Callable[[], Any]) -> Self:
        # The automatic penalty makes B about as large as the identity, since B = C'K C/(2 rho) at the optimum.
        return cls(_or_automatic(given["output_penalty"], lambda: identity_energy() / (2 * target_rank(squares))))

    @classmethod
    def essence(cls, given: Mapping[str, Any], regression_weight: float) -> tuple[Any, ...]:
        # The map depends on lambda^3/rho only.
        penalty = given["output_penalty"]
        automatic = isinstance(penalty, str)
        return ((regression_weight, penalty) if automatic else f"{3 * np.log(regression_weight) - np.log(penalty):.10f}",)

    @classmethod
    def residual_tolerance(cls, tol: float) -> float:
        return float(0.1 * np.sqrt(tol))  # the gap is quadratic in the residual

    def start(self, scatter: Array) -> Array:
        return np.broadcast_to(np.eye(scatter.shape[-1]), scatter.shape).copy()

    def of_zero_map(self, scatter: Array) -> Array:
        return np.zeros_like(scatter)

    def factors(self, learned: Array) -> Factors:
        return Factors(np.eye(learned.shape[-1]), learned)

    def output_weights(self, learned: Array) -> Array:
        return learned

    def penalty(self, learned: Array) -> Any:
        return learned_kernel_penalty(learned, self.output_penalty)

    def optimality(self, learned: Array, step: Step, objective: Any) -> Any:
        assert step.energy is not None
        gap = duality_gap(learned, step.energy, _each(self.output_penalty), step.residual)
        # A weak map changes the objective little: its gap is compared with lambda <Y, F> / 2, what the map takes off that of the
        # zero map before B is paid for. At the optimum at least half of it remains.
        scale = np.minimum(objective, (step.squared_norm + step.coupled_norm) / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(scale > 0, gap / scale, np.where((gap == 0) & (scale == 0), 0.0, np.inf))

    def minimiser(self, learned: Array, step: Step) -> Array:
        assert step.energy is not None
        return output_minimiser(learned, step.energy, self.output_penalty)

    def admits(self, learned: Array) -> Any:
        return np.linalg.eigvalsh(learned)[..., 0] >= 0


def metric_minimiser(scatter: Array, metric_penalty: Any, metric_ridge: Any) -> Array:
    """L = -rho (M + epsilon I)^-1."""
    spectrum, basis = np.linalg.eigh(scatter)
    # M is a sum of squares: the clip cuts round-off only.
    inverse = -np.asarray(metric_penalty)[..., None] / (spectrum.clip(min=0) + np.asarray(metric_ridge)[..., None])
    return np.asarray((basis * inverse[..., None, :]) @ np.swapaxes(basis, -1, -2))


def output_minimiser(output_matrix: Array, energy: Array, output_penalty: Any) -> Array:
    """(B C'K C B / (2 rho))^(1/3)."""
    spectrum, basis = np.linalg.eigh(output_matrix @ energy @ output_matrix)
    # The cube root makes 1e-5 of round-off: small eigenvalues are had as squares of the singular values of (C'K C)^(1/2) B.
    uneven = spectrum[..., 0] < UNEVEN * spectrum[..., -1]
    if np.any(uneven):
        energies, directions = np.linalg.eigh(energy[uneven])
        root = np.sqrt(energies.clip(min=0))[..., :, None] * np.swapaxes(directions, -1, -2)
        _, values, rows = np.linalg.svd(root @ output_matrix[uneven])
        spectrum[uneven], basis[uneven] = values**2, np.swapaxes(rows, -1, -2)
    root = np.cbrt(spectrum.clip(min=0) / (2 * np.asarray(output_penalty)[..., None]))
    return np.asarray((basis * root[..., None, :]) @ np.swapaxes(basis, -1, -2))


def _each(penalty: Any) -> Any:
    """A penalty for each matrix of a stack."""
    return np.asarray(penalty)[..., None, None]


def _or_automatic(given: Any, automatic: Callable[[], Any]) -> Any:
    """The penalties that are given, and automatic ones where the word "auto" is."""
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        found = automatic() if any(isinstance(one, str) for one in given) else np.zeros(len(given))
        return np.array([auto if isinstance(one, str) else one for one, auto in zip(given, found, strict=True)], dtype=np.float64)
    return automatic() if isinstance(given, str) else float(given)
