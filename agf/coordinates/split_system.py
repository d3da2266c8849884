"""Large neurons in their weights, for implicit steps, while small ones stay in polar coordinates.

At degree 3 and more a small neuron grows in proportion to its norm, which drowns in the rounding of the curvature of
the large ones, and below 1e-150 its weights underflow. But it is not stiff, and hardly moves the large ones: so
implicit steps solve with the Hessian of these alone, and take its own moves as they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.coordinates.weight_system import WeightSystem
from agf.sphere import norms
from agf.sphere import polar as split

if TYPE_CHECKING:
    from agf.coordinates.polar_system import PolarSystem

#: Log norm of the largest small neuron, over the largest of the others, above which it is about to matter: these are
#: held, or followed without it, no longer. Cost: a neuron of 1e-4 moves the residual by 1e-12, below every tolerance.
AWAKE = float(np.log(1e-4))


class SplitSystem(WeightSystem):
    """y of `PolarSystem`, but that rows of large neurons are their weights, and their sizes stand still.

    Parameters
    ----------
    polar : PolarSystem
        Polar coordinates of the same flow; what makes its residual makes this one's.
    large : bool ndarray, shape (H,)
        Neurons that are followed in their weights.
    """

    def __init__(self, polar: PolarSystem, large: BoolArray) -> None:
        super().__init__(polar)
        self.large, self._who = large, np.flatnonzero(large)
        entries = np.arange(self.shape[0] * self.shape[1]).reshape(self.shape)[large].ravel()
        self._block = np.ix_(entries, entries)
        self._last: tuple[FloatArray, FloatArray] | None = None  # y and the polar state there
        self._sized: tuple[FloatArray, FloatArray] | None = None  # y and the norms of the large neurons there

    @property
    def groups(self) -> IntArray:
        return self.polar.groups

    def of_polar(self, at: FloatArray) -> FloatArray:
        """y at a polar state."""
        y = at.copy()
        self._rows(y)[self.large] = self.polar.params(at)[self.large]
        return y

    def in_polar(self, y: FloatArray) -> FloatArray:
        if self._last is None or self._last[0] is not y:
            at = y.copy()
            directions, log_norms = split(self._rows(y)[self.large])
            self._rows(at)[self.large] = directions
            at[-self.large.size :][self.large] = self.polar.sizes(log_norms)
            self._last = y, at
        return self._last[1]

    def all_in_polar(self, ys: FloatArray) -> FloatArray:
        return np.array([self.in_polar(y) for y in ys])

    def over(self, y: FloatArray) -> bool:
        """Whether a small neuron is about to matter to the residual."""
        log_norms = self.polar.polar(self.in_polar(y))[1]
        small = self.polar.members(log_norms) & ~self.large
        return bool(np.max(log_norms[small], initial=-np.inf) > np.max(log_norms[self.large]) + AWAKE)

    def start(self) -> FloatArray:
        return self.of_polar(self.polar.start())

    def velocity(self, y: FloatArray) -> FloatArray:
        at = self.in_polar(y)
        out = self.polar.velocity(at)
        rates = self.polar.rates(at, out)[self.large]
        theta, moves = self._rows(y)[self.large], self._rows(out)
        moves[self.large] = self._norms(y)[:, None] * moves[self.large] + theta * rates[:, None]
        out[-self.large.size :][self.large] = 0.0
        return out

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        return self.polar.loss_and_rate(self.in_polar(y))

    def loss_is_known(self, y: FloatArray) -> bool:
        return self.polar.loss_is_known(self.in_polar(y))

    def scale(self, y: FloatArray) -> FloatArray:
        out = self.polar.scale(self.in_polar(y)).copy()
        self._rows(out)[self.large] = self._norms(y)[:, None] / np.sqrt(self.shape[1])
        return out

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """That of the loss that the large neurons have alone, 0 for the others."""
        block = self.problem.hessian(self._rows(y)[self.large], self._who)
        if block is None:
            return None
        matrix = np.zeros((y.size, y.size))
        matrix[self._block] = self._unit * block
        return matrix

    def conserved(self, y: FloatArray) -> dict[str, FloatArray]:
        return self.polar.conserved(self.in_polar(y))

    def conserved_along(self, ys: FloatArray) -> list[dict[str, FloatArray]]:
        return self.polar.conserved_along(self.all_in_polar(ys))

    def _norms(self, y: FloatArray) -> FloatArray:
        """Of the large neurons, (k,)."""
        if self._sized is None or self._sized[0] is not y:
            self._sized = y, norms(self._rows(y)[self.large])
        return self._sized[1]

    def _rows(self, y: FloatArray) -> FloatArray:
        """A view of the rows of y, (H, P)."""
        return y[: -self.large.size].reshape(self.shape)
