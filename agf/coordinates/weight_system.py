"""Gradient flow in the weights themselves: for stiff stretches, since there its Jacobian is minus a Hessian."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import FlowSystem, Snapshot
from agf.contract.problem import Problem
from agf.sphere import norms

if TYPE_CHECKING:
    from agf.coordinates.polar_system import PolarSystem


class Weights(FlowSystem):
    """y = theta (m P,) row by row, dy/ds = -grad L * unit; one group a neuron, errors relative to its norm.

    Floats have exponents, so a small neuron keeps its relative accuracy next to large ones. What is lost where hidden
    units mix is lost in polar coordinates as well.

    Parameters
    ----------
    problem : Problem
        What is trained.
    neurons : int ndarray, shape (m,)
        Whose weights move; the others do not exist.
    unit : float, optional
        Flow time in a unit of s.
    """

    def __init__(self, problem: Problem, neurons: IntArray, unit: float = 1.0) -> None:
        self.problem, self.neurons, self.shape = problem, neurons, (neurons.size, problem.n_params)
        self.smooth = problem.smooth
        self._unit = unit
        self._groups = np.repeat(np.arange(neurons.size), self.shape[1])
        self._known: tuple[FloatArray, float, float] | None = None  # y, loss and slope there

    @property
    def groups(self) -> IntArray:
        """Row that each entry of y is in."""
        return self._groups

    def gradient(self, y: FloatArray) -> tuple[float, FloatArray]:
        """L and grad L (m, P) at y."""
        loss, gradient = self.problem.loss_grad(y.reshape(self.shape), self.neurons)
        return float(loss), gradient

    def velocity(self, y: FloatArray) -> FloatArray:
        """-grad L in units of s."""
        loss, gradient = self.gradient(y)
        self._known = y, loss, -float(np.add.reduce(gradient * gradient, axis=None)) * self._unit
        return -self._unit * gradient.ravel()

    def loss(self, y: FloatArray) -> float:
        """L at y."""
        return self.loss_and_rate(y)[0]

    def loss_rate(self, y: FloatArray) -> float:
        """dL/ds at y."""
        return self.loss_and_rate(y)[1]

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Both from one gradient, the last where it was asked for here."""
        if not self.loss_is_known(y):
            self.velocity(y)
        assert self._known is not None
        return self._known[1:]

    def loss_is_known(self, y: FloatArray) -> bool:
        """Whether the last velocity was asked for here."""
        return self._known is not None and self._known[0] is y

    def scale(self, y: FloatArray) -> FloatArray:
        """Norm of the neuron over the root of P: the root mean square over its entries is then its relative error."""
        size = norms(y.reshape(self.shape)) / math.sqrt(self.shape[1])
        size[~(size > 0)] = 1.0
        return size.repeat(self.shape[1])

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """The problem's own, in units of s, without neurons that are exactly zero: these never move, and a network with
        them is as stable as one without."""
        theta = y.reshape(self.shape)
        matrix = self.problem.hessian(theta, self.neurons)
        if matrix is None:
            return None
        moves = np.repeat(norms(theta) > 0, self.shape[1])
        return self._unit * (matrix if moves.all() else matrix * np.outer(moves, moves))


class WeightSystem(Weights):
    """`Weights` of all neurons, in the same units of time as polar coordinates of the same flow.

    Parameters
    ----------
    polar : PolarSystem
        These coordinates.
    """

    def __init__(self, polar: PolarSystem) -> None:
        super().__init__(polar.problem, polar.neurons, float(np.exp(polar.log_time_unit)))
        self.polar, self.log_time_unit, self.smooth = polar, polar.log_time_unit, polar.smooth

    def start(self) -> FloatArray:
        """y at time 0."""
        return self.polar.params(self.polar.start()).ravel()

    def growth(self, y: FloatArray) -> float:
        """As `PolarSystem.growth`."""
        return self.polar.growth(self.in_polar(y))

    def noise(self, y: FloatArray) -> float:
        """As `PolarSystem.noise`."""
        return self.polar.noise(self.in_polar(y))

    def due(self, y: FloatArray) -> float:
        """As `PolarSystem.due`."""
        return self.polar.due(self.in_polar(y))

    def snapshot(self, y: FloatArray) -> Snapshot:
        """As `PolarSystem.snapshot`."""
        return self.polar.snapshot(self.in_polar(y))

    def snapshots(self, ys: FloatArray) -> Snapshot:
        """As `PolarSystem.snapshots`."""
        return self.polar.snapshots(self.all_in_polar(ys))

    def conserved(self, y: FloatArray) -> dict[str, FloatArray]:
        """The problem's conserved quantities at y."""
        return self.problem.conserved(y.reshape(self.shape), self.polar.neurons)

    def warnings(self, y: FloatArray) -> list[str]:
        """As `PolarSystem.warnings`."""
        return self.polar.warnings(self.in_polar(y))

    def history_warnings(self, log_norms: FloatArray) -> list[str]:
        """As `PolarSystem.history_warnings`."""
        return self.polar.history_warnings(log_norms)

    def in_polar(self, y: FloatArray) -> FloatArray:
        """The state of `polar` at y."""
        return self.polar.at(y.reshape(self.shape))

    def all_in_polar(self, ys: FloatArray) -> FloatArray:
        """The same at states ys (m, N), (m, N)."""
        return self.polar.at(ys.reshape(-1, *self.shape))
