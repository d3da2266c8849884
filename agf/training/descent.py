"""Gradient descent on the raw parameters, with momentum and minibatches: what people run, recorded as the flow is.

Float64 parameters, nothing protected: what gradient descent does at a scale is what you see.
"""

from __future__ import annotations

import os
import time as wall
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from agf import sphere
from agf.arrays import USUAL, FloatArray, IntArray, count, number, positive
from agf.asked import asked
from agf.clock import Clock
from agf.contract.admission import admit, refuse_nonfinite
from agf.contract.blame import guard, guarded
from agf.contract.flow_system import Snapshot
from agf.contract.problem import Problem
from agf.contract.ties import Ties
from agf.coordinates.stand_ins import tied
from agf.errors import RequestError, explain
from agf.init import Init
from agf.records.checkpoint import Checkpoint
from agf.records.status import Status
from agf.results.trajectory import Trajectory
from agf.rounding import TINY
from agf.training.gradient_flow import clock_of, same_start, snapshot_arrays
from agf.training.recorder import SNAPSHOTS, Progress, Recorder, numbers, taking_over
from agf.training.untie import tie, untie

#: Factor of the step count at which minibatch runs evaluate the full loss. Result: of times along these curves, known
#: to 1 %; at 1.1 to a tenth, at 1.001 every one of the first thousand steps is evaluated.
_LOSS_RATIO = 1.01
#: Steps between calls of observers, and looks whether a checkpoint is due. Cost: of calls.
_TELL = 100


@asked
@guarded
@np.errstate(**USUAL)
def descend(
    problem: Problem,
    init: Init,
    *,
    lr: float,
    steps: int,
    momentum: float = 0.0,
    batch_size: int | None = None,
    seed: int = 0,
    snapshots: int = SNAPSHOTS,
    observer: Callable[[Progress], None] | None = None,
    resume: Trajectory | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    frozen: Sequence[int] = (),
) -> Trajectory:
    """Train by (stochastic) gradient descent: v <- momentum v - lr g, theta <- theta + v.

    Parameters
    ----------
    problem : Problem
        What is trained.
    init : Init
        From where.
    lr : float
        Learning rate; the trajectory's times are flow times, step lr / (1 - momentum): right to first order in lr, on
        plateaus better than in drops.
    steps : int
        Optimizer steps in all, those of a resumed run included.
    momentum : float, optional
        Of the velocity v, in [0, 1).
    batch_size : int or None, optional
        Rows a minibatch, drawn without replacement in every epoch (the last batch of an epoch may be smaller); None
        for the full batch. The problem must offer `batch_loss_grad(theta, neurons, rows)` and `n_samples`. The
        recorded loss is always that of all samples.
    seed : int, optional
        Of the shuffling.
    snapshots : int, optional
        Most snapshots kept, spaced in log time and in loss.
    observer : callable or None, optional
        Called with a `Progress` every hundred steps; `agf.watch()` shows them.
    resume : Trajectory or None, optional
        a trajectory of `descend` to continue; a run in two parts is identical to one in one.
    checkpoint : Checkpoint or str or os.PathLike[str] or None, optional
        Run file written every so often, as by `flow`.
    frozen : sequence of int, optional
        Columns of theta that are not trained, from 0 or from the end: (-1,) are the output weights of a two-layer
        network of one output.

    Returns
    -------
    Trajectory
        Status "steps" when all were taken, "nonfinite" when the parameters left float64 (kept up to the last good
        state), "interrupted" after Ctrl-C.

    Raises
    ------
    RequestError
        For a wrong request, or when every neuron of `init` underflows in raw parameters.
    ProblemError
        As `flow`.
    ComputationError
        As `flow`.
    """
    init = admit(problem, init, "descend")
    lr = positive(lr, "lr", where="descend")
    steps = count(steps, "steps", where="descend")
    snapshots = count(snapshots, "snapshots", where="descend", least=2)
    if not 0 <= (decay := number(momentum)) < 1:
        raise RequestError(explain("`momentum` must be in [0, 1).", where="descend", found=momentum))
    momentum = decay
    ties = tied(problem, init)
    batches = None
    if batch_size is not None:
        batch_size = count(batch_size, "batch_size", where="descend")
        seed = count(seed, "seed", where="descend", least=0)
        batches = _Batches(ties.problem, batch_size, seed)
    kept = Checkpoint.of(checkpoint)
    settings: dict[str, Any] = {
        "lr": lr,
        "steps": steps,
        "momentum": momentum,
        "batch_size": batch_size,
        "seed": seed,
        "snapshots": snapshots,
    }
    if len(frozen):
        settings["frozen"] = _columns(frozen, init.n_params)
    run = _Descent(problem, init, ties, settings, batches)
    if resume is not None:
        with taking_over("descend", resume, problem):
            run.resume(resume)
    return run.go(steps, observer, kept)


def _columns(frozen: Sequence[int], n_params: int) -> list[int]:
    """Columns from 0, sorted. Raises RequestError for what is not one, or when all are frozen."""
    try:
        columns = sorted({range(n_params)[column] for column in frozen})
    except (TypeError, IndexError):
        columns = []
    if not 0 < len(columns) < n_params:
        expected = f"some columns of the {n_params} of theta, not all"
        raise RequestError(explain("`frozen` cannot be used.", where="descend", found=frozen, expected=expected))
    return columns


class _Batches:
    """Rows of each step: every epoch is a fresh permutation that depends on seed and epoch only."""

    def __init__(self, problem: Problem, size: int, seed: int) -> None:
        if not (hasattr(problem, "batch_loss_grad") and hasattr(problem, "n_samples")):
            raise RequestError(
                explain(
                    f"problem {problem.name!r} has no minibatches.",
                    where="descend",
                    remedy="Leave batch_size out, or define batch_loss_grad(theta, neurons, rows) and n_samples.",
                )
            )
        self.problem = cast(Any, problem)
        self.total = int(self.problem.n_samples)
        if size > self.total:
            raise RequestError(
                explain(
                    "`batch_size` is larger than the data.", where="descend", found=size, expected=f"<= {self.total}"
                )
            )
        self.size = size
        self.seed = seed
        self.each_epoch = -(-self.total // size)
        self.epoch = -1
        self.order = np.zeros(0, dtype=np.int64)

    def gradient(self, theta: FloatArray, neurons: IntArray, step: int) -> FloatArray:
        """Gradient of the minibatch loss at step number `step`, (H, P)."""
        epoch, k = divmod(step, self.each_epoch)
        if epoch != self.epoch:
            self.epoch = epoch
            self.order = np.random.default_rng([self.seed, epoch]).permutation(self.total)
        rows = self.order[k * self.size : (k + 1) * self.size]
        return np.asarray(self.problem.batch_loss_grad(theta, neurons, rows)[1])


class _Descent:
    """One run of `descend`."""

    def __init__(
        self, problem: Problem, init: Init, ties: Ties, settings: dict[str, Any], batches: _Batches | None
    ) -> None:
        self.problem, self.init, self.ties = problem, init, ties
        self.settings = settings
        self.frozen: list[int] = settings.get("frozen", [])
        self.batches = batches
        self.neurons = np.arange(ties.init.width)
        self.theta = ties.init.params()
        if np.abs(self.theta).max() < TINY:
            raise RequestError(
                explain(
                    "every weight is too small for float64 to hold in full.",
                    where="descend",
                    found=f"norms up to exp({init.log_norms.max():.0f})",
                    expected=f"weights of {TINY:.0e} or more",
                    remedy="Start from larger weights, or train with agf.flow, which carries log norms.",
                )
            )
        self.velocity = np.zeros_like(self.theta)
        self.step = 0
        self.evaluations = 0
        self.seconds = 0.0
        self.next_loss = 0
        self.recorder = Recorder(settings["snapshots"], 1e-6, sloped=False, numbers=numbers(problem, init))

    def go(self, steps: int, observer: Callable[[Progress], None] | None, checkpoint: Checkpoint) -> Trajectory:
        """Until the steps are done or something ends them; always hands back what there is."""
        began = wall.perf_counter() - self.seconds

        def so_far() -> Trajectory:
            self.seconds = wall.perf_counter() - began
            return self.trajectory(Status.INTERRUPTED)

        status = Status.STEPS
        try:
            with checkpoint.last(), guard(self.problem, self._partial):
                self._begin()
                while self.step < steps:
                    if not self._advance():
                        status = Status.NONFINITE
                        break
                    if self.step % _TELL:
                        continue
                    if observer is not None:
                        observer(Progress(self.time, self.recorder.points[-1][1], self.step))
                    checkpoint.offer(so_far)
            self.seconds = wall.perf_counter() - began
            result = self.trajectory(status)
        except KeyboardInterrupt:
            if not self.recorder.album.times:
                raise  # nothing was computed
            self.recorder.cut(self.time)
            result = so_far()
        checkpoint.save(result)
        return result

    def _partial(self) -> Trajectory | None:
        """What there is when something has raised; no method of the problem is called again."""
        self.recorder.cut(self.time)
        return self.trajectory(Status.ERROR) if self.step else None

    def _time(self, step: int) -> float:
        return float(Clock.flow_of_steps(step, self.settings["lr"], self.settings["momentum"]))

    @property
    def time(self) -> float:
        """Flow time of the parameters."""
        return self._time(self.step)

    def _loss_grad(self, theta: FloatArray) -> tuple[float, FloatArray]:
        self.evaluations += 1
        loss, gradient = self.ties.problem.loss_grad(theta, self.neurons)
        return float(loss), gradient

    def _begin(self) -> None:
        """The gradient at the first step, and the record of the start unless resumed."""
        loss, self.gradient = self._loss_grad(self.theta)
        if not self.recorder.points:
            refuse_nonfinite(self.problem, "loss_grad", np.asarray(loss))
            self._record(0, loss, self.theta)

    def _advance(self) -> bool:
        """One step, recorded where due; False, and nothing changed, when it leaves the finite numbers."""
        batches, step = self.batches, self.step + 1
        gradient = self.gradient if batches is None else batches.gradient(self.theta, self.neurons, self.step)
        if self.frozen:
            gradient = gradient.copy()
            gradient[:, self.frozen] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            velocity = self.settings["momentum"] * self.velocity - self.settings["lr"] * gradient
            theta = self.theta + velocity
            if not np.isfinite(theta.sum()):
                return False
            if batches is None or step >= self.next_loss:
                loss, self.gradient = self._loss_grad(theta)
                if not np.isfinite(loss):
                    return False
                self._record(step, loss, theta)
        self.evaluations += batches is not None
        self.theta, self.velocity, self.step = theta, velocity, step
        return True

    def _record(self, step: int, loss: float, theta: FloatArray) -> None:
        self.next_loss = max(step + 1, int(_LOSS_RATIO * step))
        time = self._time(step)
        self.recorder.point(time, loss)
        if self.recorder.deserves(loss) or time >= self.recorder.due:
            self.recorder.take(time, loss, self._snapshot(theta))

    def _snapshot(self, theta: FloatArray) -> Snapshot:
        directions, log_norms = sphere.polar(theta)
        features = self.ties.problem.features(theta, self.neurons)
        return Snapshot(log_norms, directions, {name: np.array(value) for name, value in features.items()})

    def trajectory(self, status: Status) -> Trajectory:
        """What there is, with the state needed to go on."""
        times, losses, slopes = self.recorder.curve()
        points = times.size
        last = None
        # between two evaluations of the full loss; who interrupts does not wait for another one
        between = self.time > times[-1]
        if between and status not in (Status.ERROR, Status.INTERRUPTED):
            times, losses = np.append(times, self.time), np.append(losses, self._loss_grad(self.theta)[0])
            between = False
        if not between and status is not Status.ERROR and self.time > self.recorder.album.times[-1]:
            last = (self.time, self._snapshot(self.theta))
        lr, momentum = self.settings["lr"], self.settings["momentum"]
        return Trajectory(
            problem=self.problem.name,
            degree=self.problem.degree,
            method="gd" if self.batches is None else "sgd",
            times=times,
            losses=losses,
            slopes=slopes,
            status=status,
            clock=clock_of(self.problem, self.init),
            **untie(self.recorder.arrays(last), self.ties, self.problem),
            init=self.init,
            arguments=self.problem.arguments,
            settings=self.settings,
            stats={"evaluations": float(self.evaluations), "steps": float(self.step), "seconds": self.seconds},
            notes=(f"Flow time = step x lr / (1 - momentum) = step x {lr / (1 - momentum):g}, to first order in lr.",),
            state={
                **self.recorder.state(),
                "theta": self.theta,
                "velocity": self.velocity,
                "descent": np.array([self.step, self.evaluations, self.seconds, self.next_loss, points]),
            },
        )

    def resume(self, trajectory: Trajectory) -> None:
        """Go on from the end of `trajectory`. Raises RequestError when it is not a run of these settings."""
        state = trajectory.state
        kept = ("lr", "momentum", "batch_size", "seed", "frozen")
        if (
            not same_start(trajectory, self.problem, self.init)
            or "theta" not in state
            or any(trajectory.settings.get(name) != self.settings.get(name) for name in kept)
        ):
            raise RequestError(
                explain(
                    "cannot resume: the trajectory is not one of `descend` on this problem and initialization with "
                    f"the same {', '.join(kept)}.",
                    where="descend",
                    found=f"{trajectory.method} trajectory of {trajectory.problem}",
                )
            )
        shapes = {name: state[name].shape for name in ("theta", "velocity")}
        if set(shapes.values()) != {self.theta.shape}:
            raise ValueError(f"shapes {shapes} in place of {self.theta.shape}")
        self.theta, self.velocity = state["theta"].copy(), state["velocity"].copy()
        step, evaluations, self.seconds, next_loss, points = (float(v) for v in state["descent"])
        if not max(step, evaluations, next_loss) < 2.0**53:
            raise ValueError(f"{step:g} steps and {evaluations:g} evaluations, which are no counts")
        self.step, self.evaluations, self.next_loss = int(step), int(evaluations), int(next_loss)
        curve = trajectory.times[: int(points)], trajectory.losses[: int(points)], trajectory.slopes
        self.recorder.restore(curve, tie(snapshot_arrays(trajectory), self.ties), state)
