"""Where dormant neurons stand to their thresholds, and where in a step they cross them."""

from __future__ import annotations

import numpy as np

from agf import integrators
from agf.algorithm.stepper import Stepper
from agf.algorithm.threshold import EstimatedThreshold, Threshold
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.clock import log_threshold
from agf.rounding import UNIT

#: Log norm below the threshold of a typical neuron from which on a neuron's own self-interaction is computed. Result: a
#: neuron whose self-interaction is exp(6) times smaller than the typical one's would be seen too late; at 0.3 one twice
#: as small, at 30 all are computed at every step.
_MARGIN = 3.0
#: Distance of directions at which two neurons are one: a neuron's self-interaction is stale once it has turned by this,
#: and those of a group this close activate together. Result: the loss that neurons so near see of one another is right
#: to half a percent, the square; at 1 neurons of different features would be one, at 0.01 each would make its own drop.
TURN = 0.1
#: Distance of directions at which an estimate of a self-interaction is stale, and two neurons may be of one group.
#: Cost: what is far is looked at again, exactly, before it counts.
FAR = 0.5
#: Neurons, the next to cross, whose self-interaction is always fresh: they say what a typical one's is. Cost: of
#: self-interactions.
_CONTENDERS = 8
#: Evaluations that locate a crossing. Derived: a third of them halve, as many as float64 has digits.
_TURNS = 160


class Crossings:
    """Self-interactions as far as known, and crossings as far as located, of the neurons of a `Stepper`.

    Attributes
    ----------
    log_2c : float ndarray, shape (m,)
        Log 2C, NaN where unknown.
    floors : float ndarray, shape (m,)
        C without the active neurons, NaN where unknown.
    turned : float ndarray, shape (m,)
        Angle by which a direction has turned since these were computed.
    share : float ndarray, shape (m,)
        Log norm of the group that a neuron is one of, over its own: groups cross, not neurons.
    crossed : float ndarray, shape (m,)
        Time of the crossing, inf where none is known.
    where : float ndarray, shape (m,)
        Its place in the last step, 0..1.
    """

    def __init__(self, steps: Stepper, threshold: Threshold) -> None:
        self.steps, self.threshold, self.degree = steps, threshold, steps.batch.problem.degree
        self.estimate = threshold if isinstance(threshold, EstimatedThreshold) else None
        self.calls = 0
        unknown = np.full(steps.m, np.nan)
        self.log_2c, self.floors = unknown, unknown.copy()
        if self.estimate is not None:
            self.log_2c, self.floors = self.estimate.known[steps.neurons], self.estimate.floors[steps.neurons]
        self.stale = TURN if self.estimate is None else FAR
        self.turned = np.where(np.isnan(self.log_2c), np.inf, 0.0)
        self.typical = np.nan
        self.share = np.zeros(steps.m)
        self.crossed = np.full(steps.m, np.inf)
        self.where = np.full(steps.m, np.nan)

    # -- self-interactions --------------------------------------------------------------------------------------

    def interaction(self, directions: FloatArray, rows: IntArray) -> FloatArray:
        """log 2C of rows at these directions, (m,)."""
        neurons = self.steps.neurons[rows]
        if not self.threshold.natural:
            return np.zeros(rows.size)
        if self.threshold.active_neurons.size:
            new = np.isnan(self.floors[rows])
            if new.any():
                self.calls += 1
                self.floors[rows[new]] = self.threshold.alone(directions[new], neurons[new])
        self.calls += 1
        return self.threshold.log_self_interaction(directions, neurons, self.floors[rows])

    def refresh(self, rows: IntArray) -> None:
        """Self-interaction at the present directions."""
        for block in self.steps.blocks(rows):
            self.log_2c[block] = self.interaction(self.steps.y1[block, : self.steps.p], block)
        self.turned[rows] = 0.0

    def learned(self) -> Threshold:
        """The threshold with what was found: for an estimate to go on with."""
        if self.estimate is None:
            return self.threshold
        return self.estimate.learned(self.steps.neurons, self.log_2c, self.floors)

    def _set_typical(self, rows: IntArray) -> None:
        values = self.log_2c[rows]
        if np.isfinite(values).any():
            self.typical = float(np.median(values[np.isfinite(values)]))

    def _known(self, rows: IntArray) -> FloatArray:
        """log 2C of rows as far as known, (m,): a stale value counts only where it makes the threshold lower."""
        if not self.threshold.natural:
            return np.zeros(rows.size)
        stale = self.turned[rows] > self.stale
        known = np.where(stale, np.fmax(self.log_2c[rows], self.typical), self.log_2c[rows])
        return np.where(np.isnan(known), -np.inf, known)

    # -- thresholds ---------------------------------------------------------------------------------------------

    def grows(self, f: FloatArray) -> BoolArray:
        """Whether the utility is positive, and known to be, (m,)."""
        return f[:, self.steps.p] > self.degree * self.threshold.noise

    def gap(self, rows: IntArray) -> FloatArray:
        """Log norm minus log norm of activation at the ends of the last steps, (m,), self-interaction as last known."""
        steps = self.steps
        radius = self.threshold.log_radius(steps.field.aligned_utility(steps.f1[rows]), self._known(rows))
        return steps.y1[rows, steps.p] + self.share[rows] - radius

    def wait(self, rows: IntArray, utility: FloatArray, aligned: FloatArray) -> FloatArray:
        """Accelerated time that rows need to their thresholds at a fixed utility, inf where it is not positive."""
        steps = self.steps
        radius = self.threshold.log_radius(aligned, self._known(rows))
        log_norm = steps.y1[rows, steps.p] + self.share[rows]
        there = np.abs(log_norm - radius) <= UNIT  # what is left is rounding
        gap = np.where(there, -np.inf, log_threshold(log_norm, self.degree, radius))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            wait = np.exp(gap - np.log(self.degree * np.maximum(utility, 0.0)) - steps.batch.clock.log_scale)
        return np.where(utility > 0, wait, np.inf)

    def earliest(self, rows: IntArray) -> float:
        """Earliest crossing to expect: each neuron at the largest rate its gradient allows."""
        steps = self.steps
        aligned = steps.field.aligned_utility(steps.f1[rows])
        expected = steps.y1[rows, -1] + self.wait(rows, aligned, aligned)
        if self.threshold.natural:
            soonest = rows[np.argsort(expected, kind="stable")[:_CONTENDERS]]
            stale = soonest[self.turned[soonest] > self.stale]
            if stale.size:
                self.refresh(stale)
                self._set_typical(soonest)
                if np.isnan(self.typical):  # nothing learned from these: ask about all
                    self.refresh(rows[self.turned[rows] > self.stale])
                    self._set_typical(rows)
                expected = steps.y1[rows, -1] + self.wait(rows, aligned, aligned)
        return float(np.min(expected, initial=np.inf))

    def regroup(self, share: FloatArray, resting: BoolArray) -> None:
        """Look again at the last steps, with other shares."""
        steps = self.steps
        self.share = share
        self.crossed[:] = np.inf
        self._by_the_law(np.flatnonzero(resting & ~steps.dead & self.grows(steps.f1)))
        self.look(np.flatnonzero(~resting & ~steps.dead))

    def foresee(self, rows: IntArray) -> None:
        """Find the crossings of those of rows, at rest, that grow: by the law of the norm at a fixed utility."""
        grows = rows[self.grows(self.steps.f1[rows])]
        if grows.size:
            self.refresh(grows)
            self._by_the_law(grows)

    def _by_the_law(self, rows: IntArray) -> None:
        steps = self.steps
        utility, aligned = steps.f1[rows, steps.p] / self.degree, steps.field.aligned_utility(steps.f1[rows])
        self.crossed[rows] = steps.y1[rows, -1] + self.wait(rows, utility, aligned)

    # -- crossings ----------------------------------------------------------------------------------------------

    def look(self, rows: IntArray) -> None:
        """Find the crossings in the steps just taken by rows."""
        growing = rows[self.grows(self.steps.f1[rows])]
        near = growing[self.gap(growing) > -_MARGIN]
        if near.size == 0:
            return
        old = self.turned[near] > self.stale
        self.refresh(near[old])
        if self.estimate is None:
            self.refresh(near[~old][self.gap(near[~old]) > -1.0])
        over = near[self.gap(near) >= 0.0]
        if over.size:
            self._locate(over)

    def _event(self, rows: IntArray, sigma: FloatArray) -> FloatArray:
        """Gap inside the last step with everything recomputed; -1 where the utility is not positive."""
        steps = self.steps
        y = steps.dense(rows, sigma)
        f = steps.field.velocity(y, steps.neurons[rows])
        log_2c = self.log_2c[rows] if self.estimate is not None else self.interaction(y[:, : steps.p], rows)
        gap = y[:, steps.p] + self.share[rows] - self.threshold.log_radius(steps.field.aligned_utility(f), log_2c)
        return np.where(self.grows(f), gap, -1.0)

    def _locate(self, rows: IntArray) -> None:
        """First crossing of each of rows inside its last step, by a bracketed secant (Illinois)."""
        steps = self.steps
        # On a kink the gap jumps with the gradient, by more than its root can be said to be known; an estimate needs
        # no more than its steps are good for.
        sharp = 1e-12 if steps.batch.problem.smooth else 1e-9
        if self.estimate is not None:
            sharp = max(sharp, 1e-2 * steps.rtol)
        low, high = np.zeros(rows.size), np.ones(rows.size)
        at_low, at_high = self._event(rows, low), self.gap(rows)
        high = np.where(at_low >= 0, 0.0, high)  # already there when the step began (or time zero)
        last = np.zeros(rows.size)  # sign of the last value: an end that stays for the second time counts half
        for turn in range(_TURNS):
            open_ = np.flatnonzero(high - low > sharp)
            if open_.size == 0:
                break
            if turn == _TURNS - 1:
                lost = rows[open_[0]]
                message = (
                    f"the crossing of neuron {steps.neurons[lost]} was not located within {_TURNS} halvings: "
                    "its utility or self-interaction is not finite, or jumps from call to call."
                )
                raise integrators.Stalled(message, float(steps.y1[lost, -1]), steps.y1[lost])
            a, b, fa, fb = low[open_], high[open_], at_low[open_], at_high[open_]
            inside = 1e-13 + 1e-6 * (b - a) * (turn > 3)  # where a guess is good, the other end follows at once
            guess = np.clip(b - fb * (b - a) / (fb - fa), a + inside, b - inside)
            guess = 0.5 * (a + b) if turn > 6 and turn % 3 == 2 else guess  # gaps may jump
            value = self._event(rows[open_], guess)
            up = value >= 0
            close = np.abs(value) <= 1e-14 * np.maximum(1.0, np.abs(steps.y1[rows[open_], steps.p]))
            low[open_] = np.where(close, guess, np.where(up, a, guess))
            high[open_] = np.where(up | close, guess, b)
            at_low[open_] = np.where(up, np.where(last[open_] > 0, 0.5, 1.0) * fa, value)
            at_high[open_] = np.where(up, value, np.where(last[open_] < 0, 0.5, 1.0) * fb)
            last[open_] = np.where(up, 1.0, -1.0)
        self.where[rows] = high
        self.crossed[rows] = steps.dense(rows, high)[:, -1]
