"""Out-of-fold outputs of many maps: kernel ridge regression on landmark features.

With features Phi of all rows, K ~ Phi Phi', the map of model 2 with B = I and without collocation, fitted without the rows S, has
the outputs Phi theta with

    (Phi'Phi - Phi_S'Phi_S + I / lambda) theta = Phi'Y - Phi_S'Y_S,

a Cholesky factorisation for each fold and lambda. B = I is exact for one output, and with several close enough to tell which
kernel and which lambda suit the data. Rows with weights count as often as these say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from outmetric.foundation import Array

# Relative to the mean of the diagonal; features are compared, not kept, so that round-off in small directions does no harm.
JITTER = 1e-8

Folds = Sequence[tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Features:
    """Features Phi = K_xz L'^-1 with K_zz = L L', of all rows at some landmarks.

    Attributes
    ----------
    values : array of shape (n, p)
    factor : array of shape (p, p)
        L.
    """

    values: Array
    factor: Array

    @classmethod
    def of(cls, kernel_values: Array, landmark_values: Array) -> Features:
        """From the kernel values between all rows and the landmarks, and among the landmarks."""
        gram = landmark_values.copy()
        gram.flat[:: len(gram) + 1] += JITTER * np.trace(gram) / len(gram)
        factor = cholesky(gram, lower=True, check_finite=False)
        return cls(solve_triangular(factor, kernel_values.T, lower=True, check_finite=False).T, factor)

    def coefficients(self, parameters: Array) -> Array:
        """Those of the kernel functions at the landmarks."""
        return np.asarray(solve_triangular(self.factor, parameters, lower=True, trans="T", check_finite=False))


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What the maps of some regression weights make of rows that they were fitted without.

    Attributes
    ----------
    outputs : array of shape (weights, n, m)
    parameters : list of arrays of shape (weights, p, m)
        Of the maps of each fold.
    """

    outputs: Array
    parameters: list[Array]


def out_of_fold(
    features: Sequence[Array], targets: Array, folds: Folds, weights: Sequence[float], of_rows: Array | None = None
) -> OutOfFold:
    """Fit the maps of all regression weights without each fold.

    Parameters
    ----------
    features : arrays of shape (n, p)
        One for each fold, of all rows; or one for all of them.
    targets : array of shape (n, m)
    folds : (train, test) row numbers
    weights : regression weights
    of_rows : array of shape (n,), optional
        The rows' own weights.
    """
    n, m = targets.shape
    outputs = np.zeros((len(weights), n, m))
    parameters = []
    together = training_sums(features[0], targets, of_rows) if len(features) == 1 else None
    for fold, (train, test) in enumerate(folds):
        phi = features[0] if together is not None else features[fold]
        if together is not None:
            held = training_sums(phi[test], targets[test], None if of_rows is None else of_rows[test])
            gram, cross = together[0] - held[0], together[1] - held[1]
        else:
            gram, cross = training_sums(phi[train], targets[train], None if of_rows is None else of_rows[train])
        found = np.stack([solve(gram, cross, weight) for weight in weights])
        outputs[:, test] = phi[test] @ found
        parameters.append(found)
    return OutOfFold(outputs, parameters)


def training_sums(features: Array, targets: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Phi'Phi and Phi'Y, with the rows' weights."""
    counted = features if weights is None else weights[:, None] * features
    return counted.T @ features, counted.T @ targets


def solve(gram: Array, cross: Array, weight: float) -> Array:
    """(Phi'Phi + I / lambda)^-1 Phi'Y."""
    system = gram.copy()
    system.flat[:: len(system) + 1] += 1 / weight
    return np.asarray(cho_solve(cho_factor(system, lower=True, overwrite_a=True, check_finite=False), cross, check_finite=False))
