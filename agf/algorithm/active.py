"""Cost minimization: active neurons follow gradient flow of their own loss to the critical point it reaches.

How far to follow it is the question, not how to integrate it: in hard problems no critical point exists. The flow is
followed for a stated horizon, a multiple of the time to the next activation, and stops early once what it can still
lose within the horizon is negligible (`agf.stopping.horizon`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from agf import integrators
from agf.algorithm.cost import Cost, SlidingCost, Thrown, Turns, Wait
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.integrators import Memory
from agf.rounding import EPS
from agf.stopping.driver import End, Moment, Saved, Stop, Why, drive
from agf.stopping.horizon import Below, Course, Decayed, Horizon, Spent
from agf.stopping.methods import PER_ENTRY, Auto, Explicit
from agf.stopping.rules import Budget, Certified, Event, Tolerance

#: Accepted steps of a phase. Limit: a flow that goes nowhere ends as `max_steps`.
MAX_STEPS = 100_000
#: Tolerance of implicit steps in that of explicit ones along smooth losses. Cost: it is the same over some decades of
#: this.
_IMPLICIT = 1e-3
#: Steps at each tolerance, in decades, by which a state that slides along kinks is brought onto them. Cost: a few
#: steps are enough, and more only go on with the slide.
_POLISH_STEPS = 15


@dataclass(frozen=True)
class ActiveEnd:
    """Where the active neurons came to rest, or were at the horizon.

    Parameters
    ----------
    theta : float ndarray, shape (m, P)
        Rows of neurons that collapsed as they were then.
    collapsed : bool ndarray, shape (m,)
        Which collapsed.
    level : float
        Loss of the others.
    duration : float
        Flow time followed.
    grad_norm : float
        Euclidean norm of the gradient; beside a kink, of its part along it: the square root of -dL/dt.
    predicted_decrease : float
        Loss the flow could still lose within one more horizon (first order, or by `remaining_loss.left`).
    how : str
        "flow" (stopped early: settled), "infimum" (the same while norms grow without bound: no critical point, but the
        loss falls to here), "rounding" (as far as float64 resolves the flow: predicted_decrease says what is left) or
        "horizon".
    growing : bool
        Whether the largest norm still grows, so that there may be no critical point at all.
    evaluations : int
        How many of loss and gradient.
    hessians : int
        How many Hessians.
    curve : float ndarray, shape (T, 2)
        Flow time and loss at each accepted step.
    """

    theta: FloatArray
    collapsed: BoolArray
    level: float
    duration: float
    grad_norm: float
    predicted_decrease: float
    how: str
    growing: bool
    evaluations: int
    hessians: int
    curve: FloatArray


#: `ActiveEnd.how` for each end of the flow.
_HOW = {Why.SETTLED: "flow", Why.DRIFTING: "infimum", Why.ROUNDING: "rounding", Why.HORIZON: "horizon"}

#: Sees the neurons that move, and their accepted step.
Watch = Callable[[IntArray, integrators.Accepted], None]


def settle(
    problem: Problem,
    theta: FloatArray,
    neurons: IntArray,
    horizon: Wait,
    *,
    rtol: float,
    negligible: float,
    before: float,
    least: float = 0.0,
    gone: FloatArray | None = None,
    watch: Watch | None = None,
    most: int = MAX_STEPS,
    gradients: float = np.inf,
) -> ActiveEnd:
    """Follow d theta/dt = -grad L of neurons (m,), alone, from theta (m, P).

    Parameters
    ----------
    problem : Problem
        Whose neurons.
    theta : float ndarray, shape (m, P)
        Where they are; not changed.
    neurons : int ndarray, shape (m,)
        Which they are.
    horizon : callable
        (theta, neurons, enough) -> flow time to follow the flow for, as seen from there, or any from `enough` on where
        it is no less than that; asked again as the flow moves on.
    rtol : float
        Stop early once the loss that is left to lose is below this fraction of max(loss, `negligible`); a path error
        of its square root per step is allowed, as it moves the loss at a critical point by rtol.
    negligible : float
        Loss that counts as nothing: the flow stops below it.
    before : float
        Loss before the phase; the horizon does not count while the loss is above it.
    least : float, optional
        Flow time that is followed in any case; `horizon` is not asked before.
    gone : float ndarray or None, shape (m,), optional
        Norms below which a neuron that shrinks has collapsed; it is taken out there and then. (float64 would not hold
        it at zero: it has lost what balances its parts, and passes to the other side.)
    watch : callable or None, optional
        Shown the neurons that move, and each accepted step.
    most : int, optional
        Accepted steps after which OutOfSteps is raised.
    gradients : float, optional
        Gradients after which it is, a Hessian counted as `PER_ENTRY` of one an entry.

    Raises
    ------
    integrators.MarchError
        NonFinite, Stalled or OutOfSteps, with the last good state.
    """
    theta = theta.copy()
    gone = np.zeros(neurons.size) if gone is None else gone
    collapsed = np.zeros(neurons.size, dtype=bool)
    saved = Saved(np.zeros(0))
    curve: list[tuple[float, float]] = []
    while True:
        kept = np.flatnonzero(~collapsed)
        follows = Cost if problem.kink_normals() is None else SlidingCost
        cost = follows(problem, neurons[kept], theta[kept], gone[kept])
        budget = Budget(gradients, most, PER_ENTRY * theta[kept].size)
        saved = Saved(cost.start(), origin=saved.origin, work=saved.work)
        course = Course(cost.asking(horizon), least=least, tolerated=Tolerance(rtol, negligible))
        end = _follow(cost, course, saved, rtol, negligible, before, watch, budget, curve)
        theta[kept] = end.at.y.reshape(kept.size, -1)
        if end.why is not Why.COLLAPSED:
            break
        collapsed[kept[end.who]] = True
        saved = Saved(end.at.y, origin=end.at.t, work=end.at.work)
    return ActiveEnd(
        theta=theta,
        collapsed=collapsed,
        level=end.at.loss,
        duration=end.at.t,
        grad_norm=float(np.sqrt(end.at.rate if problem.smooth else course.rate(course.last))),
        predicted_decrease=min(end.left, end.at.loss),
        how=_HOW[end.why],
        growing=cost.grew(course, end.at),
        evaluations=end.at.work.gradients,
        hessians=end.at.work.hessians,
        curve=np.array(curve).reshape(-1, 2),
    )


def _follow(
    cost: Cost,
    course: Course,
    saved: Saved,
    rtol: float,
    negligible: float,
    before: float,
    watch: Watch | None,
    budget: Budget,
    curve: list[tuple[float, float]],
) -> End:
    """Until a neuron collapses, the rest can lose nothing, or the horizon is over; (t, L) are added to the `curve`."""
    accuracy = np.sqrt(rtol)
    tolerated = Tolerance(rtol, negligible)
    decayed = Decayed(
        course,
        tolerated,
        blurred=lambda now: EPS * cost.stiffness * now.t > accuracy,
        growing=lambda now: cost.grew(course, now),
    )
    stops: list[Stop] = [
        Event(cost.lost, Why.COLLAPSED),
        Certified(Tolerance(rtol, negligible / rtol)),
        Below(before + accuracy * abs(before), Horizon(course)),
        Spent(course, tolerated),
        decayed,
        budget,
        Turns(),
        Thrown(course, tolerated),
    ]

    last = saved

    def seen(now: Moment, saved: Saved) -> None:
        nonlocal last
        last = saved
        curve.append((now.t, now.loss))
        if watch is not None and now.step is not None:
            watch(cost.neurons, now.step)

    going: Saved | None = saved
    while going is not None:
        explicit = min(accuracy, cost.coarsest)
        steps = Auto(explicit, _IMPLICIT * accuracy / explicit)
        end = drive(cost, steps, stops, going, each=seen)
        going = cost.turned(end, last)
    if end.why is Why.STALLED and cost.curved:
        return decayed.stalled(end.at)
    if end.why in _FAILED:
        raise _FAILED[end.why](end.note, end.at.t, end.at.y)
    return end if not cost.chatters or end.why is Why.COLLAPSED else _polished(cost, end, accuracy)


_FAILED = {
    Why.NONFINITE: integrators.NonFinite,
    Why.STALLED: integrators.Stalled,
    Why.BUDGET: integrators.OutOfSteps,
}


def _polished(cost: Cost, end: End, rtol: float) -> End:
    """An end that chatters about kinks brought onto them, by a few steps at ever smaller tolerances.

    The chatter is as wide as a step, and a step on a kink as long as its tolerance allows.
    """
    now = end.at
    length = 0.0 if now.step is None else now.step.s1 - now.step.s0
    for k in range(1, round(-np.log10(rtol)) + 1) if length > 0 else ():
        budget = Budget(np.inf, now.work.steps + _POLISH_STEPS)
        saved = Saved(now.y, method=Memory(0.1 * length), work=now.work)
        now = drive(cost, Explicit(0.1**k * rtol), [budget], saved).at
        length = now.step.s1 - now.step.s0 if now.step is not None else 0.1 * length
    return replace(end, at=replace(now, t=end.at.t))
