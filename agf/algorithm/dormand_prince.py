"""Steps of dormant neurons by the method of Dormand and Prince, in any field.

Where stability rather than accuracy limits the steps of a neuron, as of one that slides along rounded kinks, it takes
stabilised steps for as long (rkc2 of `integrators`).
"""

from __future__ import annotations

import numpy as np

from agf.algorithm.field import Batch, Field
from agf.algorithm.past_steps import PastSteps, within
from agf.algorithm.stepper import Stepper
from agf.algorithm.threshold import refuse_nonfinite
from agf.arrays import FloatArray, IntArray
from agf.clock import log_norm
from agf.coordinates.vanishing import ENDS, vanishing
from agf.formulas.explicit import BULGE, ERROR, STAGES, chebyshev_weights
from agf.integrators import MAX_STAGES, RADIUS_AGE, STAGES_SQUARED, STIFF_PRODUCT, STIFF_STEPS, place
from agf.rounding import EPS, SUM, TINY
from agf.sphere import lengths

#: Error of a step that leaves a saddle, relative to the step. Result: of when it leaves, which is decided while it has
#: hardly moved, also for a rough question: at 1e-2 a horizon is off by enough to move a level in its second digit.
_ESCAPE = 1e-5
#: Error of a step, over its tolerance, from which on it decides how long the next one is. Cost: of steps that are
#: damped; what is less lets the next one grow by two fifths and more.
_DECIDES = 0.1
#: Power iterations for the fastest mode of a stiff neuron, from the one last found. Cost: a radius that is too small
#: lets a step become unstable, and it is rejected.
_ITERATIONS = 5
#: Length of the differences that stand for the linearization. Derived: the root of the rounding of the gradient, a sum
#: over the data, at which truncation and rounding are equal.
SHIFT = SUM**0.5


class DormandPrince(Stepper):
    """All neurons, each at the end of its last accepted step.

    Parameters
    ----------
    batch : Batch
        The neurons.
    rtol : float
        Error of a step.

    Attributes
    ----------
    h : float ndarray, shape (m,)
        Length in s of the last accepted step.
    next_h : float ndarray, shape (m,)
        Of the next one.
    """

    def __init__(self, batch: Batch, rtol: float) -> None:
        super().__init__(batch, Field(batch), rtol)
        problem = batch.problem
        self._loose = rtol ** (2 / 3) if problem.cornered else rtol
        self._f0, self._bulge = self.f1.copy(), np.zeros_like(self.start)
        self.h = np.zeros(self.m)
        with np.errstate(divide="ignore"):
            self.next_h = np.where(
                self.dead, 0.0, 0.5 * rtol**0.2 / (self.field.aligned_utility(self.f1) * problem.degree)
            )
        self._limited = np.zeros(self.m, dtype=np.int64)  # steps whose length stability decided
        self._calm = np.zeros(self.m, dtype=bool)  # whether it did not decide the last one
        self._rejected = np.zeros(self.m, dtype=bool)  # whether that was rejected
        self._radius = np.zeros(self.m)  # spectral radius where that is so: stabilised steps; else 0
        self._fastest = np.zeros((self.m, self.p))  # direction of that mode
        self._age = np.zeros(self.m, dtype=np.int64)  # steps since it was looked for
        self._past = PastSteps(self.p)

    def step(self, rows: IntArray) -> IntArray:
        """Try a step of each of rows; those that were accepted."""
        stiff = self._radius[rows] > 0.0
        done = [self._step(part, way) for part, way in ((rows[~stiff], False), (rows[stiff], True)) if part.size]
        accepted = np.sort(np.concatenate(done)) if done else rows
        self.steps += int(accepted.size > 0)
        return accepted

    def _step(self, rows: IntArray, stabilised: bool) -> IntArray:
        field, neurons = self.field, self.neurons[rows]
        with np.errstate(invalid="ignore", over="ignore"):
            y0, y1, f1, err, bulge = self._stabilised(rows) if stabilised else self._explicit(rows)
            ratio = self._error(err, y0, y1, self.f1[rows], f1)
            bad = ~np.isfinite(ratio + y1.sum(axis=1) + f1.sum(axis=1))
        ratio, h = np.where(bad, np.inf, ratio), self.next_h[rows]
        factor = np.clip(0.9 * np.maximum(ratio, 1e-10) ** (-1 / 3 if stabilised else -0.2), 0.2, 5.0)
        if not stabilised:
            # an error above all that the velocity changed is of stages that a stiff mode throws about: one step to damp
            # it, which takes back half of what is counted, and then stabilised ones
            hovers = (ratio > _DECIDES) & (lengths(err[:, : self.p]) > h * lengths((f1 - self.f1[rows])[:, : self.p]))
            factor[hovers] = np.minimum(factor[hovers], 0.5)
            self._limited[rows[hovers]] = 2 * STIFF_STEPS[0]
        self.next_h[rows] *= factor
        ok = ratio <= 1.0
        # what an unstable step does, and a stable one to which it was cut, takes nothing back
        fewer = rows[ok & self._calm[rows] & ~self._rejected[rows]]
        self._limited[fewer] //= 2
        self._rejected[rows] = ~ok
        if bad.any():
            stuck = bad & (self.next_h[rows] * field.aligned_utility(self.f1[rows]) < 1e-12)
            refuse_nonfinite(self.batch.problem, "utility", stuck, neurons)
        if stabilised:
            self._age[rows] = np.where(ok, self._age[rows] + 1, RADIUS_AGE)
            self._radius[rows[self.next_h[rows] * self._radius[rows] < 1.0]] = 0.0
        done = rows[ok]
        if done.size == 0:
            return done
        self.y0[done], self._f0[done], self.h[done] = y0[ok], self.f1[done], h[ok]
        self._bulge[done], self.y1[done], self.f1[done] = bulge[ok], y1[ok], f1[ok]
        self._past.keep(done, self._last(done))
        self._stay(done)
        return done

    def past(self, rows: IntArray, time: float) -> tuple[IntArray, FloatArray]:
        """Those of rows whose steps at an earlier time are remembered, and their states there, (k, P + 2)."""
        return self._past.at(rows, time)

    def _explicit(self, rows: IntArray) -> tuple[FloatArray, ...]:
        """Both ends, velocity at the second, error and bulge of steps of Dormand and Prince."""
        field, neurons, h, y0 = self.field, self.neurons[rows], self.next_h[rows][:, None], self.y1[rows]
        k = np.empty((7, *y0.shape))
        flat = k.reshape(7, y0.size)
        k[0] = self.f1[rows]
        y1 = y0
        for s, weights in enumerate(STAGES[:-1], 1):
            before, y1 = y1, y0 + h * (weights @ flat[:s]).reshape(y0.shape)
            k[s] = field.velocity(y1, neurons)
        before, y1 = y1, y0 + h * (STAGES[-1] @ flat[:6]).reshape(y0.shape)
        y1[:, : self.p] /= lengths(y1[:, : self.p])[:, None]
        k[6] = field.velocity(y1, neurons)
        # the last two stages are at the same time
        gap, change = lengths((y1 - before)[:, : self.p]), (k[6] - k[5])[:, : self.p]
        product = h[:, 0] * lengths(change) / np.where(gap > 0, gap, np.inf)
        self._calm[rows] = product <= STIFF_PRODUCT
        self._limited[rows] += ~self._calm[rows]
        stiff = rows[self._limited[rows] >= STIFF_STEPS[0]]
        if stiff.size:
            self._limited[stiff], self._age[stiff] = 0, RADIUS_AGE
            self._radius[stiff], self._fastest[stiff] = 1.0 / self.next_h[stiff], change[np.isin(rows, stiff)]
        return y0, y1, k[6], h * (ERROR @ flat).reshape(y0.shape), h * (BULGE @ flat).reshape(y0.shape)

    def _stabilised(self, rows: IntArray) -> tuple[FloatArray, ...]:
        """The same of stabilised steps (`integrators`), as many stages for all; their cubics have no bulge."""
        field, neurons = self.field, self.neurons[rows]
        old = rows[self._age[rows] >= RADIUS_AGE]
        if old.size:
            self._look(old)
        h, y0, f0 = self.next_h[rows][:, None], self.y1[rows], self.f1[rows]
        stages = max(2, 1 + int(np.sqrt(STAGES_SQUARED * float((h[:, 0] * self._radius[rows]).max()) + 1)))
        first, weights = chebyshev_weights(min(stages, MAX_STAGES))
        before, y1 = y0, y0 + h * first * f0
        for now, last, start, rate, rest in weights.tolist():
            velocity = field.velocity(y1, neurons)
            before, y1 = y1, now * y1 + last * before + start * y0 + h * (rate * velocity + rest * f0)
        y1[:, : self.p] /= lengths(y1[:, : self.p])[:, None]
        f1 = field.velocity(y1, neurons)
        return y0, y1, f1, 0.8 * (y0 - y1) + 0.4 * h * (f0 + f1), np.zeros_like(y0)

    def linearized(self, rows: IntArray, v: FloatArray) -> FloatArray:
        """Change of the velocities of directions along v (m, P), at the ends of the last steps of rows, (m, P)."""
        shifted, problem = self.y1[rows], self.batch.problem
        shift = np.full((rows.size, 1), SHIFT)
        if problem.layers is not None and problem.kink > 0.0:  # within a rounded kink, which narrows where all meet
            width = problem.kink * np.maximum(lengths(shifted[:, : problem.layers[0]]), ENDS)
            shift[:, 0] = np.minimum(0.1 * width, SHIFT)
        shifted[:, : self.p] += shift * v
        return np.asarray((self.field.velocity(shifted, self.neurons[rows]) - self.f1[rows])[:, : self.p] / shift)

    def _look(self, rows: IntArray) -> None:
        """Spectral radii at the ends of the last steps, by power iteration."""
        v, size = self._fastest[rows], np.zeros(rows.size)
        for _ in range(_ITERATIONS):
            v = self.linearized(rows, v / np.maximum(lengths(v), TINY)[:, None])
            size = lengths(v)
        self._fastest[rows], self._radius[rows], self._age[rows] = v, np.maximum(1.2 * size, TINY), 0

    def _stay(self, rows: IntArray) -> None:
        """Input weights of (leaky) ReLU neurons that end at zero, where all their kinks meet, are zero from then on."""
        layers = self.batch.problem.layers
        if layers is None:
            return
        d, neurons, unit = layers[0], self.neurons[rows], self.y1[rows, : self.p]
        ended = vanishing(lambda at: self.field.utility(at, neurons)[1], unit, d, np.ones(rows.size, dtype=bool))
        if ended.any():
            gone = rows[ended]
            self.y1[gone, :d] = 0.0
            self.y1[gone, : self.p] /= lengths(self.y1[gone, : self.p])[:, None]
            self.f1[gone] = self.field.velocity(self.y1[gone], neurons[ended])

    def _error(self, err: FloatArray, y0: FloatArray, y1: FloatArray, f0: FloatArray, f1: FloatArray) -> FloatArray:
        """Error of each row over its tolerance. Time is relative to the time elapsed, the rest absolute.

        A direction that gathers speed leaves a saddle or a flat spot. How soon is decided while it has hardly moved, so
        there the error is relative to the move. Where all kinks meet it jumps instead.
        """
        loose, p, layers = self._loose, self.p, self.batch.problem.layers
        gathers = lengths(f1[:, :p]) > 2.0 * lengths(f0[:, :p])
        if layers is not None:
            gathers &= lengths(y0[:, : layers[0]]) > ENDS
        move = lengths(y1[:, :p] - y0[:, :p])
        allowed = np.where(gathers, np.minimum(loose, _ESCAPE * move + EPS), loose)
        direction = lengths(err[:, :p]) / allowed
        norm = np.abs(err[:, p]) / loose
        time = np.abs(err[:, -1]) / (self.rtol * y1[:, -1])
        return np.maximum(np.maximum(direction, norm), time)

    def dense(self, rows: IntArray, sigma: FloatArray) -> FloatArray:
        """State inside the last step, (m, P + 2), directions normalized."""
        return within(sigma[:, None], self._last(rows), self.p)

    def _last(self, rows: IntArray) -> tuple[FloatArray, ...]:
        """Their last steps, as `PastSteps` keeps them."""
        h = self.h[rows][:, None]
        return self.y0[rows], self.y1[rows], h * self._f0[rows], h * self.f1[rows], self._bulge[rows]

    def law(self, rows: IntArray, time: float) -> FloatArray:
        """Log norms at `time` of neurons at rest: the closed law at a fixed utility."""
        kappa = self.batch.problem.degree
        unit = (kappa - 2) * self.y1[rows, self.p] + self.batch.clock.log_scale  # charge in units that cannot overflow
        charge = self.f1[rows, self.p] * np.exp(unit) * (time - self.y1[rows, -1])
        return self.y1[rows, self.p] + log_norm(charge, np.zeros(rows.size), kappa)

    def place(self, rows: IntArray, time: float) -> FloatArray:
        """Place of `time` in the last step of each of rows, 0..1."""
        ends, h = (self.y0[rows, -1], self.y1[rows, -1]), self.h[rows]
        return place(time, *ends, h * self._f0[rows, -1], h * self.f1[rows, -1], self._bulge[rows, -1])
