"""One step of each explicit method, and its error; `agf.integrators` chooses their lengths.

Dormand-Prince 5(4), Bogacki-Shampine 3(2), and the stabilised RKC of second order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from agf.arrays import FloatArray

Velocity = Callable[[FloatArray], FloatArray]

#: Dormand-Prince 5(4), Hairer, Norsett & Wanner table II.5.2. Its last row is also the fifth-order solution.
STAGES = tuple(
    np.array(row)
    for row in (
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    )
)
ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])
#: Fourth-order dense output: the quartic that the cubic Hermite interpolant lacks (II.6, contd5).
BULGE = np.array([
    -12715105075 / 11282082432, 0, 87487479700 / 32700410799, -10690763975 / 1880347072,
    701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423,
])  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """A step not yet accepted. stiffness : estimate of h times the spectral radius, 0 when unknown."""

    y1: FloatArray
    f1: FloatArray
    error: FloatArray
    bulge: FloatArray | None = None
    stiffness: float = 0.0


def dormand_prince(
    velocity: Velocity,
    y: FloatArray,
    f: FloatArray,
    h: float,
    units: FloatArray | float,
    project: Callable[[FloatArray], FloatArray] | None = None,
) -> Trial:
    """One Dormand-Prince step; `units`, the scale of y, makes entries of any size count in its stiffness, and `project`
    is applied to its end before the velocity is had there."""
    k = np.empty((7, y.size))
    k[0] = f
    before = y1 = y
    for i, row in enumerate(STAGES, 1):
        before, y1 = y1, np.dot(row, k[:i])
        y1 *= h
        y1 += y
        if i == 6 and project is not None:
            y1 = project(y1)
        k[i] = velocity(y1)
    gap = length_of((y1 - before) / units)  # the last two stages are at the same time
    stiffness = h * (length_of((k[6] - k[5]) / units) / gap) if gap > 0 else 0.0
    return Trial(y1, k[6].copy(), h * (ERROR @ k), h * (BULGE @ k), stiffness)


def bogacki_shampine(
    velocity: Velocity,
    y: FloatArray,
    f: FloatArray,
    h: float,
    units: FloatArray | float,
    project: Callable[[FloatArray], FloatArray] | None = None,
) -> Trial:
    """One step of Bogacki & Shampine (1989), 3(2); stiffness from its last two stages, as above."""
    k2 = velocity(y + 0.5 * h * f)
    before = y + 0.75 * h * k2
    k3 = velocity(before)
    y1 = y + h * (2 / 9 * f + 1 / 3 * k2 + 4 / 9 * k3)
    f1 = velocity(y1 := y1 if project is None else project(y1))
    gap = length_of((y1 - before) / units)
    stiffness = h * (length_of((f1 - k3) / units) / gap) if gap > 0 else 0.0
    return Trial(y1, f1, h * (-5 / 72 * f + 1 / 12 * k2 + 1 / 9 * k3 - 1 / 8 * f1), stiffness=stiffness)


def chebyshev_step(
    velocity: Velocity,
    y: FloatArray,
    f: FloatArray,
    h: float,
    stages: int,
    project: Callable[[FloatArray], FloatArray] | None = None,
) -> Trial:
    """One rkc2 step of `stages` >= 2 stages."""
    first, weights = chebyshev_weights(stages)
    now = y + h * first * f
    terms = np.stack([now, y, y, f, f])  # the stage, the one before, the start, and the velocities of stage and start
    for row in weights * np.array([1.0, 1.0, 1.0, h, h]):
        terms[3] = velocity(now)
        now = row @ terms
        terms[1], terms[0] = terms[0], now
    f1 = velocity(now := now if project is None else project(now))
    return Trial(now, f1, 0.8 * (y - now) + 0.4 * h * (f + f1))


@lru_cache(maxsize=256)
def chebyshev_weights(stages: int) -> tuple[float, FloatArray]:
    """Weight of h f in stage 1, and of the five terms of `chebyshev_step` in each later stage, (stages - 1, 5).

    Sommeijer, Shampine & Verwer (1997) eq. 2.2-2.7, damping 2/13.
    """
    w0 = 1.0 + 2.0 / (13.0 * stages**2)
    root = math.sqrt(w0**2 - 1.0)
    angle = stages * math.log(w0 + root)
    w1 = math.sinh(angle) * root**2 / (math.cosh(angle) * stages * root - w0 * math.sinh(angle))
    first = 1.0 / (4.0 * w0**2)
    b_before = b = first
    t_before, t, d_before, d, dd_before, dd = 1.0, w0, 0.0, 1.0, 0.0, 0.0
    rows = []
    for _ in range(2, stages + 1):
        t_next = 2.0 * w0 * t - t_before
        d_next = 2.0 * w0 * d - d_before + 2.0 * t
        dd_next = 2.0 * w0 * dd - dd_before + 4.0 * d
        b_next = dd_next / d_next**2
        mu = 2.0 * w0 * b_next / b
        nu = -b_next / b_before
        gain = mu * w1 / w0
        rows.append((mu, nu, 1.0 - mu - nu, gain, -gain * (1.0 - t * b)))
        t_before, t, d_before, d, dd_before, dd, b_before, b = t, t_next, d, d_next, dd, dd_next, b, b_next
    weights = np.array(rows)
    weights.flags.writeable = False
    return w1 * first, weights


def length_of(v: FloatArray) -> float:
    """Euclidean norm of v, whose squares neither overflow nor underflow: velocities of 1e200 are ordinary."""
    largest = float(np.maximum.reduce(np.abs(v), initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return largest
    v = v / largest
    return largest * math.sqrt(v @ v)
