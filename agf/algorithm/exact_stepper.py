"""Steps of dormant (leaky) ReLU neurons of one output, exactly: each is a part of a closed-form piece of their flow.

The same crossings are looked for, on states that have no error; neurons that slide along kinks cost as many steps as
they meet walls. See `agf.rectified.dormant_flow`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.algorithm.field import Batch, Field
from agf.algorithm.rest import Rest
from agf.algorithm.stepper import STRIDE, ClosedStepper
from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.coordinates.balance import Balance
from agf.init import Init
from agf.rectified.dormant_flow import DormantFlow
from agf.rectified.events import Fate
from agf.rectified.walls import Walls, dormant_walls
from agf.rounding import EPS

#: Neurons times walls beyond which the arrays of the exact flow (0.5 GB each) are not made. Cost: memory; steps are
#: then taken instead.
LARGEST = 2**26
#: Sine of the angle of a direction to its last field below which its growth rate is constant. Derived: what it still
#: gains is the square of this: rounding.
_ALIGNED = EPS**0.5


class PieceField(Field):
    """The fields of the present pieces of an exact flow.

    Parameters
    ----------
    batch : Batch
        The neurons.
    flow : DormantFlow
        Theirs.
    """

    def __init__(self, batch: Batch, flow: DormantFlow) -> None:
        super().__init__(batch)
        self._flow = flow
        self._position = np.zeros(batch.problem.width, dtype=np.int64)
        self._position[batch.neurons] = np.arange(batch.neurons.size)

    def velocity(self, y: FloatArray, neurons: IntArray) -> FloatArray:
        """d(direction, log norm, time)/ds of rows y, (m, P + 2)."""
        theta = y[:, : self.p]
        unit = theta / np.sqrt(np.maximum(np.einsum("ij,ij->i", theta, theta), np.finfo(float).tiny))[:, None]
        field = self._flow.D[self._position[neurons]]
        along = np.einsum("ij,ij->i", unit[:, :-1], field)
        gradient = np.column_stack([unit[:, -1:] * field, along])
        radial = 2.0 * unit[:, -1] * along
        out = np.empty_like(y)
        out[:, : self.p] = gradient - radial[:, None] * unit
        out[:, self.p], out[:, self.p + 1] = radial, self.pace
        return out


class ExactStepper(ClosedStepper):
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
        origin, rows, d = batch.origin, batch.neurons, batch.problem.n_params - 1
        balance = None if origin is None else Balance.of(origin.directions[rows], origin.log_norms[rows], d)
        self.flow = DormantFlow(
            walls, batch.directions, batch.log_norms, balance=balance, noise=noise, contrary=batch.contrary
        )
        super().__init__(batch, PieceField(batch, self.flow), rtol)

    def forked(self) -> IntArray:
        """Rows that have passed a fork."""
        return np.flatnonzero(self.flow.at.forked)

    def next_look(self, rows: IntArray, begin: FloatArray) -> FloatArray:
        """Flow times (m,) at which steps of rows end: with the piece, or after a few growth times."""
        flow = self.flow
        for _ in range(20 * (flow.at.sides.shape[1] + 1)):
            over = rows[flow.until[rows] <= begin]
            if over.size == 0:
                break
            flow.step(over)
        with np.errstate(divide="ignore"):
            stride = STRIDE / np.sqrt(np.einsum("ij,ij->i", flow.D[rows], flow.D[rows]))
        end = np.minimum(begin + stride, flow.until[rows])
        return np.where(np.isfinite(end), end, begin)  # nothing moves it

    def state(self, rows: IntArray, time: FloatArray) -> FloatArray:
        """State of rows (m,) at flow times (m,), (m, P + 2)."""
        directions, log_norms = self.flow.inside(rows, time)
        return np.column_stack([directions, log_norms, time * self.field.pace])


class ExactRest(Rest[ExactStepper]):
    """Neurons in the last piece of their flow, aligned with its field or held for ever."""

    def test(self, rows: IntArray) -> None:
        """Find those of rows that rest, and the crossings of those that grow."""
        steps, p = self.steps, self.steps.p
        fate, f = steps.flow.fate[rows], steps.f1[rows]
        turning = np.sqrt(np.einsum("ij,ij->i", f[:, :p], f[:, :p]))
        aligned = (fate == Fate.ALIGNS) & (turning <= _ALIGNED * 2.0 * steps.field.drive(f))
        self.resting[rows] = aligned | ~np.isin(fate, [Fate.ALIGNS, Fate.TURNING])
        self.crossings.foresee(rows[aligned])


def aligned(
    problem: Problem, residual: Any, directions: FloatArray, neurons: IntArray, origin: Init, noise: float
) -> tuple[FloatArray, FloatArray] | None:
    """Directions (m, P) that dormant neurons reach in the end, and their utilities (m,), or None where that is not
    known exactly. The norms do not matter: it is the limit of small ones. Fields up to `noise` move nothing."""
    walls = dormant_walls(problem, residual)
    if walls is None or neurons.size * walls.sample.size > LARGEST:
        return None
    balance = Balance.of(origin.directions[neurons], np.zeros(neurons.size), problem.n_params - 1)
    flow = DormantFlow(walls, directions, np.zeros(neurons.size), balance=balance, noise=noise)
    flow.run()
    return flow.ends()
