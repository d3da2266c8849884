"""Steps that neurons have taken: where they were while they waited for another, which is asked for afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.integrators import interpolated, place
from agf.sphere import lengths

#: Numbers of past steps that are kept, for all neurons. Cost: memory, 32 MB; where neurons are more, their states
#: inside former steps are found by steps anew.
_KEPT = 1 << 22


class PastSteps:
    """Steps of neurons of P parameters, as long as there is room."""

    def __init__(self, n_params: int) -> None:
        self.p = n_params
        self._steps: list[tuple[IntArray, FloatArray]] = []  # rows (k,) and a step each, (5, k, P + 2)
        self._room = _KEPT

    def keep(self, rows: IntArray, steps: Sequence[FloatArray]) -> None:
        """Remember steps of `rows` (k,): both ends, velocities there times length, bulge, (k, P + 2) each."""
        self._room -= 5 * steps[0].size
        if self._room >= 0:
            self._steps.append((rows, np.array(steps)))

    def at(self, rows: IntArray, time: float) -> tuple[IntArray, FloatArray]:
        """Those of `rows` whose steps at this time are remembered, and their states there, (k, P + 2)."""
        found, states = [np.zeros(0, dtype=np.int64)], [np.zeros((0, self.p + 2))]
        for taken, steps in self._steps:
            inside = np.flatnonzero(np.isin(taken, rows) & (steps[0, :, -1] <= time) & (time < steps[1, :, -1]))
            if inside.size:
                step = steps[:, inside]
                found.append(taken[inside])
                states.append(within(place(time, *step[..., -1])[:, None], list(step), self.p))
        return np.concatenate(found), np.concatenate(states)


def within(sigma: FloatArray, step: Sequence[FloatArray], n_params: int) -> FloatArray:
    """States (k, P + 2) at places sigma (k, 1) of steps as `PastSteps` keeps them, of unit rows."""
    out = interpolated(sigma, *step)
    out[:, :n_params] /= lengths(out[:, :n_params])[:, None]
    return out
