"""The reference trainer: gradient flow d theta/dt = -grad L with its error controlled relative to every neuron.

It knows nothing of the phases of the prediction; the two share the problem, the methods that step a flow, the driver
and its rules, and coordinates (docs/how-it-works.md). Three traps are why it exists: an absolute tolerance switches
error control off below it and mis-times the first drop (up to never); a long implicit step damps a growing mode and
reports success, parked at a saddle; float64 leaks rounding of large weights into small modes. Here errors are relative
to each neuron, in log norms or the problem's own coordinates; no implicit step is longer than growing modes allow; and
a run is called settled only when that is proved (`agf.stopping.ending`).
"""

from __future__ import annotations

import os
import time as wall
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from agf.arrays import USUAL, FloatArray, count, positive
from agf.asked import asked
from agf.clock import Clock
from agf.contract.admission import admit, refuse_nonfinite
from agf.contract.blame import guard, guarded
from agf.contract.faint import refuse_faint
from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.contract.start import PHASES, POLAR, clock, refuse_long
from agf.contract.ties import Ties
from agf.coordinates.choice import flow_system
from agf.coordinates.cone_system import ConeSystem
from agf.coordinates.floors import of_rests, told_of_rests
from agf.coordinates.held_neurons import HeldSystem
from agf.coordinates.polar_system import PolarSystem
from agf.coordinates.sharp_system import RTOL_SHARP, SharpSystem
from agf.coordinates.split_system import SplitSystem
from agf.coordinates.stand_ins import tied
from agf.errors import RequestError, explain
from agf.init import Init
from agf.integrators import METHODS
from agf.records.checkpoint import Checkpoint
from agf.records.status import Status
from agf.results.trajectory import Trajectory
from agf.stopping.coordinates import Held, Stiff, crossing, implicit_in
from agf.stopping.driver import Counted, Method, Moment, Saved, Stop, Work, drive
from agf.stopping.ending import FLOOR, SETTLE, Ending
from agf.stopping.methods import PER_ENTRY, Auto, Explicit, pack, unpack
from agf.stopping.rules import Budget, Timeless, Unaffordable
from agf.training.flow_record import FlowRecord
from agf.training.recorder import SNAPSHOTS, Progress, Recorder, numbers, taking_over
from agf.training.untie import tie, untie

Observer = Callable[[Progress], None]

#: Tolerance of one step. Setting: `rtol`; errors of steps add up over a plateau, and tests hold drops to 1e-5 of
#: their time. At rounded kinks as well: at 1e-4 a drop of ReLU networks next to a saddle was missed (of ten on 120
#: samples of breast-cancer, two neurons, five were, for 5,256 gradients in place of 40,474).
RTOL = 1e-6
#: Width of kinks, over |w| rms|x|, below which they count as sharp (`RTOL_SHARP`). Result: of which of these tolerances
#: is the default; at 1e-2 kinks of the usual width, 1e-3, would take steps of 1e-8, at 1e-4 steps of 1e-6 would no
#: longer resolve the force of some by a percent.
_NARROW = 1e-3
#: Largest tolerance of a step, over the width of rounded kinks. Limit: of `rtol`; at 1e-1 steps chatter beside a kink
#: and make drops of their own (33 for two, in 5,800 steps, on five samples), at 3e-2 they do not (436 steps).
_LAYER = 1e-2
#: Gradients that a run may take unless told otherwise. Limit: `max_gradients`, minutes for the networks of the
#: examples.
MAX_GRADIENTS = 2_000_000
#: Drift of a conserved quantity, relative to the squared norm of its neuron, over the tolerance. Limit: a larger one is
#: said in a note; the errors of a thousand steps add up to it.
_DRIFT = 1e3
#: Seconds that recording the last steps may take once a run is told to stop. Limit: it should be gone within two; where
#: it takes longer these steps are left out, and made again when it is resumed.
_PATIENCE = 0.5
#: Largest log of the unit of time. Limit: flow times beyond do not fit in float64, and the run is refused.
_MAX_LOG_TIME = 700.0


@asked
@guarded
@np.errstate(**USUAL)
def flow(
    problem: Problem,
    init: Init,
    *,
    t_max: float | None = None,
    method: str = "auto",
    rtol: float | None = None,
    snapshots: int = SNAPSHOTS,
    max_steps: int = 100_000,
    max_gradients: float = MAX_GRADIENTS,
    settle: float = SETTLE,
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
        Flow time to stop at; one a thousand times later than nothing but rounding can still be lost is not waited for.
        None: until it is over, which the last sentence of the result shows. "settled": at most
        settle * max(L, 0.01 L of the zero function) can still be lost, because that is how far L is above a lower bound
        of every loss that this flow can reach (`Problem.least_loss`), or about that, because it would lose no more in
        another time as long and nothing grows, neither a small neuron nor a perturbation; as long as it does, however
        slowly, the run goes on. "no_critical_point": the loss falls like a power of time, by less than 2 % in another
        time as long, and nothing grows faster. "saddle": a perturbation has grown for 72 e-folds, so none is there.
    method : str, optional
        "rk45" (Dormand-Prince), "rkc2" (stabilised, for smooth problems), or "auto": Dormand-Prince, where the problem
        is smooth the stabilised method for as long as stability limits the steps, and where it has a Hessian implicit
        steps once they are cheaper, never longer than growing modes allow.
    rtol : float or None, optional
        Error of one step relative to each neuron, default 1e-6, and 1e-8 where kinks are sharp and known
        (`Problem.kink_normals`), or narrower than 1e-3. Where kinks are rounded, no coarser than a hundredth of
        their width, and is recorded as such.
    snapshots : int, optional
        Most snapshots kept, spaced in log time and in loss.
    max_steps : int, optional
        Accepted steps of this call, at most.
    max_gradients : float, optional
        Gradients of this call, at most (a Hessian counts as a quarter of its order). A run that ends there between two
        drops is a "plateau", and says when the next is due.
    settle : float, optional
        Fraction of the loss, see `t_max`.
    observer : Observer or None, optional
        Called with a `Progress` after every accepted step; `agf.watch()` shows them.
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
        Always: its status says why it ended (settled, no_critical_point, saddle, plateau, quiet, max_time, max_steps,
        stalled, stiff, nonfinite, interrupted), its `evidence` proves it, and Ctrl-C keeps what was computed.

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
    snapshots = count(snapshots, "snapshots", where="flow", least=2)
    max_steps = count(max_steps, "max_steps", where="flow")
    kept = Checkpoint.of(checkpoint)
    if t_max is not None:
        t_max = positive(t_max, "t_max", where="flow")
    max_gradients = positive(max_gradients, "max_gradients", where="flow")
    with guard(problem):
        refuse_faint(problem, init, "flow")
        ties = tied(problem, init)
        system = flow_system(ties.problem, ties.init)
        generic = isinstance(system, PolarSystem | SharpSystem)
        refuse_long(ties.problem, "flow", min(max_gradients, POLAR if generic else PHASES))
    if system.log_time_unit > _MAX_LOG_TIME:
        raise RequestError(
            explain(
                f"flow times are about exp({system.log_time_unit:.0f}), beyond float64.",
                where="flow",
                remedy="Start from larger weights (a larger alpha).",
            )
        )
    if method == "rkc2" and not system.smooth:
        raise RequestError(
            explain("rkc2 needs a smooth flow, and this one has kinks.", where="flow", remedy='Use method="rk45".')
        )
    if method == "auto" and not system.smooth and not isinstance(system, SharpSystem):  # no Hessian, in no cone
        method = "rk45"
    if rtol is None:
        sharp = 0.0 < problem.kink < _NARROW or problem.kink_normals() is not None
        rtol = RTOL_SHARP if sharp else RTOL
    elif not 1e-13 <= (rtol := positive(rtol, "rtol", where="flow")) <= 0.1:
        raise RequestError(
            explain("`rtol` is out of range.", where="flow", found=rtol, expected="between 1e-13 and 0.1")
        )
    if problem.kink > 0:
        rtol = min(rtol, _LAYER * problem.kink)
    settings = {
        "t_max": t_max,
        "method": method,
        "rtol": rtol,
        "snapshots": snapshots,
        "max_steps": max_steps,
        "max_gradients": max_gradients,
        "settle": positive(settle, "settle", where="flow"),
    }
    with guard(problem):
        run = _Run(problem, init, ties, system, settings)
    if resume is not None:
        with taking_over("flow", resume, problem):
            run.resume(resume)
    return run.go(max_steps, max_gradients, observer, kept)


def _neurons(now: Moment) -> tuple[FloatArray, FloatArray]:
    """Unit rows and log norms at a moment."""
    shot = now.system.system.snapshot(now.y)
    return shot.directions, shot.log_norms


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
        return clock(problem, init)
    except RequestError:
        return None


def snapshot_arrays(trajectory: Trajectory) -> dict[str, Any]:
    """The snapshots of a trajectory as `Recorder.restore` takes them."""
    return {
        name: getattr(trajectory, name) for name in ("snapshot_times", "log_norms", "directions", "features_over_time")
    }


class _Run:
    """One run of `flow`: drives the system it is in until something ends it, and hands back what there is."""

    def __init__(self, problem: Problem, init: Init, ties: Ties, system: FlowSystem, settings: dict[str, Any]) -> None:
        self.problem, self.init, self.ties, self.settings = problem, init, ties, settings
        self.home = self.system = system  # the coordinates it started in, and those it is in
        self.ending = Ending.of(ties.problem, ties.init, system, settings["settle"])
        least = self.ending.least if system.contracts else -np.inf
        recorder = Recorder(settings["snapshots"], 0.1 * settings["rtol"], numbers=numbers(problem, init), least=least)
        self.record = FlowRecord(recorder, system)
        if ties.problem.layers is not None:
            from agf.rectified.prospects import prospects  # a tenth of a second to import, and few problems have kinks

            known = prospects(ties.problem, ties.init, settings["settle"] * FLOOR)
            if known is not None:
                self.ending = replace(self.ending, prospects=lambda now: known(*_neurons(now)))
        self.saved = self.recorded = Saved(system.start())  # after the last step, and after the last that is recorded
        self.seconds = 0.0
        self.evidence, self.numbers = "", dict[str, float]()

    # -- going ------------------------------------------------------------------------------------------------

    def go(self, max_steps: int, max_gradients: float, observer: Observer | None, checkpoint: Checkpoint) -> Trajectory:
        """Until something ends it; always hands back what there is."""
        began = wall.perf_counter() - self.seconds

        def so_far() -> Trajectory:
            self.seconds = wall.perf_counter() - began
            return self.trajectory(Status.INTERRUPTED)

        def each(now: Moment, saved: Saved) -> None:
            if self.record.add(now):
                self.recorded = replace(saved, work=now.system.work)
            self.saved = saved
            if observer is not None:
                observer(Progress(self.time, now.loss, saved.work.steps))
            checkpoint.offer(so_far)

        done = self.saved.work
        budget = Budget(done.gradients + max_gradients, done.steps + max_steps, PER_ENTRY * self.saved.y.size)
        try:
            with checkpoint.last(), guard(self.problem, self._partial):
                status = self._drive(budget, each)
            self.seconds = wall.perf_counter() - began
            result = self.trajectory(status)
            if self.problem.layers is not None:
                from agf.rectified.verdict import add_verdict  # a tenth of a second, and few problems have kinks

                result = add_verdict(self.problem, result)
        except KeyboardInterrupt:
            if not self.record.recorder.album.times:
                raise  # nothing was computed
            if self.record.seconds > _PATIENCE:
                self.saved = self.recorded
                self.record.forget()
            self.record.cut(self.time)
            result = so_far()
        checkpoint.save(result)
        return result

    def _drive(self, budget: Budget, each: Callable[[Moment, Saved], None]) -> Status:
        """From system to system until a rule ends the run."""
        t_max, method = self.settings["t_max"], self.settings["method"]
        s_end = np.inf if t_max is None else t_max / self.record.unit
        if not self.record.recorder.points and (failed := self._begin()) is not None:
            return failed
        while True:
            stops: list[Stop] = self.ending.rules(self.home.smooth) if t_max is None else self.ending.at_rest(s_end)
            unaffordable = Unaffordable(budget, s_end, self.ending.grown, self.ending.perturbed)
            stops += [Held(self.settings["rtol"]), Timeless(), unaffordable, budget]
            steps: Method = Explicit(self.settings["rtol"], method)
            if method == "auto":
                steps = Auto(self.settings["rtol"])
                stops.insert(0, Stiff())
            end = crossing(drive(self.system, steps, stops, self.saved, s_end=s_end, each=each))
            self.record.flush()
            self.saved = replace(self.saved, work=end.at.work)
            if end.after is None:
                status, self.evidence, self.numbers = self.ending.status(end, self.record.unit)
                return status
            # Rules start anew; the method goes on only where the state means the same to it.
            self.system, y = end.after
            method_memory = implicit_in(self.home.in_weights(), end)
            self.saved = Saved(y, self.saved.origin + self.saved.local, 0.0, method_memory, None, self.saved.work)
            self.recorded = self.saved

    def _in_weights(self) -> bool:
        """Whether it goes on in the coordinates that those it started in offer for stiff stretches."""
        weights = self.home.in_weights()
        return weights is not None and isinstance(self.system, type(weights))

    def _begin(self) -> Status | None:
        """Record the start; a status where it is not finite."""
        counted = Counted(self.system, self.saved.work)
        loss, rate = counted.loss_and_rate(self.saved.y)
        refuse_nonfinite(self.problem, "loss_grad", np.asarray(loss))
        self.record.start(Moment(0.0, self.saved.y, loss, rate, counted))
        finite = np.isfinite(counted.velocity(self.saved.y)).all()
        self.saved = replace(self.saved, work=counted.work)
        return None if finite else Status.NONFINITE

    def _partial(self) -> Trajectory | None:
        """What there is when something has raised; no method of the problem is called again."""
        self.record.cut(self.time)
        self.record.abandon()
        return self.trajectory(Status.ERROR) if self.saved.work.steps else None

    @property
    def time(self) -> float:
        """Flow time of the last step."""
        return (self.saved.origin + self.saved.local) * self.record.unit

    # -- handing back -----------------------------------------------------------------------------------------

    def trajectory(self, status: Status) -> Trajectory:
        """What there is, with the state needed to go on."""
        if (counted := self.record.flush()) is not None:
            self.saved = replace(self.saved, work=counted.work)
        recorder = self.record.recorder
        times, losses, slopes = recorder.curve()
        last = None
        if status is not Status.ERROR and self.time > recorder.album.times[-1]:
            last = (self.time, self.system.snapshot(self.saved.y))
        work = self.saved.work
        return Trajectory(
            problem=self.problem.name,
            degree=self.problem.degree,
            method=self.settings["method"],
            times=times,
            losses=losses,
            slopes=slopes,
            status=status,
            clock=clock_of(self.problem, self.init),
            **untie(recorder.arrays(last), self.ties, self.problem),
            init=self.init,
            arguments=self.problem.arguments,
            settings=self.settings,
            stats={
                "evaluations": float(work.gradients),
                "hessians": float(work.hessians),
                "steps": float(work.steps),
                "seconds": self.seconds,
                "drift": self.record.drift,
                **self.numbers,
            },
            evidence=self.evidence,
            notes=() if status is Status.ERROR else self._notes(),
            state={**recorder.state(), **self._state()},
        )

    def _notes(self) -> tuple[str, ...]:
        home, system, album = self.home, self.system, self.record.recorder.album
        notes = [*self.problem.remarks()]
        notes += list(dict.fromkeys([*home.warnings(home.start()), *system.warnings(self.saved.y)]))
        notes += home.history_warnings(album.shots.log_norms)
        if isinstance(home, PolarSystem):
            lost, _ = of_rests(home.problem, album.shots.directions, album.shots.log_norms, self.settings["rtol"])
            notes += [told_of_rests(lost)] if lost.size else []
        if self.record.drift > _DRIFT * self.settings["rtol"]:
            notes.append(
                f"A quantity that gradient flow conserves drifted by {self.record.drift:.1e} of the squared norm of "
                "its neuron; tighten rtol."
            )
        if album.capacity < self.settings["snapshots"]:
            notes.append(f"At most {album.capacity:,} snapshots are kept of a network as large as this one.")
        return tuple(notes)

    # -- resuming ---------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, FloatArray]:
        saved = self.saved
        state = {
            "y": saved.y.copy(),
            "clock": np.array([saved.origin, saved.local, self.seconds, self.record.drift]),
            "work": np.array([saved.work.gradients, saved.work.hessians, saved.work.steps], dtype=np.float64),
        }
        for k, memory in enumerate(saved.stops or ()):
            state[f"rule{k}"] = np.array(memory, dtype=np.float64)
        if isinstance(self.system, HeldSystem):
            state["held"] = self.system.held
        if self._in_weights():
            state["weights"] = np.array([self.system.pace if isinstance(self.system, ConeSystem) else 1.0])
        if isinstance(self.system, SplitSystem):
            state["large"] = self.system.large
        return {**state, **pack(saved.method)}

    def resume(self, trajectory: Trajectory) -> None:
        """Go on from the end of `trajectory`. Raises RequestError when it is not a run of this problem and init."""
        state = trajectory.state
        if not same_start(trajectory, self.problem, self.init) or "work" not in state:
            raise RequestError(
                explain(
                    "cannot resume: the trajectory is not one of `flow` on this problem and initialization.",
                    where="flow",
                    found=f"{trajectory.method} trajectory of {trajectory.problem}",
                )
            )
        if "held" in state:
            self.system = HeldSystem(self.ties.problem, self.ties.init, state["held"].astype(bool))
        if "weights" in state:
            self.system = self.home.in_weights() or self.home
            if isinstance(self.home, SharpSystem):
                self.home.retract(self.home.at(state["y"].reshape(-1, self.ties.problem.n_params)))
                self.system = ConeSystem(self.home, float(state["weights"][0]))
        if "large" in state and isinstance(self.home, PolarSystem):
            self.system = SplitSystem(self.home, state["large"].astype(bool))
        origin, local, self.seconds, self.record.drift = (float(v) for v in state["clock"])
        # A run that went to a time limit has no rules to remember, and one that goes to one asks none.
        rules = [tuple(state[f"rule{k}"].tolist()) for k in range(sum(name.startswith("rule") for name in state))]
        same = (trajectory.settings.get("t_max") is None) == (self.settings["t_max"] is None)
        self.saved = Saved(
            state["y"].copy(),
            origin,
            local,
            unpack(state),
            tuple(rules) if rules and same else None,
            Work(*(int(v) for v in state["work"])),
        )
        if self.saved.y.shape != self.system.groups.shape:
            raise ValueError(f"it has {self.saved.y.size} entries, this flow has {self.system.groups.size}")
        self.recorded = self.saved
        curve = trajectory.times, trajectory.losses, trajectory.slopes
        self.record.recorder.restore(curve, tie(snapshot_arrays(trajectory), self.ties), state)
