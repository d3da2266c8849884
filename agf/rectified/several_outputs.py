"""Where dormant (leaky) ReLU neurons of several outputs end, exactly: ascents stop short at kinks, where slopes jump.

Along a fixed direction b of the output weights the utility is that of one output, b . residual, whose flow is known
to its end (`ends`). There the best b is that of the output itself, and the two take turns, each raising the utility;
once the cone stays the same both are a singular pair of the matrix that the residual is there.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.networks.two_layer import TwoLayer
from agf.rectified.cones import Arrangement
from agf.rectified.ends import ends
from agf.rectified.walls import Walls
from agf.rounding import TIED

#: Turns at most. Cost: what takes more is marked; where cones stay, three or four are enough.
_TURNS = 50


def finished(problem: TwoLayer, residual: object, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Unit rows (m, P) at the ends of neurons from rows (m, P), their utilities, and whether these are exact, (m,)."""
    weights, leak = problem.weigh(residual), -float(problem.activation.left)
    found, d = Arrangement.of(problem.X), problem.X.shape[1]
    out, utility, exact = theta.copy(), np.zeros(theta.shape[0]), np.zeros(theta.shape[0], dtype=bool)
    for i, row in enumerate(theta):
        w, b = row[:d], row[d:] / np.linalg.norm(row[d:])
        pattern: IntArray | None = None
        for _ in range(_TURNS):
            start = np.append(w / np.linalg.norm(w), 1.0)[None] / np.sqrt(2)
            end = ends(Walls.of(problem.X, weights @ b, leak, found), start, np.zeros(1), leak)
            w, here = end.directions[0, :-1], end.patterns[0]
            if end.utilities[0] <= 0.0:  # none is active, or nothing pulls
                exact[i] = True
                break
            heights = problem.X @ w
            pull = np.maximum(heights, leak * heights) @ weights
            turned = pull / np.linalg.norm(pull)
            utility[i], moved, b = np.linalg.norm(pull) / np.sqrt(2), np.linalg.norm(turned - b), turned
            if moved <= TIED:
                exact[i] = True
                break
            if pattern is not None and (pattern == here).all():
                w, b = _pair(problem.X, weights, leak, here, w, b)
            pattern = here
        out[i] = np.concatenate([w / np.linalg.norm(w), b]) / np.sqrt(2)
    return out, utility, exact


def _pair(
    X: FloatArray, weights: FloatArray, leak: float, pattern: IntArray, w: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The leading singular pair within a cone, or what was given where it leaves the cone."""
    held = X[pattern == 0]
    across = np.eye(X.shape[1]) - np.linalg.pinv(held) @ held if held.size else np.eye(X.shape[1])
    slopes = np.where(pattern > 0, 1.0, np.where(pattern < 0, leak, 0.0))
    left, _, right = np.linalg.svd((slopes[:, None] * weights).T @ X @ across)
    sign = 1.0 if right[0] @ w >= 0 else -1.0
    inside = (np.sign(X @ right[0]) * sign == pattern)[pattern != 0].all()
    return (sign * right[0], sign * left[:, 0]) if inside else (w, b)
