"""How far the time is off at which modes leave a saddle by turning, which the steps hold to their tolerance only.

Sizes of modes keep their relative accuracy at any scale; their directions are of order one, and right to what the steps
err by. A plateau may be a saddle of the modes that are large by then, which turn away from it before any other has
grown. The turn begins from what is left of it where the curve is flattest, and errors of the steps add to that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from agf.arrays import FloatArray
from agf.coordinates.mode_system import ACTIVE
from agf.results.curve import CurveDrop

#: Part of the fall from the flattest point up to a drop that small modes make, from which on they begin it, and no turn
#: has to be in its bar. Derived: it is either all of it or next to nothing.
_BEGUN = 0.5


def slips(
    curve: tuple[FloatArray, FloatArray, FloatArray],
    steps: tuple[FloatArray, FloatArray],
    drops: Sequence[CurveDrop],
    sizes: Callable[[float], FloatArray],
    moved: tuple[FloatArray, float],
) -> FloatArray:
    """By how much each drop (d,) may come late for what has turned its modes and those before, of its time.

    After a drop that may be all error, the modes go on from another time, and where they are then is not known: inf.

    Parameters
    ----------
    curve : tuple of three float ndarrays, each (T,)
        Times, losses and slopes dL/dt.
    steps : tuple of two float ndarrays, each (S,)
        Times of steps, and their errors over the size of the weights.
    drops : sequence of CurveDrop
        In order of time.
    sizes : callable
        Singular values of the weights at a time, largest first.
    moved : tuple of float ndarray (d,) and float
        By how much each drop has moved in a repeat, and how many times coarser the steps of that were.
    """
    late, lost, found = 0.0, False, []
    for k, drop in enumerate(drops):
        more, held = _late(curve, steps, drops[k - 1], drop, sizes, float(moved[0][k]), moved[1]) if k else (0.0, True)
        late += np.inf if lost else more
        lost = lost or not held
        found.append(late / drop.time)
    return np.array(found)


def _late(
    curve: tuple[FloatArray, FloatArray, FloatArray],
    steps: tuple[FloatArray, FloatArray],
    before: CurveDrop,
    drop: CurveDrop,
    sizes: Callable[[float], FloatArray],
    moved: float,
    coarser: float,
) -> tuple[float, bool]:
    """How late one drop may come, and whether the steps hold what begins it; then the repeat tells all that there is.

    What is left of the turn where the curve is flattest may be off by what the steps before and after add, each by its
    weight there, and by what makes it larger in the repeat: a turn that is all error is so by as many times as the
    steps are coarser. One that would not stand above the errors of the repeat may be none at all: the drop comes at the
    latest when the small modes of then have grown as far, and may never come where there are none.
    """
    between = (curve[0] >= before.end) & (curve[0] <= drop.start)
    times, losses, slopes = (part[between] for part in curve)
    speeds = np.sqrt(np.maximum(-slopes, 0.0))  # of the weights: what turns at a rate is this over it
    first = int(np.argmin(speeds)) if times.size else 0
    length = float(np.trapezoid(speeds[first:], times[first:]))
    if not length > 0.0 or not speeds[-1] > speeds[first]:
        return 0.0, True
    rate = float(speeds[-1] - speeds[first]) / length
    there, begun = sizes(float(times[first])), sizes(drop.start)
    large = int(np.count_nonzero(there > ACTIVE * there[0]))
    if 0.5 * rate * float(np.sum(begun[large:] ** 2)) >= _BEGUN * (losses[first] - losses[-1]):
        return 0.0, True
    turn, size = float(speeds[first]) / rate, float(np.sqrt(np.sum(there**2)))
    on = (steps[0] >= before.time) & (steps[0] <= drop.start)
    added = size * float(np.sum(steps[1][on] * np.exp(-rate * np.abs(steps[0][on] - times[first]))))
    larger = 0.0
    if coarser > 1.0:
        larger = turn * float(np.expm1(min(rate * moved, np.log(coarser)))) / (coarser - 1.0)
    if turn > coarser * max(added, larger):
        return 0.0, True
    small = float(np.max(there[large:], initial=0.0))
    return (max(float(np.log(turn / small)), 0.0) / rate if small > 0.0 else np.inf), False
