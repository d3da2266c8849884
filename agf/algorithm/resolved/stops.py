"""When a stretch may end before the active set changes: it has settled, or enough drops have been passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from agf.algorithm.cost import Cost
from agf.algorithm.dormant import ROUGH
from agf.algorithm.resolved.coordinates import Riding
from agf.algorithm.resolved.members import STILL
from agf.algorithm.resolved.run import Run
from agf.algorithm.resolved.stretch import Stretch
from agf.algorithm.resolved.waiting import Landing
from agf.arrays import FloatArray
from agf.coordinates.held_neurons import HeldSystem, hold
from agf.rounding import EPS, SUM
from agf.stopping.driver import Counted, End, Moment, Stop, Why
from agf.stopping.ending import FLOOR
from agf.stopping.remaining_loss import escape, left
from agf.stopping.rules import LOOK, Blurred

#: Evaluations of one flow after which it gives up where the rest of the plateau would take this many times more. Limit:
#: the run ends there and says so.
_PATIENT, _FOR_EVER = 20_000, 30.0
#: Factor of time after which it is asked anew when the next neuron is due. Cost: of asking; the residual relaxes
#: meanwhile, and before a plateau is skipped it is asked in any case.
_AGAIN = 4.0
#: Evaluations that this may take, over all so far. Cost: what takes more to foresee would take more yet to cross, and
#: is stepped through by the rules of the end.
_WORTH = 0.5
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
        """When it was last asked, the gradients at which to give up, and the steepest fall; when the next neuron was
        last waited for, and when it is due, 0 where that is not known; Hessians at which to look at rounding."""
        return (0.0, float(_PATIENT), self._rate(now), 0.0, 0.0, Blurred.MANY)

    def look(self, now: Moment, memory: tuple[float, ...]) -> tuple[tuple[float, ...], End | None]:
        """Whether the plateau can be skipped."""
        run, (looked, patience, steepest, asked, due, blurred) = self.run, memory
        rate = self._rate(now)
        steepest = max(steepest, rate)
        tired = now.work.gradients > patience
        quiet = rate * now.t <= run.given.lost(now.loss) and now.t > LOOK * looked
        early, drowned = self.stretch.time(now.t) < run.moving, False
        y = self.stretch.riding(now.y)
        if not (quiet or early) and now.work.hessians > blurred:
            drowned = self._blur(now, y) * now.t > 1.0 and not self._pulled(now, y, now.t)
            blurred = LOOK * now.work.hessians
        if not (quiet or drowned or tired) or early:
            return (looked, patience, steepest, asked, due, blurred), None
        run.state = self.stretch.state(y, now)
        if not tired and due <= now.t and self._grows_up(y):
            return (now.t, patience, steepest, asked, due, blurred), None
        if tired or due <= now.t or now.t > _AGAIN * asked:
            asked, due = now.t, now.t + wait(run, self.stretch, now)
        if tired:
            patience *= 2.0
            if np.inf > due - now.t > _FOR_EVER**2 * now.t:  # what is left costs as the root of its length
                return (looked, patience, steepest, asked, due, blurred), End(Why.STALLED, now, note=_RESTLESS)
        end = None
        if quiet or drowned:
            looked = now.t
            end = self._next(now, y, due - now.t, steepest, drowned)
            if end is not None and asked < now.t:  # by what was known of a residual that has relaxed since
                asked, due = now.t, now.t + wait(run, self.stretch, now)
                end = self._next(now, y, due - now.t, steepest, drowned)
            run.last, run.settled = bool(np.isinf(due)), end is not None and bool(np.isfinite(due))
        return (looked, patience, steepest, asked, due, blurred), end

    def _next(self, now: Moment, y: FloatArray, ahead: float, steepest: float, drowned: bool) -> End | None:
        """The end of the stretch, if nobody will join, or if it has settled as far as the time `ahead` until then."""
        run, system = self.run, self.stretch.system
        if np.isinf(ahead):
            return None if drowned else End(Why.HORIZON, now)
        if self._growth(system, y) * ahead > STILL:
            return None
        if drowned:
            return End(Why.HORIZON, now) if not self._pulled(now, y, ahead) else None
        # On plateaus too long for any relaxation to end, what is left of it is rounding.
        run.stats["loss_evaluations"] += 1
        rate = min(self._rate(now), system.relaxing(y))
        path = np.sqrt(rate * self._unit) * ahead  # that the active weights would go
        off = self._step * system.length(y)  # by which they may be off until then
        lost = run.given.lost(now.loss)
        still = (rate * ahead <= lost and path <= off) or rate <= SUM**2 * steepest
        held = None if still else at_minimum(run, system, y)
        if held is not None and (system.apart_from(held[1], y) ** 2 > off * path or self._falls(held[1], now) > lost):
            held = None
        if (not still and held is None) or self._leaves(now, y, ahead):
            return None
        return End(Why.HORIZON, now, after=held)

    def _falls(self, there: FloatArray, now: Moment) -> float:
        """Loss that is taken off at once by going there."""
        self.run.stats["loss_evaluations"] += 1
        return now.loss - self.stretch.system.loss_and_rate(there)[0]

    def _rate(self, now: Moment) -> float:
        """At which the active neurons lower the loss."""
        return self.stretch.system.settling(self.stretch.riding(now.y))

    def _leaves(self, now: Moment, y: FloatArray, ahead: float) -> bool:
        """Whether they are at a saddle and leave it within a time `ahead`, as far as a Hessian tells."""
        there, _ = self._alone(now, y)
        rate = escape(there, ahead * self._unit)
        now.system.charge(there.work.gradients, there.work.hessians)
        return rate > 0.0

    def _blur(self, now: Moment, y: FloatArray) -> float:
        """Rate at which rounding takes the active weights as far as steps may err.

        What no weights in float64 can tell is a gradient of `EPS` times what the stiffest mode makes of them.
        """
        there, cost = self._alone(now, y)
        known = cost.hessian(there.y) is not None
        now.system.charge(0, 1)
        return EPS * cost.stiffness * self._unit / self._step if known else 0.0

    def _pulled(self, now: Moment, y: FloatArray, ahead: float) -> bool:
        """Whether what pulls at them by more than rounding has something to lose within a time `ahead`."""
        there, _ = self._alone(now, y)
        lost = left(there, ahead * self._unit, None, self.run.given.tolerances.rounding)
        now.system.charge(there.work.gradients, there.work.hessians)
        return lost > self.run.given.lost(now.loss)

    def _alone(self, now: Moment, y: FloatArray) -> tuple[Moment, Cost]:
        """The active neurons by themselves, in flow time."""
        system = self.stretch.system
        cost = Cost(system.problem, system.active, system.params(y)[system.active], np.zeros(system.active.size))
        return replace(now, y=cost.start(), system=Counted(cost), answers={}), cost

    @property
    def _step(self) -> float:
        """Tolerance of a step."""
        return self.run.given.tolerances.step

    @property
    def _unit(self) -> float:
        """Flow time in a unit of s."""
        return float(np.exp(self.stretch.system.log_time_unit))

    def _grows_up(self, y: FloatArray) -> bool:
        """Whether an active neuron that is still small grows up before another one can join: no plateau then."""
        growth = self._growth(self.stretch.system, y)
        return growth > 0.0 and growth * self.run.waiting.soonest(self.run.state) > STILL * self.stretch.unit

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
        due = wait(self.run, self.stretch, now)
        return (LOOK * now.t, *kept), end if np.isinf(due) else None


def wait(run: Run, stretch: Stretch, now: Moment) -> float:
    """How long (in units of s) until the next neuron joins, on the residual of now; inf when none will, or none that is
    worth to be waited for.

    One that can take no more off the loss than steps leave of the residual recedes as that decays.
    """
    if run.state.active.all():
        return float(np.inf)
    nobody, most = np.zeros(0, dtype=np.int64), _WORTH * run.evaluations(now)
    found = run.waiting.next(run.state, nobody, ROUGH, np.inf, most)
    if not isinstance(found, Landing) or found.gain <= FLOOR * run.given.lost(now.loss):
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
        if now.rate * now.t > self.run.given.lost(now.loss) or now.t <= 1.25 * memory[0]:
            return memory, None
        return (now.t,), self.end(now)

    def end(self, now: Moment) -> End | None:
        """The end there, None where that is not next to a minimum or something leaves it."""
        y, system = self.stretch.riding(now.y), self.stretch.system
        self.run.state = self.stretch.state(y, now)
        found = at_minimum(self.run, system, y)
        if found is None or self.leaving(now) != 0.0:
            return None
        return End(Why.SETTLED, now, max(now.loss - system.loss_and_rate(found[1])[0], 0.0))


def at_minimum(run: Run, system: Riding, y: FloatArray) -> tuple[HeldSystem, FloatArray] | None:
    """The plateau, and y with the active neurons at the minimum they approach; None where they are not near it.

    The flow would come as near only after stepping through most of the plateau.
    """
    found = hold(system, y, run.given.tolerances.step, run.state.active & system.alive)
    if found is None:
        return None
    plateau, y, evaluations = found
    run.stats["loss_evaluations"] += evaluations
    return plateau, y
