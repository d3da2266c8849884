"""How neurons ride on the residual of the active ones (mode "resolved"): everybody's direction and log norm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.coordinates.polar_system import PolarSystem
from agf.coordinates.sharp_system import SharpSystem
from agf.coordinates.weight_system import WeightSystem
from agf.init import Init
from agf.records.state import State
from agf.rounding import LOG_FAINT
from agf.sphere import lengths as row_lengths


class Riding(PolarSystem):
    """A flow system of all neurons whose residual is made by the active ones alone.

    Its loss is that of all neurons, so that nothing jumps when one joins, and so is its rate, which the curve has; that
    at which the active ones lower it is `settling`.

    Parameters
    ----------
    problem : Problem
        Whose neurons.
    state : State
        Where they are, and which are active.
    origin : Init
        Where training started: what a neuron conserves is that of this, not of the state. Of a neuron that has grown a
        thousandfold it is rounding beside what steps have left in its direction, and it decides with which sign the
        neuron returns should it shrink.
    last : bool, optional
        Whether nobody will join any more.
    """

    def __init__(self, problem: Problem, state: State, origin: Init, last: bool = False) -> None:
        init = Init(state.directions, state.log_norms, origin.alpha)
        super().__init__(problem, init, origin)
        self.active, self.last = np.flatnonzero(state.active), last
        self._together = PolarSystem(problem, init, origin)
        below = self.log_largest - np.where(self.alive, init.log_norms, self.log_largest)
        self._beyond = self.power * below > -LOG_FAINT
        self._known: tuple[FloatArray, float] | None = None  # where the loss was last asked for, and `settling`

    def members(self, log_norms: FloatArray) -> BoolArray:
        members = np.zeros(log_norms.shape, dtype=bool)
        members[self.active] = True
        return members & self.present(log_norms)

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        loss, gradient = self.loss_grad(y)
        squares = np.sum(gradient**2, axis=1)
        with np.errstate(over="ignore"):
            unit = float(np.exp(self.log_time_unit))
            self._known = y, float(np.sum(squares[self.active])) * unit
            return loss, -float(np.sum(squares)) * unit

    def settling(self, y: FloatArray) -> float:
        """Rate at which the active ones lower the loss: what the dormant ones add grows until one of them joins."""
        if self._known is None or self._known[0] is not y:
            self.loss_and_rate(y)
        assert self._known is not None
        return self._known[1]

    def stiff(self, y: FloatArray) -> tuple[FlowSystem, FloatArray] | None:
        """The active neurons in their weights: only they are stiff, as the others are no part of the residual.

        Where nobody will join any more all flow together: see `weights`.
        """
        if self.last:
            return self._together.stiff(y)
        return self.apart(y, np.isin(self.neurons, self.active) & self.alive)

    def weights(self, y: FloatArray) -> tuple[WeightSystem, FloatArray] | None:
        """The weights, which flow together: what grows there is told from the residual that all of them make.

        At rest they leave none, while that of the active ones alone is then what the dormant ones make: neurons of
        1e-6 would seem to grow on 1e-12 of it for ever.
        """
        return self._together.weights(y)

    def relaxing(self, y: FloatArray) -> float:
        """Rate at which the active ones lower their own loss: it vanishes where they rest, whatever the others add."""
        gradient = self.loss_grad(y, self.active)[1]
        with np.errstate(over="ignore"):
            return float(np.sum(gradient**2)) * float(np.exp(self.log_time_unit))

    def pulls(self, y: FloatArray, velocity: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """What the pull on each neuron has along it, and its length, (H,) each, from the velocity at y; None where that
        does not tell."""
        directions, log_norms, lengths = self._split(y)
        along, turning = velocity[-self.neurons.size :], velocity[: directions.size].reshape(directions.shape)
        if self.power:
            along = along / -self.power
            lengths *= np.exp(self.power * (log_norms - self.log_largest))
        return along, np.hypot(along, row_lengths(turning) / lengths)

    def length(self, y: FloatArray) -> float:
        """Norm of the weights of the active ones."""
        return float(np.linalg.norm(self.params(y)[self.active]))

    def apart_from(self, other: FloatArray, y: FloatArray) -> float:
        """Distance of the active ones from where another state has them."""
        return float(np.linalg.norm((self.params(y) - self.params(other))[self.active]))

    def residual(self, y: FloatArray) -> Any:
        """What the active neurons leave to fit."""
        directions, log_norms, _ = self._split(y)
        return self.problem.residual(self._theta(directions, log_norms)[self.active], self.active)

    def state(self, y: FloatArray, before: State, time: float) -> State:
        """The state at y. Neurons that are exactly zero stay so, and so do those that are smaller beside the largest
        than y can say: they move on no scale of time on which that one does."""
        directions, log_norms, _ = self._split(y)
        log_norms = np.where(self._beyond, before.log_norms, np.where(self.alive, log_norms, -np.inf))
        return replace(before, time=time, directions=directions, log_norms=log_norms)


class Sliding(Riding, SharpSystem):
    """The same where kinks are sharp: neurons slide along them."""

    def pulls(self, y: FloatArray, velocity: FloatArray) -> None:
        """None: kinks hold neurons against a part of it."""

    def stiff(self, y: FloatArray) -> tuple[FlowSystem, FloatArray] | None:
        """The weights in the cone of the last state, where nobody will join any more and all flow together."""
        return SharpSystem.stiff(self, y) if self.last else None


def riding(problem: Problem, state: State, origin: Init, tolerance: float, last: bool = False) -> Riding:
    """Everybody in real time, in the coordinates that the kinks of the problem ask for; see `Riding`.

    tolerance : of a step.
    """
    if problem.kink_normals() is None:
        return Riding(problem, state, origin, last)
    sliding = Sliding(problem, state, origin, last)
    sliding.tolerance = tolerance
    return sliding
