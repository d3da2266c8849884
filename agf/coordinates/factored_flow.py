"""Gradient flow of networks whose hidden units mix: continuous QR factors with logarithmic sizes.

All rows of the weights Z (H, n) move by Z' = Z Q with one symmetric matrix Q, and the network depends on them through
Z^T Z alone. On the first plateau all rows turn to one direction, and what decides the later drops are components that
float64 rows no longer hold beside it. So Z^T = O D N Z0 is carried, O orthonormal, D = diag(exp lam), N unit upper
triangular, Z0 constant. With B = O^T Q O,

    O' = Q O - O (B - S), S = tril(B, -1) - tril(B, -1)^T,  lam' = diag(B),  N' = triu(2 B_ij exp(lam_j - lam_i), 1) N.

Every size is a logarithm, so that a mode keeps its relative accuracy at 1e-100, and the modes sort themselves: the
first column of O is the direction that has grown most. Exact zeros between independent blocks survive every operation
here (products only), which keeps rounding from coupling them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import FlowSystem
from agf.rounding import LOG_FAINT, RANK
from agf.sphere import norms

#: Drift of the products of columns at which they are made orthonormal again. Cost: one Newton-Schulz step squares what
#: has drifted; until then it is an error of this relative size.
_DRIFT = 1e-12


class FactoredFlow(FlowSystem):
    """y = (O, lam, N), for a network that says what Q is.

    Parameters
    ----------
    basis : float ndarray, shape (n, r)
        O at the start, orthonormal columns.
    hidden : float ndarray, shape (r, H)
        Z0, with the weights basis @ hidden in units of exp(log_size).
    log_size : float
        Natural log of the size of the weights.
    unit : float
        Largest growth rate at the start: time s is flow time in units of its inverse.
    """

    projects = True

    def __init__(self, basis: FloatArray, hidden: FloatArray, log_size: float, unit: float) -> None:
        self.n, self.r = basis.shape
        self.hidden, self.log_size, self.unit = hidden, log_size, unit
        self.log_time_unit = -float(np.log(unit))
        self.cut = self.n * self.r, self.n * self.r + self.r
        # Only Z0 Z0^T drives the flow: with more hidden units than columns a square factor does.
        self.factor = np.linalg.qr(hidden.T)[1].T if hidden.shape[1] > self.r else hidden
        self.identity, self.below = np.eye(self.r), np.tri(self.r, k=-1)
        self.above = 2.0 * self.below.T
        self.origin = np.concatenate([basis.ravel(), np.zeros(self.r), self.identity.ravel()])
        self._known: tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None = None
        column = np.arange(self.r)
        self._groups = np.concatenate(
            [np.tile(column, self.n), self.r + column, 2 * self.r + np.repeat(column, self.r)]
        )

    @abstractmethod
    def residual(self, weights: FloatArray) -> Any:
        """What Q depends on, at weights (n, h), a column a hidden unit up to a rotation."""
        ...

    @abstractmethod
    def push(self, residual: Any, columns: FloatArray) -> FloatArray:
        """Q @ columns (n, k), Q as this `residual` makes it."""
        ...

    @property
    def groups(self) -> IntArray:
        """One group for each column of O, each log size, and each row of N."""
        return self._groups

    def start(self) -> FloatArray:
        """y at time 0: lam = 0, N = I."""
        return self.origin.copy()

    def velocity(self, y: FloatArray) -> FloatArray:
        """dy/ds."""
        turn, logs, shear = self.unpack(y)
        mixing = self.mixing(logs, shear)
        weights = np.dot(turn, mixing)  # a third faster than `@` of small matrices
        pushed = self.push(self.residual(weights), turn)
        self._known = y, weights, pushed, mixing
        b = np.dot(turn.T, pushed)
        low = b * self.below
        out = np.empty_like(y)
        d_turn, d_logs, d_shear = self.unpack(out)
        np.dot(turn, low - low.T, out=d_turn)
        if self.r < self.n:
            d_turn += pushed - np.dot(turn, b)
        d_logs[:] = b.diagonal()
        ratio = logs - logs[:, None]
        np.exp(np.minimum(ratio, -LOG_FAINT, out=ratio), out=ratio)
        b *= self.above
        b *= ratio
        np.dot(b, shear, out=d_shear)
        if self.unit != 1.0:
            out /= self.unit
        return out

    def loss(self, y: FloatArray) -> float:
        """Loss of the whole network, at y."""
        return self.loss_and_rate(y)[0]

    def loss_rate(self, y: FloatArray) -> float:
        """dL/ds = -|grad L|^2 per unit of s, at y."""
        return self.loss_and_rate(y)[1]

    def scale(self, y: FloatArray) -> FloatArray:
        """1 for O and N; for a log size, its distance from order one: what is left of the way to its drop; at y."""
        out = np.maximum(np.abs(y), 1.0)
        first, last = self.cut
        out[:first] = 1.0
        out[first:last] = np.maximum(np.abs(y[first:last] + self.log_size), 1.0)
        return out

    def retract(self, y: FloatArray) -> FloatArray:
        """One Newton-Schulz step to orthonormal columns (products only: exact zeros stay); y itself while they are."""
        turn = y[: self.cut[0]].reshape(self.n, self.r)
        gram = turn.T @ turn
        if np.maximum.reduce(np.abs(gram - self.identity), axis=None) < _DRIFT:
            return y
        out = y.copy()
        np.subtract(1.5 * turn, np.dot(0.5 * turn, gram), out=out[: self.cut[0]].reshape(self.n, self.r))
        return out

    def present(self, y: FloatArray) -> FloatArray:
        """Columns of O (n, k) at y along which the weights have something."""
        turn, _, shear = self.unpack(y)
        return turn[:, norms(shear @ self.factor) > 0]

    def plain(self, y: FloatArray) -> tuple[Callable[[FloatArray], FloatArray], FloatArray, FloatArray]:
        """Weights in as many columns as they span: directions of modes that die out turn, and move no output."""
        turn, logs, shear = self.unpack(y)
        left, values, _ = np.linalg.svd(self.factor, full_matrices=False)
        spanned = (left * values)[:, values > RANK * values.max(initial=0.0)]
        weights = (turn * np.exp(np.maximum(logs + self.log_size, LOG_FAINT))) @ (shear @ spanned)
        shape = weights.shape

        def velocity(at: FloatArray) -> FloatArray:
            columns = at.reshape(shape)
            return np.asarray(self.push(self.residual(columns), columns) / self.unit).ravel()

        sizes = norms(weights.T) / np.sqrt(shape[0])
        return velocity, np.tile(np.where(sizes > 0, sizes, 1.0), shape[0]), weights.ravel()

    def rows(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Hidden units (..., H, n) at y (..., N) with relative accuracy at any size, in units of exp of the logs
        (..., H) with them."""
        turn, logs, shear = self.unpack(y)
        mixed = shear @ self.hidden
        with np.errstate(divide="ignore"):
            sizes = np.log(np.abs(mixed)) + logs[..., None]
        top = sizes.max(axis=-2)
        top = np.where(np.isfinite(top), top, 0.0)
        rows = (turn @ (np.sign(mixed) * np.exp(np.maximum(sizes - top[..., None, :], LOG_FAINT)))).mT
        return rows, top + self.log_size

    def unpack(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Views of y (..., N): O (..., n, r), lam (..., r), N (..., r, r)."""
        first, last = self.cut
        if y.ndim == 1:
            return y[:first].reshape(self.n, self.r), y[first:last], y[last:].reshape(self.r, self.r)
        many = y.shape[:-1]
        return (
            y[..., :first].reshape(*many, self.n, self.r),
            y[..., first:last],
            y[..., last:].reshape(*many, self.r, self.r),
        )

    def weights(self, y: FloatArray) -> FloatArray:
        """Z^T at y (..., N) up to a rotation of the hidden units, (..., n, h)."""
        turn, logs, shear = self.unpack(y)
        return turn @ self.mixing(logs, shear)

    def mixing(self, logs: FloatArray, shear: FloatArray) -> FloatArray:
        """What O (n, r) makes the weights with, (..., r, h), from `logs` (..., r) and `shear` N (..., r, r)."""
        sizes = logs + self.log_size
        np.exp(np.maximum(sizes, LOG_FAINT, out=sizes), out=sizes)
        return np.asarray(sizes[..., None] * (shear @ self.factor))
