"""Picture of a dormant phase: where neurons turn, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray
from agf.pictures.axes import OBSERVED, PREDICTED, RULE, legend_below, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from agf.rectified.dormant_phase import DormantPhase

#: Lines that can still be told apart, and points a line.
_MOST, _POINTS = 200, 400
#: Beyond the last event, this fraction of the time is drawn.
_BEYOND = 0.25


def dormant_phase(found: DormantPhase, *, ax: Axes | None = None) -> Axes:
    """Angles of the input weights over flow time where there are two inputs, else cosines with their ends.

    Red are neurons that end with a positive output weight, blue those with a negative one; rules are where a sample
    switches; at most 200 neurons, evenly taken. New axes have a legend.

    Parameters
    ----------
    found : DormantPhase
        What `agf.align` returned.
    ax : Axes or None
        Where to draw; new axes by default.
    """
    alone = ax is None
    ax = new_axes() if ax is None else ax
    rows = np.unique(np.linspace(0, len(found) - 1, min(len(found), _MOST)).astype(np.int64))
    end = found.t_max if np.isfinite(found.t_max) else (1.0 + _BEYOND) * found.last or _default_end(found)
    times = np.linspace(0.0, end, _POINTS)
    heights = np.array([_heights(found, found.at(float(t))[0][rows], rows) for t in times])
    if found.X.shape[1] == 2:
        for k in range(found.X.shape[0]):
            wall = np.degrees(np.arctan2(found.X[k, 1], found.X[k, 0]))
            for angle in (wall + 90.0, wall - 90.0):
                ax.axhline((angle + 180.0) % 360.0 - 180.0, color=RULE, lw=0.6)
        ax.plot([], [], color=RULE, lw=0.6, label="where an input switches")
        jumps = np.abs(np.diff(heights, axis=0)) > 180.0
        heights[1:][jumps] = np.nan
        ax.set(ylabel="angle of w (degrees)", ylim=(-180, 180), yticks=[-180, -90, 0, 90, 180])
    else:
        ax.set(ylabel="cosine of w with its end", ylim=(-1.02, 1.02))
    for j, row in enumerate(rows):
        ax.plot(times, heights[:, j], color=PREDICTED if found.ends[row, -1] > 0 else OBSERVED, lw=0.8, alpha=0.7)
    for color, sign in ((PREDICTED, "> 0"), (OBSERVED, "< 0")):
        ax.plot([], [], color=color, lw=0.8, label=f"a neuron that ends with a {sign}")
    ax.set(xlabel="flow time", xlim=(0.0, end))
    if alone:
        legend_below(ax)
    return ax


def _default_end(found: DormantPhase) -> float:
    top = float(np.max(np.abs(found.utilities), initial=0.0))
    return 3.0 / top if top > 0 else 1.0


def _heights(found: DormantPhase, rows: FloatArray, which: Any) -> FloatArray:
    if found.X.shape[1] == 2:
        return np.asarray(np.degrees(np.arctan2(rows[:, 1], rows[:, 0])))
    ends = found.ends[which, :-1]
    sizes = np.linalg.norm(rows[:, :-1], axis=1) * np.linalg.norm(ends, axis=1)
    return np.asarray(np.sum(rows[:, :-1] * ends, axis=1) / np.where(sizes > 0, sizes, 1.0))
