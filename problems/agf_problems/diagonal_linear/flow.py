"""Gradient flow of a diagonal network in the signed coordinate z, for the reference trainer.

In z a dormant coordinate moves at an order-one rate whatever alpha is, its smallness is never represented, and
u^2 - v^2 is conserved exactly: in (u, v) float64 loses it once a coordinate has grown by eight orders of magnitude,
and with it every later change of sign.
"""

from __future__ import annotations

import copy

import numpy as np
from scipy.linalg import qr

import agf
from agf.arrays import BoolArray, FloatArray, IntArray
from agf_problems.diagonal_linear.mirror import Mirror


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
        self._x, self._y = x, y
        self._diagonal = np.einsum("ij,ij->j", x, x) / self._n
        self._groups = np.arange(x.shape[1])
        self._heard = np.ones(x.shape[1], dtype=bool)  # coordinates that make the residual
        self._frozen: FloatArray | None = None

    @property
    def groups(self) -> IntArray:
        return self._groups

    def start(self) -> FloatArray:
        return np.zeros(self._x.shape[1])

    def velocity(self, y: FloatArray) -> FloatArray:
        r = self._residual(y, self._heard) if self._frozen is None else self._frozen
        return r @ self._x / self._n

    def riding(self, active: IntArray, at: FloatArray | None = None) -> MirrorFlow:
        """z moves with the residual of the coordinates `active`, frozen at z = `at` if given."""
        other = copy.copy(self)
        other._heard = np.isin(self._groups, active)
        other._frozen = None if at is None else self._residual(at, other._heard)
        return other

    def loss(self, y: FloatArray) -> float:
        r = self._residual(y)
        return 0.5 * (float(r @ r) + self._out_of_reach) / self._n

    def loss_rate(self, y: FloatArray) -> float:
        return -float((self._mirror.squares(y) * self.velocity(y) ** 2)[self._heard].sum())

    def growth(self, y: FloatArray) -> float:
        """Largest |grad_beta L| among the coordinates that are smaller than it alone would make them."""
        speeds = np.abs(self.velocity(y))
        small = speeds > self._diagonal * np.abs(self._mirror.coefficients(y))
        return float(speeds.max(initial=0.0, where=small))

    def snapshot(self, y: FloatArray) -> agf.Snapshot:
        return agf.Snapshot(
            self._mirror.log_norms(y), self._mirror.directions(y), {"coefficients": self._mirror.coefficients(y)}
        )

    def _residual(self, z: FloatArray, heard: BoolArray | bool = True) -> FloatArray:
        return self._y - self._x @ np.where(heard, self._mirror.coefficients(z), 0.0)
