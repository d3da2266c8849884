"""Slopes of a loss along the steps that were taken, where solutions never move apart.

A velocity inside a step is off by what the step errs by, times the rate of its stiffest mode, and a curve drawn with
slopes made of velocities has plateaus of its own. What is drawn is the loss of the interpolated state: so its slope is
the gradient there along the way that the interpolation goes.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray

#: Distance of the states between which the slope of a step is measured, over its length. Derived: the square of it and
#: rounding over it are both below 1e-9.
NEAR = 1e-5


def slopes(gradient: FloatArray, behind: FloatArray, ahead: FloatArray, span: FloatArray) -> FloatArray:
    """dL/ds (m,), not above 0, of gradients (m, N) on ways from `behind` to `ahead` (m, N), taken in `span` (m,)."""
    return np.minimum(np.sum(gradient * (ahead - behind), axis=1) / span, 0.0)
