"""When groups had done half of what they take off the loss: in a run, or in coarse races from a moment on.

Every neuron takes off the integral of -grad_i L . dtheta_i, since dL is the sum of these. (Under gradient flow that is
|grad_i L|^2 dt; but beside a kink along which a neuron slides its gradient has a part across it that moves nothing.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.capacity.race import Race, loss_without_neurons, race
from agf.contract.admission import refuse_nonfinite
from agf.contract.problem import Problem
from agf.init import Init
from agf.results.trajectory import Trajectory
from agf.sphere import cartesian
from agf.stopping.driver import Moment

#: Error of one step of the race relative to each neuron, at first. Cost: a half time is asked for to a percent.
RTOL = 1e-3
#: Tolerance of the second race, by which errors are told (`SAFE`), over that of the first; and of races over that of
#: those which are run after them. Cost: the second takes a third of what the first does, or two; a coarser one tells
#: larger errors.
COARSER = 10.0
#: Relative error of a half time above which races are run again, finer. Cost: of a race each; a half time is asked for
#: to a percent.
SURE = 0.01
#: The race is over when the loss has fallen to this fraction of that without neurons. Cost: who falls after that
#: takes off less than a hundredth of it.
_DECIDED = 0.01
#: Gradients of a race. Limit: groups that are not past their drop by then have no half time, and what is left of the
#: loss is part of the error of the others; those of the examples take a few hundred, of noisy labels some thousands.
_MOST = 10_000
#: Parts of a step in which falls are told apart. Cost: a gradient each; a step changes norms by factors, and with one
#: part half times are off by 3 %.
_PARTS = 4


@dataclass
class Falls:
    """Loss that every neuron took off, from moment to moment.

    times : flow times.  losses : then.  works : (H,) -grad_i L . dtheta_i from each to the next, by the mean of both.
    """

    problem: Problem
    times: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    works: list[FloatArray] = field(default_factory=list)
    _last: tuple[FloatArray, FloatArray] | None = None

    def see(self, time: float, theta: FloatArray, loss: float | None = None) -> None:
        """One moment more; theta (H, P). loss : where it is known better than from theta."""
        found, gradient = self.problem.loss_grad(theta, np.arange(self.problem.width))
        refuse_nonfinite(self.problem, "loss_grad", gradient)
        self.times.append(time)
        self.losses.append(float(found) if loss is None else loss)
        if self._last is not None:
            before, slope = self._last
            self.works.append(-0.5 * np.sum((slope + gradient) * (theta - before), axis=1))
        self._last = theta, gradient

    def taken(self) -> FloatArray:
        """(k, H) between the moments: the works, with what the loss fell by beyond their sum in proportion to each."""
        works = np.array(self.works).reshape(-1, self.problem.width)
        beyond = -np.diff(self.losses)[:, None] - works.sum(axis=1, keepdims=True)
        sizes = np.abs(works).sum(axis=1, keepdims=True)
        return np.asarray(works + beyond * np.abs(works) / np.where(sizes > 0, sizes, 1.0))

    def gone(self, members: IntArray) -> FloatArray:
        """What these neurons had taken off at every moment, 0 at first."""
        return np.append(0.0, np.cumsum(self.taken()[:, members].sum(axis=1)))

    def when(self, gone: FloatArray, amount: float) -> float:
        """The time at which that comes to an amount; NaN where it does not."""
        k, share = _place(gone, amount)
        return float(self.times[k] + share * (self.times[k + 1] - self.times[k])) if k >= 0 else np.nan


def falls(problem: Problem, run: Trajectory, k: int) -> FloatArray:
    """(k, H) loss that every neuron took off between the snapshots up to number k."""
    seen = Falls(problem)
    times = run.snapshot_times[: k + 1]
    for j, (time, loss) in enumerate(zip(times, run.loss_at(times), strict=True)):
        seen.see(float(time), run.params(j), float(loss))
    return seen.taken()


def halfway(taken: FloatArray) -> tuple[int, float]:
    """The interval in which half of what was taken (k,) between k + 1 moments was gone, and how far in it; (-1, nan)
    where nothing was."""
    so_far = np.append(0.0, np.cumsum(taken))
    return _place(so_far, 0.5 * so_far[-1])


def _place(so_far: FloatArray, amount: float) -> tuple[int, float]:
    """The interval between moments in which what is gone by then (k + 1,), 0 at first, comes to this amount, and how
    far in it; (-1, nan) where none does."""
    first = int(np.argmax(so_far >= amount))
    if first == 0:
        return -1, np.nan
    return first - 1, float((amount - so_far[first - 1]) / (so_far[first] - so_far[first - 1]))


@dataclass(frozen=True)
class Foresight:
    """A race from weights on, to where it is over, and who takes off what in it and in a coarser one to that time."""

    end: Race
    fine: Falls
    coarse: Falls

    def half_time(self, members: IntArray, before: float) -> tuple[float, float, float, float]:
        """When these have taken off half of everything, by how much the coarser race changes that or when a quarter or
        three were gone, how much later it would be if they took off all that a race that was cut has left, and what
        they take. NaN where it is not in it.

        before : what they took off until the race.
        """
        gone, other = self.fine.gone(members), self.coarse.gone(members)
        left = self.end.loss if self.end.unfinished else 0.0
        wholes = before + np.array([gone[-1], gone[-1] if left else other[-1]])
        times, coarse = np.array([
            [self.fine.when(gone, part * wholes[0] - before), self.coarse.when(other, part * wholes[1] - before)]
            for part in (0.25, 0.5, 0.75)  # two curves may cross at one of them
        ]).T  # fmt: skip
        changes = np.abs(coarse - times)
        change = np.nanmax(changes) if np.isfinite(changes[1]) else np.nan
        late = self.fine.when(gone, 0.5 * (wholes[0] + left) - before) - times[1]
        return float(times[1]), float(change), late, float(gone[-1])


def foresee(problem: Problem, start: Init, until: float | None, rtol: float) -> Foresight:
    """The flow from weights on, up to a flow time or to where it is over; rtol : error of a step."""
    end, fine = _raced(problem, start, rtol, until)
    return Foresight(end, fine, _raced(problem, start, COARSER * rtol, end.time)[1])


def _raced(problem: Problem, start: Init, rtol: float, until: float | None) -> tuple[Race, Falls]:
    seen = Falls(problem)
    seen.see(0.0, start.params())

    def each(unit: float, now: Moment) -> None:
        assert now.step is not None
        for local in np.linspace(now.step.s0, now.step.s1, _PARTS + 1)[1:]:
            shot = now.system.system.snapshot(now.step.dense(float(local)))
            seen.see(unit * (now.origin + float(local)), cartesian(shot.directions, shot.log_norms))

    decided = _DECIDED, loss_without_neurons(problem)
    return race(problem, start, rtol, until, decided, _MOST, each), seen
