"""When a stretch may end before the active set changes: it has settled, or enough drops have been passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from agf.algorithm.active import Cost
from agf.algorithm.resolved.coordinates import Landing, Riding
from agf.algorithm.resolved.members import STILL
from agf.algorithm.resolved.run import Run
from agf.algorithm.resolved.stretch import Stretch
from agf.arrays import FloatArray
from agf.coordinates.held_neurons import HeldSystem, hold
from agf.rounding import SUM
from agf.stopping.drive import Counted, End, Moment, Stop, Why
from agf.stopping.ending import FLOOR
from agf.stopping.remaining_loss import escape
from agf.stopping.rules import LOOK

#: Evaluations of one flow after which it gives up where the rest of the plateau would take this many times more. Limit:
#: the run ends there and says so.
_PATIENT, _FOR_EVER = 20_000, 30.0
_RESTLESS = (
    "The active neurons come to rest nowhere near, and stepping through the plateau, which lasts as long as one over "
    "alpha, would take for ever; use mode agf, or a larger alpha."
)


@dataclass(frozen=True)
class Settles:
    """The active set has settled as far as the wait for the next neuron goes, or no neuron will join (then `last`).

    Costs a dormant phase each time; asked at times in geometric progression.
    """

    run: Run
    stretch: Stretch

    def init(self, now: Moment) -> tuple[float, ...]:
        """When it was last asked, the gradients at which to give up, and the steepest fall."""
        return (0.0, float(_PATIENT), self._rate(now))

    def look(self, now: Moment, memory: tuple[float, ...]) -> tuple[tuple[float, ...], End | None]:
        """Whether the plateau can be skipped."""
        run, (looked, patience, steepest) = self.run, memory
        rate = self._rate(now)
        steepest = max(steepest, rate)
        tired = now.work.gradients > patience
        size = max(now.loss, FLOOR * run.start_level)
        quiet = rate * now.t <= run.settings.rtol * size and now.t > 1.25 * looked
        if not (quiet or tired) or self.stretch.time(now.t) < run.moving:
            return (looked, patience, steepest), None
        y, system = self.stretch.riding(now.y), self.stretch.system
        run.state = self.stretch.state(y, now)
        ahead = wait(run, self.stretch, least(run, now))
        end = End(Why.HORIZON, now)
        if tired:
            patience *= 2.0
            if np.inf > ahead > _FOR_EVER**2 * now.t:  # what is left costs as the root of its length
                return (looked, patience, steepest), End(Why.STALLED, now, note=_RESTLESS)
        if quiet:
            looked = now.t
            if not np.isfinite(ahead):
                run.last = True
                return (looked, patience, steepest), end
            # On plateaus too long for any relaxation to end, what is left of it is rounding.
            run.count("loss_evaluations", 1)
            rate = min(rate, system.relaxing(y))
            path = np.sqrt(rate * np.exp(system.log_time_unit)) * ahead  # that the active weights would go
            off = run.tolerances.step * system.length(y)  # by which they may be off until then
            still = rate * ahead <= run.settings.rtol * size and path <= off
            still = still or rate <= SUM**2 * steepest
            held = None if still else at_minimum(run, system, y)
            if held is not None and system.apart_from(held[1], y) ** 2 > off * path:
                held = None
            rests = (still or held is not None) and self._growth(system, y) * ahead <= STILL
            if rests and not self._leaves(now, y, ahead):
                run.settled = True
                return (looked, patience, steepest), replace(end, after=held)
        return (looked, patience, steepest), None

    def _rate(self, now: Moment) -> float:
        """At which the active neurons lower the loss."""
        return self.stretch.system.settling(self.stretch.riding(now.y))

    def _leaves(self, now: Moment, y: FloatArray, ahead: float) -> bool:
        """Whether they are at a saddle and leave it within a time `ahead`, as far as a Hessian tells."""
        system = self.stretch.system
        theta = system.params(y)[system.active]
        cost = Counted(Cost(system.problem, system.active, theta, np.zeros(system.active.size)))
        there = replace(now, y=theta.ravel(), system=cost, answers={})
        rate = escape(there, ahead * float(np.exp(system.log_time_unit)))
        now.system.charge(cost.work.gradients, cost.work.hessians)
        return rate > 0.0

    def _growth(self, system: Riding, y: FloatArray) -> float:
        """Largest d log rho/ds at y over the active neurons that have not grown up, or 0."""
        small = self.run.members.small(self.run.state)
        return float(np.max(system.rates(y, system.velocity(y))[small], initial=0.0)) if small.any() else 0.0


@dataclass(frozen=True)
class Undue:
    """A rule that ends what never settles, asked about the active neurons: no end while another one is due to join.

    Their drift is told over the age of the stretch, and may be known long before a dormant neuron has grown; and what
    parts at 1/t outgrows that one for as long.
    """

    run: Run
    stretch: Stretch
    stop: Stop

    def init(self, now: Moment) -> tuple[float, ...]:
        """When to ask next, and that of the rule."""
        return (0.0, *self.stop.init(now))

    def look(self, now: Moment, memory: tuple[float, ...]) -> tuple[tuple[float, ...], End | None]:
        """Whether the rule ends the run, and nobody is due."""
        kept, end = self.stop.look(now, memory[1:])
        if end is None or now.t < memory[0]:
            return (memory[0], *kept), None
        self.run.state = self.stretch.state(self.stretch.riding(now.y), now)
        due = wait(self.run, self.stretch, least(self.run, now))
        return (LOOK * now.t, *kept), end if np.isinf(due) else None


def least(run: Run, now: Moment) -> float:
    """Gain of a dormant neuron that is no more than steps leave of the residual: it recedes as that decays."""
    return FLOOR * run.settings.rtol * max(now.loss, FLOOR * run.start_level)


def wait(run: Run, stretch: Stretch, least: float) -> float:
    """How long (in units of s) until the next neuron joins that can take more than `least` off the loss, on the
    residual of now; inf when none will."""
    if run.state.active.all():
        return float(np.inf)
    found = run.next_to_join(1e-3, np.inf, np.zeros(0, dtype=np.int64))
    if not isinstance(found, Landing) or found.gain <= least:
        return float(np.inf)
    return found.time / stretch.unit


@dataclass(frozen=True)
class Rests:
    """No neuron joins any more, and the active ones are next to the minimum they approach, where nothing grows.

    By their rate, in another time as long as alpha has made this one, nothing would tell them from rounding.

    Parameters
    ----------
    run : Run
        Of which pass.
    stretch : Stretch
        The last one.
    leaving : callable
        As of `agf.stopping.rules.Settled`.
    """

    run: Run
    stretch: Stretch
    leaving: Callable[[Moment], float | None]

    def init(self, now: Moment) -> tuple[float, ...]:
        """When it was last asked."""
        return (0.0,)

    def look(self, now: Moment, memory: tuple[float, ...]) -> tuple[tuple[float, ...], End | None]:
        """Whether they are there."""
        run = self.run
        size = max(now.loss, FLOOR * run.start_level)
        if now.rate * now.t > run.settings.rtol * size or now.t <= 1.25 * memory[0]:
            return memory, None
        y, system = self.stretch.riding(now.y), self.stretch.system
        run.state = self.stretch.state(y, now)
        found = at_minimum(run, system, y)
        if found is None or self.leaving(now) != 0.0:
            return (now.t,), None
        return (now.t,), End(Why.SETTLED, now, max(now.loss - system.loss_and_rate(found[1])[0], 0.0))


def at_minimum(run: Run, system: Riding, y: FloatArray) -> tuple[HeldSystem, FloatArray] | None:
    """The plateau, and y with the active neurons at the minimum they approach; None where they are not near it.

    The flow would come as near only after stepping through most of the plateau.
    """
    found = hold(system, y, run.tolerances.step)
    if found is None:
        return None
    plateau, y, evaluations = found
    run.count("loss_evaluations", evaluations)
    if not np.array_equal(plateau.held, run.state.active):
        return None
    return plateau, y
