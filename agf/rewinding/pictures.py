"""Pictures of signs: when weights changed theirs, and how large their neurons were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.contract.problem import Problem
from agf.pictures.axes import PALETTE, new_axes, say
from agf.pictures.ticks import log_time
from agf.results.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def signs(run: Trajectory, *, ax: Axes | None = None, problem: Problem | None = None) -> Axes:
    """Every change of sign: flow time against the norm of its neuron, input and output weights in two colours."""
    ax = new_axes() if ax is None else ax
    total = 0
    for kind, color, mark in (("inner", PALETTE[0], "o"), ("outer", PALETTE[1], "^")):
        found = run.flips(kind, problem)
        total += len(found)
        norms = [flip.log_norm / np.log(10) for flip in found.flips]
        words = "input" if kind == "inner" else "output"
        ax.plot(found.times, norms, mark, color=color, markersize=4, label=f"{words} weights: {len(found)}")
    if total:
        log_time(ax)
    else:
        say(ax, "no weight changed its sign")
    ax.set(xlabel="flow time", ylabel="log10 of the neuron's norm")
    ax.legend(fontsize="x-small")
    return ax
