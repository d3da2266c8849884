"""Directions of small neurons that turn on the residual of the large ones, while these rest."""

from __future__ import annotations

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.flow_system import FlowSystem, Snapshot
from agf.contract.problem import Problem
from agf.sphere import normalize


class Turning(FlowSystem):
    """y = unit rows (k, P) that ascend their pulls; the loss is minus the fastest growth, per unit of size.

    Parameters
    ----------
    problem : Problem
        What is trained.
    neurons : int ndarray, shape (H,)
        All neurons.
    directions : float ndarray, shape (H, P)
        Unit rows.
    log_norms : float ndarray, shape (H,)
        Natural logs of the norms.
    rows : int ndarray, shape (k,)
        Which turn.
    large : bool ndarray, shape (H,)
        Which make the residual.
    sizes : float ndarray, shape (H,)
        What growth is divided by for d log rho/ds.
    natural : float
        Largest pull that the residual of the zero function makes.
    """

    def __init__(
        self,
        problem: Problem,
        neurons: IntArray,
        directions: FloatArray,
        log_norms: FloatArray,
        rows: IntArray,
        large: BoolArray,
        sizes: FloatArray,
        natural: float,
    ) -> None:
        self.problem, self.neurons, self.log_norms = problem, neurons, log_norms
        self.rows, self.large, self.sizes, self.natural = rows, large, sizes[rows], natural
        self.smooth = problem.smooth
        self._turned = directions.copy()
        self._groups = np.repeat(np.arange(rows.size), directions.shape[1])
        self._known: tuple[FloatArray, FloatArray, float] | None = None  # y, growths there, and the squared velocity

    @property
    def groups(self) -> IntArray:
        """Row of each entry of y."""
        return self._groups

    def start(self) -> FloatArray:
        """y at time 0."""
        return self._turned[self.rows].ravel()

    def velocity(self, y: FloatArray) -> FloatArray:
        """Tangent part of the pull at norm 1."""
        self._turned[self.rows] = normalize(y.reshape(self.rows.size, -1))
        pull = self.problem.network_pull(self._turned, self.log_norms, self.neurons, self.large)
        pull, turned = np.asarray(pull)[self.rows], self._turned[self.rows]
        growths = np.einsum("ij,ij->i", turned, pull)
        velocity = pull - growths[:, None] * turned
        self._known = y, growths, float(np.sum(velocity**2))
        return velocity.ravel()

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Minus the fastest growth, and minus the squared velocity."""
        if not self.loss_is_known(y):
            self.velocity(y)
        assert self._known is not None
        return -float(self._known[1].max()), -self._known[2]

    def loss(self, y: FloatArray) -> float:
        """Minus the fastest growth."""
        return self.loss_and_rate(y)[0]

    def loss_rate(self, y: FloatArray) -> float:
        """Minus the squared velocity."""
        return self.loss_and_rate(y)[1]

    def loss_is_known(self, y: FloatArray) -> bool:
        """Whether the last velocity was asked for here."""
        return self._known is not None and self._known[0] is y

    def growth(self, y: FloatArray) -> float:
        """d log rho/ds of the neuron with the largest growth."""
        self.loss_and_rate(y)
        assert self._known is not None
        fastest = int(np.argmax(self._known[1]))
        return float((self._known[1] / self.sizes)[fastest])

    def snapshot(self, y: FloatArray) -> Snapshot:
        """Directions of those that turn."""
        return Snapshot(self.log_norms[self.rows], normalize(y.reshape(self.rows.size, -1)))
