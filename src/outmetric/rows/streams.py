"""Rows that come block by block: from an iterator, a function that starts one anew, or calls of ``partial_fit``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from outmetric.foundation import n_points, stack
from outmetric.rows.statistics import CheckedBlock


class BlockStream:
    """Blocks (X, y) or (X, y, weights) of a one-way iterator, or of a function that returns a fresh one; ``check`` is applied to
    each, and returns (X, y, weights or None).

    Landmarks are drawn from all rows if the blocks can be read twice, otherwise from the first ones.
    """

    def __init__(self, blocks: Any, check: Callable[..., CheckedBlock]) -> None:
        self.restarts = callable(blocks)
        self.source = blocks if self.restarts else iter(blocks)
        self.check = check
        self.head: list[CheckedBlock] = []

    def _read(self) -> Iterator[CheckedBlock]:
        for block in self.source() if self.restarts else self.source:
            if not isinstance(block, tuple) or len(block) not in (2, 3):
                raise ValueError(
                    f"a stream must give pairs (X, y) of blocks of rows, or (X, y, sample_weight); a {type(block).__name__} came."
                )
            if n_points(block[0]) == 0:
                continue
            checked = self.check(*block)
            if n_points(checked[0]):
                yield checked

    def begin(self) -> None:
        """Check the first block, which decides what the others must be like."""
        first = next(self._read(), None)
        if first is None:
            raise ValueError("the stream gave no rows.")
        if not self.restarts:
            self.head.append(first)

    def sample(self, count: int, rng: np.random.Generator) -> Any:
        """At most ``count`` rows of X."""
        if self.restarts:
            return _reservoir((X for X, _, _ in self._read()), count, rng)
        rows = sum(n_points(X) for X, _, _ in self.head)
        while rows < count and (block := next(self._read(), None)) is not None:
            self.head.append(block)
            rows += n_points(block[0])
        X = stack([X for X, _, _ in self.head])
        return X if rows <= count else X[np.sort(rng.choice(rows, count, replace=False))]

    def __iter__(self) -> Iterator[CheckedBlock]:
        head, self.head = self.head, []
        yield from head
        yield from self._read()


def _reservoir(blocks: Iterable[Any], count: int, rng: np.random.Generator) -> Any:
    """A uniform sample of ``count`` rows, in one pass."""
    kept: Any = None
    ranks = np.empty(0)
    for X in blocks:
        ranks = np.concatenate([ranks, rng.random(n_points(X))])
        kept = X if kept is None else stack([kept, X])
        if len(ranks) > count:
            best = np.sort(np.argpartition(ranks, count - 1)[:count])
            kept, ranks = kept[best], ranks[best]
    if kept is None:
        raise ValueError("the stream gave no rows.")
    return kept
