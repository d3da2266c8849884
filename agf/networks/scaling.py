"""The leading order of a neuron at the origin, read off by scaling its weights down."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agf.arrays import FloatArray
from agf.errors import ProblemError, explain

#: Scales at which the leading order is looked for: powers of two, so that scaling the weights is exact.
_SCALES = 2.0 ** -np.arange(0, 101, 4)
#: Largest relative change of f(s theta) / s^kappa between s and s/2 that counts as a limit. Limit: a neuron is refused
#: beyond; one with a correction of relative order s has it at s = 1e-5, at 1e-3 powers that differ by as much from a
#: whole number would pass, at 1e-8 modules that compute in float32 would not.
_LIMIT_RTOL = 1e-5


@dataclass(frozen=True)
class Scaling:
    """Leading order of a neuron at the origin: f(s theta) / s^degree has its limit, within `error`, at `scale`.

    Parameters
    ----------
    homogeneous : bool
        f(s theta) = s^degree f(theta) at every s, so that scale is 1 and nothing is approximated.
    """

    degree: int
    scale: float
    error: float
    homogeneous: bool


def measure_scaling(output: Callable[[float], FloatArray], where: str) -> Scaling:
    """Leading order of `output`, which gives f(s theta) at any s, flattened. Raises ProblemError without one."""
    sizes = [output(scale) for scale in (*_SCALES, _SCALES[-1] / 2, 3.0)]
    found = _leading_order(sizes)
    if found is None:
        raise ProblemError(
            explain(
                "f(s theta) follows no whole power of s, from s^2 on, as s -> 0.",
                where=where,
                found=", ".join(f"size {size(sizes[k]):.3g} at s = {_SCALES[k]:.3g}" for k in (0, 5, 10)),
                expected="f(s theta) ~ s^kappa with kappa >= 2, for example a * tanh(w @ x)",
                remedy="Likely causes: a bias or constant inside the activation, a single layer of weights, or "
                "digits lost by subtracting nearly equal numbers.",
            )
        )
    return found


def size(values: FloatArray) -> float:
    """Largest absolute value, 0 of none."""
    return float(np.max(np.abs(values), initial=0.0))


def _leading_order(values: list[FloatArray]) -> Scaling | None:
    """The power and the limit in f(s theta) at `_SCALES`, at half the last of them, and at s = 3; None without one."""
    *ladder, half, triple = values
    small, smaller = size(ladder[-1]), size(half)
    if not (np.isfinite(small) and small > 0 and smaller > 0):
        return _by_ladder(ladder)
    degree = round(math.log2(small / smaller))
    unit = ladder[0]
    if degree >= 2 and np.allclose(triple, 3.0**degree * unit, rtol=1e-10, atol=1e-13 * 3.0**degree * size(unit)):
        return Scaling(degree, 1.0, 0.0, True)
    return _by_ladder(ladder)


def _by_ladder(ladder: list[FloatArray]) -> Scaling | None:
    """The scale at which f(s theta) / s^kappa changes least, over the kappa that fits best."""
    best: Scaling | None = None
    for k in range(len(ladder) - 1):
        large, small = size(ladder[k]), size(ladder[k + 1])
        if not (np.isfinite(large) and small > 0 and large > small):
            continue
        degree = round(math.log2(large / small) / math.log2(_SCALES[k] / _SCALES[k + 1]))
        if degree < 2:
            continue
        ratio = (_SCALES[k] / _SCALES[k + 1]) ** degree
        error = size(ladder[k] - ratio * ladder[k + 1]) / large
        if error <= _LIMIT_RTOL and (best is None or error < best.error):
            best = Scaling(degree, float(_SCALES[k + 1]), error, False)
    return best
