"""What a problem's own two phases must do, where it brings some."""

from __future__ import annotations

from typing import Any, Protocol

from agf.clock import Clock
from agf.records.state import Activation, Settled, State
from agf.records.status import Status


class Phases(Protocol):
    """The two phases of [AGF] Algorithm 1 from one initialization. A problem may bring its own (`Problem.phases`).

    Each method takes a state and returns a new one; what they remember is in the state (`State.memory`). `clock` says
    what accelerated time is: all times here are.

    They may have counters `stats`, sentences `notes`, and `rates`, the decay rates (k,) in flow time of the active
    neurons of a settled state, where these are known without a Hessian.
    """

    clock: Clock

    def start(self) -> State[Any]:
        """All neurons dormant, time 0."""
        ...

    def dormant(self, state: State[Any]) -> tuple[State[Any], Activation | Status]:
        """Utility maximization until the next activation, or the status that says why there is none."""
        ...

    def active(self, state: State[Any], activation: Activation) -> tuple[State[Any], Settled | Status]:
        """Cost minimization of the active neurons, `activation.neurons` being new; state.level is the new level."""
        ...
