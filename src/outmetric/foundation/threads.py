"""Work in blocks on all cores: threads of our own, each with one BLAS thread, since NumPy's elementwise functions use one core."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

_lock = threading.Lock()
_limits: list[Any] = []  # one for all that are inside `one_blas_thread`
_inside = 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS with a single thread, for the whole process, until the last of those that asked for it has left.

    Limits that are set and restored by several threads on their own would be left behind.
    """
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            _limits.append(threadpool_limits(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limits.pop().restore_original_limits()


def in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """``map(function, items)`` in order, with as many threads as BLAS would use."""
    workers = blas_threads()
    if workers == 1:
        yield from map(function, items)
        return
    pending: deque[Future[Any]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
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
    if _inside:  # to look at all libraries takes longer than many a small product
        return 1
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
