"""Cost minimization of the active neurons until they rest ([AGF] Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from agf.algorithm.active import MAX_STEPS, ActiveEnd, settle
from agf.algorithm.departures import collapse
from agf.algorithm.departures.carrying import EARLY, Carrying
from agf.algorithm.departures.following import Following
from agf.algorithm.departures.infimum import critical, note
from agf.algorithm.departures.newcomers import Newcomers
from agf.algorithm.memory import GenericState
from agf.algorithm.next_activation import NextActivation
from agf.algorithm.phase_run import PhaseRun
from agf.algorithm.saturation import later
from agf.algorithm.threshold import EstimatedThreshold, Threshold
from agf.arrays import FloatArray, IntArray
from agf.integrators import MarchError
from agf.records.state import Activation, Settled
from agf.records.status import Status
from agf.sphere import cartesian, polar
from agf.stopping.ending import failure
from agf.stopping.horizon import SLOWER

#: Horizon when no activation is to come, in times since the start, or `SLOWER` durations of the drop if that is longer.
#: Result: of the last level where it falls like a power of time; at 1 it would be that of the last drop's own
#: slow end, at 100 such a fall is followed ten times as long.
_LAST_TIMES = 10.0
#: Who activates without time having passed, given a state and the neurons that may not; the state has them activated.
Above = Callable[[GenericState, IntArray], tuple[GenericState, Activation | None]]


class CostMinimization:
    """The phase in which active neurons follow gradient flow of their own loss (`active.settle`).

    Parameters
    ----------
    run : PhaseRun
        Whose neurons.
    above : Above
        Who joins once they rest.
    timeless : bool
        Whether a drop takes no time beside the wait for the next one, however near that is: the limit alpha -> 0.
    """

    def __init__(self, run: PhaseRun, above: Above, timeless: bool = False) -> None:
        self.run, self.above, self.timeless = run, above, timeless

    def to_rest(
        self,
        state: GenericState,
        activation: Activation,
        carrying: Carrying | None = None,
        most: int = MAX_STEPS,
    ) -> tuple[GenericState, Settled | Status]:
        """Let the active neurons settle; those that collapse return to dormancy, newcomers join, and it goes on.

        Whoever carries dormant neurons along hands newcomers over `EARLY` below the norm at which they saturate, and it
        takes them that many times longer; `most` bounds the steps.
        """
        before, duration = state.level, self._duration(activation, state)
        gone, neurons = np.zeros(0, dtype=np.int64), activation.neurons
        drop, curves = Newcomers(activation, before), []
        while True:
            mask = state.active.copy()
            mask[neurons] = True
            state = replace(state, active=mask)
            try:
                state, settled, curve = self._flow(state, activation.time, before, duration, carrying, most)
            except MarchError as error:
                self.run.notes.append(f"active phase of neurons {np.flatnonzero(mask).tolist()[:5]}: {error}")
                return state, failure(error)
            gone = np.union1d(gone, settled.collapsed)
            drop.settled(settled.level)
            curves.append(curve)
            state, found = self.above(state, gone)
            if found is None:
                whole = replace(drop.whole(state, settled), collapsed=gone)
                slide = _passed(np.concatenate(curves), 0.5 * (before + settled.level))
                state = replace(state, memory=replace(state.memory, slide=slide))
                return state, replace(whole, half_time=self._half_time(state, activation, whole, before))
            drop.join(found)
            neurons = found.neurons

    def _half_time(self, state: GenericState, activation: Activation, settled: Settled, before: float) -> float | None:
        """Accelerated time at which the drop is half-way: where its loss is not quadratic, or newcomers joined it."""
        natural, active = self.run.settings.threshold == "natural", np.flatnonzero(state.active)
        middle = 0.5 * (before + settled.level)
        late = later(self.run.problem, state.params[active], active, activation.neurons, middle) if natural else 0.0
        if late == 0.0:
            return settled.half_time
        half = activation.half_time if settled.half_time is None else settled.half_time
        return half + late * float(np.exp(-self.run.clock.log_scale))

    def _flow(
        self,
        state: GenericState,
        time: float,
        before: float,
        duration: float,
        carrying: Carrying | None,
        most: int,
    ) -> tuple[GenericState, Settled, FloatArray]:
        """Flow of the active neurons, and its curve (T, 2).

        Parameters
        ----------
        time : float
            Accelerated, of the activation.
        before : float
            Loss then.
        duration : float
            How long its drop lasts, flow time.
        carrying : Carrying or None
            Dormant neurons that turn meanwhile.
        most : int
            Steps at most.
        """
        run = self.run
        chosen = np.flatnonzero(state.active)
        theta = cartesian(state.directions[chosen], state.log_norms[chosen])
        following = Following.of(run.problem, state, np.sqrt(run.settings.rtol))
        # Self-interactions beside the network at the start: for an estimate, and a problem can keep what they need.
        threshold: Threshold = EstimatedThreshold.of(run.threshold(state))
        cap = self._cap(time, duration)
        assert run.settings.horizon is not None  # it applies to the only mode there is here
        multiple = run.settings.horizon * (1.0 if run.settings.settle == "horizon" else SLOWER)

        waiting = np.setdiff1d(np.flatnonzero(~state.active), following.neurons)
        dormant = run.batch(state, waiting, None)
        to_next = NextActivation(dormant, threshold, cap / multiple, run.stats)

        def horizon(now: FloatArray, neurons: IntArray, enough: float) -> float:
            if self.timeless:
                return cap
            return min(max(duration, multiple * to_next.after(now, neurons, enough / multiple)), cap)

        rest = settle(
            run.problem,
            theta,
            chosen,
            horizon,
            rtol=run.settings.rtol,
            negligible=run.negligible(),
            before=before,
            least=min(duration, cap) * (1.0 if carrying is None else 2.0 * EARLY),
            gone=collapse.gone(state, chosen),
            watch=None if carrying is None else carrying.see,
            most=most,
            gradients=run.gradients_left,
        )
        run.count("loss_evaluations", rest.evaluations)
        run.count("hessians", rest.hessians)
        state, settled = self._leave(state, chosen, rest, before)
        return following.after(state), settled, rest.curve

    def _cap(self, time: float, duration: float) -> float:
        """Flow time after which a level counts, whether or not another activation is to come."""
        age = 0.0 if self.timeless else self.run.clock.flow_time(time)  # of any scale as alpha -> 0
        cap = max(_LAST_TIMES * age, SLOWER * duration)
        if self.run.settings.t_max is None:
            return cap
        return min(cap, max(self.run.settings.t_max - self.run.clock.flow_time(time), duration))

    def _leave(
        self, state: GenericState, chosen: IntArray, rest: ActiveEnd, before: float
    ) -> tuple[GenericState, Settled]:
        """The state where they came to rest, and what is said of it."""
        directions, log_norms = state.directions.copy(), state.log_norms.copy()
        directions[chosen], log_norms[chosen] = polar(rest.theta)
        at_rest = critical(rest, before, self.run.negligible())
        said = note(rest)
        if said is not None and said not in self.run.notes:
            self.run.notes.append(said)
        limit = self.run.settings.t_max
        cut = limit is not None and self.run.clock.flow_time(state.time) + rest.duration >= 0.999 * limit
        drifting = not at_rest and rest.growing and not cut
        memory = replace(state.memory, drifting=drifting, left=rest.predicted_decrease)
        after = replace(state, directions=directions, log_norms=log_norms, level=rest.level, memory=memory)
        collapsed = chosen[rest.collapsed]
        settled = Settled(rest.level, collapsed, rest.grad_norm, rest.predicted_decrease, rest.how, at_rest)
        return collapse.put_back(after, state, collapsed), settled

    def _duration(self, activation: Activation, state: GenericState) -> float:
        """How long the drop lasts: flow time in which a newcomer grows by a factor e at its threshold.

        At most the time since the start: a slower one is not over by the next activation, whatever its neighbours do.
        """
        kappa = self.run.problem.degree
        log_radius = state.memory.radii[activation.neurons]
        duration = float(np.max(np.exp((2 - kappa) * log_radius) / (kappa * activation.utility)))
        return min(duration, self.run.clock.flow_time(activation.time)) if activation.time > 0 else duration


def _passed(curve: FloatArray, middle: float) -> float:
    """Flow time after the switch at which the active neurons pass the middle of their drop; 0 where they do so by
    joining.

    curve : (T, 2), of all parts of the drop, each from time 0 on.
    """
    below = np.flatnonzero(curve[:, 1] <= middle)
    if below.size == 0 or below[0] == 0:
        return 0.0
    (start, above), (end, level) = curve[below[0] - 1 : below[0] + 1]
    return float(end if end < start else start + (end - start) * (above - middle) / (above - level))
