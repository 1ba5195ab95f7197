"""How many landmarks the final maps have: as many as the data reward."""

from __future__ import annotations

import numpy as np

from outmetric.automatic.members import Chosen, MemberFits
from outmetric.foundation import Budget, fits_in_memory
from outmetric.rows import EXACT_SAMPLES, LANDMARKS

# Numbers of landmarks, each twice the one before; a step, which takes several times as long, is taken if the loss falls by at least
# this share of it.
MOST, GAIN = 4000, 0.05
# No more than one for so many rows, so that maps take about as long as a forest of all rows.
SHARE = 6
# Arrays of n x n of exact fits, two side by side.
HELD = 4
# Rows that the numbers are compared on.
VALIDATION = 2000


def rewarding_landmarks(fits: MemberFits, best: Chosen, budget: Budget) -> int | None:
    """By validation with the best map; None for exact fits, of rows that are few and whose kernel matrices fit in memory."""
    n = len(fits.numbers if fits.chunks is None else fits.chunks.numbers)
    if fits.chunks is None and n <= EXACT_SAMPLES and fits_in_memory(8.0 * HELD * n * n):
        return None
    # Compared on rows that are in memory.
    order = np.random.default_rng(fits.seed).permutation(len(fits.numbers))
    others = order[~np.isin(order, fits.goal.indispensable)]
    test, train = others[:VALIDATION], np.setdiff1d(order, others[:VALIDATION])
    most = min(MOST, (n - VALIDATION) // SHARE, len(train))
    count, loss = LANDMARKS, np.inf
    while not budget.limited and 2 * count <= most and fits_in_memory(8.0 * 8 * count * count + 8.0 * n):
        loss = fits.validation_loss(best, count, train, test) if loss == np.inf else loss
        more = fits.validation_loss(best, 2 * count, train, test)
        if more > (1 - GAIN) * loss:
            break
        count, loss = 2 * count, more
    return count
