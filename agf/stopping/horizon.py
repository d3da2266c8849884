"""Rules of a flow that is followed for as long as something else takes: the horizon, and what is left to lose in it.

In hard problems a flow has no critical point before something outside of it happens (the next activation). So it is
followed for a stated time, and stops early once what it can still lose in that time is negligible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from agf.rounding import SUM
from agf.stopping import remaining_loss
from agf.stopping.driver import End, Moment, Stop, Why
from agf.stopping.rules import LOOK, PARKED, Memory, Tolerance

#: How many times more slowly than what moves fastest (a drop, the next neuron to come) anything may move and still be
#: followed. Result: a level that falls like a power of time, and a direction that turns more slowly, count where they
#: are; at 100 what is a hundredfold slower would, at 1e4 what moves for ever takes ten times as long.
SLOWER = 1000.0
#: Growth times of what moves fastest for which a flow is followed that nothing ends. Derived: ten e-folds of what is
#: `SLOWER`, which leave e^-10, 5e-5, of it.
LONGEST = 10.0 * SLOWER
#: Rate -dL/dt, relative to the largest seen, that is rounding. Derived: the square of a gradient that is a sum which
#: vanishes.
_ROUNDING = SUM**2


class Course:
    """What the rules of one run share: until when it is to be followed, and how fast its loss has really fallen.

    Parameters
    ----------
    ask : callable
        moment -> time of the horizon as seen from there; a costly question, which may remember what it found. Where
        losses are `tolerated` it is also called as (moment, enough), and may then give any time from `enough` on where
        the horizon is no earlier than that.
    least : float, optional
        Time that is followed in any case; nothing is asked before.
    ratio : float, optional
        It is asked again when the time has grown by this factor, and at the end it gave: cost only.
    tolerated : Tolerance or None, optional
        Loss that may be left: while more may be lost before the horizon, it is enough to know that it is not near.
    """

    def __init__(
        self,
        ask: Callable[..., float],
        *,
        least: float = 0.0,
        ratio: float = LOOK,
        tolerated: Tolerance | None = None,
    ) -> None:
        self.ask, self.least, self.ratio, self.tolerated = ask, least, ratio, tolerated
        self.marks: list[Moment] = []  # one for each doubling of the time, the first at the start
        self.doubled = False  # whether the last of them is the present
        self._works: list[float] = []  # integral of the squared gradient up to each
        self._work = self._rate = 0.0
        self._end, self._asked = np.inf, 0.0
        self._told = np.nan  # when that was seen to be the horizon; nan where it is a time before it
        self._now: Moment | None = None

    def until(self, now: Moment) -> float:
        """Time of the horizon, as it was last seen, or an earlier one; inf before `least`.

        An earlier one where the horizon is so far that more than tolerated may be lost before it, and that it is asked
        again before it comes.
        """
        self._see(now)
        due = now.t >= self.least and (now.t >= self.ratio * self._asked or now.t >= self._end)
        if due and (self._asked != now.t or not np.isfinite(self._end)):
            self._ask(now, self._enough(now))
            self._asked = now.t
        return self._end

    def exactly(self, now: Moment) -> float:
        """The same, and no earlier time."""
        self.until(now)
        if np.isnan(self._told) and now.t >= self.least:
            self._ask(now, np.inf)
        return self._end

    def again(self, now: Moment) -> float:
        """The same, seen from here."""
        if self._told != now.t or not np.isfinite(self._end):
            self._ask(now, np.inf)
        self._asked = now.t
        return self._end

    def _enough(self, now: Moment) -> float:
        """How late the horizon may be as well as later, seen from here."""
        if self.tolerated is None or self._rate <= 0.0:
            return np.inf
        return max(self.ratio * now.t, now.t + self.tolerated(now.loss) / self._rate)

    def _ask(self, now: Moment, enough: float) -> None:
        if np.isinf(enough):
            self._end, self._told = self.ask(now), now.t
        else:
            self._end = self.ask(now, self.ratio * enough)  # a little more: times are rounded
            self._told = now.t if self._end < enough else np.nan

    def rate(self, now: Moment) -> float:
        """-dL/dt: the squared gradient times the fraction of it that the loss has followed since the last mark but one.

        That is 1 but for two cases where the gradient hovers about what it should be: components that a long step damps
        only to its tolerance, and the velocity beside a kink on which the flow slides.
        """
        self._see(now)
        return self._rate

    @property
    def said(self) -> float:
        """Fall of the loss since the last mark but one, if it followed its gradient."""
        return self._work - self._works[max(len(self._works) - 2, 0)]

    def more(self, now: Moment) -> float:
        """Loss that another time as long as this one could take off, to first order."""
        end = self._end if np.isfinite(self._end) else now.t
        return self.rate(now) * end if end > 0 else 0.0

    @property
    def last(self) -> Moment:
        """The last moment that was seen."""
        assert self._now is not None
        return self._now

    @property
    def before(self) -> Moment:
        """The last mark but one: the time was at most half of what it is."""
        return self.marks[max(len(self.marks) - 2, 0)]

    def _see(self, now: Moment) -> None:
        """Take in a moment, once."""
        if self._now is now:
            return
        self._now = now
        if now.step is None or not self.marks:
            self.marks, self._works, self._work, self._rate, self.doubled = [now], [0.0], 0.0, now.rate, False
            self._end, self._asked, self._told = np.inf, now.t, np.nan
            if now.t >= self.least:
                self._ask(now, self._enough(now))
            return
        step = now.step
        start, end = float(step.f0 @ step.f0), float(step.f1 @ step.f1)
        self._work += 0.5 * (step.s1 - step.s0) * (start + end)
        fallen = abs(self.before.loss - now.loss)
        self._rate = now.rate * min(fallen / max(self.said, np.finfo(float).tiny), 1.0)
        self.doubled = now.t >= 2.0 * self.marks[-1].t
        if self.doubled:
            self.marks.append(now)
            self._works.append(self._work)


@dataclass(frozen=True)
class Below:
    """A rule that counts only once the loss is at most `level`."""

    level: float
    stop: Stop

    def init(self, now: Moment) -> Memory:
        """That of the rule."""
        return self.stop.init(now)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether the rule ends the run, and the loss lets it."""
        memory, end = self.stop.look(now, memory)
        if end is None or now.loss > self.level:
            return memory, None
        return memory, end if end.at.loss <= self.level else replace(end, at=now)


@dataclass(frozen=True)
class Horizon:
    """The time to be followed is over; the end is met exactly."""

    course: Course

    def init(self, now: Moment) -> Memory:
        """Nothing: the course knows, from the start on."""
        self.course.until(now)
        return ()

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it is over."""
        end = self.course.until(now)
        if now.t < end:
            return memory, None
        left = self.course.more(now)
        at = now if now.step is None else now.inside(max(end, now.step.s0 + now.origin))
        return memory, End(Why.HORIZON, at, left)


@dataclass(frozen=True)
class Spent:
    """Nothing that counts can be lost before the horizon, dL/dt times the time that is left being a bound.

    To first order, that is, as long as the rate of fall does not grow. A saddle that a growing mode leaves by then
    (where there is a Hessian, `remaining_loss.escape`) is waited for, for as many e-folds as rounding would need.

    Attributes
    ----------
    course : Course
        Of the run.
    tolerated : Tolerance
        Loss that may be left.
    late : float
        Fraction of the horizon from which on nothing can be lost any more, settled or not.
    """

    course: Course
    tolerated: Tolerance
    late: float = 0.95

    def init(self, now: Moment) -> Memory:
        """The largest rate, the time by which a saddle will have been left, and the loss there."""
        return (now.rate, 0.0, np.inf)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it may stop."""
        largest, leaves, seen = memory
        largest = max(largest, now.rate)
        if not self._idle(now, self.course.until(now), largest) or now.t < leaves:
            return (largest, leaves, seen), None
        if not self._idle(now, self.course.exactly(now), largest):
            return (largest, leaves, seen), None
        end = self.course.again(now) if now.t >= self.course.least else np.inf
        if not self._idle(now, end, largest):
            return (largest, leaves, seen), None
        if now.loss < seen - self.tolerated(now.loss):
            growth = remaining_loss.escape(now, end - now.t)
            if growth > 0:
                return (largest, now.t + PARKED / growth, now.loss), None
        note = "nothing is left to lose before the horizon."
        return (largest, leaves, seen), End(Why.SETTLED, now, self.course.more(now), note)

    def _idle(self, now: Moment, end: float, largest: float) -> bool:
        rate = self.course.rate(now)
        left = rate * (end - now.t) if rate > 0 else 0.0  # the horizon may be infinite
        return (now.t < self.late * end and left <= self.tolerated(now.loss)) or rate <= _ROUNDING * largest


@dataclass(frozen=True)
class Decayed:
    """A flow with a Hessian that decays for longer than it would have to be followed: told by its modes what is left.

    Also where the loss falls like a power of time (`remaining_loss`). Asked at each doubling of the age, where the
    horizon is far or steps get nowhere.

    Attributes
    ----------
    course : Course
        Of the run.
    tolerated : Tolerance
        Loss that may be left.
    blurred : callable
        moment -> whether rounding of the gradient, over the age of the flow, blurs where it goes: then it is followed
        no further than that can be told, and `End.why` is ROUNDING where more than tolerated is left.
    growing : callable
        moment -> whether the state still moves off: then the level is an infimum, and `End.why` is DRIFTING.
    """

    #: Asked while the horizon is further than this multiple of the age. Cost: what is nearer is followed.
    LONG: ClassVar[float] = 10.0
    #: Steps over a doubling of the age from which on a flow that is blurred is also followed no further within a short
    #: horizon. Cost: what it would lose there is below the tolerance or rounding.
    SLOW: ClassVar[int] = 200
    course: Course
    tolerated: Tolerance
    blurred: Callable[[Moment], bool]
    growing: Callable[[Moment], bool]

    def init(self, now: Moment) -> Memory:
        """Steps at the last doubling."""
        return (float(now.work.steps),)

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether it need not be followed further."""
        self.course.until(now)
        if not self.course.doubled:
            return memory, None
        blurred = self.blurred(now)
        slow = blurred and now.work.steps - memory[0] > self.SLOW
        memory = (float(now.work.steps),)
        quiet = blurred or self.course.rate(now) * now.t <= self.tolerated(now.loss)
        if now.t < self.course.least or not (slow or quiet):
            return memory, None
        end = self.course.exactly(now)
        if not (slow or end > self.LONG * now.t):
            return memory, None
        left = self._left(now, end - now.t)
        if left <= self.tolerated(now.loss) or (blurred and np.isfinite(left)):
            return memory, self._end(now, left)
        return memory, None

    def stalled(self, now: Moment) -> End:
        """The end of a run whose steps fell to rounding here."""
        return self._end(now, self._left(now, self.course.exactly(now) - now.t))

    def _left(self, now: Moment, ahead: float) -> float:
        before = [mark for mark in self.course.marks if 2.0 * mark.t <= now.t]
        return remaining_loss.left(now, ahead, before[-1] if before else None)

    def _end(self, now: Moment, left: float) -> End:
        drifting = Why.DRIFTING if self.growing(now) else Why.SETTLED
        why = Why.ROUNDING if left > self.tolerated(now.loss) else drifting
        return End(why, now, min(left, max(now.loss, 0.0)))
