"""Steps of dormant (leaky) ReLU neurons of one output, exactly: each is a part of a closed-form piece of their flow.

The same crossings are looked for, on states that have no error; neurons that slide along kinks cost as many steps as
they meet walls. See `agf.rectified.dormant_flow`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.algorithm.crossings import Crossings
from agf.algorithm.linear_stepper import LinearRest, LinearStepper, linear
from agf.algorithm.rest import Rest
from agf.algorithm.stepper import STRIDE, Batch, Stepper
from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.init import Init
from agf.rectified.dormant_flow import DormantFlow, Fate, balance_of
from agf.rectified.walls import Walls, dormant_walls
from agf.rounding import EPS

#: Neurons times walls beyond which the arrays of the exact flow (0.5 GB each) are not made. Cost: memory; steps are
#: then taken instead.
_LARGEST = 2**26
#: Sine of the angle of a direction to its last field below which its growth rate is constant. Derived: what it still
#: gains is the square of this: rounding.
_ALIGNED = EPS**0.5


class ExactStepper(Stepper):
    """All neurons, each at the end of a step that is part of the present piece of its flow.

    Parameters
    ----------
    walls : Walls
        The field at this residual.
    batch : Batch
        The neurons.
    rtol : float
        Error of a step.
    noise : float
        Utility gradients up to this cannot be told from 0: they move nothing.
    """

    def __init__(self, walls: Walls, batch: Batch, rtol: float, noise: float) -> None:
        origin, neurons = batch.origin, batch.neurons
        balance = None if origin is None else balance_of(origin.directions[neurons], origin.log_norms[neurons])
        self.flow = DormantFlow(walls, batch.directions, batch.log_norms, balance=balance, noise=noise)
        #: Flow times of the ends of the last step; in accelerated time they would be rounded.
        self._began, self._now = np.zeros(neurons.size), np.zeros(neurons.size)
        self._position = np.zeros(batch.problem.width, dtype=np.int64)
        self._position[neurons] = np.arange(neurons.size)
        super().__init__(batch, rtol)

    def velocity(self, y: FloatArray, neurons: IntArray) -> FloatArray:
        """d(direction, log norm, time)/ds of rows y, (m, P + 2), on the fields of their present pieces."""
        theta = y[:, : self.p]
        unit = theta / np.sqrt(np.maximum(np.einsum("ij,ij->i", theta, theta), np.finfo(float).tiny))[:, None]
        field = self.flow.D[self._position[neurons]]
        along = np.einsum("ij,ij->i", unit[:, :-1], field)
        gradient = np.column_stack([unit[:, -1:] * field, along])
        radial = 2.0 * unit[:, -1] * along
        out = np.empty_like(y)
        out[:, : self.p] = gradient - radial[:, None] * unit
        out[:, self.p], out[:, self.p + 1] = radial, self.pace
        return out

    def step(self, rows: IntArray) -> IntArray:
        """Take a step of each of rows: to the end of its piece, or a few growth times."""
        flow = self.flow
        self.steps += 1
        begin = self._now[rows]
        for _ in range(20 * (flow.sides.shape[1] + 1)):
            over = rows[flow.until[rows] <= begin]
            if over.size == 0:
                break
            flow.step(over)
        with np.errstate(divide="ignore"):
            stride = STRIDE / np.sqrt(np.einsum("ij,ij->i", flow.D[rows], flow.D[rows]))
        end = np.minimum(begin + stride, flow.until[rows])
        end = np.where(np.isfinite(end), end, begin)  # nothing moves it
        self.y0[rows], self.h[rows] = self.y1[rows], end - begin
        self._began[rows], self._now[rows] = begin, end
        self.f0[rows] = self.velocity(self.y0[rows], self.neurons[rows])
        self.y1[rows] = self._state(rows, end)
        self.f1[rows] = self.velocity(self.y1[rows], self.neurons[rows])
        return rows

    def _state(self, rows: IntArray, time: FloatArray) -> FloatArray:
        directions, log_norms = self.flow.inside(rows, time)
        return np.column_stack([directions, log_norms, time * self.pace])

    def dense(self, rows: IntArray, sigma: FloatArray) -> FloatArray:
        """State inside the last step, (m, P + 2)."""
        return self._state(rows, self._began[rows] + sigma * self.h[rows])

    def place(self, rows: IntArray, time: float) -> FloatArray:
        """Place of `time` in the last step of each of rows, 0..1."""
        return (time - self.y0[rows, -1]) / (self.y1[rows, -1] - self.y0[rows, -1])

    def law(self, rows: IntArray, time: float) -> FloatArray:
        """Log norms at `time` of neurons in their last pieces."""
        return self.flow.inside(rows, np.full(rows.size, time / self.pace))[1]


class ExactRest(Rest):
    """Neurons in the last piece of their flow, aligned with its field or held for ever."""

    def test(self, rows: IntArray) -> None:
        """Find those of rows that rest, and the crossings of those that grow."""
        steps, crossings, p = self.steps, self.crossings, self.steps.p
        assert isinstance(steps, ExactStepper)
        fate = steps.flow.fate[rows]
        turning = np.sqrt(np.einsum("ij,ij->i", steps.f1[rows, :p], steps.f1[rows, :p]))
        aligned = (fate == Fate.ALIGNS) & (turning <= _ALIGNED * 2.0 * steps.drive(steps.f1[rows]))
        self.resting[rows] = aligned | ~np.isin(fate, [Fate.ALIGNS, Fate.TURNING])
        grows = rows[aligned & crossings.grows(steps.f1[rows])]
        if grows.size:
            crossings.refresh(grows)
            utility = steps.f1[grows, p] / 2.0
            wait = crossings.wait(grows, utility, steps.drive(steps.f1[grows]))
            crossings.crossed[grows] = steps.y1[grows, -1] + wait


def steps_of(batch: Batch, rtol: float, noise: float) -> Stepper:
    """Exact steps where the problem's dormant neurons have them, else Dormand-Prince steps."""
    walls = dormant_walls(batch.problem, batch.residual)
    if walls is not None and batch.neurons.size * walls.sample.size <= _LARGEST:
        return ExactStepper(walls, batch, rtol, noise)
    matrix = linear(batch)
    return Stepper(batch, rtol) if matrix is None else LinearStepper(batch, matrix, rtol)


def rest_of(steps: Stepper, crossings: Crossings) -> Rest:
    """What finds the neurons that rest, for these steps."""
    if isinstance(steps, ExactStepper):
        return ExactRest(steps, crossings)
    return LinearRest(steps, crossings) if isinstance(steps, LinearStepper) else Rest(steps, crossings)


def aligned(
    problem: Problem, residual: Any, directions: FloatArray, neurons: IntArray, origin: Init
) -> tuple[FloatArray, FloatArray] | None:
    """Directions (m, P) that dormant neurons reach in the end, and their utilities (m,), or None where that is not
    known exactly. The norms do not matter: it is the limit of small ones."""
    walls = dormant_walls(problem, residual)
    if walls is None or neurons.size * walls.sample.size > _LARGEST:
        return None
    balance = balance_of(origin.directions[neurons], np.zeros(neurons.size))
    flow = DormantFlow(walls, directions, np.zeros(neurons.size), balance=balance)
    flow.run()
    return flow.ends()
