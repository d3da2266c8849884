"""When groups had done half of what they take off the loss: in a run, or in a coarse race from a moment on.

Every neuron takes off the integral of |grad_i L|^2, since dL/dt = -sum_i |grad_i L|^2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agf.arrays import FloatArray
from agf.capacity.race import Race, loss_without_neurons, race
from agf.contract.admission import refuse_nonfinite
from agf.contract.problem import Problem
from agf.init import Init
from agf.results.trajectory import Trajectory
from agf.sphere import cartesian
from agf.stopping.drive import Moment

#: Error of one step of the race relative to each neuron: a cost, since a half time is asked for to a percent.
RTOL = 1e-3
#: The race is over when the loss has fallen to this fraction of that without neurons: a cost, since who falls after
#: that takes off less than a hundredth of it.
_DECIDED = 0.01
#: Gradients of the race. Limit: groups that are not past their drop by then have no half time; those of the examples
#: take a few hundred.
_MOST = 3_000
#: Parts of a step in which falls are told apart. Cost: a gradient each; a step changes norms by factors, and with one
#: part half times are off by 3 %.
_PARTS = 4


@dataclass
class Falls:
    """Loss that every neuron took off, from moment to moment.

    times : flow times.  losses : then.  squares : (H,) |grad_i L|^2 then.
    """

    problem: Problem
    times: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    squares: list[FloatArray] = field(default_factory=list)

    def see(self, time: float, theta: FloatArray, loss: float | None = None) -> None:
        """One moment more; theta (H, P). loss : where it is known better than from theta."""
        found, gradient = self.problem.loss_grad(theta, np.arange(self.problem.width))
        refuse_nonfinite(self.problem, "loss_grad", gradient)
        self.times.append(time)
        self.losses.append(float(found) if loss is None else loss)
        self.squares.append(np.sum(gradient**2, axis=1))

    def taken(self) -> FloatArray:
        """(k, H) between the moments: what the loss fell by in shares of the squares there."""
        squares = np.array(self.squares)
        total = squares.sum(axis=1, keepdims=True)
        shares = squares / np.where(total > 0, total, 1.0)
        return np.asarray(-np.diff(self.losses)[:, None] * 0.5 * (shares[1:] + shares[:-1]))


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
    first = int(np.argmax(so_far >= 0.5 * so_far[-1]))
    if first == 0:
        return -1, np.nan
    return first - 1, float((0.5 * so_far[-1] - so_far[first - 1]) / (so_far[first] - so_far[first - 1]))


def raced(problem: Problem, start: Init, until: float | None) -> tuple[Race, Falls]:
    """The flow from weights on, up to a flow time or to where it is over, and who takes off what in it."""
    seen = Falls(problem)
    seen.see(0.0, start.params())

    def each(unit: float, now: Moment) -> None:
        assert now.step is not None
        for local in np.linspace(now.step.s0, now.step.s1, _PARTS + 1)[1:]:
            shot = now.system.system.snapshot(now.step.dense(float(local)))
            seen.see(unit * (now.origin + float(local)), cartesian(shot.directions, shot.log_norms))

    decided = _DECIDED, loss_without_neurons(problem)
    return race(problem, start, RTOL, until, decided, _MOST, each), seen
