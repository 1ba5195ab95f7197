"""Anderson acceleration of fixed-point iterations on symmetric matrices, many at once."""

from __future__ import annotations

import numpy as np

from outmetric.foundation import Array

# Directions of the memory below this share of the largest are round-off.
NEGLIGIBLE = 1e-12


class Anderson:
    """The next points of a stack of iterations, each from its own last few (point, image) pairs.

    Plain alternation turns the eigenvectors of a very uneven metric slowly. The combination of images whose residual
    image - point is smallest takes out such slow modes.

    Parameters
    ----------
    count : int
        Iterations in the stack.
    size : int
        Rows of their matrices.
    depth : int
        How many pairs are remembered.
    """

    def __init__(self, count: int, size: int, depth: int) -> None:
        self.depth = depth
        self.points = np.zeros((depth, count, size * size))
        self.images = np.zeros_like(self.points)
        self.known = np.zeros(count, dtype=int)

    def propose(self, active: Array, points: Array, images: Array) -> Array:
        """Remember these pairs, (active, size, size), of some of the iterations; what may be better than the images."""
        self.known[active] = np.minimum(self.known[active] + 1, self.depth)
        for memory, newest in ((self.points, points), (self.images, images)):
            memory[:-1, active] = memory[1:, active]
            memory[-1, active] = newest.reshape(len(active), -1)
        if (self.known[active] == 1).all():
            return images  # there is nothing to combine them with
        remembered = (np.arange(1, self.depth) > self.depth - self.known[active][:, None])[:, :, None]
        residuals = (self.images - self.points)[:, active].transpose(1, 0, 2)
        changes = np.diff(residuals, axis=1) * remembered
        moves = np.diff(self.images[:, active].transpose(1, 0, 2), axis=1) * remembered
        weights = np.linalg.pinv(changes.transpose(0, 2, 1), rcond=NEGLIGIBLE) @ residuals[:, -1, :, None]
        guesses = (self.images[-1, active] - np.sum(weights * moves, axis=1)).reshape(images.shape)
        return np.asarray(guesses + guesses.transpose(0, 2, 1)) / 2

    def latest(self, active: Array, shape: tuple[int, ...]) -> Array:
        """The images remembered last."""
        return np.asarray(self.images[-1, active].reshape(shape))

    def forget(self, active: Array) -> None:
        """Begin anew for some of the iterations."""
        self.known[active] = 0
