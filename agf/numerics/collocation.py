"""Long implicit steps of high order for small systems in which nothing grows: collocation at the nodes of Radau.

A step of the 7-stage Radau IIA method [Hairer & Wanner, Solving ODEs II, IV.5 and IV.8] is a polynomial of degree 7
whose slope is the velocity at seven places within the step; it is of order 13 at its end, and L-stable. All seven are
solved for together by Newton's method, with all velocities and Jacobians asked for at once, as arrays. So a step costs
a few calls of numpy, and is a tenth as many as others take: where systems are small, calls are what costs.

An implicit step longer than the time of a growing mode damps it, so this is for systems whose Jacobian has no positive
eigenvalue anywhere (`FlowSystem.contracts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dgesv

from agf.arrays import FloatArray, IntArray
from agf.integrators import (
    ABSURD,
    DEFAULT_MAX_STEPS,
    Accepted,
    ErrorNorm,
    Memory,
    NonFinite,
    OutOfSteps,
    Stalled,
    first_length,
)
from agf.rounding import EPS

#: States (m, N) -> velocities (m, N) and their Jacobians (m, N, N).
Linearized = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

#: Stages of a step. Cost: of steps, against that of each (5, 7, 9 and 11 measured on [AGF] figure 3).
STAGES = 7
#: Name of the method in `Memory`.
NAME = "radau"
#: Iterations that Newton's method may take, move of an entry in units of the scale, and fraction of the tolerance that
#: it may leave. Cost: more spares shorter steps; what is left is an error of 0.1 % of the tolerance.
_ITERATIONS, _JUMP, _LEFT = 8, 20.0, 1e-3
#: Moves below this fraction of the state are none. Derived: a few roundings.
_ROUNDING = 4 * EPS
#: Fraction of its length at which a step that Newton's method does not find is tried again. Cost: of trials.
_SHORTER = 0.35
#: Trials of a step. Limit: the march ends and says so.
_RETRIES = 60
#: The next step is at most this many times as long, and the slopes of the last are extrapolated this far, in its
#: lengths. Cost: of rejected steps, and of iterations.
_LONGER, _FORESIGHT = 3.0, 1.5
#: Exponent of the error in the length of the next step. Derived: the error is of the order of the stages and one.
_INTEGRAL = 1.0 / (STAGES + 1)
#: Exponent of its growth from step to step. Cost: a fifth fewer rejections than without (measured).
_PROPORTIONAL = 0.1


class _Table:
    """Constants of the method on 0..1."""

    def __init__(self, stages: int) -> None:
        p = np.polynomial.legendre
        last = np.zeros(stages + 1)
        last[-2:] = -1.0, 1.0  # the nodes are the roots of P_s - P_(s-1), of which 1 is one
        places = np.sort(p.legroots(last))
        for _ in range(3):
            places = places - p.legval(places, last) / p.legval(places, p.legder(last))
        places[-1] = 1.0
        self.nodes = 0.5 * (places + 1.0)
        # In powers of 2 x - 1: the polynomials that are 1 at a node and 0 at the others, and their integrals.
        through = np.linalg.inv(p.legvander(places, stages - 1))
        self._values = np.array([p.leg2poly(column) for column in through.T]).T
        self._integrals = np.array([p.leg2poly(0.5 * p.legint(column, lbnd=-1)) for column in through.T]).T
        self.first = self.at(np.zeros(1))[0]
        self.weights = self.integrals(self.nodes)
        #: Weights of moves to the nodes in the slopes there.
        self.slopes = np.linalg.inv(self.weights)
        #: Weights by (column, -, row, -) of the matrix of Newton's method.
        self.columns = self.weights.T[:, None, :, None].copy()
        # A slope that is wrong by 1 at x = 0, and right at the nodes, is off in the integral by this much at most.
        x = np.linspace(0.0, 1.0, 401)
        bump = np.prod((x[:, None] - self.nodes) / -self.nodes, axis=1)
        self.error = float(np.abs(np.cumsum(0.5 * (bump[1:] + bump[:-1])) * (x[1] - x[0])).max())

    def at(self, x: FloatArray) -> FloatArray:
        """(m, s) weights of values at the nodes in the polynomial's value at x (m,)."""
        return _powers(x, self.nodes.size) @ self._values

    def integrals(self, x: FloatArray) -> FloatArray:
        """(m, s) weights of values at the nodes in the polynomial's integral from 0 to x (m,)."""
        return _powers(x, self.nodes.size + 1) @ self._integrals


def _powers(x: FloatArray, count: int) -> FloatArray:
    """(m, count) powers 0, 1, ... of 2 x - 1."""
    table = np.empty((x.size, count))
    table[:, 0] = 1.0
    table[:, 1:] = (2.0 * x - 1.0)[:, None]
    return np.multiply.accumulate(table, axis=1)


TABLE = _Table(STAGES)


@dataclass(frozen=True)
class Collocated(Accepted):
    """An accepted step with the slopes at the nodes, which its dense output integrates.

    Parameters
    ----------
    slopes : float ndarray, shape (s, N)
        Slopes of the polynomial at the nodes: velocities, less their rounding.
    """

    slopes: FloatArray

    def dense(self, s: float) -> FloatArray:
        """State at s in [s0, s1], (N,): of the order of the stages. A fresh array."""
        return self.many([self])(np.zeros(1, dtype=np.int64), np.array([s]))[0]

    @staticmethod
    def many(steps: Sequence[Any]) -> Polynomials:
        """As `Accepted.many`."""
        return Polynomials(steps)


class Polynomials:
    """States at many times within several steps, which are taken apart once.

    Parameters
    ----------
    steps : sequence of Collocated
        k steps.
    """

    def __init__(self, steps: Sequence[Collocated]) -> None:
        self._start, end = np.array([(step.s0, step.s1) for step in steps]).T
        self._length = end - self._start
        self._y0 = np.array([step.y0 for step in steps])
        self._slopes = np.array([step.slopes for step in steps])

    def __call__(self, which: IntArray, s: FloatArray) -> FloatArray:
        """States (m, N) at times s (m,), each within the step of index `which` (m,)."""
        length = self._length[which]
        weights = TABLE.integrals((s - self._start[which]) / length) * length[:, None]
        return np.asarray(self._y0[which] + self._sum(weights, which))

    def settled(self, which: IntArray, s: FloatArray, linearized: Linearized) -> tuple[FloatArray, FloatArray]:
        """States (m, N) at s (m,) within these steps, less what fast modes are off there; slopes of the polynomials.

        Between the nodes the polynomial is right to the tolerance, and a fast mode, which decays at a rate c, makes c
        times that of the velocity. What velocity and slope differ by tells it, as in `_error`.
        """
        ys, length = self(which, s), self._length[which]
        slopes = self._sum(TABLE.at((s - self._start[which]) / length), which)
        velocities, jacobians = linearized(ys)
        length *= TABLE.error
        matrix = -length[:, None, None] * jacobians
        matrix.reshape(len(matrix), -1)[:, :: ys.shape[1] + 1] += 1.0
        gap = length[:, None] * (velocities - slopes)
        return ys + np.linalg.solve(matrix, gap[:, :, None])[:, :, 0], slopes

    def _sum(self, weights: FloatArray, which: IntArray) -> FloatArray:
        """Sums (m, N) of the slopes of steps with weights (m, s)."""
        return np.matmul(weights[:, None, :], self._slopes[which])[:, 0, :]


def march(
    linearized: Linearized,
    y0: FloatArray,
    *,
    rtol: float,
    scale: Callable[[FloatArray], FloatArray],
    s0: float = 0.0,
    s_end: float = np.inf,
    max_steps: int = DEFAULT_MAX_STEPS,
    memory: Memory | None = None,
) -> Iterator[Accepted]:
    """Follow dy/ds = velocity(y) from y0 (N,) at s0.

    Parameters
    ----------
    linearized : callable
        States (m, N) -> velocities (m, N) and their Jacobians (m, N, N).
    y0 : ndarray, (N,)
        Where to start.
    rtol : float
        Largest error of an entry within a step, in units of `scale`; at the ends of steps it is smaller by far.
    scale : callable
        y (N,) -> (N,) positive.
    s0, s_end : float
        Start, and the time at which the last step ends exactly.
    max_steps : int
        Accepted steps after which OutOfSteps is raised.
    memory : Memory, optional
        Of the step to resume after, with s0 and y0 its s1 and y1. That of another method gives the first length.

    Yields
    ------
    Collocated
        Steps. The consumer stops by leaving the loop.

    Raises
    ------
    integrators.NonFinite
        For a velocity that is not finite at the start, with the last good (s, y).
    integrators.Stalled
        Where steps fall to rounding, with the last good (s, y).
    integrators.OutOfSteps
        After `max_steps`, with the last good (s, y).
    """
    s, y = float(s0), np.array(y0, dtype=np.float64)
    with np.errstate(**ABSURD):
        f, jacobian = _at(linearized, y)
        if not np.isfinite(f).all():
            raise NonFinite("the velocity is not finite at the start.", s, y)
        if memory is None:
            norm = ErrorNorm(rtol, scale, np.arange(y.size), y.size)
            memory = Memory(first_length(lambda at: _at(linearized, at)[0], y, f, norm, TABLE.nodes.size, s_end - s))
    for _ in range(max_steps):
        if not s < s_end:
            return
        with np.errstate(**ABSURD):
            step, jacobian = _advance(linearized, rtol, scale(y), memory, s, s_end, y, f, jacobian)
        s, y, f, memory = step.s1, step.y1, step.f1, step.memory
        yield step
    if s < s_end:
        raise OutOfSteps(f"{max_steps} steps were not enough.", s, y)


def _at(linearized: Linearized, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Velocity (N,) and its Jacobian (N, N) at one state."""
    velocities, jacobians = linearized(y[None])
    return velocities[0], jacobians[0]


def _advance(
    linearized: Linearized,
    rtol: float,
    scale: FloatArray,
    memory: Memory,
    s: float,
    s_end: float,
    y: FloatArray,
    f: FloatArray,
    jacobian: FloatArray,
) -> tuple[Collocated, FloatArray]:
    """One accepted step from (s, y), f and `jacobian` what is `linearized` there, and the Jacobian at its end."""
    step, before, rejected = memory.step, memory.error, False
    for _ in range(_RETRIES):
        if step <= 4 * EPS * abs(s):
            break
        h = s_end - s if s + 1.01 * step >= s_end else step
        found = _solve(linearized, rtol, scale, h, y, _guess(memory, h, y, f))
        if found is None:
            step, rejected = _SHORTER * h, True
            continue
        ahead, slopes = found
        missed = _error(h, jacobian, f - TABLE.first @ slopes)
        error = float((np.abs(missed) / scale).max()) / rtol
        if not error <= 1.0:  # also where it is not a number
            factor = 0.8 * error**-_INTEGRAL if error < np.inf else 0.0
            step, rejected = h * max(0.2, factor), True
            continue
        kept = max(error, 1e-6)
        longer = h * min(
            1.0 if rejected else _LONGER, 0.8 * kept**-_INTEGRAL * min(1.0, before / kept) ** _PROPORTIONAL
        )
        if h < step:  # cut by s_end: the plan stands
            longer = max(longer, step)
        following = Memory(longer, kept, NAME, radius=h, vector=slopes.ravel())
        s1 = s_end if h == s_end - s else s + h
        y1 = ahead[-1].copy()
        f1, jacobian = _at(linearized, y1)
        return Collocated(s, s1, y, y1, f, f1, None, missed, 0, following, slopes), jacobian
    raise Stalled(f"the step fell to {step:.3g} at s = {s:.6g}.", s, y)


def _error(h: float, jacobian: FloatArray, gap: FloatArray) -> FloatArray:
    """Error within a step of length h, (N,).

    In a slow mode that is TABLE.error * h * gap. In a fast one the gap is the rate of decay times what the start is off
    by, rounding at best, which the mode forgets: an implicit step of Euler makes that of it [Hairer & Wanner, IV.8]. On
    y' = -c y the result is the error to a third, whatever c is.

    Parameters
    ----------
    h : float
        Length.
    jacobian : ndarray, shape (N, N)
        Of the velocity at the start.
    gap : ndarray, shape (N,)
        Velocity at the start less the slope of the polynomial there.
    """
    length = TABLE.error * h
    matrix = -length * jacobian
    matrix.reshape(-1)[:: gap.size + 1] += 1.0
    return np.asarray(dgesv(matrix, length * gap)[2]).reshape(gap.shape)


def _guess(memory: Memory, h: float, y: FloatArray, f: FloatArray) -> FloatArray:
    """States at the nodes to start Newton's method from, (s, N): the last step's polynomial, or a straight line."""
    ratio = h / memory.radius if memory.method == NAME and memory.radius > 0 else np.inf
    if ratio > _FORESIGHT or memory.vector is None:
        return np.asarray(y + h * TABLE.nodes[:, None] * f)
    slopes = TABLE.at(1.0 + TABLE.nodes * ratio) @ memory.vector.reshape(TABLE.nodes.size, -1)
    return np.asarray(y + h * (TABLE.weights @ slopes))


def _solve(
    linearized: Linearized, rtol: float, scale: FloatArray, h: float, y: FloatArray, states: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """States and slopes at the nodes, (s, N) each; None where Newton's method does not find them."""
    size = TABLE.nodes.size * y.size
    weights, columns = h * TABLE.weights, -h * TABLE.columns
    last = np.inf
    for _ in range(_ITERATIONS):
        velocities, jacobians = linearized(states)
        rest = weights @ velocities
        rest += y
        rest -= states
        # Transposed, so that LAPACK takes it as it is: (column's stage and entry, row's stage and entry).
        matrix = (columns * jacobians.transpose(0, 2, 1)[:, :, None, :]).reshape(size, size)
        matrix.reshape(-1)[:: size + 1] += 1.0
        move, info = dgesv(matrix.T, rest.reshape(-1), 1, 1)[2:]
        move = move.reshape(states.shape)
        states = states + move
        moved = float((np.abs(move) / scale).max())
        if info != 0 or not moved < min(_JUMP, 2.0 * last):
            return None
        # It converges quadratically, once it does.
        left = moved if last == np.inf else moved * min(moved / last, 1.0) ** 2
        if left < _LEFT * rtol or moved <= _ROUNDING * float((np.abs(states) / scale).max()):
            # Of what was moved: velocities are rates of decay times the rounding of states, and as long steps as these
            # would multiply that.
            return states, TABLE.slopes @ (states - y) / h
        last = moved
    return None
