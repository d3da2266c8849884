"""Implicit steps, for where a stabilised explicit step would need hundreds of evaluations.

They need an exact Hessian of moderate size. An implicit step longer than the growth time of a mode damps what the flow
amplifies and parks at a saddle, so no step here is longer than `_GROWTH` over the rate of the fastest growing mode,
which the Hessian knows. That also makes every matrix to be solved with positive definite. Coordinates in which the
velocity is no gradient are served as well where their Jacobian is -W^-1 S W with a symmetric S and a diagonal W: its
modes grow or decay at the real eigenvalues of S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from agf.arrays import FloatArray
from agf.integrators import DEFAULT_MAX_STEPS, Accepted, Memory, NonFinite, OutOfSteps, Stalled, one_by_one

#: A step times the rate of the fastest growing mode is at most this. Derived: at 1 the matrix to be solved with is
#: singular, and beyond it the step damps what grows; half of it keeps the amplification within a factor of 2.
_GROWTH = 0.5
#: Factor by which what growing modes allow may itself grow from one Hessian to the next. Cost: of Hessians, while a
#: mode stops growing.
_LONGER = 16.0
#: Relative difference of the length of a step from that of its factorization; the correction is scaled. Cost: of
#: factorizations, against iterations.
_OTHER_STEP = 0.3
#: Iterations that Newton's method may take, and fraction of the tolerance that it may leave. Cost: more of one spares
#: shorter steps; what is left is an error of 3 % of the tolerance.
_ITERATIONS, _LEFT = 4, 0.03
#: Next to a metric, an entry whose moves do not shrink is taken to have this many more to go. Cost: of Hessians; a
#: matrix is as stale as that at most, and moves by rounding are below the tolerance even so.
_STALE = 1e6
#: So many steps that lengthen the time by no more than this fraction, and move the state by no more than this many
#: tolerances, are no progress. Limit: the march ends and says so; rounding, not the flow, sets the length of such steps
#: (a random walk of 500 goes 22 tolerances).
_STUCK, _PROGRESS, _MOVED = 500, 0.1, 100.0
#: Steps are made longer only by this factor or more, and at most by the second. Cost: the first spares factorizations,
#: the second rejected steps.
_WORTH, _MOST = 1.2, 10.0

# Numerical differentiation formulas of order 1 to 5 [Shampine & Reichelt 1997, The MATLAB ODE suite, eq. 3, table 1].
_KAPPA = np.array([0.0, -0.1850, -1 / 9, -0.0823, -0.0415, 0.0])
#: Highest order. Source: [Shampine & Reichelt 1997] table 1; beyond it a wide sector of decaying modes is unstable.
_ORDERS = _KAPPA.size - 1
_GAMMA = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, _ORDERS + 1))])
_ALPHA = (1.0 - _KAPPA) * _GAMMA
_ERROR = _KAPPA * _GAMMA + 1.0 / np.arange(1, _ORDERS + 2)

Field = Callable[[FloatArray], FloatArray]
Metric = Callable[[FloatArray], FloatArray | None]
Norm = Callable[[FloatArray, FloatArray], float]


Solve = Callable[[FloatArray], FloatArray]
Hessian = Callable[[FloatArray], FloatArray | None]


@dataclass(frozen=True)
class History(Memory):
    """What implicit steps carry from step to step.

    Attributes
    ----------
    past : ndarray, (orders + 3, N)
        The state and its backward differences.
    order, equal : int
        Order in use, and steps since it or the length changed.
    longest : float
        Step that growing modes allow.
    at : ndarray, (N,), or None
        Where the matrix in use was evaluated.
    own : float
        The c of the factor of 1 / c + H in use, 0 when there is none.
    mark, there, counted : float, ndarray (N,), int
        A former time and the state then, and steps taken since.
    """

    past: FloatArray | None = None
    order: int = 1
    equal: int = 0
    longest: float = 0.0
    at: FloatArray | None = None
    own: float = 0.0
    mark: float = 0.0
    there: FloatArray | None = None
    counted: int = 0


def march(
    velocity: Field,
    hessian: Hessian,
    y0: FloatArray,
    *,
    norm: Norm,
    s0: float = 0.0,
    s_end: float = np.inf,
    first_step: float = 0.0,
    max_steps: int = DEFAULT_MAX_STEPS,
    metric: Metric | None = None,
    memory: History | None = None,
) -> Iterator[Accepted]:
    """Follow dy/ds = velocity(y) from y0 (N,) at s0 by backward differentiation of variable order.

    Parameters
    ----------
    velocity : callable
        y (N,) -> dy/ds (N,).
    hessian : callable
        y -> the symmetric S (N, N) of the Jacobian -W^-1 S W; of L where the velocity is -grad L.
    y0 : ndarray, (N,)
        Where to start.
    norm : callable
        (error, y) -> size of an error of a step at y; 1 is acceptable.
    s0, s_end : float
        Start, and the time at which the last step ends exactly.
    first_step : float
        Length of the first step, also the first guess of what growing modes allow.
    max_steps : int
        Accepted steps after which OutOfSteps is raised.
    metric : callable, optional
        y -> W (N,); the identity if not given.
    memory : History, optional
        Of the step to resume after, with s0 and y0 its s1 and y1.

    Yields
    ------
    Accepted
        Steps like those of `integrators.march`. The consumer stops by leaving the loop.

    Raises
    ------
    integrators.NonFinite
        The Hessian is not finite.
    integrators.Stalled
        Steps fall to what rounding allows.
    integrators.OutOfSteps
        `max_steps` were not enough.
    """
    s, y, f = s0, y0, velocity(y0)
    solver = _Solver(velocity, hessian, metric, first_step if memory is None else memory.longest or memory.step)
    if memory is None or memory.past is None:
        order, h, equal = 1, first_step if memory is None else memory.step, 0
        past = np.zeros((_ORDERS + 3, y.size))  # y and its backward differences
        past[0], past[1] = y, h * f
        mark, there, counted = s, y, 0
    else:
        order, h, equal, past = memory.order, memory.step, memory.equal, memory.past.copy()
        mark, there, counted = min(memory.mark, s), y if memory.there is None else memory.there, memory.counted
        solver.restore(memory.at, memory.own)
    for _ in range(max_steps):
        if not s < s_end:
            return
        if s > (1.0 + _PROGRESS) * mark or norm(y - there, y) > _MOVED:
            mark, there, counted = s, y, 0
        if counted > _STUCK:
            raise Stalled(f"{_STUCK} implicit steps of {h:.2g} at time {s:.3g}: float64 resolves no longer ones.", s, y)
        if h > s_end - s:
            h, equal = _rescale(past, order, h, s_end - s), 0
        ahead, change, error, h, equal = _passed(solver, past, order, h, equal, norm, s, y)
        slope = velocity(ahead)
        past[order + 2] = change - past[order + 1]
        past[order + 1] = change
        for i in reversed(range(order + 1)):
            past[i] += past[i + 1]
        s1 = s_end if h >= s_end - s else s + h
        missed, differences = _ERROR[order] * change, past[: order + 1].copy()
        equal, counted = equal + 1, counted + 1
        if equal > order:
            order, wanted = _next(past, order, h, error, norm, ahead)
            if wanted > solver.longest:  # growing modes, not accuracy, hold the step: look whether they still do
                solver.limit(ahead, s1, _LONGER)
            if not 1.0 <= wanted / h < _WORTH:
                h, equal = _rescale(past, order, h, min(wanted, solver.longest)), 0
        memory = History(
            h, past=past.copy(), order=order, equal=equal, longest=solver.longest, at=solver.matrix_at,
            own=solver.own, mark=mark, there=there, counted=counted,
        )  # fmt: skip
        yield Implicit(s, s1, y, ahead, f, slope, None, missed, solver.evaluations, memory, differences)
        s, y, f = s1, ahead, slope
    raise OutOfSteps(f"{max_steps} implicit steps were not enough.", s, y)


def _passed(
    solver: _Solver, past: FloatArray, order: int, h: float, equal: int, norm: Norm, s: float, y: FloatArray
) -> tuple[FloatArray, FloatArray, float, float, int]:
    """The next state, by how much it differs from what `past` foretells, and its error, at the first length that
    passes; that length, at most h, to which `past` is scaled; and the steps of equal length so far."""
    while True:
        if h > solver.longest:
            h, equal = _rescale(past, order, h, solver.longest), 0
        if h <= 10 * np.spacing(abs(s)):
            raise Stalled(f"an implicit step fell to {h:.3g}.", s, y)
        ahead = past[: order + 1].sum(axis=0)
        known = _GAMMA[1 : order + 1] @ past[1 : order + 1] / _ALPHA[order]
        change = solver.solve(ahead, known, h / _ALPHA[order], norm, s, y)
        if change is None:  # the Hessian is that of this place, and still Newton fails
            if solver.metric is not None:  # far ahead it may be larger by orders of magnitude
                solver.matrix = None
            h, equal = _rescale(past, order, h, 0.5 * h), 0
            continue
        ahead = ahead + change
        error = norm(_ERROR[order] * change, ahead)
        if error <= 1.0:
            return ahead, change, error, h, equal
        h, equal = _rescale(past, order, h, h * max(0.2, 0.8 * error ** (-1 / (order + 1)))), 0


def _next(past: FloatArray, order: int, h: float, error: float, norm: Norm, y: FloatArray) -> tuple[int, float]:
    """Order and length of the next step, from the errors that this order and its neighbours would make at length h."""
    best, longest = order, 0.8 * h * min(_MOST, max(error, 1e-10) ** (-1 / (order + 1)))
    for other in (order - 1, order + 1):
        if 1 <= other <= _ORDERS:
            its = max(norm(_ERROR[other] * past[other + 1], y), 1e-10)
            length = 0.8 * h * min(_MOST, its ** (-1 / (other + 1)))
            if length > longest:
                best, longest = other, length
    return best, longest


def _rescale(past: FloatArray, order: int, h: float, new: float) -> float:
    """Turn the differences of steps h into those of steps `new`, in place; returns `new`."""
    past[: order + 1] = (_basis(order, new / h) @ _basis(order, 1.0)).T @ past[: order + 1]
    return new


def _basis(order: int, factor: float) -> FloatArray:
    """Matrix that takes differences to values `factor` steps apart (its own inverse at factor 1)."""
    i, j = np.arange(1, order + 1)[:, None], np.arange(1, order + 1)
    table = np.ones((order + 1, order + 1))
    table[1:, 0] = 0.0
    table[1:, 1:] = (i - 1 - factor * j) / i
    return np.asarray(np.cumprod(table, axis=0))


@dataclass(frozen=True)
class Implicit(Accepted):
    """An accepted step; slopes at its ends carry stiff errors, so `dense` is the polynomial the step was made with.

    Parameters
    ----------
    differences : float ndarray, shape (order + 1, N)
        The state at the end and its backward differences.
    """

    differences: FloatArray

    def dense(self, s: float) -> FloatArray:
        j = np.arange(1, self.differences.shape[0])
        back = (s - self.s1) / (self.s1 - self.s0)
        weights = np.cumprod((back + j - 1) / j)
        return np.asarray(self.differences[0] + weights @ self.differences[1:])

    many = staticmethod(one_by_one)


class _Solver:
    """Newton's method with a Hessian and a factorization kept for as long as they serve. longest : step allowed."""

    def __init__(self, velocity: Field, hessian: Hessian, metric: Metric | None, longest: float) -> None:
        self.velocity, self.hessian, self.metric, self.longest = velocity, hessian, metric, longest
        self.evaluations = 0
        self.matrix: FloatArray | None = None
        self.matrix_at: FloatArray | None = None
        self.coupled: FloatArray | None = None  # 1 of entries that it couples, 0 of others; None where it couples all
        self.weights: FloatArray | None = None  # the metric there
        self.inverse: Solve | None = None
        self.own = 0.0  # the c of the inverse of 1 / c + H

    def restore(self, at: FloatArray | None, own: float) -> None:
        """Take up the matrix and the factor of an earlier march."""
        if at is None:
            return
        self._take(at)
        if own > 0:
            assert self.matrix is not None
            self.inverse, self.own = _inverse(self.matrix, 1.0 / own), own

    def _take(self, at: FloatArray) -> bool:
        """Take up the matrix at a state; False where it is not finite, as far ahead of one that can be reached."""
        matrix = self.hessian(at)
        assert matrix is not None
        if not np.isfinite(matrix).all():
            return False
        self.matrix, self.matrix_at, self.inverse, self.own = matrix, at, None, 0.0
        coupled = np.asarray(matrix.any(axis=1), dtype=np.float64)
        self.coupled = None if coupled.all() else coupled
        self.weights = None if self.metric is None else self.metric(at)
        return True

    def solve(
        self,
        ahead: FloatArray,
        known: FloatArray,
        c: float,
        norm: Norm,
        s: float,
        y: FloatArray,
    ) -> FloatArray | None:
        """Change d with d + known = c velocity(ahead + d), or None when Newton fails."""
        fresh = False
        while True:
            if self.matrix is None:
                if not self._take(ahead):
                    self._hessian(y, s)
                    return None
                fresh = True
                assert self.matrix is not None
                if _inverse(self.matrix, _GROWTH / self.longest) is None:
                    self.limit(y, s, 1.0)
            change = self._newton(ahead, known, c, norm)
            if change is None:  # nor may a shorter step use it: one too stiff makes any residual look small
                self.matrix = None
            if change is not None or fresh:
                return change

    def _newton(self, ahead: FloatArray, known: FloatArray, c: float, norm: Norm) -> FloatArray | None:
        if self.inverse is None or abs(c / self.own - 1.0) > _OTHER_STEP:
            assert self.matrix is not None
            self.inverse, self.own = _inverse(self.matrix, 1.0 / c), c
        if self.inverse is None:
            return None
        gain = 2.0 / (self.own + c)  # between what null and what stiff directions ask for
        change, sizes = np.zeros_like(ahead), np.zeros(_ITERATIONS)
        before = change
        for k in range(_ITERATIONS):
            self.evaluations += 1
            velocity = self.velocity(ahead + change)
            if not np.isfinite(velocity).all():
                return None
            rest = gain * (c * velocity - known - change)
            weights = 1.0 if self.weights is None else self.weights
            move = self.inverse(weights * rest) / weights
            sizes[k] = size = norm(move, ahead)
            # what no matrix holds answers others an iteration later, and they it: two of them tell how moves shrink
            span = 1 if self.coupled is None or k < 2 else 2
            rate = (size / sizes[k - span]) ** (1.0 / span) if k else 0.0
            if _diverges(rate, size, k) and not (k == 1 and self._answered(move, before, norm, ahead)):
                return None
            change = change + move
            left = rate / (1.0 - rate) * size if rate < 1.0 else np.inf
            if size == 0.0 or (k and left < _LEFT and self._done(move, before, norm, ahead)):
                return change
            before = move
        return None

    def _answered(self, move: FloatArray, before: FloatArray, norm: Norm, y: FloatArray) -> bool:
        """Whether it is those alone that the matrix does not hold whose second move is as large as the first."""
        if self.coupled is None:
            return False
        first, size = norm(before * self.coupled, y), norm(move * self.coupled, y)
        return size < first and not _diverges(size / first, size, 1)

    def _done(self, move: FloatArray, before: FloatArray, norm: Norm, y: FloatArray) -> bool:
        """Whether every entry has converged, its moves being a geometric series.

        With a metric curvature changes by orders of magnitude, and the largest entry may converge fast next to one that
        the matrix, made where this was far stiffer, hardly moves.
        """
        if self.weights is None:
            return True
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.abs(move / before)
            factor = np.where(rate < 1.0, rate / (1.0 - rate), _STALE)
        return norm(move * np.minimum(np.where(before == 0.0, 1.0, factor), _STALE), y) < _LEFT

    def limit(self, y: FloatArray, s: float, longer: float) -> None:
        """Find the longest step that growing modes at y allow, at most `longer` what it was.

        Only a state that the steps have ended at will do: beside the valley that stiff modes make, curvature that
        belongs to them looks like growth.
        """
        matrix = self._hessian(y, s)
        self.longest *= longer
        while _inverse(matrix, _GROWTH / self.longest) is None:
            self.longest *= 0.5

    def _hessian(self, y: FloatArray, s: float) -> FloatArray:
        matrix = self.hessian(y)
        assert matrix is not None
        if not np.isfinite(matrix).all():
            raise NonFinite("the Hessian is not finite.", s, y)
        return matrix


def _diverges(rate: float, size: float, k: int) -> bool:
    """Whether moves of this size in iteration k, and of this ratio, leave too much when the last has been made."""
    return rate >= 1.0 or (k > 0 and rate ** (_ITERATIONS - k) / (1.0 - rate) * size > _LEFT)


def _inverse(matrix: FloatArray, shift: float) -> Solve | None:
    """The inverse of matrix + shift > 0, None where that is not positive definite.

    Entries that nothing couples, as those of neurons that are followed without a Hessian, are only divided.
    """
    coupled = np.flatnonzero(matrix.any(axis=1))
    whole = coupled.size == matrix.shape[0]
    factor = cholesky(matrix if whole else matrix[np.ix_(coupled, coupled)], shift)
    if factor is None:
        return None
    if whole:
        return lambda rest: np.asarray(dpotrs(factor, rest, lower=True)[0])

    def solve(rest: FloatArray) -> FloatArray:
        out = rest / shift
        if coupled.size:
            out[coupled] = dpotrs(factor, rest[coupled], lower=True)[0]
        return out

    return solve


def cholesky(matrix: FloatArray, shift: float) -> FloatArray | None:
    """Lower factor of matrix + shift, None where that is not positive definite."""
    shifted = np.array(matrix.T, order="F")  # symmetric: the transpose is copied as it lies
    shifted.flat[:: matrix.shape[0] + 1] += shift
    factor, info = dpotrf(shifted, lower=True, clean=False, overwrite_a=True)
    return factor if info == 0 else None
