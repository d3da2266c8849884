"""The flow of dormant (leaky) ReLU neurons between two events, in closed form: their fields are constant there.

With u = sign(a) D/|D|, p = w . u and a' = |a|, the flow dw/dt = a D, da/dt = w . D moves p and a' alone ([BF24] section
5.5, the half-angle law of [Min23] where neurons are balanced):

    p + a' = P exp(|D| t),    p - a' = M exp(-|D| t),    P M = -K,    K = |w - p u|^2 + a^2 - |w|^2 constant.

Of P and M the one that cancels is computed from the other and K.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.rectified.events import Event


class Pieces:
    """The present piece of each of m neurons, with d inputs.

    Attributes
    ----------
    u, across : numpy.ndarray, shape (m, d)
        The direction along which w moves, and w across it, which stays.
    speed : numpy.ndarray, shape (m,)
        |D|; 0 where the neuron does not move.
    sign : numpy.ndarray, shape (m,)
        Of the output weight.
    plus, minus, k : numpy.ndarray, shape (m,)
        P, M and K.
    event, wall, stop : numpy.ndarray, shape (m,)
        What ends it, an `Event` or 0; at which wall; and w . u there.
    """

    def __init__(self, m: int, d: int) -> None:
        self.u, self.across = np.zeros((m, d)), np.zeros((m, d))
        self.speed, self.sign = np.zeros(m), np.ones(m)
        self.plus, self.minus, self.k = np.zeros(m), np.zeros(m), np.zeros(m)
        self.event, self.wall, self.stop = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64), np.zeros(m)

    def begin(
        self,
        rows: IntArray,
        u: FloatArray,
        across: FloatArray,
        speed: FloatArray,
        sign: FloatArray,
        p: FloatArray,
        k: FloatArray,
        a: FloatArray,
    ) -> None:
        """Neurons `rows` begin a piece with these values and output weights a (k,)."""
        # |a|: that of the state where the sum cancels
        size = np.where(k < 0, np.abs(a), np.sqrt(np.maximum(p * p + k, 0.0)))
        ahead = p >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            self.plus[rows] = np.where(ahead, p + size, k / (size - p))
            self.minus[rows] = np.where(ahead, -k / (p + size), p - size)
        self.u[rows], self.across[rows], self.speed[rows], self.sign[rows], self.k[rows] = u, across, speed, sign, k

    def end(self, rows: IntArray, event: IntArray, wall: IntArray, stop: FloatArray) -> FloatArray:
        """Those of `rows` end so; |D| t until then, (k,), inf where nothing ends them."""
        self.event[rows], self.wall[rows], self.stop[rows] = event, wall, stop
        with np.errstate(invalid="ignore"):
            size = np.where(event == Event.FLIP, 0.0, np.sqrt(np.maximum(stop * stop + self.k[rows], 0.0)))
        return np.where(event == 0, np.inf, self.until(rows, stop, size))

    def at(self, rows: IntArray, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """w (k, d) and |a| (k,) of `rows` where w . u is p (k,)."""
        w = self.across[rows] + p[:, None] * self.u[rows]
        return w, np.sqrt(np.maximum(p**2 + self.k[rows], 0.0))

    def until(self, rows: IntArray, p: FloatArray, size: FloatArray) -> FloatArray:
        """|D| t, (k,), of `rows` from the beginning to where w . u is p and |a| is `size`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            later = np.log((p + size) / self.plus[rows])  # where the end is ahead
            sooner = np.log(self.minus[rows] / (p - size))
        return np.where(p >= 0, later, sooner)

    def after(self, rows: IntArray, span: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """w (k, d), a (k,) over the exponential of a log norm (k,), and it, after |D| t = span (k,)."""
        across = self.across[rows]
        length = np.sqrt(np.einsum("ij,ij->i", across, across))
        with np.errstate(divide="ignore"):
            grown = np.log(np.abs(self.plus[rows])) + span
            shrunk = np.log(np.abs(self.minus[rows])) - span
            frozen = np.log(length)
        top = np.maximum(np.maximum(grown, shrunk), frozen)
        across = across / np.where(length > 0.0, length, 1.0)[:, None]
        plus = np.sign(self.plus[rows]) * np.exp(grown - top)
        minus = np.sign(self.minus[rows]) * np.exp(shrunk - top)
        w = across * np.exp(frozen - top)[:, None] + (0.5 * (plus + minus))[:, None] * self.u[rows]
        return w, self.sign[rows] * 0.5 * (plus - minus), top
