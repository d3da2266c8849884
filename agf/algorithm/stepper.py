"""Steps of dormant neurons on a frozen residual, many at once, each with a step size and in a variable of its own.

In ds = rho^(degree - 2) dt ([AGF] eq. 2 in polar form) nothing is stiff and nothing overflows at any scale:

    d direction / ds = tangent part of grad U,    d log rho / ds = degree U,    d t / ds = rho^(2 - degree).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agf.algorithm.threshold import expect_shape, refuse_nonfinite
from agf.arrays import FloatArray, IntArray
from agf.clock import Clock, log_norm
from agf.contract.problem import Problem
from agf.init import Init
from agf.integrators import BULGE, ERROR, STAGES, interpolated, place
from agf.rounding import EPS
from agf.sphere import lengths

#: Entries of one (rows, P) array, by which rows are taken in blocks. Cost: memory, 16 MB an array at any width.
BLOCK = 1 << 21
#: Gradients below this fraction of the largest one at the start are rounding: such a neuron never moves. Derived: 64
#: roundings of a sum that is zero.
DEAD = 64 * EPS
#: Growth times that one step of a closed form covers; a neuron is looked at between them. Cost: of looking, the flow
#: itself is exact.
STRIDE = 3.0
#: Error of a step that leaves a saddle, relative to the step. Result: of when it leaves, which is decided while it has
#: hardly moved, also for a rough question: at 1e-2 a horizon is off by enough to move a level in its second digit.
_ESCAPE = 1e-5


@dataclass(frozen=True)
class Batch:
    """Dormant neurons on one frozen residual.

    Parameters
    ----------
    problem : Problem
        Whose neurons.
    residual : Any
        Frozen, as `problem.residual` returned it.
    clock : Clock
        What accelerated time is.
    directions : float ndarray, shape (m, P)
        Unit rows.
    log_norms : float ndarray, shape (m,)
        Their log norms; rows of norm 0 stay where they are.
    neurons : int ndarray, shape (m,)
        Their indices.
    origin : Init or None, optional
        Where training started: exact flows carry what they conserve from there.
    """

    problem: Problem
    residual: Any
    clock: Clock
    directions: FloatArray
    log_norms: FloatArray
    neurons: IntArray
    origin: Init | None = None

    def some(self, rows: IntArray, directions: FloatArray, log_norms: FloatArray) -> Batch:
        """Some of its rows (k,), where these arrays (m, P), (m,) say that all are."""
        neurons = self.neurons[rows]
        return replace(self, directions=directions[rows], log_norms=log_norms[rows], neurons=neurons)


class Stepper:
    """All neurons, each at the end of its last accepted step; columns of a row: direction, log norm, elapsed time.

    Parameters
    ----------
    batch : Batch
        The neurons.
    rtol : float
        Error of a step.
    """

    def __init__(self, batch: Batch, rtol: float) -> None:
        problem, clock, directions, log_norms = batch.problem, batch.clock, batch.directions, batch.log_norms
        self.batch, self.problem, self.residual, self.clock = batch, problem, batch.residual, clock
        self.neurons, self.rtol = batch.neurons, rtol
        kinks = not problem.smooth or problem.kink > 0
        self.loose = rtol ** (2 / 3) if kinks else rtol
        self.m, self.p = directions.shape
        self.pace = float(np.exp(min(-clock.log_scale, 700.0)))  # dt/ds for degree 2
        self.evaluations = self.steps = 0
        self.start = np.column_stack([directions, log_norms, np.zeros(self.m)])
        self.y0, self.y1 = self.start.copy(), self.start.copy()
        self.bulge = np.zeros_like(self.start)
        self.h = np.zeros(self.m)  # length in s of the last accepted step
        alive = np.isfinite(log_norms)
        self.f1 = np.zeros_like(self.y1)
        for rows in self.blocks(np.flatnonzero(alive)):
            self.f1[rows] = self.velocity(self.y1[rows], self.neurons[rows])
        refuse_nonfinite(problem, "utility", np.logical_not(np.isfinite(self.f1).all(axis=1)), self.neurons)
        self.f0 = self.f1.copy()
        drive = self.drive(self.f1)
        self.top = float(drive.max(initial=0.0))
        self.dead = ~alive | (drive <= DEAD * self.top)
        with np.errstate(divide="ignore"):
            self.next_h = np.where(self.dead, 0.0, 0.5 * rtol**0.2 / (drive * problem.degree))

    def blocks(self, rows: IntArray) -> list[IntArray]:
        """Rows in blocks of bounded memory."""
        size = max(1, BLOCK // (self.p + 2))
        return [rows[i : i + size] for i in range(0, rows.size, size)]

    def velocity(self, y: FloatArray, neurons: IntArray) -> FloatArray:
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

    def drive(self, f: FloatArray) -> FloatArray:
        """|grad U| / degree at unit norm, from the velocity: its radial part is degree U by Euler's identity."""
        return lengths(f[:, : self.p + 1]) / self.problem.degree

    def step(self, rows: IntArray) -> IntArray:
        """Try a step of each of rows; those that were accepted."""
        neurons, h, y0 = self.neurons[rows], self.next_h[rows][:, None], self.y1[rows]
        k = np.empty((7, *y0.shape))
        flat = k.reshape(7, y0.size)
        k[0] = self.f1[rows]
        with np.errstate(invalid="ignore", over="ignore"):
            for s, weights in enumerate(STAGES[:-1], 1):
                k[s] = self.velocity(y0 + h * (weights @ flat[:s]).reshape(y0.shape), neurons)
            y1 = y0 + h * (STAGES[-1] @ flat[:6]).reshape(y0.shape)
            y1[:, : self.p] /= lengths(y1[:, : self.p])[:, None]
            k[6] = self.velocity(y1, neurons)
            ratio = self._error(h * (ERROR @ flat).reshape(y0.shape), y0, y1, k[0], k[6])
            bad = ~np.isfinite(ratio + y1.sum(axis=1) + k[6].sum(axis=1))
        ratio = np.where(bad, np.inf, ratio)
        factor = np.clip(0.9 * np.maximum(ratio, 1e-10) ** -0.2, 0.2, 5.0)
        self.next_h[rows] *= factor
        ok = ratio <= 1.0
        if bad.any():
            stuck = bad & (self.next_h[rows] * self.drive(k[0]) < 1e-12)
            refuse_nonfinite(self.problem, "utility", stuck, neurons)
        done = rows[ok]
        if done.size == 0:
            return done
        self.steps += 1
        bulge = h * (BULGE @ flat).reshape(y0.shape)
        self.y0[done], self.f0[done], self.h[done] = y0[ok], k[0, ok], h[ok, 0]
        self.bulge[done], self.y1[done], self.f1[done] = bulge[ok], y1[ok], k[6, ok]
        return done

    def _error(self, err: FloatArray, y0: FloatArray, y1: FloatArray, f0: FloatArray, f1: FloatArray) -> FloatArray:
        """Error of each row over its tolerance. Time is relative to the time elapsed, the rest absolute.

        A direction that gathers speed leaves a saddle or a flat spot. How soon is decided while it has hardly moved, so
        there the error is relative to the move.
        """
        loose, p = self.loose, self.p
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
            sigma[:, None], self.y0[rows], self.y1[rows], h * self.f0[rows], h * self.f1[rows], self.bulge[rows]
        )
        out[:, : self.p] /= lengths(out[:, : self.p])[:, None]
        return out

    def law(self, rows: IntArray, time: float) -> FloatArray:
        """Log norms at `time` of neurons at rest: the closed law at a fixed utility."""
        kappa = self.problem.degree
        unit = (kappa - 2) * self.y1[rows, self.p] + self.clock.log_scale  # charge in units that cannot overflow
        charge = self.f1[rows, self.p] * np.exp(unit) * (time - self.y1[rows, -1])
        return self.y1[rows, self.p] + log_norm(charge, np.zeros(rows.size), kappa)

    def place(self, rows: IntArray, time: float) -> FloatArray:
        """Place of `time` in the last step of each of rows, 0..1."""
        ends, h = (self.y0[rows, -1], self.y1[rows, -1]), self.h[rows]
        return place(time, *ends, h * self.f0[rows, -1], h * self.f1[rows, -1], self.bulge[rows, -1])
