"""Networks whose hidden units mix: orthogonal modes take the part of neurons ([GLRL], [AGF] section 4).

Where neurons are quadratic forms of their parameters (`agf.coordinates.mode_system.mixes`), grad U(theta) = Q theta
with one symmetric matrix Q for all of them, and hidden units can be rotated into one another without changing the
network. What races is then not the units but the eigenvectors of Q: with the residual frozen the component of the
weights along each grows as exp(rate t), exactly, and its norm is that over all hidden units. A mode that activates
takes one direction of hidden space with it; the dormant rest keeps what is orthogonal to it, at any size
(`agf.factored`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.algorithm.threshold import ExactThreshold
from agf.arrays import FloatArray, IntArray
from agf.clock import Clock
from agf.contract.flow_system import FlowSystem, Snapshot
from agf.contract.problem import Problem
from agf.coordinates.mode_system import form, most_growth
from agf.factored import Factored
from agf.init import Init
from agf.records.settings import Settings
from agf.records.state import Activation, Settled, State
from agf.records.status import Status
from agf.rounding import RANK, SUM
from agf.sphere import norms, polar
from agf.stopping.driver import Moment, Why, drive
from agf.stopping.ending import status_of
from agf.stopping.horizon import LONGEST, Course, Horizon
from agf.stopping.methods import Auto
from agf.stopping.rules import BUDGET, Budget, Rounding, Tolerance

#: Error of a step of the active flow over settings.rtol. Cost: a drop lasts a few of the log(1/alpha) e-folds of a
#: plateau, and its error counts by as much less.
_FLOW_RTOL = 100.0


@dataclass(frozen=True)
class Modes:
    """Eigenvectors of Q on a residual, fastest first.

    Attributes
    ----------
    vectors, rates : float ndarrays, shapes (P, P) and (P,)
        Columns, and d log norm/dt along each.
    growing : int
        How many grow.
    log_radii : float ndarray, shape (growing,)
        Log norms at which these activate; inf for those that would gain nothing.
    """

    vectors: FloatArray
    rates: FloatArray
    growing: int
    log_radii: FloatArray


@dataclass(frozen=True)
class Mixture:
    """What a state carries.

    Attributes
    ----------
    dormant : Factored
        The dormant weights.
    theta : float ndarray, shape (k, P)
        The active modes, in the order of their drops.
    left : float
        Loss that these can still lose before the next drop.
    since : float
        Flow time of the last switch.
    """

    dormant: Factored
    theta: FloatArray
    left: float = 0.0
    since: float = 0.0


class MixedPhases:
    """The two phases on modes; a state has min(H, P) rows, one a mode, numbered in the order of their drops.

    Parameters
    ----------
    problem : Problem
        One that mixes.
    init : Init
        Where training starts.
    settings : Settings
        How to predict.
    """

    def __init__(self, problem: Problem, init: Init, settings: Settings) -> None:
        self.problem, self.settings = problem, settings
        self.clock = Clock.from_norms(2, init.log_norms)
        self.width = min(init.width, problem.n_params)
        self.notes: list[str] = []
        self.stats: dict[str, float] = {"loss_evaluations": 0.0, "hessians": 0.0, "phases": 0.0}
        self._weights = Factored.of(init.directions, init.log_norms)
        nothing = np.zeros((0, problem.n_params))
        self.start_level = self._loss(nothing)
        rates, vectors = np.linalg.eigh(self._form(nothing))
        #: Rates up to here are rounding: of the fastest, or of sums that vanish by a symmetry.
        self._rounding = max(RANK * float(np.max(rates, initial=0.0)), SUM * most_growth(problem, vectors.T.copy()))

    def start(self) -> State[Mixture]:
        """All modes dormant, time 0."""
        nothing = np.zeros((0, self.problem.n_params))
        modes = self._modes(nothing)
        return self._state(0.0, Mixture(self._weights.grown(modes.vectors, modes.rates, 0.0), nothing))

    def label(self, chosen: IntArray) -> str:
        """The name of a drop, "mode 2"."""
        return ("mode " if chosen.size == 1 else "modes ") + ", ".join(str(int(i)) for i in chosen)

    # -- utility maximization ---------------------------------------------------------------------------------

    def dormant(self, state: State[Mixture]) -> tuple[State[Mixture], Activation | Status]:
        """Exact growth on the frozen residual until the first mode, and all tied with it, are at their thresholds."""
        dormant, theta = state.memory.dormant, state.memory.theta
        if state.level <= self.settings.rtol * self.start_level:
            return state, Status.FITTED
        if len(theta) == self.width or dormant.empty:
            return state, Status.ALL_ACTIVE
        modes = self._modes(theta, state.memory.left)
        if np.isinf(modes.log_radii).all():
            return state, Status.FITTED if len(theta) else Status.NO_GROWTH
        gaps = self._gaps(modes, dormant)
        wait = float(gaps.min())
        if not np.isfinite(wait):
            return state, Status.NO_GROWTH
        self.stats["phases"] += 1
        began = self.clock.flow_time(state.time)
        first = int(np.argmin(gaps))
        chosen, rows, runner_up = [first], [], None
        dormant, row = dormant.taken(modes.vectors, modes.rates, wait, first)
        rows.append(row)
        while not dormant.empty and len(theta) + len(chosen) < self.width:
            gaps = self._gaps(modes, dormant)
            gaps[chosen] = np.inf
            following = int(np.argmin(gaps))
            if not np.isfinite(gaps[following]):
                break
            if gaps[following] > self.settings.tie_rtol * (began + wait):
                runner_up = (len(theta) + len(chosen), float(self.clock.accelerated(gaps[following])))
                break
            chosen.append(following)
            dormant, row = dormant.taken(modes.vectors, modes.rates, 0.0, following)
            rows.append(row)
        time = max(float(self.clock.accelerated(began + wait)), state.time)  # to flow time and back is rounded
        after = self._joined(time, Mixture(dormant, np.concatenate([theta, rows]), 0.0, began), state.level)
        new = len(theta) + np.arange(len(chosen))
        return after, Activation(time, time, new, 0.5 * modes.rates[chosen], runner_up)

    def _modes(self, theta: FloatArray, left: float = 0.0) -> Modes:
        """Eigenvectors of Q next to the active modes theta (k, P), whose span is projected out.

        A mode that would gain no more than these can still lose (`left`) is not told from what they leave.
        """
        q = self._form(theta)
        outside = np.eye(q.shape[0])
        if theta.size:
            span = np.linalg.qr(theta.T)[0]
            outside -= span @ span.T
        rates, vectors = np.linalg.eigh(outside @ q @ outside)
        rates, vectors = rates[::-1].copy(), vectors[:, ::-1].copy()
        growing = int(np.count_nonzero(rates > self._rounding))
        if growing == 0:
            return Modes(vectors, rates, 0, np.zeros(0))
        threshold = ExactThreshold(self.problem, True, theta, _nameless(len(theta)))
        utility = 0.5 * rates[:growing]
        log_2c = threshold.log_self_interaction(np.ascontiguousarray(vectors[:, :growing].T), _nameless(growing))
        log_radii = threshold.log_radius(utility, log_2c)
        with np.errstate(over="ignore"):  # U R^2 - C R^4 at the natural norm
            gains = 0.5 * utility * np.exp(2.0 * log_radii)
        if self.settings.threshold == "unit":
            log_radii = np.zeros(growing)
        return Modes(vectors, rates, growing, np.where(gains > left, log_radii, np.inf))

    def _gaps(self, modes: Modes, dormant: Factored) -> FloatArray:
        """Flow time that each growing mode still lacks, (g,)."""
        amplitudes = dormant.log_amplitudes(modes.vectors[:, : modes.growing])
        return np.maximum(modes.log_radii - amplitudes, 0.0) / modes.rates[: modes.growing]

    # -- cost minimization ------------------------------------------------------------------------------------

    def active(self, state: State[Mixture], activation: Activation) -> tuple[State[Mixture], Settled | Status]:
        """Gradient flow of the active modes, from where the new ones are small, to the next activation or their rest.

        The half-drop time is read off the drop they make.
        """
        dormant, theta, new = state.memory.dormant, state.memory.theta, activation.neurons
        switch, rate = self.clock.flow_time(activation.time), 2.0 * float(activation.utility[0])
        # new modes start this small, over what they saturate at: the square of it is what this leaves out of the drop
        lead = min(-np.log(self.settings.rtol) / 3.0 / rate, switch - state.memory.since)
        start = np.concatenate([theta[: new[0]], self._earlier(theta[: new[0]], theta[new], lead, rate)])
        system = ActiveModes(self.problem, start)
        tolerated = Tolerance(self.settings.rtol, self.settings.rtol * self.start_level)
        nothing = self.settings.rtol * self.start_level
        span, least = lead + LONGEST / rate, lead + 1.0 / rate
        horizon = self.settings.horizon
        assert horizon is not None  # it applies to the only mode there is here

        def end(now: Moment) -> float:
            if dormant.empty or self.settings.settle == "converged":
                return min(max(2.0 * now.t, least), span)  # until another time as long would change nothing
            at = now.y.reshape(theta.shape)
            modes = self._modes(at)
            wait = float(np.min(self._gaps(modes, dormant), initial=np.inf))
            return min(max(lead + horizon * wait, least), span)

        def until(now: Moment) -> float:
            last = end(now)
            rests = now.rate * (last - now.t) <= tolerated(now.loss) or now.loss <= nothing
            return now.t if now.t > least and rests else last

        path: list[Moment] = []
        asked = self.settings.max_gradients
        most = BUDGET if asked is None else max(asked - self.stats["loss_evaluations"], 0.0)
        found = drive(
            system,
            Auto(_FLOW_RTOL * self.settings.rtol),
            [Horizon(Course(until, least=least)), Rounding(), Budget(most)],
            start.ravel(),
            each=lambda now, saved: path.append(now),
        )
        self.stats["loss_evaluations"] += found.at.work.gradients
        self.stats["hessians"] += found.at.work.hessians
        if found.why not in (Why.HORIZON, Why.ROUNDING):
            self.notes.append(f"active phase of {self.label(new)}: {found.note}")
            return state, status_of(found.why)
        left = found.at.rate * max(end(found.at) - found.at.t, 0.0)
        settled = left <= tolerated(found.at.loss) or found.why is Why.ROUNDING
        half = None
        if self.settings.threshold == "natural":
            level = 0.5 * (state.level + found.at.loss)
            half = float(self.clock.accelerated(switch - lead + _crossing(path, level)))
        after = self._state(activation.time, Mixture(dormant, found.at.y.reshape(theta.shape), left))
        return after, Settled(
            level=after.level,
            collapsed=np.zeros(0, dtype=np.int64),
            grad_norm=float(np.sqrt(found.at.rate)),
            predicted_decrease=left,
            how="flow" if settled else "horizon",
            critical=settled,
            half_time=half,
        )

    def _earlier(self, theta: FloatArray, rows: FloatArray, lead: float, rate: float) -> FloatArray:
        """Newly active modes `rows` (k, P) a time `lead` before they are at their thresholds, next to theta.

        What decays on this residual is left out: it has done so since the last drop. Saturation is taken off.
        """
        modes = self._modes(theta)
        back = np.where(modes.rates >= 0, np.exp(-np.maximum(modes.rates, 0.0) * lead), 0.0)
        return (rows @ modes.vectors * back) @ modes.vectors.T / np.sqrt(1.0 + np.exp(-2.0 * rate * lead))

    # -- parts ------------------------------------------------------------------------------------------------

    def _form(self, theta: FloatArray) -> FloatArray:
        return form(self.problem, self.problem.residual(theta, _nameless(len(theta))))

    def _loss(self, theta: FloatArray) -> float:
        return float(self.problem.loss_grad(theta, _nameless(len(theta)))[0])

    def _state(self, time: float, held: Mixture) -> State[Mixture]:
        """A state whose rows are modes: the active ones, then those that grow next to them, fastest first."""
        state = self._joined(time, held, self._loss(held.theta))
        k = len(held.theta)
        modes = self._modes(held.theta, held.left)
        vectors = modes.vectors[:, : min(self.width - k, modes.growing)]
        state.directions[k : k + vectors.shape[1]] = vectors.T
        if not held.dormant.empty:
            state.log_norms[k : k + vectors.shape[1]] = held.dormant.log_amplitudes(vectors)
        return state

    def _joined(self, time: float, held: Mixture, level: float) -> State[Mixture]:
        """A state with the rows of the active modes alone."""
        k = len(held.theta)
        rows, logs = np.zeros((self.width, self.problem.n_params)), np.full(self.width, -np.inf)
        rows[:k], logs[:k] = polar(held.theta)
        return State(time, np.arange(self.width) < k, rows, logs, level, held)


class ActiveModes(FlowSystem):
    """Gradient flow of a few rows theta (k, P), y = theta row by row, times in units of flow time."""

    def __init__(self, problem: Problem, theta: FloatArray) -> None:
        self.problem, self.theta = problem, theta
        self.names = _nameless(len(theta))
        self._groups = np.repeat(np.arange(len(theta)), theta.shape[1])

    @property
    def groups(self) -> IntArray:
        """One group a row."""
        return self._groups

    def start(self) -> FloatArray:
        """y at time 0."""
        return self.theta.ravel().copy()

    def velocity(self, y: FloatArray) -> FloatArray:
        """-grad L."""
        return -self.problem.loss_grad(y.reshape(self.theta.shape), self.names)[1].ravel()

    def loss(self, y: FloatArray) -> float:
        """Loss of these rows alone."""
        return self.loss_and_rate(y)[0]

    def loss_rate(self, y: FloatArray) -> float:
        """-|grad L|^2."""
        return self.loss_and_rate(y)[1]

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Both from one gradient."""
        loss, gradient = self.problem.loss_grad(y.reshape(self.theta.shape), self.names)
        return float(loss), -float(np.sum(gradient**2))

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """Of the loss, where the problem has one."""
        return self.problem.hessian(y.reshape(self.theta.shape), self.names)

    def scale(self, y: FloatArray) -> FloatArray:
        """Root mean square of each row."""
        sizes = norms(y.reshape(self.theta.shape)) / np.sqrt(self.theta.shape[1])
        return np.repeat(sizes, self.theta.shape[1])

    def snapshot(self, y: FloatArray) -> Snapshot:
        """The rows."""
        directions, log_norms = polar(y.reshape(self.theta.shape))
        return Snapshot(log_norms, directions)


def _crossing(path: list[Moment], level: float) -> float:
    """Time at which the loss first falls to `level` along accepted steps; the end if it never does."""
    for now in path:
        if now.loss > level or now.step is None:
            continue
        early, late = now.step.s0 + now.origin, now.t
        while late - early > 1e-9 * late:
            middle = 0.5 * (early + late)
            early, late = (middle, late) if now.inside(middle).loss > level else (early, middle)
        return late
    return path[-1].t


def _nameless(count: int) -> IntArray:
    """Indices of rows that are no hidden units but mixtures of them: neurons of such a problem are interchangeable."""
    return np.zeros(count, dtype=np.int64)
