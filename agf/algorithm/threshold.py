"""The norm at which a dormant neuron activates, and the door at which a plugin's answers are checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.errors import ProblemError, explain

#: A neuron that the active ones could stand in for has no norm of its own to saturate at. Its self-interaction counts
#: as at least this part of what it is alone, or it would wait for ever while the active ones relax.
_LEAST_OWN = 1e-2


class NonFinite(Exception):
    """A plugin returned a non-finite value where the step cannot be shortened any more; str() names who and where."""


@dataclass
class Threshold:
    """Log norm at which a dormant neuron activates.

    natural : norm R* = (U / 2C)^(1/degree) at which the neuron saturates, else norm 1.  C is its self-interaction
        beside the active neurons. U is taken as |grad U| / degree, which is the same once the direction is aligned, and
        keeps R* away from 0 where U passes through 0 while the direction still turns.
    active, active_neurons : the network that made the residual.
    log_factor : added to the log norm (mode "resolved": neurons join at a fraction of R*).
    noise : utility at unit norm that cannot be told from 0; only a larger one lets a neuron activate.
    memory : (H,) log 2C of each neuron, NaN where unknown, for estimates: reused until the direction has turned far.
    """

    problem: Problem
    natural: bool
    active: FloatArray
    active_neurons: IntArray
    log_factor: float = 0.0
    noise: float = 0.0
    memory: FloatArray | None = None
    calls: int = field(default=0, init=False)
    alone: FloatArray = field(default_factory=lambda: np.zeros(0), init=False)

    def log_self_interaction(self, directions: FloatArray, neurons: IntArray) -> FloatArray:
        """log 2C of unit neurons, (m,); -inf where C vanishes. Zeros for unit thresholds.

        Raises NonFinite, naming the method and the neurons.
        """
        if not self.natural:
            return np.zeros(neurons.size)
        c = self._interaction(directions, neurons, self.active, self.active_neurons)
        if self.active_neurons.size:
            c = np.maximum(c, _LEAST_OWN * self._alone(directions, neurons))
        with np.errstate(divide="ignore"):
            return np.log(2.0 * np.maximum(c, 0.0))

    def _alone(self, directions: FloatArray, neurons: IntArray) -> FloatArray:
        """Self-interaction without the active neurons, (m,): a floor, so that of an earlier direction will do."""
        if self.alone.size == 0:
            self.alone = np.full(self.problem.width, np.nan)
        new = np.isnan(self.alone[neurons])
        if new.any():
            self.alone[neurons[new]] = self._interaction(
                directions[new], neurons[new], self.active[:0], self.active_neurons[:0]
            )
        return self.alone[neurons]

    def _interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        self.calls += 1
        c = np.asarray(self.problem.self_interaction(directions, neurons, active, active_neurons), dtype=np.float64)
        expect_shape(self.problem, "self_interaction", c, (neurons.size,))
        refuse_nonfinite(self.problem, "self_interaction", ~np.isfinite(c), neurons)
        return c

    def log_radius(self, drive: FloatArray, log_2c: FloatArray) -> FloatArray:
        """Log norm of activation, (m,). drive : |grad U| / degree at unit norm, loss."""
        if not self.natural:
            return np.full(drive.shape, self.log_factor)
        with np.errstate(divide="ignore", invalid="ignore"):
            radius = (np.log(drive) - log_2c) / self.problem.degree + self.log_factor
        return np.where(np.isnan(radius), np.inf, radius)  # no drive and no self-interaction: it never activates

    def gaps(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Log norm minus the one of activation, -inf where the utility is not positive, and the utility; (m,)."""
        utility, gradient = self.problem.utility(directions, neurons, residual)
        drive = np.linalg.norm(gradient, axis=1) / self.problem.degree
        radius = self.log_radius(drive, self.log_self_interaction(directions, neurons))
        return np.where(utility > 0, log_norms - radius, -np.inf), np.asarray(utility)


def expect_shape(problem: Problem, method: str, value: Any, shape: tuple[int, ...]) -> None:
    found = np.shape(value)
    if found != shape:
        raise ProblemError(
            explain(f"`{method}` returned shape {found}.", where=f"problem {problem.name!r}", expected=f"shape {shape}")
        )


def refuse_nonfinite(problem: Problem, method: str, bad: BoolArray, neurons: IntArray) -> None:
    if bad.any():
        named = ", ".join(str(int(i)) for i in neurons[bad][:5]) + (", ..." if bad.sum() > 5 else "")
        raise NonFinite(
            explain(f"`{method}` returned a non-finite value for neuron(s) {named}.", where=f"problem {problem.name!r}")
        )
