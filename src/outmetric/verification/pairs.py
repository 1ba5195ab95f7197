"""Pairs of rows that are the same or different: drawn from identities, split by these, and checked."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit

from outmetric.foundation import Array, check_integer, described, generator, is_missing, require_memory

SAME, DIFFERENT = 1, -1
# Of a pair that is drawn: two rows, what it is, and two identities, of eight bytes each.
PAIR_BYTES = 40


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows.

    Attributes
    ----------
    rows : int array of shape (n_pairs, 2)
        ``X[rows]`` are the pairs of an array X.
    y : int array of shape (n_pairs,)
        1 for the same identity, -1 for different ones.
    identities : array of shape (n_pairs, 2)
        Of both rows.
    """

    rows: Array
    y: Array
    identities: Array


def split_identities(identities: Any, test_size: float | int = 0.5, random_state: Any = None) -> tuple[Array, Array]:
    """Numbers of training and of test rows, with no identity among both.

    What is told of new people must be measured on new people: a metric knows those that it was learned from.

    Parameters
    ----------
    identities : array of shape (n,)
        Whose each row is.
    test_size : float or int
        Share or number of the *identities* that the test rows have.
    random_state : int, RandomState or None

    Returns
    -------
    train, test : int arrays
        In increasing order.

    Examples
    --------
    >>> from outmetric.verification import split_identities
    >>> train, test = split_identities(["a", "a", "b", "b", "c", "d"], test_size=2, random_state=0)
    >>> train.tolist(), test.tolist()
    ([0, 1, 2, 3], [4, 5])
    """
    names = check_identities(identities)
    count = len(np.unique(names))
    if count < 2:
        raise ValueError(f"all {len(names)} rows have the same identity; a split needs two or more.")
    whole = isinstance(test_size, Integral) and not isinstance(test_size, bool)
    if not (whole and 1 <= test_size < count) and not (isinstance(test_size, float) and 0 < test_size < 1):
        raise ValueError(
            f"test_size must be a share between 0 and 1, or a number of identities from 1 to {count - 1}; not "
            f"{described(test_size)}."
        )
    splitter = GroupShuffleSplit(1, test_size=test_size, random_state=random_state)
    train, test = next(splitter.split(names, groups=names))
    return np.sort(train), np.sort(test)


def draw_pairs(identities: Any, n_pairs: int | str | None = None, random_state: Any = None) -> Pairs:
    """Pairs of rows, as many of the same identity as of different ones, none of them twice.

    Parameters
    ----------
    identities : array of shape (n,)
        Whose each row is.
    n_pairs : int, "all" or None
        How many, an even number. None: all pairs of the kind of which there are fewer, and as many of the other. "all": all
        n (n - 1) / 2 pairs, of which most are different.
    random_state : int, RandomState or None
        The same number draws the same pairs.

    Returns
    -------
    Pairs
        First those of the same identity, then the others.

    Raises
    ------
    ValueError
        If there are no such pairs, or not as many.

    Examples
    --------
    >>> from outmetric.verification import draw_pairs
    >>> pairs = draw_pairs(["a", "a", "b", "c", "c"], random_state=0)
    >>> pairs.rows[:2].tolist(), pairs.y.tolist()
    ([[0, 1], [3, 4]], [1, 1, -1, -1])
    """
    names = check_identities(identities)
    distinct, codes = np.unique(names, return_inverse=True)
    order = np.argsort(codes, kind="stable")  # rows of one identity stand together, from their block's start to its end
    ends = np.cumsum(np.bincount(codes))[codes[order]]
    places, n = np.arange(len(order)), len(order)
    # Each row has its pairs with those behind it: of the same identity until its block ends, of others from there on.
    same, different = (places + 1, ends - places - 1), (ends, n - ends)
    available = int(same[1].sum()), int(different[1].sum())
    if not all(available):
        raise ValueError(
            f"there are {available[0]} pairs of the same identity and {available[1]} of different ones, of {n} rows and "
            f"{len(distinct)} identities; both kinds are needed."
        )
    counts = _how_many(n_pairs, available)
    require_memory(PAIR_BYTES * sum(counts), f"{sum(counts)} pairs", "give a smaller n_pairs")
    rng = generator(random_state)
    drawn = [_drawn(kind, total, count, rng) for kind, total, count in zip((same, different), available, counts, strict=True)]
    rows = np.sort(order[np.concatenate(drawn)], axis=1)
    return Pairs(rows, np.repeat([SAME, DIFFERENT], counts), names[rows])


def _how_many(n_pairs: Any, available: tuple[int, int]) -> tuple[int, int]:
    """Same and different pairs that are asked for."""
    if isinstance(n_pairs, str) and n_pairs == "all":
        return available
    if n_pairs is None:
        return min(available), min(available)
    if isinstance(n_pairs, str):
        raise ValueError(f"n_pairs must be an even number, 'all' or None, not {n_pairs!r}.")
    check_integer("n_pairs", n_pairs, least=2)
    if n_pairs % 2 or n_pairs > 2 * min(available):
        raise ValueError(
            f"n_pairs must be even and at most {2 * min(available)}, since there are {available[0]} pairs of the same identity and "
            f"{available[1]} of different ones; not {n_pairs}."
        )
    return n_pairs // 2, n_pairs // 2


def _drawn(partners: tuple[Array, Array], total: int, count: int, rng: np.random.Generator) -> Array:
    """Some of the pairs of each place with its partners (their first place, and how many there are), in increasing order."""
    firsts, each = partners
    numbers = np.arange(total) if count == total else np.sort(rng.choice(total, count, replace=False))
    before = np.cumsum(each) - each
    places = np.searchsorted(np.cumsum(each), numbers, side="right")
    return np.column_stack([places, firsts[places] + numbers - before[places]])


def check_identities(identities: Any) -> Array:
    """One identity for each row, none of them missing."""
    names = np.asarray(identities)
    if names.ndim != 1 or not len(names):
        raise ValueError(f"identities must be an array of shape (n,), one for each row; theirs is {names.shape}.")
    _check_known(names)
    return names


def _check_known(names: Array) -> None:
    missing = _missing(names.ravel())
    if len(missing):
        where = ", ".join(str(int(number)) for number in np.unravel_index(missing[0], names.shape))
        raise ValueError(f"{len(missing)} identities are missing, the first is identities[{where}]; leave those rows out.")


def _missing(values: Array) -> Array:
    """Where there is no value."""
    if values.dtype.kind == "O":
        return np.flatnonzero([is_missing(value) for value in values.tolist()])
    return np.flatnonzero(values != values)  # NaN and NaT


def check_same(y: Any, n_pairs: int) -> Array:
    """Which pairs are the same, from +1 and -1, from 1 and 0, or from truth values; both kinds must occur."""
    values = np.asarray(y)
    if values.shape != (n_pairs,):
        raise ValueError(f"y must tell of each of the {n_pairs} pairs whether it is the same: its shape is {values.shape}.")
    missing = _missing(values)
    if len(missing):
        raise ValueError(
            f"y has gaps (NaN or None) in {len(missing)} places, the first is y[{missing[0]}]; leave out pairs that nobody knows."
        )
    known = set(values.tolist() if values.dtype.kind == "O" else np.unique(values).tolist())
    if not all(isinstance(value, bool | int | float) and value in (-1, 0, 1) for value in known) or {-1, 0} <= known:
        some = ", ".join(sorted(str(value) for value in known)[:5])
        raise ValueError(f"y must hold 1 for the same and -1 (or 0) for different, or truth values; it holds {some}.")
    same = values.astype(np.float64) > 0
    if same.all() or not same.any():
        kind, other = ("the same", "different") if n_pairs and same.all() else ("different", "the same")
        raise ValueError(f"all {n_pairs} pairs are {kind}; pairs that are {other} are needed as well.")
    return same


def check_pair_identities(identities: Any, same: Array) -> Array:
    """Identities of both members of each pair, which agree with whether the pair is the same."""
    names = np.asarray(identities)
    if names.shape != (len(same), 2):
        raise ValueError(f"identities must be those of both members of each pair, of shape {(len(same), 2)}; not {names.shape}.")
    _check_known(names)
    wrong = np.flatnonzero((names[:, 0] == names[:, 1]) != same)
    if len(wrong):
        one, other = names[wrong[0]].tolist()
        told = "the same" if same[wrong[0]] else "different"
        raise ValueError(
            f"y and identities disagree on {len(wrong)} pairs: pair {wrong[0]} is of {one!r} and {other!r}, and said to be {told}."
        )
    return names
