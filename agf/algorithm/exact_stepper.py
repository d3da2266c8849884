"""Steps of dormant (leaky) ReLU neurons, exactly: each is a part of a closed-form piece of their flow.

Where there is one output, or two that are pulled at alike. The same crossings are looked for, on states that have no
error; neurons that slide along kinks cost as many steps as they meet walls. See `agf.rectified.dormant_flow`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.algorithm.field import Batch, Field
from agf.algorithm.resting import Resting
from agf.algorithm.stepper import STRIDE, ClosedStepper
from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.init import Init
from agf.rectified.dormant_parts import DormantParts, exact_flow, has_exact_flow
from agf.rectified.events import Fate
from agf.rounding import EPS

#: Sine of the angle of a direction to its last field below which its growth rate is constant. Derived: what it still
#: gains is the square of this: rounding.
_ALIGNED = EPS**0.5


class PieceField(Field):
    """The fields of the present pieces of an exact flow.

    Parameters
    ----------
    batch : Batch
        The neurons.
    flow : DormantParts
        Theirs.
    """

    def __init__(self, batch: Batch, flow: DormantParts) -> None:
        super().__init__(batch)
        self._flow = flow
        self._position = np.zeros(batch.problem.width, dtype=np.int64)
        self._position[batch.neurons] = np.arange(batch.neurons.size)

    def velocity(self, y: FloatArray, neurons: IntArray) -> FloatArray:
        """d(direction, log norm, time)/ds of rows y, (m, P + 2)."""
        theta = y[:, : self.p]
        unit = theta / np.sqrt(np.maximum(np.einsum("ij,ij->i", theta, theta), np.finfo(float).tiny))[:, None]
        here = self._position[neurons]
        field, axes = self._flow.D[here], self._flow.axes[here]
        d = field.shape[1]
        along, outer = np.einsum("ij,ij->i", unit[:, :d], field), np.einsum("ij,ij->i", unit[:, d:], axes)
        gradient = np.column_stack([outer[:, None] * field, along[:, None] * axes])
        radial = 2.0 * outer * along
        out = np.empty_like(y)
        out[:, : self.p] = gradient - radial[:, None] * unit
        out[:, self.p], out[:, self.p + 1] = radial, self.pace
        return out


class ExactStepper(ClosedStepper):
    """All neurons, each at the end of a step that is part of the present piece of its flow.

    Parameters
    ----------
    flow : DormantParts
        Theirs.
    batch : Batch
        The neurons.
    rtol : float
        Error of a step.
    """

    def __init__(self, flow: DormantParts, batch: Batch, rtol: float) -> None:
        self.flow = flow
        super().__init__(batch, PieceField(batch, flow), rtol)

    @classmethod
    def of(cls, batch: Batch, rtol: float, noise: float) -> ExactStepper | None:
        """None where their flow is not known exactly, or steps are asked for.

        noise : utility gradients up to this cannot be told from 0: they move nothing.
        """
        if batch.stepped:
            return None
        origin, rows = batch.origin, batch.neurons
        flow = exact_flow(
            batch.problem,
            batch.residual,
            rows,
            batch.directions,
            batch.log_norms,
            origin=None if origin is None else (origin.directions[rows], origin.log_norms[rows]),
            noise=noise,
            contrary=batch.contrary,
            rounded=batch.rounded,
        )
        return None if flow is None else cls(flow, batch, rtol)

    def forked(self) -> IntArray:
        """Rows that have passed a fork."""
        return np.flatnonzero(self.flow.forked)

    def next_look(self, rows: IntArray, begin: FloatArray) -> FloatArray:
        """Flow times (m,) at which steps of rows end: with the piece, or after a few growth times."""
        flow = self.flow
        for _ in range(flow.most):
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


class ExactResting(Resting[ExactStepper]):
    """Neurons in the last piece of their flow, aligned with its field or held for ever."""

    def test(self, rows: IntArray) -> None:
        """Find those of rows that rest, and the crossings of those that grow."""
        steps, p = self.steps, self.steps.p
        fate, f = steps.flow.fate[rows], steps.f1[rows]
        turning = np.sqrt(np.einsum("ij,ij->i", f[:, :p], f[:, :p]))
        aligned = (fate == Fate.ALIGNS) & (turning <= _ALIGNED * 2.0 * steps.field.aligned_utility(f))
        self.resting[rows] = aligned | ~np.isin(fate, [Fate.ALIGNS, Fate.TURNING])
        self.crossings.foresee(rows[aligned])


def aligned(
    problem: Problem, residual: Any, directions: FloatArray, neurons: IntArray, origin: Init, noise: float
) -> tuple[FloatArray, FloatArray] | None:
    """Directions (m, P) that dormant neurons reach in the end, and their utilities (m,), or None where that is not
    known exactly. The norms do not matter: it is the limit of small ones. Fields up to `noise` move nothing."""
    if not has_exact_flow(problem):
        return None
    log_norms = np.zeros(neurons.size)
    start = origin.directions[neurons], log_norms
    flow = exact_flow(problem, residual, neurons, directions, log_norms, origin=start, noise=noise)
    if flow is None:
        return None
    flow.run()
    return flow.ends()
