"""Does CONVERGED mean what it says? Random problems with extreme weights, through all solvers, beside maps in many digits.

A relative optimality g promises a map that is right to about sqrt(g), for the kernel matrix or one that differs by round-off: in
the norm of P the error is at most the norm of the whitened residual, whose square is at most g lambda <Y, F> (model 2: at most
twice the gap). So relative to F it is at most sqrt(g lambda <Y, F> / <F, P F>).
`OUTMETRIC_PROBLEMS` sets how many problems are tried.
"""

import os
import warnings

import numpy as np
import pytest
from precise import PreciseProblem

from outmetric import FixedKernelMetric, LearnedKernelMetric, Status

COUNT = int(os.environ.get("OUTMETRIC_PROBLEMS", "40"))
SOLVERS = ("spectral", "dense", "cg", "nystroem")
# Relative optimality that round-off hides, and how much further than its root a map may be off.
HIDDEN, SLACK = 1e-12, 5.0
# The size of maps that are zero but for round-off.
NOTHING = 1e-30


def random_problem(seed):
    """K, y, S (None: that of classes) and weights over many orders of magnitude."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 10))
    # Multiples of 1/256: products, and kernels that are made of them, have no round-off.
    X = np.rint(256 * rng.normal(size=(n, int(rng.integers(1, 4))))) / 256
    if rng.random() < 0.2:
        X[: n // 2] = X[n - n // 2 :]  # points that coincide, with targets of their own
    squares = ((X[:, None] - X[None]) ** 2).sum(-1)
    kernels = [
        lambda: np.exp(-squares / (2 * 10 ** rng.uniform(-1, 2) ** 2)),
        lambda: np.exp(-np.sqrt(squares) / 10 ** rng.uniform(-1, 2)),
        lambda: X @ X.T * 2.0 ** rng.integers(-12, 12),
        lambda: (1 + X @ X.T) ** 2,
    ]
    K = kernels[rng.integers(4)]()
    K = (K + K.T) / 2
    labels = rng.permutation(np.arange(n) % int(rng.integers(2, 4)))
    y, S = labels, None
    if rng.random() < 0.3:
        y = rng.normal(size=(n, 2))
        S = np.exp(-((y[:, None] - y[None]) ** 2).sum(-1))
    gamma, lam = 10 ** rng.uniform(-8, 14), 10 ** rng.uniform(-8, 8)
    return K, y, S, {"collocation_weight": gamma, "regression_weight": lam}, rng


def fitted(estimator, K, y):
    """None if it is refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return estimator.fit(K, y)
        except ValueError:
            return None


def all_fits(kind, K, y, S, settings):
    similarity = {} if S is None else {"similarity": S}
    for solver in SOLVERS:
        landmarks = {"n_landmarks": len(K), "landmarks": "uniform"} if solver == "nystroem" else {}
        model = fitted(kind(kernel="precomputed", solver=solver, **settings, **similarity, **landmarks), K, y)
        if model is not None and model.status_ is Status.CONVERGED:
            yield solver, model


def rounded(K):
    """K with the round-off of a sum of as many terms as it has rows."""
    noise = np.random.default_rng(0).uniform(-1, 1, K.shape)
    return K * (1 + len(K) * np.finfo(float).eps * (noise + noise.T))


def precise(model, K, y, S, settings):
    labels = np.unique(y, return_inverse=True)[1] if S is None else None
    Y = (y - y.mean(axis=0)) / y.std(axis=0) if labels is None else model.prototypes_[labels]
    S = S if labels is None else (labels[:, None] == labels) * 1.0
    return PreciseProblem(K, S, Y, settings["collocation_weight"], settings["regression_weight"])


def relative_error(problem, found, exact):
    """In the norm of P, in which the gap bounds it."""
    return problem.coupled_norm(found - exact) / (problem.coupled_norm(exact) + NOTHING)


def check(problem, found, model, exact_for, solver, K):
    """``exact_for`` gives the exact outputs of a problem."""
    exact = exact_for(problem)
    optimality = model.history_[-1].optimality
    # lambda <Y, F> is <F, P F> and what the smoothness of the map takes.
    share = max(1.0, problem.pull(exact) / (problem.coupled_norm(exact) ** 2 + NOTHING**2))
    error, allowed = relative_error(problem, found, exact), SLACK * np.sqrt((optimality + HIDDEN) * share)

    def sensitivity():
        return relative_error(problem, exact_for(problem.with_gram(rounded(K))), exact)

    assert error <= allowed or error <= allowed + 10 * sensitivity(), (solver, optimality)


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_converged_fit_of_model_2_is_as_exact_as_its_gap_says(seed):
    K, y, S, settings, rng = random_problem(seed)
    settings["output_penalty"] = "auto" if rng.random() < 0.3 else 10 ** rng.uniform(-8, 12)
    for solver, model in all_fits(LearnedKernelMetric, K, y, S, settings):
        penalty, start = model.output_penalty_, model.output_matrix_
        found = K @ model.coefficients_ @ start
        problem = precise(model, K, y, S, settings)
        check(problem, found, model, lambda one, rho=penalty, B=start: one.learned(rho, B), solver, K)


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_converged_fit_of_model_1_is_as_exact_as_its_optimality_says(seed):
    K, y, S, settings, rng = random_problem(seed)
    settings["metric_penalty"] = "auto" if rng.random() < 0.5 else 10 ** rng.uniform(-4, 4)
    settings["metric_ridge"] = 10 ** rng.uniform(-6, 2)
    for solver, model in all_fits(FixedKernelMetric, K, y, S, settings):
        L, rho, epsilon = model.metric_factor_, model.metric_penalty_, model.metric_ridge_
        problem = precise(model, K, y, S, settings)
        optimality = model.history_[-1].optimality
        check(problem, K @ model.coefficients_, model, lambda one, L=L: one.outputs_for(L), solver, K)
        # The gradient depends on the map, so it is not known better than that.
        assert problem.metric_gradient(L, rho, epsilon) <= SLACK * np.sqrt(optimality + HIDDEN), (solver, optimality)
