"""Hidden units that mix, in their weights: for stiff stretches in which no small mode grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import FloatArray
from agf.contract.flow_system import Snapshot
from agf.coordinates.weight_system import Weights
from agf.sphere import polar

if TYPE_CHECKING:
    from agf.coordinates.mode_system import ModeSystem


class ModeWeights(Weights):
    """`Weights` of all hidden units, in the same units of time as their modes; errors are relative to each unit.

    These hold no mode that is smaller, beside the units it is mixed into, than their error: none may grow any more.

    Parameters
    ----------
    modes : ModeSystem
        The coordinates that hold them.
    """

    def __init__(self, modes: ModeSystem) -> None:
        super().__init__(modes.problem, np.zeros(modes.width, dtype=np.int64), float(np.exp(modes.log_time_unit)))
        self.modes, self.log_time_unit = modes, modes.log_time_unit

    def start(self) -> FloatArray:
        """y at time 0."""
        return self.of_modes(self.modes.start())

    def of_modes(self, y: FloatArray) -> FloatArray:
        """The weights at a state of `modes`."""
        rows, logs = self.modes.rows(y)
        return np.asarray(rows * np.exp(logs)[:, None]).ravel()

    def growth(self, y: FloatArray) -> float:
        """As `ModeSystem.growth`."""
        return self.modes.growth_of(y.reshape(self.shape))

    def snapshot(self, y: FloatArray) -> Snapshot:
        """Hidden units and the problem's features at y."""
        return self.modes.snapshot_of(*polar(y.reshape(self.shape)))
