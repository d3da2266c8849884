"""Dense output of many steps at once, one row a step: the quartic through the ends, their slopes and the middle.

Places are in 0..1, and slopes are multiplied by the length of their step.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray

#: Times that differ by less than this part of themselves are one.
_SAME_TIME = 2 * np.finfo(float).eps


def inside(
    u: FloatArray, y0: FloatArray, y1: FloatArray, f0: FloatArray, f1: FloatArray, mid: FloatArray
) -> FloatArray:
    """Values at places u; all arrays of one shape, or broadcast to it."""
    v = 1.0 - u
    cubic = y0 * v * v * (1 + 2 * u) + y1 * u * u * (3 - 2 * u) + u * v * (v * f0 - u * f1)
    return np.asarray(cubic + 16.0 * (u * v) ** 2 * _bump(y0, y1, f0, f1, mid))


def place(time: float, t0: FloatArray, t1: FloatArray, f0: FloatArray, f1: FloatArray, mid: FloatArray) -> FloatArray:
    """Places at which quartics, monotone from t0 < t1, are `time`, (m,)."""
    low, high = np.zeros(t0.size), np.ones(t0.size)
    bump = 32.0 * _bump(t0, t1, f0, f1, mid)
    u = (time - t0) / (t1 - t0)
    for _ in range(54):
        v = 1.0 - u
        t = inside(u, t0, t1, f0, f1, mid)
        slope = 6.0 * u * v * (t1 - t0) + v * (v - 2 * u) * f0 - u * (2 * v - u) * f1 + bump * u * v * (v - u)
        if (np.abs(t - time) <= _SAME_TIME * np.maximum(t1, time)).all():
            break
        low, high = np.where(t < time, u, low), np.where(t < time, high, u)
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = u - (t - time) / slope
        u = np.where((guess > low) & (guess < high), guess, 0.5 * (low + high))  # Newton, or halving out of the bracket
    return np.asarray(u)


def _bump(y0: FloatArray, y1: FloatArray, f0: FloatArray, f1: FloatArray, mid: FloatArray) -> FloatArray:
    """What the cubic Hermite interpolant misses at the middle."""
    return mid - 0.5 * (y0 + y1) - 0.125 * (f0 - f1)
