"""The staircase as alpha -> 0: alignment takes no time, and charges grow linearly between drops.

Where a problem has a closed form with times, that is the answer. Otherwise, for degree 2: each dormant neuron sits at
the local maximum of its utility that its flow reaches, its charge grows at the rate degree U there, and the first to
reach charge 1 (in units of -log alpha) activates; the active neurons then flow to their critical point.
"""

from __future__ import annotations

import time as wall
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from agf.algorithm import dormant as dormancy
from agf.algorithm.departures.discharge import Discharge, mark
from agf.algorithm.engine import record
from agf.algorithm.phases import GenericPhases
from agf.algorithm.threshold import NonFinite, Threshold
from agf.arrays import FloatArray, IntArray
from agf.clock import Clock
from agf.contract.blame import guard
from agf.contract.problem import Problem
from agf.errors import NoTheory, RequestError, explain
from agf.init import Init
from agf.records.checkpoint import Checkpoint
from agf.records.settings import Settings
from agf.records.state import Activation, State
from agf.records.status import Status
from agf.results.staircase import Drop, Staircase
from agf.sphere import tangent

#: Directions follow their flow for this many times the growth time of the fastest neuron to reach their local maximum.
_ALIGNMENT = 1e4
#: ... or until nobody turns any more (to rtol in the utility); looked at first after this many.
_CHUNK = 10.0

#: Tangent part of a utility gradient, relative to it, at which a direction counts as aligned with or against it.
_EQUILIBRIUM = 1e-2

Observer = Callable[[State, Drop | None], None]


def limit(
    problem: Problem, init: Init, settings: Settings, observer: Observer | None = None, kept: Checkpoint | None = None
) -> Staircase:
    """The alpha -> 0 staircase from the directions of `init`; accelerated times are in units of -log alpha.

    Flow times are the accelerated times times -log alpha of `init`. A neuron that collapses has charge 1, and gives it
    back along the direction it had before it turns anew (`discharge`).
    Raises RequestError for a degree above 2 without a closed form that gives times.
    """
    try:
        stairs = problem.theory(alpha=init.alpha)
        if np.isfinite(stairs.accelerated_times).all():
            return _cut(replace(stairs, settings=settings, init=init))
    except NoTheory:
        pass
    if problem.degree != 2:
        raise RequestError(
            explain(
                f"the limit alpha -> 0 has no jump times for degree {problem.degree}.",
                where=f"problem {problem.name!r}",
                remedy='Use mode="agf" with a finite alpha; theory() has the levels where they are known.',
            )
        )
    began = wall.perf_counter()
    run = _Run(problem, init, settings)

    def result(status: Status) -> Staircase:
        return Staircase(
            problem=problem.name,
            degree=2,
            clock=run.clock,
            start_level=run.start_level,
            drops=tuple(run.drops),
            status=status,
            settings=settings,
            init=init,
            arguments=problem.arguments,
            stats={**run.phases.stats, "seconds": wall.perf_counter() - began},
            notes=(*run.phases.notes, *run.notes),
        )

    if kept is not None:
        observer = kept.watching(observer, lambda: result(Status.INTERRUPTED))
    with guard(problem, lambda: result(Status.ERROR) if run.drops else None):
        return result(run.go(observer))


def _cut(stairs: Staircase) -> Staircase:
    """A closed form up to the bounds in its settings."""
    drops, top, end = stairs.drops, stairs.settings.max_drops, stairs.settings.max_time
    status = stairs.status
    if end is not None and any(drop.time > end for drop in drops):
        drops, status = tuple(drop for drop in drops if drop.time <= end), Status.MAX_TIME
    if top is not None and len(drops) > top:
        drops, status = drops[:top], Status.MAX_DROPS
    bounds = None if stairs.bounds is None else stairs.bounds[: len(drops)]
    return replace(stairs, drops=drops, status=status, bounds=bounds)


class _Run:
    def __init__(self, problem: Problem, init: Init, settings: Settings) -> None:
        self.problem, self.settings = problem, settings
        self.clock = (
            Clock(2, float(np.log(-init.log_alpha))) if init.log_alpha < 0 else Clock.from_norms(2, init.log_norms)
        )
        self.phases = GenericPhases(
            problem, replace(settings, mode="agf", threshold="natural", settle="converged"), self.clock
        )
        self.charges = np.where(np.isfinite(init.log_norms), 0.0, -np.inf)
        # Every neuron starts at the same distance from norm 1, whatever its norm: that is the limit.
        self.state = self.phases.start(replace(init, log_norms=self._norms()))
        self.start_level = self.state.level
        self.drops: list[Drop] = []
        self.notes: list[str] = []

    def _norms(self) -> FloatArray:
        """Log norms of dormant neurons by their charges, (H,): 0 at charge 1, log alpha at charge 0."""
        return (self.charges - 1.0) * self.clock.scale

    def go(self, observer: Observer | None) -> Status:
        """Drops until nothing grows; the status says why it ended."""
        top = self.settings.max_drops
        try:
            while top is None or len(self.drops) < top:
                status = self._step()
                if observer is not None:
                    observer(self.state, self.drops[-1] if self.drops and status is None else None)
                if status is not None:
                    return status
            return Status.MAX_DROPS
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        except NonFinite as error:
            self.notes.append(str(error))
            return Status.NONFINITE

    def _step(self) -> Status | None:
        if self.state.level <= self.settings.rtol * self.start_level:
            return Status.FITTED
        waiting = np.flatnonzero(~self.state.active & np.isfinite(self.charges))
        if waiting.size == 0:
            return Status.ALL_ACTIVE
        active = np.flatnonzero(self.state.active)
        residual = self.problem.residual(self.state.params[active], active)
        while True:
            held = Discharge.of(self.problem, residual, self.clock, self.state, _EQUILIBRIUM)
            free = np.setdiff1d(waiting, held.neurons)
            directions, utility = self._aligned(free, residual)
            wait = self._wait(free, utility)
            first = float(wait.min(initial=np.inf))
            home = self.charges[held.neurons] / (-2.0 * held.utilities)
            earliest = float(home.min(initial=np.inf))
            step = min(first, earliest)
            if not np.isfinite(step):
                return Status.NO_GROWTH
            time = self.state.time + step
            if self.settings.max_time is not None and float(self.clock.flow(time)) > self.settings.max_time:
                return Status.MAX_TIME
            self.charges[free] += 2.0 * utility * step
            self.charges[held.neurons] += 2.0 * held.utilities * step
            if first <= earliest:
                return self._activate(time, free, wait, directions, utility)
            self._send_home(held.neurons[home <= earliest * (1.0 + self.settings.tie_rtol)], time)

    def _wait(self, free: IntArray, utility: FloatArray) -> FloatArray:
        """Accelerated time until each reaches charge 1, (m,); inf where the utility is not positive, or is rounding."""
        growing = utility > self.settings.rtol * max(float(np.max(utility, initial=0.0)), 0.0)
        wait = np.full(free.size, np.inf)
        wait[growing] = np.maximum(1.0 - self.charges[free][growing], 0.0) / (2.0 * utility[growing])
        return wait

    def _send_home(self, neurons: IntArray, time: float) -> None:
        """Neurons that have given back their charge turn anew from their initial direction."""
        directions = self.state.directions.copy()
        directions[neurons] = self.state.memory["home_directions"][neurons]
        self.charges[neurons] = 0.0
        norms = np.where(self.state.active, self.state.log_norms, self._norms())
        memory = mark(self.state.memory, neurons, False)
        self.state = replace(self.state, time=time, directions=directions, log_norms=norms, memory=memory)

    def _aligned(self, waiting: IntArray, residual: object) -> tuple[FloatArray, FloatArray]:
        """Directions (m, P) at the local maxima that the dormant neurons' flows reach, and the utilities there (m,)."""
        _, gradient = self.problem.utility(self.state.directions[waiting], waiting, residual)
        drive = float(np.linalg.norm(gradient, axis=1).max(initial=0.0))
        if drive == 0.0:
            return self.state.directions[waiting], np.zeros(waiting.size)
        directions, flown, chunk = self.state.directions[waiting], 0.0, _CHUNK / drive
        while True:
            utility, gradient = self.problem.utility(directions, waiting, residual)
            turning = np.linalg.norm(tangent(directions, gradient), axis=1)
            own = np.maximum(np.linalg.norm(gradient, axis=1), self.settings.rtol * drive)
            if (turning <= np.sqrt(self.settings.rtol) * own).all() or flown >= _ALIGNMENT / drive:
                return directions, np.asarray(utility)
            directions, _ = dormancy.carry(
                self.problem,
                residual,
                self.clock,
                directions,
                np.zeros(waiting.size),
                waiting,
                float(self.clock.accelerated(chunk)),
                rtol=self.settings.rtol,
                stats=self.phases.stats,
            )
            flown, chunk = flown + chunk, 2.0 * chunk

    def _activate(
        self,
        time: float,
        waiting: IntArray,
        wait: FloatArray,
        directions: FloatArray,
        utility: FloatArray,
    ) -> Status | None:
        first = float(wait.min())
        chosen = wait <= first + self.settings.tie_rtol * max(first, self.state.time)
        later = np.where(chosen, np.inf, wait)
        runner_up = None
        if np.isfinite(later).any():
            runner_up = (int(waiting[np.argmin(later)]), float(later.min() - first))
        neurons = waiting[chosen]
        active = np.flatnonzero(self.state.active)
        threshold = Threshold(self.problem, True, self.state.params[active], active)
        log_2c = threshold.log_self_interaction(directions[chosen], neurons)
        radius = threshold.log_radius(utility[chosen], log_2c)
        turned, log_norms = self.state.directions.copy(), self.state.log_norms.copy()
        turned[waiting], log_norms[waiting] = directions, self._norms()[waiting]
        log_norms[neurons] = radius
        radii = self.state.memory["radii"].copy()
        radii[neurons] = radius  # of both memories: the threshold is the natural one
        state = replace(
            self.state,
            time=time,
            directions=turned,
            log_norms=log_norms,
            memory=mark({**self.state.memory, "radii": radii, "sizes": radii}, waiting[utility > 0], True),
        )
        activation = Activation(time, time, neurons, utility[chosen], runner_up)
        state, settled = self.phases.active(state, activation)
        self.state = state
        if isinstance(settled, Status):
            return settled
        self.charges[settled.collapsed] = 1.0
        self.state = replace(state, log_norms=np.where(state.active, state.log_norms, self._norms()))
        self.drops.append(record(self.problem, self.clock, state, activation, settled))
        return None
