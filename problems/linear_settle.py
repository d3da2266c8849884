"""Where the active modes of a linear network settle, and whether they later turn to better ones.

A critical point of fixed rank need not be its minimum: weakly coupled modes, or modes that outnumber the hidden units,
leave a saddle from which the active modes turn to modes of larger energy after a time of their own. Seen along the
flow, that is a second drop behind a plateau.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from agf.arrays import FloatArray
from agf.integrators import Accepted, MarchError, march

#: Relative accuracy of a settled level, and of the smallest level that matters, in units of the initial loss.
SETTLED = 1e-6
#: The flow has passed a plateau when |g|^2 has risen this much from its lowest ...
_RISE = 4.0
#: ... where it would have taken this many times the time since the last drop to lose as much again.
_FLAT = 0.05
#: A further drop counts when it takes at least this fraction off the loss that can be explained.
_VISIBLE = 1e-3
#: Steps after which a flow that goes nowhere is left alone.
_MAX_STEPS = 20_000


@dataclass(frozen=True)
class Rest:
    """A plateau: state y, velocity g, time t since the start, loss above the floor, whether the flow settled there."""

    y: FloatArray
    g: FloatArray
    t: float
    loss: float
    settled: bool = False


@dataclass(frozen=True)
class Path:
    """What the flow does until the next activation.

    rest : the first plateau, or the state at the horizon.  horizon : time of the next activation seen from there.
    turn : time and state halfway down a second drop before the horizon, or None.  failed : whether no rest was reached.
    """

    rest: Rest
    horizon: float
    turn: tuple[float, FloatArray] | None
    evaluations: int
    failed: bool


def follow(
    velocity: Callable[[FloatArray], FloatArray],
    loss: Callable[[FloatArray], float],
    y: FloatArray,
    *,
    above: float,
    horizon: Callable[[FloatArray], float],
    best: float,
    whole: float,
    span: float,
    rtol: float,
    scale: Callable[[FloatArray], FloatArray] | float,
) -> Path:
    """Follow y' = velocity(y) to its first plateau, and on to a second drop if one comes before the horizon.

    loss : above the floor.  above : loss before the drop that y is in.  best : the lowest loss this flow could reach.
    whole : loss of the zero function.
    horizon : state -> time, from the start, of the next activation.  span : longest time.
    rtol, scale : of `agf.integrators.march`.
    """
    now = Rest(y, velocity(y), 0.0, loss(y))
    evaluations, end = 1, horizon(y)
    rest: Rest | None = None
    lowest, base = now, replace(now, loss=above)
    falling: list[tuple[Accepted, float]] = []
    try:
        for step in march(velocity, y, method="auto", rtol=rtol, scale=scale, s_end=span, max_steps=_MAX_STEPS):
            evaluations = step.evaluations + 1
            now = Rest(step.y1, step.f1, step.s1, loss(step.y1))
            if rest is not None:
                falling.append((step, now.loss))
            settled = _settled(now, end, whole)
            if rest is None and (settled or now.t >= end):
                end = horizon(now.y)
                settled = _settled(now, end, whole)
            if now.t >= end:
                t = max(end, step.s0)
                now = Rest(step.dense(t), velocity(step.dense(t)), t, loss(step.dense(t)))
                if rest is not None and rest.loss - now.loss < 0.5 * (rest.loss - best):
                    now = rest  # a turn that has hardly begun is left to the next phase
                break
            if _speed(now) < _speed(lowest) or lowest is rest:
                lowest = now
            passed = _speed(now) > _RISE * _speed(lowest) and _flat(lowest, base)
            if rest is None and (settled or passed):
                rest = Rest(now.y, now.g, now.t, now.loss, True) if settled else lowest
                if settled and now.loss - best <= SETTLED * whole:
                    break
                if passed:
                    end = horizon(rest.y)
                falling.append((step, now.loss))
                lowest = base = rest
            elif rest is not None and (settled or passed) and rest.loss - now.loss > _VISIBLE * whole:
                break
    except MarchError:
        if rest is None:
            return Path(now, end, None, evaluations, True)
    if rest is None or rest is now:
        return Path(now, end, None, evaluations, False)
    return Path(rest, end, _turn(falling, rest.loss, now.loss, whole, loss), evaluations, False)


def _speed(rest: Rest) -> float:
    """-dL/dt."""
    return float(rest.g @ rest.g)


def _settled(now: Rest, end: float, whole: float) -> bool:
    """Whether what the flow can still lose before `end`, to first order, does not matter."""
    return _speed(now) * (end - now.t) <= SETTLED * max(now.loss, SETTLED * whole)


def _flat(low: Rest, base: Rest) -> bool:
    return _speed(low) * (low.t - base.t) <= _FLAT * (base.loss - low.loss)


def _turn(
    falling: list[tuple[Accepted, float]],
    above: float,
    below: float,
    whole: float,
    loss: Callable[[FloatArray], float],
) -> tuple[float, FloatArray] | None:
    """Time and state at which the loss is halfway from `above` to `below`, if that is a visible drop."""
    if above - below <= _VISIBLE * whole:
        return None
    half = 0.5 * (above + below)
    step = next((step for step, end in falling if end <= half), None)
    if step is None:
        return None
    early, late = step.s0, step.s1
    while late - early > 1e-9 * step.s1:
        middle = 0.5 * (early + late)
        early, late = (early, middle) if loss(step.dense(middle)) <= half else (middle, late)
    return late, step.dense(late)
