"""Dormant neurons that have the direction of an active one, and go with it while the active ones settle.

[AGF] Algorithm 1 lets dormant neurons keep their directions during a drop. For degree 2 the flow of a direction does
not know the norm: two neurons of one direction keep it in common, and the ratio of their norms, however small the
second is. Left where it stood, the second would meet a residual that training never shows it (a ReLU neuron leaves the
cone that its leader fits, say), and activate in a drop that never comes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.records.state import M, State
from agf.sphere import norms


@dataclass(frozen=True)
class Following:
    """neurons (k,), dormant; leaders (k,), active; log_norms (k,), of the first over the second at the start."""

    neurons: IntArray
    leaders: IntArray
    log_norms: FloatArray

    @classmethod
    def of(cls, problem: Problem, state: State[Any], close: float) -> Following:
        """Pairs of directions no further apart than `close`, where the pull at both norms is the same."""
        active, dormant = np.flatnonzero(state.active), np.flatnonzero(~state.active & np.isfinite(state.log_norms))
        if problem.degree != 2 or not problem.interchangeable or active.size == 0 or dormant.size == 0:
            return cls(active[:0], active[:0], np.zeros(0))
        similar = state.directions[dormant] @ state.directions[active].T
        best = np.argmax(similar, axis=1)
        near = similar[np.arange(dormant.size), best] >= 1.0 - 0.5 * close**2
        neurons, leaders = dormant[near], active[best[near]]
        residual = problem.residual(state.params[active], active)
        small, large = (
            problem.pull(state.directions[leaders], state.log_norms[who], leaders, residual)
            for who in (neurons, leaders)
        )
        alike = norms(small - large) <= close * norms(large)
        neurons, leaders = neurons[alike], leaders[alike]
        return cls(neurons, leaders, state.log_norms[neurons] - state.log_norms[leaders])

    def after(self, state: State[M]) -> State[M]:
        """The state after the flow of the active neurons; those whose leader collapsed stay where they were."""
        stay = state.active[self.leaders]
        neurons, leaders = self.neurons[stay], self.leaders[stay]
        directions, log_norms = state.directions.copy(), state.log_norms.copy()
        directions[neurons] = directions[leaders]
        log_norms[neurons] = log_norms[leaders] + self.log_norms[stay]
        return replace(state, directions=directions, log_norms=log_norms)
