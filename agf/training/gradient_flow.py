"""The reference trainer: gradient flow d theta/dt = -grad L with its error controlled relative to every neuron.

It shares nothing with the prediction but the problem and the initialization. Three traps are why it exists: an absolute
tolerance switches error control off below it and mis-times the first drop (up to never); a long implicit step damps a
growing mode and reports success, parked at a saddle; float64 leaks rounding of large weights into small modes. Here
errors are relative to each neuron, in log norms or the problem's own coordinates; every method is explicit; and a run
is called settled only when nothing still grows.
"""

from __future__ import annotations

import os
import time as wall
from collections.abc import Callable
from typing import Any

import numpy as np

from agf.arrays import FloatArray, count, positive
from agf.clock import Clock
from agf.contract.admission import admit
from agf.contract.blame import guard
from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.coordinates.choice import flow_system
from agf.coordinates.held_neurons import NEAR, Plateau, between_drops, hold
from agf.coordinates.polar_system import small_neurons
from agf.errors import RequestError, explain
from agf.init import Init
from agf.integrators import METHODS, Accepted, MarchError, Memory, NonFinite, march
from agf.records.checkpoint import Checkpoint
from agf.records.status import Status
from agf.results.trajectory import Trajectory
from agf.training.fastest_growth import fastest_growth
from agf.training.recorder import Progress, Recorder, taking_over

Observer = Callable[[Progress], None]

#: Tolerance of one step where the flow is smooth, and where it has kinks (a kink costs a step of any method its order).
RTOL_SMOOTH = 1e-6
RTOL_KINKS = 1e-4
#: ... and where kinks are sharp, or narrower than this, so that steps do not see them: what every crossing leaves is as
#: large as the tolerance, and saddles make it grow (a classifier of 150 samples, six neurons, loss at t = 30: .121,
#: .147 and .1949 at 1e-4, 1e-6 and 1e-8; .1951 by descent in steps of 2e-3).
RTOL_SHARP = 1e-8
_NARROW = 1e-3
#: Settled: the loss still falls by less than this fraction of max(L, 0.01 L(0)) in another time as long as the elapsed.
SETTLE = 1e-4
_LOSS_FLOOR = 0.01
#: ... and no small neuron grows by a factor e within this multiple of the elapsed time.
PATIENCE = 100.0
#: A loss that falls algebraically settles after some 1 / SETTLE times the time of its last drop, ever more stiffly. It
#: counts as drifting, with nowhere to settle, when it may still lose this multiple of what SETTLE allows, and over a
#: doubling of the time its fall (an e-fold of time) shrank so far while no growth rate held up: the decay's own falls
#: as 1/t.
_DRIFT_FALL = 200.0
_DRIFT_SPAN, _DRIFT_SHRUNK, _DRIFT_HELD = 2.0, 0.95, 1.25
#: Whether neurons still grow is asked every so many steps, for saddles whenever the elapsed time has grown so much.
_CHECK_STEPS = 10
_CHECK_RATIO = 1.1
#: Where there are kinks, rates are averages since this fraction of the elapsed time.
_RECENT = 0.9
#: A mode this fast, relative to the spectral radius, is told from a flat direction (central differences see 1e-9).
_SADDLE_RATE = 1e-6
#: e-folds after which a growing mode would have risen from rounding to order one: what has not moved then is parked.
_PARKED = 60.0
#: Stages of a stabilised step that is as long as it may be, about, and how many of those are too many: 1e6 gradients.
_FULL_STAGES, _TOO_MANY = 1000.0, 1000.0
#: Steps on end that leave the time what it was, in float64: a drop takes hundreds, of 1e-300 a thousand.
_TIMELESS = 3000
#: Stages of a stabilised step from which on a plateau is looked for: a look costs a decomposition.
_LOOK_STAGES = 100.0
#: ... and, beside the elapsed time, steps so short that at the edge of stability they would take for ever.
_SHORT = 1e-6
#: When the next step is this small a fraction of the local time, local time restarts at 0, provided that steps still
#: change the state by as much as _MOVED (a blow-up, degree > 2): time itself can no longer resolve them.
_REBASE = 1e-9
_MOVED = 1e-6
#: The shortest step that a march takes, relative to its time.
_SHORTEST = 4 * float(np.finfo(np.float64).eps)
#: Drift of a conserved quantity, relative to the squared norm of its neuron, worth a note, over the tolerance.
_DRIFT = 1e3
#: Flow times beyond exp(this) do not fit in float64.
_MAX_LOG_TIME = 700.0
#: Snapshots take at most this much memory (but at least eight are kept).
_SNAPSHOT_BYTES = 512 * 2**20


def flow(
    problem: Problem,
    init: Init,
    *,
    t_max: float | None = None,
    method: str = "auto",
    rtol: float | None = None,
    snapshots: int = 200,
    max_steps: int = 100_000,
    settle: float = SETTLE,
    patience: float = PATIENCE,
    observer: Observer | None = None,
    resume: Trajectory | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
) -> Trajectory:
    """Train by gradient flow from `init` and record the loss curve.

    Parameters
    ----------
    problem : Problem
        What is trained. The problem's own coordinates are used where it has some (`flow_system`), else direction and
        log norm of every neuron.
    init : Init
        From where.
    t_max : float or None, optional
        Flow time to stop at. None: until settled, which means that (1) the loss would fall by less than settle *
        max(L, 0.01 L(0)) in another time as long as the elapsed one, and (2) no small neuron would grow by a factor e
        within `patience` times the elapsed time, nor, in a smooth problem, is the point a saddle; or that less than
        settle * 0.01 L(0) is left. Where the loss falls algebraically and nothing grows, the run ends earlier, as
        "no_critical_point": once it would fall by less than 200 times `settle` in another time as long as the elapsed
        one, and did so over a doubling of the time. Give a t_max to follow it further.
    method : str, optional
        "rk45" (Dormand-Prince), "rkc2" (stabilised, for smooth problems), or "auto": Dormand-Prince, and where the
        problem is smooth the stabilised method for as long as stability limits the steps. Implicit methods are not
        offered: they damp growing modes (see the module).
    rtol : float or None, optional
        Error of one step relative to each neuron, default 1e-6; for problems with kinks 1e-4, and 1e-8 where kinks are
        sharp and known (`Problem.kink_normals`), or narrower than 1e-3.
    snapshots : int, optional
        Most snapshots kept, spaced in log time and in loss.
    max_steps : int, optional
        Accepted steps of this call, at most. A flow that never settles ends there.
    settle : float, optional
        Fraction of the loss, see `t_max`.
    patience : float, optional
        Multiple of the elapsed time, see `t_max`.
    observer : Observer or None, optional
        Called with a `Progress` after every accepted step.
    resume : Trajectory or None, optional
        a trajectory of `flow` on the same problem and init to continue, e.g. one that was interrupted. An
        uninterrupted run and one resumed after an interrupt or `max_steps` are identical; `t_max` shortens the last
        step, so a run resumed after it agrees to the tolerance.
    checkpoint : Checkpoint or str or os.PathLike[str] or None, optional
        Run file written every so often (after a second, later every minute), so that a killed run leaves its last
        state readable.

    Returns
    -------
    Trajectory
        Always: its status says why it ended (settled, saddle, max_time, max_steps, stalled, stiff, nonfinite,
        interrupted), and Ctrl-C keeps what was computed.

    Raises
    ------
    RequestError
        For a wrong request.
    FileError
        For an unwritable checkpoint.
    ProblemError
        When a method of the problem raises at once.
    ComputationError
        Which carries the trajectory so far as `partial`, when it does so later.
    """
    init = admit(problem, init, "flow")
    if method not in METHODS:
        raise RequestError(
            explain(f"unknown method {method!r}.", where="flow", expected="one of " + ", ".join(METHODS))
        )
    count(snapshots, "snapshots", where="flow", least=2)
    count(max_steps, "max_steps", where="flow")
    kept = Checkpoint.of(checkpoint)
    if t_max is not None:
        t_max = positive(t_max, "t_max", where="flow")
    with guard(problem):
        system = flow_system(problem, init)
    if system.log_time_unit > _MAX_LOG_TIME:
        raise RequestError(
            explain(
                f"flow times are about exp({system.log_time_unit:.0f}), beyond float64.",
                where="flow",
                remedy="Choose a larger alpha.",
            )
        )
    if method == "rkc2" and not system.smooth:
        raise RequestError(
            explain("rkc2 needs a smooth flow, and this one has kinks.", where="flow", remedy='Use method="rk45".')
        )
    if method == "auto" and not system.smooth:
        method = "rk45"
    if rtol is None:
        rtol = RTOL_SMOOTH if system.smooth else RTOL_KINKS
        if 0.0 < problem.kink < _NARROW or problem.kink_normals() is not None:
            rtol = RTOL_SHARP
    elif not 1e-13 <= positive(rtol, "rtol", where="flow") <= 0.1:
        raise RequestError(
            explain("`rtol` is out of range.", where="flow", found=rtol, expected="between 1e-13 and 0.1")
        )
    settings = {
        "t_max": t_max,
        "method": method,
        "rtol": rtol,
        "snapshots": snapshots,
        "max_steps": max_steps,
        "settle": positive(settle, "settle", where="flow"),
        "patience": positive(patience, "patience", where="flow"),
    }
    with guard(problem):
        run = _Run(problem, init, system, settings)
    if resume is not None:
        with taking_over("flow"):
            run.resume(resume)
    return run.go(max_steps, observer, kept)


def same_start(trajectory: Trajectory, problem: Problem, init: Init) -> bool:
    """Whether a trajectory is of this problem's name from these initial weights."""
    theirs = trajectory.init
    return (
        trajectory.problem == problem.name
        and theirs is not None
        and np.array_equal(theirs.directions, init.directions)
        and np.array_equal(theirs.log_norms, init.log_norms)
    )


def clock_of(problem: Problem, init: Init) -> Clock | None:
    """The clock of these initial weights; None where they are too large for one."""
    try:
        return Clock.from_norms(problem.degree, init.log_norms)
    except RequestError:
        return None


def snapshot_arrays(trajectory: Trajectory) -> dict[str, Any]:
    """The snapshots of a trajectory as `Recorder.restore` takes them."""
    return {
        name: getattr(trajectory, name) for name in ("snapshot_times", "log_norms", "directions", "features_over_time")
    }


class _Run:
    """One run of `flow`: what it carries from step to step, how it stops, what it hands back."""

    def __init__(self, problem: Problem, init: Init, system: FlowSystem, settings: dict[str, Any]) -> None:
        self.problem = problem
        self.init = init
        self.system = system
        self.settings = settings
        self.unit = float(np.exp(system.log_time_unit))
        room = max(int(_SNAPSHOT_BYTES / (8 * init.directions.size)), 8)
        self.recorder = Recorder(min(settings["snapshots"], room), 0.1 * settings["rtol"])
        self.y = system.start()
        self.plateau: Plateau | None = None
        self.memory: Memory | None = None
        self.origin = 0.0  # s = origin + local; local time restarts when its resolution runs out
        self.local = 0.0
        self.steps = 0
        self.evaluations = 0
        self.seconds = 0.0
        self.first_time = np.inf  # s in which the fastest neuron first changes by order one
        self.next_check = 0.0
        self.parked_since = np.inf
        self.drift_since = np.inf  # when the loss was first seen to drift, and how fast it fell and what grew then
        self.drift_fall = 0.0
        self.drift_growth = 0.0
        self.timeless = 0  # steps since time, in float64, last advanced
        self.look_loss = np.inf  # loss when a plateau was last looked for
        self.initial_conserved = system.conserved(self.y)
        self.drift = 0.0

    # -- going ------------------------------------------------------------------------------------------------

    def go(self, max_steps: int, observer: Observer | None, checkpoint: Checkpoint) -> Trajectory:
        """Until something ends it; always hands back what there is."""
        began = wall.perf_counter() - self.seconds

        def so_far() -> Trajectory:
            self.seconds = wall.perf_counter() - began
            return self.trajectory(Status.INTERRUPTED)

        def after_step() -> None:
            if observer is not None:
                observer(Progress(self.time, self.recorder.points[-1][1], self.steps))
            checkpoint.offer(so_far)

        try:
            with checkpoint.last(), guard(self.problem, self._partial):
                status = self._begin() or self._march(self.steps + max_steps, after_step)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            self.recorder.cut(self.time)
        self.seconds = wall.perf_counter() - began
        result = self.trajectory(status)
        checkpoint.save(result)
        return result

    def _partial(self) -> Trajectory | None:
        """What there is when something has raised; no method of the problem is called again."""
        self.recorder.cut(self.time)
        return self.trajectory(Status.ERROR) if self.steps else None

    @property
    def time(self) -> float:
        """Flow time of y."""
        return self._flow_time(self.local)

    def _flow_time(self, local: float) -> float:
        return (self.origin + local) * self.unit

    def _begin(self) -> Status | None:
        """Record the start, unless resumed; a status when there is nothing to integrate."""
        if self.recorder.points:
            return None
        loss, rate = self._loss_and_rate(self.y)
        self.recorder.point(0.0, loss, rate / self.unit)
        self.recorder.take(0.0, loss, self.system.snapshot(self.y))
        velocity = self.system.velocity(self.y)
        self.evaluations += 2
        if not (np.isfinite(loss) and np.isfinite(velocity).all()):
            return Status.NONFINITE
        speed = self.system.growth(self.y) or float(np.max(np.abs(velocity / self.system.scale(self.y)), initial=0.0))
        if speed == 0:
            return Status.SADDLE if self._unstable(0.0) else Status.SETTLED
        self.first_time = 1 / speed
        return None

    def _march(self, budget: int, after_step: Callable[[], None]) -> Status:
        system, settings = self.system, self.settings
        t_max = settings["t_max"]
        while True:
            counted = self.evaluations
            steps = march(
                (self.plateau or system).velocity,
                self.y,
                method=settings["method"],
                rtol=settings["rtol"],
                scale=system.scale,
                groups=system.groups,
                retract=system.retract,
                s0=self.local,
                s_end=np.inf if t_max is None else t_max / self.unit - self.origin,
                memory=self.memory,
            )
            try:
                for accepted in steps:
                    with np.errstate(over="ignore", invalid="ignore"):
                        counted += self._record(accepted)
                    self.y, self.memory, self.local = accepted.y1, accepted.memory, accepted.s1
                    self.steps += 1
                    self.evaluations = counted + accepted.evaluations
                    turned = self._turned(accepted)
                    settled = self._settled(turned)
                    counted = self.evaluations - accepted.evaluations
                    after_step()
                    if settled is not None:
                        return settled
                    if not turned and self._hopeless(accepted):
                        return Status.STIFF
                    if self.steps >= budget:
                        return Status.MAX_STEPS
                    if turned or (accepted.memory.step < _REBASE * accepted.s1 and self._moved(accepted)):
                        break
                else:
                    return Status.MAX_TIME
            except MarchError as error:
                if not self._unresolved():
                    return Status.NONFINITE if isinstance(error, NonFinite) else Status.STALLED
            self.origin, self.local = self.origin + self.local, 0.0

    def _turned(self, accepted: Accepted) -> bool:
        """Whether a plateau starts or ends after this step: what is stepped is then another system."""
        if self.plateau is not None:
            if not self.plateau.over(self.y):
                return False
            self.plateau = self.memory = None
            return True
        if self.steps % _CHECK_STEPS or not self._resting(accepted):
            return False
        found = hold(self.system, self.y, self.settings["rtol"])
        if found is not None:
            self.plateau, self.y, evaluations = found
            self.evaluations, self.memory = self.evaluations + evaluations, None
        return found is not None

    def _resting(self, accepted: Accepted) -> bool:
        """Whether to look for a plateau: steps are cut short by stability, or by what it leaves at its edge."""
        loss, before = self.recorder.points[-1][1], self.look_loss
        self.look_loss = loss
        if accepted.memory.method == "rkc2" and (
            1.54 * (accepted.s1 - accepted.s0) * accepted.memory.radius >= _LOOK_STAGES**2
        ):
            return True
        first = abs(self.recorder.points[0][1])
        near = (NEAR * self.settings["rtol"]) ** 2 * first  # what neurons so near a minimum add to its loss
        short = accepted.memory.step < _SHORT * (self.origin + self.local)
        return short and abs(loss - before) <= near and between_drops(self.system, self.y, first - loss, first)

    def _unresolved(self) -> bool:
        """Whether a march failed for the resolution of local time alone: its shortest step would move the state."""
        with np.errstate(over="ignore", invalid="ignore"):
            velocity = (self.plateau or self.system).velocity(self.y) / self.system.scale(self.y)
        return self.local * _SHORTEST * float(np.max(np.abs(velocity), initial=0.0)) > _MOVED

    def _moved(self, accepted: Accepted) -> bool:
        """Whether a step that is short beside the elapsed time went somewhere: a blow-up, not a wall."""
        return bool(np.max(np.abs(accepted.y1 - accepted.y0) / self.system.scale(accepted.y1)) > _MOVED)

    # -- recording --------------------------------------------------------------------------------------------

    def _record(self, accepted: Accepted) -> int:
        """Points and snapshots of a step; returns the evaluations it took. Raises NonFinite when the loss is not."""

        def evaluate(time: float) -> tuple[float, float]:
            loss, rate = self._loss_and_rate(accepted.dense(self._inside(accepted, time)))
            return loss, rate / self.unit

        recorder = self.recorder
        time = self._flow_time(accepted.s1)
        loss, rate = self._loss_and_rate(accepted.y1)
        if not (np.isfinite(loss) and np.isfinite(rate)):
            raise NonFinite("the loss is not finite.", accepted.s0, accepted.y0)
        evaluations = 1 + recorder.refine(evaluate, (time, loss, rate / self.unit))
        if recorder.due == 0:
            recorder.due = time
        while recorder.due < time:
            due = recorder.due
            self._take(due, recorder.loss_at(due), accepted.dense(self._inside(accepted, due)))
        if recorder.due == time or recorder.fallen(loss):
            self._take(time, loss, accepted.y1)
        return evaluations

    def _inside(self, accepted: Accepted, time: float) -> float:
        return float(np.clip(time / self.unit - self.origin, accepted.s0, accepted.s1))

    def _take(self, time: float, loss: float, y: FloatArray) -> None:
        snapshot = self.system.snapshot(y)
        self.recorder.take(time, loss, snapshot)
        squares = np.exp(2 * snapshot.log_norms)
        for name, value in self.system.conserved(y).items():
            drift = np.abs(np.asarray(value) - self.initial_conserved[name])
            unit = squares if drift.shape == squares.shape else np.max(squares, initial=0.0)
            with np.errstate(divide="ignore"):
                relative = np.where(drift > 0, drift / unit, 0.0)
            self.drift = max(self.drift, float(np.max(relative, initial=0.0)))

    def _loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        with np.errstate(over="ignore", invalid="ignore"):
            return (self.plateau or self.system).loss_and_rate(y)

    # -- stopping ---------------------------------------------------------------------------------------------

    def _settled(self, turned: bool) -> Status | None:
        """The settling test of `flow`; what costs evaluations is asked every so often, and as a plateau starts."""
        elapsed = self.origin + self.local
        settings = self.settings
        if settings["t_max"] is not None:
            return None
        _, loss, slope = self.recorder.points[-1]
        held = turned and self.plateau is not None
        if held:  # the slope before was rounding, and the first steps from here may be longer than the time elapsed
            self.evaluations += 1
            slope = self._loss_and_rate(self.y)[1] / self.unit
        first = abs(self.recorder.points[0][1])
        settle = settings["settle"]
        if abs(loss) <= settle * _LOSS_FLOOR * first:  # it cannot fall by more than what counts
            return Status.SETTLED
        horizon = max(elapsed, self.first_time)
        patience = settings["patience"] * horizon
        tolerated = settle * max(abs(loss), _LOSS_FLOOR * first)
        if self.system.smooth:
            fall = -slope * self.unit * horizon
            if fall > tolerated:
                self.parked_since = np.inf
                return self._drifting(elapsed, fall, tolerated, patience)
            if not held and (self.steps % _CHECK_STEPS or elapsed < self.next_check):
                return None
            self.evaluations += 1
            if self._growth(self.plateau or self.system) * patience > 1:
                return None
        elif self.steps % _CHECK_STEPS or not self._still(loss, tolerated / horizon, 1 / patience):
            return None
        self.next_check = _CHECK_RATIO * elapsed
        rate = self._unstable(1 / patience)
        if rate == 0:
            return Status.SETTLED
        if not np.isfinite(self.parked_since):
            self.parked_since = elapsed
        return Status.SADDLE if rate * (elapsed - self.parked_since) > _PARKED else None

    def _drifting(self, elapsed: float, fall: float, tolerated: float, patience: float) -> Status | None:
        """Whether the loss falls algebraically for ever; `tolerated` is what a settled flow may still lose."""
        if fall > _DRIFT_FALL * tolerated:
            self.drift_since = np.inf
            return None
        waiting = (
            elapsed < _DRIFT_SPAN * self.drift_since if np.isfinite(self.drift_since) else self.steps % _CHECK_STEPS
        )
        if waiting:
            return None
        self.evaluations += 1
        if self._growth(self.system) * patience > 1:
            self.drift_since = np.inf
            return None
        grown = self._unstable(0.0) * elapsed
        drifting = fall < _DRIFT_SHRUNK * self.drift_fall and grown <= _DRIFT_HELD * self.drift_growth
        drifting = drifting and np.isfinite(self.drift_since)
        self.drift_since, self.drift_fall, self.drift_growth = elapsed, fall, grown
        return Status.NO_CRITICAL_POINT if drifting else None

    def _still(self, loss: float, fall: float, growth: float) -> bool:
        """Whether loss and norms have changed by less than these rates (per s) over the last tenth of the time.

        Where there are kinks, the gradient at a minimum need not vanish: rates at an instant say nothing.
        """
        before = [kept for kept in self.recorder.kept[1:] if kept[0] <= _RECENT * self.time]
        if not before:
            return False
        time, then, snapshot = before[-1]
        span = (self.time - time) / self.unit
        now = self.system.snapshot(self.y).log_norms
        small = np.isfinite(now) & small_neurons(now, loss, self.recorder.points[0][1])
        grown = now[small] - snapshot.log_norms[small]
        return bool(then - loss <= fall * span and np.max(grown, initial=0.0) <= growth * span)

    def _hopeless(self, accepted: Accepted) -> bool:
        """Whether steps limited by stability are too short to see the next neuron grow."""
        step = accepted.s1 - accepted.s0
        self.timeless = self.timeless + 1 if self.origin + accepted.s1 == self.origin + accepted.s0 else 0
        if self.timeless > _TIMELESS:
            return True
        if self.steps % _CHECK_STEPS or 1.54 * step * accepted.memory.radius < _FULL_STAGES**2:
            return False
        self.evaluations += 1
        growth = self.system.growth(self.y) or 0.0
        t_max = self.settings["t_max"]
        end = np.inf if t_max is None else t_max / self.unit - self.origin - self.local
        return growth > 0 and min(1 / growth, end) > _TOO_MANY * step

    def _growth(self, system: FlowSystem) -> float:
        """Rate of the fastest growing small neuron; inf where the system does not know."""
        growth = system.growth(self.y)
        return np.inf if growth is None else growth

    def _unstable(self, slowest: float) -> float:
        """Rate of the fastest growing perturbation of y if above `slowest`, else 0; not asked where there are kinks."""
        if not self.system.smooth:
            return 0.0
        rate, radius, evaluations = fastest_growth(self.plateau or self.system, self.y)
        self.evaluations += evaluations
        return rate if rate > max(slowest, _SADDLE_RATE * radius) else 0.0

    # -- handing back -----------------------------------------------------------------------------------------

    def trajectory(self, status: Status) -> Trajectory:
        """What there is, with the state needed to go on."""
        times, losses, slopes = self.recorder.curve()
        last = None
        if status is not Status.ERROR and self.time > self.recorder.kept[-1][0]:
            last = (self.time, float(losses[-1]), self.system.snapshot(self.y))
        return Trajectory(
            problem=self.problem.name,
            degree=self.problem.degree,
            method=self.settings["method"],
            times=times,
            losses=losses,
            slopes=slopes,
            status=status,
            clock=clock_of(self.problem, self.init),
            **self.recorder.arrays(last),
            init=self.init,
            arguments=self.problem.arguments,
            settings=self.settings,
            stats={
                "evaluations": float(self.evaluations),
                "steps": float(self.steps),
                "seconds": self.seconds,
                "drift": self.drift,
            },
            notes=() if status is Status.ERROR else self._notes(),
            state={**self.recorder.state(), **self._state()},
        )

    def _notes(self) -> tuple[str, ...]:
        system = self.system
        notes = list(dict.fromkeys([*system.warnings(system.start()), *system.warnings(self.y)]))
        notes += system.history_warnings(np.array([shot.log_norms for _, _, shot in self.recorder.kept]))
        if self.drift > _DRIFT * self.settings["rtol"]:
            notes.append(
                f"A quantity that gradient flow conserves drifted by {self.drift:.1e} of the squared norm of its "
                "neuron; tighten rtol."
            )
        if self.recorder.capacity < self.settings["snapshots"]:
            notes.append(f"At most {self.recorder.capacity} snapshots were kept: the network is large.")
        return tuple(notes)

    def _state(self) -> dict[str, FloatArray]:
        state = {"y": self.y.copy(), "scalars": np.array([float(getattr(self, name)) for name in _SCALARS])}
        if self.plateau is not None:
            state["held"] = self.plateau.held
        if self.memory is not None:
            m = self.memory
            state["memory"] = np.array([m.step, m.error, METHODS.index(m.method), m.stiff, m.radius, m.age])
            if m.vector is not None:
                state["vector"] = m.vector
        return state

    def resume(self, trajectory: Trajectory) -> None:
        """Go on from the end of `trajectory`. Raises RequestError when it is not a run of this problem and init."""
        state = trajectory.state
        same = same_start(trajectory, self.problem, self.init) and "scalars" in state
        if not same or state["y"].shape != self.y.shape:
            raise RequestError(
                explain(
                    "cannot resume: the trajectory is not one of `flow` on this problem and initialization.",
                    where="flow",
                    found=f"{trajectory.method} trajectory of {trajectory.problem}",
                )
            )
        self.y = state["y"].copy()
        for name, value in zip(_SCALARS, state["scalars"], strict=True):
            setattr(self, name, type(getattr(self, name))(value))
        if "memory" in state:
            step, error, method, stiff, radius, age = (float(v) for v in state["memory"])
            vector = state.get("vector")
            self.memory = Memory(step, error, METHODS[int(method)], int(stiff), radius, vector, int(age))
        if "held" in state:
            self.plateau = Plateau(self.problem, self.init, state["held"].astype(bool))
        curve = trajectory.times, trajectory.losses, trajectory.slopes
        self.recorder.restore(curve, snapshot_arrays(trajectory), state)


_SCALARS = (
    "origin", "local", "steps", "evaluations", "seconds", "first_time", "next_check", "parked_since", "drift",
    "drift_since", "drift_fall", "drift_growth", "look_loss", "timeless",
)  # fmt: skip
