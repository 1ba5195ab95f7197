"""Does BLAS have its threads again when several fits in threads of their own have ended?"""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from threadpoolctl import threadpool_info, threadpool_limits

from outmetric import LearnedKernelMetric, MetricSearchCV
from outmetric.baselines import ITML, LMNN

X, y = load_iris(return_X_y=True)
X, y = X[::6], y[::6]
MODELS = [
    LMNN(max_iter=30, tol=1.0),
    ITML(random_state=0),
    MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [0.5, 1.0], "regression_weight": [1.0, 10.0]}, cv=3),
]


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("mixed", [False, True])
def test_four_fits_at_once_leave_blas_as_it_was(mixed):
    with threadpool_limits(limits=3, user_api="blas"):
        before = blas_threads()
        for model in MODELS:
            jobs = [clone(one) for one in (MODELS if mixed else [model] * 4) for _ in range(2)]
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda job: job.fit(X, y), jobs))
            assert blas_threads() == before


@pytest.mark.parametrize("targets", [y, y[:3]])
def test_turns_of_threads_are_as_long_as_they_were(targets):
    """Whether fits succeed or not."""
    before = sys.getswitchinterval()

    def fit(_):
        with nullcontext() if targets is y else pytest.raises(ValueError, match="inconsistent"):
            clone(MODELS[-1]).set_params(n_jobs=2).fit(X, targets)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fit, range(4)))
    assert sys.getswitchinterval() == before
