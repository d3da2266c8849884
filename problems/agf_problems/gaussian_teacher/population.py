"""Gaussian averages of a network of students against its teacher, over whitened inputs z ~ N(0, 1), x = root z."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.rounding import RANK
from agf_problems.gaussian_teacher.kernels import Kernel


@dataclass(frozen=True)
class Population:
    """What H students (w_i, a_i) and K teachers are to one another on all inputs, exactly.

    Parameters
    ----------
    kernel : Kernel
        Averages of the activation.
    root : float ndarray, shape (d, d)
        Symmetric root of the covariance of the inputs.
    v : float ndarray, shape (K, d)
        Whitened input weights of the teachers.
    outer : float ndarray, shape (K,)
        Their output weights.
    """

    kernel: Kernel
    root: FloatArray
    v: FloatArray
    outer: FloatArray

    @cached_property
    def _variance(self) -> float:
        """E f*^2."""
        return float(self.outer @ self.kernel.value(self.v, self.v) @ self.outer)

    def loss_grad(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """E (f* - f)^2 / 2 and its gradient, (m, P)."""
        u, a = self.split(theta)
        with_teacher, with_students = self.kernel.value(u, self.v), self.kernel.value(u, u)
        on_a = with_students @ a - with_teacher @ self.outer
        loss = 0.5 * self._variance + a @ (0.5 * with_students @ a - with_teacher @ self.outer)
        rows, weights = np.concatenate([self.v, u]), np.concatenate([-self.outer, a])
        on_u = a[:, None] * self.kernel.pull(u, rows, np.broadcast_to(weights, (a.size, weights.size)))
        return max(float(loss), 0.0), np.concatenate([on_u @ self.root, on_a[:, None]], axis=1)

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whitened input weights (m, d), and output weights (m,)."""
        return theta[:, :-1] @ self.root, theta[:, -1]

    def force(self, kernel: Kernel, u: FloatArray, a: FloatArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """E[r sigma(u_i . z)] (m,), and the gradient of a_i times it, (m, P)."""
        rows, weights = residual
        every = np.broadcast_to(weights, (a.size, weights.size))
        value = kernel.value(u, rows) @ weights
        return value, np.concatenate([a[:, None] * kernel.pull(u, rows, every) @ self.root, value[:, None]], axis=1)

    def _gram(self, u: FloatArray, a: FloatArray) -> FloatArray:
        """E[J J^T] of the students' Jacobian, (mP, mP)."""
        m, d = u.shape
        out = np.zeros((m, d + 1, m, d + 1))
        out[:, d, :, d] = self.kernel.value(u, u)
        for i in range(m):
            for j in range(m):
                out[i, :d, j, :d] = a[i] * a[j] * self.root @ self.kernel.cross(u[i], u[j]) @ self.root
                one = self.kernel.pull(u[i : i + 1], u[j : j + 1], np.ones((1, 1)))[0]
                out[i, :d, j, d] = a[i] * self.root @ one
                out[j, d, i, :d] = out[i, :d, j, d]
        return out.reshape(m * (d + 1), m * (d + 1))

    def left_over(self, directions: FloatArray, active: FloatArray) -> FloatArray:
        """(1/2) E|f_i - P_A f_i|^2 of unit neurons at leading order, in function space, exact."""
        u, a = self.split(directions)
        lead = self.kernel.leading
        if self.kernel.homogeneous:
            total = a**2 * np.diagonal(self.kernel.value(u, u))
        else:  # (2 / sqrt pi) z
            total = a**2 * (4 / np.pi) * np.sum(u * u, axis=1)
        if active.shape[0]:
            v, b = self.split(active)
            gram = self._gram(v, b)
            cross = np.empty((a.size, b.size, self.root.shape[0] + 1))
            for j in range(b.size):
                cross[:, j, :-1] = (a * b[j])[:, None] * lead.pull_second(u, v[j]) @ self.root
                cross[:, j, -1] = a * lead.value(u, v[j : j + 1])[:, 0]
            values, vectors = np.linalg.eigh(gram)
            kept = values > RANK * values.max()
            inside = cross.reshape(a.size, -1) @ vectors[:, kept]
            total = total - np.sum(inside**2 / values[kept], axis=1)
        return 0.5 * np.maximum(total, 0.0)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Dense Hessian of the loss, (mP, mP), exact (kinks average out)."""
        u, a = self.split(theta)
        m, d = u.shape
        out = self._gram(u, a).reshape(m, d + 1, m, d + 1)
        rows, weights = np.concatenate([self.v, u]), np.concatenate([-self.outer, a])
        everything = np.broadcast_to(weights, (m, weights.size))
        mixed = self.kernel.pull(u, rows, everything) @ self.root
        for i in range(m):
            out[i, :d, i, :d] += a[i] * self.root @ self.kernel.own(u[i], rows, weights) @ self.root
            out[i, :d, i, d] += mixed[i]
            out[i, d, i, :d] += mixed[i]
        return out.reshape(m * (d + 1), m * (d + 1))
