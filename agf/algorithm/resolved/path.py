"""What a time-resolved prediction has gone through: the curve, who joined and left along it, and the drops in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from agf.algorithm.smallness import from_level, learned_before, level_before
from agf.arrays import FloatArray, IntArray
from agf.clock import Clock
from agf.contract.problem import Problem
from agf.records.naming import GREW
from agf.records.settings import FINE_DEPTH
from agf.records.state import State
from agf.results.curve import FLOOR, CurveDrop, crowded, detect
from agf.results.drop import Drop, kept
from agf.results.interpolant import drawn
from agf.stopping.driver import End, Moment, Why

#: Fall of the loss, over the first, between two points of the curve at most. Cost: half-drop times are found on a cubic
#: between points, which is right to 1e-8 of the fall of a lone neuron then.
_FINE = 0.01
#: Fall between two points where kinks make corners, over the first loss. Cost: of points, as no cubic passes a corner.
_CORNERED = 0.005
#: Points of the curve in one step at most. Cost: half-drop times are found on a cubic between points.
_MOST_INSIDE = 30
#: Steps at which the curve is looked over for drops that were requested, over those at the last look. Cost: a look
#: goes over the whole curve, and what is stepped beyond the last drop is thrown away.
_LOOKS = 1.1
#: Steps between the first such looks. Cost: of a look, and of steps beyond the last drop.
_FIRST = 5
#: Memory for the states kept along the curve. Limit: fewer are kept then.
_STATE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Change:
    """Neurons that joined and grew to a fair part of R* (True), or left (False); utilities are those of joining."""

    time: float
    neurons: IntArray
    joined: bool
    utility: FloatArray
    state: State


@dataclass
class Path:
    """The predicted curve in accelerated time, who joined and left along it, and states by which drops are told apart.

    Parameters
    ----------
    spacing : float
        In log loss, of the states that are kept.
    slopes : list[float]
        dL/dt, in accelerated time, at the points of the curve.
    reading : str
        How plateaus are read: from "cubics" between points, from the "rates" at the points where these pass corners, as
        slopes are rounded there and losses are not, or from "losses" alone, where steps are long and points few.
    slips : list[tuple[float, float]]
        Times of implicit steps, and by how much each may have put the time off, of it.
    level : float
        Loss of the zero function: drops fall from there, or from what large initial weights have learned.
    """

    times: list[float] = field(default_factory=lambda: [0.0])
    losses: list[float] = field(default_factory=list)
    slopes: list[float] = field(default_factory=lambda: [0.0])
    events: list[Change] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    spacing: float = 0.5 * FINE_DEPTH
    reading: str = "cubics"
    slips: list[tuple[float, float]] = field(default_factory=list)
    level: float = np.nan

    def add(self, time: float, loss: float, slope: float) -> None:
        """A point of the curve."""
        self.times.append(time)
        self.losses.append(loss)
        self.slopes.append(slope)

    def slipped(self, drops: list[Drop]) -> FloatArray:
        """By how much the implicit steps before each drop may have put its time off, of it, (d,)."""
        times, slips = np.array([(0.0, 0.0), *self.slips]).T
        before = np.searchsorted(times, [drop.accelerated_time for drop in drops], side="right")
        return np.asarray(np.cumsum(slips)[before - 1])

    def follow(self, other: Path, time: float) -> None:
        """Take the points of another curve up to a time."""
        count = int(np.searchsorted(other.times, time, side="right"))
        self.times, self.losses, self.slopes = other.times[:count], other.losses[:count], other.slopes[:count]

    def cut(self, most: int | None = None) -> None:
        """Forget points beyond so many, and one of which an interrupt has left only a part."""
        known = [self.times, self.losses, self.slopes]
        whole = min(map(len, known)) if most is None else min(most, *map(len, known))
        for numbers in known:
            del numbers[whole:]

    def points(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Times, losses and slopes of the curve; where nothing has corners, without those at which it rises.

        No gradient flow does: neurons that grow apart and cancel make a steep valley, beside which a step may end, or
        what interpolates it lie, at many times the loss of the valley. What rises by less than the smallest drop that
        is told stays, and rounded corners scatter (`detect` measures by how much).
        """
        times, losses, slopes = np.array(self.times), np.array(self.losses), np.array(self.slopes)
        if self.reading == "rates":
            return times, losses, slopes
        least = np.minimum.accumulate(losses)
        falls = losses - least <= np.maximum(FINE_DEPTH * least, FLOOR * losses[:1])
        return times[falls], losses[falls], slopes[falls]

    def curve(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Times, losses and slopes, as plateaus are read from them (`reading`); no slopes where from losses alone."""
        times, losses, slopes = self.points()
        if self.reading == "cubics" and slopes.size > 1:
            return drawn(times, losses, slopes)
        return times, losses, slopes[: 0 if self.reading == "losses" else None]

    def keep(self, state: State) -> None:
        """Keep a state, in place of the last one unless the loss has fallen between them."""
        if len(self.states) > 1 and state.level > self.states[-2].level * (1.0 - self.spacing):
            self.states.pop()
        self.states.append(state)
        if len(self.states) > 2 and len(self.states) * state.directions.nbytes > _STATE_BYTES:
            self.states[1:-1] = self.states[1:-1:2]
            self.spacing *= 2.0

    def inside(self, now: Moment) -> list[tuple[float, float, float]]:
        """Times, losses and rates -dL/ds within the step that ended here, where the loss falls much."""
        step = now.step
        assert step is not None
        fine = _CORNERED if self.reading == "rates" else _FINE
        fall = abs(self.losses[-1] - now.loss) / (fine * self.losses[0])
        count = min(int(fall), _MOST_INSIDE)
        if count == 0:
            return []
        places = np.linspace(step.s0, now.local, count + 2)[1:-1]
        ys = step.many([step])(np.zeros(count, dtype=np.int64), places)
        losses, rates = now.system.losses_and_rates(ys)
        return list(zip((now.origin + places).tolist(), losses.tolist(), rates.tolist(), strict=True))

    def state(self, time: float) -> State:
        """The last state kept by a time."""
        return [self.states[0], *(state for state in self.states if state.time <= time)][-1]

    def drops(self, problem: Problem, clock: Clock, left: float | None = None) -> list[Drop]:
        """Visible drops of the predicted curve, each with the neurons that arrived and left since the one before.

        Parameters
        ----------
        problem : Problem
            Whose words are used, and features.
        clock : Clock
            What accelerated time is.
        left : float or None, optional
            Loss that may still be lost at the end.
        """
        times, losses, slopes = self.curve()
        first = self.losses[0]
        losses, slopes = from_level(losses, slopes, level_before(self.level, first))
        seen = detect(times, losses, slopes=slopes, depth=FINE_DEPTH, left=left)
        # who arrives after most of a drop makes the next; losses tell what one time in float64 does not
        arrived = [
            min((a.end, 0.9 * (a.before - a.after) - a.before), (b.start, 0.1 * (b.before - b.after) - b.before))
            for a, b in pairwise(seen)
        ]
        gone = [max(a.end, b.start) for a, b in pairwise(seen)]  # leaving may take most of the plateau after a drop
        # A plateau is where a drop has its level; the curve is at it as soon as the loss has fallen so far.
        reached = [float(times[int(np.argmax(losses <= drop.after))]) for drop in seen[:-1]]
        windows = zip(
            pairwise([(-np.inf, 0.0), *arrived, (np.inf, 0.0)]),
            pairwise([-np.inf, *gone, np.inf]),
            pairwise([-np.inf, *reached, np.inf]),
            strict=True,
        )
        held = np.flatnonzero(self.state(-np.inf).active)
        drops = learned_before(problem, self.level, first, self.states[0])
        for drop, close, window in zip(seen, crowded(seen), windows, strict=False):
            drops.append(self._drop(problem, clock, drop, close, held, *window))
            held = np.union1d(np.setdiff1d(held, drops[-1].collapsed), drops[-1].neurons)
        return drops

    def _drop(
        self,
        problem: Problem,
        clock: Clock,
        seen: CurveDrop,
        close: bool,
        held: IntArray,
        arrival: tuple[tuple[float, float], tuple[float, float]],
        leave: tuple[float, float],
        span: tuple[float, float],
    ) -> Drop:
        joined = [e for e in self.events if e.joined and arrival[0] <= (e.time, -e.state.level) < arrival[1]]
        left = [e for e in self.events if not e.joined and leave[0] <= e.time < leave[1]]
        none = [np.zeros(0, dtype=np.int64)]
        neurons = np.unique(np.concatenate([e.neurons for e in joined] or none))
        gone = np.unique(np.concatenate([e.neurons for e in left] or none))
        # whom no drop brought is not missed: a neuron that was carried along for a while, too small to have arrived
        neurons, gone = np.setdiff1d(neurons, gone), np.intersect1d(np.setdiff1d(gone, neurons), held)
        before, state = (self.state(time) for time in span)
        active = np.flatnonzero(state.active)
        features = problem.features(state.params[active], active)
        half = clock.flow_time(seen.time)
        utility = np.concatenate([event.utility for event in joined]) if joined else np.zeros(0)
        return Drop(
            time=half,
            half_time=half,
            accelerated_time=seen.time,
            level=seen.after,
            neurons=neurons,
            collapsed=gone,
            label=label(problem, before, state, neurons, features),
            utility=utility,
            how="curve",
            overlap=close or utility.size > 1,  # also of several that left again
            features=features,
            log_norms=state.log_norms.copy(),
            active=state.active.copy(),
            directions=kept(state.directions),
        )


def label(problem: Problem, before: State, after: State, neurons: IntArray, features: dict[str, FloatArray]) -> str:
    """What the network acquired over a drop, in the problem's words, else who arrived in it, else who grew most."""
    was = np.flatnonzero(before.active)
    words = problem.acquired(problem.features(before.params[was], was), features)
    if words:
        return words
    active, rose = np.flatnonzero(after.active), ""
    if neurons.size == 0:
        sizes = [np.where(each.active, np.exp(each.log_norms), 0.0) ** problem.degree for each in (before, after)]
        gain = sizes[1] - sizes[0]
        if not (gain > 0).any():
            return "re-arrangement"
        neurons = np.flatnonzero(gain >= Drop.SHARED * gain.max())
        rose = "" if np.isin(neurons, problem.permanent).all() else GREW
    return problem.label(after.params[active], active, neurons) + rose


@dataclass(frozen=True)
class Enough:
    """All drops that were requested have been passed: two more are seen, of which the last may not be over.

    Where neurons join and leave all the time no plateau is skipped, at which this would be found. Costs a look over the
    curve each time, at steps in geometric progression.
    """

    curve: Callable[[], tuple[FloatArray, FloatArray, FloatArray]]
    most: int

    def init(self, now: Moment) -> tuple[float, ...]:
        """The step at which to look."""
        return (float(now.work.steps),)

    def look(self, now: Moment, memory: tuple[float, ...]) -> tuple[tuple[float, ...], End | None]:
        """Whether they are."""
        if now.work.steps < memory[0]:
            return memory, None
        times, losses, slopes = self.curve()
        seen = detect(times, losses, slopes=slopes, depth=FINE_DEPTH)
        after = (_LOOKS * now.work.steps + _FIRST,)
        return after, End(Why.PASSED, now) if len(seen) > self.most + 1 else None
