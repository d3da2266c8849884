"""The two phases for any problem: what `Engine` uses where a problem brings none of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from agf import integrators
from agf.algorithm.active import Rest, settle
from agf.algorithm.departures import collapse
from agf.algorithm.departures.discharge import ALIGNED, Discharge
from agf.algorithm.departures.following import Following
from agf.algorithm.departures.infimum import critical, ended, note, undecided
from agf.algorithm.departures.newcomers import Newcomers, half_way
from agf.algorithm.departures.opening import opening
from agf.algorithm.departures.symmetry import vanish
from agf.algorithm.dormant import Crossing, carried, cross
from agf.algorithm.memory import GenericState, Memory
from agf.algorithm.next_activation import NextActivation
from agf.algorithm.stepper import Batch
from agf.algorithm.threshold import EstimatedThreshold, ExactThreshold, NonFinite, Threshold
from agf.arrays import FloatArray, IntArray
from agf.clock import Clock, half_drop_ratio
from agf.contract.problem import Problem
from agf.init import Init
from agf.records.settings import Settings
from agf.records.state import Activation, Settled, State
from agf.records.status import Status
from agf.sphere import cartesian, polar

#: Waits for the next activation for which settle="converged" follows the flow. Result: what decays a thousandfold more
#: slowly than the next neuron grows is not followed; at 100 a hundredfold, at 1e4 flows that never converge take ten
#: times as long.
CONVERGED = 1000.0
#: Horizon when no activation is to come, in times since the start, or CONVERGED durations of the drop if that is
#: longer. Result: of the last level where it falls like a power of time; at 1 it would be that of the last drop's own
#: slow end, at 100 such a fall is followed ten times as long.
_LAST_TIMES = 10.0


class GenericPhases:
    """Utility maximization by `dormant.cross`, cost minimization by `active.settle` ([AGF] Algorithm 1).

    Parameters
    ----------
    problem : Problem
        What is trained.
    init : Init
        From where.
    settings : Settings
        How to predict.
    """

    def __init__(self, problem: Problem, init: Init, settings: Settings) -> None:
        self.problem, self.settings = problem, settings
        self.origin, self.clock = self._scale(init)
        none, no_index = np.zeros((0, init.n_params)), np.zeros(0, dtype=np.int64)
        self.start_level = float(problem.loss_grad(none, no_index)[0])
        self.stats: dict[str, float] = {}
        self.notes: list[str] = []
        self.symmetric = False  # whether the run ended where utilities vanish

    def _scale(self, init: Init) -> tuple[Init, Clock]:
        """Where neurons start, and what accelerated time is."""
        return init, Clock.from_norms(self.problem.degree, np.delete(init.log_norms, self.problem.permanent))

    @cached_property
    def _start_drive(self) -> float:
        """Largest utility gradient of the neurons at the start, which tolerances refer to. Raises NonFinite."""
        state = self.start()
        return self._drive(state, np.flatnonzero(~state.active))

    def start(self) -> GenericState:
        """All neurons dormant, time 0; what is active for ever is so from here on."""
        init = self.origin
        first = np.isin(np.arange(init.width), self.problem.permanent)
        return State(0.0, first, init.directions.copy(), init.log_norms.copy(), self.start_level, Memory.of(init.width))

    # -- utility maximization ---------------------------------------------------------------------------------

    def dormant(self, state: GenericState) -> tuple[GenericState, Activation | Status]:
        """Until the next activation, or the status that says why there is none."""
        first = self._opening(state)
        if first is not None:
            return state, first
        waiting = np.flatnonzero(~state.active)
        if state.level <= self._negligible():
            return state, Status.FITTED
        if waiting.size == 0:
            return state, ended(state.memory.drifting, Status.ALL_ACTIVE)
        try:
            drive = self._drive(state, waiting) if state.active.any() else self._start_drive
            if self._vanish(state, waiting):
                self.symmetric = True
                return state, Status.NO_GROWTH
            if 0.0 < drive <= self._noise(state):
                return state, Status.FITTED
            state, free, found, elapsed = self._race(state, waiting)
        except NonFinite as error:
            self.notes.append(str(error))
            return state, Status.NONFINITE
        except integrators.Stalled as error:
            self.notes.append(str(error))
            return state, Status.STALLED
        if found is Status.NO_GROWTH and 0.0 < drive <= 3.0 * self._noise(state):
            return state, Status.FITTED
        if isinstance(found, Status):
            return state, ended(state.memory.drifting, found) if found is Status.NO_GROWTH else found
        doubt = undecided(found.gain, state.memory.left)
        if doubt is not None:
            self.notes.append(doubt)
            return state, Status.NO_CRITICAL_POINT
        return self._arrive(state, free, replace(found, time=elapsed + found.time))

    def _opening(self, state: GenericState) -> Activation | None:
        """What is active for ever moves at the start, before all dormant neurons; None later, or if there is none."""
        who = list(self.problem.permanent)
        if not who or state.time > 0 or state.level < self.start_level:
            return None
        return opening(self.problem, self.clock, state.params[who], self.settings.rtol)

    def _vanish(self, state: GenericState, waiting: IntArray) -> bool:
        """Whether the utilities of the dormant neurons are rounding, by a symmetry that a higher order breaks."""
        if not self.problem.smooth:
            return False
        alive, active = waiting[np.isfinite(state.log_norms[waiting])], np.flatnonzero(state.active)
        residual = self.problem.residual(state.params[active], active)
        return vanish(self.problem, self._threshold(state), state.directions[alive], alive, residual, state.level)

    def _race(self, state: GenericState, waiting: IntArray) -> tuple[GenericState, IntArray, Crossing | Status, float]:
        """The first crossing of the neurons that are free to turn, and the time that passed before they were.

        Neurons that give back their charge (`discharge`) are taken along; each that is home joins the free ones.
        """
        active = np.flatnonzero(state.active)
        residual = self.problem.residual(state.params[active], active)
        threshold = self._threshold(state)
        stop, elapsed = self._stop(state), 0.0
        while True:
            held = Discharge.of(self.problem, residual, self.clock, self.origin, state, ALIGNED * self.settings.rtol)
            free = np.setdiff1d(waiting, held.neurons)
            home = float(np.min(held.home(state), initial=np.inf))
            found = self._cross(state, residual, free, threshold, min(stop - elapsed, home))
            if isinstance(found, Crossing):
                return held.advance(state, found.time), free, found, elapsed
            if not home < stop - elapsed or found is Status.MAX_STEPS:
                return state, free, found, elapsed
            directions, log_norms = state.directions.copy(), state.log_norms.copy()
            batch = self._batch(state, free, residual)
            directions[free], log_norms[free] = carried(batch, home, rtol=self.settings.rtol, stats=self.stats)
            state = held.advance(replace(state, directions=directions, log_norms=log_norms), home)
            elapsed += home

    def _arrive(self, state: GenericState, waiting: IntArray, found: Crossing) -> tuple[GenericState, Activation]:
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
        if self.settings.threshold == "natural":
            return np.minimum(found.log_radius, found.log_norms[found.neurons])
        natural = replace(self._threshold(state), natural=True)
        log_2c = natural.log_self_interaction(found.directions[found.neurons], neurons)
        return natural.log_radius(found.utility, log_2c)

    def _half_lead(self, found: Crossing) -> float:
        """Accelerated time by which the half-drop comes before the switch: the frozen law from n_kappa R* to R*."""
        if self.settings.threshold == "unit":
            return 0.0
        kappa = self.problem.degree
        ratio = half_drop_ratio(kappa)
        k = int(np.argmax(found.utility))
        utility, log_radius = float(found.utility[k]), float(found.log_radius[k])
        gap = -np.log(ratio) if kappa == 2 else (ratio ** (2.0 - kappa) - 1.0) / (kappa - 2)
        return float(gap / (kappa * utility) * np.exp((2 - kappa) * log_radius - self.clock.log_scale))

    def _cross(
        self, state: GenericState, residual: Any, free: IntArray, threshold: Threshold, stop: float
    ) -> Crossing | Status:
        return cross(
            self._batch(state, free, residual),
            threshold,
            rtol=self.settings.rtol,
            tie_rtol=self.settings.tie_rtol,
            stop=stop,
            stats=self.stats,
        )

    def _batch(self, state: GenericState, rows: IntArray, residual: Any) -> Batch:
        """Dormant neurons `rows` (k,) on a residual."""
        directions, log_norms = state.directions[rows], state.log_norms[rows]
        return Batch(self.problem, residual, self.clock, directions, log_norms, rows, self.origin)

    def _threshold(self, state: GenericState) -> ExactThreshold:
        active = np.flatnonzero(state.active)
        natural = self.settings.threshold == "natural"
        noise = self._noise(state) / self.problem.degree
        return ExactThreshold(self.problem, natural, state.params[active], active, noise=noise)

    def _drive(self, state: GenericState, waiting: IntArray) -> float:
        """Largest utility gradient at unit norm over the dormant neurons."""
        alive = waiting[np.isfinite(state.log_norms[waiting])]
        if alive.size == 0:
            return 0.0
        active = np.flatnonzero(state.active)
        residual = self.problem.residual(state.params[active], active)
        gradient = np.asarray(self.problem.utility(state.directions[alive], alive, residual)[1])
        return float(np.linalg.norm(gradient.reshape(alive.size, -1), axis=1).max())

    def _stop(self, state: GenericState) -> float:
        limit = self.settings.t_max
        return np.inf if limit is None else max(float(self.clock.accelerated(limit)) - state.time, 0.0)

    def _negligible(self) -> float:
        return self.settings.rtol * self.start_level

    def _noise(self, state: GenericState) -> float:
        """Utility gradient that cannot be told from 0: losses are known to rtol, residuals and utilities to its root.

        On kinks the active neurons are only where their integrator puts them, to the same root of rtol at any loss.
        """
        if not state.active.any():
            return 0.0
        part = 1.0 if not self.problem.smooth else np.sqrt(min(state.level / self.start_level, 1.0))
        return float(np.sqrt(self.settings.rtol) * part * self._start_drive)

    # -- cost minimization ------------------------------------------------------------------------------------

    def active(self, state: GenericState, activation: Activation) -> tuple[GenericState, Settled | Status]:
        """Let the active neurons settle; those that collapse return to dormancy, newcomers join, and it goes on."""
        before, width = state.level, self._width(activation, state)
        gone, neurons = np.zeros(0, dtype=np.int64), activation.neurons
        drop = Newcomers(activation, before)
        while True:
            mask = state.active.copy()
            mask[neurons] = True
            state = replace(state, active=mask)
            try:
                state, settled = self._flow(state, activation.time, before, width)
            except integrators.MarchError as error:
                self.notes.append(f"active phase of neurons {np.flatnonzero(mask).tolist()[:5]}: {error}")
                return state, _march_status(error)
            gone = np.union1d(gone, settled.collapsed)
            drop.settled(settled.level)
            state, found = self._above(state, gone)
            if found is None:
                return state, replace(drop.whole(state, settled), collapsed=gone)
            drop.join(found)
            neurons = found.neurons

    def _flow(self, state: GenericState, time: float, before: float, width: float) -> tuple[GenericState, Settled]:
        """Flow of the active neurons.

        Parameters
        ----------
        time : float
            Accelerated, of the activation.
        before : float
            Loss then.
        width : float
            How long its drop lasts, flow time.
        """
        chosen = np.flatnonzero(state.active)
        theta = cartesian(state.directions[chosen], state.log_norms[chosen])
        following = Following.of(self.problem, state, np.sqrt(self.settings.rtol))
        # Self-interactions beside the network at the start: for an estimate, and a problem can keep what they need.
        threshold: Threshold = EstimatedThreshold.of(self._threshold(state))
        cap = self._cap(time, width)
        assert self.settings.horizon is not None  # it applies to the only mode there is here
        multiple = self.settings.horizon * (1.0 if self.settings.settle == "horizon" else CONVERGED)

        waiting = np.setdiff1d(np.flatnonzero(~state.active), following.neurons)
        dormant = self._batch(state, waiting, None)
        to_next = NextActivation(dormant, threshold, cap / multiple, self.stats)
        rest = settle(
            self.problem,
            theta,
            chosen,
            lambda now, neurons: min(max(width, multiple * to_next.after(now, neurons)), cap),
            rtol=self.settings.rtol,
            negligible=self._negligible(),
            before=before,
            least=min(width, cap),
            gone=collapse.gone(state, chosen),
        )
        self._count("loss_evaluations", rest.evaluations)
        self._count("hessians", rest.hessians)
        state, settled = self._leave(state, chosen, rest, before)
        return following.after(state), settled

    def _cap(self, time: float, width: float) -> float:
        """Flow time after which a level counts, whether or not another activation is to come."""
        cap = max(_LAST_TIMES * float(self.clock.flow(time)), CONVERGED * width)
        if self.settings.t_max is None:
            return cap
        return min(cap, max(self.settings.t_max - float(self.clock.flow(time)), width))

    def _above(self, state: GenericState, gone: IntArray) -> tuple[GenericState, Activation | None]:
        """Dormant neurons that have made half their drop by now, but for those that collapsed in this phase."""
        waiting = np.setdiff1d(np.flatnonzero(~state.active), gone)
        if waiting.size == 0 or state.level <= self._negligible():
            return state, None
        active = np.flatnonzero(state.active)
        residual = self.problem.residual(state.params[active], active)
        try:
            threshold = half_way(self._threshold(state), self.problem.degree)
            found = self._cross(state, residual, waiting, threshold, 0.0)
        except (NonFinite, integrators.Stalled):
            return state, None  # the next dormant phase meets it again, and reports it
        return self._arrive(state, waiting, found) if isinstance(found, Crossing) else (state, None)

    def _leave(self, state: GenericState, chosen: IntArray, rest: Rest, before: float) -> tuple[GenericState, Settled]:
        """The state where they came to rest, and what is said of it."""
        directions, log_norms = state.directions.copy(), state.log_norms.copy()
        directions[chosen], log_norms[chosen] = polar(rest.theta)
        at_rest = critical(rest, before, self._negligible())
        said = note(rest)
        if said is not None and said not in self.notes:
            self.notes.append(said)
        limit = self.settings.t_max
        cut = limit is not None and float(self.clock.flow(state.time)) + rest.duration >= 0.999 * limit
        drifting = not at_rest and rest.growing and not cut
        memory = replace(state.memory, drifting=drifting, left=rest.predicted_decrease)
        after = replace(state, directions=directions, log_norms=log_norms, level=rest.level, memory=memory)
        collapsed = chosen[rest.collapsed]
        settled = Settled(rest.level, collapsed, rest.grad_norm, rest.predicted_decrease, rest.how, at_rest)
        return collapse.returned(after, state, collapsed), settled

    def _width(self, activation: Activation, state: GenericState) -> float:
        """How long the drop lasts: flow time in which a newcomer grows by a factor e at its threshold.

        At most the time since the start: a slower one is not over by the next activation, whatever its neighbours do.
        """
        kappa = self.problem.degree
        log_radius = state.memory.radii[activation.neurons]
        width = float(np.max(np.exp((2 - kappa) * log_radius) / (kappa * activation.utility)))
        return min(width, float(self.clock.flow(activation.time))) if activation.time > 0 else width

    def _count(self, name: str, number: float) -> None:
        self.stats[name] = self.stats.get(name, 0) + number


def _march_status(error: integrators.MarchError) -> Status:
    if isinstance(error, integrators.NonFinite):
        return Status.NONFINITE
    return Status.STALLED if isinstance(error, integrators.Stalled) else Status.MAX_STEPS
