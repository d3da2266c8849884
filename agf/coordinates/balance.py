"""What the two layers of a neuron conserve, p |a|^2 - |w|^2, restored where steps have lost it.

A balanced neuron that stands against its pull shrinks for ever, and its output weight keeps its sign ([BF24] Lemma 1).
Its direction is a saddle of the flow on the sphere: rounding leaves it within some forty growth times, and the neuron
comes back with the other sign, which is another network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.rounding import EPS

#: Error of p |a|^2 - |w|^2 over the squared norm at which it is restored. Derived: it grows to 1, where the sign is
#: lost, in seven growth times, which no step of a tolerance covers; what it moves the growth rate by is its square.
_OFF = 1e-3
#: Imbalance of the layers of a unit neuron at the start below which it is balanced. Derived: a difference of squares of
#: unit size.
_BALANCED = 40 * EPS
#: Every neuron.
ALL = slice(None)


@dataclass(frozen=True)
class Balance:
    """p |a|^2 - |w|^2 of every neuron at the start.

    Parameters
    ----------
    d : int
        Parameters of w, the first.
    power : int
        p.
    sign, log_size : float ndarray, shape (H,)
        Its sign and the log of its size, 0 and -inf where that is rounding.
    """

    d: int
    power: int
    sign: FloatArray
    log_size: FloatArray

    @classmethod
    def of(cls, directions: FloatArray, log_norms: FloatArray, d: int, power: int = 1) -> Balance:
        """That of unit rows (H, P) of these log norms (H,)."""
        gap = _gap(directions, d, power)
        gap[np.abs(gap) <= _BALANCED] = 0.0
        with np.errstate(divide="ignore"):
            size = np.log(np.abs(gap)) + 2.0 * np.where(np.isfinite(log_norms), log_norms, 0.0)
        return cls(d, power, np.sign(gap), size)

    def over(self, log_norms: FloatArray, rows: IntArray | slice = ALL) -> FloatArray:
        """What it is over the squared norms of neurons `rows` that have these log norms (k,)."""
        return self.sign[rows] * np.exp(self.log_size[rows] - 2.0 * log_norms)

    def off(self, directions: FloatArray, log_norms: FloatArray) -> BoolArray:
        """Which of unit rows (H, P) of these log norms (H,) have lost it, (H,)."""
        return np.abs(_gap(directions, self.d, self.power) - self._due(log_norms)) > _OFF

    def restored(self, directions: FloatArray, log_norms: FloatArray) -> FloatArray:
        """Unit rows (H, P) that have it, each layer along itself."""
        outer = np.clip((1.0 + self._due(log_norms)) / (1.0 + self.power), 0.0, 1.0)
        w, a = directions[:, : self.d], directions[:, self.d :]
        return np.column_stack([_sized(w, np.sqrt(1.0 - outer)), _sized(a, np.sqrt(outer))])

    def _due(self, log_norms: FloatArray) -> FloatArray:
        """What it is over the squared norms, (H,), within what it can be."""
        with np.errstate(over="ignore", invalid="ignore"):
            due = self.over(log_norms)
        return np.clip(np.where(self.sign == 0, 0.0, due), -1.0, float(self.power))


def _gap(directions: FloatArray, d: int, power: int) -> FloatArray:
    w, a = directions[:, :d], directions[:, d:]
    inner, outer = np.sqrt(np.einsum("ij,ij->i", w, w)), np.sqrt(power * np.einsum("ij,ij->i", a, a))
    return (outer - inner) * (outer + inner)


def _sized(rows: FloatArray, sizes: FloatArray) -> FloatArray:
    """Rows of these lengths, along themselves; zero rows stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return rows * (sizes / np.where(lengths > 0, lengths, 1.0))[:, None]
