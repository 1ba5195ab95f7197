"""Kernels on strings, for whole samples at once: k(x, x') = phi(x)' W phi(x'), where phi counts substrings.

Substrings are numbered, not hashed, so that any alphabet serves and values are exact; counts are sparse.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from outmetric.foundation import Array, described, storable

# Kernel values that are computed at once, which take twice the place until they are complete; and entries of phi W.
BLOCK_VALUES, BLOCK_ENTRIES = 2**22, 2**20
# Numbers that are looked at for each place of a substring, and for each letter that is compared with another of its string.
PER_SUBSTRING, PER_LETTER = 16, 8


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

    @property
    @abstractmethod
    def _lengths(self) -> range:
        """The lengths of substrings that count."""

    @abstractmethod
    def _columns(self, found: _Substrings) -> Array:
        """The column of phi that each substring counts in."""

    @abstractmethod
    def _weighted(self, found: _Substrings) -> tuple[Array, Array, Array]:
        """(row, column, value) of the entries of phi W; those in one place add up."""

    @abstractmethod
    def _squares(self, strings: list[str]) -> Array:
        """phi(x)' W phi(x) for each string."""

    def __call__(self, X: Any, Z: Any = None) -> Array:
        """Kernel values between the strings of X and those of Z (default: X)."""
        Z = X if Z is None else Z
        return self.evaluator(Z)(X)

    def evaluator(self, Z: Any) -> Callable[[Any], Array]:
        """A function X -> kernel values between X and Z, for which the strings of Z have been read once and for all."""
        known = self._sample(Z)
        scales, norms = self._scales(known)
        found = _substrings(known, self._lengths)
        columns = self._columns(found)
        table, tables = _distinct(columns), found.tables
        counts = _sparse(found.rows, table, columns, np.ones(len(columns)), len(known)).T.tocsr()
        del found, columns  # they take more room than all that is kept

        def evaluate(X: Any) -> Array:
            strings = known if X is Z else self._sample(X, known)
            new_scales, new_norms = (scales, norms) if X is Z else self._scales(strings)
            values = np.empty((len(strings), len(known)))
            longest = max(map(len, strings), default=0)
            step = max(1, min(BLOCK_VALUES // max(1, len(known)), BLOCK_ENTRIES // max(1, self._entries(longest))))
            for start in range(0, len(strings), step):
                part = slice(start, start + step)
                # What is expensive, to weight substrings by where else they count, is done for the strings that are asked about.
                rows, places, weights = self._weighted(_substrings(strings[part], self._lengths, tables))
                weighted = _sparse(rows, table, places, weights, len(strings[part]))
                block = (weighted @ counts).toarray() * np.multiply.outer(new_scales[part], scales)
                if self.bandwidth is not None:
                    nearness = np.minimum(block - np.add.outer(new_norms[part], norms) / 2, 0)  # above by round-off at most
                    block = np.exp(nearness / self.bandwidth**2)
                values[part] = block
            return values

        return evaluate

    def cost(self, strings: Any) -> float:
        """About how many numbers it takes to compare a string with these."""
        known = self._sample(strings)
        longest, letters = max(map(len, known), default=0), sum(map(len, known))
        substrings = letters * self._n_lengths(longest) + self._entries(longest)
        return float(PER_SUBSTRING * substrings + PER_LETTER * letters * self._n_shifts(longest))

    def _entries(self, letters: int) -> int:
        """How many entries phi W may have for a string of so many letters."""
        return letters * self._n_lengths(letters) * (2 * self._n_shifts(letters) + 1)

    def _n_lengths(self, longest: int) -> int:
        return min(self._lengths.stop - 1, longest)

    def _n_shifts(self, longest: int) -> int:
        """By how many letters a substring may be shifted."""
        return 0

    def diag(self, X: Any) -> Array:
        """k(x, x) for each string."""
        _, norms = self._scales(self._sample(X))
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

    def _scales(self, strings: list[str]) -> tuple[Array, Array]:
        """What each phi is multiplied by, and its squared length after that."""
        squares = self._squares(strings)
        if not self.normalize:
            return np.ones_like(squares), squares
        present = squares > 0
        return np.divide(1, np.sqrt(squares), out=np.zeros_like(squares), where=present), present.astype(np.float64)

    def _check(self, **integers: tuple[Any, int]) -> None:
        """Raise ValueError unless these are integers and not below what is given with them, and all else is well."""
        for name, (value, least) in integers.items():
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise ValueError(f"{type(self).__name__}: {name} must be an integer >= {least}, not {described(value)}.")
        width = self.bandwidth
        if width is not None and not (isinstance(width, Real) and not isinstance(width, bool) and 0 < width < np.inf):
            raise ValueError(f"{type(self).__name__}: bandwidth must be None or a finite number > 0, not {described(width)}.")


@storable("Spectrum")
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
        if longest < self._lengths.start:
            raise ValueError(
                f"Spectrum({self.length}) is zero for all training strings, the longest of which has {longest} letters; "
                "use a smaller length."
            )
        return strings

    @property
    def _lengths(self) -> range:
        return range(1 if self.blended else self.length, self.length + 1)

    def _columns(self, found: _Substrings) -> Array:
        return found.numbers

    def _weighted(self, found: _Substrings) -> tuple[Array, Array, Array]:
        return found.rows, found.numbers, np.ones(len(found.rows))

    def _squares(self, strings: list[str]) -> Array:
        found = _substrings(strings, self._lengths)
        counts = _sparse(found.rows, _distinct(found.numbers), found.numbers, np.ones(len(found.rows)), len(strings))
        return np.asarray(counts.power(2).sum(axis=1), dtype=np.float64)


@storable("WeightedDegree")
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

    @property
    def _lengths(self) -> range:
        return range(1, self.degree + 1)

    def _n_shifts(self, longest: int) -> int:
        return min(self.shift, longest)

    def _columns(self, found: _Substrings) -> Array:
        return found.numbers * found.longest_string + found.begins

    def _weighted(self, found: _Substrings) -> tuple[Array, Array, Array]:
        size = found.longest_string
        betas, roots = self._beta(found.lengths), self._roots(size)
        columns, entries = self._columns(found), []
        for step in range(-min(self.shift, size), min(self.shift, size) + 1):
            inside = (found.begins + step >= 0) & (found.begins + step < size)
            begins = found.begins[inside]
            values = betas[inside] * roots[begins] * roots[begins + step] / (2 * (abs(step) + 1) if step else 1)
            entries.append((found.rows[inside], columns[inside] + step, values))
        rows, shifted, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        return rows, shifted, values

    def _squares(self, strings: list[str]) -> Array:
        size = len(strings[0]) if strings else 0
        letters, roots = _code_points(strings).reshape(len(strings), size), self._roots(size)
        squares = np.zeros(len(strings))
        for step in range(min(self.shift, size - 1) + 1):
            begins = np.arange(size - step)
            ends = np.where(letters[:, step:] == letters[:, : size - step], size - step, begins)
            # How many letters from here on are those ``step`` further on.
            stretches = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1] - begins
            squares += self._betas(np.minimum(stretches, self.degree)) @ (roots[begins] * roots[begins + step]) / (step + 1)
        return squares

    def _beta(self, length: Any) -> Any:
        degree = float(self.degree)  # or twice of it might not be an integer of NumPy's
        return 2 * (degree - length + 1) / (degree * (degree + 1))

    def _betas(self, length: Any) -> Any:
        """Their sum up to this length."""
        degree = float(self.degree)
        return length * (2 * degree - length + 1) / (degree * (degree + 1))

    def _roots(self, size: int) -> Array:
        """Of the weights of positions."""
        return np.ones(size) if self.position_weights is None else np.sqrt(self.position_weights)


@dataclass(frozen=True, eq=False)
class _Substrings:
    """Every substring in a sample: the string it is in, where it begins, how long it is, and its number.

    ``tables`` tell how they are numbered: the letters in order, then for each length the substrings in order, each as the number of
    the one without its last letter, times the number of letters, plus that of the letter.
    """

    rows: Array
    begins: Array
    lengths: Array
    numbers: Array
    tables: list[Array]
    longest_string: int


def _substrings(strings: list[str], wanted: range, known: list[Array] | None = None) -> _Substrings:
    """All substrings of these lengths, or all that have a number in known tables."""
    sizes = np.array([len(string) for string in strings], dtype=np.intp)
    text = _code_points(strings)
    rows = np.repeat(np.arange(len(strings)), sizes)
    begins = np.arange(len(text)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    tables = [_distinct(text) if known is None else known[0]]
    letters, familiar = _find(tables[0], text)
    places, numbers = np.arange(len(text)), np.zeros(len(text), dtype=np.int64)
    found = [(places[:0],) * 4]
    offset = 0
    for length in range(1, wanted.stop if known is None else len(known)):
        inside = begins[places] + length <= sizes[rows[places]]
        places, numbers = places[inside], numbers[inside]
        last = places + length - 1
        pairs = numbers * len(tables[0]) + letters[last]
        tables.append(_distinct(pairs) if known is None else known[length])
        numbers, there = _find(tables[-1], pairs)
        # What begins with an unknown substring is unknown as well.
        there &= familiar[last]
        places, numbers = places[there], numbers[there]
        if length in wanted:
            found.append((rows[places], begins[places], np.full(len(places), length), offset + numbers))
            offset += len(tables[-1])
        if not len(tables[-1]):
            break
    of_rows, of_begins, of_lengths, of_numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return _Substrings(of_rows, of_begins, of_lengths, of_numbers, tables, int(sizes.max(initial=0)))


def _code_points(strings: list[str]) -> Array:
    """All letters, string after string, as integers."""
    return np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)


def _sparse(rows: Array, table: Array, columns: Array, values: Array, n: int) -> Any:
    """A sparse matrix with n rows and a column for each number in an ordered table, without entries in other columns."""
    places, there = _find(table, columns)
    return scipy.sparse.csr_array((values[there], (rows[there], places[there])), shape=(n, len(table)))


def _distinct(values: Array) -> Array:
    """Each value once, in order; NumPy's own looks them up in a table of hashes, which takes several times as long."""
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _find(table: Array, values: Array) -> tuple[Array, Array]:
    """Where each value is in an ordered table, and whether it is there at all."""
    places = np.searchsorted(table, values)
    there = places < len(table)
    there[there] = table[places[there]] == values[there]
    return places, there
