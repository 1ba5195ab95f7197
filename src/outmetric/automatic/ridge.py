"""Out-of-fold outputs of many maps: kernel ridge regression on landmarks.

With the kernel values V of all rows at the landmarks, K ~ V K_zz^-1 V', the map of model 2 with B = I and without collocation,
fitted without the rows S, has the outputs V c with

    (V'V - V_S'V_S + K_zz / lambda) c = V'Y - V_S'Y_S,

a Cholesky factorisation for each fold and lambda. B = I is exact for one output, and with several close enough to tell which
kernel and which lambda suit the data. Rows with weights count as often as these say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from outmetric.foundation import Array

# On the diagonal of K_zz, for each kernel value, relative to its mean: K_zz / lambda must stand out from the round-off of V'V.
JITTER = 2e-12

Folds = Sequence[tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Features:
    """Kernel values at some landmarks.

    Attributes
    ----------
    values : array of shape (n, p)
        V, of all rows.
    gram : array of shape (p, p)
        K_zz, among the landmarks.
    """

    values: Array
    gram: Array

    @classmethod
    def of(cls, values: Array, landmarks: Array) -> Features:
        """From the values of all rows, of which some are landmarks."""
        gram = values[landmarks]
        gram.flat[:: len(gram) + 1] += JITTER * values.size * np.trace(gram) / len(gram)
        return cls(values, gram)


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What the maps of some regression weights make of rows that they were fitted without.

    Attributes
    ----------
    outputs : array of shape (weights, n, m)
    coefficients : list of arrays of shape (weights, p, m)
        Of the maps of each fold, at the landmarks.
    """

    outputs: Array
    coefficients: list[Array]


def out_of_fold(
    features: Sequence[Features], targets: Array, folds: Folds, weights: Sequence[float], of_rows: Array | None = None
) -> OutOfFold:
    """Fit the maps of all regression weights without each fold.

    Parameters
    ----------
    features : sequence of Features
        One for each fold; or one for all of them.
    targets : array of shape (n, m)
    folds : (train, test) row numbers
    weights : regression weights
    of_rows : array of shape (n,), optional
        The rows' own weights.
    """
    n, m = targets.shape
    outputs = np.zeros((len(weights), n, m))
    coefficients = []
    together = training_sums(features[0].values, targets, of_rows) if len(features) == 1 else None
    for fold, (train, test) in enumerate(folds):
        own = features[0] if together is not None else features[fold]
        values = own.values
        if together is not None:
            held = training_sums(values[test], targets[test], None if of_rows is None else of_rows[test])
            gram, cross = together[0] - held[0], together[1] - held[1]
        else:
            gram, cross = training_sums(values[train], targets[train], None if of_rows is None else of_rows[train])
        found = np.stack([solve(gram, cross, own.gram, weight) for weight in weights])
        outputs[:, test] = values[test] @ found
        coefficients.append(found)
    return OutOfFold(outputs, coefficients)


def training_sums(values: Array, targets: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """V'V and V'Y, with the rows' weights."""
    counted = values if weights is None else weights[:, None] * values
    return counted.T @ values, counted.T @ targets


def solve(squares: Array, cross: Array, gram: Array, weight: float) -> Array:
    """(V'V + K_zz / lambda)^-1 V'Y."""
    factor = cho_factor(squares + gram / weight, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, cross, check_finite=False))
