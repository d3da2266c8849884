"""Steps of dormant neurons by the method of Dormand and Prince, in any field."""

from __future__ import annotations

import numpy as np

from agf.algorithm.field import Batch, Field
from agf.algorithm.stepper import Stepper
from agf.algorithm.threshold import refuse_nonfinite
from agf.arrays import FloatArray, IntArray
from agf.clock import log_norm
from agf.coordinates.vanishing import vanishing
from agf.integrators import BULGE, ERROR, STAGES, interpolated, place
from agf.rounding import EPS
from agf.sphere import lengths

#: Error of a step that leaves a saddle, relative to the step. Result: of when it leaves, which is decided while it has
#: hardly moved, also for a rough question: at 1e-2 a horizon is off by enough to move a level in its second digit.
_ESCAPE = 1e-5


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
        kinks = not problem.smooth or problem.kink > 0
        self._loose = rtol ** (2 / 3) if kinks else rtol
        self._f0, self._bulge = self.f1.copy(), np.zeros_like(self.start)
        self.h = np.zeros(self.m)
        with np.errstate(divide="ignore"):
            self.next_h = np.where(self.dead, 0.0, 0.5 * rtol**0.2 / (self.field.drive(self.f1) * problem.degree))

    def step(self, rows: IntArray) -> IntArray:
        """Try a step of each of rows; those that were accepted."""
        field = self.field
        neurons, h, y0 = self.neurons[rows], self.next_h[rows][:, None], self.y1[rows]
        k = np.empty((7, *y0.shape))
        flat = k.reshape(7, y0.size)
        k[0] = self.f1[rows]
        with np.errstate(invalid="ignore", over="ignore"):
            for s, weights in enumerate(STAGES[:-1], 1):
                k[s] = field.velocity(y0 + h * (weights @ flat[:s]).reshape(y0.shape), neurons)
            y1 = y0 + h * (STAGES[-1] @ flat[:6]).reshape(y0.shape)
            y1[:, : self.p] /= lengths(y1[:, : self.p])[:, None]
            k[6] = field.velocity(y1, neurons)
            ratio = self._error(h * (ERROR @ flat).reshape(y0.shape), y0, y1, k[0], k[6])
            bad = ~np.isfinite(ratio + y1.sum(axis=1) + k[6].sum(axis=1))
        ratio = np.where(bad, np.inf, ratio)
        factor = np.clip(0.9 * np.maximum(ratio, 1e-10) ** -0.2, 0.2, 5.0)
        self.next_h[rows] *= factor
        ok = ratio <= 1.0
        if bad.any():
            stuck = bad & (self.next_h[rows] * field.drive(k[0]) < 1e-12)
            refuse_nonfinite(self.batch.problem, "utility", stuck, neurons)
        done = rows[ok]
        if done.size == 0:
            return done
        self.steps += 1
        bulge = h * (BULGE @ flat).reshape(y0.shape)
        self.y0[done], self._f0[done], self.h[done] = y0[ok], k[0, ok], h[ok, 0]
        self._bulge[done], self.y1[done], self.f1[done] = bulge[ok], y1[ok], k[6, ok]
        self._stay(done)
        return done

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
        there the error is relative to the move.
        """
        loose, p = self._loose, self.p
        gathers = lengths(f1[:, :p]) > 2.0 * lengths(f0[:, :p])
        move = lengths(y1[:, :p] - y0[:, :p])
        allowed = np.where(gathers, np.minimum(loose, _ESCAPE * move + EPS), loose)
        direction = lengths(err[:, :p]) / allowed
        norm = np.abs(err[:, p]) / loose
        time = np.abs(err[:, -1]) / (self.rtol * y1[:, -1])
        return np.maximum(np.maximum(direction, norm), time)

    def dense(self, rows: IntArray, sigma: FloatArray) -> FloatArray:
        """State inside the last step, (m, P + 2), directions normalized."""
        h = self.h[rows][:, None]
        out = interpolated(
            sigma[:, None], self.y0[rows], self.y1[rows], h * self._f0[rows], h * self.f1[rows], self._bulge[rows]
        )
        out[:, : self.p] /= lengths(out[:, : self.p])[:, None]
        return out

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
