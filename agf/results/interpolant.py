"""A loss curve between its points: a cubic where slopes are known, else a line."""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray
from agf.integrators import interpolated

Point = tuple[float, float, float]  # time, loss, slope

#: What a line between two points of a drawn curve may be off by, over the first loss. Cost: of points; pictures show a
#: thousandth.
_DRAWN = 2e-4
#: Fewest and most points of it between two computed ones. Cost: of points; plateaus lie where lines are flattest.
_BETWEEN = 8, 100
#: Slope at an end over that of the line between the ends, beyond which no cubic is monotone. Derived: a cubic falls
#: throughout for slopes within an ellipse [Fritsch & Carlson 1980], which ends at 4.
_STEEPEST = 4.0


def interpolate(times: FloatArray, losses: FloatArray, slopes: FloatArray, t: FloatArray) -> FloatArray:
    """Loss at times t (any shape): cubic Hermite where slopes (T,) are given, else linear; constant beyond the ends."""
    t = np.clip(np.asarray(t, dtype=np.float64), times[0], times[-1])
    if slopes.size == 0 or times.size < 2:
        return np.interp(t, times, losses)
    i = np.clip(np.searchsorted(times, t, side="right") - 1, 0, times.size - 2)
    h = times[i + 1] - times[i]
    x = np.where(h > 0, (t - times[i]) / np.where(h > 0, h, 1.0), 1.0)
    rise = losses[i + 1] - losses[i]
    left, right = _held(h * slopes[i], h * slopes[i + 1], rise, _STEEPEST * float(np.ptp(losses)))
    return interpolated(x, losses[i], losses[i + 1], left, right)


def between(before: Point, after: Point, time: float, span: float) -> float:
    """Loss at a time between two points of a curve whose losses span so much, as `interpolate` has it."""
    (ta, la, sa), (tb, lb, sb) = before, after
    left, right, most = (tb - ta) * sa, (tb - ta) * sb, _STEEPEST * span
    if abs(left) > most or abs(right) > most:
        left, right = map(float, _held(np.asarray(left), np.asarray(right), np.asarray(lb - la), most))
    return interpolated((time - ta) / (tb - ta), la, lb, left, right)


def _held(left: FloatArray, right: FloatArray, rise: FloatArray, most: float) -> tuple[FloatArray, FloatArray]:
    """Slopes at both ends of cubics, times their lengths, without those that lead out of the whole curve.

    At the end of a plateau of 1e30 the slope is that of the drop, or rounding: a cubic would swing by any number.
    Where one is beyond `most` both are no steeper than monotone cubics have them.
    """
    out = (np.abs(left) > most) | (np.abs(right) > most)
    if not out.any():
        return left, right
    low, high = np.minimum(_STEEPEST * rise, 0.0), np.maximum(_STEEPEST * rise, 0.0)
    return np.where(out, np.clip(left, low, high), left), np.where(out, np.clip(right, low, high), right)


def drawn(times: FloatArray, losses: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The curve (times, losses, slopes), (T,) each, with so many points that lines between them show the cubics."""
    h = np.diff(times)
    bend = np.abs(h * np.diff(slopes)) + np.abs(losses[1:] - losses[:-1] - 0.5 * h * (slopes[1:] + slopes[:-1]))
    count = np.sqrt(bend / (_DRAWN * np.abs(losses[0])))
    count = np.where(h > 0, np.clip(np.ceil(count), *_BETWEEN), 1).astype(np.int64)
    which = np.repeat(np.arange(count.size), count)
    x = (np.arange(which.size) - np.repeat(np.cumsum(count) - count, count)) / count[which]
    t = np.append(times[which] + h[which] * x, times[-1])
    rise, left, right = np.diff(losses)[which], (h * slopes[:-1])[which], (h * slopes[1:])[which]
    y = 1.0 - x
    turned = 6.0 * x * y * rise + y * (y - 2.0 * x) * left - x * (2.0 * y - x) * right
    steep = np.divide(turned, h[which], out=slopes[which].copy(), where=h[which] > 0)
    between = interpolate(times, losses, slopes, t)
    ends = np.append(losses[which], losses[-1]), np.append(losses[which + 1], losses[-1])
    return t, np.clip(between, np.minimum(*ends), np.maximum(*ends)), np.append(steep, slopes[-1])


def crossing(times: FloatArray, losses: FloatArray, slopes: FloatArray, level: float) -> float:
    """First time at which the loss is below `level`, inf if it never is; between points by `interpolate`.

    Solved by bisection to the resolution of float64, so it is as good as the interpolant.
    """
    below = np.flatnonzero(losses < level)
    if below.size == 0:
        return float(np.inf)
    j = int(below[0])
    if j == 0:
        return float(times[0])
    low, high = float(times[j - 1]), float(times[j])
    if slopes.size == 0:
        share = (losses[j - 1] - level) / (losses[j - 1] - losses[j])
        return low + float(share) * (high - low)
    before, after, h = float(losses[j - 1]), float(losses[j]), high - low
    steep = _held(h * slopes[j - 1], h * slopes[j], np.asarray(after - before), _STEEPEST * float(np.ptp(losses)))
    first, last = map(float, steep)
    left, right = low, high
    for _ in range(200):
        middle = 0.5 * (left + right)
        if not left < middle < right:
            break
        if interpolated((middle - low) / h, before, after, first, last) < level:
            right = middle
        else:
            left = middle
    return right


def monotone(times: FloatArray, losses: FloatArray) -> FloatArray:
    """Slopes (T,) of a smooth curve through points that do not rise, which does not rise either (Fritsch, Butland).

    Those of scipy's PchipInterpolator, which takes no time twice (as a staircase has it) and as long to import as a
    prediction of a small network takes.
    """
    h, rise = np.diff(times), np.diff(losses)
    steep = np.divide(rise, h, out=np.zeros(h.size), where=h > 0)
    if h.size < 2:
        return np.append(steep, steep[-1:])
    left, right = steep[:-1], steep[1:]
    weights = h[:-1] + 2.0 * h[1:], 2.0 * h[:-1] + h[1:]
    falls = (left < 0) & (right < 0)
    mean = weights[0] * np.divide(1.0, left, out=np.zeros(left.size), where=falls)
    mean += weights[1] * np.divide(1.0, right, out=np.zeros(right.size), where=falls)
    inner = np.divide(weights[0] + weights[1], mean, out=np.zeros(left.size), where=falls)
    ends = [
        np.clip(((2 * a + b) * d - a * e) / (a + b), 3 * d, 0.0) if a + b > 0 else 0.0
        for a, b, d, e in ((h[0], h[1], steep[0], steep[1]), (h[-1], h[-2], steep[-1], steep[-2]))
    ]
    return np.concatenate([ends[:1], inner, ends[1:]])
