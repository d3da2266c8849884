"""Flows down a loss that is written out, whose course is known in closed form."""

from __future__ import annotations

import numpy as np

from agf import FlowSystem, Snapshot


class Valley(FlowSystem):
    """dy/ds = -grad L for L given with its gradient and Hessian; the loss is above `least`."""

    def __init__(self, y0, loss, gradient, hessian=None, growth=0.0):
        self.y0, self._loss, self.gradient, self._hessian, self.grows = np.asarray(y0), loss, gradient, hessian, growth

    @property
    def groups(self):
        return np.zeros(self.y0.size, dtype=np.int64)

    def start(self):
        return self.y0.copy()

    def velocity(self, y):
        return -self.gradient(y)

    def loss(self, y):
        return float(self._loss(y))

    def loss_rate(self, y):
        return -float(np.sum(self.gradient(y) ** 2))

    def snapshot(self, y):
        return Snapshot(np.zeros(1), y[None].copy())

    def growth(self, y):
        return self.grows

    def hessian(self, y):
        return None if self._hessian is None else self._hessian(y)


def bowl(rates, y0=None, level=0.0):
    """L = level + sum c y^2 / 2: exponential decay at the rates c."""
    c = np.asarray(rates, dtype=float)
    y0 = np.ones(c.size) if y0 is None else y0
    return Valley(y0, lambda y: level + 0.5 * c @ y**2, lambda y: c * y, lambda y: np.diag(c))


def power(p):
    """L = |y|^p / p in one dimension, p > 2: L falls like t^(-p / (p - 2))."""
    return Valley([1.0], lambda y: abs(y[0]) ** p / p, lambda y: np.sign(y) * abs(y) ** (p - 1))
