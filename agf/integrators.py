"""Explicit integrators of y' = velocity(y) with error control and dense output, as a stream of accepted steps.

Two methods. "rk45" is Dormand-Prince 5(4) with its fourth-order dense output [Hairer, Norsett & Wanner, Solving ODEs I,
II.5-II.6]: accurate, and robust where the velocity has kinks. "rkc2" is the stabilised second-order
Runge-Kutta-Chebyshev method [Sommeijer, Shampine & Verwer 1997], for stiff problems with a real spectrum, as gradient
flows have: a step of length h costs about sqrt(1.54 h rho) evaluations, rho the spectral radius. "auto" starts with the
first and goes to the second for as long as stability rather than accuracy limits the steps; "rough" does so from
Bogacki-Shampine 3(2), half as many evaluations a step, for tolerances at which order gains nothing. None can damp a
growing mode and call it settled: all follow growth to the tolerance, where an L-stable implicit step longer than the
growth time would not.

Knows nothing of neurons; times are whatever unit the velocity uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.errors import RequestError, explain
from agf.formulas.explicit import Velocity, bogacki_shampine, chebyshev_step, dormand_prince, length_of
from agf.rounding import EPS

Number = TypeVar("Number", float, FloatArray)
#: Indices of steps (m,) and times (m,) -> states (m, N).
States = Callable[[IntArray, FloatArray], FloatArray]
METHODS = ("rk45", "rkc2", "auto")
#: "auto" of low order, for tolerances of some percent.
LOW = "rough"
#: Order of the error estimate of each single method.
_ORDERS = {"rk45": 4, "rk23": 2, "rkc2": 2}
#: Accepted steps of a march. Limit: OutOfSteps beyond; minutes of a small network.
DEFAULT_MAX_STEPS = 1_000_000

#: Times that differ by less than this fraction of themselves are one. Derived: neighbours in float64.
_SAME_TIME = 2 * EPS
#: A rejected step is retried at most this often before the march gives up. Derived: each retry at least halves it, and
#: 53 halvings leave nothing of it next to the first.
_MAX_RETRIES = 60
#: Stages of one stabilised step. Derived: rounding grows as EPS times their square, to 1e-9: below every tolerance that
#: such steps are taken at.
MAX_STAGES = 2000
#: Square of the stages of a stabilised step, over its length times the spectral radius. Derived: s stages are stable up
#: to .653 (s^2 - 1), damped as they are here, and 1/.653 is 1.531.
STAGES_SQUARED = 1.54
#: Accepted rkc2 steps for which an estimate of the spectral radius is trusted (a rejection renews it too). Cost: of
#: power iterations; a step that has become unstable is rejected.
RADIUS_AGE = 10
#: Length of a step times the spectral radius above which it counts as limited by stability. Cost: which method goes on,
#: both to the tolerance. Dormand-Prince is stable on the negative real axis to 3.3, and a step limited by that hovers
#: between 2 and 5 (measured).
STIFF_PRODUCT = 2.0
#: This many such steps mean stiffness, and one far below takes back the second number. Cost: which method goes on.
#: Damped steps, which may alternate with those for ever, count neither way.
STIFF_STEPS = (15, 15)
#: Steps that mean stiffness in a rough march, and how many one far below takes back. Cost: these have so few steps that
#: waiting as long would be a fair fraction of them.
_ROUGH_STIFF_STEPS = (4, 1)
#: Tolerance from which on a march is rough. Cost: which method goes on.
_ROUGH = 1e-3
#: After a step with a larger product the next is kept to this one. Cost: well inside the stable range a stiff mode is
#: damped; at the edge it hovers as noise of the size of the tolerance, which crosses kinks for ever (measured on ReLU:
#: 176,000 evaluations against 2,900).
_DAMPED_PRODUCT = 2.4
#: A product beyond this was a kink in the step, not stiffness. Cost: which method goes on.
_KINK_PRODUCT = 6.0

#: A trial step may ask about absurd states: it is then not finite and rejected, which is no news.
ABSURD: dict[str, Any] = {"over": "ignore", "invalid": "ignore", "divide": "ignore"}


class MarchError(ArithmeticError):
    """A flow cannot go on. `s` and `y` are the last good time and state, where it was a march that failed."""

    def __init__(self, message: str, s: float = np.nan, y: FloatArray | None = None) -> None:
        super().__init__(message)
        self.s = s
        self.y = y


class Stalled(MarchError):
    """The step fell below what float64 resolves at this time."""


class NonFinite(MarchError):
    """The velocity, or what a problem says of its neurons, is not finite here, or however short the step."""


class OutOfSteps(MarchError):
    """`max_steps` steps were accepted and the end was not reached."""


@dataclass(frozen=True)
class Memory:
    """What a march carries from step to step: with it a march resumed at (s1, y1) repeats the uninterrupted one.

    Parameters
    ----------
    step : float
        Length to try next.
    error : float
        Norm of the last accepted error.
    method : str
        The method in use.
    stiff : int
        Steps at the stability limit, less some for those below it.
    radius : float
        Spectral radius.
    vector : float ndarray or None
        The eigenvector that its iteration warm-starts from.
    age : int
        Accepted steps since it was measured.
    """

    step: float
    error: float = 1e-4
    method: str = "rk45"
    stiff: int = 0
    radius: float = 0.0
    vector: FloatArray | None = None
    age: int = 0


@dataclass(frozen=True)
class Accepted:
    """One accepted step, from (s0, y0) to (s1, y1).

    Parameters
    ----------
    s0 : float
        Start.
    s1 : float
        End.
    y0 : float ndarray, shape (N,)
        State at the start.
    y1 : float ndarray, shape (N,)
        State at the end (after `retract`).
    f0 : float ndarray, shape (N,)
        Velocity at the start.
    f1 : float ndarray, shape (N,)
        Velocity at the end (after `retract`).
    bulge : float ndarray or None
        Quartic term of the dense output, None for rkc2.
    error : float ndarray, shape (N,)
        Estimate of what this step errs by.
    evaluations : int
        Of the velocity, since the start of the march.
    memory : Memory
        For resuming after this step.
    last : float ndarray or None, shape (N,)
        Velocity at the end before `retract`, past which another may begin; None where that is none.
    """

    s0: float
    s1: float
    y0: FloatArray
    y1: FloatArray
    f0: FloatArray
    f1: FloatArray
    bulge: FloatArray | None
    error: FloatArray
    evaluations: int
    memory: Memory
    last: FloatArray | None = field(default=None, kw_only=True)

    @property
    def stages(self) -> float:
        """Evaluations that stability takes for a step of this length, 0 where it was not a stabilised one."""
        if self.memory.method != "rkc2":
            return 0.0
        return math.sqrt(STAGES_SQUARED * (self.s1 - self.s0) * self.memory.radius)

    def dense(self, s: float) -> FloatArray:
        """State at s in [s0, s1], (N,): fourth order for rk45, cubic Hermite for rkc2. A fresh array."""
        h = self.s1 - self.s0
        bulge = 0.0 if self.bulge is None else self.bulge
        f1 = self.f1 if self.last is None else self.last
        return interpolated((s - self.s0) / h, self.y0, self.y1, h * self.f0, h * f1, bulge)

    @staticmethod
    def many(steps: Sequence[Any]) -> States:
        """States (m, N) at times s (m,), each within the step of index `which` (m,) of these, all of this class."""
        start, end = np.array([(step.s0, step.s1) for step in steps]).T
        y0, y1, f0 = (np.array([getattr(step, name) for step in steps]) for name in ("y0", "y1", "f0"))
        f1 = np.array([step.f1 if step.last is None else step.last for step in steps])
        bulge = np.array([np.zeros_like(step.y0) if step.bulge is None else step.bulge for step in steps])
        h = end - start
        f0, f1 = h[:, None] * f0, h[:, None] * f1

        def states(which: IntArray, s: FloatArray) -> FloatArray:
            x = ((s - start[which]) / h[which])[:, None]
            return np.asarray(interpolated(x, y0[which], y1[which], f0[which], f1[which], bulge[which]))

        return states


def one_by_one(steps: Sequence[Accepted]) -> States:
    """As `Accepted.many`, where `dense` is asked for every time."""
    return lambda which, s: np.array([steps[k].dense(at) for k, at in zip(which.tolist(), s.tolist(), strict=True)])


def interpolated(
    x: Number | float, y0: Number, y1: Number, f0: Number, f1: Number, bulge: Number | float = 0.0
) -> Number:
    """Dense output at places x in 0..1 of steps from y0 to y1; all arrays of one shape, or broadcast to it.

    f0, f1 : slopes at both ends, times the length of the step.  bulge : quartic term (0: the cubic Hermite polynomial).
    """
    rise = y1 - y0
    first = f0 - rise
    second = rise - f1 - first + (1 - x) * bulge
    return y0 + x * (rise + (1 - x) * (first + x * second))


def place(time: float, t0: FloatArray, t1: FloatArray, f0: FloatArray, f1: FloatArray, bulge: FloatArray) -> FloatArray:
    """Places at which dense outputs (`interpolated`), monotone from t0 < t1, are `time`, (m,).

    f0, f1, bulge : (m,) as there.
    """
    low, high = np.zeros(t0.size), np.ones(t0.size)
    u = (time - t0) / (t1 - t0)
    for _ in range(54):
        v = 1.0 - u
        t = interpolated(u, t0, t1, f0, f1, bulge)
        slope = 6.0 * u * v * (t1 - t0) + v * (v - 2 * u) * f0 - u * (2 * v - u) * f1 + 2 * bulge * u * v * (v - u)
        if (np.abs(t - time) <= _SAME_TIME * np.maximum(t1, time)).all():
            break
        low, high = np.where(t < time, u, low), np.where(t < time, high, u)
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = u - (t - time) / slope
        u = np.where((guess > low) & (guess < high), guess, 0.5 * (low + high))  # Newton, or halving out of the bracket
    return np.asarray(u)


class _Counted:
    """A velocity that counts how often it is asked for."""

    def __init__(self, velocity: Velocity) -> None:
        self._velocity, self.count = velocity, 0

    def __call__(self, y: FloatArray) -> FloatArray:
        self.count += 1
        return self._velocity(y)


def march(
    velocity: Velocity,
    y0: FloatArray,
    *,
    method: str = "rk45",
    rtol: float,
    scale: Callable[[FloatArray], FloatArray] | FloatArray | float | None = None,
    groups: IntArray | None = None,
    retract: Callable[[FloatArray], FloatArray] | None = None,
    s0: float = 0.0,
    s_end: float = np.inf,
    first_step: float | None = None,
    max_steps: int = DEFAULT_MAX_STEPS,
    memory: Memory | None = None,
    rises: Callable[[FloatArray, FloatArray], bool] | None = None,
    project: Callable[[FloatArray], FloatArray] | None = None,
) -> Iterator[Accepted]:
    """Integrate y' = velocity(y) from y0 (N,) and yield every accepted step; stop by leaving the loop.

    Parameters
    ----------
    velocity : callable
        y (N,) -> dy/ds (N,), autonomous; must not modify y. Non-finite stages are rejected steps.
    method : str, optional
        "rk45", "rkc2", or "auto" (rk45, and rkc2 while stability limits the steps), or "rough" (the same with rk23).
    rtol : float
        Tolerance of the error of one step, in units of `scale`.
    scale : callable or float ndarray or float or None, shape (N,), optional
        a number, or callable y -> (N,): an error of rtol * scale is acceptable. Default 1.
    groups : int ndarray or None, shape (N,), optional
        Group index of each entry. The error norm is the root mean square in each group, and the maximum over the
        groups. Default: one group.
    retract : callable or None, optional
        Applied to every accepted state, for example to restore unit rows; return y itself when nothing is to do, which
        saves an evaluation.
    s0 : float, optional
        Start.
    s_end : float, optional
        End; the last step ends exactly there.
    first_step : float or None, optional
        Length to try first; chosen from the velocity when None.
    max_steps : int, optional
        Accepted steps after which OutOfSteps is raised.
    memory : Memory or None, optional
        Of the `Accepted` to resume after, with s0 and y0 its s1 and y1.
    rises : callable or None, optional
        (y0, y1) -> whether a step between these raises what the flow lowers, asked where it is so long that stability
        may be lost: it is then rejected. Noise of stiff modes, each within its tolerance, may add up to a rise.
    project : callable or None, optional
        Applied to the end of every step, before it is known whether this is accepted, and before the velocity is had
        there, which is then had once; a function of the state alone. `retract` is for what is not.

    Raises
    ------
    Stalled
        Where steps fall to rounding, with the last good (s, y)
    NonFinite
        For a velocity that is not finite, with the last good (s, y)
    OutOfSteps
        After `max_steps`, with the last good (s, y)
    RequestError
        For an unknown method.
    """
    if method not in (*METHODS, LOW):
        raise RequestError(
            explain(f"unknown method {method!r}.", where="integrator", expected="one of " + ", ".join(METHODS))
        )
    counted = _Counted(velocity)
    norm = ErrorNorm(rtol, scale, groups, y0.size)
    s, y = float(s0), np.array(y0, dtype=np.float64)
    with np.errstate(**ABSURD):
        f = counted(y)
        if not np.isfinite(f).all():
            raise NonFinite("the velocity is not finite at the start.", s, y)
        if memory is None:
            single = _single(method)
            order = _ORDERS[single]
            step = first_step if first_step is not None else first_length(counted, y, f, norm, order, s_end - s)
            memory = Memory(step, method=single)
    for _ in range(max_steps):
        if not s < s_end:
            return
        accepted = _advance(counted, norm, retract, method, memory, s, s_end, y, f, rises, project)
        s, y, f, memory = accepted.s1, accepted.y1, accepted.f1, accepted.memory
        yield accepted
    if s < s_end:
        raise OutOfSteps(f"{max_steps} steps were not enough.", s, y)


@np.errstate(**ABSURD)
def _advance(
    velocity: _Counted,
    norm: ErrorNorm,
    retract: Callable[[FloatArray], FloatArray] | None,
    method: str,
    memory: Memory,
    s: float,
    s_end: float,
    y: FloatArray,
    f: FloatArray,
    rises: Callable[[FloatArray, FloatArray], bool] | None,
    project: Callable[[FloatArray], FloatArray] | None,
) -> Accepted:
    """One accepted step from (s, y), f = velocity(y). Retries until the error passes."""
    step, chebyshev, order = memory.step, memory.method == "rkc2", _ORDERS[memory.method]
    radius, vector, age = memory.radius, memory.vector, memory.age
    rejected = unstable = False
    finite = True
    units = norm.units(y)
    for _ in range(_MAX_RETRIES):
        if chebyshev and (rejected or vector is None or age >= RADIUS_AGE):
            radius, vector = _radius(velocity, norm, y, f, vector)
            age = 0
        if chebyshev and radius > 0:
            step = min(step, (MAX_STAGES**2 - 1) / (STAGES_SQUARED * radius))
        if step <= 4 * EPS * abs(s):
            break
        # A last step up to 1 % longer than planned saves a sliver.
        h = s_end - s if s + 1.01 * step >= s_end else step
        if chebyshev:
            stages = max(2, 1 + int(np.sqrt(STAGES_SQUARED * h * radius + 1)))
            trial = chebyshev_step(velocity, y, f, h, stages, project)
        else:
            trial = (dormand_prince if order == 4 else bogacki_shampine)(velocity, y, f, h, units, project)
        error = norm(trial.error, y, trial.y1)
        finite = bool(np.isfinite(error) and np.isfinite(trial.f1).all())
        if not finite or error > 1:
            step = h * (0.25 if not finite else max(0.2, min(0.5, 0.9 * error ** (-1 / (order + 1)))))
            rejected = True
            continue
        if rises is not None and trial.stiffness > STIFF_PRODUCT and rises(y, trial.y1):
            step, rejected, unstable = h * max(0.2, 0.5 * STIFF_PRODUCT / trial.stiffness), True, True
            continue
        s1 = s_end if h == s_end - s else s + h
        y1, f1 = trial.y1, trial.f1
        if retract is not None:
            y1 = retract(trial.y1)
            if y1 is not trial.y1:
                f1 = velocity(y1)
        longer = _grown(h, error, memory.error, order, rejected)
        if _DAMPED_PRODUCT < trial.stiffness < _KINK_PRODUCT:
            longer = min(longer, h * _DAMPED_PRODUCT / trial.stiffness)
        if h < step:  # cut by s_end: the plan stands
            longer = max(longer, step)
        after, stiff = _next_method(method, memory, trial.stiffness, longer * radius, unstable, norm.rtol)
        vector = vector if after == memory.method else None
        following = Memory(longer, max(error, 1e-4), after, stiff, radius, vector, age + 1)
        return Accepted(s, s1, y, y1, f, f1, trial.bulge, trial.error, velocity.count, following, last=trial.f1)
    if not finite:
        raise NonFinite("the velocity is not finite however short the step.", s, y)
    raise Stalled(f"the step fell to {step:.3g} at s = {s:.6g}.", s, y)


def _next_method(
    method: str, memory: Memory, stiffness: float, reach: float, unstable: bool, rtol: float
) -> tuple[str, int]:
    """The method of the next step where `method` leaves a choice, and the steps so far that stability has limited.

    stiffness : length of the step times the spectral radius, as the step tells it.  reach : that of the next one, as
    rkc2 knows it.  unstable : whether the loss rose in a step of such a length.
    """
    many, back = STIFF_STEPS if rtol < _ROUGH else _ROUGH_STIFF_STEPS
    stiff = memory.stiff + int(stiffness > STIFF_PRODUCT)
    if stiffness < 0.5 * _DAMPED_PRODUCT:
        stiff = max(stiff - back, 0)
    if method in ("auto", LOW):
        if memory.method != "rkc2":
            return ("rkc2", 0) if unstable or stiff >= many else (memory.method, stiff)
        if reach < 1:  # rk45 at its stability limit covers 3.3 / radius in 6 evaluations: it would be no slower
            return _single(method), stiff
    return memory.method, stiff


def _single(method: str) -> str:
    """The method that one of several begins with."""
    return {"auto": "rk45", LOW: "rk23"}.get(method, method)


def _grown(h: float, error: float, before: float, order: int, rejected: bool) -> float:
    """Next step by PI control (exponents as in Hairer's dopri5): at most 5 h, and at most h after a rejection."""
    integral, proportional = 0.85 / (order + 1), 0.2 / (order + 1)
    factor = 0.9 * max(error, 1e-10) ** -integral * before**proportional
    return h * min(max(factor, 0.2), 1.0 if rejected else 5.0)


class ErrorNorm:
    """Norm of an error vector: rms over each group in units of rtol * scale, maximum over groups.

    Parameters
    ----------
    rtol : float
        Relative error that counts as one.
    scale : callable or float ndarray or float or None, shape (N,)
        As for `march`.
    groups : int ndarray or None, shape (N,)
        As for `march`.
    size : int
        Number N of entries.
    """

    def __init__(
        self,
        rtol: float,
        scale: Callable[[FloatArray], FloatArray] | FloatArray | float | None,
        groups: IntArray | None,
        size: int,
    ) -> None:
        self.rtol = rtol
        self.scale = scale
        self.groups = groups
        self.counts = None if groups is None else np.maximum(np.bincount(groups, minlength=1), 1)
        self.size = max(size, 1)
        self._last: list[tuple[FloatArray, FloatArray]] = []  # states and their scales

    def units(self, y: FloatArray) -> FloatArray | float:
        """Scale of each entry at y, (N,) or a number; that of the last two states is kept, both ends of a step."""
        if self.scale is None:
            return 1.0
        if not callable(self.scale):
            return self.scale
        for state, scale in self._last:
            if state is y:
                return scale
        self._last = [*self._last[-1:], (y, self.scale(y))]
        return self._last[-1][1]

    def __call__(self, error: FloatArray, y0: FloatArray, y1: FloatArray) -> float:
        units = self.units(y0)
        if y1 is not y0 and callable(self.scale):
            there = self.units(y1)
            units = units if there is units else np.maximum(units, there)
        relative = error / (self.rtol * units)
        np.abs(relative, out=relative)
        largest = float(np.maximum.reduce(relative, initial=0.0))
        if largest == 0 or not math.isfinite(largest):
            return largest
        relative /= largest
        relative *= relative
        if self.groups is None or self.counts is None:
            return largest * math.sqrt(np.add.reduce(relative) / self.size)
        means = np.bincount(self.groups, weights=relative) / self.counts
        return largest * math.sqrt(np.maximum.reduce(means))


def first_length(velocity: Velocity, y: FloatArray, f: FloatArray, norm: ErrorNorm, order: int, room: float) -> float:
    """Length of the first step of a method of this `order` from y, at most `room`.

    From how fast the state and the `velocity`, f at y, change in the `norm` of errors (as Hairer, II.4, but from rates
    alone, so that rescaling time or state changes no step).
    """
    speed = norm(f, y, y) * norm.rtol  # of the state, in units of scale
    if speed == 0 or not room > 0:
        return room if np.isfinite(room) else 1.0  # nothing moves, and nothing tells one length from another
    trial = min(0.01 / speed, room)
    # rate of change of the velocity
    turning = norm(velocity(y + trial * f) - f, y, y) * norm.rtol / (trial * speed)
    if not np.isfinite(turning):
        return min(1e-3 * trial, room)
    return min((0.01 * norm.rtol) ** (1 / (order + 1)) / max(speed, turning), room)


def _radius(
    velocity: Velocity, norm: ErrorNorm, y: FloatArray, f: FloatArray, vector: FloatArray | None
) -> tuple[float, FloatArray]:
    """Upper estimate of the spectral radius at y (1.2 times the power iteration's) and the vector it ended with."""
    units = norm.units(y) * np.ones_like(y)
    v = f / units if vector is None else vector
    if not v.any():
        v = np.ones_like(y)
    # Displacement that balances truncation against rounding in a one-sided difference of an order-one function.
    length = EPS ** (1 / 3)
    estimate = before = 0.0
    for _ in range(50):
        v = v / length_of(v)
        change = (velocity(y + length * units * v) - f) / (length * units)
        new = length_of(change)
        if not np.isfinite(new):
            length *= 0.1
            continue
        if new == 0:
            break
        v, before, estimate = change, estimate, new
        if abs(new - before) <= 0.02 * new:
            return 1.2 * estimate, v
    # stiff directions are looked along one way and the other in turn: over a kink this sees the rate beyond
    return 1.2 * max(before, estimate), v
