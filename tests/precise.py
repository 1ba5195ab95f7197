"""The maps of both models in many digits, by the definitions: what certificates of double precision are judged by."""

from __future__ import annotations

import mpmath
import numpy as np

DIGITS = 50


class PreciseProblem:
    """K, S, Y and the weights; everything below follows from C + P F A = lambda Y A with F = K C B."""

    def __init__(self, K, S, Y, gamma, lam):
        self.given = S, Y, gamma, lam
        with mpmath.workdps(DIGITS):
            self.K, self.Y, self.lam = _matrix(K), _matrix(Y), mpmath.mpf(lam)
            similarity, n = _matrix(S), len(K)
            self.P = -2 * mpmath.mpf(gamma) * similarity
            for i in range(n):
                self.P[i, i] += 2 * mpmath.mpf(gamma) * sum(similarity[i, j] for j in range(n)) + self.lam
            self.R = mpmath.cholesky(self.P)
            spectrum, self.V = mpmath.eigsy(self.R.T * self.K * self.R)
            self.spectrum = [max(value, mpmath.mpf(0)) for value in spectrum]
            self.wanted = self.V.T * (mpmath.inverse(self.R) * self.Y) * self.lam

    def with_gram(self, K):
        """The same with another kernel matrix."""
        return PreciseProblem(K, *self.given)

    def coupled_norm(self, F):
        """sqrt(<F, P F>)."""
        with mpmath.workdps(DIGITS):
            whitened = self.R.T * _matrix(F)
            return float(mpmath.mnorm(whitened, "f"))

    def pull(self, F):
        """lambda <Y, F>."""
        with mpmath.workdps(DIGITS):
            return float(self.lam * mpmath.fsum(y * f for y, f in zip(self.Y, _matrix(F), strict=True)))

    def residual(self, A):
        """V'D of the whitened residual D + W D A = lambda R^-1 Y."""
        values, U = mpmath.eigsy(A)
        turned = self.wanted * U
        for j in range(turned.rows):
            for k in range(turned.cols):
                turned[j, k] /= 1 + self.spectrum[j] * max(values[k], mpmath.mpf(0))
        return turned * U.T

    def energy(self, D):
        return D.T * mpmath.diag(self.spectrum) * D

    def outputs(self, D, A):
        return self.K * self.R * self.V * D * A

    def learned(self, rho, start):
        """F of model 2, by the alternation from ``start`` until nothing changes."""
        with mpmath.workdps(DIGITS):
            rho, B = mpmath.mpf(rho), _matrix(start)
            for _ in range(1000):
                image = _cube_root(B * self.energy(self.residual(B)) * B / (2 * rho))
                change, B = mpmath.mnorm(image - B, "f"), image
                if change <= mpmath.mpf("1e-12") * mpmath.mnorm(B, "f"):
                    break
            return _array(self.outputs(self.residual(B), B))

    def outputs_for(self, L):
        """F of model 1 with a kernel k I, for this L."""
        with mpmath.workdps(DIGITS):
            return _array(self._outputs_for(_matrix(L)))

    def _outputs_for(self, L):
        A = L.T * L
        return self.outputs(self.residual(A), A)

    def metric_gradient(self, L, rho, epsilon):
        """L (M + epsilon I) + rho I of model 1 at the exact map for L, relative to rho I."""
        with mpmath.workdps(DIGITS):
            L, rho, epsilon = _matrix(L), mpmath.mpf(rho), mpmath.mpf(epsilon)
            F, identity = self._outputs_for(L), mpmath.eye(L.rows)
            M = F.T * self.P * F - self.lam * (F.T * self.Y + self.Y.T * F) + self.lam * self.Y.T * self.Y
            return float(mpmath.mnorm(L * (M + epsilon * identity) + rho * identity, "f") / (rho * mpmath.sqrt(L.rows)))


def _matrix(values):
    return mpmath.matrix(np.asarray(values, dtype=float).tolist())


def _array(values):
    return np.array(values.tolist(), dtype=float)


def _cube_root(matrix):
    values, basis = mpmath.eigsy(matrix)
    return basis * mpmath.diag([mpmath.cbrt(max(value, mpmath.mpf(0))) for value in values]) * basis.T
