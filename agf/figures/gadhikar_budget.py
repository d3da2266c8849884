"""Random masks: continuing gains over restarting mostly by training time ([GB24] figure 2b, with the budget)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, subplots
from agf.figures.pruned_digits import setting
from agf.results.comparison import Comparison

#: Name in the legend -> options of `agf.rewind`.
PIPELINES: dict[str, dict[str, Any]] = {
    "LRR": {"method": "lrr"},
    "IMP": {"method": "imp"},
    "IMP, trained as long as LRR": {"method": "imp", "budget": "equal"},
}


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    cycles, steps = (4, 20) if fast else (10, 40)
    problem, init, accuracy = setting(fast)
    how: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "batch_size": 64, "steps": steps}
    figure, axes = subplots(1, 2, width=3.8, height=2.9)
    panels: dict[str, dict[str, np.ndarray]] = {}
    ends = {}
    for k, (name, options) in enumerate(PIPELINES.items()):
        run = agf.rewind(problem, init, cycles=cycles, by="random", train=how, score=accuracy, **options)
        trained = np.arange(cycles + 1) + 1 if name != "IMP" else np.ones(cycles + 1)
        axes[0, 0].plot(100 * (1 - run.left), run.scores, "o-", ms=3, color=plot.PALETTE[k], label=name)
        axes[0, 1].plot(steps * trained, run.scores, "o", ms=4, color=plot.PALETTE[k])
        panels[name.split(",")[0].lower() + ("-equal" if "," in name else "")] = {
            "accuracy": run.scores, "left": run.left, "steps": steps * trained}  # fmt: skip
        ends[name] = float(run.scores[-1])
    axes[0, 0].set(xlabel="weights pruned at random, %", ylabel="test accuracy", title="by sparsity")
    axes[0, 1].set(xlabel="steps of training behind the weights", ylabel="test accuracy", title="by time")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False,
                  fontsize="small")  # fmt: skip
    letter(axes)
    settings = {"data": "digits (in place of CIFAR-10)", "network": f"64-{problem.width}-10", "cycles": cycles,
                "keep": 0.8, "steps": steps, "lr": 0.1, "momentum": 0.9, "batch": 64, "seed": 0,
                **{f"accuracy at the end, {name}": end for name, end in ends.items()}}  # fmt: skip
    return figure, panels, {}, settings
