"""Plateaus and drops of a loss curve, in log time.

A *drop* is a hump of the rate -d log L / d log t; two humps are two drops only when the rate between them falls below a
stated fraction of both (there is a plateau in between). Knows arrays only: the curve may come from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from agf.arrays import FloatArray, count, positive, vector
from agf.errors import DataError, explain
from agf.records.settings import DEPTH, FINE_DEPTH
from agf.records.table import number
from agf.results.interpolant import crossing, interpolate, monotone
from agf.rounding import TINY

#: Rate on a plateau over the rate in the drops on its two sides, at most. Setting: `flatness`; at 1 every shoulder of a
#: drop would be a plateau, at 0.02 only one on which the loss falls fifty times slower than in the drops.
FLATNESS = 0.2
#: Drops below this fraction of the first loss are not looked for. Result: it is what an error of 1e-4
#: in the weights, of steps at kinks, makes of a loss of 0; at 1e-9 its own scatter would be drops, at 1e-7 those by
#: which a fit goes from three digits to four would be lost.
FLOOR = 1e-8
#: Loss above the last one, over the first, down to which drops of a curve that is over are looked for. Result: it
#: leaves room for steps of 1e-6, whose errors move a settled loss by their square; at 1e-6 late drops that are small
#: next to the loss that stays would be overlooked.
LEFT = 1e-7
#: What is left to relax at an end, over the tolerance, that makes no drop of its own. Result: at 100 drops of a
#: ten-thousandth at rtol 1e-6 would be none, at 1 what the bound of a slow mode overstates would be a drop.
RELAXES = 10.0
#: A drop must exceed the scatter of the curve about its monotone fit by this factor. Result: the largest of 1e4 normal
#: deviations is four sigmas, and minibatches make larger ones; at 1 scatter would make drops, at 100 a run whose
#: scatter is a percent would have none.
_SIGMAS = 10.0
#: Windows in which the scatter of a curve is measured, at most. Derived: a loss that falls by three decades
#: changes by a tenth in one, its scatter by no more than that is known to.
_WINDOWS = 64
#: Points in each of these windows at least. Derived: the root mean square of so many is right to an eighth.
_FEWEST = 32
#: The rate of fall is averaged over this fraction of the smallest drop on a clean curve. Result: at 1 the smallest
#: drop would be one cell, without a place where it is fastest; at 0.01 a cell would lie between two points of the
#: curve.
_BAND = 0.125
#: The rate of fall is averaged over this fraction of the scatter times `_SIGMAS`, where that is larger. Result: at 1
#: two drops of ten sigmas may be one, at 0.4 cells are four sigmas, and a slide with a scatter of a thousandth gets
#: thirty plateaus.
_NOISY_BAND = 0.7
#: Log time over which a plateau is as flat as it must be, over that which the shorter of the drops beside it takes
#: from a tenth to nine tenths. Derived: where rates decay and grow like exponentials a curve is below half of the lower
#: hump for four tenths of that at least; at a kink, whose width a neuron crosses slowly, it stalls for thousandths.
_BRIEF = 0.05
#: Span of log time that is told from rounding, in units in the last place. Derived: a mark is interpolated between
#: points and differs from another by rounding of some ten operations on each of some ten points; from a hundred units
#: on it is none, and a tenfold is left.
_RESOLVED = 1e3


#: Share of the moves of a curve after which it turns, beyond which it is not read as swings. Derived: a swing that is
#: drawn by sixteen points or more turns after one move of eight at most, independent scatter after two of three.
_TURNS = 1 / 8


@dataclass(frozen=True, repr=False)
class CurveDrop:
    """One visible drop of a curve.

    Parameters
    ----------
    time : float
        When half of it is done (loss halfway between `before` and `after`), in the unit of the curve's times.
    before : float
        Loss on the plateau before it.
    after : float
        Loss on the plateau after it.
    start : float
        When 10 % of it are done.
    end : float
        When 90 % of it are done.
    """

    time: float
    before: float
    after: float
    start: float
    end: float

    def __repr__(self) -> str:
        return f"<CurveDrop at time {number(self.time)} from {number(self.before)} to {number(self.after)}>"


def detect(
    times: FloatArray,
    losses: FloatArray,
    *,
    slopes: FloatArray | None = None,
    depth: float | None = None,
    flatness: float = FLATNESS,
    left: float | None = None,
) -> list[CurveDrop]:
    """Drops of the curve (times, losses), both (T,), in order of time.

    A slide, a curve that falls without a plateau, is one drop with `start` and `end` far apart. A constant curve or a
    single point has none. Micro-drops closer than the curve resolves are one drop.

    Parameters
    ----------
    times : float ndarray
        Non-decreasing, >= 0. Times of 0 count as "before everything" (log time has no zero).
    losses : float ndarray
        Finite. Noise is met by a monotone (isotonic) fit in order of time; a drop must then exceed ten times the
        scatter about it.
    slopes : float ndarray or None, shape (T,), optional
        dL/dt at the points of a computed curve, for half-drop times between them; optional.
    depth : float or None, optional
        Smallest drop reported, as a fraction of the loss before it; default 2e-3, with slopes 2e-4.
    flatness : float, optional
        Two humps of the rate are two drops when the rate between them is below this fraction of both.
    left : float or None, optional
        Where the curve is over, what it may lose beyond its end: drops are then told relative to what is still to lose,
        so that late ones count however small they are next to the loss that stays. None where it is not over.

    Raises
    ------
    DataError
        For arrays that are no curve.
    """
    times, losses = check(times, losses)
    known = slopes is not None and np.size(slopes) > 0
    depth = (FINE_DEPTH if known else DEPTH) if depth is None else positive(depth, "depth", where="detect")
    flatness = positive(flatness, "flatness", where="detect")
    began = int(np.searchsorted(times, 0.0, side="right"))
    zero = min(began, 1)  # a point at time 0: the loss before everything, and no log time
    t, raw = times[began:], losses[began:]
    if t.size < 2:
        return []
    whole = _decreasing(losses[began - zero :])
    fit = whole[zero:]
    noise = _SIGMAS * _local(raw - fit)
    base = min(0.0, float(fit[-1]))
    first = float(fit[0]) - base
    if first <= float(noise.min()):
        return []
    if left is not None:
        base = max(base, float(fit[-1]) - max(LEFT * first, left))
    # Levels equally spaced in log(loss + soft): cells of a fraction of the smallest drop that would be reported. Cells
    # without a point of the curve are as one: nothing changes within them.
    soft = _NOISY_BAND * noise / (_BAND * depth)
    above = np.maximum(fit - base, FLOOR * first)
    y = _logarithm(above, soft)
    width = _BAND * depth
    n = int((y[0] - y[-1]) / width)
    if n < 2:
        return []
    cell = np.minimum(((y[0] - y) / width).astype(np.int64), n - 1)
    edges = y[0] - width * np.unique(np.concatenate([cell, cell + 1]))
    marks = np.interp(-edges, -y, np.log(t))  # log time at which each level is crossed
    levels = np.exp(edges) - soft[0]
    if not (soft == soft[0]).all():  # rates are of one logarithm, whatever the scatter where they are
        levels = np.interp(-edges, -y, above)
        edges = np.log(levels + soft.min())
    plateaus = _plateaus(edges, levels, marks, depth, np.interp(marks, np.log(t), noise), flatness)
    at, curve = times[began - zero :], losses[began - zero :] if known else whole
    steep = np.asarray(slopes)[began - zero :] if known else monotone(at, whole)
    if known:
        rate = -t * steep[zero:] / (above + soft.min())
        plateaus = _flattest(np.log(t), rate, _told(np.log(t), rate, plateaus, flatness))
        on = np.clip(interpolate(at, curve, steep, np.exp(plateaus)), fit[-1], fit[0])
    else:
        on = np.interp(plateaus, np.log(t), fit)
    losses_on = [float(whole[0]), *on.tolist(), float(fit[-1])]
    bounds = [-np.inf, *plateaus, np.inf]
    drops = []
    for k, (before, after) in enumerate(pairwise(losses_on)):
        middle = int(np.argmax(fit <= 0.5 * (before + after)))
        if before - after < max(depth * (before - base), float(noise[middle]), FLOOR * first):
            continue
        inside = slice(
            max(int(np.searchsorted(np.log(t), bounds[k], side="right")) + zero - 1, 0),
            int(np.searchsorted(np.log(t), bounds[k + 1], side="left")) + zero + 1,
        )
        start, half, end = (
            crossing(at[inside], curve[inside], steep[inside], before - share * (before - after))
            for share in (0.1, 0.5, 0.9)
        )
        drops.append(CurveDrop(half, before, after, start, end))
    return drops


def crowded(drops: Sequence[CurveDrop]) -> list[bool]:
    """Whether a neighbour is closer to each drop than it takes itself, from a tenth to nine tenths of its fall."""
    gaps = [np.inf, *(after.start - before.end for before, after in pairwise(drops)), np.inf]
    return [min(pair) < drop.end - drop.start for drop, pair in zip(drops, pairwise(gaps), strict=False)]


def rises(losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where the losses (T,) rise: the loss before each run of rising steps, and how much it gains, both (R,)."""
    up = np.concatenate([[False], np.diff(losses) > 0, [False]])
    first, last = np.flatnonzero(~up[:-1] & up[1:]), np.flatnonzero(up[:-1] & ~up[1:])
    return losses[first], losses[last] - losses[first]


def swinging(times: FloatArray, losses: FloatArray, **options: Any) -> list[CurveDrop]:
    """`detect` for steps with momentum, which swing past plateaus: drops of the least loss so far, a swing in none.

    What a drop learns passes through its value, where the loss is that of the plateau, swings back and passes again.
    Scatter is left to `detect`.
    """
    moves = np.diff(losses)
    moves = moves[np.abs(moves) > FLOOR * losses[:1]]
    if np.count_nonzero(moves[1:] * moves[:-1] < 0) > _TURNS * moves.size:
        return detect(times, losses, **options)
    out: list[CurveDrop] = []
    begun = 0
    for drop in detect(times, np.minimum.accumulate(losses), **options):
        half = top = int(np.searchsorted(times, drop.time))
        while top > begun and losses[top - 1] >= losses[top]:
            top -= 1
        risen = losses[top] - losses[begun : top + 1].min()
        if out and risen > drop.before - losses[half]:  # down from a swing that had risen by more
            out[-1] = replace(out[-1], after=drop.after, end=drop.end)
        else:
            out.append(drop)
        begun = half
    return out


def check(times: FloatArray, losses: FloatArray, where: str = "curve") -> tuple[FloatArray, FloatArray]:
    """The curve as two float64 vectors. DataError unless finite, equally long, times >= 0 and in order."""
    times = vector(times, "times", where=where)
    losses = vector(losses, "losses", where=where, length=times.size)
    count(times.size, "number of points", where=where)
    if times[0] < 0:
        raise DataError(explain("the first time is negative.", where=where, found=float(times[0])))
    back = np.flatnonzero(np.diff(times) < 0)
    if back.size:
        i = int(back[0])
        raise DataError(
            explain(
                f"times go backwards at index {i + 1}.",
                where=where,
                found=f"{times[i]:.6g} then {times[i + 1]:.6g}",
                expected="times in increasing order",
                remedy="Sort the rows, or name the right column.",
            )
        )
    return times, losses


def _scatter(gaps: FloatArray) -> float:
    """Root mean square, whatever the unit of the loss: squares of losses leave float64 long before losses do."""
    largest = float(np.abs(gaps).max())
    return largest * float(np.sqrt(np.mean((gaps / largest) ** 2))) if 0 < largest < np.inf else largest


def _local(gaps: FloatArray) -> FloatArray:
    """Scatter next to each point, (T,): that of minibatches is in proportion to the loss, which falls by decades, and
    that of steps at rounded kinks is where these are passed."""
    if not gaps.any():
        return np.zeros(gaps.size)
    count = max(min(gaps.size // _FEWEST, _WINDOWS), 1)
    parts = np.array_split(gaps, count)
    found = np.array([_scatter(part) for part in parts])
    # a fit follows the scatter where the curve is steep: as much as in half the windows, and as in those beside it
    beside = np.pad(np.maximum(found, np.median(found)), 1, mode="edge")
    found = np.maximum(np.maximum(beside[:-2], beside[2:]), beside[1:-1])
    middles = np.cumsum([part.size for part in parts]) - 0.5 * np.array([part.size for part in parts])
    return np.interp(np.arange(gaps.size), middles, found)


def _logarithm(values: FloatArray, soft: FloatArray) -> FloatArray:
    """Logarithm of the values (T,), with equal steps where they are below `soft` (T,)."""
    if (soft == soft[0]).all():
        return np.log(values + soft[0])
    middle = 0.5 * (values[1:] + values[:-1]) + 0.5 * (soft[1:] + soft[:-1])
    return np.concatenate([[0.0], np.cumsum(np.diff(values) / middle)])


def _decreasing(values: FloatArray) -> FloatArray:
    """Best non-increasing fit in least squares: neighbours that rise are pooled to their mean."""
    if not (np.diff(values) > 0).any():
        return values
    means: list[float] = []
    counts: list[int] = []
    for mean in values.tolist():
        count = 1
        while means and means[-1] < mean:
            mean, count = (counts[-1] * means.pop() + count * mean) / (counts[-1] + count), count + counts.pop()
        means.append(mean)
        counts.append(count)
    return np.repeat(means, counts)


def _plateaus(
    edges: FloatArray, levels: FloatArray, marks: FloatArray, depth: float, noise: FloatArray, flatness: float
) -> list[float]:
    """Log times of the plateaus between drops; `marks`: log times at which the decreasing `levels` are crossed, with
    this `noise` there."""
    # Cells crossed in a time that float64 hardly resolves (a drop of degree 3 at alpha = 1e-14, say) are as one.
    resolved = _RESOLVED * np.spacing(np.max(np.abs(marks), initial=1.0))
    instant = np.diff(marks) <= resolved
    kept = np.concatenate([[True], ~(instant[:-1] & instant[1:]), [True]])
    edges, levels, marks, noise = edges[kept], levels[kept], marks[kept], noise[kept]
    spent = np.diff(marks)
    # A cell crossed between two points of the curve takes no measurable time: its rate is bounded by the best resolved.
    smallest = np.min(spent[spent > resolved], initial=np.inf)
    if not np.isfinite(smallest):
        return []
    rate = np.log(-np.diff(edges) / np.maximum(spent, smallest))
    # What takes no measurable time is no plateau either, however little falls within it.
    beside = np.maximum(np.append(-np.inf, rate[:-1]), np.append(rate[1:], -np.inf))
    rate = np.where(spent <= resolved, np.maximum(rate, beside), rate)
    valleys = _valleys(rate, -np.log(flatness))
    while valleys:
        ends = np.array([0, *valleys, levels.size - 1])
        falls = levels[ends[:-1]] - levels[ends[1:]]
        size = falls / np.maximum(depth * levels[ends[:-1]], noise[(ends[:-1] + ends[1:]) // 2])
        k = int(np.argmin(size))
        if size[k] >= 1:
            brief = _brief(valleys, rate, edges, levels, marks, flatness, resolved)
            if brief is None:
                break
            del valleys[brief]
            continue
        # Too small to stand alone: it joins its neighbour across the less flat plateau.
        left = rate[valleys[k - 1]] if k > 0 else -np.inf
        right = rate[valleys[k]] if k < len(valleys) else -np.inf
        del valleys[k - 1 if left >= right else k]
    return [float(0.5 * (marks[v] + marks[v + 1])) for v in valleys]


def _brief(
    valleys: list[int],
    rate: FloatArray,
    edges: FloatArray,
    levels: FloatArray,
    marks: FloatArray,
    flatness: float,
    resolved: float,
) -> int | None:
    """The valley of the log `rate` that is least of a plateau, where the curve stalls for too short to make it one.

    Beside drops that take no more than the log time that is resolved nothing is told from one.
    """
    lengths, humps = [], []
    for a, b in pairwise([0, *valleys, rate.size]):
        tenths = levels[a] + np.array([0.1, 0.9]) * (levels[b] - levels[a])
        lengths.append(float(np.diff(np.interp(-tenths, -levels, marks))[0]))
        humps.append(a + int(np.argmax(rate[a:b])))
    middles, above = 0.5 * (marks[:-1] + marks[1:]), []
    for k, (valley, beside) in enumerate(zip(valleys, pairwise(lengths), strict=True)):
        half = 0.5 * _BRIEF * min(beside)
        first, last = [0, *valleys][k], [*valleys, rate.size][k + 1]
        fall = np.interp(middles[first:last] - half, marks, edges) - np.interp(middles[first:last] + half, marks, edges)
        low = slice(humps[k] - first, humps[k + 1] - first)
        least = float(np.min(fall[low]))
        hump = min(float(np.max(fall[: valley - first])), float(np.max(fall[valley - first :])))
        above.append(least / (flatness * hump) if 2.0 * half > resolved else 0.0)
    least = int(np.argmax(above))
    return least if above[least] > 1.0 else None


def _told(log_t: FloatArray, rate: FloatArray, plateaus: list[float], flatness: float) -> list[float]:
    """Those on which the known `rate` (T,) is as low as that of a plateau too.

    Losses have corners that slopes do not have: along a rounded kink, which a neuron crosses in every few steps, they
    fall in steps of their own.
    """
    kept = list(plateaus)
    while kept:
        bounds = [0, *np.searchsorted(log_t, kept).tolist(), rate.size]
        humps = [a + int(np.argmax(rate[a:b])) if b > a else min(a, rate.size - 1) for a, b in pairwise(bounds)]
        above = [float(np.min(rate[a : b + 1]) / max(min(rate[a], rate[b]), TINY)) for a, b in pairwise(humps)]
        least = int(np.argmax(above))
        if above[least] <= flatness:
            break
        del kept[least]
    return kept


def _flattest(log_t: FloatArray, rate: FloatArray, plateaus: list[float]) -> list[float]:
    """Plateaus moved to where a parabola through three points of the log rate is lowest.

    Cells tell where a plateau is to the distance of two points: as the loss goes on falling along most of them, levels
    would hang on where the points happen to lie.
    """
    found = []
    for x in plateaus:
        j = int(np.clip(np.searchsorted(log_t, x), 1, log_t.size - 1))
        j -= int(rate[j - 1] <= rate[j])
        while 0 < j < rate.size - 1 and min(rate[j - 1], rate[j + 1]) < rate[j]:
            j += 1 if rate[j + 1] < rate[j - 1] else -1
        three = slice(j - 1, j + 2)
        if 0 < j < rate.size - 1 and rate[three].min() > 0 and np.diff(log_t[three]).min() > 0:
            before, after = np.diff(log_t[three])
            down, up = np.diff(np.log(rate[three])) / (before, after)
            if up > down:
                slope = (down * after + up * before) / (before + after)
                x = float(np.clip(log_t[j] - 0.5 * slope * (before + after) / (up - down), log_t[j - 1], log_t[j + 1]))
        found.append(x)
    return found


def _valleys(rate: FloatArray, prominence: float) -> list[int]:
    """Indices of the minima of `rate` that lie at least `prominence` below the maxima on both sides, in order."""
    valleys: list[int] = []
    high = low = rate[0]
    at = 0
    falling = False  # whether `high` has been a peak: the curve has come down from it by the prominence
    for j, r in enumerate(rate.tolist()):
        if not falling:
            if r > high:
                high = r
            elif r < high - prominence:
                falling, low, at = True, r, j
        elif r < low:
            low, at = r, j
        elif r > low + prominence:
            valleys.append(at)
            falling, high = False, r
    return valleys
