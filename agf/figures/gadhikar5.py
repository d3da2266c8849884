"""Which signs flip, and when: continuing, going back to an early moment, and to the start ([GB24] figure 5)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, subplots
from agf.figures.pruned_digits import setting
from agf.results.comparison import Comparison

METHODS = ("lrr", "wr", "imp")
#: Cycles whose flips are in the table.
COUNTED = (3, 5, 8)


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    cycles, steps = (4, 30) if fast else (10, 120)
    problem, init, accuracy = setting(fast)
    how: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "batch_size": 64, "steps": steps}
    figure, axes = subplots(1, 3, width=3.3, height=3.2)
    flips, share, scores = axes[0]
    panels: dict[str, dict[str, np.ndarray]] = {}
    said: dict[str, str] = {}
    ends: list[float] = []
    for k, method in enumerate(METHODS):
        run = agf.rewind(problem, init, method=method, cycles=cycles, train=how, score=accuracy,
                         rewind=0.3 * steps if method == "wr" else 0.0)  # fmt: skip
        signs, at = run.signs(), np.arange(cycles + 1)
        color = plot.PALETTE[k]
        flips.plot(at, signs.flips, "o-", ms=3, color=color, label=method.upper())
        share.plot(at, 100 * signs.flips / run.masks.sum(axis=(1, 2)), "o-", ms=3, color=color)
        scores.plot(100 * (1 - run.left), run.scores, "o-", ms=3, color=color)
        ends.append(float(run.scores[-1]))
        listed = ", ".join(str(signs.flips[i]) for i in COUNTED if i <= cycles)
        said[method.upper()] = f"flips {listed}; accuracy {run.scores[-1]:.3f}"
        panels[method] = {"flips": signs.flips, "last_change": signs.last_change, "switches": signs.switches,
                          "accuracy": run.scores, "left": run.left}  # fmt: skip
    flips.set(xlabel="cycle", ylabel="weights of another sign", ylim=(0, None), title="flipped since the start")
    flips.legend(frameon=False, fontsize="small")
    share.set(xlabel="cycle", ylabel="% of the weights left", ylim=(0, None), title="their share")
    scores.set(
        xlabel="weights pruned, %",
        ylabel="test accuracy",
        title="accuracy",
        ylim=(np.floor(20 * min(ends)) / 20 - 0.05, 1.0),
    )
    letter(axes)
    settings = {"data": "digits (in place of CIFAR-10)", "network": f"64-{problem.width}-10", "cycles": cycles,
                "keep": 0.8, "steps": steps, "lr": 0.1, "momentum": 0.9, "batch": 64, "seed": 0,
                "flips at cycles": ", ".join(str(i) for i in COUNTED if i <= cycles), **said}  # fmt: skip
    return figure, panels, {}, settings
