"""The norm at which a dormant neuron activates, and the door at which a plugin's answers are checked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.errors import ProblemError, explain
from agf.integrators import NonFinite

#: Fraction of what a neuron's self-interaction is alone that counts at least: one that the active ones could stand in
#: for has no norm of its own to saturate at. Result: of when such neurons join in mode agf, log(100)/degree e-folds
#: after they would alone at most; at 1e-4 they wait for twice that, at 1 they join as if the active ones were not
#: there. Of five tanh neurons in a line with the first, half of it moves the third drop by 3 %, and twice it makes two
#: drops of four; their bars, 80 to 180 %, hold that.
_LEAST_OWN = 1e-2


@dataclass(frozen=True)
class Threshold:
    """Log norm at which a dormant neuron activates.

    Parameters
    ----------
    problem : Problem
        Whose neurons.
    natural : bool
        Norm R* = (U / 2C)^(1/degree) at which the neuron saturates, else norm 1. C is its self-interaction beside the
        active neurons. U is taken as |grad U| / degree, which is the same once the direction is aligned, and keeps R*
        away from 0 where U passes through 0 while the direction still turns.
    active, active_neurons : (k, P), (k,)
        The network that made the residual.
    log_factor : float
        Added to the log norm (mode "resolved": neurons join at a fraction of R*).
    noise : float
        Utility at unit norm that cannot be told from 0; only a larger one lets a neuron activate.
    """

    problem: Problem
    natural: bool
    active: FloatArray
    active_neurons: IntArray
    log_factor: float = 0.0
    noise: float = 0.0

    def alone(self, directions: FloatArray, neurons: IntArray) -> FloatArray:
        """Self-interaction C of unit neurons without the active ones, (m,), loss. Raises NonFinite."""
        return self._interaction(directions, neurons, self.active[:0], self.active_neurons[:0])

    def log_self_interaction(
        self, directions: FloatArray, neurons: IntArray, alone: FloatArray | None = None
    ) -> FloatArray:
        """log 2C of unit neurons, (m,); -inf where C vanishes. Zeros for unit thresholds.

        Parameters
        ----------
        alone : float ndarray or None, shape (m,), optional
            C without the active neurons, a floor, so that of an earlier direction will do; computed when None.

        Raises
        ------
        NonFinite
            The message names the method and the neurons.
        """
        if not self.natural:
            return np.zeros(neurons.size)
        c = self._interaction(directions, neurons, self.active, self.active_neurons)
        if self.active_neurons.size:
            c = np.maximum(c, _LEAST_OWN * (self.alone(directions, neurons) if alone is None else alone))
        with np.errstate(divide="ignore"):
            return np.log(2.0 * np.maximum(c, 0.0))

    def _interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        c = np.asarray(self.problem.self_interaction(directions, neurons, active, active_neurons), dtype=np.float64)
        expect_shape(self.problem, "self_interaction", c, (neurons.size,))
        refuse_nonfinite(self.problem, "self_interaction", ~np.isfinite(c), neurons)
        return c

    def log_radius(self, aligned: FloatArray, log_2c: FloatArray) -> FloatArray:
        """Log norm of activation, (m,). aligned : utility along the gradient, |grad U| / degree at unit norm, loss."""
        if not self.natural:
            return np.full(aligned.shape, self.log_factor)
        with np.errstate(divide="ignore", invalid="ignore"):
            radius = (np.log(aligned) - log_2c) / self.problem.degree + self.log_factor
        return np.where(np.isnan(radius), np.inf, radius)  # no pull and no self-interaction: it never activates

    def gaps(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Log norm minus the one of activation, -inf where the utility is not positive, and the utility; (m,)."""
        heights, utility = self.heights(directions, log_norms, neurons, residual)
        return np.where(utility > 0, heights, -np.inf), utility

    def heights(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Log norm minus the one of activation, and the utility, whatever its sign; (m,)."""
        utility, gradient = self.problem.utility(directions, neurons, residual)
        aligned = np.linalg.norm(gradient, axis=1) / self.problem.degree
        return self.above(directions, log_norms, neurons, aligned), np.asarray(utility)

    def above(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, aligned: FloatArray
    ) -> FloatArray:
        """Log norm minus the one of activation at utilities along the gradient, (m,); see `log_radius`."""
        radius = self.log_radius(aligned, self.log_self_interaction(directions, neurons))
        return np.asarray(log_norms - radius)


@dataclass(frozen=True)
class ExactThreshold(Threshold):
    """A threshold met exactly: self-interactions are renewed wherever a crossing is near."""


@dataclass(frozen=True)
class EstimatedThreshold(Threshold):
    """A threshold for an estimate of a time: self-interactions are reused until a direction has turned far.

    Parameters
    ----------
    known : float ndarray, shape (H,)
        Log 2C of those computed before, NaN where unknown.
    floors : float ndarray, shape (H,)
        C of them without the active neurons, NaN where unknown.
    """

    known: FloatArray = field(default_factory=lambda: np.zeros(0))
    floors: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, exact: Threshold) -> EstimatedThreshold:
        """The estimate of a threshold, nothing known yet."""
        unknown = np.full(exact.problem.width, np.nan)
        return cls(
            exact.problem,
            exact.natural,
            exact.active,
            exact.active_neurons,
            exact.log_factor,
            exact.noise,
            unknown,
            unknown,
        )

    def learned(self, neurons: IntArray, log_2c: FloatArray, floors: FloatArray) -> EstimatedThreshold:
        """With what was found for neurons (m,)."""
        known, least = self.known.copy(), self.floors.copy()
        known[neurons], least[neurons] = log_2c, floors
        return replace(self, known=known, floors=least)


def expect_shape(problem: Problem, method: str, value: Any, shape: tuple[int, ...]) -> None:
    found = np.shape(value)
    if found != shape:
        raise ProblemError(
            explain(f"`{method}` returned shape {found}.", where=f"problem {problem.name!r}", expected=f"shape {shape}")
        )


def refuse_nonfinite(problem: Problem, method: str, bad: BoolArray, neurons: IntArray) -> None:
    """Raise NonFinite, naming the method and the neurons, where any of them (m,) is bad (m,)."""
    if bad.any():
        named = ", ".join(str(int(i)) for i in neurons[bad][:5]) + (", ..." if bad.sum() > 5 else "")
        message = f"`{method}` returned a non-finite value for neuron(s) {named}."
        raise NonFinite(explain(message, where=f"problem {problem.name!r}"))
