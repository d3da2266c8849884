"""Where the active modes of a linear network settle, and whether they later turn to better ones.

A critical point of fixed rank need not be its minimum: weakly coupled modes, or modes that outnumber the hidden units,
leave a saddle from which the active modes turn to modes of larger energy after a time of their own. Seen along the
flow, that is a second drop behind a plateau.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agf import FlowSystem
from agf.arrays import FloatArray
from agf.stopping import (
    Auto,
    Below,
    Budget,
    Course,
    End,
    Horizon,
    Moment,
    Saved,
    Spent,
    Stop,
    Tolerance,
    Why,
    drive,
)

#: Relative accuracy of a settled level, and of the smallest level that matters, in units of the initial loss. Cost: a
#: tolerance, and moves levels by as much.
SETTLED = 1e-6
#: The flow has passed a plateau when |g|^2 has risen this much from its lowest. Result: a mode that grows makes it
#: rise by e^2 in a growth time, so that it is passed within one; near 1 ripples of modes that finish one after another
#: would count, at 40 a drop that lies less far above its plateau would not end it.
_RISE = 4.0
#: A plateau is where it would have taken this many times the time since the last drop to lose as much again. Result: at
#: 0.5 the slow end of a drop would count as a plateau, at 0.005 one on which 1 % of the drop is still relaxing would
#: not.
_FLAT = 0.05
#: A further drop counts when it takes at least this fraction off the loss that can be explained. Result: a smaller one
#: belongs to the drop before it; at 1e-2 so would drops that a picture shows, at 1e-5 what the active flow's own error
#: (1e-5) makes would count.
_VISIBLE = 1e-3
#: Steps after which a flow that goes nowhere is left alone. Limit: the level is then reported as not settled.
_MAX_STEPS = 20_000
#: Ends of a flow that reached a rest.
_ENDS = (Why.SETTLED, Why.PASSED, Why.HORIZON, Why.TIME)


@dataclass(frozen=True)
class Path:
    """What the flow does until the next activation.

    Parameters
    ----------
    rest : Moment
        The first plateau, or the state at the horizon.
    settled : bool
        Whether the flow settled there.
    half : float
        Time halfway down to it.
    horizon : float
        Time of the next activation seen from there.
    turn : tuple[float, FloatArray] or None
        Time and state halfway down a second drop before the horizon, or None.
    evaluations : int
        Gradients.
    failed : bool
        Whether no rest was reached.
    """

    rest: Moment
    settled: bool
    half: float
    horizon: float
    turn: tuple[float, FloatArray] | None
    evaluations: int
    failed: bool = False


@dataclass(frozen=True)
class Passed:
    """A plateau lies behind: the rate of fall has risen again from its lowest since the last drop.

    Attributes
    ----------
    t, loss : float
        Time and loss before the drop that led to the plateau.
    least : float
        Smallest fall that can be this drop.
    """

    t: float
    loss: float
    least: float

    def init(self, now: Moment) -> tuple[float, ...]:
        """The largest rate, and rate, time and loss where it was lowest since."""
        return (now.rate, now.rate, now.t, self.loss)

    def look(self, now: Moment, memory: tuple[float, ...]) -> tuple[tuple[float, ...], End | None]:
        """Whether the next drop has begun."""
        fastest, lowest, t, loss = memory
        if now.rate > fastest:
            fastest, lowest, t, loss = now.rate, now.rate, now.t, now.loss
        elif now.rate < lowest:
            lowest, t, loss = now.rate, now.t, now.loss
        fall = self.loss - loss
        flat = fall >= self.least and lowest * (t - self.t) <= _FLAT * fall
        passed = flat and min(now.rate, fastest) > _RISE * lowest
        return (fastest, lowest, t, loss), End(Why.PASSED, now) if passed else None


@dataclass(frozen=True)
class Route:
    """What the flow of the active modes is followed by.

    Parameters
    ----------
    system : FlowSystem
        The flow; its loss is that above the floor.
    horizon : callable
        State -> time of the next activation, from the start.
    above : float
        Loss before the drop that the start is in.
    best : float
        Lowest loss this flow could reach.
    least : float
        Smallest fall that can be this drop.
    whole : float
        Loss of the zero function.
    span : float
        Longest time.
    rtol : float
        Error of a step.
    """

    system: FlowSystem
    horizon: Callable[[FloatArray], float]
    above: float
    best: float
    least: float
    whole: float
    span: float
    rtol: float

    def follow(self) -> Path:
        """From the start to the first plateau, and on to a second drop if one comes before the horizon."""
        moments: list[Moment] = []
        course = Course(lambda now: self.horizon(now.y), ratio=np.inf)
        end, saved = self._drive(Saved(self.system.start()), course, Passed(0.0, self.above, self.least), moments)
        if end.why is Why.PASSED:
            fastest = int(np.argmax([now.rate for now in moments]))
            rest = min(moments[fastest:], key=lambda now: now.rate)
            until = self.horizon(rest.y)
        else:
            rest, until = end.at, course.until(end.at)
        settled, failed = end.why is Why.SETTLED, end.why not in _ENDS
        now, spent = rest, rest.loss - self.best <= SETTLED * self.whole
        if end.why is Why.PASSED or (settled and not spent):
            visible = rest.loss - _VISIBLE * self.whole
            passed = Passed(rest.t, rest.loss, self.least)
            end, _ = self._drive(saved, Course(lambda now: until, ratio=np.inf), passed, moments, visible)
            now = end.at
            if end.why is Why.HORIZON and rest.loss - now.loss < 0.5 * (rest.loss - self.best):
                now = rest  # a turn that has hardly begun is left to the next phase
        half = self._crossing(moments, 0.5 * (self.above + rest.loss))[0]
        turns = rest.loss - now.loss > _VISIBLE * self.whole
        turn = self._crossing(moments, 0.5 * (rest.loss + now.loss)) if turns else None
        return Path(rest, settled, half, until, turn, end.at.work.gradients, failed)

    def _drive(
        self, start: Saved, course: Course, passed: Passed, moments: list[Moment], level: float = np.inf
    ) -> tuple[End, Saved]:
        """To the next plateau, or what ends the flow before; a plateau counts only below `level`."""
        tolerated = Tolerance(SETTLED, SETTLED * self.whole)
        stops: list[Stop] = [
            Horizon(course),
            Below(level, Spent(course, tolerated, late=1.0)),
            Below(level, passed),
            Budget(np.inf, _MAX_STEPS),
        ]
        last = start

        def each(now: Moment, saved: Saved) -> None:
            nonlocal last
            moments.append(now)
            last = Saved(saved.y, saved.origin, saved.local, saved.method, None, saved.work)

        end = drive(self.system, Auto(self.rtol), stops, start, s_end=self.span, each=each)
        return end, last

    def _crossing(self, moments: list[Moment], level: float) -> tuple[float, FloatArray]:
        """First time and state at which the loss is at most `level`; the start, or the end, if it never crosses."""
        if not moments:
            return 0.0, self.system.start()
        now = next((now for now in moments if now.loss <= level), moments[-1])
        assert now.step is not None
        early, late = now.step.s0, now.step.s1
        while late - early > 1e-9 * now.step.s1:
            middle = 0.5 * (early + late)
            below = self.system.loss(now.step.dense(middle)) <= level
            early, late = (early, middle) if below else (middle, late)
        return now.origin + late, now.step.dense(late)
