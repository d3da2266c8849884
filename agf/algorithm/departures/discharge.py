"""Neurons that lose charge again, and must give it all back before they can turn.

A neuron that grew along a direction where, after a drop, the utility is negative stands at an unstable equilibrium of
the direction flow, and so does one that collapsed and returned to dormancy. How soon it turns away is decided by a
deviation as small as its initial norm, which float64 has lost by then. But the flow is reversible: as it grew along
this direction from its initial norm, it shrinks along it back to there, and turns from its initial direction. (In a
diagonal network a coordinate passes charge 0 before it can activate with the other sign.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agf.algorithm.memory import GenericState
from agf.algorithm.resting import AT_REST
from agf.arrays import FloatArray, IntArray
from agf.clock import Clock, log_norm, log_threshold
from agf.contract.problem import Problem
from agf.init import Init
from agf.sphere import tangent

#: Tangent part of the utility gradient, relative to it, over rtol, below which a direction is at an equilibrium.
#: Derived: ten times what directions at rest are known to; deviations above it are resolved, and the neuron is free to
#: turn.
ALIGNED = 10.0 * AT_REST


@dataclass(frozen=True)
class Discharge:
    """Neurons (k,) that shrink along a fixed direction at utilities (k,), negative, on one frozen residual, to where
    they started, `origin`."""

    clock: Clock
    origin: Init
    neurons: IntArray
    utilities: FloatArray

    @classmethod
    def of(
        cls,
        problem: Problem,
        residual: Any,
        clock: Clock,
        origin: Init,
        state: GenericState,
        aligned: float,
    ) -> Discharge:
        """Dormant neurons that grew, stand at an equilibrium of the direction flow, and now lose charge.

        Parameters
        ----------
        aligned : float
            Largest tangent part of the gradient, relative to it, that counts as an equilibrium.
        """
        above = state.log_norms > origin.log_norms
        back = np.flatnonzero(state.memory.grown & above & ~state.active)
        if back.size == 0:
            return cls(clock, origin, back, np.zeros(0))
        utility, gradient = problem.utility(state.directions[back], back, residual)
        turning = np.linalg.norm(tangent(state.directions[back], gradient), axis=1)
        held = (utility < 0) & (turning <= aligned * np.linalg.norm(gradient, axis=1))
        return cls(clock, origin, back[held], utility[held])

    def home(self, state: GenericState) -> FloatArray:
        """Accelerated time each needs to its initial norm, (k,)."""
        degree = self.clock.degree
        charge = log_threshold(self.origin.log_norms[self.neurons], degree, state.log_norms[self.neurons])
        return np.exp(charge - np.log(-degree * self.utilities) - self.clock.log_scale)

    def advance(self, state: GenericState, time: float) -> GenericState:
        """After `time` (accelerated): those that are home by then start anew from their initial direction."""
        degree, k = self.clock.degree, self.neurons
        if k.size == 0:
            return state
        log_norms, directions = state.log_norms.copy(), state.directions.copy()
        lost = degree * self.utilities * np.exp((degree - 2) * log_norms[k] + self.clock.log_scale) * time
        home = k[self.home(state) <= time * (1.0 + 1e-12)]
        log_norms[k] += log_norm(lost, np.zeros(k.size), degree)
        log_norms[home], directions[home] = self.origin.log_norms[home], self.origin.directions[home]
        return replace(state, directions=directions, log_norms=log_norms, memory=state.memory.mark(home, False))
