"""Slopes of a loss along the steps that were taken, where solutions never move apart.

A velocity inside a step is off by what the step errs by, times the rate of its stiffest mode, and a curve drawn with
slopes made of velocities has plateaus of its own. What is drawn is the loss of the interpolated state: so its slope is
the gradient there along the way that the interpolation goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.integrators import Accepted
from agf.numerics.collocation import Polynomials
from agf.stopping.driver import Counted

#: Distance of the states between which the slope of a step is measured, over its length. Derived: the square of it and
#: rounding over it are both below 1e-9.
NEAR = 1e-5
#: Steps looked at together, at most, and the memory that they take, in bytes. Cost: of calls, against memory.
_STEPS, _BYTES = 64, 2**24


def enough(steps: int, y: FloatArray) -> bool:
    """Whether so many steps, of states like y (N,), wait that they should be looked at."""
    return steps >= _STEPS or steps * 8 * y.nbytes > _BYTES


class Way:
    """Steps that are looked at together, which are taken apart once.

    Parameters
    ----------
    steps : sequence of Accepted
        k steps, at least one.
    """

    def __init__(self, steps: Sequence[Accepted]) -> None:
        #: Ends of each, (k,).
        self.first, self.last = np.array([(step.s0, step.s1) for step in steps]).T
        kinds = [type(step) for step in steps]
        #: Where parts of one class begin, and their states.
        self._starts = [0, *(k for k in range(1, len(kinds)) if kinds[k] is not kinds[k - 1])]
        self._parts = [kinds[a].many(steps[a:b]) for a, b in pairwise([*self._starts, len(kinds)])]

    def states(self, which: IntArray, s: FloatArray) -> FloatArray:
        """States (m, N) at their own times (m,) of the steps of these indices."""
        if len(self._parts) == 1:
            return self._parts[0](which, s)
        part = np.searchsorted(self._starts, which, side="right") - 1
        rows = [np.flatnonzero(part == k) for k in range(len(self._parts))]
        found = [
            states(which[some] - first, s[some])
            for states, first, some in zip(self._parts, self._starts, rows, strict=True)
            if some.size
        ]
        return np.concatenate(found)[np.argsort(np.concatenate(rows))]

    def along(
        self, system: Counted, which: IntArray, s: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """What is interpolated at their own times (m,) of the steps of these indices.

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
        if isinstance(self._parts[0], Polynomials):  # then all are
            ys, ways = self._parts[0].settled(which, s, system.linearized)
        else:
            first, last = self.first[which], self.last[which]
            near = NEAR * (last - first)
            before, after = np.maximum(s - near, first), np.minimum(s + near, last)
            ys, behind, ahead = np.split(self.states(np.tile(which, 3), np.concatenate([s, before, after])), 3)
            ways = (ahead - behind) / (after - before)[:, None]
        gradients = system.gradients(ys)
        losses = system.system.losses_and_rates(ys)[0]  # of the same residuals
        return ys, losses, gradients, np.minimum(np.sum(gradients * ways, axis=1), 0.0)
