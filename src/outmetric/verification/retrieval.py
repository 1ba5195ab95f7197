"""How well the nearest rows of a gallery are those of the same identity: precision at k, average precision, R-precision.

With the gallery in the order of its distances from a query, and R rows of the query's identity in it,

    P@k = hits among the first k / k        R-precision = P@R        average precision = 1/R sum over hits of P@(rank of the hit).

Rows of equal distance have no order. They enter together in the average precision, as in scikit-learn, and count by their share of
hits in the others, which is the mean over all orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outmetric.foundation import Array, check_integer, n_points
from outmetric.verification.distances import distances_from
from outmetric.verification.pairs import check_identities


@dataclass(frozen=True, eq=False)
class RetrievalScores:
    """How well rows of the same identity are found, on average over queries that have any.

    Attributes
    ----------
    k : tuple of int
    precision : array, one for each k
        The share of the query's identity among the k nearest.
    mean_average_precision, r_precision : float
    n_queries : int
        Queries that count.
    n_unmatched : int
        Queries whose identity is not in the gallery; they are left out.
    average_precisions : array of shape (n_queries,)
        One for each query that counts, in their order.
    """

    k: tuple[int, ...]
    precision: Array
    mean_average_precision: float
    r_precision: float
    n_queries: int
    n_unmatched: int
    average_precisions: Array = field(repr=False)


def retrieval_scores(
    metric: Any,
    X: Any,
    identities: Any,
    *,
    gallery: Any = None,
    gallery_identities: Any = None,
    k: int | Sequence[int] = (1, 5, 10),
) -> RetrievalScores:
    """How well queries find rows of their identity in a gallery.

    Parameters
    ----------
    metric : fitted metric, Pipeline, function of two points, or None
        As for `PairVerifier`.
    X : data
        The queries.
    identities : array of shape (n,)
    gallery, gallery_identities : data and array, optional
        Among which neighbours are sought. Default: the queries, each of which does not find itself.
    k : int or sequence of int
        Where precision is asked for.

    Returns
    -------
    RetrievalScores

    Raises
    ------
    ValueError
        If no query has a row of its identity in the gallery, or the gallery has fewer rows than k.

    Notes
    -----
    All distances are computed, one query at a time.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outmetric import LearnedKernelMetric
    >>> from outmetric.verification import retrieval_scores
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = LearnedKernelMetric().fit(X[::2], y[::2])
    >>> found = retrieval_scores(metric, X[1::2], y[1::2], k=(1, 5))
    >>> bool(found.mean_average_precision > retrieval_scores(None, X[1::2], y[1::2]).mean_average_precision)
    True
    """
    among_themselves = gallery is None or gallery is X
    names = _identities(identities, X, "the queries")
    if gallery is None and gallery_identities is not None:
        raise ValueError("gallery_identities came without a gallery; give both, or none.")
    if gallery is not None and gallery_identities is None and not among_themselves:
        raise ValueError("a gallery came without gallery_identities; give both, or none.")
    others = names if gallery_identities is None else _identities(gallery_identities, gallery, "the gallery")
    rows = X if gallery is None else gallery
    counts = _counts(k, len(others) - among_themselves)
    distances = distances_from(metric, X, rows)
    found = []
    for number, name in enumerate(names):
        hits = others == name
        keep = np.arange(len(others)) != number if among_themselves else np.ones(len(others), dtype=bool)
        if hits[keep].any():
            found.append(_scores(distances(number)[keep], hits[keep], counts))
    if not found:
        raise ValueError(
            f"none of the {len(names)} queries has a row of its identity in the gallery{' besides itself' * among_themselves}."
        )
    means = np.mean(found, axis=0)
    return RetrievalScores(
        counts,
        means[2:],
        float(means[0]),
        float(means[1]),
        len(found),
        len(names) - len(found),
        np.array(found)[:, 0],
    )


def _scores(distances: Array, hits: Array, counts: tuple[int, ...]) -> list[float]:
    """Average precision, R-precision and precision at each k of one query."""
    order = np.argsort(distances, kind="stable")
    distances, hits = distances[order], hits[order]
    last = np.flatnonzero(np.append(np.diff(distances) > 0, True))
    # Of each run of equal distances the rows and the hits until its end.
    until, found = last + 1, np.cumsum(hits)[last]
    relevant = int(found[-1])
    average = float(np.sum(np.diff(found, prepend=0) * found / until) / relevant)
    ranks = [relevant, *counts]
    # Between the ends of two runs the mean number of hits over all orders is on the straight line.
    expected = np.interp(ranks, np.append(0, until), np.append(0, found))
    return [average, *(expected / ranks).tolist()]


def _counts(k: Any, largest: int) -> tuple[int, ...]:
    counts = tuple(k) if isinstance(k, Sequence | np.ndarray) else (k,)
    for count in counts:
        check_integer("k", count)
        if count > largest:
            raise ValueError(f"k = {count} is more than the {largest} rows that a query can find.")
    return counts


def _identities(identities: Any, X: Any, whose: str) -> Array:
    names = check_identities(identities)
    if len(names) != n_points(X):
        raise ValueError(f"there are {len(names)} identities of {n_points(X)} rows of {whose}; one for each is needed.")
    return names
