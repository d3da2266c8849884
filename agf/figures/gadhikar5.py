"""Which signs flip, when and how often: going on, back to an early moment, to the start ([GB24] figures 5 and 14)."""

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
    train = {"lr": 0.1, "momentum": 0.9, "batch_size": 64, "steps": steps}
    figure, axes = subplots(1, 3, width=3.3, height=3.2)
    flips, last, often = axes[0]
    panels: dict[str, dict[str, np.ndarray]] = {}
    said: dict[str, str] = {}
    at = np.arange(cycles + 1)
    for k, method in enumerate(METHODS):
        how: dict[str, Any] = {"method": method, "cycles": cycles, "train": train, "score": accuracy,
                               "rewind": 0.3 * steps if method == "wr" else 0.0}  # fmt: skip
        run = agf.rewind(problem, init, **how)
        signs, color = run.signs(), plot.PALETTE[k]
        share = 100 * signs.flips / run.masks.sum(axis=(1, 2))
        flips.plot(at, share, "o-", ms=3, color=color, label=method.upper())
        drawn = agf.rewind(problem, init, by="random", **how)
        back = drawn.signs()
        changed = back.switches > 0  # of all others the last change is at no cycle
        for ax, counted in ((last, back.last_change[changed]), (often, back.switches)):
            ax.bar(at + 0.27 * (k - 1), 100 * np.bincount(counted, minlength=at.size)[: at.size] / changed.size, 0.25,
                   color=color)  # fmt: skip
        listed = ", ".join(str(signs.flips[i]) for i in COUNTED if i <= cycles)
        said[method.upper()] = f"flips {listed}; accuracy {run.scores[-1]:.3f}"
        said[f"{method.upper()}, random masks"] = (
            f"{back.switches.mean():.2f} changes a weight; accuracy {drawn.scores[-1]:.3f}"
        )
        panels[method] = {"flips": signs.flips, "last_change": signs.last_change, "switches": signs.switches,
                          "accuracy": run.scores, "left": run.left}  # fmt: skip
        panels[f"{method}-random"] = {"flips": back.flips, "last_change": back.last_change, "switches": back.switches,
                                      "accuracy": drawn.scores, "left": drawn.left}  # fmt: skip
    flips.set(xlabel="cycle", ylabel="% of the weights left", ylim=(0, None), title="flipped, magnitude masks")
    flips.legend(frameon=False, fontsize="small")
    last.set(xlabel="cycle", ylabel="% of the last weights", title="last change, random masks")
    often.set(xlabel="changes of sign", ylabel="% of the last weights", title="how often, random masks")
    letter(axes)
    settings = {"data": "digits (in place of CIFAR-10)", "network": f"64-{problem.width}-10", "cycles": cycles,
                "keep": 0.8, "steps": steps, "lr": 0.1, "momentum": 0.9, "batch": 64, "seed": 0,
                "flips at cycles": ", ".join(str(i) for i in COUNTED if i <= cycles), **said}  # fmt: skip
    return figure, panels, {}, settings
