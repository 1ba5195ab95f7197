"""How many n x n arrays does a fit hold at its peak, and is it refused when they do not fit?"""

import tracemalloc

import numpy as np
import pytest
from problems import class_problem, gram_operators, matrix_problem, points

from outmetric import FixedKernelMetric, LearnedKernelMetric, kernels
from outmetric.foundation import memory
from outmetric.problem import coupling as targets
from outmetric.solvers.direct import CholeskySolver as Dense

MIXED = kernels.Separable("rbf") + kernels.Callable(lambda X, Z: (X @ Z.T)[:, :, None, None] * np.eye(2), 2, pairwise=False)


@pytest.mark.parametrize("model", [FixedKernelMetric, LearnedKernelMetric])
def test_at_most_three_square_arrays(model):
    n = 1200
    X, y = points(n), np.arange(n) % 4
    model().fit(X[:50], y[:50])  # imports and caches
    tracemalloc.start()
    fitted = model().fit(X, y)
    fitted.transform(X[:10])
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * 8 * n**2
    assert kept < 0.2 * 8 * n**2


CASES = {
    "separable": ({}, False, 3),
    "diagonal": ({"bandwidth": [1.0, 2.0]}, False, 5),
    "dense similarity": ({}, True, 6),
    "mixed": ({"kernel": MIXED}, False, 11),
}


def data(n, real):
    return points(n), points(n)[:, :2] if real else np.arange(n) % 3


@pytest.mark.parametrize("case", CASES)
def test_the_guard_counts_arrays(case, monkeypatch):
    settings, real, arrays = CASES[case]
    monkeypatch.setattr("outmetric.foundation.memory.available_memory", lambda: 8.0 * 120**2 * arrays - 1)
    monkeypatch.setattr("outmetric.estimators.settings.fits_in_memory", lambda n_bytes: True)
    with pytest.raises(MemoryError, match=rf"{arrays} arrays of 120 x 120"):
        FixedKernelMetric(**settings).fit(*data(120, real))


@pytest.mark.parametrize("case", ["separable", "diagonal", "dense similarity"])
def test_the_guard_counts_enough(case):
    settings, real, arrays = CASES[case]
    n = 700
    X, y = data(n, real)
    FixedKernelMetric(solver="cg", **settings).fit(X[:50], y[:50])
    tracemalloc.start()
    FixedKernelMetric(solver="cg", **settings).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n**2 * arrays


def no_memory(monkeypatch):
    monkeypatch.setattr("outmetric.foundation.memory.available_memory", lambda: 1000.0)


def test_every_other_large_array_is_guarded(monkeypatch):
    no_memory(monkeypatch)
    problem = matrix_problem(n=30)
    with pytest.raises(MemoryError, match=r"solver='dense' with 30 samples and 2 outputs.*solver='cg'"):
        Dense(gram_operators(problem.X, 2)["diagonal"][0], class_problem(n=30).coupling, problem.Y)
    with pytest.raises(MemoryError, match=r"real targets.*sparse"):
        targets.gaussian_similarity(problem.Y)
    with pytest.raises(MemoryError, match="similarity='class'"):
        problem.coupling.factor(problem.Y)


def test_a_control_group_limits(tmp_path):
    for name, text in {"memory.max": "1000\n", "memory.current": "700\n", "memory.stat": "anon 1\ninactive_file 200\n"}.items():
        (tmp_path / name).write_text(text)
    assert memory._control_group_memory(tmp_path) == 500
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._control_group_memory(tmp_path) is None
    assert memory._control_group_memory(tmp_path / "none") is None


def test_there_is_some_memory():
    assert memory.available_memory() > 1e6
