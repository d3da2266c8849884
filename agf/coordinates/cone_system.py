"""Weights in the cone where they are: what is stiff, grows or is left to lose there, of a network with sharp kinks.

A network is smooth inside an activation cone, and along the kinks on which its neurons slide: a sample on its kink sees
nothing of a neuron that stays there. So the flow has a Hessian, that of the loss without what leads off these kinks. It
says nothing of other cones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import FloatArray
from agf.coordinates.weight_system import WeightSystem

if TYPE_CHECKING:
    from agf.coordinates.sharp_system import SharpSystem


class ConeSystem(WeightSystem):
    """`WeightSystem` along the kinks that hold neurons of `sharp`, as long as these and its cones stay the same.

    Parameters
    ----------
    sharp : SharpSystem
        Polar coordinates of the same flow, at the state where this begins.
    pace : float, optional
        Length of steps there; shorter ones here meet a kink.
    """

    def __init__(self, sharp: SharpSystem, pace: float = 0.0) -> None:
        super().__init__(sharp)
        self.sharp, self.pace, self.smooth = sharp, pace, True

    def gradient(self, y: FloatArray) -> tuple[float, FloatArray]:
        """Loss, and its gradient (H, P) along the kinks."""
        loss, gradient = super().gradient(y)
        return loss, self.sharp.along(np.array(gradient))

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """That of the loss in this cone, along the kinks."""
        matrix = super().hessian(y)
        return None if matrix is None else self._along(self._along(matrix).T)  # rows, then columns

    def _along(self, rows: FloatArray) -> FloatArray:
        """Rows (N, N) of derivatives by the weights without what leads off the kinks."""
        return self.sharp.along(np.array(rows).reshape(-1, *self.shape)).reshape(rows.shape)

    def over(self, y: FloatArray, step: float) -> bool:
        """Whether y is in another cone, a kink lets go, or the next `step` is cut short by one."""
        return step < self.pace or self.sharp.elsewhere(self.in_polar(y))

    def back(self, y: FloatArray) -> tuple[SharpSystem, FloatArray]:
        """`sharp` and its state at y, put onto the kinks that hold it."""
        return self.sharp, self.sharp.retract(self.in_polar(y))
