"""One pass from the initialization to an end: where it is, who is active, and which phase is next."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from agf import integrators
from agf.algorithm.observer import Observer
from agf.algorithm.resolved.given import Given
from agf.algorithm.resolved.members import Members, Network, leading
from agf.algorithm.resolved.path import Change, Path
from agf.algorithm.resolved.waiting import Waiting
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.order import Order
from agf.coordinates.floors import of_rests, of_returns, told_of_rests
from agf.records.state import State
from agf.results.drop import Drop
from agf.stopping.driver import Moment


class Run:
    """Where a pass is and what it has gone through. What it was given stays as it is, in `given`.

    Parameters
    ----------
    given : Given
        What it is to follow, how exactly, and how far.
    observer : Observer or None, optional
        Who is shown every state.
    """

    def __init__(self, given: Given, observer: Observer | None = None) -> None:
        self.given, self.observer = given, observer
        problem, init, settings = given.problem, given.init, given.settings
        self.stats = defaultdict[str, float](int)
        self.solved = 0.0  # gradients that Hessians with their factorizations have cost
        self.notes: list[str] = []
        first = np.isin(np.arange(init.width), problem.permanent)
        self.state: State = State(0.0, first, init.directions, init.log_norms, given.start_level)
        reading = "rates" if problem.cornered else "losses"
        self.path = Path(losses=[given.start_level], states=[self.state], reading=reading, level=given.start_level)
        assert settings.joining is not None
        joining = given.tolerances.joining * leading(problem, init, settings.joining)
        self.members = Members(problem, init.width, settings.threshold == "natural", joining, self.stats)
        self.waiting = Waiting(given, self.members.threshold, self.stats)
        self.settled = not first.any()  # a plateau is next; else no neuron is active yet
        self.moving = 0.0  # time before which the active set is known not to be settled
        self.last = False  # whether no neuron will join any more
        self.left: float | None = None  # loss that may still be lost at the end
        self.drift = 0.0  # the same where nothing says that it stops
        self.planned: integrators.Memory | None = None  # the method that stepped last, and its next step
        self.landing: State | None = None  # the end of the first plateau, where no fork was passed on it
        self.lost = np.inf  # accelerated time after which drops hang on what steps do not hold

    def follow(self, first: Run) -> None:
        """Begin where another pass has landed: the first plateau is that of the zero function, whoever joins when; one
        that is crossed in another way is another."""
        if first.landing is not None and first.waiting.stepped == self.waiting.stepped:
            self.state = first.landing
            self.path.follow(first.path, self.state.time)

    def start(self) -> None:
        """Neurons that start above the norms at which they would join are active from the start; not where these norms
        are rounding."""
        if self.state.time > 0.0:
            return
        alive = np.isfinite(self.state.log_norms)
        if self.waiting.order(self.state, np.flatnonzero(alive & ~self.state.active)) is Order.NONE:
            return
        network = Network(self.given.problem, self.state.active, alive, self.state.directions, self.state.log_norms)
        large, heights, utility = self.members.large(network)
        if large.size:
            log_norms = self.state.log_norms.copy()
            log_norms[large] -= heights
            self.join(large, utility, log_norms)

    def join(self, neurons: IntArray, utility: FloatArray, log_norms: FloatArray | None = None) -> None:
        """Neurons (k,) become active, with their utilities (k,); log_norms: (H,) at which, those of now when None."""
        active = self.state.active.copy()
        active[neurons] = True
        self.settled = False
        self.state = replace(self.state, active=active)
        self.members.join(neurons, self.state.log_norms if log_norms is None else log_norms, utility)

    def leave(self, neurons: IntArray) -> None:
        """Neurons (k,) become dormant."""
        active: BoolArray = self.state.active.copy()
        active[neurons] = False
        self.state = replace(self.state, active=active)
        self.settled = not active.any()
        self.members.leave(neurons)
        self.path.events.append(Change(self.state.time, neurons, False, np.zeros(0), self.state))

    def take(self, state: State) -> None:
        """Move on to a state."""
        self.state = state
        self.path.keep(state)
        if self.observer is not None:
            self.observer(state, None)
        here = self.members.arrive(state.log_norms)
        if here.size:
            self.path.events.append(Change(state.time, here, True, self.members.utility[here], state))

    def drops(self) -> list[Drop]:
        """Visible drops so far."""
        return self.path.drops(self.given.problem, self.given.clock, self.left)

    def evaluations(self, now: Moment | None = None) -> float:
        """All so far, those of the stretch under way until now among them."""
        told = sum(value for name, value in self.stats.items() if name.endswith("evaluations"))
        return told if now is None else now.work.gradients + told

    @property
    def gradients_left(self) -> float:
        """Gradients that it may still take."""
        return self.given.budget(self.evaluations() + self.solved)

    def warn(self) -> None:
        """Note the neurons that come back, or leave where they rested, after what that hangs on was lost."""
        states = self.path.states
        if states[-1] is not self.state:
            states = [*states, self.state]
        log_norms = np.array([state.log_norms for state in states])
        self.notes.extend(of_returns(self.given.problem, np.isfinite(self.given.init.log_norms), log_norms))
        directions = np.array([state.directions for state in states])
        neurons, since = of_rests(self.given.problem, directions, log_norms, self.given.tolerances.plateau)
        if neurons.size:
            self.lost = states[since - 1].time
            self.notes.append(told_of_rests(neurons))
