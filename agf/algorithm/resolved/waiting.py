"""The neurons that wait: who of them is next, when, and by which order (mode "resolved"). They move on a frozen
residual, in the long steps of `dormant.cross`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agf.algorithm import dormant
from agf.algorithm.dormant import Crossing
from agf.algorithm.field import Batch
from agf.algorithm.resolved.given import Given
from agf.algorithm.threshold import Threshold
from agf.arrays import FloatArray, IntArray
from agf.contract.order import Order, order
from agf.records.state import State
from agf.records.status import Status
from agf.rounding import TIED

#: Multiple of all times before at which what is still to come never does: it hovers where it cannot grow. Derived: its
#: rate is then zero, as is what differs by `TIED`.
NEVER = 1.0 / TIED


@dataclass(frozen=True)
class Landing:
    """End of a plateau: when (accelerated time since its start), who joins at which utility, and everybody there.

    gain : loss that the strongest of them can take alone.
    """

    time: float
    neurons: IntArray
    utility: FloatArray
    gain: float
    state: State


class Waiting:
    """What a pass asks of its dormant neurons, of states that it hands over.

    Parameters
    ----------
    given : Given
        Whose neurons, and whether they go the other way at forks, where the flow is not unique (`probe`).
    threshold : Threshold
        Norms at which they join.
    stats : dict[str, float]
        Counters to add to.

    Attributes
    ----------
    forked : set[int]
        Neurons that have passed a fork.
    stepped : bool
        Whether they are taken in steps on the kinks of the trainer, which tell what sharp ones change: masked ones that
        go the other way.
    """

    def __init__(self, given: Given, threshold: Threshold, stats: dict[str, float]) -> None:
        self.given, self.threshold, self.stats = given, threshold, stats
        self.forked = set[int]()
        self.stepped = given.probe and given.problem.cornered and given.problem.restriction() is not None

    def order(self, state: State, neurons: IntArray) -> Order:
        """The order that decides whether these dormant neurons (k,) grow."""
        problem = self.given.problem
        if neurons.size == 0 or not problem.smooth:
            return Order.LEADING
        return order(problem, state.directions[neurons], neurons, self._residual(state), state.level)

    def next(self, state: State, small: IntArray, rtol: float, stop: float, most: float = np.inf) -> Landing | Status:
        """The next to join, on the residual of the active neurons, of which `small` (k,) ride along and the others are
        held; MAX_TIME when none does by `stop`, or ever as far as a run of this length can tell.

        most : evaluations after which it is MAX_STEPS.
        """
        if state.time > 0:
            stop = min(stop, NEVER * state.time)
        waiting = np.flatnonzero(~state.active)
        batch = self._everyone(state)
        directions, log_norms, ties = batch.directions, batch.log_norms, self.given.settings.tie_rtol
        free = batch.some(waiting, directions, log_norms)
        found = dormant.cross(
            free, self.threshold, rtol=rtol, tie_rtol=ties, align=False, stop=stop, most=most, stats=self.stats
        )
        if not isinstance(found, Crossing):
            return found
        self.forked.update(waiting[found.forked].tolist())
        directions[waiting], log_norms[waiting] = found.directions, found.log_norms
        if small.size:
            riding = batch.some(small, directions, log_norms)
            directions[small], log_norms[small] = dormant.carry_batch(riding, found.time, rtol=rtol, stats=self.stats)
        after = replace(state, time=state.time + found.time, directions=directions, log_norms=log_norms)
        return Landing(found.time, waiting[found.neurons], found.utility, found.gain, after)

    def soonest(self, state: State) -> float:
        """Accelerated time before which none joins, as far as the gradients of now tell."""
        batch = self._everyone(state)
        free = batch.some(np.flatnonzero(~state.active), batch.directions, batch.log_norms)
        return dormant.soonest(free, self.threshold, stats=self.stats)

    def _residual(self, state: State) -> object:
        """What the active neurons leave to fit."""
        active = np.flatnonzero(state.active)
        return self.given.problem.residual(state.params[active], active)

    def _everyone(self, state: State) -> Batch:
        """All neurons on the residual of the active ones, in copies."""
        directions: FloatArray = state.directions.copy()
        log_norms, everyone = state.log_norms.copy(), np.arange(state.active.size)
        return Batch(
            self.given.problem,
            self._residual(state),
            self.given.clock,
            directions,
            log_norms,
            everyone,
            self.given.init,
            self.given.probe,
            rounded=True,
            stepped=self.stepped,
        )
