"""What a run of gradient flow records of every step: its curve, snapshots, and the drift of conserved quantities.

Steps are kept until there are a few dozen, and then recorded together: what small networks cost is calls, not numbers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import FlowSystem, Snapshot
from agf.integrators import Accepted
from agf.results.interpolant import Point
from agf.rounding import SUM
from agf.stopping.along import Way, enough
from agf.stopping.driver import Counted, Moment
from agf.training.recorder import Recorder


@dataclass(frozen=True)
class _Waiting:
    """A step that is still to be recorded, and the point of the curve at its end."""

    step: Accepted
    origin: float
    end: Point


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
        #: Rounding of the squared norms at the start, which a neuron that shrinks keeps.
        self._rounding = SUM * np.exp(2.0 * system.snapshot(system.start()).log_norms)
        self.drift = 0.0
        self._waiting: list[_Waiting] = []
        self._counted: Counted | None = None
        #: What the last recording took, in seconds.
        self.seconds = 0.0

    def start(self, now: Moment) -> None:
        """The first point and snapshot."""
        self.recorder.point(0.0, now.loss, -now.rate / self.unit)
        self.recorder.take(0.0, now.loss, now.system.system.snapshot(now.y))

    def add(self, now: Moment) -> bool:
        """Points and snapshots of the step that ended now. Returns whether all is recorded, and nothing waits."""
        assert now.step is not None
        self._waiting.append(_Waiting(now.step, now.origin, (now.t * self.unit, now.loss, -now.rate / self.unit)))
        self._counted = now.system
        if enough(len(self._waiting), now.y):
            self.flush()
        return not self._waiting

    @np.errstate(over="ignore", invalid="ignore")
    def flush(self) -> Counted | None:
        """Record what waits. Returns where its evaluations were counted, with those of the steps; None for nothing."""
        counted = self._counted
        if not self._waiting or counted is None:
            return None

        contracts = counted.system.contracts
        way, origins = Way([w.step for w in self._waiting]), np.array([w.origin for w in self._waiting])

        def places(which: IntArray, times: FloatArray) -> FloatArray:
            return np.clip(times / self.unit - origins[which], way.first[which], way.last[which])

        def evaluate(which: IntArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
            s = places(which, times)
            if contracts:
                _, losses, _, slopes = way.along(counted, which, s)
                return losses, slopes / self.unit
            losses, rates = counted.losses_and_rates(way.states(which, s))
            return losses, -rates / self.unit

        def shoot(which: IntArray, times: FloatArray) -> Snapshot:
            ys = way.states(which, places(which, times))
            shots = counted.system.snapshots(ys)
            if self.conserved:
                self._drifted(counted.system, ys, shots)
            return shots

        ends = [w.end for w in self._waiting]
        if contracts:
            found = evaluate(np.arange(len(ends)), np.array([end[0] for end in ends]))[1]
            ends = [(time, loss, slope) for (time, loss, _), slope in zip(ends, found.tolist(), strict=True)]
        began = time.perf_counter()
        try:
            self.recorder.record(ends, evaluate, shoot)
        finally:
            self.seconds = time.perf_counter() - began
        self._waiting = []
        return counted

    def cut(self, time: float) -> None:
        """Forget what lies beyond `time`."""
        self._waiting = [w for w in self._waiting if w.end[0] <= time]
        self.recorder.cut(time)

    def forget(self) -> None:
        """Forget the steps that wait."""
        self._waiting = []

    def abandon(self) -> None:
        """Record the ends of the steps that wait, and ask nothing for it."""
        for w in self._waiting:
            self.recorder.point(*w.end)
        self._waiting = []

    def _drifted(self, system: FlowSystem, ys: FloatArray, shots: Snapshot) -> None:
        """Take in what conserved quantities have drifted by at states ys (m, N) of these snapshots."""
        squares = np.exp(2 * shots.log_norms)
        found = system.conserved_along(ys)
        for name, first in self.conserved.items():
            drift = np.abs(np.array([values[name] for values in found]) - first)
            if drift.shape == squares.shape:
                drift, unit = np.maximum(drift - self._rounding, 0.0), squares
            else:
                unit = np.max(squares, axis=1, initial=0.0).reshape(-1, *[1] * (drift.ndim - 1))
            with np.errstate(divide="ignore", invalid="ignore"):
                relative = np.where(drift > 0, drift / unit, 0.0)
            self.drift = max(self.drift, float(np.max(relative, initial=0.0)))
