"""Work in blocks on all cores: threads of our own, each with one BLAS thread, since NumPy's elementwise functions use one core.

This is the one place that decides about threads. They help where blocks are large and do not wait for each other: kernel values,
products with a kernel matrix, sums over rows. They hurt where BLAS brings its own to small matrices, and NumPy's BLAS and SciPy's
have a pool each: so inside our threads both have a single one. SciPy's wrappers of LAPACK hold Python's lock, so that threads would
wait for each other: what takes long is called without it (`outmetric.foundation.lapack`).
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

# Seconds that a thread may stay in Python while others wait.
TURN = 5e-4

_lock = threading.Lock()
_limits: list[Any] = []  # one for all that are inside `one_blas_thread`
_inside = 0
_sides, _before = 0, 0.0  # how many are inside `side_by_side`, and how long turns were before
_own = threading.local()  # ``workers``: how many threads `in_threads` has here although BLAS has one
_known: tuple[int, Any] = (-1, None)  # the BLAS libraries, and how many modules were loaded when they were looked for


def _libraries() -> Any:
    """All BLAS libraries of the process. To look for them takes longer than many a product, so this is done after imports only."""
    global _known
    modules, libraries = _known
    if modules != len(sys.modules):
        libraries = ThreadpoolController().select(user_api="blas")
        _known = len(sys.modules), libraries
    return libraries


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS with a single thread, for the whole process, until the last of those that asked for it has left.

    Limits that are set and restored by several threads on their own would be left behind.
    """
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            _limits.append(_libraries().limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limits.pop().restore_original_limits()


@contextmanager
def side_by_side() -> Iterator[None]:
    """For threads that compute in turns in Python and in compiled code: BLAS with a single thread, and short turns in Python.

    A thread that comes back from compiled code would wait 5 ms for another that is in Python, longer than most of what it computes.
    """
    global _before, _sides
    with one_blas_thread():
        with _lock:
            _sides += 1
            if _sides == 1:
                _before = sys.getswitchinterval()
                sys.setswitchinterval(min(TURN, _before))
        try:
            yield
        finally:
            with _lock:
                _sides -= 1
                if _sides == 0:
                    sys.setswitchinterval(_before)


@contextmanager
def own_threads() -> Iterator[None]:
    """BLAS with a single thread, but `in_threads` with as many as ever, for small products between large blocks of work."""
    workers = blas_threads()
    before = getattr(_own, "workers", 1)
    with one_blas_thread():
        _own.workers = workers
        try:
            yield
        finally:
            _own.workers = before


def in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """``map(function, items)`` in order, with as many threads as BLAS would use."""
    workers = blas_threads()
    if workers == 1 or (isinstance(items, Sized) and len(items) == 1):
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
    if _inside:
        return int(getattr(_own, "workers", 1))
    return max((library.num_threads for library in _libraries().lib_controllers), default=1)
