"""Gradient flow of a linear network at any initialization scale, in factors with logarithmic sizes or in its weights.

With rows z_h = (w_h, a_h) the flow is Z' = Z Q, Q = [[0, M^T], [M, 0]], M = Syx - A W Sxx. Raw float64 weights cannot
hold a mode of size 1e-30 beside one of size 1, because hidden units mix modes: `agf.FactoredFlow` does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agf import FactoredFlow, FlowSystem, Init, Snapshot
from agf.arrays import FloatArray, IntArray
from agf.rounding import EPS, FAINT, LOG_LEAST
from agf.sphere import norms, polar
from agf_problems.linear.moments import Moments, hessian

Features = Callable[[FloatArray], dict[str, FloatArray]]
#: Raw weights are used for gradient flow while every mode stays above this fraction of the weights that hold it. Cost:
#: they are faster; their relative error of 1e-6 is then 1e-3 of the mode (measured: at 1e-4 times are off by 2e-4, at
#: 1e-8 by 10 %).
SEPARATE = 1e-3


def smallest_dormant(moments: Moments, init: Init) -> float:
    """Log of the size of the slowest mode when the first one is learned: alpha^(1 - sigma_K/sigma_1) of it.

    Raw weights lose the mode when this is below the log of their relative error, at best 1e-16.
    """
    rates = moments.sigma[: min(moments.rank, init.width)]
    if rates.size == 0:
        return 0.0
    target = float(np.linalg.norm(moments.target, 2))
    log_alpha = float(np.max(init.log_norms)) - 0.5 * float(np.log(target))
    return min(log_alpha, 0.0) * (1.0 - float(rates[-1] / rates[0]))


def smallest_norm(init: Init) -> float:
    """Log of the smallest norm of a hidden unit that is not zero, at most 0."""
    return float(np.min(init.log_norms, initial=0.0, where=np.isfinite(init.log_norms)))


class ModeFlow(FactoredFlow):
    """Gradient flow in y = (O, lam, N), time unit 1/sigma_1 of Syx, weights in the basis of the moments.

    With fewer hidden units than modes only the H columns of O that the weights span are carried (the others would grow
    without bound); else O is square and starts in the growth directions, so that independent blocks stay apart exactly.

    Parameters
    ----------
    moments : Moments
        The data.
    init : Init
        Where to start, any scale.
    features : Features
        Called as features(A W), in the user's basis, for snapshots.
    """

    def __init__(self, moments: Moments, init: Init, features: Features) -> None:
        self.moments, self.init = moments, init
        self.features = features
        self.d = moments.sxx.shape[0]
        weights, log_size = moments.start(init)
        basis = _growth_basis(moments)
        hidden = basis.T @ weights.T
        if init.width < moments.rank:
            q, hidden = np.linalg.qr(hidden)
            basis = basis @ q
        self.narrow = init.width < moments.rank and len(moments.blocks) > 1
        super().__init__(basis, hidden, log_size, float(moments.sigma[0]) or 1.0)

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Both from the same weights, those of the last velocity where it was asked for here."""
        if self._known is None or self._known[0] is not y:
            loss, rate = self.losses_and_rates(y)
            return float(loss), float(rate)
        _, weights, pushed, mixing = self._known
        push = (pushed @ mixing).ravel()  # Q Z, from Q O
        return float(self.moments.losses(self._map(weights))), -float(push @ push) / self.unit

    def loss_is_known(self, y: FloatArray) -> bool:
        """Whether the last velocity was asked for here."""
        return self._known is not None and self._known[0] is y

    def losses_and_rates(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both at states ys (..., N), (...,) each."""
        weights = self.weights(ys)
        beta = self._map(weights)
        push = self.push(self.moments.residual(beta), weights)
        return self.moments.losses(beta), -np.sum(push**2, axis=(-2, -1)) / self.unit

    def scale(self, y: FloatArray) -> FloatArray:
        """Components far below 1 count by themselves where units, fewer than modes, turn from block to block; at y."""
        out = super().scale(y)
        if self.narrow:
            first = self.cut[0]
            out[:first] = np.maximum(np.abs(y[:first]), FAINT)
        return out

    def growth(self, y: FloatArray) -> float:
        """Largest d lam/ds of a mode that the weights have: active ones have stopped."""
        columns = self.present(y)
        pushed = self.push(self.residual(self.weights(y)), columns)
        return float(np.max(np.sum(columns * pushed, axis=0), initial=0.0)) / self.unit

    def stiff(self, y: FloatArray) -> tuple[FlowSystem, FloatArray] | None:
        """The weights, once these hold every mode that can be learned: what is smaller never grows again."""
        rows, logs = self.rows(y)
        if np.max(logs) < LOG_LEAST:
            return None
        theta = rows * np.exp(logs)[:, None]
        sizes = np.linalg.svd(theta, compute_uv=False)
        learned = int(np.count_nonzero(sizes > SEPARATE * sizes[0]))
        return (self.in_weights(), theta.ravel()) if learned >= min(self.moments.rank, self.r) else None

    def in_weights(self) -> WeightFlow:
        """The same flow in its weights."""
        return WeightFlow(self.moments, self.init, self.features)

    def snapshot(self, y: FloatArray) -> Snapshot:
        """Hidden units in the user's basis, with relative accuracy at any size, and the features of A W."""
        return self.snapshots(y[None]).at(0)

    def snapshots(self, ys: FloatArray) -> Snapshot:
        """At states ys (m, N)."""
        rows, logs = self.rows(ys)
        directions, log_norms = polar(self.moments.natural_rows(rows))
        features = self.features(self.moments.natural(self._map(self.weights(ys))))
        return Snapshot(log_norms + logs, directions, features)

    def residual(self, weights: FloatArray) -> FloatArray:
        """M, at weights (n, h)."""
        return self.moments.residual(self._map(weights))

    def push(self, residual: FloatArray, columns: FloatArray) -> FloatArray:
        """Q @ columns, Q as this `residual` makes it."""
        out, d = np.empty(columns.shape), self.d
        if columns.ndim == 2:
            np.dot(residual.T, columns[d:], out=out[:d])
            np.dot(residual, columns[:d], out=out[d:])
            return out
        np.matmul(residual.mT, columns[..., d:, :], out=out[..., :d, :])
        np.matmul(residual, columns[..., :d, :], out=out[..., d:, :])
        return out

    def _map(self, weights: FloatArray) -> FloatArray:
        return weights[..., self.d :, :] @ weights[..., : self.d, :].mT


class WeightFlow(FlowSystem):
    """Gradient flow in the weights themselves, y = Z (H, n) row by row, in the basis of the moments.

    Cheaper than `ModeFlow`, and right while no mode is smaller, beside the weights it is mixed into, than their
    relative error; `warnings` says when float64 cannot hold that. Time unit 1/sigma_1 of Syx.
    """

    def __init__(self, moments: Moments, init: Init, features: Features) -> None:
        self.moments = moments
        self.features = features
        self.init = init
        self.d = moments.sxx.shape[0]
        self.unit = float(moments.sigma[0]) or 1.0
        self.log_time_unit = -float(np.log(self.unit))
        weights, log_size = moments.start(init)
        self.origin = (weights * np.exp(log_size)).ravel()
        self.shape = weights.shape
        self.narrow = init.width < moments.rank and len(moments.blocks) > 1
        self._groups = np.repeat(np.arange(self.shape[0]), self.shape[1])

    @property
    def groups(self) -> IntArray:
        """One group a hidden unit."""
        return self._groups

    def start(self) -> FloatArray:
        """y at time 0."""
        return self.origin.copy()

    def velocity(self, y: FloatArray) -> FloatArray:
        """dy/ds = Z Q / sigma_1."""
        z = y.reshape(self.shape)
        return self._push(z, self.moments.residual(self._map(z))).ravel() / self.unit

    def loss(self, y: FloatArray) -> float:
        """Loss, in the units of the problem."""
        return self.loss_and_rate(y)[0]

    def loss_rate(self, y: FloatArray) -> float:
        """dL/ds = -|grad L|^2 / sigma_1."""
        return self.loss_and_rate(y)[1]

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Both from the same map."""
        loss, rate = self.losses_and_rates(y)
        return float(loss), float(rate)

    def losses_and_rates(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both at states ys (..., N), (...,) each."""
        z = self._rows(ys)
        beta = self._map(z)
        push = self._push(z, self.moments.residual(beta))
        return self.moments.losses(beta), -np.sum(push**2, axis=(-2, -1)) / self.unit

    def hessian(self, y: FloatArray) -> FloatArray:
        """Of the loss over sigma_1: weights far above what the data ask for settle fast, and turn slowly."""
        z = y.reshape(self.shape)
        residual = self.moments.residual(self._map(z))
        return hessian(z[:, : self.d], z[:, self.d :].T, self.moments.root, residual) / self.unit

    def scale(self, y: FloatArray) -> FloatArray:
        """Root mean square of the unit's weights; a unit that is exactly zero never moves.

        Units fewer than modes turn from block to block by weights far below that: these count by themselves.
        """
        if self.narrow:
            return np.maximum(np.abs(y), FAINT)
        size = norms(y.reshape(self.shape)) / np.sqrt(self.shape[1])
        return np.repeat(np.where(size > 0, size, 1.0), self.shape[1])

    def growth(self, y: FloatArray) -> float:
        """Largest d log(norm of a hidden unit)/ds."""
        z = y.reshape(self.shape)
        squares = np.sum(z**2, axis=1)
        rates = np.sum(z * self.velocity(y).reshape(self.shape), axis=1)[squares > 0] / squares[squares > 0]
        return float(rates.max(initial=0.0))

    def snapshot(self, y: FloatArray) -> Snapshot:
        """Hidden units in the user's basis, and the features of A W."""
        return self.snapshots(y[None]).at(0)

    def snapshots(self, ys: FloatArray) -> Snapshot:
        """At states ys (m, N)."""
        z = self._rows(ys)
        directions, log_norms = polar(self.moments.natural_rows(z))
        return Snapshot(log_norms, directions, self.features(self.moments.natural(self._map(z))))

    def conserved(self, y: FloatArray) -> dict[str, FloatArray]:
        """W W^T - A^T A of as many hidden units as a unit has weights: all others are fixed combinations of these."""
        z = y.reshape(self.shape)[: self.shape[1]]
        w, a = z[:, : self.d], z[:, self.d :]
        return {"imbalance": (w @ w.T - a @ a.T).ravel()}

    def warnings(self, y: FloatArray) -> list[str]:
        """The float64 floor, when a mode is below it."""
        del y
        if smallest_norm(self.init) <= LOG_LEAST:
            return ['The squares of the first weights are below the range of float64; use coordinates="factored".']
        size = smallest_dormant(self.moments, self.init)
        if size > np.log(EPS):
            return []
        return [
            f"Modes as small as 1e{size / np.log(10.0):.0f} of the weights are mixed into them, and float64 rounding "
            'makes their jumps early; use coordinates="factored".'
        ]

    def _rows(self, ys: FloatArray) -> FloatArray:
        """Z (..., H, n) at ys (..., N)."""
        return ys.reshape(*ys.shape[:-1], *self.shape)

    def _map(self, z: FloatArray) -> FloatArray:
        return z[..., self.d :].mT @ z[..., : self.d]

    def _push(self, z: FloatArray, residual: FloatArray) -> FloatArray:
        return np.concatenate([z[..., self.d :] @ residual, z[..., : self.d] @ residual.mT], axis=-1)


def _growth_basis(moments: Moments) -> FloatArray:
    """Eigenvectors of Q at beta = 0 by decreasing rate, (n, n): in the singular basis of Syx, pairs of coordinates."""
    c, d = moments.syx.shape
    pair = np.arange(min(c, d))
    last = d + c - 1 - pair
    vectors = np.zeros((d + c, d + c))
    vectors[pair, pair] = vectors[d + pair, pair] = vectors[pair, last] = np.sqrt(0.5)
    vectors[d + pair, last] = -np.sqrt(0.5)
    alone = np.concatenate([np.arange(pair.size, d), d + np.arange(pair.size, c)])
    vectors[alone, pair.size + np.arange(alone.size)] = 1.0
    return vectors
