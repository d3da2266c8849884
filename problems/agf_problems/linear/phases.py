"""Finite alpha for a linear network: orthogonal singular modes as the neurons of the algorithm.

With the residual correlation M frozen the dormant weights obey Z' = Z Q, Q = [[0, M^T], [M, 0]], exactly: the mode of a
singular pair (u, v) of M, of amplitude Z (v, u)/sqrt 2 in hidden space, grows as exp(sigma t). So nothing is integrated
while dormant, and a mode's norm is the norm of its measured amplitude, alignment included.

Amplitudes of 1e-100 live next to amplitudes of 1: `agf.factored` carries them.

A mode that activates takes one direction q of hidden space with it; the dormant part keeps what is orthogonal to q.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf import Activation, Clock, Init, Settings, Settled, State, Status
from agf.arrays import FloatArray
from agf.factored import Factored
from agf.rounding import RANK
from agf.sphere import polar
from agf_problems.linear.active_flow import ActiveFlow, Entry, Held
from agf_problems.linear.growth import SPREAD, Modes
from agf_problems.linear.moments import Moments

_SHARED = (
    "What one direction of hidden units carries of several modes is far more than the others have of them: training "
    "turns it from one to another before these matter, while here each mode activates by itself: levels and times may "
    "differ."
)
#: Fraction of the drop that the new mode would make alone, behind which a plateau may lie. Result: where modes interact
#: a drop is smaller or larger than that of its mode alone; at 1 it would have to be as large, at 0.03 a slow passage in
#: the first thirtieth of a drop would be its end.
_DROP = 0.3

ModeState = State[Held]


class ModePhases:
    """The two phases of the algorithm on singular modes; a row of a state is a mode, min(rank, H) may be active."""

    def __init__(self, moments: Moments, init: Init, settings: Settings) -> None:
        self.moments, self._init = moments, init
        self.clock = Clock.from_norms(2, init.log_norms)
        self.settings = settings
        self.n_inputs = moments.sxx.shape[0]
        self.size = self.n_inputs + moments.syx.shape[0]
        self.flow = ActiveFlow(moments, settings)
        self.growth = self.flow.growth
        self.notes: list[str] = []
        self.stats: dict[str, float] = {"evaluations": 0.0, "phases": 0.0}

    # -- the contract -----------------------------------------------------------------------------------------

    def start(self) -> ModeState:
        """All modes dormant, with the amplitudes measured from the initial weights."""
        dormant = self._at_start(self._init)
        active = np.zeros(self.moments.rank, dtype=bool)
        no_neurons = np.zeros(0, dtype=np.int64)
        return self._state(0.0, active, Held(dormant, np.zeros((0, self.size)), no_neurons))

    def dormant(self, state: ModeState) -> tuple[ModeState, Activation | Status]:
        """Exact growth in the frozen residual until the first mode, and all tied with it, are at their thresholds.

        Active modes that rest at a saddle may turn before that; this is an activation too, of the mode that turns.
        """
        held = state.memory
        modes = self.flow.modes(held.theta, held.order)
        waits = self.growth.waits(modes, held.dormant)
        wait = float(waits.min(initial=np.inf))
        began = self.clock.flow_time(state.time)
        if held.turn is not None and held.turn[0] <= began + wait:
            # one that overlaps the drop before may be halfway done before that
            return self._turned(state, held, modes, max(held.turn[0], began), held.turn[1])
        if modes.labels.size == 0:
            return state, Status.FITTED if self.flow.fitted(held) else Status.NO_CRITICAL_POINT
        if held.dormant.empty or held.order.size == min(self.moments.rank, self._init.width):
            return state, Status.ALL_ACTIVE
        if not np.isfinite(wait):
            return state, Status.NO_GROWTH
        most = self.settings.max_gradients
        if most is not None and self.stats["evaluations"] >= most:
            return state, Status.MAX_STEPS
        self.stats["phases"] += 1
        dormant, chosen, rows, runner_up = self._entering(held.dormant, modes, waits, began)
        labels, rates = modes.labels[chosen], modes.rates[chosen]
        # The active flow starts when the new modes are this small, over what they saturate at: it shows the whole drop
        # but for the square of it, which moves the half-drop by half that many growth times of a plateau of tens.
        lead = min(-np.log(self.settings.rtol) / 3.0 / rates[0], wait) if self._natural else 0.0
        back = np.exp(-modes.rates * lead)
        new = (np.stack(rows) @ modes.vectors * back) @ modes.vectors.T
        new /= np.sqrt(1.0 + np.exp(-2.0 * rates * lead))[:, None]  # what saturation takes of it by then
        theta, order = np.concatenate([held.theta, new]), np.concatenate([held.order, labels])
        least = _DROP * float(modes.gains[chosen].max())
        entry = Entry(dormant, theta, order, labels, float(rates[0]), began + wait - lead, float(lead), least)
        after, half = self._follow(held, entry)
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

    # -- the steps of it --------------------------------------------------------------------------------------

    def _at_start(self, init: Init) -> Factored:
        """The initial weights: by singular values, or by units where norms are so far apart that these lose some."""
        alive = np.isfinite(init.log_norms)
        if np.ptp(init.log_norms[alive]) > SPREAD:
            level = replace(init, log_norms=np.where(alive, 0.0, -np.inf))
            units = Factored(self.moments.start(level)[0][alive].T, init.log_norms[alive], np.eye(init.width)[alive])
            modes = self.flow.modes(np.zeros((0, self.size)), np.zeros(0, dtype=np.int64))
            return units.grown(modes.vectors, modes.rates, 0.0)
        weights, log_size = self.moments.start(init)
        left, values, right = np.linalg.svd(weights.T, full_matrices=False)
        keep = values > RANK * values[0]
        return Factored(left[:, keep], log_size + np.log(values[keep]), right[keep])

    def _entering(
        self, dormant: Factored, modes: Modes, waits: FloatArray, began: float
    ) -> tuple[Factored, list[int], list[FloatArray], tuple[int, float] | None]:
        """The first mode and all tied with it: who is left dormant, who they are, their rows, who would be next."""
        wait = pause = float(waits.min())
        chosen, rows, runner_up = [int(np.argmin(waits))], [], None
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
        return dormant, chosen, rows, runner_up

    def _follow(self, held: Held, entry: Entry) -> tuple[Held, float]:
        after, half = self.flow.follow(held, entry)
        self.stats["evaluations"] += after.rest.evaluations
        return after, half

    def _turned(
        self, state: ModeState, held: Held, modes: Modes, when: float, theta: FloatArray
    ) -> tuple[ModeState, Activation]:
        """The active modes past a turn that is halfway done at flow time `when`, dormant ones grown until then."""
        pause = when - self.clock.flow_time(state.time)
        dormant = held.dormant.grown(modes.vectors, modes.rates, pause)
        before, after = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (held.theta, theta))
        label = held.order[[int(np.argmin(np.abs(np.sum(before * after, axis=1))))]]
        rate = float(np.linalg.norm(self.flow.residual(theta), 2))
        settled = self._follow(held, Entry(dormant, theta, held.order, label, rate, when))[0]
        time = max(float(self.clock.accelerated(when)), state.time)
        return self._state(time, state.active, settled), Activation(time, time, label, np.array([0.5 * rate]))

    @property
    def _natural(self) -> bool:
        return self.settings.threshold == "natural"

    def _own_block(self, row: FloatArray, label: int) -> FloatArray:
        """The part of an active mode in its own block: blocks exchange nothing, and what mixes them is negligible."""
        for rows, columns in self.moments.blocks:
            if label in rows:
                inside = np.concatenate([columns, self.n_inputs + rows])
                out = np.zeros_like(row)
                out[inside] = row[inside]
                return out
        raise AssertionError(label)  # every mode is in a block

    def _state(self, time: float, active: np.ndarray, held: Held) -> ModeState:
        """A state whose rows are modes in the user's basis: active ones as they are, dormant ones as they grow."""
        rows = np.zeros((active.size, self.size))
        logs = np.full(active.size, -np.inf)
        modes = self.flow.modes(held.theta, held.order)
        kept = modes.labels < active.size
        if held.dormant.logs.size:
            vectors = modes.vectors[:, : modes.labels.size][:, kept]
            rows[modes.labels[kept]] = vectors.T
            logs[modes.labels[kept]] = held.dormant.log_amplitudes(vectors)
        rows[held.order], logs[held.order] = polar(held.theta)
        return State(time, active, self.moments.natural_rows(rows), logs, self.flow.loss(held.theta), held)
