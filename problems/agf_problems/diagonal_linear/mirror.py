"""The signed coordinate z in which a diagonal network's neurons are independent while the residual is fixed.

For beta = u v the sums p = u + v and q = u - v decouple: p' = v_z p, q' = -v_z q with v_z = -grad_beta L, so that
p(t) = p(0) exp(z), q(t) = q(0) exp(-z), z' = v_z, and beta = (p^2 - q^2)/4. From the usual start u = sqrt(2) alpha,
v = 0 this is beta = alpha^2 sinh(2 z). Everything is carried as log|p|, log|q|, so no alpha is too small; a balanced
start u = v (q = 0) is a case like the others: beta then never turns negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import agf
from agf.arrays import FloatArray, IntArray

Columns = IntArray | slice
#: Stands for the log of zero where it is subtracted from itself. Derived: the least finite number.
_LEAST = -float(np.finfo(np.float64).max)
#: Norm of (p + q, p - q) over that of (p, q), and its natural log. Derived: of the rotation by 45 degrees.
_ROOT, _LOG_ROOT = 2.0**0.5, 0.5 * float(np.log(2.0))


@dataclass(frozen=True)
class Mirror:
    """Where d coordinates started, and the maps between z, coefficients and weights.

    Parameters
    ----------
    log_p : float ndarray, shape (d,)
        Natural log of |u + v| at the start, -inf where zero.
    log_q : float ndarray, shape (d,)
        Natural log of |u - v| at the start, -inf where zero.
    sign_p : float ndarray, shape (d,)
        Sign of u + v, which gradient flow keeps.
    sign_q : float ndarray, shape (d,)
        Sign of u - v, likewise.
    """

    log_p: FloatArray
    log_q: FloatArray
    sign_p: FloatArray
    sign_q: FloatArray

    @classmethod
    def of(cls, init: agf.Init) -> Mirror:
        """From an initialization with rows (u, v)."""
        p = init.directions[:, 0] + init.directions[:, 1]
        q = init.directions[:, 0] - init.directions[:, 1]
        with np.errstate(divide="ignore"):
            return cls(np.log(np.abs(p)) + init.log_norms, np.log(np.abs(q)) + init.log_norms, np.sign(p), np.sign(q))

    @cached_property
    def log_product(self) -> FloatArray:
        """(d,) log |p q|, which is conserved: |u^2 - v^2|, 2 alpha^2 from the usual start."""
        return self.log_p + self.log_q

    def coefficients(self, z: FloatArray) -> FloatArray:
        """beta (d,) = (p^2 - q^2)/4."""
        p, q, large, gap = self._logs(z)
        with np.errstate(over="ignore"):
            return np.sign((p > q) - 0.5) * (-0.25 * np.exp(2.0 * large) * np.expm1(2.0 * gap))

    def squares(self, z: FloatArray) -> FloatArray:
        """rho^2 (d,) = u^2 + v^2 = (p^2 + q^2)/2, which is also d beta / d z."""
        _, _, large, gap = self._logs(z)
        with np.errstate(over="ignore"):
            return 0.5 * np.exp(2.0 * large) * (1.0 + np.exp(2.0 * gap))

    def log_norms(self, z: FloatArray) -> FloatArray:
        """log rho (d,)."""
        return self.polar(z)[1]

    def polar(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unit rows (u, v) / rho (..., d, 2) and log rho (..., d); coordinates that are exactly zero: 0 and -inf."""
        p, q = self.log_p + z, self.log_q - z
        large = np.maximum(p, q)
        finite = np.maximum(large, _LEAST)
        p = self.sign_p * np.exp(p - finite)
        q = self.sign_q * np.exp(q - finite)
        size = np.maximum(_ROOT * np.hypot(p, q), _ROOT)  # the larger part is 1, or both are missing
        rows = np.empty((*size.shape, 2))
        np.divide(p + q, size, out=rows[..., 0])
        np.divide(p - q, size, out=rows[..., 1])
        return rows, large + np.log(size) - 2.0 * _LOG_ROOT

    def height(self, z: FloatArray, signs: FloatArray) -> FloatArray:
        """(d,) log |p| where the sign is positive, log |q| where it is negative: grows at the rate |v_z| outwards."""
        return np.where(signs > 0, self.log_p + z, self.log_q - z)

    def depth(self, height: FloatArray, signs: FloatArray, columns: Columns = slice(None)) -> FloatArray:
        """z (m,) of these coordinates at that `height` (m,), for those that have a part of that sign."""
        return np.where(signs > 0, height - self.log_p[columns], self.log_q[columns] - height)

    def height_of_coefficient(self, sizes: FloatArray, columns: Columns = slice(None)) -> FloatArray:
        """(m,) height at which |beta| of these coordinates has these sizes (m,), which are positive, to any alpha.

        p^2 = 2|beta| + sqrt(4 beta^2 + p^2 q^2).
        """
        size = np.log(2.0 * sizes)
        return 0.5 * np.logaddexp(size, log_hypot(size, self.log_product[columns]))

    def height_of_norm(self, log_radius: float) -> FloatArray:
        """(d,) height at which rho = exp(log_radius), or least if that is more: p^2 = rho^2 + sqrt(rho^4 - p^2 q^2)."""
        rest = np.sqrt(-np.expm1(np.minimum(2.0 * (self.log_product - 2.0 * log_radius), 0.0)))
        return log_radius + 0.5 * np.log1p(rest)

    def _logs(self, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """log|p|, log|q|, the larger, and smaller minus larger (-inf where one part is missing)."""
        p, q = self.log_p + z, self.log_q - z
        large, small = np.maximum(p, q), np.minimum(p, q)
        gap = np.full_like(large, -np.inf)
        np.subtract(small, large, out=gap, where=small > -np.inf)
        return p, q, large, gap


def log_hypot(a: FloatArray, b: FloatArray) -> FloatArray:
    """log sqrt(e^2a + e^2b)."""
    return 0.5 * np.logaddexp(2.0 * a, 2.0 * b)
