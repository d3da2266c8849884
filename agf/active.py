"""Cost minimization: active neurons follow gradient flow of their own loss to the critical point it reaches.

How far to follow it is the question, not how to integrate it: in hard problems no critical point exists. The flow is
followed for a stated horizon, a multiple of the time to the next activation, and stops early once what it can still
lose within the horizon is negligible; |grad L|^2 times the remaining time bounds that to first order, because
dL/dt = -|grad L|^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract import Problem
from agf.integrators import Accepted, march
from agf.sphere import norms

#: Neurons this far below the norm they started the phase with no longer count in the error test.
_NEGLIGIBLE = 1e-3
#: The wait for the next activation is looked at again each time the flow time has grown by this factor.
_LOOK = 1.25
_MAX_STEPS = 100_000
#: Gradients below this part of the largest seen are rounding.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Rest:
    """Where the active neurons came to rest, or were at the horizon.

    theta : (m, P).  level : loss there.  duration : flow time followed.
    grad_norm : Euclidean norm of the gradient.  shrinking : (m,) whether the flow still lowers each norm.
    predicted_decrease : loss the flow could still lose within one more horizon (first order).
    how : "flow" (stopped early: settled) or "horizon".
    growing : whether the largest norm still grows, so that there may be no critical point at all.
    """

    theta: FloatArray
    level: float
    duration: float
    grad_norm: float
    shrinking: FloatArray
    predicted_decrease: float
    how: str
    growing: bool
    evaluations: int


def settle(
    problem: Problem,
    theta: FloatArray,
    neurons: IntArray,
    wait: Callable[[FloatArray], float],
    *,
    multiple: float,
    rtol: float,
    negligible: float,
    cap: float,
) -> Rest:
    """Follow d theta/dt = -grad L from theta (m, P).

    Parameters
    ----------
    wait : flow time to the next activation if the residual were frozen at theta; inf when there is none.
    multiple : of that wait, how long to follow the flow.
    rtol : stop early once the loss that is left to lose is below this fraction of max(loss, `negligible`); a path error
        of its square root per step is allowed, as it moves the loss at a critical point by rtol.
    negligible : loss that counts as nothing: the flow stops below it.
    cap : horizon (flow time) when no activation is to come.

    Raises
    ------
    integrators.NonFinite, Stalled, OutOfSteps, with the last good state.
    """
    flow = _Flow(problem, neurons, theta.shape)
    start = theta.ravel()
    floor = _NEGLIGIBLE * np.maximum(norms(theta), _NEGLIGIBLE * norms(theta).max())

    def scale(y: FloatArray) -> FloatArray:
        return np.repeat(np.maximum(norms(y.reshape(theta.shape)), floor), theta.shape[1])

    def horizon(y: FloatArray) -> float:
        return min(multiple * wait(y.reshape(theta.shape)), cap)

    end, looked = horizon(start), 0.0
    loss, gradient = flow.at(start)
    largest = float(np.linalg.norm(gradient))
    if largest == 0.0 or end == 0.0 or loss <= negligible:
        return flow.rest(start, 0.0, end, "flow", np.zeros(0))
    steps = march(
        flow.velocity,
        start,
        method="auto" if problem.smooth else "rk45",
        rtol=np.sqrt(rtol),
        scale=scale,
        groups=np.repeat(np.arange(neurons.size), theta.shape[1]),
        max_steps=_MAX_STEPS,
    )
    past: list[tuple[float, FloatArray]] = [(0.0, start)]
    for step in steps:
        t, y = step.s1, step.y1
        if t >= _LOOK * looked or t >= end:
            end, looked = horizon(y), t
        if t >= past[-1][0] * 2:
            past.append((t, y))
        if t >= end:
            return _finish(flow, step, end, past)
        loss = flow.loss(y)
        speed = float(np.linalg.norm(step.f1))
        largest = max(largest, speed)
        if speed**2 * (end - t) <= rtol * max(loss, negligible) or loss <= negligible or speed <= _ROUNDING * largest:
            return flow.rest(y, t, end, "flow", past[-1][1])
    raise AssertionError("march ends only by raising")


def _finish(flow: _Flow, step: Accepted, end: float, past: list[tuple[float, FloatArray]]) -> Rest:
    """At the horizon exactly when it lies in the step, else at the end of the step."""
    t = end if step.s0 <= end <= step.s1 else step.s1
    y = step.dense(t) if t < step.s1 else step.y1
    return flow.rest(y, t, end, "horizon", past[-2][1] if len(past) > 1 else past[-1][1])


class _Flow:
    """The velocity, with the loss of its last evaluation kept: an accepted step ends with one at its end point."""

    def __init__(self, problem: Problem, neurons: IntArray, shape: tuple[int, ...]) -> None:
        self.problem, self.neurons, self.shape = problem, neurons, shape
        self.evaluations = 0
        self._last: tuple[FloatArray, float] | None = None

    def at(self, y: FloatArray) -> tuple[float, FloatArray]:
        self.evaluations += 1
        loss, gradient = self.problem.loss_grad(y.reshape(self.shape), self.neurons)
        self._last = (y, float(loss))
        return float(loss), gradient.ravel()

    def velocity(self, y: FloatArray) -> FloatArray:
        return -self.at(y)[1]

    def loss(self, y: FloatArray) -> float:
        if self._last is not None and self._last[0] is y:
            return self._last[1]
        return self.at(y)[0]

    def rest(self, y: FloatArray, t: float, end: float, how: str, before: FloatArray) -> Rest:
        loss, gradient = self.at(y)
        theta = y.reshape(self.shape).copy()
        gradient = gradient.reshape(self.shape)
        largest = float(norms(theta).max())
        earlier = float(norms(before.reshape(-1, self.shape[1])).max(initial=0.0)) if before.size else largest
        squared = float(np.sum(gradient**2))
        return Rest(
            theta=theta,
            level=loss,
            duration=t,
            grad_norm=float(np.sqrt(squared)),
            shrinking=np.sum(gradient * theta, axis=1) > 0,
            predicted_decrease=squared * (end if np.isfinite(end) else t),
            how=how,
            growing=largest > 1.001 * earlier,
            evaluations=self.evaluations,
        )
