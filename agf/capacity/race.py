"""A gradient flow with steps as long as the question allows, in log norms, to where it is decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from agf.arrays import FloatArray
from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.coordinates.choice import flow_system
from agf.coordinates.polar_system import PolarSystem
from agf.init import Init
from agf.integrators import LOW
from agf.rectified.prospects import prospects
from agf.rounding import SUM
from agf.stopping.driver import Moment, Stop, Why, drive
from agf.stopping.ending import SETTLE, Ending
from agf.stopping.methods import Explicit
from agf.stopping.rules import Budget, Certified, Quiet, Settled, Timeless, Tolerance

#: Without a fall to where it is decided, it is over when the loss falls by less than this fraction of itself in another
#: time as long, and nothing grows. Cost: norms still move a little then, and hardly pass one another.
_STILL = 0.01
#: Error over the largest change of a result in a coarser race. Derived: where that is at least half as wrong again,
#: |coarser - this| >= .5 |error of this|.
SAFE = 2.0
#: Tolerance from which on steps are of low order. Derived: a step of order p costs 6 gradients for p = 5 and 3 for
#: p = 3, and their number is in proportion to tolerance^(-1 / p): equal at 2^(-7.5).
_LOW = 2.0**-7.5


@dataclass(frozen=True)
class Race:
    """Where one run ended.

    time : flow time.  directions, log_norms : (H, P), (H,) then.  loss : likewise.  gradients : it took.
    unfinished : "" or why it was not over.
    """

    time: float
    directions: FloatArray
    log_norms: FloatArray
    loss: float
    gradients: int
    unfinished: str


def race(problem: Problem, init: Init, rtol: float, until: float | None, decided: tuple[float, float], most: int,
         each: Callable[[float, Moment], None] | None = None) -> Race:  # fmt: skip
    """One run, of so many gradients at most.

    Where steps fail at this tolerance what there is will do.

    until : flow time, or None for when it is over.
    decided : fraction of a loss, and that loss, at which it is over whatever still grows.
    each : called after every step with the unit of its time, and its moment.
    """
    # where a step crosses many kinks, holding neurons on each that they slide along costs more than it is worth
    system: FlowSystem = flow_system(problem, init) if problem.kink_normals() is None else PolarSystem(problem, init)
    unit = float(np.exp(system.log_time_unit))
    s_end = np.inf if until is None else until / unit
    stops: list[Stop] = [Timeless(), Budget(most)]
    if until is None:
        ending = Ending.of(problem, init, system, SETTLE)
        if (known := prospects(problem, init)) is not None:
            ending = replace(ending, prospects=lambda now: known(*_neurons(now)))
        still = Tolerance(_STILL, decided[0] * decided[1])
        over: list[Stop] = [Settled(still, ending.leaving, ending.first), Quiet(still, ending.small, ending.unstable)]
        stops = [Certified(Tolerance(*decided)), *over, *ending.rules(system.smooth), *stops]
    method = "rk45" if not system.smooth else LOW if rtol >= _LOW else "auto"
    seen = None if each is None else lambda now, _: each(unit, now)
    end = drive(system, Explicit(rtol, method), stops, system.start(), s_end=s_end, each=seen)
    unfinished = f"it was stopped after {end.at.work.gradients} gradients." if end.why is Why.BUDGET else ""
    shot = system.snapshot(end.at.y)
    return Race(end.at.t * unit, shot.directions, shot.log_norms, end.at.loss, end.at.work.gradients, unfinished)


def _neurons(now: Moment) -> tuple[FloatArray, FloatArray]:
    """Unit rows and log norms at a moment."""
    shot = now.system.system.snapshot(now.y)
    return shot.directions, shot.log_norms


def loss_without_neurons(problem: Problem) -> float:
    """Loss of the zero function, or of the best output bias, which is no part of the race; 0 where it is rounding."""
    rows = np.array(problem.permanent, dtype=np.int64)
    zero, gradient = problem.loss_grad(np.zeros((rows.size, problem.n_params)), rows)
    if not rows.size:
        return float(zero)
    from scipy.optimize import minimize

    def objective(b: FloatArray) -> tuple[float, FloatArray]:
        loss, slope = problem.loss_grad(b.reshape(gradient.shape), rows)
        return loss / zero, slope.ravel() / zero

    best = float(minimize(objective, np.zeros(gradient.size), jac=True, method="BFGS").fun) if zero > 0 else 0.0
    return float(zero) * best if best > SUM else 0.0
