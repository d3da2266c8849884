"""Gaussian averages of products of neurons: k(u, v) = E sigma(u . z) sigma(v . z), z ~ N(0, I), and derivatives.

Rows u (m, d) and v (k, d). All of a network's loss, gradient and Hessian is made of these: the activation appears
nowhere else. relu: the arc-cosine kernel of Cho and Saul; leaky relu from it, as sigma(z) = relu(z) - leak relu(-z);
erf: the arcsine kernel of Williams; linear and square by Wick's theorem.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from agf.arrays import FloatArray
from agf.rounding import RANK


class Kernel(ABC):
    """E sigma(u . z) sigma(v . z) of one activation.

    degree : of the utility, kappa.  homogeneous : whether sigma is its own leading order.
    power : sigma(s z) = s^power sigma(z) at leading order.
    """

    degree: int = 2
    homogeneous: bool = True

    @property
    def power(self) -> int:
        """Leading power of sigma."""
        return self.degree - 1

    @abstractmethod
    def value(self, u: FloatArray, v: FloatArray) -> FloatArray:
        """k, (m, k)."""

    @abstractmethod
    def pull(self, u: FloatArray, v: FloatArray, weights: FloatArray) -> FloatArray:
        """sum_k weights_ik dk(u_i, v_k)/du_i, (m, d); weights (m, k)."""

    @abstractmethod
    def own(self, u: FloatArray, v: FloatArray, weights: FloatArray) -> FloatArray:
        """sum_k weights_k d2k(u, v_k)/du du of one row u (d,), (d, d); weights (k,)."""

    @abstractmethod
    def cross(self, u: FloatArray, v: FloatArray) -> FloatArray:
        """d2k/du dv = E sigma'(u . z) sigma'(v . z) z z^T of one pair of rows, (d, d)."""

    @property
    def leading(self) -> Kernel:
        """The kernel of sigma's leading order in u, against sigma itself in v."""
        return self

    def pull_second(self, u: FloatArray, v: FloatArray) -> FloatArray:
        """dk(u_i, v)/dv of one row v (d,), (m, d)."""
        return np.array([self.pull(v[None], one[None], np.ones((1, 1)))[0] for one in u]).reshape(u.shape)


class _Products(Kernel):
    """A kernel that is a function of p = |u|^2, q = |v|^2 and c = u . v, given with its derivatives."""

    @abstractmethod
    def jet(self, p: FloatArray, q: FloatArray, c: FloatArray) -> tuple[FloatArray, ...]:
        """(k, k_p, k_c, k_pp, k_pc, k_cc, k_q, k_pq, k_cq), all of one shape."""

    def _jet(self, u: FloatArray, v: FloatArray) -> tuple[FloatArray, ...]:
        p, q, c = np.sum(u * u, axis=1)[:, None], np.sum(v * v, axis=1)[None], u @ v.T
        return self.jet(p + 0 * c, q + 0 * c, c)

    def value(self, u: FloatArray, v: FloatArray) -> FloatArray:
        return self._jet(u, v)[0]

    def pull(self, u: FloatArray, v: FloatArray, weights: FloatArray) -> FloatArray:
        jet = self._jet(u, v)
        return 2 * np.sum(weights * jet[1], axis=1)[:, None] * u + (weights * jet[2]) @ v

    def own(self, u: FloatArray, v: FloatArray, weights: FloatArray) -> FloatArray:
        _, k_p, _, k_pp, k_pc, k_cc, *_ = (part[0] for part in self._jet(u[None], v))
        along = (weights * k_pc) @ v
        mixed = np.outer(u, along)
        bent = 2 * (weights @ k_p) * np.eye(u.size) + 4 * (weights @ k_pp) * np.outer(u, u)
        return bent + 2 * (mixed + mixed.T) + (v * (weights * k_cc)[:, None]).T @ v

    def cross(self, u: FloatArray, v: FloatArray) -> FloatArray:
        _, _, k_c, _, k_pc, k_cc, _, k_pq, k_cq = (float(part[0, 0]) for part in self._jet(u[None], v[None]))
        out = 4 * k_pq * np.outer(u, v) + 2 * k_pc * np.outer(u, u) + 2 * k_cq * np.outer(v, v)
        return np.asarray(out + k_cc * np.outer(v, u) + k_c * np.eye(u.size))


class Linear(_Products):
    """u . v."""

    def jet(self, p: FloatArray, q: FloatArray, c: FloatArray) -> tuple[FloatArray, ...]:
        none = 0 * c
        return (c, none, none + 1.0, none, none, none, none, none, none)


class Square(_Products):
    """|u|^2 |v|^2 + 2 (u . v)^2."""

    degree = 3

    def jet(self, p: FloatArray, q: FloatArray, c: FloatArray) -> tuple[FloatArray, ...]:
        none = 0 * c
        return (p * q + 2 * c**2, q, 4 * c, none, none, none + 4.0, p, none + 1.0, none)


class Erf(_Products):
    """(2 / pi) arcsin(2 c / sqrt((1 + 2 p)(1 + 2 q))) for sigma = erf."""

    homogeneous = False

    def jet(self, p: FloatArray, q: FloatArray, c: FloatArray) -> tuple[FloatArray, ...]:
        a, b, scale = 1 + 2 * p, 1 + 2 * q, 2 / np.pi
        root = np.sqrt(a * b - 4 * c**2)  # positive: |c| <= sqrt(p q)
        value = scale * np.arcsin(np.clip(2 * c / np.sqrt(a * b), -1.0, 1.0))
        k_c = scale * 2 / root
        k_p, k_q = -scale * 2 * c / (a * root), -scale * 2 * c / (b * root)
        k_cc = scale * 8 * c / root**3
        k_pc, k_cq = -scale * 2 * b / root**3, -scale * 2 * a / root**3
        k_pp = scale * c * (4 / (a**2 * root) + 2 * b / (a * root**3))
        return (value, k_p, k_c, k_pp, k_pc, k_cc, k_q, scale * 2 * c / root**3, k_cq)

    @property
    def leading(self) -> Kernel:
        return _ErfLeading()


class _ErfLeading(_Products):
    """E (2 / sqrt pi) (u . z) erf(v . z) = (4 / pi) c / sqrt(1 + 2 q)."""

    def jet(self, p: FloatArray, q: FloatArray, c: FloatArray) -> tuple[FloatArray, ...]:
        none, b = 0 * c, 1 + 2 * q
        k_c = (4 / np.pi) / np.sqrt(b)
        return (k_c * c, none, k_c, none, none, none, -k_c * c / b, none, -k_c / b)

    def pull_second(self, u: FloatArray, v: FloatArray) -> FloatArray:
        jet = self._jet(u, v[None])
        return jet[2] * u + 2 * jet[6] * v


class Relu(Kernel):
    """(|u| |v| / 2 pi)(sin t + (pi - t) cos t), t the angle between u and v; mixed for leaky slopes.

    leak : slope left of 0; sigma(z) = relu(z) - leak relu(-z).
    """

    def __init__(self, leak: float = 0.0) -> None:
        self.leak = leak
        self._parts = ((1 + leak**2, 1.0), (-2 * leak, -1.0)) if leak else ((1.0, 1.0),)

    def value(self, u: FloatArray, v: FloatArray) -> FloatArray:
        lu, lv, cosine, sine, angle = _angles(u, v)
        out = np.zeros(cosine.shape)
        for weight, side in self._parts:
            t = angle if side > 0 else np.pi - angle
            out += weight * (sine + (np.pi - t) * side * cosine)
        return lu * lv * out / (2 * np.pi)

    def pull(self, u: FloatArray, v: FloatArray, weights: FloatArray) -> FloatArray:
        lu, lv, _, sine, angle = _angles(u, v)
        radial, along = np.zeros(weights.shape), np.zeros(weights.shape)
        for weight, side in self._parts:
            t = angle if side > 0 else np.pi - angle
            radial += weight * lv * sine
            along += weight * side * (np.pi - t)
        unit = u / np.where(lu > 0, lu, 1.0)
        out = (np.sum(weights * radial, axis=1)[:, None] * unit + (weights * along) @ v) / (2 * np.pi)
        return out * (lu > 0)  # relu'(0) = 0: no input weights, nothing moves them

    def own(self, u: FloatArray, v: FloatArray, weights: FloatArray) -> FloatArray:
        lu, lv, cosine, sine, _ = _angles(u[None], v)
        size = float(lu[0, 0])
        out = np.zeros((u.size, u.size))
        if size == 0:
            return out
        unit = u / size
        for k in range(v.shape[0]):
            if lv[0, k] == 0 or sine[0, k] <= RANK:
                continue
            across = (v[k] / lv[0, k] - cosine[0, k] * unit) / sine[0, k]
            bend = float(lv[0, k] * sine[0, k] / size) * (
                np.eye(u.size) - np.outer(unit, unit) + np.outer(across, across)
            )
            out += weights[k] * sum(weight for weight, _ in self._parts) * bend
        return out / (2 * np.pi)

    def cross(self, u: FloatArray, v: FloatArray) -> FloatArray:
        lu, lv, cosine, sine, angle = (float(part.reshape(-1)[0]) for part in _angles(u[None], v[None]))
        out = np.zeros((u.size, u.size))
        if lu == 0 or lv == 0:
            return out
        one, other = u / lu, v / lv
        if sine > RANK:  # else the two parts below cancel
            n = (other - cosine * one) / sine  # unit part of v across u
            m = (one - cosine * other) / sine  # unit part of u across v
            out += sum(weight for weight, _ in self._parts) * (np.outer(one, n) + np.outer(other, m))
        for weight, side in self._parts:
            out += weight * side * (np.pi - (angle if side > 0 else np.pi - angle)) * np.eye(u.size)
        return out / (2 * np.pi)


def _angles(u: FloatArray, v: FloatArray) -> tuple[FloatArray, ...]:
    """Lengths (m, 1) and (1, k), cosine, sine and angle (m, k), the last from the chord: exact near 0 and pi."""
    lu, lv = (np.linalg.norm(rows, axis=1) for rows in (u, v))
    one, other = u / np.where(lu > 0, lu, 1.0)[:, None], v / np.where(lv > 0, lv, 1.0)[:, None]
    apart = np.linalg.norm(one[:, None] - other[None], axis=2)
    together = np.linalg.norm(one[:, None] + other[None], axis=2)
    angle = 2 * np.arctan2(apart, together)
    return lu[:, None], lv[None], np.cos(angle), np.sin(angle), angle


def kernel_of(activation: str, leak: float) -> Kernel:
    """The kernel of a named activation; KeyError for a name without one."""
    if activation in ("relu", "leaky-relu"):
        return Relu(leak if activation == "leaky-relu" else 0.0)
    smooth: dict[str, Kernel] = {"linear": Linear(), "square": Square(), "erf": Erf()}
    return smooth[activation]


NAMES = ("relu", "leaky-relu", "linear", "erf", "square")
