"""Mode "resolved" where nothing grows away from anything: all neurons are followed together, in one pass with its bars.

A problem may have coordinates in which solutions never move apart (`FlowSystem.contracts`), as a diagonal network has.
There a dormant neuron costs nothing to keep in the residual, and a plateau is a few long steps: nothing is left out,
and the active set only says who is named. Errors of steps never grow in the norm of `FlowSystem.distance`, so that
their sum bounds the error of the state, and `FlowSystem.changes` says what that can do to the loss. This
is what the reference trainer integrates: a comparison of the two checks the rules that end them and the reading of the
curve, and no more.
"""

from __future__ import annotations

import time as wall
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from agf.algorithm.deviation import of_curve
from agf.algorithm.observer import Observer
from agf.algorithm.outcome import staircase
from agf.algorithm.resolved.meaning import meaning
from agf.algorithm.resolved.path import Enough, Path
from agf.algorithm.resolved.roll import Roll
from agf.algorithm.task import Task
from agf.algorithm.untie import untie
from agf.arrays import FloatArray, IntArray
from agf.contract.blame import guard
from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.contract.ties import Ties
from agf.init import Init
from agf.integrators import Accepted
from agf.records.checkpoint import Checkpoint
from agf.records.settings import Settings
from agf.records.status import Status
from agf.records.table import bound
from agf.results.curve import FLOOR, LEFT
from agf.results.drop import Drop
from agf.results.staircase import Staircase
from agf.stopping.along import Way, enough
from agf.stopping.driver import Counted, End, Moment, Saved, Stop, Why, drive
from agf.stopping.ending import SETTLE, Ending, first_change, remarks
from agf.stopping.methods import Auto
from agf.stopping.rules import Budget, Timeless

#: Points of the curve in every step, and for every e-fold by which the loss above the least falls in it. Cost:
#: half-drop times are found on a cubic between points.
_POINTS, _POINTS_FOLD = 2, 3
#: Most points of the curve in a step. Cost: half-drop times are found on a cubic between points.
_MOST_POINTS = 12
#: Loss above the least, over that at the start, from which on folds are no longer counted. Cost: of points.
_DEEP = 1e-6
#: Log of the ratio of the rates of fall at two points beyond which one is put between them, so often at most. Cost: of
#: points; a cubic through points farther apart on an exponential has plateaus of its own.
_JUMP, _HALVINGS = 1.5, 8


def resolve_contracting(
    problem: Problem,
    ties: Ties,
    system: FlowSystem,
    init: Init,
    settings: Settings,
    observer: Observer | None,
    kept: Checkpoint | None,
) -> Staircase:
    """The predicted curve and its drops; see `agf.algorithm.resolved.resolve.resolve`, whose contract this keeps.

    `conditioning` is a bound on the relative change of half-drop times by what the steps err by. What is stepped is the
    `system` of the problem that `ties` leave.
    """
    task = Task.of(ties.problem, ties.init, settings)
    run = _Followed(task, system, observer)
    began = wall.perf_counter()

    def result(status: Status) -> Staircase:
        drops = run.drops()
        times, losses, _ = run.path.curve()
        curve = task.clock.flow(times), losses
        stairs = staircase(task, status, drops, stats=run.stats, notes=run.notes, began=began, curve=curve)
        return untie(of_curve(stairs), ties, problem, init)

    if kept is not None:
        run.roll.observer = kept.watching(observer, lambda: result(Status.INTERRUPTED))

    def partial() -> Staircase | None:
        with suppress(Exception):  # what is asked here may be what has raised
            run.record()
        return result(Status.ERROR) if len(run.path.times) > 1 else None

    with guard(problem, partial):
        try:
            found = result(run.go())
        except KeyboardInterrupt:  # while drops are looked for: the curve is there
            found = result(Status.INTERRUPTED)
    try:
        for drop in found.drops if observer is not None else ():  # which they are is known in the end
            observer(run.path.state(float(task.clock.accelerated(drop.half_time))), drop)  # type: ignore[misc]
    except KeyboardInterrupt:  # while they are told
        return replace(found, status=Status.INTERRUPTED)
    return found


class _Followed:
    """One run: its curve, and what its steps err by."""

    def __init__(self, task: Task, system: FlowSystem, observer: Observer | None) -> None:
        self.task, self.system = task, system
        self.unit = float(np.exp(system.log_time_unit - task.clock.log_scale))  # accelerated time per unit of s
        self.stats: dict[str, float] = {}
        self.notes: list[str] = []
        self.least = float(task.problem.least_loss(task.init))
        # of weights that are not small it is not that of no network
        self.path = Path(losses=[float(system.loss(system.start()))], level=task.start_level)
        self.roll = Roll(task, self.path, self.stats, observer)
        self.waiting: list[tuple[Moment, Accepted, float]] = []  # steps that are no part of the curve yet, and `error`
        self.error = 0.0  # bound on that of the state so far, in the norm that contracts
        self.delays = [0.0]  # bound on how late the curve may be, accelerated time, at each of its points
        self.left: float | None = None  # loss that may still be lost at the end

    def go(self) -> Status:
        """Until a rule ends it."""
        settings, start_level = self.task.settings, self.task.start_level
        ending = Ending(SETTLE, start_level, self.least, first_change(self.system))  # the trainer's drops
        stops: list[Stop] = ending.rules(self.system.smooth)
        if settings.max_drops is not None:
            stops.append(Enough(self.curve, settings.max_drops))
        stops += [Timeless(), Budget(self.task.budget())]
        start = self.system.start()
        self.path.slopes = [self.system.loss_rate(start) / self.unit]
        limit = settings.t_max
        s_end = np.inf if limit is None else float(self.task.clock.accelerated(limit)) / self.unit
        try:
            end = drive(self.system, Auto(settings.rtol), stops, start, s_end=s_end, each=self._see)
            self.record()
        except KeyboardInterrupt:
            self.path.cut(len(self.delays))
            self.record()
            return Status.INTERRUPTED
        self.stats["velocity_evaluations"] = float(end.at.work.gradients)
        self.stats["hessians"] = float(end.at.work.hessians)
        return self._ended(end, ending)

    def _ended(self, end: End, ending: Ending) -> Status:
        """The status of an end."""
        if end.why is Why.SETTLED:
            self.left = end.left
            if end.left > FLOOR * self.task.start_level:  # at interpolation a loss falls for ever
                most = "at most" if end.bounded else "about"
                self.notes.append(f"The curve ends where {most} {bound(end.left)} can still be lost.")
        known = meaning(end, self.roll.state.active, least=self.least, tolerated=self.task.tolerated)
        if known is not None:
            return known
        status, sentence, _ = ending.status(end, float(np.exp(self.system.log_time_unit)))
        self.notes.extend(remarks(end, sentence))
        return status

    def _see(self, now: Moment, saved: Saved) -> None:
        """Take a step into the bound on the error, and keep it for the curve."""
        step = now.step
        assert step is not None
        self.error += self.system.distance(step.error)
        self.waiting.append((now, step, self.error))
        if enough(len(self.waiting), now.y):
            self.record()

    def record(self) -> None:
        """Take the steps that wait into the curve, with points inside."""
        if not self.waiting:
            return
        (moments, steps, errors), self.waiting = zip(*self.waiting, strict=True), []
        which, places, losses, rates, late, ys = self._points(moments, steps)
        times = (np.array([now.origin for now in moments])[which] + places) * self.unit
        ends = np.flatnonzero(np.append(np.diff(which), 1))
        before = np.append(self.roll.state.level, losses[ends[:-1]])[which]
        seen = losses < (1.0 - self.path.spacing) * before
        seen[ends] = True
        for point in zip(times.tolist(), losses.tolist(), (-rates / self.unit).tolist(), strict=True):
            self.path.add(*point)
        self.delays.extend((np.array(errors)[which] * self.unit * late).tolist())
        self.roll.call(times[seen], losses[seen], self.system.snapshots(ys[seen]))

    def _points(self, moments: Sequence[Moment], steps: Sequence[Accepted]) -> tuple[Any, ...]:
        """Steps (k,) of points, their places in these, the ends among them, with what `_read` tells of them, and the
        states (k, N) there."""
        ends = np.array([self.path.losses[-1], *(now.loss for now in moments)])
        folds = -np.diff(np.log(np.maximum(ends - self.least, _DEEP * self.task.start_level)))
        counts = np.minimum(_POINTS + (_POINTS_FOLD * np.maximum(folds, 0.0)).astype(np.int64), _MOST_POINTS)
        inside = np.concatenate([np.linspace(s.s0, s.s1, n + 2)[1:] for s, n in zip(steps, counts, strict=True)])
        of = np.repeat(np.arange(len(steps)), counts + 1)
        starts, ages = np.array([s.s0 for s in steps]), np.array([now.t for now in moments])
        which, places, table = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((3, 0))
        ys, way = np.zeros((0, steps[0].y1.size)), Way(steps)
        for _ in range(1 + _HALVINGS):
            table_there, states = self._read(moments[-1].system, way, of, inside)
            which, places, table = np.append(which, of), np.append(places, inside), np.hstack([table, table_there])
            order = np.lexsort((places, which))
            which, places, table, ys = which[order], places[order], table[:, order], np.vstack([ys, states])[order]
            fall = np.append(-self.path.slopes[-1] * self.unit, table[1]) * np.append(ages[0], ages[which])
            apart = np.abs(np.diff(np.log(np.maximum(fall, LEFT * self.task.start_level)))) > _JUMP
            if not apart.any():
                break
            left = np.where(np.diff(which, prepend=-1) > 0, starts[which], np.roll(places, 1))
            of, inside = which[apart], 0.5 * (left + places)[apart]
        return which, places, *table, ys

    def _read(self, system: Counted, way: Way, which: IntArray, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Losses, -dL/ds along steps, time by which a unit error may shift the loss, (3, k); and states (k, N)."""
        ys, losses, gradients, slopes = way.along(system, which, places)
        change = self.system.changes(gradients)
        late = np.divide(change, -slopes, out=np.full(places.size, np.inf), where=slopes < 0)
        return np.array([losses, -slopes, late]), ys

    def curve(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Times, losses and slopes so far."""
        self.record()
        return self.path.curve()

    def drops(self) -> list[Drop]:
        """Visible drops so far, each with the bound on the change of its time."""
        times, late = np.array(self.path.times), np.array(self.delays)
        drops = []
        for drop in self.path.drops(self.task.problem, self.task.clock, self.left):
            k = int(np.searchsorted(times, drop.accelerated_time))
            bound = float(np.max(late[max(k - 1, 1) : k + 1], initial=0.0))
            drops.append(
                replace(drop, conditioning=bound / drop.accelerated_time if drop.accelerated_time > 0 else 0.0)
            )
        return drops
