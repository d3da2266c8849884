"""Gradient flow of a linear network at any initialization scale: continuous QR factors with logarithmic sizes.

With rows z_h = (w_h, a_h) the flow is Z' = Z Q, Q = [[0, M^T], [M, 0]], M = Syx - A W Sxx. Raw float64 weights cannot hold
a mode of size 1e-30 beside one of size 1, because hidden units mix modes. So Z^T = O D N Z0 is carried, O orthogonal,
D = diag(exp lam), N unit upper triangular, Z0 (n, H) the initial weights in the first growth directions, n = d + c. With
B = O^T Q O,

    O' = O S, S = tril(B, -1) - tril(B, -1)^T,    lam' = diag(B),    N' = triu(2 B_ij exp(lam_j - lam_i), 1) N.

Every size is a logarithm, so a mode keeps its relative accuracy at 1e-100. The modes sort themselves: the first column
of O is the direction that has grown most. Exact zeros between independent blocks survive every operation here
(products only), which keeps rounding from coupling them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from agf.arrays import FloatArray, IntArray
from agf.init import Init
from agf.sphere import polar
from agf.system import FlowSystem, Snapshot
from agf_problems.linear_moments import Moments

#: exp below this is as good as zero, and above the subnormal numbers that slow everything down.
_LOWEST = -690.0
#: A mode is small for the saddle check below this fraction of the size of the target.
_SMALL = 1e-2
#: Columns are made orthonormal again when they have drifted this far.
_DRIFT = 1e-12


class ModeFlow(FlowSystem):
    """Gradient flow in y = (O, lam, N), time unit 1/sigma_1 of Syx, weights in the basis of the moments.

    With fewer hidden units than modes only the H columns of O that the weights span are carried (the others would grow
    without bound); else O is square and starts in the growth directions, so that independent blocks stay apart exactly.

    Parameters
    ----------
    moments : the data.  init : where to start, any scale.  features : called as features(beta) with beta = A W in the
        user's basis, for snapshots.
    """

    def __init__(self, moments: Moments, init: Init, features: Callable[[FloatArray], dict[str, FloatArray]]) -> None:
        self.moments = moments
        self.features = features
        self.d = moments.sxx.shape[0]
        self.unit = float(moments.sigma[0]) or 1.0
        self.target = float(np.linalg.norm(moments.target, 2)) or 1.0
        self.log_time_unit = -float(np.log(self.unit))
        self.log_size = float(np.max(init.log_norms))
        z = init.directions * np.exp(init.log_norms - self.log_size)[:, None]
        rotated = np.concatenate([z[:, : self.d] @ moments.inputs, z[:, self.d :] @ moments.outputs], axis=1)
        self.basis = _growth_basis(moments)
        self.hidden = self.basis.T @ rotated.T
        if init.width < moments.rank:
            q, self.hidden = np.linalg.qr(self.hidden)
            self.basis = self.basis @ q
        self.n, self.r = self.basis.shape
        # Only Z0 Z0^T drives the flow: with more hidden units than columns a square factor does.
        self.factor = np.linalg.qr(self.hidden.T, mode="r").T if init.width > self.r else self.hidden
        self.upper = np.triu_indices(self.r, 1)
        column = np.arange(self.r)
        self._groups = np.concatenate([np.tile(column, self.n), self.r + column, 2 * self.r + self.upper[0]])

    @property
    def groups(self) -> IntArray:
        """One group for each column of O, each log size, and each row of N."""
        return self._groups

    def start(self) -> FloatArray:
        """y at time 0: O the growth directions, lam = 0, N = I."""
        return np.concatenate([self.basis.ravel(), np.zeros(self.r), np.zeros(self.upper[0].size)])

    def velocity(self, y: FloatArray) -> FloatArray:
        """dy/ds."""
        turn, logs, shear = self._unpack(y)
        pushed = self._apply(self._residual(self._weights(turn, logs, shear)), turn)
        b = turn.T @ pushed
        low = np.tril(b, -1)
        d_turn = turn @ (low - low.T)
        if self.r < self.n:
            d_turn += pushed - turn @ b
        with np.errstate(over="ignore"):
            ratio = np.exp(np.minimum(logs[None, :] - logs[:, None], -_LOWEST))
        d_shear = np.triu(2.0 * b * ratio, 1) @ shear
        return np.concatenate([d_turn.ravel(), np.diagonal(b), d_shear[self.upper]]) / self.unit

    def loss(self, y: FloatArray) -> float:
        """Loss, in the units of the problem."""
        return self.moments.loss(self._map(self._weights(*self._unpack(y))))

    def loss_rate(self, y: FloatArray) -> float:
        """dL/ds = -|grad L|^2 sigma_1^-1."""
        return self.loss_and_rate(y)[1]

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Both from the same weights."""
        weights = self._weights(*self._unpack(y))
        beta = self._map(weights)
        push = self._apply(self.moments.residual(beta), weights)
        return self.moments.loss(beta), -float(np.sum(push**2)) / self.unit

    def scale(self, y: FloatArray) -> FloatArray:
        """1 for O and N; for a log size, its distance from order one: what is left of the way to its jump."""
        _, logs, shear = self._unpack(y)
        far = np.maximum(1.0, np.abs(logs + self.log_size))
        return np.concatenate([np.ones(self.n * self.r), far, np.maximum(1.0, np.abs(shear[self.upper]))])

    def retract(self, y: FloatArray) -> FloatArray:
        """One Newton-Schulz step to orthonormal columns (products only: exact zeros stay); y itself while they are."""
        turn = y[: self.n * self.r].reshape(self.n, self.r)
        gram = turn.T @ turn
        if np.max(np.abs(gram - np.eye(self.r))) < _DRIFT:
            return y
        return np.concatenate([(1.5 * turn - 0.5 * turn @ gram).ravel(), y[self.n * self.r :]])

    def growth(self, y: FloatArray) -> float:
        """Largest growth rate of a mode that is still small beside the largest one."""
        turn, logs, shear = self._unpack(y)
        weights = self._weights(turn, logs, shear)
        rates = np.sum(turn * self._apply(self._residual(weights), turn), axis=0) / self.unit
        sizes = np.linalg.norm(shear @ self.factor, axis=1)
        with np.errstate(divide="ignore"):
            sizes = np.log(sizes) + logs
        present = np.isfinite(sizes)
        small = present & (sizes + self.log_size < np.log(_SMALL) + 0.5 * np.log(self.target))
        return float(rates[small].max(initial=0.0))

    def snapshot(self, y: FloatArray) -> Snapshot:
        """Hidden units in the user's basis, with relative accuracy at any size, and the features of A W."""
        turn, logs, shear = self._unpack(y)
        m, d = self.moments, self.d
        mixed = shear @ self.hidden
        with np.errstate(divide="ignore"):
            sizes = np.log(np.abs(mixed)) + logs[:, None]
        top = sizes.max(axis=0)
        top = np.where(np.isfinite(top), top, 0.0)
        rows = (turn @ (np.sign(mixed) * np.exp(np.maximum(sizes - top, _LOWEST)))).T
        directions, log_norms = polar(np.concatenate([rows[:, :d] @ m.inputs.T, rows[:, d:] @ m.outputs.T], axis=1))
        beta = m.natural(self._map(self._weights(turn, logs, shear)))
        return Snapshot(log_norms + top + self.log_size, directions, self.features(beta))

    # -- parts ------------------------------------------------------------------------------------------------

    def _unpack(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        size = self.n * self.r
        shear = np.eye(self.r)
        shear[self.upper] = y[size + self.r :]
        return y[:size].reshape(self.n, self.r), y[size : size + self.r], shear

    def _weights(self, turn: FloatArray, logs: FloatArray, shear: FloatArray) -> FloatArray:
        """Z^T up to a rotation of hidden space, (n, h)."""
        sizes = np.exp(np.maximum(logs + self.log_size, _LOWEST))
        return (turn * sizes) @ (shear @ self.factor)

    def _map(self, weights: FloatArray) -> FloatArray:
        return weights[self.d :] @ weights[: self.d].T

    def _residual(self, weights: FloatArray) -> FloatArray:
        return self.moments.residual(self._map(weights))

    def _apply(self, residual: FloatArray, columns: FloatArray) -> FloatArray:
        """Q @ columns."""
        return np.concatenate([residual.T @ columns[self.d :], residual @ columns[: self.d]])


def _growth_basis(moments: Moments) -> FloatArray:
    """Eigenvectors of Q at beta = 0 by decreasing rate: in the singular basis of Syx, pairs of coordinates."""
    c, d = moments.syx.shape
    pairs = min(c, d)
    vectors = np.zeros((d + c, d + c))
    pair = np.arange(pairs)
    half = np.sqrt(0.5)
    vectors[pair, pair] = vectors[d + pair, pair] = half
    last = d + c - 1 - pair
    vectors[pair, last], vectors[d + pair, last] = half, -half
    alone = np.concatenate([np.arange(pairs, d), d + np.arange(pairs, c)])
    vectors[alone, pairs + np.arange(alone.size)] = 1.0
    return vectors
