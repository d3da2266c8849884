"""When gradient flow without a time limit is over: the rules, what each proves, and the sentence that says it.

A run ends `settled` when what can still be lost does not count, for one of two reasons: a lower bound on the loss of
every network that the flow can reach (`Problem.least_loss`) is near, or the flow rests and nothing grows, neither a
small neuron nor a perturbation. As long as something grows it goes on, however slowly that is: there is no patience.
It ends `saddle` when a perturbation has grown for so long that none in float64 can be there, `no_critical_point` when
the loss falls like a power of time, and `plateau` when the budget ran out before the next drop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.init import Init
from agf.integrators import MarchError, NonFinite, Stalled
from agf.records.status import Status
from agf.records.table import bound
from agf.rounding import SUM
from agf.stopping.driver import End, Moment, Stop, Why
from agf.stopping.rest import Rest, blur
from agf.stopping.rules import Before, Blurred, Certified, Drifting, Parked, Quiet, Settled, Tolerance

#: At most this fraction of max(L, FLOOR L(zero function)) can still be lost where a flow has settled. Setting:
#: `settle`; levels are right to it; at 1e-3 a drop of `FINE_DEPTH` could be missed, at 1e-5 a flow that decays like a
#: power of time takes ten times as long or more.
SETTLE = 1e-4
#: Losses below this fraction of that of the zero function count as this one. Result: of when a flow that fits its data
#: ends; at 0.1 drops below 1e-5 of that loss would be left out, at 1e-3 an exponential end takes two e-folds more.
FLOOR = 0.01
#: Fraction of the smallest drop that may be left where a bound ends a run. Derived: the half level of that drop is then
#: right to half of it, a quarter of a percent of its depth.
_LEFT = 0.005
#: A time limit so many times the age of a run is far ahead. Cost: of steps at rest; a limit nearer by is met.
_FAR = 1000.0


@dataclass(frozen=True)
class Ending:
    """What decides that a flow is over.

    Attributes
    ----------
    settle : float
        Fraction of the loss that may be left.
    scale : float
        Loss of the zero function, or where that vanishes what order-one weights make: the unit of what counts.
    least : float
        Lower bound of the losses that can be reached.
    first : float
        Time s in which the fastest neuron first changes by order one.
    quiet : float
        Fraction of the loss by which a crawl may fall and not be followed.
    prospects : callable or None
        Moment -> rate that small neurons will come to, where that is known exactly, 0 where they never grow, and
        whether it is that of a perturbation of a large one, on a kink that pushes it to both sides; None where it is
        not known; drops of less than settle FLOOR of `scale` do not count. None: never known.
    spent : float
        Gradients of the run before this flow.
    age : float
        Time s of the run before this flow.
    """

    settle: float
    scale: float
    least: float
    first: float
    quiet: float = SETTLE
    prospects: Callable[[Moment], tuple[float, bool] | None] | None = None
    spent: float = 0.0
    age: float = 0.0

    @classmethod
    def of(cls, problem: Problem, init: Init, system: FlowSystem, settle: float) -> Ending:
        """For a flow from `init`; a few gradients."""
        no_neurons = np.zeros(0, dtype=np.int64)
        zero = abs(float(problem.loss_grad(np.zeros((0, problem.n_params)), no_neurons)[0]))
        unit = abs(float(problem.loss_grad(init.directions, np.arange(init.width))[0]))
        return cls(settle, zero or unit, float(problem.least_loss(init)), first_change(system), settle)

    def rules(self, smooth: bool) -> list[Stop]:
        """In the order in which they are asked."""
        tolerated = Tolerance(self.settle, FLOOR * self.scale)
        # A bound is worth more than a rate: it is waited for until it is as small as the smallest loss that counts, and
        # small next to a drop of a millionth of a loss that stays, whose middle lies half as far off as its end does.
        millionth = self.settle * FLOOR
        certified: list[Stop] = [Certified(Tolerance(_LEFT * millionth, FLOOR * self.scale), self.least)]
        if self.least >= 0.0:
            certified.insert(0, Certified(Tolerance(millionth, self.scale), refused=-millionth * self.scale))
        settled = Settled(tolerated, self.leaving, self.first, self.decaying)
        return [*certified, settled, *self.unending(smooth)]

    def unending(self, smooth: bool) -> list[Stop]:
        """Those that end what never settles."""
        crawl = Tolerance(self.quiet, FLOOR * self.scale)
        parked = Parked(crawl, self.unstable, self.first)
        drifting = Drifting(Tolerance(Drifting.SLOWEST, FLOOR * self.scale), self.growing, self.age)
        if not smooth:
            return [drifting] if self.prospects is None else [parked]
        return [
            parked,
            drifting,
            Blurred(crawl, self.quiet**0.5, blur, self.perturbed, self.decaying),
            Quiet(crawl, self.small, self.unstable, self.decaying, self.spent),
        ]

    def at_rest(self, s_end: float) -> list[Stop]:
        """For a run with a time limit: where nothing but rounding can still be lost, a limit far ahead is not waited
        for, as steps at rest are no longer than rounding of the velocity allows."""
        rounding = Tolerance(SUM, FLOOR * self.scale)
        settled = Settled(rounding, self.leaving, self.first, self.decaying)
        rules: list[Stop] = [Certified(rounding, self.least), settled]
        return [Before(s_end / _FAR, rule) for rule in rules]

    def leaving(self, now: Moment) -> float | None:
        """Rate of what grows here: a small neuron, else a perturbation; 0 when nothing does, None if not known."""
        known = self._known(now)
        if known is not None:
            return known[0]
        rest = self.rest(now)
        return rest.growth or rest.perturbed if rest.growth is not None else None

    def unstable(self, now: Moment) -> float:
        """Rate of the fastest perturbation where no small neuron grows, which would leave by itself.

        None does where what small neurons come to is known, apart from a large one on a kink that pushes it to both
        sides: (leaky) ReLU neurons of one output at rest have no field in their cones, so that the loss, convex in the
        network, is least there, and across a kink no Jacobian tells.
        """
        if self.prospects is not None:
            rate, parked = self._known(now) or (0.0, False)
            return rate * float(np.exp(now.system.system.log_time_unit)) if parked else 0.0
        return self.perturbed(now) if self.rest(now).growth == 0.0 else 0.0

    def perturbed(self, now: Moment) -> float:
        """Rate of the fastest perturbation, 0 where what small neurons come to is known."""
        return 0.0 if self.prospects is not None else self.rest(now).perturbed

    def grown(self, now: Moment) -> float | None:
        """Rate of the fastest small neuron once what still relaxes has done so."""
        return self.rest(now).growth

    def small(self, now: Moment) -> float | None:
        """Rate of the fastest small neuron, now or once it has turned: one may shrink beside a direction it leaves."""
        known = self._known(now)
        return known[0] if known is not None and known[0] > 0.0 else self.rest(now).coming

    def growing(self, now: Moment) -> float | None:
        """Rate of the fastest of both."""
        rest = self.rest(now)
        return None if rest.growth is None else max(rest.growth, rest.perturbed)

    def decaying(self, now: Moment) -> float:
        """Loss that slow decays can still lose."""
        return self.rest(now).decaying

    def _known(self, now: Moment) -> tuple[float, bool] | None:
        """What `prospects` says, asked once at each moment."""
        known: tuple[float, bool] | None = now.ask("prospects", lambda: self.prospects and self.prospects(now))
        return known

    def rest(self, now: Moment) -> Rest:
        """What grows, asked once at each moment."""
        found: Rest = now.ask("rest", lambda: Rest(now))
        return found

    def status(
        self, end: End, unit: float, before: float = 0.0, remedy: str = " Raise max_steps or max_gradients."
    ) -> tuple[Status, str, dict[str, float]]:
        """Status of a run that ended so, its evidence as a sentence, and in numbers (loss left, time of the growth).

        before : flow time at which its time began; remedy : what is advised where the budget ran out on a plateau.
        """
        if end.why is Why.SETTLED:
            unseen = self.prospects is not None and not end.bounded  # drops that do not count
            left = end.left + unseen * self.settle * FLOOR * self.scale
            grows = "nothing grows" if end.at.system.system.smooth else "no small neuron grows"
            reason = "no network that the flow can reach has less loss" if end.bounded else grows
            most = "at most" if end.bounded else "about"  # a decay slower than t^-1/2 loses more
            return (
                Status.SETTLED,
                f"The flow settled at loss {end.at.loss:.6g}: {most} {bound(left)} can still be lost; {reason}.",
                {"left": left},
            )
        if end.why is Why.DRIFTING:
            return (
                Status.NO_CRITICAL_POINT,
                f"There is no critical point nearby: {end.note} The loss is {end.at.loss:.6g}, of which about "
                f"{end.left:.2g} is left to such a fall. Give a t_max to follow it.",
                {"left": end.left},
            )
        if end.why is Why.PARKED:
            return (
                Status.SADDLE,
                f"The flow is parked at a saddle: {end.note[:-1]}, but float64 holds none here. Perturb the start.",
                {},
            )
        if end.why is Why.QUIET:
            rate = self.rest(end.at).perturbed
            grows = f"what still grows takes {unit / rate:.2g} of time by a factor e" if rate else "nothing grows"
            fell = end.note[:-1] or f"over the last third of the work it fell by {end.left:.2g}"
            waits = "" if end.note else f" Changes below a fraction {self.quiet:.2g} of it are not waited for."
            return (
                Status.QUIET,
                f"The loss {end.at.loss:.6g} has all but stopped: {fell}, and {grows}.{waits}",
                {"left": max(end.left, self.quiet * self._size(end.at.loss))},
            )
        if end.why in (Why.BUDGET, Why.STALLED):  # the latter where rounding sets the length of steps
            due = end.at.system.system.due(end.at.y)
            if due is not None and np.isfinite(due) and end.at.fall <= self.quiet * self._size(end.at.loss):
                when = before + (end.at.t + due) * unit
                return (
                    Status.PLATEAU,
                    f"A plateau, and not the end: something grows, and the next drop is due "
                    f"{f'at flow time {when:.3g}' if due > 0 else 'at once'}. "
                    f"{end.note}{remedy if end.why is Why.BUDGET else ''}",
                    {"due": when},
                )
        status = _PLAIN[end.why]
        return (status, *self._open(status, end)) if status.failed else (status, "", {})

    def _open(self, status: Status, end: End) -> tuple[str, dict[str, float]]:
        """What a run that was not over may still lose, by the bound of the problem, and how fast it was losing it."""
        loss, left = end.at.loss, end.at.loss - self.least
        if not np.isfinite(left):
            return "", {}
        said = f"{status.sentence} The loss is {loss:.6g}, of which at most {bound(left)} can still be lost"
        if end.why is Why.BUDGET:
            said += f": {min(end.at.fall, left):.2g} in another time as long at its last rate"  # which may be rounding
            slow = self.decaying(end.at)
            said += f", and {slow:.2g} by what decays, however slowly" if slow > 0.0 else ""
        return f"{said}.", {"left": left}

    def _size(self, loss: float) -> float:
        return max(abs(loss), FLOOR * self.scale)


def first_change(system: FlowSystem) -> float:
    """Time s in which the fastest neuron changes by order one at the start, 1 where nothing moves; two gradients.

    In the units of the flow, so that a rescaled flow ends by the same rules at the same place.
    """
    y = system.start()
    with np.errstate(over="ignore", invalid="ignore"):
        moves = np.abs(system.velocity(y) / system.scale(y))
    speed = system.growth(y) or float(np.max(moves, initial=0.0))
    return 1 / speed if speed > 0 and np.isfinite(speed) else 1.0


def status_of(why: Why) -> Status:
    """The status of an end that says all by itself; MAX_STEPS where the budget ran out."""
    return _PLAIN.get(why, Status.MAX_STEPS)


def failure(error: MarchError) -> Status:
    """The status of a run that an error ended."""
    if isinstance(error, NonFinite):
        return Status.NONFINITE
    return Status.STALLED if isinstance(error, Stalled) else Status.MAX_STEPS


def remarks(end: End, sentence: str) -> tuple[str, ...]:
    """What a prediction says of an end: its note, unless the sentence has it, and the sentence."""
    note = "" if end.note.rstrip(".") in sentence else end.note
    return tuple(said for said in (note, sentence) if said)


_PLAIN = {
    Why.BUDGET: Status.MAX_STEPS,
    Why.TIME: Status.MAX_TIME,
    Why.TIMELESS: Status.STIFF,
    Why.STALLED: Status.STALLED,
    Why.NONFINITE: Status.NONFINITE,
}
