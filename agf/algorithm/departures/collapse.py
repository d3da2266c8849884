"""Active neurons that shrink to nothing, and are dormant again.

[AGF] lets a norm return to 0. float64 cannot hold it there: a neuron so small has lost what balances its parts, and
passes to the other side. So one that has fallen far below the norm at which it saturates, and still falls, is dormant
there and then, at the threshold it came by: it shrinks from there by the law of dormant neurons (`discharge`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf.algorithm.memory import GenericState
from agf.arrays import FloatArray, IntArray
from agf.sphere import norms

#: Norm over the natural one, R*, below which an active neuron that still shrinks has returned to dormancy. Result: the
#: flow is accurate to the root of rtol, and what balances the parts of a neuron is kept to a norm below this; at 0.5
#: neurons that others push aside for a while would leave, at 5e-3 rounding would decide in which direction they return.
COLLAPSED = 0.05


def gone(state: GenericState, chosen: IntArray) -> FloatArray:
    """Norms below which neurons `chosen` (m,) have collapsed, (m,)."""
    return COLLAPSED * np.exp(state.memory.sizes[chosen])


def below(theta: FloatArray, velocity: FloatArray, gone: FloatArray) -> FloatArray:
    """How far below `gone` (m,) the norms of theta (m, P) are, (m,); negative for those that do not fall."""
    falls = np.sum(theta * velocity, axis=1) < 0
    return np.where(falls, gone - norms(theta), -1.0)


def put_back(state: GenericState, before: GenericState, collapsed: IntArray) -> GenericState:
    """The state with neurons `collapsed` (k,) dormant again, as they were before the phase, at their thresholds."""
    active, directions, log_norms = state.active.copy(), state.directions.copy(), state.log_norms.copy()
    active[collapsed] = False
    directions[collapsed], log_norms[collapsed] = before.directions[collapsed], before.memory.radii[collapsed]
    memory = state.memory.mark(collapsed, True)
    return replace(state, active=active, directions=directions, log_norms=log_norms, memory=memory)
