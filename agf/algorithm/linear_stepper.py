"""Steps of dormant neurons whose utility is a quadratic form of their parameters, exactly: one eigenbasis for all.

Every degree-2 activation that is differentiable at the origin has utility U = theta^T Q theta / 2, so that on a frozen
residual theta' = Q theta ([AGF] eq. 2): a neuron's part along an eigenvector of rate L grows as exp(L t). The parts are
carried as logarithms, so that none is lost beside another within a phase, however long it is. What is asked of a neuron
in between are products with Q instead of sums over the data.
"""

from __future__ import annotations

import numpy as np

from agf.algorithm.rest import Rest
from agf.algorithm.stepper import STRIDE, Batch, Stepper
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


class LinearStepper(Stepper):
    """All neurons, each at the end of a step of its closed form.

    Parameters
    ----------
    batch : Batch
        The neurons.
    matrix : float ndarray, shape (P, P)
        Q, see `linear`.
    rtol : float
        Error of what is not exact.
    """

    def __init__(self, batch: Batch, matrix: FloatArray, rtol: float) -> None:
        self.matrix = matrix
        self.rates, self._vectors = np.linalg.eigh(self.matrix)
        self._parts = batch.directions @ self._vectors
        self._sign = np.sign(self._parts)
        with np.errstate(divide="ignore"):
            self._logs = np.log(np.abs(self._parts))
        #: Flow times of both ends of the last step; in accelerated time they would be rounded.
        self._began, self._now = np.zeros(batch.neurons.size), np.zeros(batch.neurons.size)
        super().__init__(batch, rtol)
        parts = np.abs(self._parts) > 0.0
        #: Rate of the fastest part that a neuron has.
        self.fastest = np.where(parts, self.rates, -np.inf).max(axis=1, initial=-np.inf)
        speed = float(np.abs(self.rates).max(initial=0.0))
        self._stride = STRIDE / speed if speed > 0.0 else 0.0

    def velocity(self, y: FloatArray, neurons: IntArray) -> FloatArray:
        """d(direction, log norm, time)/ds of rows y, (m, P + 2)."""
        theta = y[:, : self.p]
        unit = theta / lengths(theta)[:, None]
        gradient = unit @ self.matrix
        along = np.einsum("ij,ij->i", unit, gradient)
        out = np.empty_like(y)
        np.subtract(gradient, along[:, None] * unit, out=out[:, : self.p])
        out[:, self.p], out[:, self.p + 1] = along, self.pace
        return out

    def step(self, rows: IntArray) -> IntArray:
        """Take a step of each of rows, a few growth times long."""
        self.steps += 1
        begin = self._now[rows]
        end = begin + self._stride
        self.y0[rows], self.f0[rows], self.h[rows] = self.y1[rows], self.f1[rows], end - begin
        self._began[rows], self._now[rows] = begin, end
        self.y1[rows] = self._state(rows, end)
        self.f1[rows] = self.velocity(self.y1[rows], self.neurons[rows])
        return rows

    def _state(self, rows: IntArray, time: FloatArray) -> FloatArray:
        grown = self._logs[rows] + self.rates * time[:, None]
        top = grown.max(axis=1)
        theta = (self._sign[rows] * np.exp(grown - top[:, None])) @ self._vectors.T
        sizes = lengths(theta)
        out = np.empty((rows.size, self.p + 2))
        out[:, : self.p] = theta / sizes[:, None]
        out[:, self.p] = self.start[rows, self.p] + top + np.log(sizes)
        out[:, self.p + 1] = time * self.pace
        return out

    def dense(self, rows: IntArray, sigma: FloatArray) -> FloatArray:
        """State inside the last step, (m, P + 2)."""
        return self._state(rows, self._began[rows] + sigma * self.h[rows])

    def place(self, rows: IntArray, time: float) -> FloatArray:
        """Place of `time` in the last step of each of rows, 0..1."""
        return (time - self.y0[rows, -1]) / (self.y1[rows, -1] - self.y0[rows, -1])

    def law(self, rows: IntArray, time: float) -> FloatArray:
        """Log norms at `time` of neurons at rest."""
        return self._state(rows, np.full(rows.size, time / self.pace))[:, self.p]


class LinearRest(Rest):
    """Neurons along the fastest part that they have."""

    def test(self, rows: IntArray) -> None:
        """Find those of rows that rest, and the crossings of those that grow."""
        steps, crossings, p = self.steps, self.crossings, self.steps.p
        assert isinstance(steps, LinearStepper)
        f = steps.f1[rows]
        aligned = lengths(f[:, :p]) <= _ALIGNED * np.abs(steps.rates).max()
        settled = aligned & (f[:, p] >= steps.fastest[rows] - RANK * np.abs(steps.rates).max())
        self.resting[rows] = settled
        grows = rows[settled & crossings.grows(f)]
        if grows.size:
            crossings.refresh(grows)
            utility = steps.f1[grows, p] / 2.0
            wait = crossings.wait(grows, utility, steps.drive(steps.f1[grows]))
            crossings.crossed[grows] = steps.y1[grows, -1] + wait


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
