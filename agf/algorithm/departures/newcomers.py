"""Dormant neurons that activate in the drop of another, without any time having passed for them.

[AGF] activates one neuron a phase. As the residual shrinks so do thresholds: once the flow is over, some stand above
theirs, and those join there and then. So do those that stand where a neuron has made half its own drop, as it would
come half-way before the switch that made this one. Then the flow goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from agf.algorithm.threshold import ExactThreshold
from agf.arrays import FloatArray, IntArray
from agf.clock import half_drop_ratio
from agf.records.state import Activation, Settled, State


def half_way(threshold: ExactThreshold, degree: int) -> ExactThreshold:
    """The norms at which neurons have made half their drop, in place of those at which they saturate."""
    return replace(threshold, log_factor=float(np.log(half_drop_ratio(degree)))) if threshold.natural else threshold


@dataclass
class Newcomers:
    """The parts of one drop, which starts at the loss `before` by the activation `first`.

    Attributes
    ----------
    parts : list of tuples
        (accelerated time, level) of each.
    neurons : int ndarray, shape (k,)
        Who joined after the first.
    utility : float ndarray, shape (k,)
        At which.
    """

    first: Activation
    before: float
    parts: list[tuple[float, float]] = field(default_factory=list)
    neurons: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    utility: FloatArray = field(default_factory=lambda: np.zeros(0))

    def settled(self, level: float) -> None:
        """A part of the drop is over, at this level."""
        self.parts.append((self.first.time if self.parts else self.first.half_time, level))

    def join(self, found: Activation) -> None:
        """The next part begins."""
        self.neurons = np.append(self.neurons, found.neurons)
        self.utility = np.append(self.utility, found.utility)

    def whole(self, state: State, settled: Settled) -> Settled:
        """What the drop came to, from its last part; its half-drop time is of the part that takes it past its half."""
        stayed = state.active[self.neurons]
        middle = 0.5 * (self.before + settled.level)
        half = next((time for time, level in self.parts if level <= middle), self.first.half_time)
        return replace(settled, joined=self.neurons[stayed], utility=self.utility[stayed], half_time=half)
