"""What a run of gradient flow records of every step: its curve, snapshots, and the drift of conserved quantities."""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray
from agf.contract.flow_system import FlowSystem
from agf.stopping.drive import Moment
from agf.training.recorder import Recorder


class FlowRecord:
    """Points and snapshots of a run, at flow times.

    Parameters
    ----------
    recorder : Recorder
        Where they go.
    system : FlowSystem
        The flow, for the unit of its time and what it conserves.
    """

    def __init__(self, recorder: Recorder, system: FlowSystem) -> None:
        self.recorder = recorder
        self.unit = float(np.exp(system.log_time_unit))
        self.conserved = system.conserved(system.start())
        self.drift = 0.0

    def start(self, now: Moment) -> None:
        """The first point and snapshot."""
        self.recorder.point(0.0, now.loss, -now.rate / self.unit)
        self.recorder.take(0.0, now.loss, now.system.system.snapshot(now.y))

    def add(self, now: Moment) -> None:
        """Points and snapshots of the step that ended now."""
        step, recorder = now.step, self.recorder
        assert step is not None

        def dense(time: float) -> FloatArray:
            return step.dense(float(np.clip(time / self.unit - now.origin, step.s0, step.s1)))

        def evaluate(time: float) -> tuple[float, float]:
            loss, rate = now.system.loss_and_rate(dense(time))
            return loss, -rate / self.unit

        time = now.t * self.unit
        recorder.refine(evaluate, (time, now.loss, -now.rate / self.unit))
        if recorder.due == 0:
            recorder.due = time
        while recorder.due < time:
            due = recorder.due
            self._take(now, due, recorder.loss_at(due), dense(due))
        if recorder.due == time or recorder.fallen(now.loss):
            self._take(now, time, now.loss, now.y)

    def _take(self, now: Moment, time: float, loss: float, y: FloatArray) -> None:
        snapshot = now.system.system.snapshot(y)
        self.recorder.take(time, loss, snapshot)
        squares = np.exp(2 * snapshot.log_norms)
        for name, value in now.system.system.conserved(y).items():
            drift = np.abs(np.asarray(value) - self.conserved[name])
            unit = squares if drift.shape == squares.shape else np.max(squares, initial=0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                relative = np.where(drift > 0, drift / unit, 0.0)
            self.drift = max(self.drift, float(np.max(relative, initial=0.0)))
