"""Dormant neurons arrive at their thresholds: they are looked for, and written into the state as they stand there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from agf.algorithm.departures.newcomers import half_way
from agf.algorithm.dormant import Crossing, cross
from agf.algorithm.memory import GenericState
from agf.algorithm.phase_run import PhaseRun
from agf.algorithm.threshold import Threshold
from agf.arrays import FloatArray, IntArray
from agf.clock import half_drop_ratio
from agf.integrators import MarchError
from agf.records.state import Activation
from agf.records.status import Status


class Arrivals:
    """Of the dormant neurons of a run.

    Parameters
    ----------
    run : PhaseRun
        Whose neurons.
    """

    def __init__(self, run: PhaseRun) -> None:
        self.run = run

    def race(
        self, state: GenericState, residual: Any, free: IntArray, threshold: Threshold, stop: float
    ) -> Crossing | Status:
        """The first crossing of the neurons `free` (k,) within `stop` of accelerated time, or why there is none."""
        return cross(
            self.run.batch(state, free, residual),
            threshold,
            rtol=self.run.settings.rtol,
            tie_rtol=self.run.settings.tie_rtol,
            stop=stop,
            most=self.run.gradients_left,
            stats=self.run.stats,
        )

    def write(self, state: GenericState, waiting: IntArray, found: Crossing) -> tuple[GenericState, Activation]:
        """The state at a crossing of the neurons `waiting` (k,), and who activates."""
        time = state.time + found.time
        directions, log_norms = state.directions.copy(), state.log_norms.copy()
        directions[waiting], log_norms[waiting] = found.directions, found.log_norms
        neurons = waiting[found.neurons]
        if found.time > 0:  # at time zero a neuron may stand above its threshold, and starts from there
            log_norms[neurons] = np.minimum(log_norms[neurons], found.log_radius)
        memory = state.memory.activated(neurons, found.log_radius, self._sizes(state, neurons, found))
        runner_up = None if found.runner_up is None else (int(waiting[found.runner_up[0]]), found.runner_up[1])
        after = replace(
            state,
            time=time,
            directions=directions,
            log_norms=log_norms,
            memory=memory.mark(waiting[found.growing], True),
        )
        half = max(time - self._half_lead(found), state.time)
        return after, Activation(time, half, neurons, found.utility, runner_up)

    def _sizes(self, state: GenericState, neurons: IntArray, found: Crossing) -> FloatArray:
        """Log norm at which each of the neurons that activate saturates, (k,), whatever the threshold: of a group with
        norm R*, its share."""
        if self.run.settings.threshold == "natural":
            return np.minimum(found.log_radius, found.log_norms[found.neurons])
        natural = replace(self.run.threshold(state), natural=True)
        log_2c = natural.log_self_interaction(found.directions[found.neurons], neurons)
        return natural.log_radius(found.utility, log_2c)

    def _half_lead(self, found: Crossing) -> float:
        """Accelerated time by which the half-drop comes before the switch: the frozen law from n_kappa R* to R*."""
        if self.run.settings.threshold == "unit":
            return 0.0
        kappa = self.run.problem.degree
        ratio = half_drop_ratio(kappa)
        k = int(np.argmax(found.utility))
        utility, log_radius = float(found.utility[k]), float(found.log_radius[k])
        gap = -np.log(ratio) if kappa == 2 else (ratio ** (2.0 - kappa) - 1.0) / (kappa - 2)
        return float(gap / (kappa * utility) * np.exp((2 - kappa) * log_radius - self.run.clock.log_scale))

    def above(self, state: GenericState, gone: IntArray) -> tuple[GenericState, Activation | None]:
        """Dormant neurons that have made half their drop by now, but for those that collapsed in this phase."""
        waiting = np.setdiff1d(np.flatnonzero(~state.active), gone)
        if waiting.size == 0 or state.level <= self.run.negligible():
            return state, None
        residual = self.run.residual(state)
        try:
            threshold = half_way(self.run.threshold(state), self.run.problem.degree)
            found = self.race(state, residual, waiting, threshold, 0.0)
        except MarchError:
            return state, None  # the next dormant phase meets it again, and reports it
        return self.write(state, waiting, found) if isinstance(found, Crossing) else (state, None)
