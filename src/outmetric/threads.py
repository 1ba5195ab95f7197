"""Work in blocks on all cores: threads of our own, each with one BLAS thread, since NumPy's elementwise functions use one core."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits


def in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """``map(function, items)`` in order, with as many threads as BLAS would use."""
    workers = blas_threads()
    if workers == 1:
        yield from map(function, items)
        return
    pending: deque[Future[Any]] = deque()
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def blas_threads() -> int:
    """How many threads matrix products may use here; follows OMP_NUM_THREADS and `threadpoolctl`."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
