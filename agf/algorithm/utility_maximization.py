"""Utility maximization until the next neuron activates ([AGF] Algorithm 1), or the reason why none does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf.algorithm.arrivals import Arrivals
from agf.algorithm.departures.discharge import ALIGNED, Discharge
from agf.algorithm.departures.infimum import end_status, why_undecided
from agf.algorithm.departures.opening import opening
from agf.algorithm.dormant import Crossing, carry_batch
from agf.algorithm.memory import GenericState
from agf.algorithm.phase_run import PhaseRun
from agf.arrays import IntArray
from agf.contract.order import Order
from agf.integrators import MarchError
from agf.records.state import Activation
from agf.records.status import Status
from agf.stopping.ending import failure


class UtilityMaximization:
    """The phase in which dormant neurons move on a frozen residual (`dormant.cross`).

    Parameters
    ----------
    run : PhaseRun
        Whose neurons.
    arrivals : Arrivals
        How they activate.
    """

    def __init__(self, run: PhaseRun, arrivals: Arrivals) -> None:
        self.run, self.arrivals = run, arrivals
        self.symmetric = False  # whether the run ended where utilities vanish

    def to_activation(self, state: GenericState) -> tuple[GenericState, Activation | Status]:
        """The state at the next activation, or the status that says why there is none."""
        run = self.run
        first = opening(run.problem, run.clock, state, run.start_level, run.settings.rtol)
        if first is not None:
            return state, first
        waiting = np.flatnonzero(~state.active)
        if state.level <= run.negligible():
            return state, Status.FITTED
        if waiting.size == 0:
            return state, end_status(state.memory.drifting, Status.ALL_ACTIVE)
        try:
            steepest = run.steepest(state, waiting) if state.active.any() else run.steepest_at_start
            if (decides := run.order(state, waiting)) is not Order.LEADING:
                self.symmetric = decides is Order.NEXT
                return state, Status.NO_GROWTH
            if 0.0 < steepest <= run.noise(state):
                return state, Status.FITTED
            state, free, found, elapsed = self._race(state, waiting)
        except MarchError as error:
            run.notes.append(str(error))
            return state, failure(error)
        if found is Status.NO_GROWTH and 0.0 < steepest <= 3.0 * run.noise(state):
            return state, Status.FITTED
        if isinstance(found, Status):
            return state, end_status(state.memory.drifting, found) if found is Status.NO_GROWTH else found
        doubt = why_undecided(found.gain, state.memory.left)
        if doubt is not None:
            run.notes.append(doubt)
            return state, Status.NO_CRITICAL_POINT
        return self.arrivals.write(state, free, replace(found, time=elapsed + found.time))

    def _race(self, state: GenericState, waiting: IntArray) -> tuple[GenericState, IntArray, Crossing | Status, float]:
        """The first crossing of the neurons that are free to turn, and the time that passed before they were.

        Neurons that give back their charge (`discharge`) are taken along; each that is home joins the free ones.
        """
        run = self.run
        residual, threshold = run.residual(state), run.threshold(state)
        stop, elapsed = run.time_left(state), 0.0
        while True:
            held = Discharge.of(run.problem, residual, run.clock, run.origin, state, ALIGNED * run.settings.rtol)
            free = np.setdiff1d(waiting, held.neurons)
            home = float(np.min(held.home(state), initial=np.inf))
            found = self.arrivals.race(state, residual, free, threshold, min(stop - elapsed, home))
            if isinstance(found, Crossing):
                return held.advance(state, found.time), free, found, elapsed
            if not home < stop - elapsed or found is Status.MAX_STEPS:
                return state, free, found, elapsed
            directions, log_norms = state.directions.copy(), state.log_norms.copy()
            batch = run.batch(state, free, residual)
            directions[free], log_norms[free] = carry_batch(batch, home, rtol=run.settings.rtol, stats=run.stats)
            state = held.advance(replace(state, directions=directions, log_norms=log_norms), home)
            elapsed += home
