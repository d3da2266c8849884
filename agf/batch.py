"""Many initializations of one problem at once: phases whose steps were worked out before the engine asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agf.clock import Clock
from agf.records.state import Activation, Settled, State
from agf.records.status import Status


@dataclass(frozen=True)
class Move:
    """One round of the algorithm: what activated, and where the active neurons then settled.

    Parameters
    ----------
    activation : Activation
        What activated.
    settled : agf.Settled
        Where the active neurons then settled.
    state : State
        After both phases; its `memory` is the script's own.
    activated : State, optional
        After the first phase, of which error bars are made; None for that before it.
    """

    activation: Activation
    settled: Settled
    state: State[Any]
    activated: State[Any] | None = None


class Script:
    """Phases that are known in advance; `State.memory` is the number of the round. `Problem.many_phases` returns one
    for each initialization.

    Parameters
    ----------
    clock : Clock
        What accelerated time is.
    start : State
        All neurons dormant, time 0.
    moves : sequence of Move
        The rounds in order.
    end : Status
        Why no further neuron activates.
    """

    def __init__(self, clock: Clock, start: State[Any], moves: Sequence[Move], end: Status) -> None:
        self.clock = clock
        states = [start, *[move.state for move in moves]]
        self._states: list[State[int]] = [replace(state, memory=k) for k, state in enumerate(states)]
        self._moves, self._end = moves, end

    def start(self) -> State[int]:
        """The start of the script."""
        return self._states[0]

    def dormant(self, state: State[int]) -> tuple[State[int], Activation | Status]:
        """What activates in the round of this state."""
        k = state.memory
        if k == len(self._moves):
            return state, self._end
        activated = self._moves[k].activated
        return state if activated is None else replace(activated, memory=k), self._moves[k].activation

    def active(self, state: State[int], activation: Activation) -> tuple[State[int], Settled | Status]:
        """Where the active neurons settle in the round of this state; `activation` is known already."""
        del activation
        return self._states[state.memory + 1], self._moves[state.memory].settled
