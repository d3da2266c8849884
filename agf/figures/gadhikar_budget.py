"""Random masks: continuing gains over restarting mostly by training time ([GB24] figure 2b, with the budget)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, subplots
from agf.figures.pruned_digits import setting
from agf.results.comparison import Comparison

#: Name in the legend -> options of `agf.rewind`; WR goes back to a fifth of the first training.
PIPELINES: dict[str, dict[str, Any]] = {
    "LRR": {"method": "lrr"},
    "WR": {"method": "wr"},
    "IMP": {"method": "imp"},
    "WR, as long as LRR": {"method": "wr", "budget": "equal"},
    "IMP, as long as LRR": {"method": "imp", "budget": "equal"},
}
_EARLY = 0.2


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    cycles, steps, seeds = (4, 20, 1) if fast else (10, 40, 3)
    problem, _, accuracy = setting(fast)
    lr, momentum = 0.1, 0.9
    how: dict[str, Any] = {"lr": lr, "momentum": momentum, "batch_size": 64, "steps": steps}
    figure, axes = subplots(1, 2, width=3.8, height=2.9)
    panels: dict[str, dict[str, np.ndarray]] = {}
    ends = {}
    for name, options in PIPELINES.items():
        early = _EARLY * steps * lr / (1 - momentum) if options["method"] == "wr" else 0.0
        runs = [
            agf.rewind(problem, setting(fast, seed)[1], cycles=cycles, by="random", train={**how, "seed": seed},
                       seed=seed, score=accuracy, rewind=early, **options)
            for seed in range(seeds)
        ]  # fmt: skip
        scores, left = np.array([run.scores for run in runs]), runs[0].left
        equal = options["method"] == "lrr" or "budget" in options
        trained = steps * (np.arange(cycles + 1) + 1 if equal else np.ones(cycles + 1))
        color = plot.PALETTE[("lrr", "wr", "imp").index(options["method"])]
        look: dict[str, Any] = {"color": color, "ls": "--" if "budget" in options else "-",
                                "mfc": "white" if "budget" in options else color}  # fmt: skip
        pruned = 100 * (1 - left)
        axes[0, 0].plot(pruned, scores.mean(axis=0), "o", ms=3, label=name, **look)
        if seeds > 1:
            axes[0, 0].vlines(pruned, scores.min(axis=0), scores.max(axis=0), color=color, lw=0.8)
        axes[0, 1].plot(trained, scores.mean(axis=0), "o", ms=4, **{**look, "ls": ""})
        key = options["method"] + ("-equal" if "budget" in options else "")
        panels[key] = {"accuracy": scores, "left": left, "steps": trained}
        ends[name] = ", ".join(f"{score:.3f}" for score in scores[:, -1])
    axes[0, 0].set(xlabel="weights pruned at random, %", ylabel="test accuracy", title="by sparsity")
    axes[0, 1].set(xlabel="steps of training behind the weights", ylabel="test accuracy", title="by time")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False,
                  fontsize="small")  # fmt: skip
    letter(axes)
    settings = {"data": "digits (in place of CIFAR-10)", "network": f"64-{problem.width}-10", "cycles": cycles,
                "keep": 0.8, "steps": steps, "lr": lr, "momentum": momentum, "batch": 64,
                "seeds": seeds, "back to": f"step {round(_EARLY * steps)}",
                **{f"accuracy at the end, {name}": end for name, end in ends.items()}}  # fmt: skip
    return figure, panels, {}, settings
