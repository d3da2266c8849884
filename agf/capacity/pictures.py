"""Pictures of races: norms by group over time, what the groups hold, and who is aligned with what drives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import FloatArray
from agf.capacity.alignment import Alignment, alignment
from agf.capacity.groups import Groups, groups, problem_of
from agf.contract.problem import Problem
from agf.pictures.axes import PALETTE, PREDICTED, RULE, new_axes, save, say
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison
from agf.results.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from agf.capacity.tickets import Tickets

__all__ = ["aligned", "bars", "cosines", "holdings", "race", "ranks", "save"]

#: Groups with a colour of their own; the rest is grey.
_COLOURED = 6


def race(run: Trajectory | Comparison, *, ax: Axes | None = None, problem: Problem | None = None) -> Axes:
    """Log norm of every neuron over log flow time, coloured by its group at the end, the totals of groups thick."""
    ax = new_axes() if ax is None else ax
    traj, found = _run(run), groups(run, problem=problem)
    kappa, later = traj.degree, traj.snapshot_times > 0
    times, values = traj.snapshot_times[later], traj.log_norms[later]
    for k, group in enumerate(found.groups):
        color = PALETTE[k] if k < _COLOURED else RULE
        ax.plot(times, values[:, group.members] / np.log(10), color=color, linewidth=0.5, alpha=0.6, zorder=1)
        if k < _COLOURED:
            sizes = kappa * values[:, group.members]
            top = sizes.max(axis=1)
            total = (top + np.log(np.exp(sizes - top[:, None]).sum(axis=1))) / kappa
            count = group.members.size
            words = f"{count} neuron{'s' * (count > 1)}"
            ax.plot(times, total / np.log(10), color=color, linewidth=2, label=words, zorder=2)
    log_time(ax)
    ax.set(xlabel="flow time", ylabel="log10 of norm (thick: of the group)")
    ax.legend(fontsize="x-small", title="groups at the end")
    return ax


def holdings(run: Trajectory | Comparison, *, ax: Axes | None = None, problem: Problem | None = None) -> Axes:
    """What every group contributes at the end, a bar each, cut into the shares of its members."""
    return bars(groups(run, problem=problem), ax=ax)


def bars(found: Groups, *, ax: Axes | None = None) -> Axes:
    """The same of groups that were found."""
    ax = new_axes() if ax is None else ax
    from matplotlib.ticker import MaxNLocator

    for k, group in enumerate(found.groups[:20]):
        parts = group.total**found.degree * group.shares
        ax.bar(k, parts, bottom=np.concatenate([[0.0], np.cumsum(parts)[:-1]]), color=PALETTE[0], edgecolor="white",
               linewidth=0.4)  # fmt: skip
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="group (by size)", ylabel=f"sum of norm^{found.degree}, cut by neuron")
    if not found.groups:
        say(ax, "every neuron is dead")
    return ax


def cosines(found: Alignment, *, ax: Axes | None = None) -> Axes:
    """Cosine of every neuron with its drive: over log flow time, or against its norm where there is one moment."""
    ax = new_axes() if ax is None else ax
    neurons = np.setdiff1d(np.arange(found.log_norms.shape[1]), found.permanent)
    later = found.times > 0
    if later.sum() > 1:
        ax.plot(found.times[later], found.cos_delta[later][:, neurons], color=PALETTE[0], linewidth=0.6)
        log_time(ax)
        ax.set(xlabel="flow time", ylabel="cosine between a neuron and its drive")
    else:
        ax.plot(found.cos_delta[-1, neurons], found.log_norms[-1, neurons] / np.log(10), "o", ms=3, color=PALETTE[0])
        ax.set(xlabel="cosine between a neuron and its drive", ylabel="log10 of its norm", xlim=(-1.05, 1.05))
    if not np.isfinite(found.cos_delta[:, neurons]).any():
        say(ax, "nothing drives any neuron")
    return ax


def ranks(found: Tickets, against: Trajectory | Comparison | None = None, *, ax: Axes | None = None) -> Axes:
    """Predicted norms by rank, those asked about in another colour; or against the norms at the end of training."""
    ax = new_axes() if ax is None else ax
    order = found.order[: found.width]
    size, error = found.log_norms[order] / np.log(10), found.error[order] / np.log(10)
    at: FloatArray = np.arange(1.0, found.width + 1)
    ax.set(xlabel="rank", ylabel="log10 of the predicted norm")
    if against is not None:
        spearman = found.scores(against)["tickets"]["spearman"]
        at = _run(against).log_norms[-1][order] / np.log(10)
        finite = at[np.isfinite(at)]
        if finite.size:
            ax.axline((finite[0], finite[0]), slope=1, color=RULE, lw=0.8)
        ax.set(xlabel="log10 of the norm at the end of training", title=f"Spearman {spearman:.4f}")
    kept = np.arange(found.width) < found.keep
    for some, color, said in ((~kept, RULE, "others"), (kept, PREDICTED, f"the {found.keep} asked about")):
        ax.errorbar(at[some], size[some], error[some], fmt="o", ms=3, lw=0.8, color=color, label=said)
    ax.legend(fontsize="x-small")
    return ax


def aligned(run: Trajectory | Comparison, *, ax: Axes | None = None, problem: Problem | None = None) -> Axes:
    """Cosine between every neuron and its drive over log flow time, coloured by its group at the end."""
    ax = new_axes() if ax is None else ax
    traj, found = _run(run), groups(run, problem=problem)
    moments = alignment(problem or problem_of(traj), traj)
    later = moments.times > 0
    for k, group in enumerate(found.groups):
        color = PALETTE[k] if k < _COLOURED else RULE
        ax.plot(moments.times[later], moments.cos_delta[later][:, group.members], color=color, linewidth=0.6)
    log_time(ax)
    ax.set(xlabel="flow time", ylabel="cosine between a neuron and its drive")
    return ax


def _run(run: Trajectory | Comparison) -> Trajectory:
    return run.trajectory if isinstance(run, Comparison) else run
