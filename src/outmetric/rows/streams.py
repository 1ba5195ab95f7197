"""Rows that come block by block: from an iterator, a function that starts one anew, or calls of ``partial_fit``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from outmetric.foundation import Array, n_points, stack


class BlockStream:
    """Blocks (X, y) of a one-way iterator, or of a function that returns a fresh one; ``check`` is applied to each.

    Landmarks are drawn from all rows if the blocks can be read twice, otherwise from the first ones.
    """

    def __init__(self, blocks: Any, check: Callable[[Any, Any], tuple[Any, Array]]) -> None:
        self.restarts = callable(blocks)
        self.source = blocks if self.restarts else iter(blocks)
        self.check = check
        self.head: list[tuple[Any, Array]] = []

    def _read(self) -> Iterator[tuple[Any, Array]]:
        for block in self.source() if self.restarts else self.source:
            if not isinstance(block, tuple) or len(block) != 2:
                raise ValueError(f"a stream must give pairs (X, y) of blocks of rows; a {type(block).__name__} came.")
            if n_points(block[0]) == 0:
                continue
            yield self.check(*block)

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
            return _reservoir((X for X, _ in self._read()), count, rng)
        rows = sum(n_points(X) for X, _ in self.head)
        while rows < count and (block := next(self._read(), None)) is not None:
            self.head.append(block)
            rows += n_points(block[0])
        X = stack([X for X, _ in self.head])
        return X if rows <= count else X[np.sort(rng.choice(rows, count, replace=False))]

    def __iter__(self) -> Iterator[tuple[Any, Array]]:
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
