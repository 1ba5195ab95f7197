"""Kernels on strings, for whole samples at once: k(x, x') = phi(x)' W phi(x'), where phi counts substrings.

Substrings are numbered, not hashed, so that any alphabet serves and values are exact; counts are sparse.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from outmetric.operators import Array

# Kernel values that are computed at once; until they are complete they take twice the place.
BLOCK_VALUES = 2**22


class StringKernel(ABC):
    """A kernel on strings: called with two samples of n and p strings it returns the (n, p) array of kernel values.

    A string that has none of the substrings in question (an empty one, say) has phi = 0.
    """

    normalize: bool
    bandwidth: float | None
    # Tells `Scalar` that this function takes samples.
    pairwise: ClassVar[bool] = False

    def __repr__(self) -> str:
        given = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]  # type: ignore[arg-type]
        changed = [f"{name}={reprlib.repr(value)}" for name, value, default in given if value != default]
        return f"{type(self).__name__}({', '.join(changed)})"

    @abstractmethod
    def _counts(self, strings: list[str]) -> tuple[Any, Any]:
        """The sparse matrices (phi, W), phi with a row for each string and a column for each substring."""

    def __call__(self, X: Any, Z: Any = None) -> Array:
        """Kernel values between the strings of X and those of Z (default: X)."""
        last = self._sample(X if Z is None else Z)
        first = last if Z is None or Z is X else self._sample(X, last)
        counts, weights = self._counts(first if last is first else first + last)
        weighted = counts @ weights
        scales, norms = self._scales(weighted, counts)
        begin = counts.shape[0] - len(last)
        others = counts[begin:].T.tocsr()
        values = np.empty((len(first), len(last)))
        step = max(1, BLOCK_VALUES // max(1, len(last)))
        for start in range(0, len(first), step):
            part = slice(start, min(start + step, len(first)))
            block = (weighted[part] @ others).toarray() * np.multiply.outer(scales[part], scales[begin:])
            if self.bandwidth is not None:
                nearness = np.minimum(block - np.add.outer(norms[part], norms[begin:]) / 2, 0)  # above by round-off at most
                block = np.exp(nearness / self.bandwidth**2)
            values[part] = block
        return values

    def diag(self, X: Any) -> Array:
        """k(x, x) for each string."""
        counts, weights = self._counts(self._sample(X))
        _, norms = self._scales(counts @ weights, counts)
        return norms if self.bandwidth is None else np.ones_like(norms)

    def _sample(self, sample: Any, others: Sequence[str] = ()) -> list[str]:
        """The strings of a sample, checked; ``others`` are those that they are compared with."""
        if isinstance(sample, str):
            raise ValueError("a string kernel takes samples, not a single string; for two strings s and t give it [s] and [t].")
        strings = list(sample)
        for index, string in enumerate(strings):
            if not isinstance(string, str):
                kind = type(string).__name__
                raise ValueError(f"a string kernel takes strings; number {index} is {reprlib.repr(string)}, a {kind}.")
        return strings

    def _scales(self, weighted: Any, counts: Any) -> tuple[Array, Array]:
        """What each phi is multiplied by, and its squared length after that."""
        squares = np.asarray(weighted.multiply(counts).sum(axis=1), dtype=np.float64).ravel()
        if not self.normalize:
            return np.ones_like(squares), squares
        present = squares > 0
        return np.divide(1, np.sqrt(squares), out=np.zeros_like(squares), where=present), present.astype(np.float64)

    def _check(self, **integers: tuple[Any, int]) -> None:
        """Raise ValueError unless these are integers and not below what is given with them, and all else is well."""
        for name, (value, least) in integers.items():
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise ValueError(f"{type(self).__name__}: {name} must be an integer >= {least}, not {value!r}.")
        width = self.bandwidth
        if width is not None and not (isinstance(width, Real) and not isinstance(width, bool) and 0 < width < np.inf):
            raise ValueError(f"{type(self).__name__}: bandwidth must be None or a finite number > 0, not {width!r}.")


@dataclass(frozen=True, repr=False)
class Spectrum(StringKernel):
    """Strings are alike if they have substrings in common, wherever these are: the spectrum kernel (Leslie et al. 2002).

    k(x, x') is the sum over all substrings u of this length of (how often u is in x) (how often u is in x'). Strings may have any
    lengths; those shorter than ``length`` have nothing in common with any, nor with themselves: k(x, x) = 0.

    Parameters
    ----------
    length : int
    blended : bool
        Count the substrings of all lengths up to this one.
    normalize : bool
        Divide by sqrt(k(x, x) k(x', x')), so that the length of strings does not matter.
    bandwidth : float, optional
        Take a Gaussian exp(-|phi(x) - phi(x')|^2 / (2 bandwidth^2)) of the distance that belongs to this kernel; normalised, no two
        strings are further apart than sqrt(2).

    Examples
    --------
    >>> Spectrum(2, normalize=False)(["banana"], ["banana", "bandana", "pepper"])
    array([[9., 7., 0.]])
    """

    length: int = 3
    blended: bool = False
    normalize: bool = True
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        self._check(length=(self.length, 1))

    def _sample(self, sample: Any, others: Sequence[str] = ()) -> list[str]:
        strings = super()._sample(sample)
        longest = max((len(string) for string in (others or strings)), default=self.length)
        if longest < (1 if self.blended else self.length):
            raise ValueError(
                f"Spectrum({self.length}) is zero for all training strings, the longest of which has {longest} letters; "
                "use a smaller length."
            )
        return strings

    def _counts(self, strings: list[str]) -> tuple[Any, Any]:
        found = _substrings(strings, self.length, shortest=1 if self.blended else self.length)
        _, _, counts = _count(len(strings), found.rows, found.numbers)
        return counts, scipy.sparse.eye_array(counts.shape[1], format="csr")


@dataclass(frozen=True, repr=False)
class WeightedDegree(StringKernel):
    """Strings of one length are alike if they agree at the same positions, the better the longer the stretches.

    The weighted degree kernel (Raetsch and Sonnenburg 2004): k(x, x') is the sum over d = 1, ..., ``degree`` and all positions i of
    beta_d [x and x' have the same d letters from i on], with beta_d = 2 (degree - d + 1) / (degree (degree + 1)). With shifts
    (Raetsch, Sonnenburg and Schoelkopf 2005), d letters of x from i on that are those of x' from i + s or i - s on count as well,
    with weight beta_d / (2 (s + 1)), for s = 1, ..., ``shift``.

    Parameters
    ----------
    degree : int
    shift : int
    position_weights : sequence of float, optional
        A number >= 0 for each position, by which agreement from there on is multiplied (by sqrt(w_i w_j) for positions i and j):
        where in the string it matters.
    normalize : bool
        Divide by sqrt(k(x, x) k(x', x')).
    bandwidth : float, optional
        Take a Gaussian exp(-|phi(x) - phi(x')|^2 / (2 bandwidth^2)) of the distance that belongs to this kernel; normalised, no two
        strings are further apart than sqrt(2).

    Notes
    -----
    The kernel with shifts is positive semi-definite for any number of them, since 1/2 + sum_{s <= S} cos(s t) / (s + 1) >= 0 for
    all t (Rogosinski and Szegoe 1928).

    Examples
    --------
    >>> WeightedDegree(2, normalize=False)(["GATTACA"], ["GATTACA", "GACTACA", "CATTAGA"]).round(3)
    array([[6.667, 5.333, 4.333]])
    """

    degree: int = 5
    shift: int = 0
    position_weights: Sequence[float] | None = None
    normalize: bool = True
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        self._check(degree=(self.degree, 1), shift=(self.shift, 0))
        if self.position_weights is not None:
            weights = np.array(self.position_weights, dtype=np.float64)
            if weights.ndim != 1 or not np.all((weights >= 0) & (weights < np.inf)) or not weights.any():
                raise ValueError(
                    "WeightedDegree: position_weights must be finite numbers >= 0, one for each position and not all of them zero; "
                    f"got {reprlib.repr(self.position_weights)}."
                )
            object.__setattr__(self, "position_weights", tuple(weights.tolist()))  # equal weights make equal kernels

    def _sample(self, sample: Any, others: Sequence[str] = ()) -> list[str]:
        strings = super()._sample(sample)
        weights = self.position_weights
        expected = len(weights if weights is not None else (others or strings or [""])[0])
        for index, string in enumerate(strings):
            if len(string) != expected:
                raise ValueError(
                    f"WeightedDegree compares strings position by position, and expects {expected} letters as in "
                    f"{'position_weights' if weights is not None else 'the first training string'}; number {index} has "
                    f"{len(string)}: {reprlib.repr(string)}. Cut or pad the strings, or use Spectrum."
                )
        return strings

    def _counts(self, strings: list[str]) -> tuple[Any, Any]:
        length = len(strings[0]) if strings else 0
        found = _substrings(strings, self.degree)
        # A column is a substring at a position. Numbers are such that the same substring one position further on comes next.
        keys, first, counts = _count(len(strings), found.rows, found.numbers * length + found.begins)
        begins, sizes = found.begins[first], found.lengths[first]
        weights = 2 * (self.degree - sizes + 1) / (self.degree * (self.degree + 1))
        relevance = np.ones(length) if self.position_weights is None else np.array(self.position_weights)
        columns, total = np.arange(len(keys)), scipy.sparse.diags_array(weights * relevance[begins], format="csr")
        for step in range(1, min(self.shift, length - 1) + 1):
            columns = columns[begins[columns] + step < length]
            places = np.searchsorted(keys, keys[columns] + step).clip(max=len(keys) - 1)
            there = keys[places] == keys[columns] + step
            one, other = columns[there], places[there]
            values = weights[one] * np.sqrt(relevance[begins[one]] * relevance[begins[other]]) / (2 * (step + 1))
            shifted = scipy.sparse.csr_array((values, (one, other)), shape=total.shape)
            total = total + shifted + shifted.T
        return counts, total


@dataclass(frozen=True, eq=False)
class _Substrings:
    """Every substring in a sample: the string it is in, where it begins, how long it is, and its number.

    Equal substrings have equal numbers, different ones different numbers.
    """

    rows: Array
    begins: Array
    lengths: Array
    numbers: Array


def _substrings(strings: list[str], longest: int, shortest: int = 1) -> _Substrings:
    sizes = np.array([len(string) for string in strings], dtype=np.intp)
    text = np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    alphabet, letters = np.unique(text, return_inverse=True)
    rows = np.repeat(np.arange(len(strings)), sizes)
    begins = np.arange(len(text)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places, numbers, known = np.arange(len(text)), np.zeros(len(text), dtype=np.int64), 0
    found = [(places[:0], places[:0], places[:0], numbers[:0])]
    for length in range(1, longest + 1):
        inside = begins[places] + length <= sizes[rows[places]]
        places, numbers = places[inside], numbers[inside]
        if not len(places):
            break
        # A substring is the one that is shorter by a letter, and that letter.
        distinct, numbers = np.unique(numbers * len(alphabet) + letters[places + length - 1], return_inverse=True)
        if length >= shortest:
            found.append((rows[places], begins[places], np.full(len(places), length), known + numbers))
            known += len(distinct)
    return _Substrings(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def _count(n: int, rows: Array, keys: Array) -> tuple[Array, Array, Any]:
    """The distinct keys in order, where each is first, and how often each is in each of n rows, as a sparse matrix."""
    distinct, first, columns = np.unique(keys, return_index=True, return_inverse=True)
    return distinct, first, scipy.sparse.csr_array((np.ones(len(keys)), (rows, columns)), shape=(n, len(distinct)))
