"""What the generic phases remember from step to step, beside what every state holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.records.state import State


@dataclass(frozen=True)
class PhaseMemory:
    """Memory of `GenericPhases` and `LimitPhases`.

    Parameters
    ----------
    radii : (H,)
        Log norm at which each neuron last activated: where it returns to when it collapses.
    sizes : (H,)
        Its log R*, which "collapsed" refers to.
    grown : (H,) bool
        Which neurons grew along their directions, and would have to go back the same way (`departures.discharge`).
    drifting : bool
        Whether the active neurons had no critical point within their horizon.
    left : float
        Loss that they may still lose by themselves.
    slide : float
        Flow time in which they have come from the switch to the middle of the last drop.
    """

    radii: FloatArray
    sizes: FloatArray
    grown: BoolArray
    drifting: bool = False
    left: float = 0.0
    slide: float = 0.0

    @classmethod
    def of(cls, width: int) -> PhaseMemory:
        """At the start: no neuron has activated or grown."""
        return cls(np.zeros(width), np.zeros(width), np.zeros(width, dtype=bool))

    def activated(self, neurons: IntArray, radii: FloatArray, sizes: FloatArray) -> PhaseMemory:
        """After neurons (k,) activated at log norms `radii` (k,), theirs alone being `sizes` (k,)."""
        all_radii, all_sizes = self.radii.copy(), self.sizes.copy()
        all_radii[neurons], all_sizes[neurons] = radii, sizes
        return replace(self, radii=all_radii, sizes=all_sizes)

    def mark(self, neurons: IntArray, grown: bool) -> PhaseMemory:
        """After neurons grew along their directions (True), or are back where they started (False)."""
        flags = self.grown.copy()
        flags[neurons] = grown
        return replace(self, grown=flags)


GenericState = State[PhaseMemory]
