"""What a phase reports: who activated and how narrowly, and where the active neurons settled."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray

M = TypeVar("M")


@dataclass(frozen=True)
class State(Generic[M]):
    """Everything that evolves; `Engine.step` takes one and returns the next. Never modified in place.

    Parameters
    ----------
    time : float
        Accelerated time (flow time / clock.scale).
    active : (H,) bool
        Which neurons are active.
    directions : (H, P)
        Unit rows, of dormant and active neurons alike.
    log_norms : (H,)
        Natural logs of the norms; a dormant neuron's charge is implied by them.
    level : float
        Loss of the active neurons alone.
    memory : M
        What the phases carry from step to step beyond that: a frozen record of their own, opaque to the engine.
    """

    time: float
    active: BoolArray
    directions: FloatArray
    log_norms: FloatArray
    level: float
    memory: M = None  # type: ignore[assignment]

    @cached_property
    def params(self) -> FloatArray:
        """Parameters (H, P) with dormant rows zero: the network the level belongs to."""
        rho = np.where(self.active, np.exp(np.where(self.active, self.log_norms, 0.0)), 0.0)
        return self.directions * rho[:, None]

    def rows(self, neurons: IntArray) -> FloatArray:
        """Parameters (m, P) of some neurons."""
        return self.directions[neurons] * np.exp(self.log_norms[neurons])[:, None]


@dataclass(frozen=True)
class Activation:
    """Neurons that reached their threshold together.

    Parameters
    ----------
    time : float
        Accelerated time of the switch.
    half_time : float
        Accelerated time at which the loss has fallen half-way (time of the switch if threshold="unit").
    neurons : int ndarray, shape (k,)
        Indices, k > 1 for a tie.
    utility : float ndarray, shape (k,)
        Utility at unit norm, loss.
    runner_up : tuple[int, float] or None
        Index of the neuron that would have been next and the accelerated time it still lacked, or None.
    """

    time: float
    half_time: float
    neurons: IntArray
    utility: FloatArray
    runner_up: tuple[int, float] | None = None


@dataclass(frozen=True)
class Settled:
    """Where the active neurons ended.

    Parameters
    ----------
    level : float
        Loss there.
    collapsed : int ndarray, shape (j,)
        Indices that returned to dormancy.
    grad_norm : float
        Euclidean norm of dL/dtheta over the active parameters.
    predicted_decrease : float
        Loss the flow could still lose before the next activation (first order), the certificate.
    how : str
        "closed form" | "flow" | "horizon" | "infimum" | "rounding" ..., a word for the record (`active.Rest`).
    critical : bool
        Whether this is a critical point (up to the certificate), not just the loss at a horizon.
    joined : int ndarray, shape (k,)
        Indices that became active during the phase: the loss fell so far that they stood above their thresholds before
        any time had passed.
    utility : float ndarray, shape (k,)
        Utility at unit norm of those that joined, then.
    half_time : float or None
        Accelerated time of the half-drop where the phase followed the whole drop; else that of the activation stands.
    """

    level: float
    collapsed: IntArray
    grad_norm: float
    predicted_decrease: float
    how: str
    critical: bool = True
    joined: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    utility: FloatArray = field(default_factory=lambda: np.zeros(0))
    half_time: float | None = None
