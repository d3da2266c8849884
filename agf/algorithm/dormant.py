"""Utility maximization: dormant neurons on a frozen residual, until the first of them activates.

With the residual frozen the neurons are independent, so all of them are integrated in one batch of Dormand-Prince steps
with a step size per neuron, each in its own variable ds = rho^(degree - 2) dt ([AGF] eq. 2 in polar form):

    d direction / ds = tangent part of grad U,    d log rho / ds = degree U,    d t / ds = rho^(2 - degree).

Nothing here is stiff, and nothing overflows at any initialization: norms are logarithms and t is accelerated time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import RK45

from agf import integrators
from agf.algorithm.threshold import Threshold, expect_shape, refuse_nonfinite
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.clock import Clock, log_norm, log_threshold
from agf.contract.problem import Problem
from agf.numerics import dense_output as quartic
from agf.numerics import lanczos
from agf.records.status import Status
from agf.sphere import lengths

#: Rows of a block are chosen so that one (rows, P) array has about this many entries: bounded memory at any width.
_BLOCK = 1 << 21
#: The self-interaction of a neuron is computed once its log norm is this close to the threshold a typical neuron has.
_MARGIN = 3.0
#: A neuron's self-interaction is stale once its direction has turned by this since (for estimates: the second) ...
_TURN, _FAR = 0.1, 0.5
#: ... and this many neurons, the next to cross, always have a fresh one: what a typical neuron's is.
_CONTENDERS = 8
#: Directions whose tangent gradient is below this part of the gradient look at rest. A step at the stability limit
#: keeps them hovering there, so it is halved for this many steps, which damps what decays ...
_LOOKS_AT_REST = 1e-3
_REST_STEPS = 8
#: ... to below rtol times this, if it is rest; the Hessian then decides, with this many Lanczos vectors.
_AT_REST = 10.0
_LANCZOS = 15
#: Length of the differences that stand for a linearization at a unit direction.
_SHIFT = 1e-6
#: Growth of a perturbation, in e-folds until the threshold, that a direction at rest must not allow.
_SAFE_GROWTH = 3.0
#: Gradients below this part of the largest one at the start are rounding: such a neuron never moves.
_DEAD = 1e-14
#: Error of a step that leaves a saddle, relative to the step.
_ESCAPE = 1e-5
_MAX_ROUNDS = 20_000
#: Evaluations that locate a crossing, of which a third halve: more than what float64 can tell.
_TURNS = 160
#: A tangent gradient of this part of the gradient is rounding.
_EXACTLY_AT_REST = 8 * np.finfo(float).eps

_A, _B, _E = RK45.A, RK45.B, RK45.E
_STAGES = [_A[s, :s] for s in range(1, 6)]
# Weights of the stages at the middle of the step, from the continuous extension of the pair.
_MID = RK45.P @ np.array([0.5, 0.25, 0.125, 0.0625])


@dataclass(frozen=True)
class Crossing:
    """The end of a dormant phase.

    time : accelerated time since the start of the phase.
    neurons : (k,) positions in the batch of those that activate.  utility, log_radius : (k,) theirs, at unit norm.
    gain : loss that the strongest of them can take, U^2 / 4C; NaN where C was not needed (unit thresholds).
    runner_up : (position, accelerated time it still lacks at its present utility), or None.
    directions, log_norms : (m, P) and (m,) of the whole batch at that time.  growing : (m,) whose utility is positive.
    """

    time: float
    neurons: IntArray
    utility: FloatArray
    log_radius: FloatArray
    gain: float
    runner_up: tuple[int, float] | None
    directions: FloatArray
    log_norms: FloatArray
    growing: BoolArray


def cross(
    problem: Problem,
    residual: Any,
    clock: Clock,
    threshold: Threshold,
    directions: FloatArray,
    log_norms: FloatArray,
    neurons: IntArray,
    *,
    rtol: float = 1e-6,
    tie_rtol: float = 1e-9,
    stop: float = np.inf,
    stats: dict[str, float] | None = None,
) -> Crossing | Status:
    """Integrate the dormant neurons until the first reaches its threshold.

    Parameters
    ----------
    residual : frozen, as `problem.residual` returned it.
    directions (m, P), log_norms (m,), neurons (m,) : the dormant neurons; rows of norm 0 stay where they are.
    rtol : error per step of directions and log norms, absolute in both (they are of order one and logarithms); where
        the problem has kinks (sharp, or rounded: `problem.kink`) its power 2/3, as a kink costs a method its order.
    tie_rtol : crossings closer than this fraction of the elapsed time are one.
    stop : accelerated time, since the start of the phase, at which to give up.
    stats : counters to add to: utility_evaluations, dormant_steps, self_interactions.

    Returns
    -------
    Crossing, or Status.NO_GROWTH when none will ever cross, MAX_TIME when none does before `stop`, MAX_STEPS.

    Raises
    ------
    NonFinite : the plugin returned a non-finite value.  ProblemError : it returned a wrong shape.
    Stalled : a crossing could not be located.
    """
    batch = _Batch(problem, residual, clock, threshold, directions, log_norms, neurons, rtol)
    try:
        status = batch.run(stop)
        return batch.crossing(tie_rtol) if status is None else status
    finally:
        batch.count(stats)


def wait(
    problem: Problem,
    residual: Any,
    clock: Clock,
    threshold: Threshold,
    directions: FloatArray,
    log_norms: FloatArray,
    neurons: IntArray,
    *,
    rtol: float = 1e-3,
    stop: float = np.inf,
    stats: dict[str, float] | None = None,
) -> float:
    """Accelerated time to the first crossing, inf when there is none before `stop`: `cross` without the state there."""
    batch = _Batch(problem, residual, clock, threshold, directions, log_norms, neurons, rtol)
    try:
        return float(batch.crossed.min()) if batch.run(stop) is None else np.inf
    finally:
        batch.count(stats)


def carry(
    problem: Problem,
    residual: Any,
    clock: Clock,
    directions: FloatArray,
    log_norms: FloatArray,
    neurons: IntArray,
    duration: float,
    *,
    rtol: float = 1e-6,
    stats: dict[str, float] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Directions (m, P) and log norms (m,) after `duration` of accelerated time on a frozen residual, no threshold."""
    never = Threshold(problem, False, np.zeros((0, problem.n_params)), np.zeros(0, dtype=np.int64), np.inf)
    batch = _Batch(problem, residual, clock, never, directions, log_norms, neurons, rtol)
    batch.run(duration)
    out = batch.at(duration)
    batch.count(stats)
    return out


class _Batch:
    """All neurons, each at the end of its last accepted step; columns of a row: direction, log norm, elapsed time."""

    def __init__(
        self,
        problem: Problem,
        residual: Any,
        clock: Clock,
        threshold: Threshold,
        directions: FloatArray,
        log_norms: FloatArray,
        neurons: IntArray,
        rtol: float,
    ) -> None:
        self.problem, self.residual, self.clock, self.threshold = problem, residual, clock, threshold
        self.neurons, self.rtol = neurons, rtol
        kinks = not problem.smooth or problem.kink > 0
        self.loose = rtol ** (2 / 3) if kinks else rtol
        self.m, self.p = directions.shape
        self.pace = float(np.exp(min(-clock.log_scale, 700.0)))  # dt/ds for degree 2
        self.evaluations = self.steps = 0
        self.asked = threshold.calls
        self.start = np.column_stack([directions, log_norms, np.zeros(self.m)])
        self.y0, self.y1 = self.start.copy(), self.start.copy()
        self.mid = self.start.copy()
        self.h = np.zeros(self.m)  # length in s of the last accepted step
        alive = np.isfinite(log_norms)
        self.f1 = np.zeros_like(self.y1)
        for rows in self._blocks(np.flatnonzero(alive)):
            self.f1[rows] = self._velocity(self.y1[rows], neurons[rows])
        refuse_nonfinite(problem, "utility", np.logical_not(np.isfinite(self.f1).all(axis=1)), neurons)
        self.f0 = self.f1.copy()
        drive = self._drive(self.f1)
        self.top = float(drive.max(initial=0.0))
        self.dead = ~alive | (drive <= _DEAD * self.top)
        self.resting = self.dead.copy()  # follows the closed law from y1 on
        self.calm = np.zeros(self.m, dtype=np.int64)  # steps in a row with a direction (almost) at rest
        with np.errstate(divide="ignore"):
            self.next_h = np.where(self.dead, 0.0, 0.5 * rtol**0.2 / (drive * problem.degree))
        self.log_2c = np.full(self.m, np.nan) if threshold.memory is None else threshold.memory[neurons]
        self.turn = _TURN if threshold.memory is None else _FAR
        self.turned = np.where(np.isnan(self.log_2c), np.inf, 0.0)  # angle since log_2c was computed
        self.typical = np.nan
        self.crossed = np.full(self.m, np.inf)  # time of the crossing
        self.where = np.full(self.m, np.nan)  # its place in the last step, 0..1
        if self.top > 0:
            self._first_look()

    # -- the field --------------------------------------------------------------------------------------------

    def _blocks(self, rows: IntArray) -> list[IntArray]:
        size = max(1, _BLOCK // (self.p + 2))
        return [rows[i : i + size] for i in range(0, rows.size, size)]

    def _velocity(self, y: FloatArray, neurons: IntArray) -> FloatArray:
        """d(direction, log norm, time)/ds of rows y, (m, P + 2)."""
        self.evaluations += 1
        p, degree = self.p, self.problem.degree
        theta = y[:, :p]
        unit = theta / lengths(theta)[:, None]
        utility, gradient = self.problem.utility(unit, neurons, self.residual)
        expect_shape(self.problem, "utility", utility, (neurons.size,))
        expect_shape(self.problem, "utility gradient", gradient, unit.shape)
        out = np.empty_like(y)
        np.subtract(gradient, np.einsum("ij,ij->i", unit, gradient)[:, None] * unit, out=out[:, :p])
        np.multiply(utility, degree, out=out[:, p])
        if degree == 2:
            out[:, p + 1] = self.pace
        else:
            out[:, p + 1] = np.exp(np.minimum((2 - degree) * y[:, p] - self.clock.log_scale, 700.0))
        return out

    def _drive(self, f: FloatArray) -> FloatArray:
        """|grad U| / degree at unit norm, from the velocity: its radial part is degree U by Euler's identity."""
        return lengths(f[:, : self.p + 1]) / self.problem.degree

    def _grows(self, f: FloatArray) -> BoolArray:
        """Whether the utility is positive, and known to be, (m,)."""
        return f[:, self.p] > self.problem.degree * self.threshold.noise

    # -- stepping ---------------------------------------------------------------------------------------------

    def run(self, stop: float) -> Status | None:
        """Step until the first crossing is known and every neuron has passed it. None, or why there is no crossing."""
        for _ in range(_MAX_ROUNDS):
            end = min(float(self.crossed.min(initial=np.inf)), stop)
            behind = ~self.resting & (self.y1[:, -1] < end) & np.isinf(self.crossed)
            if not behind.any():
                break
            # A step may pass the first crossing but must not begin after it, or the state there would be lost.
            ready = behind & (self.y1[:, -1] <= self._earliest(np.flatnonzero(behind)))
            for block in self._blocks(np.flatnonzero(ready)):
                self._step(block)
        else:
            return Status.MAX_STEPS
        first = float(self.crossed.min(initial=np.inf))
        if first <= stop and np.isfinite(first):
            return None
        can_grow = (self._grows(self.f1) | ~self.resting).any()
        return Status.MAX_TIME if np.isfinite(stop) and can_grow else Status.NO_GROWTH

    def _earliest(self, rows: IntArray) -> float:
        """Earliest crossing to expect: each neuron at the largest rate its gradient allows."""
        drive = self._drive(self.f1[rows])
        expected = self.y1[rows, -1] + self._wait(rows, drive, drive)
        if self.threshold.natural:
            soonest = rows[np.argsort(expected, kind="stable")[:_CONTENDERS]]
            stale = soonest[self.turned[soonest] > self.turn]
            if stale.size:
                self._refresh(stale)
                self._set_typical(soonest)
                if np.isnan(self.typical):  # nothing learned from these: ask about everybody
                    self._refresh(rows[self.turned[rows] > self.turn])
                    self._set_typical(rows)
                expected = self.y1[rows, -1] + self._wait(rows, drive, drive)
        return float(np.min(expected, initial=np.inf))

    def _wait(self, rows: IntArray, utility: FloatArray, drive: FloatArray) -> FloatArray:
        """Accelerated time that rows need to their thresholds at a fixed utility, inf where it is not positive."""
        kappa = self.problem.degree
        gap = log_threshold(self.y1[rows, self.p], kappa, self.threshold.log_radius(drive, self._known(rows)))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            wait = np.exp(gap - np.log(kappa * np.maximum(utility, 0.0)) - self.clock.log_scale)
        return np.where(utility > 0, wait, np.inf)

    def _step(self, rows: IntArray) -> None:
        neurons, h, y0 = self.neurons[rows], self.next_h[rows][:, None], self.y1[rows]
        k = np.empty((7, *y0.shape))
        flat = k.reshape(7, y0.size)
        k[0] = self.f1[rows]
        with np.errstate(invalid="ignore", over="ignore"):
            for s, weights in enumerate(_STAGES, 1):
                k[s] = self._velocity(y0 + h * (weights @ flat[:s]).reshape(y0.shape), neurons)
            y1 = y0 + h * (_B @ flat[:6]).reshape(y0.shape)
            y1[:, : self.p] /= lengths(y1[:, : self.p])[:, None]
            k[6] = self._velocity(y1, neurons)
            ratio = self._error(h * (_E @ flat).reshape(y0.shape), y0, y1, k[0], k[6])
            bad = ~np.isfinite(ratio + y1.sum(axis=1) + k[6].sum(axis=1))
        ratio = np.where(bad, np.inf, ratio)
        factor = np.clip(0.9 * np.maximum(ratio, 1e-10) ** -0.2, 0.2, 5.0)
        self.next_h[rows] *= factor
        ok = ratio <= 1.0
        if bad.any():
            stuck = bad & (self.next_h[rows] * self._drive(k[0]) < 1e-12)
            refuse_nonfinite(self.problem, "utility", stuck, neurons)
        done = rows[ok]
        if done.size == 0:
            return
        self.steps += 1
        mid = y0 + h * (_MID @ flat).reshape(y0.shape)
        self.y0[done], self.f0[done], self.h[done] = y0[ok], k[0, ok], h[ok, 0]
        self.mid[done], self.y1[done], self.f1[done] = mid[ok], y1[ok], k[6, ok]
        self.turned[done] += lengths(y1[ok, : self.p] - y0[ok, : self.p])
        self._look(done)
        self._rest(done[np.isinf(self.crossed[done])])

    def _error(self, err: FloatArray, y0: FloatArray, y1: FloatArray, f0: FloatArray, f1: FloatArray) -> FloatArray:
        """Error of each row over its tolerance. Time is relative to the time elapsed, the rest absolute.

        A direction that gathers speed leaves a saddle or a flat spot. How soon is decided while it has hardly moved, so
        there the error is relative to the move.
        """
        loose, p = self.loose, self.p
        gathers = lengths(f1[:, :p]) > 2.0 * lengths(f0[:, :p])
        move = lengths(y1[:, :p] - y0[:, :p])
        allowed = np.where(gathers, np.minimum(loose, _ESCAPE * move + np.finfo(float).eps), loose)
        direction = lengths(err[:, :p]) / allowed
        norm = np.abs(err[:, p]) / loose
        time = np.abs(err[:, -1]) / (self.rtol * y1[:, -1])
        return np.maximum(np.maximum(direction, norm), time)

    def _rest(self, rows: IntArray) -> None:
        """Let neurons whose direction no longer moves, and will not, follow the closed law of the norm."""
        if rows.size == 0:
            return
        tangent = lengths(self.f1[rows, : self.p])
        slope = self._drive(self.f1[rows]) * self.problem.degree
        vanished = slope <= _DEAD * self.top * self.problem.degree
        # Far above a threshold that is low because nothing drives it: left alone.
        unknown = ~self._grows(self.f1[rows]) & (slope <= 2 * self.problem.degree * self.threshold.noise)
        if unknown.any():
            vanished |= unknown & (self._gap(rows) > 1.0)
        still = tangent <= _AT_REST * self.rtol * slope
        calm = np.where(tangent > _LOOKS_AT_REST * slope, 0, self.calm[rows] + 1)
        length = self.h[rows]
        halved = np.where(calm == 1, 0.5 * length, np.minimum(self.next_h[rows], length))
        self.next_h[rows] = np.where((calm >= 1) & (calm < _REST_STEPS), halved, self.next_h[rows])
        asked = rows[(calm == _REST_STEPS) & still]
        self.calm[rows] = np.where((calm == _REST_STEPS) & ~still, 0, calm)  # not yet: damp it once more
        stable = asked[self._stable(asked)] if asked.size else asked
        self.resting[rows] = vanished
        self.resting[stable] = True
        # Exactly at rest where it cannot grow, though unstable: nothing ever turns it.
        exact = (calm == _REST_STEPS) & (tangent <= _EXACTLY_AT_REST * slope) & (self.f1[rows, self.p] <= 0)
        self.resting[rows[exact]] = True
        grows = stable[self._grows(self.f1[stable])]
        if grows.size:
            self._refresh(grows)
            utility = self.f1[grows, self.p] / self.problem.degree
            self.crossed[grows] = self.y1[grows, -1] + self._wait(grows, utility, self._drive(self.f1[grows]))

    def _stable(self, rows: IntArray) -> BoolArray:
        """Whether no perturbation of the directions of rows, at rest, grows noticeably before the threshold, (m,)."""
        growth = self.f1[rows, self.p]  # degree U: log norm per s
        # A neuron that shrinks may do so for ever; a rate below its own by 1e6 is what differences resolve.
        e_folds = np.where(growth > 0, np.clip(-self._gap(rows), 1.0, 1e6), 1e6)
        parts = np.array_split(rows, 1 + rows.size * self.p // (_BLOCK // 8))
        rate = np.concatenate([self._largest_rate(part) for part in parts])
        return rate * e_folds <= _SAFE_GROWTH * np.abs(growth)

    def _largest_rate(self, rows: IntArray) -> FloatArray:
        """Largest eigenvalue of the linearized direction flow on the tangent space, (m,)."""
        y, f, neurons = self.y1[rows], self.f1[rows, : self.p], self.neurons[rows]

        def apply(v: FloatArray) -> FloatArray:
            shifted = y.copy()
            shifted[:, : self.p] += _SHIFT * v
            return (self._velocity(shifted, neurons)[:, : self.p] - f) / _SHIFT

        return lanczos.largest(apply, y[:, : self.p], min(_LANCZOS, self.p - 1))

    # -- thresholds -------------------------------------------------------------------------------------------

    def _refresh(self, rows: IntArray) -> None:
        """Self-interaction at the present directions."""
        for block in self._blocks(rows):
            self.log_2c[block] = self.threshold.log_self_interaction(self.y1[block, : self.p], self.neurons[block])
        self.turned[rows] = 0.0
        if self.threshold.memory is not None:
            self.threshold.memory[self.neurons[rows]] = self.log_2c[rows]

    def _set_typical(self, rows: IntArray) -> None:
        values = self.log_2c[rows]
        if np.isfinite(values).any():
            self.typical = float(np.median(values[np.isfinite(values)]))

    def _known(self, rows: IntArray) -> FloatArray:
        """log 2C of rows as far as known, (m,): a stale value counts only where it makes the threshold lower."""
        if not self.threshold.natural:
            return np.zeros(rows.size)
        stale = self.turned[rows] > self.turn
        known = np.where(stale, np.fmax(self.log_2c[rows], self.typical), self.log_2c[rows])
        return np.where(np.isnan(known), -np.inf, known)

    def _gap(self, rows: IntArray) -> FloatArray:
        """Log norm minus log norm of activation at the ends of the last steps, (m,), self-interaction as last known."""
        return self.y1[rows, self.p] - self.threshold.log_radius(self._drive(self.f1[rows]), self._known(rows))

    def _first_look(self) -> None:
        """Activations at time zero, and the self-interaction of the strongest neurons."""
        self._earliest(np.flatnonzero(~self.dead))
        self._look(np.flatnonzero(~self.dead))

    def _look(self, rows: IntArray) -> None:
        """Find the crossings in the steps just taken by rows."""
        growing = rows[self._grows(self.f1[rows]) & ~self.resting[rows]]
        near = growing[self._gap(growing) > -_MARGIN]
        if near.size == 0:
            return
        old = self.turned[near] > self.turn
        self._refresh(near[old])
        if self.threshold.memory is None:
            self._refresh(near[~old][self._gap(near[~old]) > -1.0])
        over = near[self._gap(near) >= 0.0]
        if over.size:
            self._locate(over)

    def _dense(self, rows: IntArray, sigma: FloatArray) -> FloatArray:
        """State inside the last step, (m, P + 2), directions normalized."""
        h = self.h[rows][:, None]
        out = quartic.inside(
            sigma[:, None], self.y0[rows], self.y1[rows], h * self.f0[rows], h * self.f1[rows], self.mid[rows]
        )
        out[:, : self.p] /= lengths(out[:, : self.p])[:, None]
        return out

    def _event(self, rows: IntArray, sigma: FloatArray) -> FloatArray:
        """Gap inside the last step with everything recomputed; -1 where the utility is not positive."""
        y = self._dense(rows, sigma)
        f = self._velocity(y, self.neurons[rows])
        log_2c = self.log_2c[rows]
        if self.threshold.memory is None:
            log_2c = self.threshold.log_self_interaction(y[:, : self.p], self.neurons[rows])
        gap = y[:, self.p] - self.threshold.log_radius(self._drive(f), log_2c)
        return np.where(self._grows(f), gap, -1.0)

    def _locate(self, rows: IntArray) -> None:
        """First crossing of each of rows inside its last step, by a bracketed secant (Illinois)."""
        # On a kink the gap jumps with the gradient, by more than its root can be said to be known; an estimate needs
        # no more than its steps are good for.
        sharp = 1e-12 if self.problem.smooth else 1e-9
        if self.threshold.memory is not None:
            sharp = max(sharp, 1e-2 * self.rtol)
        low, high = np.zeros(rows.size), np.ones(rows.size)
        at_low, at_high = self._event(rows, low), self._gap(rows)
        high = np.where(at_low >= 0, 0.0, high)  # already there when the step began (or time zero)
        last = np.zeros(rows.size)  # sign of the last value: an end that stays for the second time counts half
        for turn in range(_TURNS):
            open_ = np.flatnonzero(high - low > sharp)
            if open_.size == 0:
                break
            if turn == _TURNS - 1:
                lost = rows[open_[0]]
                words = (
                    f"the crossing of neuron {self.neurons[lost]} was not located within {_TURNS} halvings: "
                    "its utility or self-interaction is not finite, or jumps from call to call."
                )
                raise integrators.Stalled(words, float(self.y1[lost, -1]), self.y1[lost])
            a, b, fa, fb = low[open_], high[open_], at_low[open_], at_high[open_]
            inside = 1e-13 + 1e-6 * (b - a) * (turn > 3)  # where a guess is good, the other end follows at once
            guess = np.clip(b - fb * (b - a) / (fb - fa), a + inside, b - inside)
            guess = 0.5 * (a + b) if turn > 6 and turn % 3 == 2 else guess  # gaps may jump
            value = self._event(rows[open_], guess)
            up = value >= 0
            close = np.abs(value) <= 1e-14 * np.maximum(1.0, np.abs(self.y1[rows[open_], self.p]))
            low[open_] = np.where(close, guess, np.where(up, a, guess))
            high[open_] = np.where(up | close, guess, b)
            at_low[open_] = np.where(up, np.where(last[open_] > 0, 0.5, 1.0) * fa, value)
            at_high[open_] = np.where(up, value, np.where(last[open_] < 0, 0.5, 1.0) * fb)
            last[open_] = np.where(up, 1.0, -1.0)
        self.where[rows] = high
        self.crossed[rows] = self._dense(rows, high)[:, -1]

    # -- the state at one time --------------------------------------------------------------------------------

    def at(self, time: float) -> tuple[FloatArray, FloatArray]:
        """Directions (m, P) and log norms (m,) of everybody at one elapsed time."""
        directions, log_norms = self.start[:, : self.p].copy(), self.start[:, self.p].copy()
        law = np.flatnonzero(self.resting & ~self.dead & (self.y1[:, -1] <= time))
        directions[law], log_norms[law] = self.y1[law, : self.p], self._law(law, time)
        inside = np.flatnonzero(~self.dead & (self.y0[:, -1] <= time) & (time < self.y1[:, -1]))
        if inside.size:
            y = self._dense(inside, self._place(inside, time))
            directions[inside], log_norms[inside] = y[:, : self.p], y[:, self.p]
        end = np.flatnonzero(~self.dead & ~self.resting & (self.y1[:, -1] == time))
        directions[end], log_norms[end] = self.y1[end, : self.p], self.y1[end, self.p]
        lost = np.flatnonzero(~self.dead & (self.y0[:, -1] > time))
        if lost.size:  # their steps began after the crossing: once more, now that its time is known
            stats: dict[str, float] = {}
            directions[lost], log_norms[lost] = carry(
                self.problem, self.residual, self.clock, directions[lost], log_norms[lost], self.neurons[lost], time,
                rtol=self.rtol, stats=stats,
            )  # fmt: skip
            self.evaluations += int(stats["utility_evaluations"])
            self.steps += int(stats["dormant_steps"])
        return directions, log_norms

    def _law(self, rows: IntArray, time: float) -> FloatArray:
        """Log norms at `time` of neurons at rest: the closed law at a fixed utility."""
        kappa = self.problem.degree
        unit = (kappa - 2) * self.y1[rows, self.p] + self.clock.log_scale  # charge in units that cannot overflow
        charge = self.f1[rows, self.p] * np.exp(unit) * (time - self.y1[rows, -1])
        return self.y1[rows, self.p] + log_norm(charge, np.zeros(rows.size), kappa)

    def _place(self, rows: IntArray, time: float) -> FloatArray:
        """Place of `time` in the last step of each of rows, 0..1."""
        ends, h = (self.y0[rows, -1], self.y1[rows, -1]), self.h[rows]
        return quartic.place(time, *ends, h * self.f0[rows, -1], h * self.f1[rows, -1], self.mid[rows, -1])

    def crossing(self, tie_rtol: float) -> Crossing:
        """The first crossing, with its ties, and everybody at that time."""
        time = float(self.crossed.min())
        directions, log_norms = self.at(time)
        first = np.flatnonzero(self.crossed == time)
        moving = first[~self.resting[first]]
        # time does not resolve the end of a blow-up: those that crossed are where the crossing was located
        there = self._dense(moving, self.where[moving])
        directions[moving], log_norms[moving] = there[:, : self.p], there[:, self.p]
        kappa = self.problem.degree
        alive = np.flatnonzero(~self.dead)
        self.y1[alive, : self.p], self.y1[alive, self.p], self.y1[:, -1] = directions[alive], log_norms[alive], time
        for rows in self._blocks(alive):
            self.f1[rows] = self._velocity(self.y1[rows], self.neurons[rows])
        utility, drive = self.f1[:, self.p] / kappa, self._drive(self.f1)
        known = alive[np.isfinite(self.log_2c[alive])] if self.threshold.natural else alive
        close = known[self._grows(self.f1[known]) & (self._gap(known) > -1.0)]
        self._refresh(np.union1d(close, first))
        lacks = np.full(self.m, np.inf)
        growing = alive[self._grows(self.f1[alive])]
        lacks[growing] = self._wait(growing, utility[growing], drive[growing])
        located = np.isfinite(self.crossed)
        lacks[located] = self.crossed[located] - time
        tied = lacks <= tie_rtol * time
        log_radius = self.threshold.log_radius(drive, self.log_2c)
        if time > 0:  # before, a neuron may stand above its threshold, and starts from there
            log_norms[tied] = log_radius[tied]
        tied |= self._twins(first)
        chosen = np.flatnonzero(tied)
        others = np.where(tied, np.inf, lacks)
        next_ = int(np.argmin(others)) if others.size else 0
        runner_up = (next_, float(others[next_])) if np.isfinite(others).any() else None
        log_2c = self.log_2c[chosen]
        with np.errstate(over="ignore"):
            gains = 0.5 * utility[chosen] ** 2 * np.exp(-log_2c) if self.threshold.natural else np.array([np.nan])
        return Crossing(
            time=time,
            neurons=chosen,
            utility=utility[chosen],
            log_radius=log_radius[chosen],
            gain=float(gains.max()),
            runner_up=runner_up,
            directions=directions,
            log_norms=log_norms,
            growing=self._grows(self.f1),
        )

    def _twins(self, rows: IntArray) -> BoolArray:
        """Neurons that activate with rows, whatever the time they lack.

        Those that started exactly where one of rows did; and those that now have its direction and lack less than a
        factor e in norm: they learn the same, by shares.
        """
        out = np.zeros(self.m, dtype=bool)
        out[rows] = True
        if self.problem.interchangeable:
            near, alive = np.zeros(self.m, dtype=bool), np.flatnonzero(~self.dead)
            near[alive] = self._grows(self.f1[alive]) & (self._gap(alive) > -1.0)
            for row in rows:
                out |= (self.start == self.start[row]).all(axis=1)
                out |= near & (lengths(self.y1[:, : self.p] - self.y1[row, : self.p]) < _TURN)
        return out

    def count(self, stats: dict[str, float] | None) -> None:
        """Add the work done to the counters."""
        if stats is not None:
            work = {
                "utility_evaluations": self.evaluations,
                "dormant_steps": self.steps,
                "self_interactions": self.threshold.calls - self.asked,
            }
            for name, value in work.items():
                stats[name] = stats.get(name, 0) + value
