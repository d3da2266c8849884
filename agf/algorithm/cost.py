"""The loss of the active neurons alone as a flow of their weights, and its slides where kinks are sharp."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from agf.algorithm.departures.collapse import below
from agf.algorithm.resolved.tolerances import LAYER
from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import Snapshot
from agf.contract.problem import Problem
from agf.coordinates.sharp_system import RTOL_SHARP, SharpSystem
from agf.coordinates.weight_system import Weights
from agf.init import Init
from agf.integrators import STIFF_STEPS
from agf.numerics.ndf import History
from agf.sphere import norms, polar
from agf.stopping.driver import End, Moment, Saved, Why
from agf.stopping.horizon import Course
from agf.stopping.methods import LARGEST, PER_ENTRY
from agf.stopping.rules import Memory, Tolerance

#: Norm over the one at the start of the phase below which a neuron no longer counts in the error test. Cost: it has
#: collapsed before, and what it adds to the loss is the square, 1e-6.
_NEGLIGIBLE = 1e-3
#: Factor over a doubling of the age from which on the largest norm grows. Derived: it lies between the two that are to
#: be told apart, 1 + 1e-3 at most by the tolerance of a path, and 1.014 by the slowest drift that is told, t^0.02
#: (`rules.Drifting`).
_GROWS = 1.001


Wait = Callable[[FloatArray, IntArray, float], float]


class Cost(Weights):
    """Gradient flow of the active neurons alone, whose errors are relative to norms that still count.

    Parameters
    ----------
    problem : Problem
        What is trained.
    neurons : int ndarray, shape (m,)
        Which are active.
    theta : float ndarray, shape (m, P)
        Where they start.
    gone : float ndarray, shape (m,)
        Norms below which they have collapsed.
    """

    def __init__(self, problem: Problem, neurons: IntArray, theta: FloatArray, gone: FloatArray) -> None:
        super().__init__(problem, neurons)
        self.theta, self.gone = theta, gone
        self.stiffness = 0.0  # size of the last Hessian
        self.curved = not problem.cornered  # whether there may be one
        self.chatters = not problem.smooth  # where kinks are jumps that nothing here knows of
        self.coarsest = np.inf  # tolerance of a step
        rho = norms(theta)
        self._floor = _NEGLIGIBLE * np.maximum(rho, _NEGLIGIBLE * rho.max(initial=0.0))

    def start(self) -> FloatArray:
        return self.theta.flatten()

    def scale(self, y: FloatArray) -> FloatArray:
        """Norm of the neuron, as long as it counts, for each entry, (N,)."""
        return np.repeat(np.maximum(norms(y.reshape(self.shape)), self._floor), self.shape[1])

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """Of the loss, (N, N), or None where the problem has none."""
        matrix = super().hessian(y) if self.curved else None
        if matrix is None:
            self.curved = False
        else:
            self.stiffness = float(np.linalg.norm(matrix))
        return matrix

    def snapshot(self, y: FloatArray) -> Snapshot:
        directions, log_norms = polar(y.reshape(self.shape))
        return Snapshot(log_norms, directions)

    def asking(self, horizon: Wait) -> Callable[..., float]:
        """What a `Course` asks: the horizon, at the state without the chatter of a slide, roughly."""

        def ask(now: Moment, enough: float = np.inf) -> float:
            y = 0.5 * (now.step.y0 + now.step.y1) if now.step is not None and self.chatters else now.y
            return horizon(y.reshape(self.shape), self.neurons, enough)

        return ask

    def lost(self, y: FloatArray, now: Moment) -> FloatArray:
        """Positive for neurons whose norm has fallen below what counts as gone, and still falls, (m,)."""
        if now.step is None:
            return np.full(self.gone.size, -1.0)
        return below(y.reshape(self.shape), now.step.f1.reshape(self.shape), self.gone)

    def grew(self, course: Course, now: Moment) -> bool:
        """Whether the largest norm has grown since the time was half of what it is, and still does at that pace."""
        then, there = (norms(y.reshape(self.shape)).max() for y in (course.before.y, now.y))
        if now.step is None or not there > _GROWS * then:
            return bool(there > _GROWS * then)
        first, last = (norms(y.reshape(self.shape)).max() for y in (now.step.y0, now.step.y1))
        lately = np.log(last / first) / (now.step.s1 - now.step.s0)
        return bool(lately * now.t * np.log(2.0) > np.log(_GROWS))

    def turned(self, end: End, saved: Saved) -> Saved | None:
        """What the flow goes on from by other steps, None where this is an end; `saved` : the last step."""
        if end.why is not Why.TURNED:
            return None
        self.coarsest = LAYER * self.problem.kink
        return saved


class SlidingCost(Cost):
    """The same where kinks are sharp: neurons slide along those that hold them (`SharpSystem`).

    Between kinks, and along those it slides on, the flow is smooth: where stability limits explicit steps, implicit
    ones take over until a kink is passed or lets go.
    """

    def __init__(self, problem: Problem, neurons: IntArray, theta: FloatArray, gone: FloatArray) -> None:
        super().__init__(problem, neurons, theta, gone)
        self.curved, self.chatters, self.coarsest = True, False, RTOL_SHARP
        self._sharp = SharpSystem(problem, Init.from_params(self._whole(theta)))
        self._pace = 0.0  # length of the first implicit step: shorter ones meet a kink

    def _whole(self, theta: FloatArray) -> FloatArray:
        """Weights (..., H, P) of the whole network, of which only these neurons (..., m, P) are there."""
        whole = np.zeros((*theta.shape[:-2], self.problem.width, theta.shape[-1]))
        whole[..., self.neurons, :] = theta
        return whole

    def _along(self, rows: FloatArray) -> FloatArray:
        """Rows (..., m, P) without what leads off the kinks."""
        return self._sharp.along(self._whole(rows))[..., self.neurons, :]

    def _polar(self, y: FloatArray) -> FloatArray:
        return self._sharp.at(self._whole(y.reshape(self.shape)))

    def gradient(self, y: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = super().gradient(y)
        return loss, self._along(gradient)

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """In this cone, along the kinks."""
        matrix = super().hessian(y)
        return None if matrix is None else self._projected(self._projected(matrix).T)  # rows, then columns

    def _projected(self, rows: FloatArray) -> FloatArray:
        return self._along(rows.reshape(-1, *self.shape)).reshape(rows.shape)

    def retract(self, y: FloatArray) -> FloatArray:
        """Neurons that met a kink which holds them put onto it; others let go."""
        before = self._polar(y)
        after = self._sharp.retract(before)
        return y if after is before else self._sharp.params(after)[self.neurons].ravel()

    def turns(self, now: Moment) -> bool:
        """Whether steps of the other kind serve better from here on."""
        step = now.step
        if step is None:
            return False
        if isinstance(step.memory, History):
            self._pace = self._pace or step.s1 - step.s0
            return step.memory.step < self._pace or self._sharp.elsewhere(self._polar(now.y))
        return now.y.size <= LARGEST and step.memory.stiff >= max(STIFF_STEPS[0], PER_ENTRY * now.y.size)

    def turned(self, end: End, saved: Saved) -> Saved | None:
        implicit = isinstance(saved.method, History)
        if not (end.why is Why.TURNED or (end.why is Why.STALLED and implicit)):
            return None
        if implicit:
            return replace(saved, y=self.retract(saved.y), method=None)
        self._pace = 0.0
        return replace(saved, method=History(saved.method.step))


@dataclass(frozen=True)
class Thrown:
    """Steps throw neurons across the rounded kinks in which they rest, and shorter ones are needed.

    Told at the doublings of the age: the loss has not fallen by what counts, and its gradient says that it has. Steps
    as long as the accuracy of the path allows are cheaper elsewhere.

    Attributes
    ----------
    course : Course
        Of the run.
    tolerated : Tolerance
        Loss that may be left.
    """

    course: Course
    tolerated: Tolerance

    def init(self, now: Moment) -> Memory:
        """Nothing."""
        return ()

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether they do."""
        self.course.until(now)
        cost, least = now.system.system, self.tolerated(now.loss)
        if not self.course.doubled or not isinstance(cost, Cost) or cost.problem.kink == 0.0:
            return memory, None
        thrown = self.course.before.loss - now.loss <= least < self.course.said and np.isinf(cost.coarsest)
        return memory, End(Why.TURNED, now) if thrown else None


class Turns:
    """A `SlidingCost` goes on by steps of the other kind."""

    def init(self, now: Moment) -> Memory:
        """Nothing."""
        return ()

    def look(self, now: Moment, memory: Memory) -> tuple[Memory, End | None]:
        """Whether they serve better."""
        cost = now.system.system
        turns = isinstance(cost, SlidingCost) and cost.turns(now)
        return memory, End(Why.TURNED, now) if turns else None
