"""The time-resolved prediction: active neurons flow in real time, dormant ones ride on the changing residual.

[AGF] Algorithm 1 lets the active neurons settle in no time. Here they take their time: dormant neurons stay independent
of one another and without influence on the residual, and a neuron joins the active flow at a small fraction of the norm
R* at which it would saturate. Drops may then overlap, and the loss curve itself is predicted. While the active set is
settled it is not stepped: the dormant neurons alone cover the plateau, in the long steps of `dormant.cross`.
"""

from __future__ import annotations

import time as wall
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agf import integrators
from agf.algorithm.conditioning import LONGER, TOLERANCE, conditioned
from agf.algorithm.departures.symmetry import vanish
from agf.algorithm.deviation import of_curve
from agf.algorithm.outcome import staircase
from agf.algorithm.resolved_coordinates import NEVER, Landing, PolarRiding, Riding, ride_of
from agf.algorithm.resolved_members import Members
from agf.algorithm.resolved_path import Change, Path
from agf.algorithm.threshold import NonFinite
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.clock import Clock, charge
from agf.contract.blame import guard
from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.coordinates.held_neurons import hold
from agf.coordinates.mode_system import mixes
from agf.init import Init
from agf.numerics.collocation import Collocated
from agf.numerics.ndf import History
from agf.records.checkpoint import Checkpoint
from agf.records.settings import Settings
from agf.records.state import State
from agf.records.status import Status
from agf.results.curve import FINE_DEPTH, detect
from agf.results.staircase import Drop, Staircase
from agf.rounding import SUM
from agf.stopping.coordinates import Stiff
from agf.stopping.drive import End, Moment, Saved, Stop, Why, drive
from agf.stopping.ending import FLOOR, Ending
from agf.stopping.methods import Auto, Explicit
from agf.stopping.rules import BUDGET, Budget, Certified, Event, Timeless, Tolerance

#: Steps at which the curve is looked over for drops that were requested, over those at the last look. Cost: a look
#: goes over the whole curve, and what is stepped beyond the last drop is thrown away.
_LOOKS = 1.1
#: Accuracy of the place in a step at which a neuron joins or leaves. Cost: a joining norm is a convention.
_SHARP = 1e-4
#: Evaluations of one flow after which it gives up where the rest of the plateau would take this many times more. Limit:
#: the run ends there and says so.
_PATIENT, _FOR_EVER = 20_000, 30.0
_RESTLESS = (
    "The active neurons come to rest nowhere near, and stepping through the plateau, which lasts as long as one over "
    "alpha, would take for ever; use mode agf, or a larger alpha."
)
#: Log norms before joining at which the end of a plateau is drawn. Cost: points of the curve.
_BEND = (4.0, 3.0, 2.0, 1.5, 1.0, 0.7, 0.4, 0.2, 0.0)
#: Fall of the loss, over the first, between two points of the curve at most, ... Cost: half-drop times are found on a
#: cubic between points.
_FINE = 0.005
#: ... or so many points in one step. Cost: as above.
_MOST_INSIDE = 30
#: Points of the curve in a collocation step, which may pass a whole drop. Cost: as above.
_LONG = 20
#: Points of such a step between two looks at the state. Cost: of looks; with one a step, coefficients after a drop
#: would be known to a tenth.
_EVERY = 4
#: Log norm by which active neurons that are still small may grow, at their present rate, on any plateau. Result: a
#: plateau on which one grows by more is stepped through; at 5 a drop of its own would be passed over, at 0.05 a plateau
#: is seldom one.
_STILL = 0.5
#: What is left to relax on a plateau, over the tolerance, that is relaxed at its end and makes no drop. Result: at 100
#: drops of a ten-thousandth at rtol 1e-6 would be none, at 1 what the bound of a slow mode overstates would be a drop.
_RELAXES = 10.0
#: Tolerance of a step over that of the settings. Cost: what joining at a finite norm leaves out is far more than this.
_STEP = 25.0
#: Tolerance of a step over the half-width to which a kink is rounded. Derived: the force of a kink goes from 0 to all
#: within the rounding, so that a step errs by a percent of it. At a third a neuron that rests in it is thrown across,
#: to chatter for ever or leave a saddle where the flow stays: of some 25 networks three ended at a wrong level.
_LAYER = 1e-2
#: Factor of it in the second pass. Derived: it must not chatter either.
_PROBE_LAYER = 3.0
#: Tolerance of a step where kinks are sharp. Cost: every method is of first order there, and costs as one over it.
_KINKS = 3e-4
#: Largest tolerance of a step. Derived: with a coarser one long stabilised steps let the loss rise.
_COARSEST = 3e-3
#: Factor of the joining fraction in the second pass by which conditioning is measured. Result: of the conditioning
#: alone; at 1.1 what joining moves would not be seen, at 10 it would be that of another method.
_PROBE_JOINING = 2.0
#: Factor of the tolerance in this pass. Derived: that of a repeated prediction, and of joining.
_PROBE_STEP = TOLERANCE * _PROBE_JOINING

Observer = Callable[[State, Drop | None], None]


def resolve(
    problem: Problem, init: Init, settings: Settings, observer: Observer | None = None, kept: Checkpoint | None = None
) -> Staircase:
    """Predict the loss curve and its drops with the active neurons resolved in time.

    The predicted curve is `Staircase.curve`. Its drops are those visible in it (`agf.results.curve.detect`): `time` and
    `half_time` are both the half-drop time, and `neurons` are all that grew since the drop before. `conditioning` is
    the relative change of the half-drop time when neurons join at half the norm (Settings.joining), a measure of how
    sensitive the competition behind the drop is.

    Raises RequestError for a wrong request, ProblemError for a plugin that breaks its contract.
    """
    began = wall.perf_counter()
    if init.width > 1 and mixes(problem):
        from agf.algorithm.resolved_modes import resolve_modes

        return of_curve(resolve_modes(problem, init, settings, observer, kept or Checkpoint(None)), FINE_DEPTH)
    run = _Run(problem, init, settings, observer)

    def result(status: Status, drops: list[Drop]) -> Staircase:
        most = settings.max_drops
        if most is not None and len(drops) > most:
            drops, status = drops[:most], status if status is Status.INTERRUPTED else Status.MAX_DROPS
        times, losses = run.clock.flow(np.array(run.path.times)), np.array(run.path.losses)
        stairs = staircase(problem, init, settings, run, status, drops, began, (times, losses))
        return of_curve(stairs, FINE_DEPTH, _decades(problem, settings))

    if kept is not None:
        run.observer = kept.watching(observer, lambda: result(Status.INTERRUPTED, run.drops()))
    with guard(problem, lambda: result(Status.ERROR, run.drops()) if len(run.path.times) > 1 else None):
        status = run.go()
        run.warn()
        drops = run.drops()
        if drops and settings.conditioning is not False and status is not Status.INTERRUPTED:
            middle = 0.5 * (drops[-1].level + (drops[-2].level if len(drops) > 1 else run.start_level))
            probe = _Run(problem, init, settings, None, probe=True, floor=middle)
            ended = probe.go()
            times = run.clock.flow(np.array(probe.path.times))
            told, notes = conditioned(drops, run.start_level, times, np.array(probe.path.losses), ended)
            drops = list(told)
            run.notes.extend(notes)
            for name, value in probe.stats.items():
                run.stats[name] = run.stats.get(name, 0) + value
            status = ended if ended is Status.INTERRUPTED else status
        found = result(status, drops)
        if observer is not None:
            for drop in found.drops:  # which they are is known in the end
                observer(run.path.state(drop.accelerated_time), drop)
        return found


@dataclass
class _Stretch:
    """A flow in real time from one change of the active set to the next.

    Parameters
    ----------
    system : Riding
        All neurons, in the coordinates in which the dormant ones ride.
    before : State
        Where it began.
    unit : float
        Accelerated time per unit of s.
    """

    system: Riding
    before: State
    unit: float
    moving: FlowSystem = field(init=False)  # what is stepped: in the end the weights may take over

    def __post_init__(self) -> None:
        self.moving = self.system

    def riding(self, y: FloatArray) -> FloatArray:
        """What is stepped, in the coordinates of `system`."""
        if self.moving is self.system or not isinstance(self.system, PolarRiding):
            return y
        return self.system.at(y.reshape(-1, self.before.directions.shape[1]))

    def time(self, s: float) -> float:
        """Accelerated time."""
        return self.before.time + s * self.unit

    def state(self, y: FloatArray, now: Moment) -> State:
        """At a moment, y being what rides."""
        return replace(self.system.state(y, self.before, self.time(now.t)), level=now.loss)


class _Run:
    """One pass from the initialization to an end."""

    def __init__(
        self,
        problem: Problem,
        init: Init,
        settings: Settings,
        observer: Observer | None,
        *,
        probe: bool = False,
        floor: float | None = None,
    ) -> None:
        assert settings.joining is not None  # in this mode it is never left out
        joining = settings.joining
        joining = min(_PROBE_JOINING * joining, 1.0) if probe else joining
        self.problem, self.init, self.settings, self.observer = problem, init, settings, observer
        self.rtol = _tolerance(problem, settings, probe)
        # At kinks `cross` allows an error of this to the power 2/3 a step. Each member of a group takes steps of its
        # own, and what these leave between them grows on the next plateau like a difference: there no looser.
        self.precise = settings.rtol**1.5 if problem.smooth and problem.kink > 0 else settings.rtol
        self.clock = Clock.from_norms(problem.degree, np.delete(init.log_norms, problem.permanent))
        self.stats: dict[str, float] = {}
        self.notes: list[str] = []
        first = np.isin(np.arange(init.width), problem.permanent)
        none, no_index = np.zeros((0, init.n_params)), np.zeros(0, dtype=np.int64)
        self.start_level = float(problem.loss_grad(none, no_index)[0])
        self.ride = ride_of(problem, self.clock, settings, init)
        self.state = self.ride.start(State(0.0, first, init.directions, init.log_norms, self.start_level))
        self.path = Path(losses=[self.start_level], states=[self.state])
        self.members = Members(problem, init.width, settings.threshold == "natural", joining, self.stats)
        limit = settings.t_max
        self.stop = np.inf if limit is None else float(self.clock.accelerated(LONGER * limit if probe else limit))
        self.settled = not first.any()  # else no neuron is active yet
        self.moving = 0.0  # time before which the active set is known not to be settled
        self.last = False  # whether no neuron will join any more
        # what is asked is over when no more than the tolerance is left above this
        self.least = float(problem.least_loss(init)) if floor is None else floor - settings.rtol * self.start_level
        self.gradients = 0.0  # work of the flows so far
        self.left: float | None = None  # loss that may still be lost at the end
        self.planned: integrators.Memory | None = None  # of the last flow

    def go(self) -> Status:
        """Alternate plateaus and flows until nothing is left to happen."""
        try:
            status = None
            while status is None:
                status = self._plateau() if self.settled else self._flow()
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        except NonFinite as error:
            self.notes.append(str(error))
            return Status.NONFINITE
        except integrators.MarchError as error:
            self.notes.append(str(error))
            if isinstance(error, integrators.NonFinite):
                return Status.NONFINITE
            return Status.STALLED if isinstance(error, integrators.Stalled) else Status.MAX_STEPS
        return status

    # -- the active set is settled ----------------------------------------------------------------------------

    def _plateau(self) -> Status | None:
        """Dormant neurons on the frozen residual until one joins; the status when none will."""
        waiting = np.flatnonzero(~self.state.active & np.isfinite(self.state.log_norms))
        most = self.settings.max_drops
        if most is not None and len(self.drops()) > most:  # the last one found may not be over
            return Status.MAX_DROPS
        if self.state.level <= self.settings.rtol * self.start_level:
            return Status.FITTED
        if self._vanish(waiting):
            self._join(waiting, np.zeros(waiting.size))  # no plateau to skip: all flow in real time from here
            return None
        if waiting.size == 0:
            return self._none_joins()
        small = np.flatnonzero(self.members.small(self.state))
        found = self._cross(self.precise, max(self.stop - self.state.time, 0.0), small)
        if isinstance(found, Status):
            if found is Status.MAX_TIME and np.isfinite(self.stop):
                self.path.add(self.stop, self.state.level)
                return found
            return self._none_joins() if found in (Status.MAX_TIME, Status.NO_GROWTH) else found
        log_norms = found.state.log_norms
        if not (log_norms[small] <= self.members.grown[small] + _STILL).all():
            # They turned to faster growth on the way: the flow goes on, and is not asked again too soon.
            self.settled, self.moving = False, self.state.time + 0.5 * found.time
            return None
        self.state = found.state
        self._bend(float(found.utility.max()), float(log_norms[found.neurons].max()))
        if self.planned is not None and self.planned.method == "rk45":
            self.planned = None  # a plateau is left more slowly than it was reached
        self._join(found.neurons, found.utility)
        return None

    def _residual(self, state: State) -> Any:
        active = np.flatnonzero(state.active)
        return self.problem.residual(state.params[active], active)

    def _bend(self, utility: float, log_norm: float) -> None:
        """The last part of a plateau, which the loss leaves as (rho / rho now)^kappa by the law of a lone neuron."""
        theta = self.state.directions * np.exp(np.maximum(self.state.log_norms, -700.0))[:, None]
        alive = np.flatnonzero(np.isfinite(self.state.log_norms))
        level, loss = self.state.level, float(self.problem.loss_grad(theta[alive], alive)[0])
        kappa = self.problem.degree
        before = np.array(_BEND)
        left = charge(np.full(before.shape, log_norm), log_norm - before, kappa) / (kappa * utility)
        times = self.state.time - left * np.exp(-self.clock.log_scale)
        for time, gap in zip(times, before, strict=True):
            if time > self.path.times[-1]:
                self.path.add(float(time), level - (level - loss) * float(np.exp(-kappa * gap)))
        self.state = replace(self.state, level=loss)

    def _cross(self, rtol: float, stop: float, small: IntArray) -> Landing | Status:
        """The next to join. MAX_TIME when none does by `stop`, or ever as far as a run of this length can tell."""
        if self.state.time > 0:
            stop = min(stop, NEVER * self.state.time)
        return self.ride.cross(self.state, small, self.members.threshold, rtol, stop, self.stats)

    def _join(self, neurons: IntArray, utility: FloatArray) -> None:
        active = self.state.active.copy()
        active[neurons] = True
        self.settled = False
        self.state = replace(self.state, active=active)
        self.members.join(neurons, self.state.log_norms, utility)

    def drops(self) -> list[Drop]:
        """Visible drops so far."""
        return self.path.drops(self.problem, self.clock, self.left)

    def _leave(self, neurons: IntArray) -> None:
        active: BoolArray = self.state.active.copy()
        active[neurons] = False
        self.state = replace(self.state, active=active)
        self.settled = not active.any()
        self.members.leave(neurons)
        self.path.events.append(Change(self.state.time, neurons, False, np.zeros(0), self.state))

    def _vanish(self, waiting: IntArray) -> bool:
        """Whether the utilities of the dormant neurons are rounding, by a symmetry that a higher order breaks."""
        if waiting.size == 0 or not self.problem.smooth:
            return False
        residual, directions = self._residual(self.state), self.state.directions[waiting]
        return vanish(self.problem, self.members.threshold, directions, waiting, residual, self.state.level)

    def _none_joins(self) -> Status | None:
        """What follows where no neuron will join any more: the flow of those that are active, to its end."""
        if not self.state.active.any():
            return Status.NO_GROWTH
        self.last, self.settled = True, False
        return None

    # -- the active set moves ---------------------------------------------------------------------------------

    def _flow(self) -> Status | None:
        """All neurons in real time until the active set changes or has settled; a status at an end."""
        system = self.ride.system(self.state)
        self.last |= bool(self.state.active[system.alive].all())
        unit = float(np.exp(system.log_time_unit - self.clock.log_scale))
        stretch = _Stretch(system, self.state, unit)
        began = self.state.time
        start: FloatArray = system.start()
        saved = Saved(start, method=self._resumed(system, start, unit))
        ending = Ending(self.settings.rtol, self.start_level, self.least, max(began, 1.0) / unit)
        budget = Budget(BUDGET - self.gradients, hessian=start.size)
        steps = Auto(self.rtol) if system.smooth else Explicit(self.rtol, "rk45")

        def joins(y: FloatArray, now: Moment) -> FloatArray:
            return self.members.joins(self.state, system, stretch.riding(y))

        def leaves(y: FloatArray, now: Moment) -> FloatArray:
            return self.members.leaves(system, stretch.riding(y))

        def each(now: Moment, saved: Saved) -> None:
            self._see(now, stretch)

        while True:
            stops: list[Stop] = [
                Event(joins, Why.JOINED, _SHARP),
                Event(leaves, Why.LEFT, _SHARP),
                Certified(Tolerance(self.settings.rtol, self.start_level), self.least),
            ]
            if self.last:
                stops += ending.rules(system.smooth)
            else:
                stops += [_Settles(self, stretch), *ending.rules(system.smooth)[3:]]
            if self.settings.max_drops is not None:
                stops.append(_Enough(self.path, self.settings.max_drops))
            stops += [*([Stiff()] if self.last and stretch.moving is system else []), Timeless(), budget]
            end = drive(stretch.moving, steps, stops, saved, s_end=(self.stop - began) / unit, each=each)
            if end.after is None:
                break
            stretch.moving, y = end.after
            length = 0.0 if end.at.step is None else end.at.step.s1 - end.at.step.s0
            saved = Saved(y, end.at.t, 0.0, History(length), None, end.at.work)
        work = end.at.work
        self.gradients += work.gradients + start.size * work.hessians
        self._count("velocity_evaluations", work.gradients)
        self._count("hessians", work.hessians)
        self.planned = self._planned(end.at, unit)
        return self._ended(end, ending, stretch)

    def _ended(self, end: End, ending: Ending, stretch: _Stretch) -> Status | None:
        """What follows the end of a stretch: None to go on, or the status of the run."""
        now, system = end.at, stretch.system
        if end.why in (Why.JOINED, Why.LEFT):
            y = stretch.riding(now.y if now.step is None else self._inside(system, now))
            self.state = stretch.state(y, now)
            self.last = False
            if end.why is Why.LEFT:
                self._leave(end.who)
                return None
            directions, _ = system.polar(y)
            who, residual = end.who, system.residual(y)
            self._join(who, self.problem.utility(directions[who], who, residual)[0])
            return None
        if end.why is Why.HORIZON:  # of `_Settles`: the plateau is next, or the last stretch
            return None
        if end.why is Why.SETTLED:
            self.left = max(end.left, _RELAXES * self.settings.rtol * max(now.loss, FLOOR * self.start_level))
            if now.loss - self.least <= self.settings.rtol * self.start_level:
                return Status.FITTED
            return Status.ALL_ACTIVE if self.state.active.all() else Status.NO_GROWTH
        if end.why is Why.TIME:
            return Status.MAX_TIME
        if end.why is Why.PASSED:
            return Status.MAX_DROPS
        status, sentence, _ = ending.status(end, float(np.exp(system.log_time_unit)))
        said = "" if end.note and end.note in sentence else end.note
        self.notes.extend(note for note in (said, sentence) if note)
        return status

    def _planned(self, now: Moment, unit: float) -> integrators.Memory | None:
        """The method that steps and its next step, in accelerated time."""
        return None if now.step is None else replace(now.step.memory, step=now.step.memory.step * unit)

    def _see(self, now: Moment, stretch: _Stretch) -> None:
        """Take a step into the curve, and where it ends into the state; what a long one passes is taken in as well."""
        losses, moments = self._inside_of(now)
        for t, loss, y in moments:
            self._take(stretch.state(y, replace(now, t=t, loss=loss)))
        for t, loss in losses:
            self.path.add(stretch.time(t), loss)
        self.path.add(stretch.time(now.t), now.loss)
        self._take(stretch.state(stretch.riding(now.y), now))

    def _take(self, state: State) -> None:
        self.state = state
        self.path.keep(state)
        if self.observer is not None:
            self.observer(state, None)
        here = self.members.arrive(state.log_norms)
        if here.size:
            self.path.events.append(Change(state.time, here, True, self.members.utility[here], state))

    def _inside_of(self, now: Moment) -> tuple[list[tuple[float, float]], list[tuple[float, float, FloatArray]]]:
        """Times and losses within the step that ended here, where the loss falls much; and states, where it is long."""
        step = now.step
        assert step is not None
        end, before, whole = now.t - now.origin, self.path.losses[-1], isinstance(step, Collocated)
        fall = abs(before - now.loss) / (_FINE * self.start_level)
        count = _LONG if whole else min(int(fall), _MOST_INSIDE)
        if count == 0:
            return [], []
        places = np.linspace(step.s0, end, count + 2)[1:-1]
        ys = step.many([step], np.zeros(count, dtype=np.int64), places)
        losses = now.system.losses_and_rates(ys)[0]
        times = now.origin + places
        seen = []
        for k in range(_EVERY - 1, count if whole else 0, _EVERY):
            if losses[k] < (1.0 - self.path.spacing) * before:
                before = float(losses[k])
                seen.append((float(times[k]), before, ys[k]))
        return list(zip(times.tolist(), losses.tolist(), strict=True)), seen

    def _rest(self, system: Riding, y: FloatArray) -> bool:
        """Put the active neurons onto the minimum they approach; whether they are there: the flow would come as near
        only after stepping through most of the plateau."""
        found = hold(system, y, self.rtol)
        if found is None:
            return False
        plateau, y, evaluations = found
        self._count("loss_evaluations", evaluations)
        if not np.array_equal(plateau.held, self.state.active):
            return False
        self.state = system.state(y, self.state, self.state.time)
        return True

    def _resumed(self, system: Riding, y: FloatArray, unit: float) -> integrators.Memory | None:
        """What a flow starts with: the step of the last one, as who joins hardly changes a velocity.

        Where that was stiff, explicit steps would only stir the stiff modes up.
        """
        if self.planned is None:
            return None
        step = self.planned.step / unit
        if isinstance(self.planned, History):
            return History(step)
        if self.planned.method == "rk45":
            return integrators.Memory(step)
        fastest = float(np.max(np.abs(system.rates(y, system.velocity(y)))))
        self._count("velocity_evaluations", 1)
        return integrators.Memory(min(step, self.rtol ** (1 / 3) / fastest) if fastest > 0 else step, method="rkc2")

    def _inside(self, system: Riding, now: Moment) -> FloatArray:
        """The state within a step, from which another flow starts.

        A stabilised step is repeated up to there: its velocities carry what is left of stiff modes, which the step
        damps and the interpolant multiplies by its length.
        """
        step, s = now.step, now.t - now.origin
        assert step is not None
        if s >= step.s1 or step.memory.method != "rkc2":
            return now.y
        again = Saved(step.y0, local=step.s0, method=integrators.Memory(s - step.s0, method="rkc2"))
        last = drive(system, Explicit(self.rtol, "rkc2"), [], again, s_end=s).at
        self._count("velocity_evaluations", last.work.gradients)
        return last.y

    def _wait(self, unit: float) -> float:
        """How long (in units of s) the residual must stand still: until the next neuron joins, inf when none will."""
        if self.state.active.all():
            return float(np.inf)
        found = self._cross(1e-3, np.inf, np.zeros(0, dtype=np.int64))
        return found.time / unit if isinstance(found, Landing) else float(np.inf)

    def _count(self, name: str, number: float) -> None:
        self.stats[name] = self.stats.get(name, 0) + number

    def warn(self) -> None:
        """Note the neurons that shrank after they had grown so much that float64 lost what their return hangs on."""
        states = self.path.states
        if states[-1] is not self.state:
            states = [*states, self.state]
        self.notes.extend(self.ride.warnings(np.array([state.log_norms for state in states])))


@dataclass(frozen=True)
class _Enough:
    """All drops that were requested have been passed: two more are seen, of which the last may not be over.

    Where neurons join and leave all the time no plateau is skipped, at which this would be found. Costs a look over the
    curve each time, at steps in geometric progression.
    """

    path: Path
    most: int

    def init(self, now: Moment) -> tuple[float, ...]:
        """The step at which to look."""
        return (float(now.work.steps),)

    def look(self, now: Moment, memory: tuple[float, ...]) -> tuple[tuple[float, ...], End | None]:
        """Whether they are."""
        if now.work.steps < memory[0]:
            return memory, None
        seen = detect(np.array(self.path.times), np.array(self.path.losses), depth=FINE_DEPTH)
        after = (_LOOKS * now.work.steps + _LONG,)
        return after, End(Why.PASSED, now) if len(seen) > self.most + 1 else None


@dataclass(frozen=True)
class _Settles:
    """The active set has settled as far as the wait for the next neuron goes, or no neuron will join (then `last`).

    Costs a dormant phase each time; asked at times in geometric progression.
    """

    run: _Run
    stretch: _Stretch

    def init(self, now: Moment) -> tuple[float, ...]:
        """When it was last asked, the gradients at which to give up, and the steepest fall."""
        return (0.0, float(_PATIENT), now.rate)

    def look(self, now: Moment, memory: tuple[float, ...]) -> tuple[tuple[float, ...], End | None]:
        """Whether the plateau can be skipped."""
        run, (looked, patience, steepest) = self.run, memory
        steepest = max(steepest, now.rate)
        tired = now.work.gradients > patience
        size = max(now.loss, FLOOR * run.start_level)
        quiet = now.rate * now.t <= run.settings.rtol * size and now.t > 1.25 * looked
        if not (quiet or tired) or self.stretch.time(now.t) < run.moving:
            return (looked, patience, steepest), None
        y, system = self.stretch.riding(now.y), self.stretch.system
        run.state = self.stretch.state(y, now)
        wait = run._wait(self.stretch.unit)
        end = End(Why.HORIZON, now)
        if tired:
            patience *= 2.0
            if np.inf > wait > _FOR_EVER**2 * now.t:  # what is left costs as the root of its length
                return (looked, patience, steepest), End(Why.STALLED, now, note=_RESTLESS)
        if quiet:
            looked = now.t
            if not np.isfinite(wait):
                run.last = True
                return (looked, patience, steepest), end
            # On plateaus too long for any relaxation to end, what is left of it is rounding.
            still = now.rate * wait <= run.settings.rtol * size or now.rate <= SUM**2 * steepest
            settled = still or run._rest(system, y)
            if settled and self._growth(system, y) * wait <= _STILL:
                run.settled = True
                return (looked, patience, steepest), end
        return (looked, patience, steepest), None

    def _growth(self, system: Riding, y: FloatArray) -> float:
        """Largest d log rho/ds at y over the active neurons that have not grown up, or 0."""
        small = self.run.members.small(self.run.state)
        return float(np.max(system.rates(y, system.velocity(y))[small], initial=0.0)) if small.any() else 0.0


def _tolerance(problem: Problem, settings: Settings, probe: bool) -> float:
    """Of a step. Where kinks are sharp every method is of low order, and a tighter one only shortens the steps; where
    they are rounded it is bound to resolve the rounding.

    Elsewhere long stabilised steps at a coarser one than `_COARSEST` let the loss rise.
    """
    sharp = not problem.smooth
    rtol = _KINKS if sharp else min(_STEP * settings.rtol, _COARSEST)
    rtol = min(_PROBE_STEP * rtol, _COARSEST) if probe else rtol
    if sharp or problem.kink == 0:
        return rtol
    return min(rtol, _LAYER * problem.kink * (_PROBE_LAYER if probe else 1.0))


def _decades(problem: Problem, settings: Settings) -> float:
    """Logarithm of the factor between the tolerances of the two passes, over that where kinks do not bound them."""
    first, second = (_tolerance(problem, settings, probe) for probe in (False, True))
    return float(np.log(second / first) / np.log(_PROBE_STEP)) if first < second < _COARSEST else 1.0
