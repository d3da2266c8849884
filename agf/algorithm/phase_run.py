"""One run of the phases that serve any problem, and what its tolerances mean beside the network of a state."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from agf.algorithm.field import Batch
from agf.algorithm.memory import GenericState, PhaseMemory
from agf.algorithm.task import Task
from agf.algorithm.threshold import ExactThreshold
from agf.arrays import IntArray
from agf.contract.order import Order, order
from agf.records.state import State


class PhaseRun:
    """Where a run starts, what it counts and notes, and what both phases need to know of a state.

    Parameters
    ----------
    task : Task
        What the run is given.
    """

    def __init__(self, task: Task) -> None:
        self.task, self.problem, self.origin, self.settings = task, task.problem, task.init, task.settings
        self.clock, self.start_level = task.clock, task.start_level
        self.stats: dict[str, float] = {}
        self.notes: list[str] = []

    def start(self) -> GenericState:
        """All neurons dormant, time 0; what is active for ever is so from here on."""
        init = self.origin
        first = np.isin(np.arange(init.width), self.problem.permanent)
        memory = PhaseMemory.of(init.width)
        return State(0.0, first, init.directions.copy(), init.log_norms.copy(), self.start_level, memory)

    def residual(self, state: GenericState) -> Any:
        """Of the active neurons."""
        active = np.flatnonzero(state.active)
        return self.problem.residual(state.params[active], active)

    def batch(self, state: GenericState, rows: IntArray, residual: Any) -> Batch:
        """Dormant neurons `rows` (k,) on a residual."""
        directions, log_norms = state.directions[rows], state.log_norms[rows]
        return Batch(self.problem, residual, self.clock, directions, log_norms, rows, self.origin)

    def threshold(self, state: GenericState) -> ExactThreshold:
        """What each dormant neuron has to reach beside the active ones."""
        active = np.flatnonzero(state.active)
        natural = self.settings.threshold == "natural"
        noise = self.noise(state) / self.problem.degree
        return ExactThreshold(self.problem, natural, state.params[active], active, noise=noise)

    def steepest(self, state: GenericState, waiting: IntArray) -> float:
        """Largest utility gradient at unit norm over the dormant neurons."""
        alive = waiting[np.isfinite(state.log_norms[waiting])]
        if alive.size == 0:
            return 0.0
        residual = self.residual(state)
        gradient = np.asarray(self.problem.utility(state.directions[alive], alive, residual)[1])
        return float(np.linalg.norm(gradient.reshape(alive.size, -1), axis=1).max())

    def order(self, state: GenericState, waiting: IntArray) -> Order:
        """The order that decides whether the dormant neurons grow."""
        if not self.problem.smooth:
            return Order.LEADING
        alive = waiting[np.isfinite(state.log_norms[waiting])]
        return order(self.problem, state.directions[alive], alive, self.residual(state), state.level)

    @cached_property
    def steepest_at_start(self) -> float:
        """Largest utility gradient of the neurons at the start, which tolerances refer to. Raises NonFinite."""
        state = self.start()
        return self.steepest(state, np.flatnonzero(~state.active))

    def noise(self, state: GenericState) -> float:
        """Utility gradient that cannot be told from 0: losses are known to rtol, residuals and utilities to its root.

        On kinks the active neurons are only where their integrator puts them, to the same root of rtol at any loss.
        """
        if not state.active.any():
            return 0.0
        part = 1.0 if not self.problem.smooth else np.sqrt(min(state.level / self.start_level, 1.0))
        return float(np.sqrt(self.settings.rtol) * part * self.steepest_at_start)

    def negligible(self) -> float:
        """Loss that cannot be told from 0."""
        return self.task.tolerated

    def time_left(self, state: GenericState) -> float:
        """Accelerated time until t_max."""
        limit = self.settings.t_max
        return np.inf if limit is None else max(float(self.clock.accelerated(limit)) - state.time, 0.0)

    @property
    def gradients_left(self) -> float:
        """Gradients that it may still take; inf where no number was asked for."""
        spent = sum(value for name, value in self.stats.items() if name.endswith("evaluations"))
        return self.task.budget(spent, np.inf)

    def count(self, name: str, number: float) -> None:
        """Add to a counter."""
        self.stats[name] = self.stats.get(name, 0) + number
