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
from agf import sphere
from agf.arrays import FloatArray, IntArray
from agf.rounding import LOG_LEAST, RANK, SUM, TIED
from agf_problems.diagonal_linear.mirror import Mirror

#: log 4. Derived: p^2 and q^2 are four times the squares of the two halves of z.
_LOG_4 = float(np.log(4.0))
#: Coordinates over samples from which on the samples are followed. Cost: of factorizations of as many rows, against
#: maps from the one to the other at every evaluation.
_FEW = 8


def flow_of(x: FloatArray, y: FloatArray, init: agf.Init) -> agf.FlowSystem:
    """The flow in as many coordinates as there are neurons, or as independent samples where these are far fewer."""
    flow = MirrorFlow(x, y, init)
    return DualFlow(flow) if _wide(x) else flow


def _wide(x: FloatArray) -> bool:
    return x.shape[1] > _FEW * x.shape[0]


def _rotated(x: FloatArray) -> tuple[FloatArray | None, FloatArray]:
    """Orthonormal columns (n, r) that span those of x, and x in them (r, d); None where x stays as it is."""
    if _wide(x):
        basis, sizes, rows = np.linalg.svd(x, full_matrices=False)
        told = sizes > RANK * sizes[0]
        told[0] = True  # where nothing moves there still is a coordinate
        return np.asarray(basis[:, told], dtype=np.float64), sizes[told, None] * rows[told]
    if x.shape[0] > x.shape[1]:
        basis, triangle = qr(x, mode="economic", check_finite=False)
        return np.asarray(basis, dtype=np.float64), np.asarray(triangle, dtype=np.float64)
    return None, x


def least_loss(x: FloatArray, y: FloatArray, init: agf.Init) -> float:
    """Least squares |y - X beta|^2 / 2n over the signs that the flow from `init` can give each coordinate.

    u + v and u - v never change sign, and neither becomes or leaves 0: a coordinate that starts with u = v stays
    non-negative, one with u = -v non-positive, a zero one zero.
    """
    x = sphere.normalize(x.T).T  # a column in other units reaches the same
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
    X : float ndarray, shape (r, d)
        Inputs, in a basis of their span where this is smaller, or where there are far more coordinates than samples.
    n : int
        Samples.
    """

    contracts = True

    def __init__(self, x: FloatArray, y: FloatArray, init: agf.Init) -> None:
        self._mirror = Mirror.of(init)
        x = np.where(np.isfinite(init.log_norms), x, 0.0)  # a coordinate that is exactly zero never moves
        self.n = y.size
        basis, x = _rotated(x)
        inside = y if basis is None else basis.T @ y
        # |y|^2 outside the span of the columns
        self._out_of_reach = 0.0 if basis is None else float(np.sum((y - basis @ inside) ** 2))
        y = inside
        self.X, self._xt, self._y = x, np.ascontiguousarray(x.T), y
        self._xn = x / self.n
        self._diagonal = np.einsum("ij,ij->j", x, x) / self.n
        # rounding of the gradient of each coordinate, from |x_i| |y| / n
        self._rounding = SUM * np.sqrt(self._diagonal / self.n) * float(np.linalg.norm(y))
        self._groups = np.arange(x.shape[1])
        self._ones = np.ones(x.shape[1])
        # of the states that were last linearized: residuals, halves added up, and velocities
        self._known: tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None = None
        # log p^2 / 4 and log q^2 / 4 of each coordinate
        self._parts = 2.0 * self._mirror.log_p - _LOG_4, 2.0 * self._mirror.log_q - _LOG_4

    @property
    def groups(self) -> IntArray:
        return self._groups

    def start(self) -> FloatArray:
        return np.zeros(self.X.shape[1])

    def scale(self, y: FloatArray) -> FloatArray:
        return self._ones

    def velocity(self, y: FloatArray) -> FloatArray:
        return self.residual(y) @ self._xn

    def velocities(self, ys: FloatArray) -> FloatArray:
        return self.velocity(ys)

    def linearized(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        up, down = self._halves(ys)
        r, total = self._y - (up - down) @ self._xt, up + down
        velocities = r @ self._xn
        self._known = ys, r, total, velocities
        return velocities, self._falling * total[:, None, :]

    def gradients(self, ys: FloatArray) -> FloatArray:
        up, down = self._halves(ys)
        return np.asarray(-2.0 * (up + down) * ((self._y - (up - down) @ self._xt) @ self._xn))

    @cached_property
    def _falling(self) -> FloatArray:
        return -2.0 * self._gram

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
        return np.asarray(np.linalg.norm(gradients @ self._xt, axis=-1) / np.sqrt(self.n * np.max(self._diagonal)))

    @cached_property
    def _to_unit(self) -> FloatArray:
        """What takes an error in z to the e of `distance`; directions that move z by less than rounding are none."""
        return np.linalg.pinv(self._xt / np.sqrt(self.n), rcond=TIED) * np.sqrt(np.max(self._diagonal))

    def loss(self, y: FloatArray) -> float:
        return self.loss_and_rate(y)[0]

    def loss_rate(self, y: FloatArray) -> float:
        return self.loss_and_rate(y)[1]

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Both, without further work where `linearized` was last asked for at y alone."""
        known = self._known if self.loss_is_known(y) else None
        losses, rates = self.losses_and_rates(y) if known is None else self._losses_and_rates(*known[1:])
        return losses.item(), rates.item()

    def loss_is_known(self, y: FloatArray) -> bool:
        return self._known is not None and self._known[0].base is y

    def losses_and_rates(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        up, down = self._halves(ys)
        r = self._y - (up - down) @ self._xt
        return self._losses_and_rates(r, up + down, r @ self._xn)

    def _losses_and_rates(
        self, r: FloatArray, total: FloatArray, velocities: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """From residuals, halves added up, and velocities.

        Those that are rounding lose nothing: of a column 1e27 times as large as the next to grow, they would be all.
        """
        heard = np.where(np.abs(velocities) > self._rounding, velocities, 0.0)
        rates = -2.0 * np.add.reduce(total * heard**2, axis=-1)
        return (0.5 / self.n) * (np.add.reduce(r * r, axis=-1) + self._out_of_reach), rates

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
        targets = self._mirror.height_of_coefficient(sizes[moving], moving.nonzero()[0])
        folds = targets - self._mirror.height(y, velocity)[moving]
        return float(np.min(np.maximum(folds, 1.0) / speeds[moving]))

    def hessian(self, y: FloatArray) -> FloatArray:
        """D^(1/2) X^T X / n D^(1/2), D = d beta/dz: no coordinate ever grows away from another."""
        root = self.metric(y)
        return (root[:, None] * root) * self._gram

    def metric(self, y: FloatArray) -> FloatArray:
        """D^(1/2), the norms of the neurons."""
        return self.metrics(y)

    def metrics(self, ys: FloatArray) -> FloatArray:
        return np.exp(np.maximum(self._mirror.log_norms(ys), LOG_LEAST))

    def _loud(self, velocity: FloatArray) -> FloatArray:
        """Velocities of coordinates that can grow this way, 0 where they cannot and where they are rounding."""
        can = np.where(velocity > 0, self._mirror.log_p, self._mirror.log_q) > -np.inf
        return np.where(can & (np.abs(velocity) > self._rounding), velocity, 0.0)

    def snapshot(self, y: FloatArray) -> agf.Snapshot:
        return self.snapshots(y[None]).at(0)

    def snapshots(self, ys: FloatArray) -> agf.Snapshot:
        directions, log_norms = self._mirror.polar(ys)
        return agf.Snapshot(log_norms, directions, {"coefficients": self._mirror.coefficients(ys)})

    def residual(self, z: FloatArray) -> FloatArray:
        """y - X beta (..., n)."""
        up, down = self._halves(z)
        return self._y - (up - down) @ self._xt

    def _halves(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """p^2/4 and q^2/4 of each coordinate, (..., d): beta is their difference, and half of d beta/dz their sum."""
        (p, q), twice = self._parts, 2.0 * z
        return np.exp(p + twice), np.exp(q - twice)


class DualFlow(agf.FlowSystem):
    """w' = r, the residual, with z = X^T w / n: as many coordinates as independent samples, in their singular basis.

    However many neurons there are, their z stay in the span of the samples. Nearly equal columns are as well
    conditioned here as others: in z the difference of two, from which coefficients that nearly cancel are learned, is a
    difference of velocities, here it is a coordinate. The Jacobian -X D X^T / n, D = d beta/dz, is symmetric.

    Parameters
    ----------
    flow : MirrorFlow
        The same flow in z.
    """

    contracts = True

    def __init__(self, flow: MirrorFlow) -> None:
        self._flow = flow
        x = flow.X / flow.n
        # |change of z_i| is at most `spread` times the norm of the changes of w_k times `most`_k, for every i.
        most = np.max(np.abs(x), axis=1)
        most[most == 0.0] = 1.0
        spread = float(np.max(np.linalg.norm(x / most[:, None], axis=0)))
        self._scale = 1.0 / (most * max(spread, 1.0) * np.sqrt(most.size))
        self._x, self._xt = x, np.ascontiguousarray(x.T)
        self._longest = float(np.max(np.linalg.norm(x, axis=0)))  # a change of w moves no z by more than this times it
        self._groups = np.zeros(most.size, dtype=np.int64)

    def _z(self, w: FloatArray) -> FloatArray:
        """z (..., d)."""
        return w @ self._x

    @property
    def groups(self) -> IntArray:
        return self._groups

    def start(self) -> FloatArray:
        return np.zeros(self._scale.size)

    def scale(self, y: FloatArray) -> FloatArray:
        return self._scale

    def velocity(self, y: FloatArray) -> FloatArray:
        return self._flow.residual(self._z(y))

    def velocities(self, ys: FloatArray) -> FloatArray:
        return self.velocity(ys)

    def linearized(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        jacobians = -self._flow.n * (self._x * self._flow.metrics(self._z(ys))[:, None, :] ** 2) @ self._xt
        return self.velocities(ys), jacobians

    def gradients(self, ys: FloatArray) -> FloatArray:
        """-X D X^T r / n^2: the velocity is a gradient, but not that of the loss."""
        velocities, jacobians = self.linearized(ys)
        return np.asarray((jacobians @ velocities[..., None])[..., 0] / self._flow.n)

    def distance(self, error: FloatArray) -> float:
        """|error|, in units in which no z is off by more than 1 at 1; see `MirrorFlow.distance`."""
        return float(np.linalg.norm(error)) * self._longest

    def changes(self, gradients: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(gradients, axis=-1) / self._longest)

    def loss(self, y: FloatArray) -> float:
        return self._flow.loss(self._z(y))

    def loss_rate(self, y: FloatArray) -> float:
        return self._flow.loss_rate(self._z(y))

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        return self._flow.loss_and_rate(self._z(y))

    def losses_and_rates(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._flow.losses_and_rates(self._z(ys))

    def growth(self, y: FloatArray) -> float:
        return self._flow.growth(self._z(y))

    def due(self, y: FloatArray) -> float:
        return self._flow.due(self._z(y))

    def hessian(self, y: FloatArray) -> FloatArray:
        """X D X^T / n."""
        return -self.linearized(y[None])[1][0]

    def snapshot(self, y: FloatArray) -> agf.Snapshot:
        return self._flow.snapshot(self._z(y))

    def snapshots(self, ys: FloatArray) -> agf.Snapshot:
        return self._flow.snapshots(self._z(ys))
