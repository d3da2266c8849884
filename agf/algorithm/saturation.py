"""When a drop is half-way by its own loss: a softmax saturates later than its quadratic part.

The half-drop time of an activation is that of a quadratic loss: it needs the utility and the self-interaction alone.
For another loss the newcomers are moved along the ray on which they have grown, all others held, which gives the true
time from when they are small to the middle of the drop; what it differs by does not hang on the scale of the weights.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem

#: Scale of the newcomers, over what they become, at which they are small, and losses along their ray. Cost: of these;
#: what is left out errs by the square of the scale, and so do the steps between.
_SMALL, _NODES = 1e-2, 60


def later(problem: Problem, theta: FloatArray, active: IntArray, new: IntArray, middle: float) -> float:
    """Flow time by which the drop is half-way later than a quadratic loss would be.

    0 for such a loss, at other degrees, and beside an output bias, which does not hold still.

    With theta = s theta_1 for the newcomers, s' = g / |theta_1|^2, g = -dL/ds. The quadratic part of the loss has
    g = 2 A s - 4 B s^3 and is half-way at s^2 = (1 - 1 / sqrt 2) A / 2 B.

    Parameters
    ----------
    problem : Problem
        What is trained.
    theta : float ndarray, shape (k, P)
        Active neurons after the drop.
    active : int ndarray, shape (k,)
        Which they are.
    new : int ndarray
        Those that have made it.
    middle : float
        Loss half-way down.
    """
    if problem.quadratic_loss or problem.degree != 2 or problem.permanent:
        return 0.0
    rows = np.isin(active, new)
    if not rows.any():
        return 0.0
    scales = np.geomspace(_SMALL, 1.0, _NODES)
    losses, pulls = np.array([_along(problem, theta, active, rows, s) for s in scales]).T
    half = int(np.argmax(losses <= middle))
    slopes = pulls / scales
    second = (slopes[0] - slopes[1]) / (4 * (scales[1] ** 2 - scales[0] ** 2))
    first = 0.5 * slopes[0] + 2 * second * scales[0] ** 2
    if half == 0 or second <= 0 or (pulls[: half + 1] <= 0).any():
        return 0.0
    size, logs = float(np.sum(theta[rows] ** 2)), np.log(scales)
    end = np.interp(middle, losses[[half, half - 1]], logs[[half, half - 1]])
    speeds = size * scales / pulls  # flow time per log s
    path = np.append(logs[:half], end)
    spent = np.trapezoid(np.interp(path, logs, speeds), path)
    quadratic = size / (4 * first) * (np.log(np.sqrt(2.0) - 1.0) - np.log(2 * second * scales[0] ** 2 / first))
    return float(spent - quadratic)


def _along(problem: Problem, theta: FloatArray, active: IntArray, rows: BoolArray, scale: float) -> tuple[float, float]:
    """L and -dL/ds with the newcomers at this scale."""
    loss, gradient = problem.loss_grad(np.where(rows[:, None], scale * theta, theta), active)
    return float(loss), -float(np.sum(gradient[rows] * theta[rows]))
