"""Slopes of a loss along the steps that were taken, where solutions never move apart.

A velocity inside a step is off by what the step errs by, times the rate of its stiffest mode, and a curve drawn with
slopes made of velocities has plateaus of its own. What is drawn is the loss of the interpolated state: so its slope is
the gradient there along the way that the interpolation goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.integrators import Accepted
from agf.numerics.collocation import settled
from agf.stopping.drive import Counted

#: Distance of the states between which the slope of a step is measured, over its length. Derived: the square of it and
#: rounding over it are both below 1e-9.
NEAR = 1e-5
#: Steps looked at together, at most, and the memory that they take, in bytes. Cost: of calls, against memory.
_STEPS, _BYTES = 64, 2**24


def enough(steps: int, y: FloatArray) -> bool:
    """Whether so many steps, of states like y (N,), wait that they should be looked at."""
    return steps >= _STEPS or steps * 8 * y.nbytes > _BYTES


def inside(steps: Sequence[Accepted], which: IntArray, s: FloatArray) -> FloatArray:
    """States (m, N) at their own times (m,) of the steps of these indices, in order."""
    kinds = [type(step) for step in steps]
    if len(set(kinds)) == 1:
        return kinds[0].many(steps, which, s)
    parts = []
    for kind, some in groupby(range(which.size), lambda k: kinds[which[k]]):
        rows = list(some)
        parts.append(kind.many(steps, which[rows], s[rows]))
    return np.concatenate(parts)


def along(
    system: Counted, steps: Sequence[Accepted], which: IntArray, s: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What is interpolated at their own times (m,) of the steps of these indices, in order.

    Returns
    -------
    states : ndarray, shape (m, N)
        Without what fast modes are off between the nodes.
    losses : ndarray, shape (m,)
        There.
    gradients : ndarray, shape (m, N)
        dL/dy.
    slopes : ndarray, shape (m,)
        dL/ds, not above 0.
    """
    first, last = np.array([(step.s0, step.s1) for step in steps])[which].T
    near = NEAR * (last - first)
    before, after = np.maximum(s - near, first), np.minimum(s + near, last)
    ys, behind, ahead = np.split(inside(steps, np.tile(which, 3), np.concatenate([s, before, after])), 3)
    ys = settled(steps, which, s, ys, system.linearized)
    gradients = system.gradients(ys)
    losses = system.system.losses_and_rates(ys)[0]  # of the same residuals
    return ys, losses, gradients, slopes(gradients, behind, ahead, after - before)


def slopes(gradient: FloatArray, behind: FloatArray, ahead: FloatArray, span: FloatArray) -> FloatArray:
    """dL/ds (m,), not above 0, of gradients (m, N) on ways from `behind` to `ahead` (m, N), taken in `span` (m,)."""
    return np.minimum(np.sum(gradient * (ahead - behind), axis=1) / span, 0.0)
