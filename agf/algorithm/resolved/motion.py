"""The active set moves: all neurons are stepped in real time, one stretch after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from agf import integrators
from agf.algorithm.resolved.coordinates import Riding, riding
from agf.algorithm.resolved.meaning import meaning
from agf.algorithm.resolved.path import Enough
from agf.algorithm.resolved.run import Run
from agf.algorithm.resolved.stops import Rests, Settles, Undue
from agf.algorithm.resolved.stretch import Stretch
from agf.arrays import FloatArray
from agf.coordinates.weight_system import WeightSystem
from agf.numerics.ndf import History
from agf.records.status import Status
from agf.results.curve import RELAXES
from agf.stopping.coordinates import Stiff, crossing
from agf.stopping.driver import End, Moment, Saved, Stop, Why, drive
from agf.stopping.ending import SETTLE, Ending, first_change, remarks
from agf.stopping.methods import PER_ENTRY, Auto, Explicit
from agf.stopping.rules import Budget, Certified, Event, Timeless, Tolerance, Unaffordable

#: Accuracy of the place in a step at which a neuron joins or leaves. Cost: a joining norm is a convention.
_SHARP = 1e-4


class Motion:
    """How all neurons are stepped while the active set moves.

    Parameters
    ----------
    run : Run
        Of which pass; its state moves on to where the active set changes, has settled, or the run ends.
    """

    def __init__(self, run: Run) -> None:
        self.given, self.run = run.given, run
        self._first = 0.0  # accelerated time of the first change, where neurons are active from the start

    def flow(self) -> Status | None:
        """All neurons in real time until the active set changes or has settled; a status at an end."""
        given, run, settings = self.given, self.run, self.given.settings
        run.last |= bool(run.state.active[np.isfinite(run.state.log_norms)].all())
        system = riding(given.problem, run.state, given.init, given.tolerances.step, run.last)
        unit = float(np.exp(system.log_time_unit - given.clock.log_scale))
        stretch = Stretch(system, run.state, unit)
        began = run.state.time
        start: FloatArray = system.start()
        if began == 0.0:
            run.path.losses[0], rate = system.loss_and_rate(start)
            run.path.slopes[0] = rate / unit
            run.stats["loss_evaluations"] += 1
            self._first = unit * first_change(system)
        saved = Saved(start, method=self._resumed(system, start, unit))
        if system.smooth and isinstance(run.planned, History) and (weights := system.stiff(start)) is not None:
            stretch.moving, start = weights
            saved = Saved(start, method=History(run.planned.step / unit))
        spent = sum(run.stats.get(name, 0.0) for name in ("velocity_evaluations", "utility_evaluations"))
        scale, first, age = given.start_level, max(began, self._first) / unit, began / unit
        # beside rounded kinks the trainer's is as fine as levels are known
        settle = SETTLE if given.problem.kink > 0 else settings.rtol
        ending = Ending(settle, scale, given.least, first, spent=spent, age=age)
        if run.last and (known := self._prospects) is not None:
            ending = replace(ending, prospects=lambda now: known(*system.polar(stretch.riding(now.y))))
        budget, s_end = Budget(run.gradients_left, hessian=PER_ENTRY * start.size), (given.stop - began) / unit
        dear = Unaffordable(budget, s_end, ending.grown, ending.perturbed)

        def each(now: Moment, saved: Saved) -> None:
            self._see(now, stretch)

        while True:
            stops = [*self._stops(stretch, ending), dear, budget]
            end = crossing(drive(stretch.moving, Auto(given.tolerances.step), stops, saved, s_end=s_end, each=each))
            if end.why is not Why.TURNED or end.after is None:
                break
            stretch.moving, y = end.after
            length = 0.0 if end.at.step is None else end.at.step.s1 - end.at.step.s0
            implicit = isinstance(stretch.moving, WeightSystem)
            saved = Saved(y, end.at.t, 0.0, History(length) if implicit else None, None, end.at.work)
        work = end.at.work
        run.solved += PER_ENTRY * start.size * work.hessians
        run.stats["velocity_evaluations"] += work.gradients
        run.stats["hessians"] += work.hessians
        run.planned = _planned(end.at, unit)
        return self._ended(end, ending, stretch)

    def _stops(self, stretch: Stretch, ending: Ending) -> list[Stop]:
        """What ends a stretch: a neuron joins or leaves, they have settled, or the run is over."""
        given, run, smooth, most = self.given, self.run, stretch.system.smooth, self.given.settings.max_drops

        def joins(y: FloatArray, now: Moment) -> FloatArray:
            return run.members.joins(stretch.network(y, now))

        def leaves(y: FloatArray, now: Moment) -> FloatArray:
            return run.members.leaves(stretch.network(y, now))

        stops: list[Stop] = [
            Event(joins, Why.JOINED, _SHARP),
            Event(leaves, Why.LEFT, _SHARP),
            Certified(Tolerance(given.settings.rtol, given.start_level), given.least),
        ]
        if run.last:
            stops += [*ending.rules(smooth), Rests(run, stretch, ending.leaving)]
        else:
            stops += [Settles(run, stretch), *(Undue(run, stretch, rule) for rule in ending.unending(smooth))]
        if most is not None:
            stops.append(Enough(run.path.curve, most))
        return [*stops, Stiff(), Timeless()]

    @cached_property
    def _prospects(self) -> Callable[[FloatArray, FloatArray], tuple[float, bool] | None] | None:
        """What small neurons beside kinks will come to, where that is known exactly: see the rule's `prospects`."""
        if self.given.problem.layers is None:
            return None
        from agf.rectified.prospects import prospects  # a tenth of a second to import, and few problems have kinks

        return prospects(self.given.problem, self.given.init)

    def _see(self, now: Moment, stretch: Stretch) -> None:
        """Take a step into the curve, and where it ends into the state."""
        run = self.run
        for t, loss, rate in run.path.inside(now):
            run.path.add(stretch.time(t), loss, -rate / stretch.unit)
        run.path.add(stretch.time(now.t), now.loss, -now.rate / stretch.unit)
        if now.step is not None and isinstance(now.step.memory, History):
            time = run.path.times[-1]
            moves = float(np.max(np.abs(now.step.f1 / now.system.system.scale(now.y)))) * time / stretch.unit
            run.path.slips.append((time, Auto.implicit * self.given.tolerances.step / max(moves, 1.0)))
        run.take(stretch.state(stretch.riding(now.y), now))

    def _ended(self, end: End, ending: Ending, stretch: Stretch) -> Status | None:
        """What follows the end of a stretch: None to go on, or the status of the run."""
        given, run, now, system = self.given, self.run, end.at, stretch.system
        if end.why is Why.QUIET and run.last:  # a minimum nearby says more than how little the work has brought
            end = Rests(run, stretch, ending.leaving).end(now) or end
        if end.why in (Why.JOINED, Why.LEFT):
            inside = now.y if now.step is None else self._inside(stretch, now)
            now = replace(now, y=inside, loss=stretch.moving.loss(inside), answers={})
            run.path.losses[-1] = now.loss
            y = stretch.riding(inside)
            run.state = stretch.state(y, now)
            run.last = False
            if end.why is Why.LEFT:
                run.leave(end.who)
                return None
            directions, _ = system.polar(y)
            who, residual = end.who, system.residual(y)
            run.join(who, given.problem.utility(directions[who], who, residual)[0])
            return None
        if end.why is Why.HORIZON:  # of `Settles`: the plateau is next, or the last stretch
            if end.after is not None:
                run.state = system.state(end.after[1], run.state, run.state.time)
            return None
        if end.why is Why.SETTLED:
            run.left = max(end.left, RELAXES * given.lost(now.loss))
            run.drift = end.left if given.problem.kink > 0 else 0.0
        known = meaning(end, run.state.active, least=given.least, tolerated=given.tolerated)
        if known is not None:
            return known
        before = given.clock.flow_time(stretch.time(0.0))
        status, sentence, numbers = ending.status(end, float(np.exp(system.log_time_unit)), before, remedy="")
        if status is Status.QUIET:
            run.left = run.drift = numbers["left"]
        elif status is Status.NO_CRITICAL_POINT:
            run.drift = end.left
        run.notes.extend(remarks(end, sentence))
        return status

    def _resumed(self, system: Riding, y: FloatArray, unit: float) -> integrators.Memory | None:
        """What a flow starts with: the step of the last one, as who joins hardly changes a velocity.

        Where that was stiff, explicit steps would only stir the stiff modes up.
        """
        planned = self.run.planned
        if planned is None:
            return None
        step = planned.step / unit
        if planned.method == "rk45" or not system.smooth:
            return integrators.Memory(step)
        fastest = float(np.max(np.abs(system.rates(y, system.velocity(y)))))
        self.run.stats["velocity_evaluations"] += 1
        rtol = self.given.tolerances.step
        return integrators.Memory(min(step, rtol ** (1 / 3) / fastest) if fastest > 0 else step, method="rkc2")

    def _inside(self, stretch: Stretch, now: Moment) -> FloatArray:
        """The state within a step, from which another flow starts.

        Stiff modes are damped by a step, and not within it: a stabilised one has velocities that carry what is left of
        them, which the interpolant multiplies by its length, and an implicit one goes through points beside a bent
        valley. So these are repeated up to there.
        """
        step, s = now.step, now.local
        assert step is not None
        if s >= step.s1 or (step.memory.method == "rk45" and not isinstance(step.memory, History)):
            return now.y
        rtol, implicit = self.given.tolerances.step, isinstance(step.memory, History)
        memory = (History if implicit else integrators.Memory)(s - step.s0, method=step.memory.method)
        again = Saved(step.y0, local=step.s0, method=memory)
        last = drive(stretch.moving, Auto(rtol) if implicit else Explicit(rtol, "rkc2"), [], again, s_end=s).at
        self.run.stats["velocity_evaluations"] += last.work.gradients
        self.run.stats["hessians"] += last.work.hessians
        return last.y


def _planned(now: Moment, unit: float) -> integrators.Memory | None:
    """The method that steps and its next step, in accelerated time."""
    return None if now.step is None else replace(now.step.memory, step=now.step.memory.step * unit)
