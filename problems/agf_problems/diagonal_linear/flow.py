"""Gradient flow of a diagonal network in the signed coordinate z, for the reference trainer.

In z a dormant coordinate moves at an order-one rate whatever alpha is, its smallness is never represented, and
u^2 - v^2 is conserved exactly: in (u, v) float64 loses it once a coordinate has grown by eight orders of magnitude,
and with it every later change of sign.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import qr

import agf
from agf.arrays import FloatArray, IntArray
from agf.rounding import LOG_LEAST, RANK, SUM, TIED
from agf_problems.diagonal_linear.mirror import Mirror

#: log 4. Derived: p^2 and q^2 are four times the squares of the two halves of z.
_LOG_4 = float(np.log(4.0))
#: Coordinates over samples from which on steps are solved by singular vectors. Cost: these take some 20 n^2 N
#: operations, a factorization N^3 / 3 for each length of step.
_FEW = 8


def least_loss(x: FloatArray, y: FloatArray, init: agf.Init) -> float:
    """Least squares |y - X beta|^2 / 2n over the signs that the flow from `init` can give each coordinate.

    u + v and u - v never change sign, and neither becomes or leaves 0: a coordinate that starts with u = v stays
    non-negative, one with u = -v non-positive, a zero one zero.
    """
    mirror = Mirror.of(init)
    positive, negative = mirror.log_p > -np.inf, mirror.log_q > -np.inf
    free, fixed = x[:, positive & negative], positive != negative
    signed = x[:, fixed] * np.where(positive, 1.0, -1.0)[fixed]
    left, values, _ = np.linalg.svd(free, full_matrices=False)
    left = left[:, values > RANK * values.max(initial=0.0)]
    signed, rest = signed - left @ (left.T @ signed), y - left @ (left.T @ y)
    if signed.any():
        from scipy.optimize import nnls  # a third of the time of a first prediction, and rarely needed

        rest = rest - signed @ nnls(signed, rest)[0]
    return 0.5 * float(rest @ rest) / y.size


class MirrorFlow(agf.FlowSystem):
    """z' = X^T (y - X beta(z)) / n, with z (d,) = 0 at the start.

    An error in z is a relative error in a neuron's norm, so the error scale is 1 for every coordinate at every alpha.

    Parameters
    ----------
    y : float ndarray, shape (n,)
        Targets.
    init : agf.Init
        rows (u, v), balanced or not.

    Attributes
    ----------
    X : float ndarray, shape (n, d)
        Inputs.
    """

    contracts = True

    def __init__(self, x: FloatArray, y: FloatArray, init: agf.Init) -> None:
        self._mirror = Mirror.of(init)
        x = np.where(np.isfinite(init.log_norms), x, 0.0)  # a coordinate that is exactly zero never moves
        self._n = y.size
        self._out_of_reach = 0.0  # |y|^2 outside the span of the columns
        if x.shape[0] > x.shape[1]:
            basis, triangle = qr(x, mode="economic", check_finite=False)
            x = np.asarray(triangle, dtype=np.float64)
            inside = basis.T @ y
            self._out_of_reach = float(np.sum((y - basis @ inside) ** 2))
            y = inside
        self._x, self._xt, self._y = x, np.ascontiguousarray(x.T), y
        self._xn = x / self._n
        self._diagonal = np.einsum("ij,ij->j", x, x) / self._n
        # |x_i| |y| / n: what rounding of a gradient is relative to
        self._noise = np.sqrt(self._diagonal / self._n) * float(np.linalg.norm(y))
        self._groups = np.arange(x.shape[1])
        self._ones = np.ones(x.shape[1])
        # log p^2 / 4 and log q^2 / 4 of each coordinate
        self._parts = 2.0 * self._mirror.log_p - _LOG_4, 2.0 * self._mirror.log_q - _LOG_4

    @property
    def groups(self) -> IntArray:
        return self._groups

    def start(self) -> FloatArray:
        return np.zeros(self._x.shape[1])

    def scale(self, y: FloatArray) -> FloatArray:
        return self._ones

    def velocity(self, y: FloatArray) -> FloatArray:
        return self._residual(y) @ self._xn

    def velocities(self, ys: FloatArray) -> FloatArray:
        return self.velocity(ys)

    def jacobians(self, ys: FloatArray) -> FloatArray:
        return -self._gram * self._squares(ys)[:, None, :]

    @cached_property
    def _gram(self) -> FloatArray:
        return self._xt @ self._xn

    def distance(self, error: FloatArray) -> float:
        """|e| of the e (n,) with error = X^T e / n, in units in which no coordinate is off by more than 1 at |e| = 1.

        z = X^T w / n with w' = r, the residual, whose Jacobian -X D X^T / n is symmetric and has no positive
        eigenvalue: a difference of two w never grows.
        """
        return float(np.linalg.norm(self._to_unit @ error))

    def changes(self, gradients: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(gradients @ self._xt, axis=-1) / np.sqrt(self._n * np.max(self._diagonal)))

    @cached_property
    def _to_unit(self) -> FloatArray:
        """What takes an error in z to the e of `distance`; directions that move z by less than rounding are none."""
        return np.linalg.pinv(self._xt / np.sqrt(self._n), rcond=TIED) * np.sqrt(np.max(self._diagonal))

    def loss(self, y: FloatArray) -> float:
        return self.loss_and_rate(y)[0]

    def loss_rate(self, y: FloatArray) -> float:
        return self.loss_and_rate(y)[1]

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        losses, rates = self.losses_and_rates(y)
        return float(losses), float(rates)

    def losses_and_rates(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        r = self._residual(ys)
        velocity = r @ self._xn
        rates = -np.sum(self._squares(ys) * velocity**2, axis=-1)
        return (0.5 / self._n) * (np.sum(r * r, axis=-1) + self._out_of_reach), rates

    def growth(self, y: FloatArray) -> float:
        """Largest |grad_beta L| among the coordinates that can grow that way: d log|u + v|/dt, or of |u - v|.

        Of all, not of small ones: next to a near-copy none is small, and the two still trade places at this rate.
        """
        return float(np.abs(self._loud(self.velocity(y))).max(initial=0.0))

    def due(self, y: FloatArray) -> float:
        """Time until the first coordinate is as large as its own gradient asks for, or changes by a factor e."""
        velocity = self._loud(self.velocity(y))
        speeds, moving = np.abs(velocity), velocity != 0
        if not moving.any():
            return float(np.inf)
        sizes = speeds / np.where(self._diagonal > 0, self._diagonal, 1.0)
        folds = self._mirror.height_of_coefficient(sizes) - self._mirror.height(y, np.sign(velocity))
        return float(np.min(np.maximum(folds[moving], 1.0) / speeds[moving]))

    def hessian(self, y: FloatArray) -> FloatArray:
        """D^(1/2) X^T X / n D^(1/2), D = d beta/dz: no coordinate ever grows away from another."""
        root = self.metric(y)
        return (root[:, None] * root) * self._gram

    def hessian_root(self, y: FloatArray) -> FloatArray | None:
        """X D^(1/2) / sqrt(n), where there are many more coordinates than samples."""
        if _FEW * self._x.shape[0] > self._x.shape[1]:
            return None
        return self._x * (self.metric(y) / np.sqrt(self._n))

    def metric(self, y: FloatArray) -> FloatArray:
        """D^(1/2), the norms of the neurons."""
        return self.metrics(y)

    def metrics(self, ys: FloatArray) -> FloatArray:
        return np.exp(np.maximum(self._mirror.log_norms(ys), LOG_LEAST))

    def _loud(self, velocity: FloatArray) -> FloatArray:
        """Velocities of coordinates that can grow this way, 0 where they cannot and where they are rounding."""
        can = np.where(velocity > 0, self._mirror.log_p, self._mirror.log_q) > -np.inf
        return np.where(can & (np.abs(velocity) > SUM * self._noise), velocity, 0.0)

    def snapshot(self, y: FloatArray) -> agf.Snapshot:
        return self.snapshots(y[None])[0]

    def snapshots(self, ys: FloatArray) -> list[agf.Snapshot]:
        mirror = self._mirror
        directions, log_norms = mirror.polar(ys)
        arrays = log_norms, directions, mirror.coefficients(ys)
        return [agf.Snapshot(*row[:2], {"coefficients": row[2]}) for row in zip(*arrays, strict=True)]

    def _residual(self, z: FloatArray) -> FloatArray:
        p, q = self._parts
        return self._y - (np.exp(p + 2.0 * z) - np.exp(q - 2.0 * z)) @ self._xt

    def _squares(self, z: FloatArray) -> FloatArray:
        """d beta/dz (..., d), which is rho^2."""
        p, q = self._parts
        return 2.0 * (np.exp(p + 2.0 * z) + np.exp(q - 2.0 * z))
