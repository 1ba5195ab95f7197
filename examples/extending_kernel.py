"""A kernel of one's own, known by its name wherever kernels are named: 1 / (1 + |x - x'|^2 / scale^2)."""

from dataclasses import dataclass

import numpy as np

from outmetric import kernels


@dataclass(frozen=True, eq=False)
class Cauchy(kernels.ScalarKernel):
    """1 / (1 + |x - x'|^2 / scale^2): like a Gaussian near by, but it does not forget what is far."""

    scale: float = 1.0
    name = "mylab-cauchy"
    takes = "arrays"

    def values(self, X, Z):
        """Kernel values between two samples, (n, p)."""
        squared = (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1) - 2 * X @ Z.T
        return 1 / (1 + np.maximum(squared, 0) / self.scale**2)


kernels.register(Cauchy.name, Cauchy)
