"""Pictures of signs, when weights changed theirs, and of pipelines, cycle by cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.contract.problem import Problem
from agf.pictures.axes import OBSERVED, PALETTE, RULE, new_axes, plain, save, say
from agf.pictures.ticks import log_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from agf.results.flips import Flips
    from agf.results.rewinding import Rewinding
    from agf.results.trajectory import Trajectory

__all__ = ["cycles", "flips", "save", "signs"]


def signs(run: Trajectory, *, ax: Axes | None = None, problem: Problem | None = None) -> Axes:
    """Every change of sign: flow time against the norm of its neuron, input and output weights in two colours."""
    ax = new_axes() if ax is None else ax
    return _drawn(ax, [(run.flips(kind, problem), name) for kind, name in (("inner", "input"), ("outer", "output"))])


def flips(found: Flips, *, ax: Axes | None = None) -> Axes:
    """The same of one kind of weights."""
    ax = new_axes() if ax is None else ax
    return _drawn(ax, [(found, {"inner": "input", "outer": "output"}.get(found.kind, "all"))])


def _drawn(ax: Axes, kinds: list[tuple[Flips, str]]) -> Axes:
    for (found, name), color, mark in zip(kinds, PALETTE, "o^", strict=False):
        norms = [flip.log_norm / np.log(10) for flip in found.flips]
        ax.plot(found.times, norms, mark, color=color, markersize=4, label=f"{name} weights: {len(found)}")
    if any(len(found) for found, _ in kinds):
        log_time(ax)
    else:
        say(ax, "no weight changed its sign")
    ax.set(xlabel="flow time", ylabel="log10 of the neuron's norm")
    ax.legend(fontsize="x-small")
    return ax


def cycles(run: Rewinding, *, ax: Axes | None = None) -> Axes:
    """Score, accuracy or loss of every cycle, the first that is known, over what was pruned; and signs that flipped."""
    ax = new_axes() if ax is None else ax
    known = [("score", run.scores), ("accuracy", run.accuracies), ("loss", run.losses)]
    name, values = next(((n, v) for n, v in known if np.isfinite(v).any()), known[-1])
    pruned = 100 * (1 - run.left)
    ax.plot(pruned, values, "o-", ms=4, color=OBSERVED)
    ax.set(
        xlabel="weights pruned, %", ylabel=name, title=f"{str(run.settings['method']).upper()} on {plain(run.problem)}"
    )
    if not np.isfinite(values).any():
        say(ax, "no loss is known")
    other = ax.twinx()
    other.plot(pruned, run.signs().flips, "^--", ms=3, lw=0.8, color=RULE)
    other.set(ylim=(0, None))
    other.set_ylabel("weights of another sign than at the start", color=RULE)
    return ax
