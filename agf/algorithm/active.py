"""Cost minimization: active neurons follow gradient flow of their own loss to the critical point it reaches.

How far to follow it is the question, not how to integrate it: in hard problems no critical point exists. The flow is
followed for a stated horizon, a multiple of the time to the next activation, and stops early once what it can still
lose within the horizon is negligible; dL/dt times the remaining time bounds that to first order, as long as the rate
of fall does not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from agf import integrators
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.integrators import Accepted, march
from agf.numerics import ndf
from agf.sphere import norms
from agf.stopping import remaining_loss

#: Neurons this far below the norm they started the phase with no longer count in the error test.
_NEGLIGIBLE = 1e-3
#: The wait for the next activation is looked at again each time the flow time has grown by this factor.
_LOOK = 1.25
#: Beyond this part of the horizon nothing can be lost any more, settled or not.
_LATE = 0.95
_MAX_STEPS = 100_000
#: Whether a decaying flow can lose anything more is asked while the horizon is longer than this multiple of its age.
_LONG = 10.0
#: e-folds after which a growing mode would have risen from rounding: a saddle that is not left by then is a level.
_PARKED = 60.0
#: Rounding of the gradient over the age of the flow, above this part of the tolerance: it blurs where the flow goes.
_BLURRED = 1e-2
#: Steps over a doubling of the age from which on it is also followed no further within a short horizon.
_SLOW = 200
_EPS = float(np.finfo(np.float64).eps)
#: An explicit step of more evaluations than this, and than this part of the number of parameters, costs more than one
#: with the Hessian.
_EXPENSIVE, _PER_PARAMETER = 50, 0.25
#: Tolerance of implicit steps, which cost the same over some decades of it, in that of explicit ones.
_IMPLICIT = 1e-3
#: Gradients below this part of the largest seen are rounding.
_ROUNDING = 1e-13
#: Steps at each tolerance, in decades, by which a state that slides along kinks is brought onto them.
_POLISH_STEPS = 15


@dataclass(frozen=True)
class Rest:
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


Horizon = Callable[[FloatArray, IntArray], float]


def settle(
    problem: Problem,
    theta: FloatArray,
    neurons: IntArray,
    horizon: Horizon,
    *,
    rtol: float,
    negligible: float,
    before: float,
    least: float = 0.0,
    gone: FloatArray | None = None,
) -> Rest:
    """Follow d theta/dt = -grad L from theta (m, P).

    Parameters
    ----------
    horizon : Horizon
        Flow time to follow the flow for, as seen from (theta, neurons); asked again as the flow moves on.
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

    Raises
    ------
    integrators.MarchError
        NonFinite, Stalled or OutOfSteps, with the last good state.
    """
    theta = theta.copy()
    gone = np.zeros(neurons.size) if gone is None else gone
    collapsed = np.zeros(neurons.size, dtype=bool)
    evaluations, hessians, began = 0, 0, 0.0
    while True:
        kept = np.flatnonzero(~collapsed)
        flow = _Flow(problem, neurons[kept], theta[kept], gone[kept])
        stop = flow.follow(horizon, began, rtol, negligible, before, least)
        evaluations, hessians, began = evaluations + flow.evaluations, hessians + flow.hessians, stop.t
        theta[kept] = stop.y.reshape(kept.size, -1)
        if not stop.lost.any():
            break
        collapsed[kept[stop.lost]] = True
    loss, gradient = flow.at(stop.y)
    return Rest(
        theta=theta,
        collapsed=collapsed,
        level=loss,
        duration=stop.t,
        grad_norm=float(np.linalg.norm(gradient)) if problem.smooth else float(np.sqrt(stop.rate)),
        predicted_decrease=min(stop.left, loss),
        how=stop.how,
        growing=stop.growing,
        evaluations=evaluations,
        hessians=hessians,
    )


@dataclass(frozen=True)
class _Stop:
    """Where a flow of one set of neurons stopped.

    Parameters
    ----------
    lost : bool ndarray, shape (m,)
        Those that collapsed here.
    rate : float
        -dL/dt.
    left : float
        Loss it could still lose.
    """

    t: float
    y: FloatArray
    lost: BoolArray
    rate: float
    left: float
    how: str
    growing: bool


@dataclass(frozen=True)
class _Mark:
    """A moment of the flow. work : integral of the squared gradient up to it."""

    t: float
    loss: float
    y: FloatArray
    work: float


class _Flow:
    """The velocity, with the loss of its last evaluation kept: an accepted step ends with one at its end point."""

    def __init__(self, problem: Problem, neurons: IntArray, theta: FloatArray, gone: FloatArray) -> None:
        self.problem, self.neurons, self.theta, self.gone = problem, neurons, theta, gone
        self.shape = theta.shape
        self.evaluations = self.hessians = 0
        self.work = 0.0
        self.stiffness = 0.0  # size of the last Hessian
        self.curved = problem.smooth and problem.kink == 0.0  # whether there may be one
        rho = norms(theta)
        self._floor = _NEGLIGIBLE * np.maximum(rho, _NEGLIGIBLE * rho.max(initial=0.0))
        self._last: tuple[FloatArray, float] | None = None

    def follow(self, horizon: Horizon, t0: float, rtol: float, negligible: float, before: float, least: float) -> _Stop:
        """Until a neuron collapses, the rest can lose nothing, or the horizon is over; times count from before t0."""
        y = self.theta.ravel()
        loss, gradient = self.at(y)
        t, end, looked = t0, np.inf if t0 < least else horizon(self.theta, self.neurons), t0
        largest = float(np.linalg.norm(gradient))
        rate = largest**2
        ceiling = before + np.sqrt(rtol) * abs(before)
        past = [_Mark(t0, loss, y, 0.0)]  # one moment for each doubling of the time
        nobody = np.zeros(self.neurons.size, dtype=bool)
        counted = 0  # steps when the last moment was noted
        leaves, seen = 0.0, np.inf  # time by which a saddle will have been left, and the loss there
        if largest == 0.0 or loss <= negligible:
            return _Stop(t0, y, nobody, rate, rate * min(end, t0), "flow", False)
        try:
            for steps, step in enumerate(self.march(y, np.sqrt(rtol))):
                t, y = t0 + step.s1, step.y1
                loss = self.loss(y)
                lost = self.lost(step)
                if lost.any():
                    return _Stop(t, y, lost, 0.0, 0.0, "flow", False)
                if t >= max(_LOOK * looked, least) or (t >= end and loss <= ceiling):
                    end, looked = horizon(self.smoothed(step).reshape(self.shape), self.neurons), t
                rate = self.rate(step, loss, past)
                largest = max(largest, float(np.linalg.norm(step.f1)))
                tolerated = rtol * max(loss, negligible)
                left = rate * (end - t) if rate > 0 else 0.0  # the horizon may be infinite
                settled = loss <= negligible or (t < _LATE * end and left <= tolerated)
                over = t >= end and loss <= ceiling
                nothing = settled or rate <= (_ROUNDING * largest) ** 2
                if nothing and t >= leaves and negligible < loss < seen - tolerated:
                    growth = self.escape(_Mark(t, loss, y, 0.0), end - t)
                    leaves, seen = (t + _PARKED / growth, loss) if growth > 0 else (leaves, seen)
                if over or (nothing and t >= leaves):
                    if t0 + step.s0 <= end < t:
                        t, y = end, step.dense(end - t0)
                    if not self.problem.smooth:
                        y = self.polish(step, y, rtol)
                    how = "horizon" if over and not settled else "flow"
                    left = rate * (end if np.isfinite(end) else t)
                    return _Stop(t, y, nobody, rate, left, how, self.grew(past, y))
                if t >= 2 * past[-1].t:
                    past.append(_Mark(t, loss, y, self.work))
                    blurred = _EPS * self.stiffness * t > _BLURRED * np.sqrt(rtol)
                    slow, counted = blurred and steps - counted > _SLOW, steps
                    if t >= least and (slow or (end > _LONG * t and (blurred or rate * t <= tolerated))):
                        left = self.left(past, end - t)
                        if left <= tolerated or (blurred and np.isfinite(left)):
                            return self.drifted(past, rate, left, tolerated)
        except integrators.Stalled:
            past.append(_Mark(t, loss, y, self.work))
            left = self.left(past, end - t)
            if not self.curved:
                raise
            return self.drifted(past, rate, left, rtol * max(loss, negligible))
        raise AssertionError("march ends only by raising")

    def drifted(self, past: list[_Mark], rate: float, left: float, tolerated: float) -> _Stop:
        """Stopped before the horizon, at the last of `past`, with so much left to lose."""
        now, growing = past[-1], self.grew(past, past[-1].y)
        how = "rounding" if left > tolerated else "infimum" if growing else "flow"
        return _Stop(
            now.t, now.y, np.zeros(self.neurons.size, dtype=bool), rate, min(left, max(now.loss, 0.0)), how, growing
        )

    def at(self, y: FloatArray) -> tuple[float, FloatArray]:
        """Loss and gradient (N,)."""
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

    def sizes(self, y: FloatArray) -> FloatArray:
        """Norms that errors are relative to, (m,)."""
        return np.maximum(norms(y.reshape(self.shape)), self._floor)

    def scale(self, y: FloatArray) -> FloatArray:
        """The same for each entry, (N,)."""
        return np.repeat(self.sizes(y), self.shape[1])

    def march(self, y: FloatArray, rtol: float) -> Iterator[Accepted]:
        """Explicit steps; implicit ones once a step costs more evaluations than solving with the Hessian does."""
        many, before = max(_EXPENSIVE, _PER_PARAMETER * y.size), 0
        for step in self.explicit(y, rtol, _MAX_STEPS):
            yield step
            if self.curved and step.evaluations - before > many:
                if self.hessian(step.y1) is not None:
                    break
                self.curved = False
            before = step.evaluations
        units = self.shape[1] * (_IMPLICIT * rtol) ** 2

        def norm(error: FloatArray, y: FloatArray) -> float:
            parts = np.sum(error.reshape(self.shape) ** 2, axis=1) / (units * self.sizes(y) ** 2)
            return float(np.sqrt(parts.max()))

        yield from ndf.march(
            self.velocity,
            self.hessian,
            step.y1,
            norm=norm,
            s0=step.s1,
            first_step=step.s1 - step.s0,
            max_steps=_MAX_STEPS,
        )

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """Of the loss, (N, N), or None where the problem has none."""
        self.hessians += 1
        matrix = self.problem.hessian(y.reshape(self.shape), self.neurons)
        if matrix is not None:
            self.stiffness = float(np.linalg.norm(matrix))
        return matrix

    def explicit(
        self, y: FloatArray, rtol: float, max_steps: int, first_step: float | None = None
    ) -> Iterator[Accepted]:
        """Steps that know the gradient only."""
        return march(
            self.velocity,
            y,
            method="auto" if self.problem.smooth else "rk45",
            rtol=rtol,
            scale=self.scale,
            groups=np.repeat(np.arange(self.shape[0]), self.shape[1]),
            first_step=first_step,
            max_steps=max_steps,
        )

    def rate(self, step: Accepted, loss: float, past: list[_Mark]) -> float:
        """-dL/dt: the squared gradient times the part of it that the loss has really followed.

        That part is 1 but for two cases where the gradient hovers about what it should be: components that a long step
        damps only to its tolerance, and the velocity beside a kink on which the flow slides.
        """
        start, end = float(step.f0 @ step.f0), float(step.f1 @ step.f1)
        self.work += 0.5 * (step.s1 - step.s0) * (start + end)
        mark = past[max(len(past) - 2, 0)]
        followed = abs(mark.loss - loss) / max(self.work - mark.work, np.finfo(float).tiny)
        return end * min(followed, 1.0)

    def left(self, past: list[_Mark], ahead: float) -> float:
        """Loss that can still be lost in a time `ahead`, by the Hessian; inf where that cannot be told."""
        now = self.moment(past[-1])
        before = [mark for mark in past if 2 * mark.t <= past[-1].t]
        if now is None:
            return np.inf
        return remaining_loss.left(now, ahead, lambda: self.moment(before[-1]) if before else None)

    def escape(self, mark: _Mark, ahead: float) -> float:
        """Rate at which the flow leaves what looks settled within a time `ahead`; 0 when not, or it cannot be told."""
        now = self.moment(mark)
        return 0.0 if now is None else remaining_loss.escape(now, ahead)

    def moment(self, mark: _Mark) -> remaining_loss.Moment | None:
        """The flow at that time; None where there is no Hessian."""
        hessian = self.hessian(mark.y) if self.curved else None
        return None if hessian is None else remaining_loss.Moment(mark.t, mark.y, self.at(mark.y)[1], hessian)

    def smoothed(self, step: Accepted) -> FloatArray:
        """The state without the chatter of a slide, roughly."""
        return step.y1 if self.problem.smooth else 0.5 * (step.y0 + step.y1)

    def polish(self, step: Accepted, y: FloatArray, rtol: float) -> FloatArray:
        """Bring a state that chatters about kinks onto them, by a few steps at ever smaller tolerances.

        The chatter is as wide as a step, and a step on a kink as long as its tolerance allows.
        """
        length = step.s1 - step.s0
        for k in range(1, round(-0.5 * np.log10(rtol)) + 1):
            length *= 0.1
            try:
                for step in self.explicit(y, np.sqrt(rtol) * 0.1**k, _POLISH_STEPS, length):
                    y, length = step.y1, step.s1 - step.s0
            except integrators.OutOfSteps:
                continue
        return y

    def lost(self, step: Accepted) -> BoolArray:
        """Neurons whose norm has fallen below what counts as gone, and still falls, (m,)."""
        theta = step.y1.reshape(self.shape)
        return (norms(theta) < self.gone) & (np.sum(theta * step.f1.reshape(self.shape), axis=1) < 0)

    def grew(self, past: list[_Mark], y: FloatArray) -> bool:
        """Whether the largest norm has grown since the time was half of what it is."""
        earlier = norms(past[max(len(past) - 2, 0)].y.reshape(self.shape)).max()
        return bool(norms(y.reshape(self.shape)).max() > 1.001 * earlier)
