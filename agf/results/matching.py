"""Which predicted drops meet which visible ones: the monotone matching of least cost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from agf.results.curve import CurveDrop

#: A predicted drop belongs to a visible one when its mid-level is within it, give or take this fraction of its height;
#: one whose middle is not in it, nor the other way round, may be it only within this fraction of its time.
#: Result: levels of a prediction are off by a few percent where activations overlap; at 1 neighbours of equal height
#: would be taken for one another, at 0.01 such a drop would have no partner.
MARGIN = 0.1
#: Cost of a drop without a partner. Derived: the unit of the costs; a pair that disagrees altogether, in level and in
#: time, costs two of them, as much as two drops alone.
ALONE = 1.0


def align(times: np.ndarray, levels: np.ndarray, visible: list[CurveDrop]) -> list[tuple[int, int] | None]:
    """Visible drops (first, end) of each predicted one, or None: the monotone matching of least cost.

    By dynamic programming: a visible drop takes a run of consecutive predicted drops, or a predicted drop takes a run
    of consecutive visible ones; the two sides cost the mismatch of their level intervals (one minus intersection over
    union) plus that of their log times, each at most one. All but one of a run count as drops without a partner, so
    that a run is taken only where it meets the other side better than one of its members does.
    """
    n, m = times.size, len(visible)
    best = np.full((n + 1, m + 1), np.inf)
    best[0] = ALONE * np.arange(m + 1)
    choice: dict[tuple[int, int], tuple[int, int]] = {}  # (i, j) -> how many of each side end there together
    for i in range(n + 1):
        for j in range(m + 1):
            if i and best[i - 1, j] + ALONE < best[i, j]:
                best[i, j], choice[i, j] = best[i - 1, j] + ALONE, (1, 0)
            if j and best[i, j - 1] + ALONE <= best[i, j]:
                best[i, j], choice[i, j] = best[i, j - 1] + ALONE, (0, 1)
            if not (i and j):
                continue
            for p, v in _runs(times, levels, visible, i, j):
                more = ALONE * (p + v - 2)  # each but one of a run has no partner of its own
                cost = best[i - p, j - v] + more + _mismatch(times, levels, i - p, i, visible[j - v : j])
                if cost < best[i, j]:
                    best[i, j], choice[i, j] = cost, (p, v)
    partner: list[tuple[int, int] | None] = [None] * n
    i, j = n, m
    while i and j:
        p, v = choice[i, j]
        if p and v:
            partner[i - p : i] = [(j - v, j)] * p
        i, j = i - p, j - v
    return partner


def _runs(times: np.ndarray, levels: np.ndarray, visible: list[CurveDrop], i: int, j: int) -> Iterator[tuple[int, int]]:
    """Numbers of predicted drops before i, and of visible ones before j, that may be the same; one of them is 1."""
    if _akin(times, levels, i - 1, visible[j - 1]):
        yield 1, 1
    # A visible drop that ends on the level before the last of them does not contain that one.
    short = levels[i - 1] - visible[j - 1].after <= MARGIN * (levels[i - 1] - levels[i])
    for p in range(2, 2 if short else i + 1):
        if not (_inside(levels, i - p, visible[j - 1]) and _inside(levels, i - 1, visible[j - 1])):
            break
        yield p, 1
    top, bottom = levels[i - 1], levels[i]
    margin = MARGIN * (top - bottom)
    for v in range(2, j + 1 if abs(visible[j - 1].after - bottom) <= margin else 2):
        if visible[j - v].before > top + margin:
            break
        if visible[j - v].before >= top - margin:
            yield 1, v


def _akin(times: np.ndarray, levels: np.ndarray, k: int, drop: CurveDrop) -> bool:
    """Whether the middle of predicted drop k (index) or of a visible one is within the other, or they share a time.

    What shares neither is not the same, though both may be what is left of their sides.
    """
    margin = MARGIN * (levels[k] - levels[k + 1])
    middle = 0.5 * (drop.before + drop.after)
    around = levels[k + 1] - margin <= middle <= levels[k] + margin
    return bool(around or _inside(levels, k, drop) or abs(times[k] - drop.time) <= MARGIN * drop.time)


def _inside(levels: np.ndarray, k: int, drop: CurveDrop) -> bool:
    """Whether the mid-level of predicted drop k (index) lies within a visible drop."""
    middle = 0.5 * (levels[k] + levels[k + 1])
    margin = MARGIN * (drop.before - drop.after)
    return bool(drop.after - margin <= middle <= drop.before + margin)


def _mismatch(times: np.ndarray, levels: np.ndarray, first: int, end: int, drops: list[CurveDrop]) -> float:
    """Cost in [0, 2] of taking predicted drops first..end-1 together for these visible drops."""
    top, bottom = levels[first], levels[end]
    highest, lowest = drops[0].before, drops[-1].after
    union = max(top, highest) - min(bottom, lowest)
    shared = min(top, highest) - max(bottom, lowest)
    overlap = max(shared, 0.0) / union if union > 0 else 1.0
    middle = 0.5 * (top + bottom)
    half = first + int(np.argmax(levels[first + 1 : end + 1] <= middle))  # the member that passes the middle of the run
    seen = next((drop.time for drop in drops if drop.after <= middle), drops[-1].time)
    late = abs(np.log(times[half] / seen)) if times[half] > 0 and seen > 0 else 1.0
    return float(1.0 - overlap + min(late, 1.0))
