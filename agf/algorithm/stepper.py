"""Steps of dormant neurons on a frozen residual, many at once, each with a step size and in a variable of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from agf.algorithm.field import Batch, Field
from agf.algorithm.threshold import refuse_nonfinite
from agf.arrays import FloatArray, IntArray
from agf.rounding import EPS

#: Entries of one (rows, P) array, by which rows are taken in blocks. Cost: memory, 16 MB an array at any width.
BLOCK = 1 << 21
#: Gradients below this fraction of the largest one at the start are rounding: such a neuron never moves. Derived: 64
#: roundings of a sum that is zero.
DEAD = 64 * EPS
#: Growth times that one step of a closed form covers; a neuron is looked at between them. Cost: of looking, the flow
#: itself is exact.
STRIDE = 3.0


class Stepper(ABC):
    """All neurons, each at the end of its last accepted step, and the state inside that step.

    Columns of a row: direction, log norm, elapsed time.

    Parameters
    ----------
    batch : Batch
        The neurons.
    field : Field
        In which they move.
    rtol : float
        Error of a step.

    Attributes
    ----------
    start, y0, y1 : float ndarray, shape (m, P + 2)
        State at the start, and at both ends of the last step.
    f1 : float ndarray, shape (m, P + 2)
        Velocity at its end.
    top : float
        Largest utility gradient at the start, over the degree.
    dead : bool ndarray, shape (m,)
        Neurons that never move.
    """

    def __init__(self, batch: Batch, field: Field, rtol: float) -> None:
        self.batch, self.field, self.rtol = batch, field, rtol
        self.neurons, (self.m, self.p) = batch.neurons, batch.directions.shape
        self.steps = 0
        self.start = np.column_stack([batch.directions, batch.log_norms, np.zeros(self.m)])
        self.y0, self.y1, self.f1 = self.start.copy(), self.start.copy(), np.zeros_like(self.start)
        alive = np.isfinite(batch.log_norms)
        for rows in self.blocks(np.flatnonzero(alive)):
            self.f1[rows] = field.velocity(self.y1[rows], self.neurons[rows])
        refuse_nonfinite(batch.problem, "utility", np.logical_not(np.isfinite(self.f1).all(axis=1)), self.neurons)
        aligned = field.aligned_utility(self.f1)
        self.top = float(aligned.max(initial=0.0))
        self.dead = ~alive | (aligned <= DEAD * self.top)

    def blocks(self, rows: IntArray) -> list[IntArray]:
        """Rows in blocks of bounded memory."""
        size = max(1, BLOCK // (self.p + 2))
        return [rows[i : i + size] for i in range(0, rows.size, size)]

    def forked(self) -> IntArray:
        """Rows that have passed a fork, where their flow is not unique."""
        return np.zeros(0, dtype=np.int64)

    def past(self, rows: IntArray, time: float) -> tuple[IntArray, FloatArray]:
        """Those of rows whose states at an earlier time are remembered, and these, (k, P + 2)."""
        del rows, time
        return np.zeros(0, dtype=np.int64), np.zeros((0, self.p + 2))

    @abstractmethod
    def step(self, rows: IntArray) -> IntArray:
        """Try a step of each of rows; those that were accepted."""

    @abstractmethod
    def dense(self, rows: IntArray, sigma: FloatArray) -> FloatArray:
        """State inside the last step, (m, P + 2), directions normalized."""

    @abstractmethod
    def place(self, rows: IntArray, time: float) -> FloatArray:
        """Place of `time` in the last step of each of rows, 0..1."""

    @abstractmethod
    def law(self, rows: IntArray, time: float) -> FloatArray:
        """Log norms at `time` of neurons at rest."""


class ClosedStepper(Stepper):
    """Neurons of degree 2 in a field in which their flow is known: a step is how far they are looked at next."""

    def __init__(self, batch: Batch, field: Field, rtol: float) -> None:
        super().__init__(batch, field, rtol)
        #: Flow times of both ends of the last step; in accelerated time they would be rounded.
        self._began, self._now = np.zeros(self.m), np.zeros(self.m)

    @abstractmethod
    def state(self, rows: IntArray, time: FloatArray) -> FloatArray:
        """State of rows (m,) at flow times (m,), (m, P + 2)."""

    @abstractmethod
    def next_look(self, rows: IntArray, begin: FloatArray) -> FloatArray:
        """Flow times (m,) at which steps of rows that begin at `begin` (m,) end."""

    def step(self, rows: IntArray) -> IntArray:
        """Take a step of each of rows, a few growth times long."""
        self.steps += 1
        begin = self._now[rows]
        end = self.next_look(rows, begin)
        self.y0[rows] = self.y1[rows]
        self._began[rows], self._now[rows] = begin, end
        self.y1[rows] = self.state(rows, end)
        self.f1[rows] = self.field.velocity(self.y1[rows], self.neurons[rows])
        return rows

    def dense(self, rows: IntArray, sigma: FloatArray) -> FloatArray:
        """State inside the last step, (m, P + 2)."""
        began = self._began[rows]
        return self.state(rows, began + sigma * (self._now[rows] - began))

    def place(self, rows: IntArray, time: float) -> FloatArray:
        """Place of `time` in the last step of each of rows, 0..1."""
        return (time - self.y0[rows, -1]) / (self.y1[rows, -1] - self.y0[rows, -1])

    def law(self, rows: IntArray, time: float) -> FloatArray:
        """Log norms at `time` of neurons at rest."""
        return self.state(rows, np.full(rows.size, time / self.field.pace))[:, self.p]
