"""When a stretch may end before the active set changes: it has settled, or enough drops have been passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from agf.algorithm.resolved.coordinates import Landing, Riding
from agf.algorithm.resolved.members import STILL
from agf.algorithm.resolved.run import Run
from agf.algorithm.resolved.stretch import Stretch
from agf.arrays import FloatArray
from agf.coordinates.held_neurons import HeldSystem, hold
from agf.rounding import SUM
from agf.stopping.drive import End, Moment, Why
from agf.stopping.ending import FLOOR

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
        wait = self._wait(FLOOR * run.settings.rtol * size)
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
            run.count("loss_evaluations", 1)
            rate = min(rate, system.relaxing(y))
            still = rate * wait <= run.settings.rtol * size or rate <= SUM**2 * steepest
            held = None if still else at_minimum(run, system, y)
            if (still or held is not None) and self._growth(system, y) * wait <= STILL:
                run.settled = True
                return (looked, patience, steepest), replace(end, after=held)
        return (looked, patience, steepest), None

    def _rate(self, now: Moment) -> float:
        """At which the active neurons lower the loss; weights flow together."""
        system = self.stretch.system
        return system.settling(now.y) if self.stretch.moving is system else now.rate

    def _growth(self, system: Riding, y: FloatArray) -> float:
        """Largest d log rho/ds at y over the active neurons that have not grown up, or 0."""
        small = self.run.members.small(self.run.state)
        return float(np.max(system.rates(y, system.velocity(y))[small], initial=0.0)) if small.any() else 0.0

    def _wait(self, least: float) -> float:
        """How long (in units of s) the residual must stand still: until the next neuron joins, inf when none will.

        One that could take no more than `least` off the loss has only what steps leave of the residual to grow on: it
        recedes as that decays.
        """
        run = self.run
        if run.state.active.all():
            return float(np.inf)
        found = run.next_to_join(1e-3, np.inf, np.zeros(0, dtype=np.int64))
        if not isinstance(found, Landing) or found.gain <= least:
            return float(np.inf)
        return found.time / self.stretch.unit


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
