"""Pictures of groups, alignments and tickets that were found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import FloatArray
from agf.errors import RequestError, explain
from agf.pictures.axes import PALETTE, PREDICTED, RULE, new_axes, save, say
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison
from agf.results.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from agf.capacity.alignment import Alignment
    from agf.capacity.group import Groups
    from agf.capacity.tickets import Tickets

__all__ = ["bars", "cosines", "ranks", "save", "trajectory_of"]

#: Groups with a colour of their own. Limit: the rest is grey.
COLOURED = 6
#: Drive of a neuron over the largest that it had, up to which it is at rest, and its cosine an error. Derived: the
#: relative error of one step of a flow.
_AT_REST = 1e-6


def bars(found: Groups, *, ax: Axes | None = None) -> Axes:
    """What every group contributes at the end, a bar each, cut into the shares of its members."""
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
        ax.plot(found.times[later], in_motion(found)[later][:, neurons], color=PALETTE[0], linewidth=0.6)
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
        at = trajectory_of(against).log_norms[-1][order] / np.log(10)
        finite = at[np.isfinite(at)]
        if finite.size:
            ax.axline((finite[0], finite[0]), slope=1, color=RULE, lw=0.8)
        ax.set(xlabel="log10 of the norm at the end of training", title=f"Spearman {spearman:.4f}")
    kept = np.arange(found.width) < found.keep
    for some, color, said in ((~kept, RULE, "others"), (kept, PREDICTED, f"the {found.keep} asked about")):
        ax.errorbar(at[some], size[some], error[some], fmt="o", ms=3, lw=0.8, color=color, label=said)
    ax.legend(fontsize="x-small")
    return ax


def trajectory_of(run: Trajectory | Comparison) -> Trajectory:
    """What was observed, of a run. Raises RequestError for a run in which nothing was."""
    found = run.trajectory if isinstance(run, Comparison) else run
    if not isinstance(found, Trajectory):
        words = f"a {type(found).__name__} holds no weights over time."
        raise RequestError(explain(words, expected="a run of training, or a comparison with one"))
    return found


def in_motion(found: Alignment) -> FloatArray:
    """(T, H) cosines of neurons with their drives, NaN where a neuron is at rest."""
    driven = found.drive > _AT_REST * found.drive.max(axis=0, initial=0.0)
    return np.where(driven, found.cos_delta, np.nan)
