"""Why a flow stops: one small value for each reason, to be composed in `agf.stopping.driver.drive`.

Each states what it proves and where its constants come from; tests/stopping/test_rules.py has a closed form for each.
`tolerated`, which many share, is the loss that may be left: `Tolerance(fraction, floor)` is fraction * max(|L|, floor).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.errors import ProblemError, explain
from agf.integrators import Accepted
from agf.numerics.ndf import History
from agf.rounding import EPS, SUM
from agf.stopping.driver import End, Moment, Stop, Why
from agf.stopping.methods import PER_ENTRY

Memory = tuple[float, ...]
#: e-folds of a growing perturbation after which a saddle that is not left never will be. Derived: a perturbation of the
#: smallest relative size in float64 grows to order one in -log EPS = 36 e-folds, and one that starts as the square of
#: rounding, as in a symmetric state, in twice as many.
PARKED = -2.0 * float(np.log(EPS))
#: Gradients that one prediction, or one of its active flows, may take, a Hessian counted as one a weight. Limit: it
#: ends there and says so; nothing runs practically for ever.
BUDGET = 1e6
#: Costly questions are asked again when the time has grown by this factor. Cost: of asking; an answer comes later by as
#: much.
LOOK = 1.25
#: Steps on end that leave the time what it was in float64. Limit: the run ends and says so; a drop takes hundreds, one
#: of 1e-300 a thousand (measured).
TIMELESS = 3000


def nothing(now: Moment) -> float:
    """None is left, or it is not known."""
    del now
    return 0.0


def spent(now: Moment) -> float:
    """Work since the start of the flow, in gradients."""
    return now.work.gradients + PER_ENTRY * now.y.size * now.work.hessians


@dataclass(frozen=True)
class Tolerance:
    """Loss that may be left: fraction * max(|L|, floor).

    Attributes
    ----------
    fraction : float
        Relative to the loss.
    floor : float
        Loss below which losses count as this one. A scale of the data (the loss of the zero function), never the loss
        at the start: that says how large the initial weights are, not what there is to learn.
    """

    fraction: float
    floor: float = 0.0

    def __call__(self, loss: float) -> float:
        return self.fraction * max(abs(loss), self.floor)


@dataclass(frozen=True)
class Certified:
    """Nothing counts that lies below a lower bound on every loss that the flow can reach: L - least <= tolerated.

    A proof, whatever the rates are. `least` is 0 for any loss; a problem may know better (`Problem.least_loss`).
    """

    tolerated: Tolerance
    least: float = 0.0
    #: Loss below which the bound is none, and the problem is refused.
    refused: float = -np.inf

    def init(self, now: Moment) -> Memory:
        """Nothing."""
        return ()

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether the bound is near. Raises ProblemError where the loss is below what no loss may be."""
        if now.loss < self.refused:
            raise ProblemError(
                explain("the loss has fallen below 0.", found=f"{now.loss:.6g}",
                        expected="losses of at least 0: all tolerances are shares of the loss",
                        remedy="Likely cause: a constant left out of the loss, such as that of the targets.")
            )  # fmt: skip
        left = now.loss - self.least
        if left > self.tolerated(now.loss):
            return memory, None
        return memory, End(Why.SETTLED, now, max(left, 0.0), bounded=True)


@dataclass(frozen=True)
class Before:
    """A rule that is asked until time `until` alone."""

    until: float
    stop: Stop

    def init(self, now: Moment) -> Memory:
        """That of the rule."""
        return self.stop.init(now)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether the rule ends the run in time."""
        return self.stop.look(now, memory) if now.t < self.until else (memory, None)


@dataclass(frozen=True)
class Settled:
    """The flow rests: it would lose less than tolerated in another time as long, and nothing grows.

    Whether anything grows is for `leaving` to say, a rate in 1/s: of small neurons, and of perturbations where the
    system can tell. A rate of 0 means that nothing does (to rounding), None that this is not known: then the flow never
    counts as settled. With exponential decay at a rate c, at most tolerated / (2 c t) is left once the time t exceeds
    1/c; a plateau before a later drop is told by what grows there, however slowly.

    What decays has no such rate while the time is short of 1/c: what modes that are slow beside it can still lose is
    for `decaying` to say.

    What it would lose is told by the rate -dL/dt, or by what it has lost over the last tenth of the time, where the
    rate is rounding and tolerance: after implicit steps, whose stiff modes hover, and where there are kinks, since the
    gradient at a minimum on a kink need not vanish.

    Attributes
    ----------
    tolerated : Tolerance
        Loss that may be left.
    leaving : callable
        moment -> rate of what grows, 0, or None.
    first : float
        Time in which the fastest neuron first changed by order one; shorter times count as this. Without it a flow does
        not rest at its start.
    decaying : callable
        moment -> loss that decays can still lose, 0 where that is not known.
    """

    #: Fraction of the age at which the recent fall begins. Result: of when a flow along kinks rests, told by its fall
    #: and not by its rate, which chatters; at 0.99 the fall over a few steps would decide, at 0 that over the whole
    #: age, which never ends after a drop.
    RECENT: ClassVar[float] = 0.9
    tolerated: Tolerance
    leaving: Callable[[Moment], float | None]
    first: float = 0.0
    decaying: Callable[[Moment], float] = nothing

    def init(self, now: Moment) -> Memory:
        """When to ask next, and time and loss of two former moments."""
        return (0.0, now.t, now.loss, now.t, now.loss)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it rests."""
        due, before, then, late, loss = memory
        if late <= self.RECENT * now.t:
            before, then, late, loss = late, loss, now.t, now.loss
        memory = (due, before, then, late, loss)
        left = self._left(now, before, then)
        if left > self.tolerated(now.loss) or now.t < due:
            return memory, None
        if self.leaving(now) == 0.0 and (slowly := self.decaying(now)) <= self.tolerated(now.loss):
            return memory, End(Why.SETTLED, now, max(left, slowly))
        return (LOOK * now.t, before, then, late, loss), None

    def _left(self, now: Moment, before: float, then: float) -> float:
        horizon = max(now.t, self.first)
        if horizon == 0.0:
            return np.inf
        smooth, implicit = now.system.system.smooth, now.step is not None and isinstance(now.step.memory, History)
        recent = max(then - now.loss, 0.0) / (now.t - before) * horizon if 0.0 < before < now.t else np.inf
        if not smooth and recent < np.inf:
            return recent
        # before, as beside kinks the flow takes the slopes of least norm, and the rate of any others is no less
        return min(now.rate * horizon, recent if implicit else np.inf)


@dataclass(frozen=True)
class Parked:
    """A saddle that rounding will never leave: a mode has grown for PARKED e-folds, and the loss has not moved.

    `leaving` as for `agf.stopping.Settled`: the rate of a growing *perturbation*, which exact dynamics would amplify,
    had it any size. Rates are added up between looks (trapezoidal rule), while the loss falls by less than tolerated.
    """

    tolerated: Tolerance
    leaving: Callable[[Moment], float | None]
    first: float = 0.0

    def init(self, now: Moment) -> Memory:
        """When to ask next, then time, rate and e-folds of the last look, the loss since when, and the work at which to
        ask next."""
        return (0.0, now.t, 0.0, 0.0, now.loss, 0.0)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it has been long enough."""
        due, t, rate, folds, loss, paid = memory
        if loss - now.loss > self.tolerated(now.loss) or now.rate * max(now.t, self.first) > self.tolerated(now.loss):
            return (0.0, now.t, 0.0, 0.0, now.loss, paid), None
        if now.t < due or (asked := spent(now)) < paid:
            return memory, None
        new = self.leaving(now) or 0.0
        paid = 2.0 * spent(now) - asked  # as much work as the answer took
        folds = folds + 0.5 * (rate + new) * (now.t - t) if new > 0.0 else 0.0
        if folds > PARKED:
            return memory, End(Why.PARKED, now, note=f"a perturbation grows at {new:.2g} per unit of time.")
        return (LOOK * now.t, now.t, new, folds, loss, paid), None


@dataclass(frozen=True)
class Quiet:
    """The loss has all but stopped, for as long in time and work as one can ask, and what grows will not show soon.

    Since the loss last fell by more than tolerated, the run has done `SHARE` of all the work before that, no small
    neuron grows (that would be a drop to come, and is waited for), decays have no more to lose, and no perturbation
    will show soon. It will not beside a drift, where its rate falls like 1/t, while rate times age rises at a saddle;
    nor where the next factor e would take more than a run may, `BUDGET`, at the present pace, and all that so far has
    been less. Such a crawl may go on for ever, as of a neuron leaving its last sample.

    Attributes
    ----------
    tolerated : Tolerance
        Fall of the loss that does not count.
    small, perturbed : callable
        moment -> rate of the fastest small neuron, None where it is not known (no end then), and perturbation.
    decaying : callable
        As of `Settled`.
    spent : float
        Work of the run before this flow.
    """

    #: Work since the loss last fell, over all the work before, after which a crawl is followed no longer. Result: a
    #: user waits at most that much longer for nothing; at 0.05 a plateau that takes a twentieth of the work would pass
    #: for the end, at 5 an end takes six times what it needed.
    SHARE: ClassVar[float] = 0.5
    #: Gradients that are always spent. Cost: of waiting.
    LEAST: ClassVar[float] = 1000.0
    tolerated: Tolerance
    small: Callable[[Moment], float | None]
    perturbed: Callable[[Moment], float]
    decaying: Callable[[Moment], float] = nothing
    spent: float = 0.0

    def init(self, now: Moment) -> Memory:
        """Work, time and loss when the loss last fell, when to ask next, when growth was asked, and it times age."""
        return (self._work(now), now.t, now.loss, 0.0, now.t, 0.0)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it has been long enough."""
        work, t, loss, due, asked, before = memory
        fall = loss - now.loss
        if fall > self.tolerated(now.loss):
            return self.init(now), None
        if now.t < due or self._work(now) - work < max(self.SHARE * work, self.LEAST):
            return memory, None
        if self.small(now) == 0.0 and self.decaying(now) <= self.tolerated(now.loss):
            growth, later = self.perturbed(now), now.t >= Drifting.SPAN * asked
            rises = growth * now.t > Drifting.SPAN**0.5 * before
            far = growth * (now.t - t) < 1.0 and self._pace(now) > BUDGET * growth
            if growth == 0.0 or far or (later and not rises):
                return memory, End(Why.QUIET, now, fall)
            if later or before == 0.0:
                asked, before = now.t, growth * now.t
        return (work, t, loss, LOOK * now.t, asked, before), None

    def _pace(self, now: Moment) -> float:
        """Gradients in a unit of time, at least: steps of fixed order count as one."""
        return 0.0 if now.step is None else max(now.step.stages, 1.0) / (now.step.s1 - now.step.s0)

    def _work(self, now: Moment) -> float:
        return self.spent + spent(now)


@dataclass(frozen=True)
class Blurred:
    """Rounding decides where the flow goes: it has moved them by more than a path may err while the loss did not fall.

    Neurons that part for ever are ever stiffer, and steps that follow the rounding of their velocity ever shorter next
    to the age: alpha may make that by which a drift is told from a saddle longer than float64 ever lets them reach. A
    fall as fast as one that no drift would be left at is followed all the same: so little of it may be seen only as the
    time is so short.

    Attributes
    ----------
    tolerated : Tolerance
        Fall of the loss that does not count, as it crawls and by what pulls at the weights by more than rounding.
    accuracy : float
        Change of the weights, over their norm, by which a path may err.
    blur : callable
        moment -> rate at which rounding of the gradient moves the weights, over their norm; 0 where a small neuron may
        yet grow, or no Hessian tells.
    perturbed, decaying : callable
        moment -> rate of the fastest perturbation, and loss that decays can still lose.
    """

    #: Hessians from which on it is asked, each time they have grown by `LOOK`. Cost: of asking, which takes a few.
    MANY: ClassVar[float] = 20.0
    tolerated: Tolerance
    accuracy: float
    blur: Callable[[Moment], float]
    perturbed: Callable[[Moment], float]
    decaying: Callable[[Moment], float]

    def init(self, now: Moment) -> Memory:
        """Time and loss when it last fell, and Hessians at which to ask next."""
        return (now.t, now.loss, self.MANY)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it has been long enough."""
        since, loss, due = memory
        fall = loss - now.loss
        if fall > self.tolerated(now.loss):
            return (now.t, now.loss, due), None
        if now.work.hessians <= due:
            return memory, None
        due = LOOK * now.work.hessians
        moved = self.blur(now) * (now.t - since) > self.accuracy
        if not moved or self.decaying(now) > self.tolerated(now.loss) or self.perturbed(now) > 0.0:
            return (since, loss, due), None
        folding = fall * now.t / (now.t - since)  # its fall in an e-fold of time
        if folding > Tolerance(Drifting.SLOWEST, self.tolerated.floor)(now.loss):
            return (since, loss, due), None
        note = f"it fell by {fall:.2g} while rounding alone moves the neurons by {self.accuracy:.2g} of their norms."
        left = min(2.0 * folding, abs(now.loss))  # as t^-1/2, the slowest that two neurons part
        return (since, loss, due), End(Why.QUIET, now, left, note)


@dataclass(frozen=True)
class Drifting:
    """The loss falls like a power of time to nowhere: l + c t^-q, over SPANS spans and more, and slowly enough.

    From one span to the next, of ratio r, it falls by c t^-q (r^q - 1): these falls give q, and what is left is
    c t^-q, `End.left`. t exp(-t) looks like a power over two spans of ratio 2 at most, and near a saddle the fall goes
    first down and then up; a sum of exponentials looks like one for as long as its rates fill the spans, so these cover
    a factor of 32. Powers outside [SLOWEST, FASTEST] are none that two neurons moving off to infinity make. Growth
    belongs to the drift where its rate falls like 1/t as well; a rate that holds up is a neuron that will make another
    drop.

    Attributes
    ----------
    tolerated : Tolerance
        Fall in an e-fold of time from which on a drift may end the run.
    growing : callable
        moment -> rate of the fastest growing small neuron, 0, or None where it is not known (no end then).
    age : float
        Time of the run before this flow: a saddle may be approached for as long as the run has taken, and looks like a
        power of the time since the last drop meanwhile.
    """

    #: Spans that must show one power. Result: with ratios of 2 they cover a factor of 32 in time, more than the rates
    #: of a sum of two or three exponentials spread; with one, everything looks like a power, and with ten a drift is
    #: known after 1e3 times its start.
    SPANS: ClassVar[int] = 5
    #: Least ratio of the times at the ends of a span. Result: t exp(-t) looks like a power over two spans of this ratio
    #: at most; at 1.1 it would over twenty, at 20 a drift is known after 1e6 times its start.
    SPAN: ClassVar[float] = 2.0
    #: Smallest power of a drift, and the fraction of the loss in an e-fold of time below which it ends a run: a fall to
    #: nothing loses as much as its power. Result: what is left then, which the last sentence bounds, is not followed;
    #: at 0.2 it could be a fifth of the loss in every further e-fold, at 2e-3 a fall like t^-1/2 takes a hundred times
    #: as long, and rounding may look like one.
    SLOWEST: ClassVar[float] = 0.02
    #: Largest power of a drift. Result: two neurons moving off to infinity make 1 at most, and a finite time adds to
    #: it; at 12 the end of an exponential would be one.
    FASTEST: ClassVar[float] = 1.25
    #: What grows is asked at the ends of the last so many spans. Derived: whether it rises ever more steeply takes two
    #: rises, which are between three.
    ASKED: ClassVar[int] = 3
    #: Factor by which growth times the age may rise over these. Derived: a rate that holds up rises 4-fold over two
    #: spans, one that falls like 1/t not at all; the root of the one is as far from the other.
    HELD: ClassVar[float] = 2.0
    tolerated: Tolerance
    growing: Callable[[Moment], float | None]
    age: float = 0.0

    def init(self, now: Moment) -> Memory:
        """(time, loss, growth times time) at the ends of the last spans."""
        return ()

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it has gone as a power for long enough."""
        t = self.age + now.t
        if t <= 0 or (memory and t < self.SPAN * memory[-3]):
            return memory, None
        seen = (*memory[-3 * self.SPANS :], t, now.loss, np.nan)
        table = np.array(seen).reshape(-1, 3)
        falls, ratios = -np.diff(table[:, 1]), table[1:, 0] / table[:-1, 0]
        if falls.size and falls[-1] <= 0.0:
            return seen[-3:], None
        if falls.size < self.ASKED or falls[-1] / np.log(ratios[-1]) > self.tolerated(now.loss):
            return seen, None
        powers = -np.diff(np.log(falls)) / np.log(ratios[1:])
        if not ((powers >= self.SLOWEST) & (powers <= self.FASTEST)).all():
            return seen, None
        growth = self.growing(now)
        seen = (*seen[:-1], np.inf if growth is None else growth * t)
        asked = np.array(seen).reshape(-1, 3)[-self.ASKED :]
        if falls.size < self.SPANS or not np.isfinite(asked[:, 2]).all() or self._holds(asked[:, 0], asked[:, 2]):
            return seen, None
        left = float(falls[-1] / (ratios[-1] ** powers[-1] - 1.0))
        return seen, End(Why.DRIFTING, now, left, f"the loss falls like t^-{powers[-1]:.2g}.")

    def _holds(self, times: FloatArray, growths: FloatArray) -> bool:
        """Whether a rate holds up, told by rate times age (ASKED,) at these times.

        It does where that rises `HELD`-fold, or as a power of time that does not fall: a/t + b rises ever more steeply
        for any b > 0, while a drift whose rate has yet to come to a/t rises ever less.
        """
        if growths[-1] > self.HELD * np.min(growths[:-1]):
            return True
        if not growths.all():
            return False
        rises = np.diff(np.log(growths)) / np.diff(np.log(times))
        return bool(rises[-1] > self.SLOWEST and rises[-1] >= rises[-2])


@dataclass(frozen=True)
class Event:
    """Some entry of `gap` has become positive: located within the step by secants and bisection on the dense output.

    Ties are found as sets: `End.who` are all entries that are positive at the time of the first.

    Attributes
    ----------
    gap : callable
        (y, now) -> any number of values, (K,), negative before the event.
    why : Why
        JOINED, LEFT, COLLAPSED or TURNED.
    sharp : float
        Accuracy of the place, relative to the step.
    """

    gap: Callable[[FloatArray, Moment], FloatArray]
    why: Why
    sharp: float = 1e-9

    def init(self, now: Moment) -> Memory:
        """Nothing."""
        return ()

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it has happened, and where."""
        if not self._past(now.y, now).any():
            return memory, None
        if now.step is None:
            return memory, End(self.why, now, who=np.flatnonzero(self._past(now.y, now)))
        late = self._place(now, now.step)
        at = now.within(late) if late < now.step.s1 else now
        return memory, End(self.why, at, who=np.flatnonzero(self._past(at.y, now)))

    def _place(self, now: Moment, step: Accepted) -> float:
        """Where in the step it is past, by no more than `sharp` of it.

        Secants aim a little past the zero on either side in turn, so that the bracket closes from both; every third
        place is the middle.
        """
        aim = 0.4 * self.sharp * (step.s1 - step.s0)
        early, late, asked, side = step.s0, step.s1, 0, 1.0
        low, high = self._most(step.y0, now), self._most(now.y, now)
        while late - early > self.sharp * (step.s1 - step.s0):
            asked += 1
            place = 0.5 * (early + late)
            if asked % 3 and -np.inf < low <= 0.0 < high < np.inf:
                place = early + (late - early) * low / (low - high) + side * aim
                place = min(max(place, early + aim), late - aim)
            if not early < place < late:
                break
            gap = self._most(step.dense(place), now)
            if gap > 0.0:
                late, high, side = place, gap, -1.0
            else:
                early, low, side = place, gap, 1.0
        return late

    def _most(self, y: FloatArray, now: Moment) -> float:
        return float(np.max(self.gap(y, now), initial=-np.inf))

    def _past(self, y: FloatArray, now: Moment) -> BoolArray:
        return np.asarray(self.gap(y, now)) > 0.0


@dataclass(frozen=True)
class Rounding:
    """What is left is rounding: the rate has fallen below `ratio` of the largest seen.

    A gradient that is a sum over the data has rounding SUM times its largest, and the rate is its square.
    """

    ratio: float = SUM**2

    def init(self, now: Moment) -> Memory:
        """The largest rate."""
        return (now.rate,)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it is below."""
        largest = max(memory[0], now.rate)
        end = End(Why.ROUNDING, now, now.rate * now.t) if now.rate <= self.ratio * largest else None
        return (largest,), end


@dataclass(frozen=True)
class Budget:
    """Gradients and steps that a run may have taken: nothing runs practically for ever.

    Attributes
    ----------
    gradients : float
        Since the start of the run, a Hessian counted as `hessian` gradients.
    steps : float
        Accepted steps since the start of the run.
    hessian : float
        What one Hessian and its factorization cost, in gradients.
    """

    gradients: float
    steps: float = np.inf
    hessian: float = 0.0

    def init(self, now: Moment) -> Memory:
        """Nothing: the work is counted from the start of the run."""
        return ()

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether they are used up."""
        if self.left(now) > 0 and now.work.steps < self.steps:
            return memory, None
        return memory, End(
            Why.BUDGET, now, note=f"The budget is used up by {now.work.gradients} gradients in {now.work.steps} steps."
        )

    def left(self, now: Moment) -> float:
        """Gradients that are left."""
        return self.gradients - now.work.gradients - self.hessian * now.work.hessians


@dataclass(frozen=True)
class Unaffordable:
    """Steps are as long as stability lets them be, and what grows is due after more of them than the budget has left.

    Attributes
    ----------
    budget : Budget
        What may be spent.
    s_end : float
        Time at which the run ends in any case.
    small : callable or None
        Moment -> rate of the fastest small neuron once the large ones have relaxed, 0 where none grows: asked before
        giving up, as one that grows on what still relaxes, or on rounding, is never due. None: none is asked about.
    perturbed : callable or None
        Moment -> rate of the fastest perturbation, asked before giving up as well: what it leads to may come before any
        small neuron does. None: none is asked about.
    """

    #: Stages of a step from which on the budget is asked about. Cost: of asking; a stabilised step has 2,000 at most.
    FULL: ClassVar[float] = 1000.0
    budget: Budget
    s_end: float = np.inf
    small: Callable[[Moment], float | None] | None = None
    perturbed: Callable[[Moment], float] | None = None

    def init(self, now: Moment) -> Memory:
        """When to ask next."""
        return (0.0,)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it is worth going on."""
        step = now.step
        if step is None or now.t < memory[0] or step.stages < self.FULL:
            return memory, None
        due = now.system.system.due(now.y)
        now.system.charge(2)
        ahead = min(np.inf if due is None else due, self.s_end - now.t)
        affordable = self.budget.left(now) / step.stages * (step.s1 - step.s0)
        if affordable < ahead < np.inf:
            never = ahead == due and self.small is not None and self.small(now) == 0.0
            if never or (self.perturbed is not None and self.perturbed(now) * affordable > 1.0):
                return (LOOK * now.t,), None
            return memory, End(Why.BUDGET, now, note="Explicit steps would not get there within the budget.")
        return (now.t + 0.1 * ahead if np.isfinite(ahead) else LOOK * now.t,), None


@dataclass(frozen=True)
class Timeless:
    """Steps leave the time what it was, in float64, TIMELESS times on end."""

    def init(self, now: Moment) -> Memory:
        """The time, and steps since it moved."""
        return (now.t, 0.0)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether time stands still."""
        t, steps = memory
        steps = steps + 1.0 if now.t == t and now.step is not None else 0.0
        end = End(Why.TIMELESS, now) if steps > TIMELESS else None
        return (now.t, steps), end
