"""What grows in polar coordinates: which neurons are still small, how fast they grow, and when they will matter."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.contract.order import largest
from agf.coordinates.mode_system import ACTIVE, FALLEN
from agf.coordinates.turning import Turning
from agf.rounding import SUM
from agf.sphere import norms

if TYPE_CHECKING:
    from agf.coordinates.polar_system import PolarSystem


class Growth:
    """Of the small neurons, told from what rounding of the gradient makes.

    Parameters
    ----------
    system : PolarSystem
        In which coordinates.
    """

    def __init__(self, system: PolarSystem) -> None:
        self.system = system

    def fastest(self, y: FloatArray) -> float:
        """Largest d log rho/ds over the neurons that are still small, or 0; rounding of the gradient is no growth."""
        return float(np.max(self._rates(y), initial=0.0))

    def due(self, y: FloatArray) -> float:
        """Time until the first small neuron is as large as the largest one, at its present pull."""
        system, rates = self.system, self._rates(y)
        if not (rates > 0).any():
            return float(np.inf)
        sizes = y[-system.neurons.size :]
        if system.power:  # sizes fall linearly to where they blow up
            return float(np.min(1.0 / (system.power * rates[rates > 0])))
        return float(np.min((sizes[system.alive].max() - sizes[rates > 0]) / rates[rates > 0]))

    def turning(self, y: FloatArray) -> Turning | None:
        """The small neurons on the residual of all that are active, which rest; None where none is small, or moves.

        A neuron that belongs to a group may be small beside the largest, and is active all the same: without it the
        residual would not be that of the rest.
        """
        system = self.system
        directions, log_norms = system.polar(y)
        small = self._small(y)
        large = system.present(log_norms) & (log_norms > log_norms.max() + np.log(ACTIVE)) & (not small.all())
        small &= system.alive
        if not small.any() or self._natural == 0.0:
            return None
        sizes = y[-system.neurons.size :] if system.power else np.ones(system.neurons.size)
        rows = np.flatnonzero(small)
        return Turning(system.problem, system.neurons, directions, log_norms, rows, large, sizes, self._natural)

    def noise(self, y: FloatArray) -> float:
        """That of the fastest neuron that moves."""
        return float(np.max(self._noises(y), initial=0.0, where=self.system.moving))

    def _noises(self, y: FloatArray) -> FloatArray:
        """d log rho/ds that rounding of the pull makes, (H,)."""
        sizes = y[-self.system.neurons.size :]
        return SUM * self._natural / sizes if self.system.power else np.full(sizes.shape, SUM * self._natural)

    def _rates(self, y: FloatArray) -> FloatArray:
        """d log rho/ds of the neurons that are small and grow, 0 of the others, (H,)."""
        system = self.system
        rates, rounding = system.rates(y, system.velocity(y)), self._noises(y)
        small = system.alive & self._small(y)
        return np.where(small & (rates > rounding), rates, 0.0)

    def _small(self, y: FloatArray) -> BoolArray:
        """(H,) neurons whose growth may still become a drop: smaller than the largest by a factor e at least.

        All of them while the loss has not fallen by `FALLEN` of its first value: nothing is active yet.
        """
        log_norms, first = self.system.polar(y)[1], self.system.first_loss
        if first - self.system.loss(y) < FALLEN * abs(first):
            return np.ones(log_norms.shape, dtype=bool)
        return log_norms < np.max(log_norms) - 1

    @cached_property
    def _natural(self) -> float:
        """Length of the largest pull that the residual of the zero function makes.

        Where that is rounding, at norm 1 as well, by a symmetry that no order of the neurons breaks, it is what such a
        residual could make of such neurons: nothing grows then.
        """
        system = self.system
        directions, log_norms = system.polar(system.start())
        longest = self._longest(directions, log_norms)
        if not system.smooth or longest == 0.0:
            return longest
        alive, loss = system.alive, float(system.problem.loss_grad(*system.problem.empty)[0])
        with np.errstate(over="ignore", invalid="ignore"):
            most = largest(system.problem, directions[alive], system.neurons[alive], loss)
            vanishes = max(longest, self._longest(directions, np.zeros_like(log_norms))) <= SUM * most
        return most if vanishes else longest

    def _longest(self, directions: FloatArray, log_norms: FloatArray) -> float:
        """Length of the largest pull on the residual of the zero function."""
        system = self.system
        no_neurons = np.zeros(system.neurons.size, dtype=bool)
        pull = np.asarray(system.problem.network_pull(directions, log_norms, system.neurons, no_neurons))
        return float(np.max(norms(pull)[system.alive], initial=0.0))
