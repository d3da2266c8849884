"""Steps of dormant neurons whose utility is a quadratic form of their parameters, exactly: one eigenbasis for all.

Every degree-2 activation that is differentiable at the origin has utility U = theta^T Q theta / 2, so that on a frozen
residual theta' = Q theta ([AGF] eq. 2): a neuron's part along an eigenvector of rate L grows as exp(L t). The parts are
carried as logarithms, so that none is lost beside another within a phase, however long it is. What is asked of a neuron
in between are products with Q instead of sums over the data.
"""

from __future__ import annotations

import numpy as np

from agf.algorithm.field import Batch, Field
from agf.algorithm.resting import Resting
from agf.algorithm.stepper import STRIDE, ClosedStepper
from agf.arrays import FloatArray, IntArray
from agf.coordinates.mode_system import form, turns
from agf.rounding import EPS, RANK, TIED
from agf.sphere import lengths

#: Parameters of a neuron up to which an eigenbasis is made for any number of neurons, and beyond for more neurons than
#: parameters. Cost: an eigenbasis costs as their cube.
_FEW = 64
#: Sine of the angle of a direction to its gradient below which it rests. Derived: its growth rate is off by the square
#: of it: rounding.
_ALIGNED = EPS**0.5
#: Neurons that are tried, whether they move by the matrix. Cost: of trying; `interchangeable` says that all are alike.
_TRIED = 8


class LinearField(Field):
    """theta' = Q theta.

    Parameters
    ----------
    batch : Batch
        The neurons.
    matrix : float ndarray, shape (P, P)
        Q.
    """

    def __init__(self, batch: Batch, matrix: FloatArray) -> None:
        super().__init__(batch)
        self.matrix = matrix

    def utility(self, unit: FloatArray, neurons: IntArray) -> tuple[FloatArray, FloatArray]:
        """Utilities (m,) and their gradients (m, P) at unit rows."""
        gradient = unit @ self.matrix
        return 0.5 * np.einsum("ij,ij->i", unit, gradient), gradient


class LinearStepper(ClosedStepper):
    """All neurons, each at the end of a step of its closed form.

    Parameters
    ----------
    batch : Batch
        The neurons.
    matrix : float ndarray, shape (P, P)
        Q, see `linear`.
    rtol : float
        Error of what is not exact.

    Attributes
    ----------
    speed : float
        Largest rate, in size.
    fastest : float ndarray, shape (m,)
        Rate of the fastest part that a neuron has.
    """

    def __init__(self, batch: Batch, matrix: FloatArray, rtol: float) -> None:
        super().__init__(batch, LinearField(batch, matrix), rtol)
        self._rates, self._vectors = np.linalg.eigh(matrix)
        parts = batch.directions @ self._vectors
        self._sign = np.sign(parts)
        with np.errstate(divide="ignore"):
            self._logs = np.log(np.abs(parts))
        self.fastest = np.where(np.abs(parts) > 0.0, self._rates, -np.inf).max(axis=1, initial=-np.inf)
        self.speed = float(np.abs(self._rates).max(initial=0.0))
        self._stride = STRIDE / self.speed if self.speed > 0.0 else 0.0

    def next_look(self, rows: IntArray, begin: FloatArray) -> FloatArray:
        """Flow times (m,) at which steps of rows end, a few growth times later."""
        return begin + self._stride

    def state(self, rows: IntArray, time: FloatArray) -> FloatArray:
        """State of rows (m,) at flow times (m,), (m, P + 2)."""
        grown = self._logs[rows] + self._rates * time[:, None]
        top = grown.max(axis=1)
        theta = (self._sign[rows] * np.exp(grown - top[:, None])) @ self._vectors.T
        sizes = lengths(theta)
        out = np.empty((rows.size, self.p + 2))
        out[:, : self.p] = theta / sizes[:, None]
        out[:, self.p] = self.start[rows, self.p] + top + np.log(sizes)
        out[:, self.p + 1] = time * self.field.pace
        return out


class LinearResting(Resting[LinearStepper]):
    """Neurons along the fastest part that they have."""

    def test(self, rows: IntArray) -> None:
        """Find those of rows that rest, and the crossings of those that grow."""
        steps, p = self.steps, self.steps.p
        f = steps.f1[rows]
        aligned = lengths(f[:, :p]) <= _ALIGNED * steps.speed
        settled = aligned & (f[:, p] >= steps.fastest[rows] - RANK * steps.speed)
        self.resting[rows] = settled
        self.crossings.foresee(rows[settled])


def linear(batch: Batch) -> FloatArray | None:
    """The matrix Q (P, P) by which the neurons of a batch move, or None where there is none, or it does not pay.

    Some of the neurons are tried, whether they do, as a problem may know more of them than their parameters.
    """
    problem, count = batch.problem, batch.neurons.size
    if count == 0 or problem.n_params > max(_FEW, count) or not turns(problem):
        return None
    matrix = form(problem, batch.residual)
    some = np.unique(np.linspace(0, count - 1, _TRIED).astype(np.int64))
    gradient = problem.utility(batch.directions[some], batch.neurons[some], batch.residual)[1]
    off = np.abs(gradient - batch.directions[some] @ matrix).max()
    return matrix if off <= TIED * np.abs(matrix).max() else None
