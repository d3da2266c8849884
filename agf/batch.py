"""Many initializations of one problem at once: phases whose steps were worked out before the engine asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agf.init import Init
from agf.records.state import Activation, Settled, State
from agf.records.status import Status


@dataclass(frozen=True)
class Move:
    """One round of the algorithm: what activated, and where the active neurons then settled.

    Parameters
    ----------
    activation : Activation
        What activated.
    settled : Settled
        Where the active neurons then settled.
    state : State
        After both phases; its `memory` is the script's own.
    """

    activation: Activation
    settled: Settled
    state: State


class Script:
    """Phases that are known in advance. `Problem.many_phases` returns one for each initialization.

    Parameters
    ----------
    start : State
        All neurons dormant, time 0.
    moves : Sequence[Move]
        The rounds in order.
    end : Status
        Why no further neuron activates.
    """

    def __init__(self, start: State, moves: Sequence[Move], end: Status) -> None:
        states = [start, *[move.state for move in moves]]
        self._states = [replace(state, memory={"round": np.array(k)}) for k, state in enumerate(states)]
        self._moves, self._end = moves, end

    def start(self, init: Init) -> State:
        """The start of the script, whatever `init` is."""
        del init
        return self._states[0]

    def dormant(self, state: State) -> tuple[State, Activation | Status]:
        """What activates in the round of this state."""
        k = int(state.memory["round"])
        return state, self._moves[k].activation if k < len(self._moves) else self._end

    def active(self, state: State, activation: Activation) -> tuple[State, Settled | Status]:
        """Where the active neurons settle in the round of this state; `activation` is known already."""
        del activation
        k = int(state.memory["round"])
        return self._states[k + 1], self._moves[k].settled
