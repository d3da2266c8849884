"""The time axis of a picture: flow time, or accelerated time where a prediction knows no other; and what it spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import TypeIs

    from agf.results.staircase import Staircase
    from agf.results.trajectory import Trajectory


def predicted(run: Staircase | Trajectory) -> TypeIs[Staircase]:
    """Whether it is a prediction: results draw themselves with this room, which knows them by what they have."""
    return hasattr(run, "mode")


def clock_word(in_flow_time: bool) -> str:
    """What its label says."""
    return "flow time" if in_flow_time else "accelerated time"


def drop_times(stairs: Staircase) -> tuple[FloatArray, bool]:
    """Half-drop times in flow time where all are finite, else accelerated switch times."""
    times = stairs.half_times[1:]
    if np.isfinite(times).all():
        return times, True
    times = stairs.accelerated_times[1:]
    return np.where(np.isfinite(times), times, np.nan), False


def span(times: FloatArray, log: bool) -> tuple[float, float]:
    """Where the time axis begins and ends: a stretch of plateau on both sides of the drops."""
    inside = times[np.isfinite(times) & (times > 0)]
    if not inside.size:
        return (0.1, 10.0) if log else (0.0, 1.0)
    first, last = float(inside.min()), float(inside.max())
    if not log:
        return 0.0, 1.15 * last
    room = max((last / first) ** 0.15, 1.5)
    return first / room, last * room


def eventful(traj: Trajectory) -> tuple[float, float]:
    """From a stretch of the first plateau to the end; for a curve with drops."""
    return min(drop.start for drop in traj.drops) / 3, float(traj.times[-1])


def time_axis(ax: Axes, times: FloatArray, log: bool) -> tuple[float, float]:
    """Limits and label of the time axis of a prediction with drops at `times`; returns the limits."""
    ends = span(times, log)
    ax.set_xlim(*ends)
    ax.set_xlabel(clock_word(log))
    return ends
