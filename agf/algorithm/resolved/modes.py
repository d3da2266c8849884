"""Mode "resolved" where hidden units mix: modes, small and large, followed in time together.

No hidden unit is dormant or active by itself there, so that none could ride on the residual of others. The modes that
are (`agf.coordinates`: of the problem, or `ModeSystem`) keep every size as a logarithm, and are integrated with the
residual of all of them. This is what the reference trainer integrates as well: a comparison of the two checks the rules
that end them and the reading of the curve, and no more.
"""

from __future__ import annotations

import time as wall
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agf.algorithm.conditioning import condition_drops, perturb
from agf.algorithm.deviation import of_curve
from agf.algorithm.observer import Observer
from agf.algorithm.outcome import staircase
from agf.algorithm.resolved.tolerances import COARSEST, STEP
from agf.algorithm.resolved.turning import slips
from agf.algorithm.smallness import from_level, learned_before, level_before
from agf.algorithm.task import Task
from agf.arrays import FloatArray
from agf.contract.flow_system import Snapshot
from agf.contract.order import Order, order
from agf.contract.problem import Problem
from agf.coordinates.choice import flow_system
from agf.coordinates.mode_system import ModeSystem
from agf.init import Init
from agf.records.checkpoint import Checkpoint
from agf.records.settings import Settings
from agf.records.state import State
from agf.records.status import Status
from agf.records.table import those
from agf.results.curve import CurveDrop, crowded, detect
from agf.results.drop import Drop
from agf.results.staircase import Staircase
from agf.rounding import LOG_LEAST
from agf.sphere import cartesian
from agf.stopping.coordinates import Stiff, implicit_in
from agf.stopping.driver import End, Moment, Saved, Stop, Why, drive
from agf.stopping.ending import SETTLE, Ending, remarks
from agf.stopping.methods import PER_ENTRY, Auto
from agf.stopping.rules import Budget, Certified, Timeless, Tolerance

#: Fall of the loss in a step, over the first, from which on it is drawn with points inside. Cost: half-drop times are
#: found on a cubic between points.
_FINE = 0.01


def resolve_modes(
    problem: Problem, init: Init, settings: Settings, observer: Observer | None, kept: Checkpoint
) -> Staircase:
    """The predicted curve and its drops; see `agf.algorithm.resolved.resolve.resolve`, whose contract this keeps.

    `conditioning` is the relative change of half-drop times when the tolerance and the initial weights change a little.
    What turns modes away from a saddle is in the bars besides (`turning`).
    """
    run = _Run(Task.of(problem, init, settings))
    stairs = _conditioned(run, observer, kept)
    slipped = run.slips(stairs.drops)
    notes = stairs.notes
    if np.isinf(slipped).any():
        which = those("drop", np.flatnonzero(np.isinf(slipped)) + 1)
        more = f"A saddle is left by a turn that steps do not hold: when {which} may come is unbounded (inf)."
        notes = (*notes, more)
    return of_curve(replace(stairs, notes=notes), slipped=slipped)


def _conditioned(run: _Run, observer: Observer | None, kept: Checkpoint) -> Staircase:
    """What a run predicts, with the conditioning of its drops."""
    problem, init, settings = run.task.problem, run.task.init, run.task.settings
    stairs = run.go(observer, kept)
    if observer is not None:
        for drop in stairs.drops:  # which they are is known in the end
            observer(run.state_at(drop.half_time), drop)
    if settings.conditioning is False or stairs.half_times[-1] == 0.0 or stairs.status is Status.INTERRUPTED:
        return stairs
    try:
        start, looser = perturb(init, settings)
        middle = 0.5 * (stairs.levels[-2] + stairs.levels[-1])
        again = _Run(Task.of(problem, start, looser), middle - settings.rtol * stairs.start_level)
        return _told(stairs, again.go(None, Checkpoint(None)))
    except KeyboardInterrupt:  # what was predicted first is there
        return replace(stairs, status=Status.INTERRUPTED)


def _told(stairs: Staircase, again: Staircase) -> Staircase:
    """`stairs` with the conditioning of each drop by the curve of a repeat, and the cost of both."""
    curve = again.curve_times, again.curve_losses
    drops, notes = condition_drops(stairs.drops, stairs.start_level, *curve, again.status)
    stats = {name: stairs.stats[name] + again.stats[name] for name in stairs.stats}
    status = again.status if again.status is Status.INTERRUPTED else stairs.status
    return replace(stairs, drops=drops, status=status, stats=stats, notes=(*stairs.notes, *notes))


def _step(settings: Settings) -> float:
    """Tolerance of a step."""
    return min(STEP * settings.rtol, COARSEST)


@dataclass
class _Run:
    """One run: its curve, and the network at points of it. floor : loss at which it may end, before all is fitted."""

    task: Task
    floor: float = -np.inf
    notes: list[str] = field(default_factory=list)
    stats: dict[str, float] = field(default_factory=lambda: {"velocity_evaluations": 0.0})
    points: list[tuple[float, float, float]] = field(default_factory=list)  # flow time, loss, slope
    shots: list[tuple[float, Snapshot]] = field(default_factory=list)
    errors: list[tuple[float, float]] = field(default_factory=list)  # flow time, and of the step, over the weights

    def __post_init__(self) -> None:
        problem, init = self.task.problem, self.task.init
        self.system = flow_system(problem, init)
        if self.system.warnings(self.system.start()):  # of a floor, where training asks for such coordinates
            self.system = ModeSystem(problem, init)
        self.unit = float(np.exp(self.system.log_time_unit))

    def go(self, observer: Observer | None, kept: Checkpoint) -> Staircase:
        """Until a rule ends it; always hands back what there is."""
        began, start = wall.perf_counter(), self.system.start()
        self._keep(0.0, *self.system.loss_and_rate(start), self.system.snapshot(start))

        def result(status: Status) -> Staircase:
            drops = self._drops()
            times, losses, _ = np.array(self.points).T
            return staircase(
                self.task, status, drops, stats=self.stats, notes=self.notes, began=began, curve=(times, losses)
            )

        watching = kept.watching(observer, lambda: result(Status.INTERRUPTED))

        def each(now: Moment, saved: Saved) -> None:
            self._record(now)
            self.stats["velocity_evaluations"] = float(saved.work.gradients)
            if watching is not None:
                watching(self._state(self.shots[-1]), None)

        if self._inert():
            return result(Status.NO_GROWTH if self.task.start_level > 0.0 else Status.FITTED)
        ending = Ending.of(self.task.problem, self.task.init, self.system, SETTLE)
        try:
            return result(self._ended(self._drive(ending, start, each), ending))
        except KeyboardInterrupt:
            return result(Status.INTERRUPTED)

    def _drive(self, ending: Ending, start: FloatArray, each: Callable[[Moment, Saved], None]) -> End:
        """The end of the flow, in other coordinates from where those that it started in are stiff."""
        settings, saved = self.task.settings, Saved(start)
        limit, steps = settings.t_max, Auto(self._tolerance)
        weights = self.system.in_weights()
        s_end = np.inf if limit is None else limit / self.unit
        stops: list[Stop] = [
            Stiff(),
            Certified(Tolerance(0.0), self.floor),
            *ending.rules(self.system.smooth),
            Timeless(),
        ]
        while True:
            budget = Budget(self.task.budget(), hessian=PER_ENTRY * saved.y.size)
            found = drive(self.system, steps, [*stops, budget], saved, s_end=s_end, each=each)
            self.stats["velocity_evaluations"] = float(found.at.work.gradients)
            if found.after is None:
                return found
            self.system, y = found.after
            saved = Saved(y, found.at.t, method=implicit_in(weights, found), work=found.at.work)

    @property
    def _tolerance(self) -> float:
        """Of a step."""
        return _step(self.task.settings)

    def _inert(self) -> bool:
        """Whether nothing ever grows, by a symmetry."""
        problem, init = self.task.problem, self.task.init
        alive = np.flatnonzero(np.isfinite(init.log_norms))
        residual = problem.residual(*problem.empty)
        return order(problem, init.directions[alive], alive, residual, self.task.start_level) is Order.NONE

    def _ended(self, end: End, ending: Ending) -> Status:
        """The status of an end, whose evidence goes into the notes where it is more than a word."""
        if end.why is Why.SETTLED:
            return Status.FITTED
        status, sentence, _ = ending.status(end, self.unit, remedy="")
        self.notes.extend(remarks(end, sentence))
        return status

    def _record(self, now: Moment) -> None:
        """A step, with points inside where the loss falls much."""
        fall = abs(self.points[-1][1] - now.loss) / (_FINE * abs(self.task.start_level))
        begun = self.points[-1][0] / self.unit
        for t in np.linspace(begun, now.t, min(int(fall), 8) + 2)[1:-1]:
            inside = now.inside(float(t))
            self.points.append((inside.t * self.unit, inside.loss, -inside.rate / self.unit))
        self._keep(now.t * self.unit, now.loss, -now.rate, self.system.snapshot(now.y))
        if now.step is not None:
            self.errors.append((self.shots[-1][0], self._tolerance * now.step.memory.error))

    def _keep(self, time: float, loss: float, slope: float, shot: Snapshot) -> None:
        self.points.append((time, loss, slope / self.unit))
        self.shots.append((time, shot))

    def _curve(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Times, losses and slopes, from the level at which drops begin."""
        times, losses, slopes = np.array(self.points).T
        return times, *from_level(losses, slopes, level_before(self.task.start_level, float(losses[0])))

    def slips(self, drops: Sequence[Drop]) -> FloatArray:
        """By how much what turns the modes may put off each of these drops (d,), of its time (`turning.slips`)."""
        times, losses, slopes = self._curve()
        steps = np.array([(0.0, 0.0), *self.errors]).T
        seen = detect(times, losses, slopes=slopes)[: len(drops)]
        later = drops[len(drops) - len(seen) :]  # than what the initial weights have learned
        moved = np.array([drop.conditioning * drop.half_time for drop in later])
        again = _step(perturb(self.task.init, self.task.settings)[1])
        found = slips(
            (times, losses, slopes), (steps[0], steps[1]), seen, self._sizes, (moved, again / self._tolerance)
        )
        return np.concatenate([np.zeros(len(drops) - len(seen)), found])

    def _sizes(self, time: float) -> FloatArray:
        """Singular values of the weights at the last point by a time."""
        _, units = self._shot(time)
        rows = cartesian(units.directions, np.maximum(units.log_norms, LOG_LEAST))
        return np.asarray(np.linalg.svd(rows, compute_uv=False))

    def _drops(self) -> list[Drop]:
        """Visible drops of the curve, one mode or more each."""
        level, first = self.task.start_level, self.points[0][1]
        times, losses, slopes = self._curve()
        seen = detect(times, losses, slopes=slopes)
        next_starts = [*(drop.start for drop in seen[1:]), times[-1]][: len(seen)]
        before = self._shot(0.0)
        drops = learned_before(self.task.problem, level, first, self._state(before))
        for number, (drop, close, following) in enumerate(zip(seen, crowded(seen), next_starts, strict=True)):
            after = self._shot(float(np.sqrt(drop.end * following)))  # on the plateau, where both are far
            drops.append(self._drop(number, drop, close, before, after))
            before = after
        return drops

    def _shot(self, time: float) -> tuple[float, Snapshot]:
        """The network at the last point by a time."""
        return self.shots[max(int(np.searchsorted([t for t, _ in self.shots], time, side="right")) - 1, 0)]

    def state_at(self, time: float) -> State[None]:
        """The hidden units at the last point by a flow time."""
        return self._state(self._shot(time))

    def _drop(
        self, number: int, seen: CurveDrop, close: bool, before: tuple[float, Snapshot], after: tuple[float, Snapshot]
    ) -> Drop:
        features = after[1].features
        state = self._state(after)
        return Drop(
            time=seen.time,
            half_time=seen.time,
            accelerated_time=float(self.task.clock.accelerated(seen.time)),
            level=seen.after,
            neurons=np.array([number]),
            collapsed=np.zeros(0, dtype=np.int64),
            label=self.task.problem.acquired(before[1].features, features) or f"mode {number}",
            utility=np.zeros(0),
            how="curve",
            overlap=close,
            features=features,
            log_norms=state.log_norms,
            active=state.active,
        )

    def _state(self, shot: tuple[float, Snapshot]) -> State[None]:
        """The hidden units at a point; all carry what is learned."""
        time, units = shot
        alive = np.isfinite(units.log_norms)
        loss = self._loss(cartesian(units.directions, np.maximum(units.log_norms, LOG_LEAST))[alive])
        return State(float(self.task.clock.accelerated(time)), alive, units.directions, units.log_norms, loss)

    def _loss(self, theta: FloatArray) -> float:
        return float(self.task.problem.loss_grad(theta, np.zeros(len(theta), dtype=np.int64))[0])
