"""Figure 7: ReLU networks of growing width on whitened digits; the staircase becomes a slide."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import datasets, plot
from agf.figures.figure import letter, shared_legend, subplots
from agf.results.comparison import Comparison


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    digits = datasets.load("digits")
    inputs = {name: digits[name][:: 4 if fast else 1] for name in ("X", "Y")}
    widths = (1, 3) if fast else (1, 3, 10, 50)
    alpha, horizon = 1e-10, 1500.0
    figure, axes = subplots(1, len(widths), width=2.9, height=2.7)
    panels: dict[str, dict[str, np.ndarray]] = {}
    reports = {}
    for ax, width in zip(axes[0], widths, strict=True):
        problem = agf.problem("relu", **inputs, width=width, scale="whiten", centre="targets")
        init = problem.init(alpha, seed=0)
        stairs = agf.predict(problem, init, t_max=horizon, mode="agf")
        flow = agf.flow(problem, init, t_max=horizon)
        resolved = agf.predict(problem, init, mode="resolved", t_max=horizon)
        reports[f"width {width}, agf"] = agf.compare(stairs, flow)
        reports[f"width {width}, resolved"] = agf.compare(resolved, flow)
        ax.plot(flow.times, flow.losses, color=plot.OBSERVED, lw=3, alpha=0.6, label="gradient flow")
        grid = np.linspace(0.0, horizon, 2000)
        ax.plot(grid, stairs.level(grid), color=plot.PREDICTED, lw=1.2, label="agf")
        ax.plot(grid, resolved.curve(grid), color="black", lw=1.0, ls="--", label="resolved")
        ax.set(
            title=f"width {width}",
            xlabel="flow time",
            ylabel="loss" if width == widths[0] else "",
            xlim=(0.35 * horizon, horizon),
            ylim=(0, 1.06 * stairs.start_level),
        )
        panels[f"width{width}"] = {
            "time": flow.times, "loss": flow.losses, "predicted_time": stairs.times, "predicted_level": stairs.levels,
            "resolved_time": resolved.curve_times, "resolved_loss": resolved.curve_losses,
        }  # fmt: skip
    shared_legend(figure, axes[0, 0])
    letter(axes)
    return (
        figure,
        panels,
        reports,
        {
            "alpha": alpha,
            "seed": 0,
            "widths": list(widths),
            "horizon": horizon,
            "data": "scikit-learn digits, whitened",
        },
    )
