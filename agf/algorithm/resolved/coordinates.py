"""How neurons ride on the residual of the active ones (mode "resolved"), in the coordinates they are carried in.

`PolarRide` serves any problem: direction and log norm. A problem whose own coordinates offer it (`FlowSystem.riding`)
is carried in those, `OwnRide`: they remember what directions lose. A coordinate of a diagonal network that grew
1e16-fold has its two layers equal to the last bit, and when it shrinks again and changes sign hangs on the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from agf.algorithm import dormant
from agf.algorithm.dormant import Crossing
from agf.algorithm.field import Batch
from agf.algorithm.threshold import Threshold
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.clock import Clock
from agf.contract.flow_system import FlowSystem, Snapshot
from agf.contract.problem import Problem
from agf.coordinates.polar_system import PolarSystem
from agf.init import Init
from agf.records.settings import Settings
from agf.records.state import State
from agf.records.status import Status
from agf.rounding import TIED
from agf.stopping.drive import Why, drive
from agf.stopping.methods import Explicit
from agf.stopping.rules import Budget, Event

#: Fraction of the time it took to which a crossing in own coordinates is located. Cost: of bisections.
_SHARP = 1e-9
#: Multiple of all times before at which what is still to come never does: it hovers where it cannot grow. Derived: its
#: rate is then zero, as is what differs by `TIED`.
NEVER = 1.0 / TIED
#: Steps of one search for a crossing. Limit: it then says that there is none.
_MAX_STEPS = 20_000
#: What a plateau ends with on which no neuron joins.
_STATUS = {
    Why.TIME: Status.MAX_TIME,
    Why.BUDGET: Status.MAX_STEPS,
    Why.STALLED: Status.STALLED,
    Why.NONFINITE: Status.NONFINITE,
}


@dataclass(frozen=True)
class Landing:
    """End of a plateau: when (accelerated time since its start), who joins at which utility, and everybody there."""

    time: float
    neurons: IntArray
    utility: FloatArray
    state: State


class Riding(FlowSystem):
    """A flow system of all neurons whose residual is made by the active ones alone.

    Its loss is that of all neurons, so that nothing jumps when one joins, and its rate that at which the active ones
    lower it.

    Parameters
    ----------
    active : int ndarray, shape (m,)
        Their indices.
    alive : bool ndarray, shape (H,)
        Not exactly zero.
    """

    active: IntArray
    alive: BoolArray

    @abstractmethod
    def polar(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unit directions (H, P) and log norms (H,)."""

    @abstractmethod
    def residual(self, y: FloatArray) -> Any:
        """What the active neurons leave to fit."""

    @abstractmethod
    def rates(self, y: FloatArray, velocity: FloatArray) -> FloatArray:
        """d log rho/ds, (H,), from the velocity at y."""

    @abstractmethod
    def state(self, y: FloatArray, before: State[Any], time: float) -> State[Any]:
        """The state at y. Neurons that are exactly zero stay so."""


class Ride(Protocol):
    """What a run of mode "resolved" asks of the coordinates."""

    def start(self, state: State) -> State:
        """The state at time 0, with what the coordinates must remember."""

    def system(self, state: State) -> Riding:
        """Everybody in real time, from `state`."""

    def cross(
        self, state: State, small: IntArray, threshold: Threshold, rtol: float, stop: float, stats: dict[str, float]
    ) -> Landing | Status:
        """The next dormant neuron to reach `threshold` on the frozen residual, with the active neurons `small` (k,)
        riding along, and the others held; the status of `dormant.cross` when there is none by `stop`."""

    def warnings(self, log_norms: FloatArray) -> list[str]:
        """What float64 lost in these coordinates, from the log norms (T, H) of a run."""


def ride_of(problem: Problem, clock: Clock, settings: Settings, init: Init) -> Ride:
    """The ride in the problem's own coordinates where they offer one, else in polar ones."""
    system = problem.flow_system(init)
    no_neurons = np.zeros(0, dtype=np.int64)
    if system is not None and system.riding(no_neurons) is not None:
        return OwnRide(problem, clock, system, init)
    return PolarRide(problem, clock, settings, init)


class PolarRiding(PolarSystem, Riding):
    """`Riding` in direction and log norm."""

    def __init__(self, problem: Problem, state: State, alpha: float) -> None:
        super().__init__(problem, Init(state.directions, state.log_norms, alpha))
        self.active = np.flatnonzero(state.active)

    def _members(self, log_norms: FloatArray) -> BoolArray:
        members = np.zeros(log_norms.shape, dtype=bool)
        members[self.active] = True
        return members & self._present(log_norms)

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        directions, log_norms, _ = self._split(y)
        loss, gradient = self.problem.loss_grad(self._theta(directions, log_norms), self.neurons)
        with np.errstate(over="ignore"):
            return float(loss), -float(np.sum(gradient[self.active] ** 2)) * float(np.exp(self.log_time_unit))

    def polar(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._split(y)[:2]

    def residual(self, y: FloatArray) -> Any:
        directions, log_norms, _ = self._split(y)
        return self.problem.residual(self._theta(directions, log_norms)[self.active], self.active)

    def rates(self, y: FloatArray, velocity: FloatArray) -> FloatArray:
        rates = velocity[-self.neurons.size :]
        return -rates / (self.power * y[-self.neurons.size :]) if self.power else rates

    def state(self, y: FloatArray, before: State, time: float) -> State:
        directions, log_norms, _ = self._split(y)
        return replace(before, time=time, directions=directions, log_norms=np.where(self.alive, log_norms, -np.inf))


class PolarRide:
    """`Ride` of any problem; plateaus are those of `dormant.cross`."""

    def __init__(self, problem: Problem, clock: Clock, settings: Settings, init: Init) -> None:
        self.problem, self.clock, self.settings, self.init = problem, clock, settings, init

    def start(self, state: State) -> State:
        return state

    def system(self, state: State) -> Riding:
        return PolarRiding(self.problem, state, self.init.alpha)

    def warnings(self, log_norms: FloatArray) -> list[str]:
        return PolarSystem(self.problem, self.init).history_warnings(log_norms)

    def cross(
        self, state: State, small: IntArray, threshold: Threshold, rtol: float, stop: float, stats: dict[str, float]
    ) -> Landing | Status:
        waiting, active = np.flatnonzero(~state.active), np.flatnonzero(state.active)
        residual = self.problem.residual(state.params[active], active)
        directions, log_norms = state.directions.copy(), state.log_norms.copy()
        everyone = np.arange(state.active.size)
        batch = Batch(self.problem, residual, self.clock, directions, log_norms, everyone, self.init)
        free, tie_rtol = batch.some(waiting, directions, log_norms), self.settings.tie_rtol
        found = dormant.cross(free, threshold, rtol=rtol, tie_rtol=tie_rtol, align=False, stop=stop, stats=stats)
        if not isinstance(found, Crossing):
            return found
        directions[waiting], log_norms[waiting] = found.directions, found.log_norms
        if small.size:
            riding = batch.some(small, directions, log_norms)
            directions[small], log_norms[small] = dormant.carried(riding, found.time, rtol=rtol, stats=stats)
        after = replace(state, time=state.time + found.time, directions=directions, log_norms=log_norms)
        return Landing(found.time, waiting[found.neurons], found.utility, after)


class OwnRiding(Riding):
    """`Riding` in a problem's own coordinates; `State.memory` is y."""

    def __init__(self, problem: Problem, system: FlowSystem, state: State[FloatArray], alive: BoolArray) -> None:
        self.problem, self._system, self._y = problem, system, state.memory
        self.active, self.alive = np.flatnonzero(state.active), alive
        self.smooth, self.contracts, self.log_time_unit = system.smooth, system.contracts, system.log_time_unit
        self.moving: BoolArray | None = None  # entries that move, on a plateau; else all
        self._seen: tuple[FloatArray, FloatArray, FloatArray] | None = None  # of the last `polar`, which several ask

    @property
    def groups(self) -> IntArray:
        return self._system.groups

    def start(self) -> FloatArray:
        return self._y

    def velocity(self, y: FloatArray) -> FloatArray:
        velocity = self._system.velocity(y)
        return velocity if self.moving is None else np.where(self.moving, velocity, 0.0)

    def loss(self, y: FloatArray) -> float:
        return self._system.loss(y)

    def loss_rate(self, y: FloatArray) -> float:
        return self._system.loss_rate(y)

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """On a plateau 0 for both: the residual is frozen, and a step that goes past the end has no loss in float64."""
        return self._system.loss_and_rate(y) if self.moving is None else (0.0, 0.0)

    def loss_is_known(self, y: FloatArray) -> bool:
        return self.moving is not None or self._system.loss_is_known(y)

    def snapshot(self, y: FloatArray) -> Snapshot:
        return self._system.snapshot(y)

    def scale(self, y: FloatArray) -> FloatArray:
        return self._system.scale(y)

    def retract(self, y: FloatArray) -> FloatArray:
        return self._system.retract(y)

    def velocities(self, ys: FloatArray) -> FloatArray:
        return self._system.velocities(ys)

    def jacobians(self, ys: FloatArray) -> FloatArray:
        return self._system.jacobians(ys)

    def losses_and_rates(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._system.losses_and_rates(ys)

    def growth(self, y: FloatArray) -> float | None:
        return self._system.growth(y)

    def due(self, y: FloatArray) -> float | None:
        return self._system.due(y)

    def metric(self, y: FloatArray) -> FloatArray | None:
        return self._system.metric(y)

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """That of the coordinates that make the residual.

        The others are driven by these and drive none: Newton's method without that coupling takes one iteration more.
        """
        return self._system.hessian(y)

    def polar(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self._seen is None or self._seen[0] is not y:
            found = self._system.snapshot(y)
            self._seen = y, found.directions, found.log_norms
        return self._seen[1:]

    def residual(self, y: FloatArray) -> Any:
        directions, log_norms = self.polar(y)
        theta = directions[self.active] * np.exp(log_norms[self.active])[:, None]
        return self.problem.residual(theta, self.active)

    def rates(self, y: FloatArray, velocity: FloatArray) -> FloatArray:
        del velocity
        directions, log_norms = self.polar(y)
        neurons = np.flatnonzero(self.alive)
        kappa, out = self.problem.degree, np.zeros(self.alive.size)
        utility = self.problem.utility(directions[neurons], neurons, self.residual(y))[0]
        out[neurons] = kappa * utility * np.exp((kappa - 2) * log_norms[neurons] + self.log_time_unit)
        return out

    def state(self, y: FloatArray, before: State, time: float) -> State:
        directions, log_norms = self.polar(y)
        return replace(before, time=time, directions=directions, log_norms=log_norms, memory=y)


class OwnRide:
    """`Ride` in own coordinates, in which plateaus are integrated as well, with the residual frozen."""

    def __init__(self, problem: Problem, clock: Clock, system: FlowSystem, init: Init) -> None:
        self.problem, self.clock, self._system = problem, clock, system
        self.alive = np.isfinite(init.log_norms)

    def _riding(self, state: State, at: FloatArray | None = None) -> OwnRiding:
        system = self._system.riding(np.flatnonzero(state.active), at)
        if system is None:
            raise TypeError("these coordinates do not offer riding")
        return OwnRiding(self.problem, system, state, self.alive)

    def start(self, state: State) -> State:
        return replace(state, memory=self._system.start())

    def system(self, state: State) -> Riding:
        return self._riding(state)

    def warnings(self, log_norms: FloatArray) -> list[str]:
        return self._system.history_warnings(log_norms)

    def cross(
        self, state: State, small: IntArray, threshold: Threshold, rtol: float, stop: float, stats: dict[str, float]
    ) -> Landing | Status:
        y0 = state.memory
        riding = self._riding(state, y0)
        unit = float(np.exp(riding.log_time_unit - self.clock.log_scale))
        residual, waiting = riding.residual(y0), np.flatnonzero(~state.active & self.alive)
        riding.moving = np.isin(riding.groups, np.concatenate([waiting, small]))

        def look(y: FloatArray) -> tuple[FloatArray, FloatArray]:
            stats["utility_evaluations"] = stats.get("utility_evaluations", 0) + 1
            directions, log_norms = riding.polar(y)
            return threshold.gaps(directions[waiting], log_norms[waiting], waiting, residual)

        gap, utility = look(y0)
        time, y = 0.0, y0
        if not (gap >= 0).any():
            fastest = self._fastest(riding, y0, waiting, residual)
            if not np.isfinite(fastest):
                return Status.NO_GROWTH
            end = drive(
                riding,
                Explicit(rtol, "rk45"),
                [Event(lambda y, now: look(y)[0], Why.JOINED, _SHARP), Budget(np.inf, _MAX_STEPS)],
                y0,
                s_end=min(stop / unit, NEVER * fastest),
            )
            if end.why is not Why.JOINED:
                return _STATUS[end.why]
            time, y = end.at.t * unit, end.at.y
            gap, utility = look(y)
        over = gap >= 0
        return Landing(time, waiting[over], utility[over], riding.state(y, state, state.time + time))

    def _fastest(self, riding: OwnRiding, y: FloatArray, waiting: IntArray, residual: Any) -> float:
        """Time (s) in which the fastest of `waiting` grows by a factor e at the largest rate its gradient allows."""
        directions, log_norms = riding.polar(y)
        gradient = self.problem.utility(directions[waiting], waiting, residual)[1]
        steepest = np.linalg.norm(gradient, axis=1)  # degree times the largest utility, along it
        with np.errstate(divide="ignore"):
            times = np.exp((2 - self.problem.degree) * log_norms[waiting] - np.log(steepest) - riding.log_time_unit)
        return float(np.min(times, initial=np.inf))
