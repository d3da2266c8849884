"""What is active for ever, such as an output bias, moves before any neuron does.

[AGF] has no such part. It has nothing to align and no threshold: it moves at once, by cost minimization alone, and
makes a drop of its own at time 0.
"""

from __future__ import annotations

import numpy as np

from agf.clock import Clock
from agf.contract.problem import Problem
from agf.numerics.derivatives import LENGTH, central
from agf.records.state import Activation, State


def opening(problem: Problem, clock: Clock, state: State, start_level: float, rtol: float) -> Activation | None:
    """The activation at time 0 of what is active for ever; None later, or where there is nothing to gain.

    It relaxes at the curvature c of the loss along its gradient: half of what it gains is gained at ln 2 / 2c.
    """
    who = np.array(problem.permanent, dtype=np.int64)
    if not who.size or state.time > 0 or state.level < start_level:
        return None
    theta = state.params[who]
    loss, gradient = problem.loss_grad(theta, who)
    size = float(np.linalg.norm(gradient))
    if size == 0.0:
        return None
    step = LENGTH * float(np.linalg.norm(theta)) / size
    change = central(lambda at: problem.loss_grad(at, who)[1], theta, step * gradient)
    curvature = float(np.sum(change * gradient)) / (step * size**2)
    if not curvature > 0 or 0.5 * size**2 / curvature <= rtol * loss:
        return None
    half = float(clock.accelerated(np.log(2.0) / (2.0 * curvature)))
    return Activation(0.0, half, who, np.full(who.size, 2.0 * curvature / problem.degree), None)
