"""Gradient flow of the active modes of a linear network alone, in some of its blocks."""

from __future__ import annotations

import numpy as np

from agf import FlowSystem, Snapshot
from agf.arrays import FloatArray, IntArray
from agf.rounding import FAINT
from agf.sphere import norms, polar
from agf_problems.linear.moments import hessian, square_root


class ActiveModes(FlowSystem):
    """y = theta (k n,) row by row, a row a mode (w, a); the loss is that above the floor.

    Parameters
    ----------
    theta : float ndarray, shape (k, n)
        Where they start; the first columns are those of the inputs.
    sxx : float ndarray, shape (d, d)
        Second moments of the inputs.
    syx : float ndarray, shape (c, d)
        Those with the targets.
    target : float ndarray, shape (c, d)
        The map that is learned.
    entries : bool
        Whether errors are relative to each entry, not to its mode: units fewer than modes turn from block to block by
        entries far below 1.
    """

    def __init__(
        self, theta: FloatArray, sxx: FloatArray, syx: FloatArray, target: FloatArray, *, entries: bool
    ) -> None:
        self.theta, self.sxx, self.syx, self.target, self.entries = theta, sxx, syx, target, entries
        self.shape, self.d = theta.shape, sxx.shape[0]
        self.others = 0.0  # loss of the blocks that stand still
        self._root = square_root(sxx)
        self._groups = np.repeat(np.arange(self.shape[0]), self.shape[1])
        self._known: tuple[FloatArray, FloatArray] | None = None  # y, and the velocity there

    @property
    def groups(self) -> IntArray:
        """Mode of each entry."""
        return self._groups

    def start(self) -> FloatArray:
        """y at time 0."""
        return self.theta.flatten()

    def velocity(self, y: FloatArray) -> FloatArray:
        """-grad L."""
        z = y.reshape(self.shape)
        residual = self.syx - self._map(z) @ self.sxx
        push = np.concatenate([z[:, self.d :] @ residual, z[:, : self.d] @ residual.T], axis=1).ravel()
        self._known = y, push
        return push

    def hessian(self, y: FloatArray) -> FloatArray:
        """Of the loss: what is left of a drop may relax slowly beside modes that are stiff."""
        z = y.reshape(self.shape)
        residual = self.syx - self._map(z) @ self.sxx
        return hessian(z[:, : self.d], z[:, self.d :].T, self._root, residual)

    def loss(self, y: FloatArray) -> float:
        """Loss of all blocks above the floor."""
        gap = self.target - self._map(y.reshape(self.shape))
        return self.others + 0.5 * float(np.sum((gap @ self.sxx) * gap))

    def loss_rate(self, y: FloatArray) -> float:
        """dL/dt = -|grad L|^2, from the last velocity where it was asked for here."""
        push = self._known[1] if self._known is not None and self._known[0] is y else self.velocity(y)
        return -float(push @ push)

    def loss_is_known(self, y: FloatArray) -> bool:
        """Whether the last velocity was asked for here."""
        return self._known is not None and self._known[0] is y

    def scale(self, y: FloatArray) -> FloatArray:
        """Root mean square of the mode, or the entry itself."""
        if self.entries:
            return np.maximum(np.abs(y), FAINT)
        return np.repeat(norms(y.reshape(self.shape)) / np.sqrt(self.shape[1]), self.shape[1])

    def snapshot(self, y: FloatArray) -> Snapshot:
        """The modes, in the basis of the moments."""
        directions, log_norms = polar(y.reshape(self.shape))
        return Snapshot(log_norms, directions)

    def _map(self, z: FloatArray) -> FloatArray:
        return z[:, self.d :].T @ z[:, : self.d]
