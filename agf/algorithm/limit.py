"""The staircase as alpha -> 0: alignment takes no time, and charges grow linearly between drops.

Where a problem has a closed form with times, that is the answer. Otherwise, for degree 2: each dormant neuron sits at
the local maximum of its utility that its flow reaches, its charge grows at the rate degree U there, and the first to
reach charge 1 (in units of -log alpha) activates; the active neurons then flow to their critical point.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf.algorithm.active import MAX_STEPS
from agf.algorithm.cost_minimization import CostMinimization
from agf.algorithm.departures.carrying import EARLY, Carrying
from agf.algorithm.departures.discharge import Discharge
from agf.algorithm.departures.following import Following
from agf.algorithm.departures.opening import opening
from agf.algorithm.departures.symmetry import UNTIMED
from agf.algorithm.dormant import carry_batch
from agf.algorithm.exact_stepper import aligned
from agf.algorithm.field import Batch
from agf.algorithm.memory import GenericState
from agf.algorithm.phase_run import PhaseRun
from agf.algorithm.task import Task
from agf.algorithm.threshold import ExactThreshold
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.clock import Clock
from agf.contract.order import Order
from agf.contract.problem import Problem
from agf.errors import NoTheory, RequestError, explain
from agf.init import Init
from agf.integrators import MarchError
from agf.records.settings import Settings
from agf.records.state import Activation, Settled
from agf.records.status import Status
from agf.records.table import percent
from agf.rectified.dormant_parts import has_exact_flow
from agf.results.staircase import Staircase
from agf.rounding import UNIT
from agf.sphere import norms, tangent
from agf.stopping.ending import failure
from agf.stopping.horizon import LONGEST

#: Half the range of the logs of initial norms, over -log alpha, beyond which it is said that they are taken for equal.
#: Limit: a tenth is what the limit itself is off by at the scales that people train from.
_EVEN = 0.1
#: Growth times at unit norm after which it is first asked whether any direction still turns (to rtol in the utility),
#: then after twice as long, and so on. Cost: of asking.
_CHUNK = 10.0
#: Largest tolerance of a step of the active neurons, over the width of rounded kinks, at which dormant ones turn
#: meanwhile. Limit: coarser steps throw a newcomer that is followed from where it is small off a kink that holds it;
#: dormant neurons hold still then, as in the paper.
_FINE = 0.2
#: Accepted steps of the active neurons at such a tolerance. Limit: some seconds; what creeps along kinks for longer
#: ends a staircase as `max_steps`, with the drops before it.
_MAX_FINE = 5_000


def closed_form(problem: Problem, init: Init, settings: Settings) -> Staircase | None:
    """The limit in closed form where the problem has one that gives times, up to the bounds in `settings`.

    It is of a network whose neurons all move and turn: where each is its own, as coordinates are, and one is zero, or
    stands at a critical direction for ever, there is none.
    """
    if problem.theory_at_infinite_width or (not problem.interchangeable and _held(problem, init)):
        return None
    try:
        stairs = problem.theory(alpha=init.alpha)
    except NoTheory:
        return None
    if not np.isfinite(stairs.accelerated_times).all():
        return None
    return _cut(replace(stairs, settings=settings, init=init, notes=(*stairs.notes, *_unequal(problem, init))))


def _held(problem: Problem, init: Init) -> bool:
    """Whether some neuron is zero, or pulled at the start along its own direction alone, as where u = v."""
    neurons = np.arange(init.width)
    residual = problem.residual(np.zeros((0, init.n_params)), neurons[:0])
    gradient = problem.utility(init.directions, neurons, residual)[1]
    pull, turn = norms(gradient), norms(tangent(init.directions, gradient))
    return bool(np.isneginf(init.log_norms).any() or ((pull > 0.0) & (turn <= UNIT * pull)).any())


def _unequal(problem: Problem, init: Init) -> list[str]:
    """A note where the logs of the initial norms, which the limit takes for equal, are not, to `_EVEN`."""
    logs = init.log_norms[_dormant(problem, init)]
    low, high = float(np.min(logs, initial=np.inf)), float(np.max(logs, initial=-np.inf))
    off = 0.5 * (high - low) / abs(init.log_alpha) if init.log_alpha else 0.0
    if not off > _EVEN:
        return []
    return [
        "As alpha -> 0 ratios of initial norms do not count, and all neurons are taken for ones of norm "
        f"{init.alpha:.2g}; from norms between {np.exp(low):.2g} and {np.exp(high):.2g} times differ by up to about "
        f"{percent(off)}: mode agf knows of them."
    ]


def _cut(stairs: Staircase) -> Staircase:
    drops, top, end = stairs.drops, stairs.settings.max_drops, stairs.settings.t_max
    status = stairs.status
    if end is not None and any(drop.time > end for drop in drops):
        drops, status = tuple(drop for drop in drops if drop.time <= end), Status.MAX_TIME
    if top is not None and len(drops) > top:
        drops, status = drops[:top], Status.MAX_DROPS
    bounds = None if stairs.bounds is None else stairs.bounds[: len(drops)]
    return replace(stairs, drops=drops, status=status, bounds=bounds)


class LimitPhases:
    """The two phases as alpha -> 0, for degree 2; accelerated times are in units of -log alpha.

    The charge of a dormant neuron is 1 + log norm / -log alpha: 0 at the start, whatever its norm, and 1 at norm 1. A
    neuron that collapses has charge 1, and gives it back along the direction it had before it turns anew
    (`departures.discharge`). Raises RequestError for a degree above 2.
    """

    def __init__(self, problem: Problem, init: Init, settings: Settings) -> None:
        if problem.degree != 2:
            raise RequestError(
                explain(
                    f"the limit alpha -> 0 has no jump times for degree {problem.degree}.",
                    where=f"problem {problem.name!r}",
                    remedy='Use mode="agf" with a finite alpha; theory() has the levels where they are known.',
                )
            )
        origin, self.clock = _charged(problem, init)
        settings = settings.within("agf", threshold="natural", settle="converged")
        self.run = PhaseRun(Task(problem, origin, settings, self.clock, float(problem.loss_grad(*problem.empty)[0])))
        self.problem, self.settings, self.stats, self.notes = problem, settings, self.run.stats, self.run.notes
        self.notes.extend(_unequal(problem, init))
        self._minimize = CostMinimization(self.run, _no_newcomer, timeless=True)

    def start(self) -> GenericState:
        """All neurons dormant, time 0."""
        return self.run.start()

    @property
    def _equilibrium(self) -> float:
        """Tangent part of a gradient, relative to it, of an aligned direction: tenfold what these are known to."""
        return 10.0 * self.settings.rtol**0.5

    def dormant(self, state: GenericState) -> tuple[GenericState, Activation | Status]:
        """Charges grow at constant rates until the first reaches 1."""
        first = opening(self.problem, self.clock, state, self.run.start_level, self.settings.rtol)
        if first is not None:
            return state, first
        if state.level <= self.run.negligible():
            return state, Status.FITTED
        if self.run.gradients_left == 0.0:
            return state, Status.MAX_STEPS
        waiting = np.flatnonzero(~state.active & np.isfinite(state.log_norms))
        if waiting.size == 0:
            return state, Status.ALL_ACTIVE if state.active.all() else Status.NO_GROWTH
        try:
            if (decides := self.run.order(state, waiting)) is not Order.LEADING:
                self.notes.extend([UNTIMED] if decides is Order.NEXT else [])
                return state, Status.NO_GROWTH
            return self._grow(state, waiting, self.run.residual(state))
        except MarchError as error:
            self.notes.append(str(error))
            return state, failure(error)

    def _grow(
        self, state: GenericState, waiting: IntArray, residual: object
    ) -> tuple[GenericState, Activation | Status]:
        led = Following.of(self.problem, state, np.sqrt(self.settings.rtol)).neurons  # at rest, as their leaders are
        while True:
            held = Discharge.of(self.problem, residual, self.clock, self.run.origin, state, self._equilibrium)
            free = np.setdiff1d(waiting, np.append(held.neurons, led))
            directions, utility = self._aligned(state, free, residual)
            wait = self._waits(state, free, utility)
            first, home = float(wait.min(initial=np.inf)), float(held.home(state).min(initial=np.inf))
            step = min(first, home)
            if not np.isfinite(step):
                return state, Status.NO_GROWTH
            log_norms = state.log_norms.copy()
            log_norms[free] += 2.0 * utility * self.clock.scale * step
            state = held.advance(replace(state, time=state.time + step, log_norms=log_norms), step)
            if first <= home:
                return self._activate(state, free, wait, directions, utility)
            if self.settings.t_max is not None and self.clock.flow_time(state.time) > self.settings.t_max:
                return state, Status.MAX_TIME

    def _waits(self, state: GenericState, free: IntArray, utility: FloatArray) -> FloatArray:
        """Accelerated time until each reaches charge 1, (m,); inf where the utility is not positive, or is rounding."""
        growing = utility > self.settings.rtol * max(float(np.max(utility, initial=0.0)), 0.0)
        wait = np.full(free.size, np.inf)
        wait[growing] = np.maximum(-state.log_norms[free][growing], 0.0) / (2.0 * utility[growing] * self.clock.scale)
        return wait

    def _aligned(self, state: GenericState, waiting: IntArray, residual: object) -> tuple[FloatArray, FloatArray]:
        """Directions (m, P) at the local maxima that the dormant neurons' flows reach, and the utilities there (m,)."""
        directions, flown = state.directions[waiting], 0.0
        exact = aligned(self.problem, residual, directions, waiting, self.run.origin, self.run.noise(state))
        if exact is not None:
            return exact
        _, gradient = self.problem.utility(directions, waiting, residual)
        steepest = float(np.linalg.norm(gradient, axis=1).max(initial=0.0))
        if steepest == 0.0:
            return directions, np.zeros(waiting.size)
        chunk = _CHUNK / steepest
        while True:
            utility, gradient = self.problem.utility(directions, waiting, residual)
            turning = np.linalg.norm(tangent(directions, gradient), axis=1)
            own = np.maximum(np.linalg.norm(gradient, axis=1), self.settings.rtol * steepest)
            if (turning <= np.sqrt(self.settings.rtol) * own).all() or flown >= LONGEST / steepest:
                return directions, np.asarray(utility)
            batch = Batch(self.problem, residual, self.clock, directions, np.zeros(waiting.size), waiting)
            ahead = float(self.clock.accelerated(chunk))
            directions, _ = carry_batch(batch, ahead, rtol=self.settings.rtol, stats=self.stats)
            flown, chunk = flown + chunk, 2.0 * chunk

    def _activate(
        self, state: GenericState, free: IntArray, wait: FloatArray, directions: FloatArray, utility: FloatArray
    ) -> tuple[GenericState, Activation]:
        first = float(wait.min())
        chosen = wait <= first + self.settings.tie_rtol * max(first, state.time)
        if self.problem.interchangeable:  # those that reached its critical point are one neuron
            leader = int(np.argmin(wait))
            near = np.linalg.norm(directions - directions[leader], axis=1) < self._equilibrium
            chosen |= near & (wait <= first + self._equilibrium * max(first, state.time))
        later = np.where(chosen, np.inf, wait)
        runner_up = None
        if np.isfinite(later).any():
            runner_up = (int(free[np.argmin(later)]), float(later.min() - first))
        neurons = free[chosen]
        active = np.flatnonzero(state.active)
        threshold = ExactThreshold(self.problem, True, state.params[active], active)
        log_2c = threshold.log_self_interaction(directions[chosen], neurons)
        radius = threshold.log_radius(utility[chosen], log_2c)
        turned, log_norms = state.directions.copy(), state.log_norms.copy()
        turned[free], log_norms[neurons] = directions, radius
        memory = state.memory.activated(neurons, radius, radius).mark(free[utility > 0], True)
        after = replace(state, directions=turned, log_norms=log_norms, memory=memory)
        return after, Activation(state.time, state.time, neurons, utility[chosen], runner_up)

    def active(self, state: GenericState, activation: Activation) -> tuple[GenericState, Settled | Status]:
        """The flow of the active neurons to their critical point; dormant ones keep their charges meanwhile."""
        residual = self.run.residual(state)
        waiting = np.setdiff1d(np.flatnonzero(~state.active & np.isfinite(state.log_norms)), activation.neurons)
        sharp = self.problem.kink_normals() is not None  # which neurons slide along exactly
        fine = sharp or np.sqrt(self.settings.rtol) <= _FINE * self.problem.kink
        if not fine or not has_exact_flow(self.problem):
            final, settled = self._minimize.to_rest(state, activation, most=_MAX_FINE if fine else MAX_STEPS)
        else:
            final, settled = self._carry(state, activation, waiting, residual)
        if isinstance(settled, Status):
            return final, settled
        log_norms = np.where(final.active, final.log_norms, state.log_norms)
        log_norms[settled.collapsed] = 0.0
        return replace(final, log_norms=log_norms), settled

    def _carry(
        self, state: GenericState, activation: Activation, waiting: IntArray, residual: object
    ) -> tuple[GenericState, Settled | Status]:
        """The same flow from where it hardly differs from the plateau; dormant neurons turn as it goes on."""
        held = Discharge.of(self.problem, residual, self.clock, self.run.origin, state, self._equilibrium)
        rows = np.setdiff1d(waiting, held.neurons)
        carrying = Carrying(self.problem, self.run.origin, rows, state.directions[rows])
        log_norms = state.log_norms.copy()
        log_norms[activation.neurons] -= EARLY
        final, settled = self._minimize.to_rest(replace(state, log_norms=log_norms), activation, carrying, _MAX_FINE)
        self.run.count("dormant_steps", carrying.moves)
        if isinstance(settled, Status):
            return final, settled
        led = (final.directions[rows] != state.directions[rows]).any(axis=1)  # `departures.following`
        directions = final.directions.copy()
        directions[rows[~led]] = carrying.directions[~led]
        return replace(final, directions=directions), settled


def _dormant(problem: Problem, init: Init) -> BoolArray:
    """Who can activate at all, (H,): all but neurons of norm zero, and those that are always active."""
    dormant = np.isfinite(init.log_norms)
    dormant[list(problem.permanent)] = False
    return dormant


def _charged(problem: Problem, init: Init) -> tuple[Init, Clock]:
    """Every neuron at the same distance from norm 1, whatever its norm, which is the limit; and what time is."""
    dormant = _dormant(problem, init)
    logs = init.log_norms[dormant]
    clock = Clock(2, float(np.log(-init.log_alpha))) if init.log_alpha < 0 else Clock.from_norms(2, logs)
    return replace(init, log_norms=np.where(dormant, -clock.scale, init.log_norms)), clock


def _no_newcomer(state: GenericState, gone: IntArray) -> tuple[GenericState, Activation | None]:
    """A charge below 1 is as far from activating as ever, however small the threshold."""
    del gone
    return state, None
