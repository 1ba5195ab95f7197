"""Symmetric eigenproblems by LAPACK, without Python's lock, so that threads compute side by side.

SciPy's wrappers of these routines hold the lock while they compute; the routines themselves, which `scipy.linalg.cython_lapack`
lends to compiled code, are called here as they are. NumPy's `eigh` lets go of the lock, too, but makes eigenvectors, a third of the
work, which many need not know.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_lapack

from outmetric.foundation.arrays import Array


@cache
def _routine(name: str, n_arguments: int) -> Any:
    """A LAPACK routine; all of its arguments are addresses."""
    capsules: Any = cython_lapack.__pyx_capi__
    capsule = capsules[name]
    name_of, address_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.argtypes, name_of.restype = [ctypes.py_object], ctypes.c_char_p
    address_of.argtypes, address_of.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address_of(capsule, name_of(capsule)))


def _call(name: str, *arguments: bytes | int | Array) -> None:
    """Call a routine; letters, whole numbers and arrays, which it may overwrite, are given without the flag that comes last."""
    held, info = [_held(one) for one in arguments], ctypes.c_int()
    addresses = [one.ctypes.data if isinstance(one, np.ndarray) else ctypes.addressof(one) for one in held]
    _routine(name, len(arguments) + 1)(*addresses, ctypes.addressof(info))
    if info.value:
        raise np.linalg.LinAlgError(f"LAPACK's {name} says {info.value}; are all numbers finite?")


def _held(argument: bytes | int | Array) -> Any:
    """An argument in memory, as LAPACK wants it."""
    if isinstance(argument, bytes):
        return ctypes.c_char(argument)
    if isinstance(argument, int):
        return ctypes.c_int(argument)
    if not argument.flags.f_contiguous or argument.dtype not in (np.float64, np.intc):
        raise TypeError(f"an array of {argument.dtype} with strides {argument.strides} is none that LAPACK takes.")
    return argument


def _call_with_work(name: str, *arguments: bytes | int | Array) -> None:
    """The same for routines whose last arguments are memory to work in and its size, which they are asked for first."""
    size = np.empty(1)
    _call(name, *arguments, size, -1)
    work = np.empty(int(size[0]))
    _call(name, *arguments, work, len(work))


def tridiagonalise(matrix: Array) -> tuple[Array, Array, Array, Array]:
    """W = Q T Q' with T tridiagonal.

    Parameters
    ----------
    matrix : array of shape (n, n)
        W, symmetric; contiguous arrays of doubles are overwritten.

    Returns
    -------
    reflectors : array of shape (n, n), and scales : array of shape (n - 1,)
        Q as a product of reflectors, for `apply_reflectors`.
    diagonal, off_diagonal : arrays of shape (n,) and (n - 1,)
    """
    n = len(matrix)
    own = matrix if matrix.flags.f_contiguous else matrix.T  # which it equals
    reflectors = np.asarray(own, dtype=np.float64, order="F")
    diagonal, off_diagonal, scales = np.empty(n), np.empty(n - 1), np.empty(n - 1)
    _call_with_work("dsytrd", b"L", n, reflectors, n, diagonal, off_diagonal, scales)
    return reflectors, scales, diagonal, off_diagonal


def apply_reflectors(reflectors: Array, scales: Array, vectors: Array, *, transpose: bool = False) -> Array:
    """Q X, or Q'X, for the Q of `tridiagonalise` and vectors of shape (n, k)."""
    n, k = vectors.shape
    found = np.array(vectors, dtype=np.float64, order="F")
    if n > 1 and k:
        _call_with_work("dormtr", b"L", b"L", b"T" if transpose else b"N", n, k, reflectors, n, scales, found, n)
    return found


def tridiagonal_eigensystem(diagonal: Array, off_diagonal: Array) -> tuple[Array, Array]:
    """T = Z diag(spectrum) Z' by divide and conquer: eigenvalues, which ascend, and Z."""
    n = len(diagonal)
    spectrum, rest, vectors = diagonal.copy(), np.append(off_diagonal, 0.0), np.empty((n, n), order="F")
    work, whole_work = np.empty(1 + 4 * n + n * n), np.empty(3 + 5 * n, dtype=np.intc)
    _call("dstevd", b"V", n, spectrum, rest, vectors, n, work, len(work), whole_work, len(whole_work))
    return spectrum, vectors
