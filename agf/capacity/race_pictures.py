"""Pictures of races: norms by group over time, what the groups hold, and who is aligned with what drives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.capacity.alignment import alignment
from agf.capacity.group import Group
from agf.capacity.groups import at_end, problem_of
from agf.capacity.pictures import COLOURED, bars, in_motion, trajectory_of
from agf.contract.problem import Problem
from agf.pictures.axes import PALETTE, RULE, new_axes, plain
from agf.pictures.ticks import log_time
from agf.records import naming
from agf.results.comparison import Comparison
from agf.results.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def race(run: Trajectory | Comparison, *, ax: Axes | None = None, problem: Problem | None = None) -> Axes:
    """Log norm of every neuron over log flow time, coloured by its group at the end, the totals of groups thick."""
    ax = new_axes() if ax is None else ax
    traj = trajectory_of(run)
    found = at_end(traj, problem)
    kappa, later = traj.degree, traj.snapshot_times > 0
    times, values = traj.snapshot_times[later], traj.log_norms[later]
    for k, group in enumerate(found.groups):
        color = PALETTE[k] if k < COLOURED else RULE
        ax.plot(times, values[:, group.members] / np.log(10), color=color, linewidth=0.5, alpha=0.6, zorder=1)
        if k < COLOURED:
            sizes = kappa * values[:, group.members]
            top = sizes.max(axis=1)
            total = (top + np.log(np.exp(sizes - top[:, None]).sum(axis=1))) / kappa
            ax.plot(times, total / np.log(10), color=color, linewidth=2, label=_called(k, group, traj), zorder=2)
    log_time(ax)
    ax.set(xlabel="flow time", ylabel="log10 of norm (thick: of the group)")
    ax.legend(fontsize="x-small", title="groups at the end")
    return ax


def _called(k: int, group: Group, run: Trajectory) -> str:
    """What a group is called in a legend: its number in the table of groups, and its neuron or how many they are."""
    if group.members.size > 1:
        return f"{k}: {group.members.size} neurons"
    return f"{k}: {plain(naming.neurons(run, run.log_norms.shape[1])[group.winner])}"


def holdings(run: Trajectory | Comparison, *, ax: Axes | None = None, problem: Problem | None = None) -> Axes:
    """What every group contributes at the end, a bar each, cut into the shares of its members."""
    return bars(at_end(trajectory_of(run), problem), ax=ax)


def aligned(run: Trajectory | Comparison, *, ax: Axes | None = None, problem: Problem | None = None) -> Axes:
    """Cosine between every neuron and its drive over log flow time, coloured by its group at the end."""
    ax = new_axes() if ax is None else ax
    traj = trajectory_of(run)
    found = at_end(traj, problem)
    moments = alignment(problem or problem_of(traj), traj)
    later, cosines = moments.times > 0, in_motion(moments)
    for k, group in enumerate(found.groups):
        color = PALETTE[k] if k < COLOURED else RULE
        lines = ax.plot(moments.times[later], cosines[later][:, group.members], color=color, linewidth=0.6)
        if k < COLOURED:
            lines[0].set_label(_called(k, group, traj))
    log_time(ax)
    ax.set(xlabel="flow time", ylabel="cosine between a neuron and its drive")
    ax.legend(fontsize="x-small", title="groups at the end")
    return ax
