"""Utility maximization: dormant neurons on a frozen residual, until the first of them activates.

With the residual frozen the neurons are independent, so all of them are integrated in one batch of Dormand-Prince steps
with a step size per neuron (`stepper`: there is the flow of the paper), until `crossings` finds the first at its
threshold; neurons whose directions came to `rest` follow a closed law. Norms are logarithms and t is accelerated time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agf import integrators
from agf.algorithm.choose_stepper import choose_stepper
from agf.algorithm.crossings import FAR, TURN, Crossings
from agf.algorithm.departures import twins
from agf.algorithm.field import Batch
from agf.algorithm.threshold import ExactThreshold, Threshold
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.clock import Clock
from agf.contract.problem import Problem
from agf.coordinates.aligned import groups, homogeneous, log_group_norms
from agf.init import Init
from agf.records.status import Status
from agf.sphere import lengths

#: Error of one step where it is only asked when the next neuron comes. Cost: of asking again and again; the crossing
#: itself is found at the tolerance of the run.
ROUGH = 1e-3
#: Rounds of steps of a dormant phase, and of all questions of an active phase for its horizon. Limit: the first ends as
#: `max_steps` beyond, and the second keeps the last answer; nothing runs practically for ever.
_MAX_ROUNDS = 20_000


@dataclass
class Rounds:
    """How many rounds of steps may still be taken; several questions can share them.

    Parameters
    ----------
    left : int, optional
        Each round takes one.
    evaluations : float, optional
        Evaluations of the utility after which a question takes no more of them.
    """

    left: int = field(default_factory=lambda: _MAX_ROUNDS)
    evaluations: float = np.inf


@dataclass(frozen=True)
class Crossing:
    """The end of a dormant phase.

    Parameters
    ----------
    time : float
        Accelerated time since the start of the phase.
    neurons : int ndarray, shape (k,)
        Positions in the batch of those that activate.
    utility : float ndarray, shape (k,)
        Their utility at unit norm.
    log_radius : float ndarray, shape (k,)
        Log of the norm they activate at.
    gain : float
        Loss that the strongest of them can take, U^2 / 4C; NaN where C was not needed (unit thresholds).
    runner_up : tuple[int, float] or None
        (position, accelerated time it still lacks at its present utility), or None.
    directions : float ndarray, shape (m, P)
        Unit rows of the whole batch at that time.
    log_norms : float ndarray, shape (m,)
        Log norms of the whole batch at that time.
    growing : bool ndarray, shape (m,)
        Whose utility is positive.
    forked : int ndarray, shape (f,)
        Positions of those that have passed a fork, where their flow is not unique.
    """

    time: float
    neurons: IntArray
    utility: FloatArray
    log_radius: FloatArray
    gain: float
    runner_up: tuple[int, float] | None
    directions: FloatArray
    log_norms: FloatArray
    growing: BoolArray
    forked: IntArray


def cross(
    batch: Batch,
    threshold: Threshold,
    *,
    rtol: float = 1e-6,
    tie_rtol: float = 1e-9,
    align: bool = True,
    stop: float = np.inf,
    most: float = np.inf,
    stats: dict[str, float] | None = None,
) -> Crossing | Status:
    """Integrate the dormant neurons until the first reaches its threshold.

    Parameters
    ----------
    batch : Batch
        The neurons.
    threshold : Threshold
        What each has to reach.
    rtol : float, optional
        Error per step of directions and log norms, absolute in both (they are of order one and logarithms); where the
        problem has kinks (sharp, or rounded: `problem.kink`) its power 2/3, as a kink costs a method its order.
    tie_rtol : float, optional
        Crossings closer than this fraction of the elapsed time are one.
    align : bool, optional
        Whether a group that crosses takes one direction where f has kinks (`departures.twins`); not where its members
        are followed in real time from here.
    stop : float, optional
        Accelerated time, since the start of the phase, at which to give up.
    most : float, optional
        Evaluations of the utility after which to give up.
    stats : dict[str, float] or None, optional
        Counters to add to: utility_evaluations, dormant_steps, self_interactions.

    Returns
    -------
    Crossing or Status
        Crossing, or Status.NO_GROWTH when none will ever cross, MAX_TIME when none does before `stop`, MAX_STEPS.

    Raises
    ------
    NonFinite
        The plugin returned a non-finite value.
    ProblemError
        It returned a wrong shape.
    Stalled
        A crossing could not be located.
    """
    race = _Race(batch, threshold, rtol, Rounds(evaluations=most))
    try:
        status = race.run(stop)
        return race.crossing(tie_rtol, align) if status is None else status
    finally:
        race.count(stats)


def wait(
    batch: Batch,
    threshold: Threshold,
    *,
    stop: float = np.inf,
    enough: float = np.inf,
    stats: dict[str, float] | None = None,
    rounds: Rounds | None = None,
) -> tuple[float, Threshold]:
    """Accelerated time to the first crossing, inf when none is found before `stop` or with `rounds`, `enough` when it
    is later than that: `cross` without the state there; and the threshold with the self-interactions that were found
    on the way, to ask again with."""
    race = _Race(batch, threshold, ROUGH, rounds)
    try:
        status = race.run(min(stop, enough))
        time = float(race.crossings.crossed.min()) if status is None else np.inf
        return enough if status is Status.MAX_TIME and enough < stop else time, race.crossings.learned()
    finally:
        race.count(stats)


def soonest(batch: Batch, threshold: Threshold, *, stats: dict[str, float] | None = None) -> float:
    """Accelerated time before which none crosses at the gradients of now, each growing as fast as these allow."""
    race = _Race(batch, threshold, 1.0)
    try:
        return race.crossings.earliest(np.flatnonzero(~race.steps.dead))
    finally:
        race.count(stats)


def carry(
    problem: Problem,
    residual: Any,
    clock: Clock,
    directions: FloatArray,
    log_norms: FloatArray,
    neurons: IntArray,
    duration: float,
    *,
    rtol: float = 1e-6,
    stats: dict[str, float] | None = None,
    origin: Init | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Directions (m, P) and log norms (m,) of dormant neurons after `duration` of accelerated time, no threshold.

    Parameters
    ----------
    problem, residual, clock, directions, log_norms, neurons, origin
        See `Batch`, which this takes apart for callers from outside.
    duration : float
        In accelerated time.
    rtol : float, optional
        Of directions.
    stats : dict, optional
        Its counts grow.
    """
    batch = Batch(problem, residual, clock, directions, log_norms, neurons, origin)
    return carry_batch(batch, duration, rtol=rtol, stats=stats)


def carry_batch(
    batch: Batch,
    duration: float,
    *,
    rtol: float = 1e-6,
    stats: dict[str, float] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Directions (m, P) and log norms (m,) after `duration` of accelerated time on a frozen residual, no threshold.

    Raises Stalled where the steps run out before: on rounded kinks too narrow for them.
    """
    never = ExactThreshold(batch.problem, False, *batch.problem.empty, np.inf)
    race = _Race(batch, never, rtol)
    try:
        if race.run(duration) is Status.MAX_STEPS:
            message = "dormant neurons took more steps than there are: they slide along kinks too narrow for them."
            raise integrators.Stalled(message, duration, batch.directions)
        return race.at(duration)
    finally:
        race.count(stats)


class _Race:
    """All neurons, each at the end of its last accepted step, and what is known of their crossings."""

    def __init__(self, batch: Batch, threshold: Threshold, rtol: float, rounds: Rounds | None = None) -> None:
        self.rounds = rounds or Rounds()
        problem, directions, log_norms = batch.problem, batch.directions, batch.log_norms
        self.steps, rests = choose_stepper(batch, rtol, problem.degree * threshold.noise)
        self.crossings = Crossings(self.steps, threshold)
        self.rest = rests(self.steps, self.crossings)
        alive = np.flatnonzero(~self.steps.dead)
        self.grouped = groups(problem) and alive.size > 1
        self.together = self.grouped and homogeneous(problem)
        if self.grouped:
            self.crossings.share[alive] = log_group_norms(directions, log_norms, alive, 2.0) - log_norms[alive]
        if self.steps.top > 0:  # activations at time zero, and the self-interaction of the strongest neurons
            self.crossings.earliest(alive)
            self.crossings.look(alive)

    def run(self, stop: float) -> Status | None:
        """Step until the first crossing is known and every neuron has passed it. None, or why there is no crossing.

        Groups cross before their neurons do. How large one is at its crossing is not known before: so the first stop is
        where a neuron would cross if all were of its group, the next if all that are near were.
        """
        if self.grouped:
            for close in (FAR, TURN):
                status = self._run(stop)
                if status is not None:
                    return status
                directions, log_norms = self.at(float(self.crossings.crossed.min()))
                alive = np.flatnonzero(~self.steps.dead)
                share = np.zeros(self.steps.m)
                share[alive] = log_group_norms(directions, log_norms, alive, close) - log_norms[alive]
                self.crossings.regroup(share, self.rest.resting)
        return self._run(stop)

    def _run(self, stop: float) -> Status | None:
        steps, crossed = self.steps, self.crossings.crossed
        while True:
            end = min(float(crossed.min(initial=np.inf)), stop)
            behind = ~self.rest.resting & (steps.y1[:, -1] < end) & np.isinf(crossed)
            if not behind.any():
                break
            if self.rounds.left <= 0 or steps.field.evaluations > self.rounds.evaluations:
                return Status.MAX_STEPS
            self.rounds.left -= 1
            # A step may pass the first crossing but must not begin after it, or the state there would be lost.
            ready = behind & (steps.y1[:, -1] <= self.crossings.earliest(np.flatnonzero(behind)))
            for block in steps.blocks(np.flatnonzero(ready)):
                self._step(block)
        first = float(crossed.min(initial=np.inf))
        if first <= stop and np.isfinite(first):
            return None
        can_grow = (self.crossings.grows(steps.f1) | ~self.rest.resting).any()
        return Status.MAX_TIME if np.isfinite(stop) and can_grow else Status.NO_GROWTH

    def _step(self, rows: IntArray) -> None:
        steps, crossings = self.steps, self.crossings
        done = steps.step(rows)
        if done.size == 0:
            return
        crossings.turned[done] += lengths(steps.y1[done, : steps.p] - steps.y0[done, : steps.p])
        crossings.look(done)
        self.rest.test(done[np.isinf(crossings.crossed[done])])

    def at(self, time: float) -> tuple[FloatArray, FloatArray]:
        """Directions (m, P) and log norms (m,) of all at one elapsed time."""
        steps, p, dead, resting = self.steps, self.steps.p, self.steps.dead, self.rest.resting
        directions, log_norms = steps.start[:, :p].copy(), steps.start[:, p].copy()
        law = np.flatnonzero(resting & ~dead & (steps.y1[:, -1] <= time))
        directions[law], log_norms[law] = steps.y1[law, :p], steps.law(law, time)
        inside = np.flatnonzero(~dead & (steps.y0[:, -1] <= time) & (time < steps.y1[:, -1]))
        if inside.size:
            y = steps.dense(inside, steps.place(inside, time))
            directions[inside], log_norms[inside] = y[:, :p], y[:, p]
        end = np.flatnonzero(~dead & ~resting & (steps.y1[:, -1] == time))
        directions[end], log_norms[end] = steps.y1[end, :p], steps.y1[end, p]
        lost = np.flatnonzero(~dead & (steps.y0[:, -1] > time))  # their steps began after the crossing
        known, y = steps.past(lost, time)
        directions[known], log_norms[known] = y[:, :p], y[:, p]
        lost = np.setdiff1d(lost, known)
        if lost.size:  # once more, now that its time is known
            stats: dict[str, float] = {}
            again = steps.batch.some(lost, directions, log_norms)
            directions[lost], log_norms[lost] = carry_batch(again, time, rtol=steps.rtol, stats=stats)
            steps.field.evaluations += int(stats["utility_evaluations"])
            steps.steps += int(stats["dormant_steps"])
        return directions, log_norms

    def crossing(self, tie_rtol: float, align: bool) -> Crossing:
        """The first crossing, with its ties, and all neurons at that time."""
        steps, crossings, p = self.steps, self.crossings, self.steps.p
        time = float(crossings.crossed.min())
        directions, log_norms = self.at(time)
        first = np.flatnonzero(crossings.crossed == time)
        moving = first[~self.rest.resting[first]]
        # time does not resolve the end of a blow-up: those that crossed are where the crossing was located
        there = steps.dense(moving, crossings.where[moving])
        directions[moving], log_norms[moving] = there[:, :p], there[:, p]
        alive = np.flatnonzero(~steps.dead)
        steps.y1[alive, :p], steps.y1[alive, p], steps.y1[:, -1] = directions[alive], log_norms[alive], time
        for rows in steps.blocks(alive):
            steps.f1[rows] = steps.field.velocity(steps.y1[rows], steps.neurons[rows])
        f, natural = steps.f1, crossings.threshold.natural
        utility, aligned, grows = (
            f[:, p] / steps.batch.problem.degree,
            steps.field.aligned_utility(f),
            crossings.grows(f),
        )
        known = alive[np.isfinite(crossings.log_2c[alive])] if natural else alive
        close = known[grows[known] & (crossings.gap(known) > -1.0)]
        crossings.refresh(np.union1d(close, first))
        lacks = np.full(steps.m, np.inf)
        growing = alive[grows[alive]]
        lacks[growing] = crossings.wait(growing, utility[growing], aligned[growing])
        located = np.isfinite(crossings.crossed)
        lacks[located] = crossings.crossed[located] - time
        tied = lacks <= tie_rtol * time
        log_radius = crossings.threshold.log_radius(aligned, crossings.log_2c)
        # one whose utility has turned positive, or that is at its start, may stand above its threshold by far
        radius = log_radius - crossings.share
        met = tied & (steps.y0[:, p] < radius)
        log_norms[met] = radius[met]
        tied |= self._together(first, directions, log_norms, grows, align)
        chosen = np.flatnonzero(tied)
        others = np.where(tied, np.inf, lacks)
        next_ = int(np.argmin(others)) if others.size else 0
        runner_up = (next_, float(others[next_])) if np.isfinite(others).any() else None
        log_2c = crossings.log_2c[chosen]
        with np.errstate(over="ignore"):
            gains = 0.5 * utility[chosen] ** 2 * np.exp(-log_2c) if natural else np.array([np.nan])
        return Crossing(
            time=time,
            neurons=chosen,
            utility=utility[chosen],
            log_radius=log_radius[chosen],
            gain=float(gains.max()),
            runner_up=runner_up,
            directions=directions,
            log_norms=log_norms,
            growing=grows,
            forked=steps.forked(),
        )

    def _together(
        self, rows: IntArray, directions: FloatArray, log_norms: FloatArray, grows: BoolArray, align: bool
    ) -> BoolArray:
        """Neurons that activate with rows, (m,): twins, and members of their groups that grow."""
        steps = self.steps
        out = twins.same(steps.batch.problem, steps.start, rows)
        if self.grouped:
            for row in rows:
                log_group = log_norms[row] + self.crossings.share[row]
                group, members = twins.members(directions, log_norms, ~steps.dead, row, log_group, steps.rtol)
                if align:
                    twins.align(steps.batch.problem, directions, log_norms, group)
                if self.together:
                    out |= members & grows
        return out

    def count(self, stats: dict[str, float] | None) -> None:
        """Add the work done to the counters."""
        if stats is not None:
            work = {
                "utility_evaluations": self.steps.field.evaluations,
                "dormant_steps": self.steps.steps,
                "self_interactions": self.crossings.calls,
            }
            for name, value in work.items():
                stats[name] = stats.get(name, 0) + value
