"""Finite alpha for a linear network: orthogonal singular modes as the neurons of the algorithm.

With the residual correlation M frozen the dormant weights obey Z' = Z Q, Q = [[0, M^T], [M, 0]], exactly: the mode of a
singular pair (u, v) of M, of amplitude Z (v, u)/sqrt 2 in hidden space, grows as exp(sigma t). So nothing is integrated
while dormant, and a mode's norm is the norm of its measured amplitude, alignment included.

Amplitudes of 1e-100 live next to amplitudes of 1: `agf.factored` carries them.

A mode that activates takes one direction q of hidden space with it; the dormant part keeps what is orthogonal to q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agf import Activation, Clock, Init, Settings, Settled, State, Status
from agf.arrays import FloatArray, IntArray
from agf.factored import Factored
from agf.rounding import RANK
from agf.sphere import polar
from agf.stopping import LONGEST
from agf_problems.linear.active import ActiveModes
from agf_problems.linear.growth import SPREAD, Growth, Modes
from agf_problems.linear.moments import Moments
from agf_problems.linear.settle import SETTLED, Route
from agf_problems.linear.theory import energies

_SHARED = (
    "What one direction of hidden units carries of several modes is far more than the others have of them: training "
    "turns it from one to another before these matter, while here each mode activates by itself: levels and times may "
    "differ."
)
#: Fraction of the drop that the new mode would make alone, behind which a plateau may lie. Result: where modes interact
#: a drop is smaller or larger than that of its mode alone; at 1 it would have to be as large, at 0.03 a slow passage in
#: the first thirtieth of a drop would be its end.
_DROP = 0.3
#: Error of a step of the active flow over settings.rtol. Cost: a drop lasts a few of the log(1/alpha) e-folds of a
#: plateau, and its error counts by as much less.
_FLOW_RTOL = 10.0


@dataclass(frozen=True)
class Settlement:
    """How the active modes settled. failed : whether their flow could not be followed."""

    grad_norm: float = 0.0
    left: float = 0.0
    settled: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Held:
    """What a state of `ModePhases` remembers, in the basis of the moments.

    theta : (k, n) active modes.  order : (k,) their mode numbers.  turn : flow time and (k, n) active modes halfway
    through a turn that the flow takes if no dormant mode activates before, or None.  rest : how theta settled.
    """

    dormant: Factored
    theta: FloatArray
    order: IntArray
    turn: tuple[float, FloatArray] | None = None
    rest: Settlement = Settlement()


ModeState = State[Held]


class ModePhases:
    """The two phases of the algorithm on singular modes; a row of a state is a mode, min(rank, H) may be active."""

    def __init__(self, moments: Moments, init: Init, settings: Settings) -> None:
        self.moments, self._init = moments, init
        self.clock = Clock.from_norms(2, init.log_norms)
        self.settings = settings
        self.n_inputs = moments.sxx.shape[0]
        self.size = self.n_inputs + moments.syx.shape[0]
        self.explainable = moments.loss(np.zeros(moments.syx.shape)) - moments.floor
        self.growth = Growth(moments, self._natural)
        self.energies = energies(moments)
        self.notes: list[str] = []
        self.stats: dict[str, float] = {"evaluations": 0.0, "phases": 0.0}

    # -- the contract -----------------------------------------------------------------------------------------

    def start(self) -> ModeState:
        """All modes dormant, with the amplitudes measured from the initial weights."""
        dormant = self._at_start(self._init)
        active = np.zeros(self.moments.rank, dtype=bool)
        no_neurons = np.zeros(0, dtype=np.int64)
        return self._state(0.0, active, Held(dormant, np.zeros((0, self.size)), no_neurons))

    def _at_start(self, init: Init) -> Factored:
        """The initial weights: by singular values, or by units where norms are so far apart that these lose some."""
        alive = np.isfinite(init.log_norms)
        if np.ptp(init.log_norms[alive]) > SPREAD:
            level = replace(init, log_norms=np.where(alive, 0.0, -np.inf))
            units = Factored(self.moments.start(level)[0][alive].T, init.log_norms[alive], np.eye(init.width)[alive])
            modes = self._modes(np.zeros((0, self.size)), np.zeros(0, dtype=np.int64))
            return units.grown(modes.vectors, modes.rates, 0.0)
        weights, log_size = self.moments.start(init)
        left, values, right = np.linalg.svd(weights.T, full_matrices=False)
        keep = values > RANK * values[0]
        return Factored(left[:, keep], log_size + np.log(values[keep]), right[keep])

    def dormant(self, state: ModeState) -> tuple[ModeState, Activation | Status]:
        """Exact growth in the frozen residual until the first mode, and all tied with it, are at their thresholds.

        Active modes that rest at a saddle may turn before that; this is an activation too, of the mode that turns.
        """
        held = state.memory
        modes = self._modes(held.theta, held.order)
        waits = self.growth.waits(modes, held.dormant)
        wait = float(waits.min(initial=np.inf))
        began = self.clock.flow_time(state.time)
        if held.turn is not None and held.turn[0] <= began + wait:
            # one that overlaps the drop before may be halfway done before that
            return self._turned(state, held, modes, max(held.turn[0], began), held.turn[1])
        if modes.labels.size == 0:
            return state, Status.FITTED if self._fitted(held) else Status.NO_CRITICAL_POINT
        if held.dormant.empty or held.order.size == min(self.moments.rank, self._init.width):
            return state, Status.ALL_ACTIVE
        if not np.isfinite(wait):
            return state, Status.NO_GROWTH
        self.stats["phases"] += 1
        dormant, chosen, rows, runner_up, pause = held.dormant, [int(np.argmin(waits))], [], None, wait
        while True:
            dormant, row = dormant.taken(modes.vectors, modes.rates, pause, chosen[-1])
            if self.growth.carries(row, modes, dormant) and _SHARED not in self.notes:
                self.notes.append(_SHARED)
            rows.append(self._own_block(row, int(modes.labels[chosen[-1]])) if dormant.logs.size else row)
            pause = 0.0
            rest = np.setdiff1d(np.arange(modes.labels.size), chosen)
            if rest.size == 0 or dormant.empty:
                break
            waits = self.growth.waits(modes, dormant)[rest]
            following = int(np.argmin(waits))
            if waits[following] > self.settings.tie_rtol * (began + wait):
                if np.isfinite(waits[following]):
                    lacking = float(self.clock.accelerated(waits[following]))
                    runner_up = (int(modes.labels[rest[following]]), lacking)
                break
            chosen.append(int(rest[following]))
        labels, rates = modes.labels[chosen], modes.rates[chosen]
        # The active flow starts when the new modes are this small, over what they saturate at: it shows the whole drop
        # but for the square of it, which moves the half-drop by half that many growth times of a plateau of tens.
        lead = min(-np.log(self.settings.rtol) / 3.0 / rates[0], wait) if self._natural else 0.0
        back = np.exp(-modes.rates * lead)
        new = (np.stack(rows) @ modes.vectors * back) @ modes.vectors.T
        new /= np.sqrt(1.0 + np.exp(-2.0 * rates * lead))[:, None]  # what saturation takes of it by then
        theta, order = np.concatenate([held.theta, new]), np.concatenate([held.order, labels])
        start = began + wait - lead
        least = _DROP * float(modes.gains[chosen].max())
        after, half = self._settle(held, dormant, theta, order, labels, float(rates[0]), start, float(lead), least)
        half = half if self._natural else began + wait
        active = state.active.copy()
        active[labels] = True
        activation = Activation(
            time=float(self.clock.accelerated(began + wait)),
            half_time=float(self.clock.accelerated(half)),
            neurons=labels,
            utility=0.5 * rates,
            runner_up=runner_up,
        )
        return self._state(activation.time, active, after), activation

    def active(self, state: ModeState, activation: Activation) -> tuple[ModeState, Settled | Status]:
        """Where gradient flow of the active modes settles, or stands at the horizon of `settings`.

        `dormant` has followed it already: the half-drop time is read off the drop it makes.
        """
        del activation
        rest = state.memory.rest
        if rest.failed:
            return state, Status.STALLED
        return state, Settled(
            level=state.level,
            collapsed=np.zeros(0, dtype=np.int64),
            grad_norm=rest.grad_norm,
            predicted_decrease=rest.left,
            how="flow" if rest.settled else "horizon",
            critical=rest.settled,
        )

    # -- active modes -----------------------------------------------------------------------------------------

    def _settle(
        self,
        held: Held,
        dormant: Factored,
        theta: FloatArray,
        order: IntArray,
        labels: IntArray,
        rate: float,
        start: float,
        lead: float,
        least: float,
    ) -> tuple[Held, float]:
        """Follow the active modes theta from flow time `start`, `lead` before the switch: rest, half-time.

        Parameters
        ----------
        held : _Held
            Before the drop.
        dormant : Factored
            At the switch.
        labels : int ndarray
            The modes that are new.
        rate : float
            Their growth.
        least : float
            Smallest fall of the loss that can be theirs.
        """
        # Independent blocks that have settled stand still while another drops; one that this drop cuts short moves on.
        # With hidden units used up before the modes are, what an active mode has of other blocks may turn it: then all
        # move, and their least entries count.
        alone = dormant.empty and order.size < self.moments.rank
        moving = self._moving(held, LONGEST / rate)
        blocks = [b for b in self.moments.blocks if alone or np.isin(labels, b[0]).any() or np.isin(moving, b[0]).any()]
        rows, columns = (np.concatenate([b[k] for b in blocks]) for k in (0, 1))
        mine = np.flatnonzero(np.isin(order, rows))
        inside = np.ix_(mine, np.concatenate([columns, self.n_inputs + rows]))
        sxx, syx = self.moments.sxx[np.ix_(columns, columns)], self.moments.syx[np.ix_(rows, columns)]
        target = self.moments.target[np.ix_(rows, columns)]

        def whole(y: FloatArray) -> FloatArray:
            out = theta.copy()
            out[inside] = y.reshape(theta[inside].shape)
            return out

        def horizon(y: FloatArray) -> float:
            if self.settings.settle == "converged" or dormant.empty:
                return span
            waits = self.growth.waits(self._modes(whole(y), order), dormant)
            return min(lead + horizons * float(waits.min(initial=np.inf)), span)

        assert self.settings.horizon is not None  # it applies to the only mode these phases know
        span, horizons = LONGEST / rate, self.settings.horizon
        system = ActiveModes(theta[inside], sxx, syx, target, entries=alone and len(blocks) > 1)
        system.others = self._loss(theta) - self.moments.floor - system.loss(system.start())
        path = Route(
            system,
            horizon,
            above=self._loss(held.theta) - self.moments.floor,
            best=self._best(order, alone),
            least=least,
            whole=self.explainable,
            span=span,
            rtol=_FLOW_RTOL * self.settings.rtol,
        ).follow()
        self.stats["evaluations"] += path.evaluations
        rest, turn = path.rest, path.turn
        left = rest.rate * max(path.horizon - rest.t, 0.0)
        summary = Settlement(float(np.sqrt(rest.rate)), left, path.settled or turn is not None, path.failed)
        later = None if turn is None else (start + turn[0], whole(turn[1]))
        return Held(dormant, whole(rest.y), order, later, summary), start + path.half

    def _moving(self, held: Held, span: float) -> IntArray:
        """Mode numbers (k',) of the active modes that within `span` of flow time may still lower the loss visibly."""
        residual = self._residual(held.theta)
        d = self.n_inputs
        push = np.concatenate([held.theta[:, d:] @ residual, held.theta[:, :d] @ residual.T], axis=1)
        left = np.sum(push**2, axis=1) * span
        return held.order[left > SETTLED * max(self._loss(held.theta) - self.moments.floor, SETTLED * self.explainable)]

    def _turned(
        self, state: ModeState, held: Held, modes: Modes, when: float, theta: FloatArray
    ) -> tuple[ModeState, Activation]:
        """The active modes past a turn that is halfway done at flow time `when`, dormant ones grown until then."""
        pause = when - self.clock.flow_time(state.time)
        dormant = held.dormant.grown(modes.vectors, modes.rates, pause)
        before, after = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (held.theta, theta))
        label = held.order[[int(np.argmin(np.abs(np.sum(before * after, axis=1))))]]
        rate = float(np.linalg.norm(self._residual(theta), 2))
        settled = self._settle(held, dormant, theta, held.order, label, rate, when, 0.0, 0.0)[0]
        time = max(float(self.clock.accelerated(when)), state.time)
        return self._state(time, state.active, settled), Activation(time, time, label, np.array([0.5 * rate]))

    def _fitted(self, held: Held) -> bool:
        """Whether the active modes rest, or have no more to lose than the tolerance: they may be on their way still."""
        left = self._loss(held.theta) - self.moments.floor
        return held.rest.settled or left <= self.settings.rtol * (self.explainable + self.moments.floor)

    def _best(self, order: IntArray, alone: bool) -> float:
        """Lowest loss above the floor with as many modes a block as are active; of any block when none is dormant."""
        if alone:
            return 0.5 * float(np.sum(np.sort(np.concatenate(self.energies))[: -order.size]))
        counts = [int(np.isin(order, rows).sum()) for rows, _ in self.moments.blocks]
        return 0.5 * sum(float(np.sum(e[k:])) for e, k in zip(self.energies, counts, strict=True))

    @property
    def _natural(self) -> bool:
        return self.settings.threshold == "natural"

    def _modes(self, theta: FloatArray, order: IntArray) -> Modes:
        """What grows next to these active modes."""
        return self.growth.modes(self._residual(theta), theta, order)

    def _own_block(self, row: FloatArray, label: int) -> FloatArray:
        """The part of an active mode in its own block: blocks exchange nothing, and what mixes them is negligible."""
        for rows, columns in self.moments.blocks:
            if label in rows:
                inside = np.concatenate([columns, self.n_inputs + rows])
                out = np.zeros_like(row)
                out[inside] = row[inside]
                return out
        raise AssertionError(label)  # every mode is in a block

    def _map(self, theta: FloatArray) -> FloatArray:
        return theta[:, self.n_inputs :].T @ theta[:, : self.n_inputs]

    def _residual(self, theta: FloatArray) -> FloatArray:
        return self.moments.residual(self._map(theta))

    def _loss(self, theta: FloatArray) -> float:
        return self.moments.loss(self._map(theta))

    def _state(self, time: float, active: np.ndarray, held: Held) -> ModeState:
        """A state whose rows are modes in the user's basis: active ones as they are, dormant ones as they grow."""
        rows = np.zeros((active.size, self.size))
        logs = np.full(active.size, -np.inf)
        modes = self._modes(held.theta, held.order)
        kept = modes.labels < active.size
        if held.dormant.logs.size:
            vectors = modes.vectors[:, : modes.labels.size][:, kept]
            rows[modes.labels[kept]] = vectors.T
            logs[modes.labels[kept]] = held.dormant.log_amplitudes(vectors)
        rows[held.order], logs[held.order] = polar(held.theta)
        return State(time, active, self.moments.natural_rows(rows), logs, self._loss(held.theta), held)
