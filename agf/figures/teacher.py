"""Forty points of a piecewise linear function that a wide ReLU network fits by three neurons ([BF24] figure 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures import polar
from agf.figures.figure import letter, shared_legend, subplots
from agf.figures.two_edged import name_rows, start
from agf.results.comparison import Comparison

#: Knots of the function: seven kinks, so that eight ReLU units make it.
KNOTS = (-1, -0.7, -0.55, -0.4, 0, 0.5, 0.6, 0.7, 1), (0, 0.7, 0.5, 1, 0, 1, 0.6, 0.7, 0)
#: Flow times drawn, in half-drop times: before the first drop, between the two, in the middle of the second, after it.
_TIMES = ((0, 0.5), (0, 8.0), (1, 1.0), (1, 2.5))


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    width, scale = (20 if fast else 100), 1e-3
    x = np.random.default_rng(0).uniform(-1, 1, 40)
    X, y = np.column_stack([x, np.ones(40)]), np.interp(x, *KNOTS)
    problem = agf.TwoLayer(X, y, width=width)
    init = start(width, scale)
    stairs = agf.predict(problem, init, max_drops=2)
    halves = [drop.half_time for drop in stairs.drops]
    times = [factor * halves[k] for k, factor in _TIMES]
    flow = agf.flow(problem, init, t_max=times[-1], snapshots=600)
    figure, axes = subplots(2, len(times), width=2.9, height=2.8)
    grid = np.linspace(-1.0, 1.0, 201)
    inputs = np.column_stack([grid, np.ones(grid.size)])
    chosen = [int(np.argmin(np.abs(flow.snapshot_times - time))) for time in times]
    largest = max(float(np.linalg.norm(flow.params(k)[:, :2], axis=1).max()) for k in chosen)
    panels: dict[str, dict[str, np.ndarray]] = {}
    for number, (column, k) in enumerate(zip(axes.T, chosen, strict=True)):
        theta = flow.params(k)
        values = np.maximum(inputs @ theta[:, :2].T, 0.0) @ theta[:, 2]
        column[0].plot(grid, np.interp(grid, *KNOTS), color=plot.RULE, lw=0.8, label="function to learn")
        column[0].plot(x, y, ".", color="black", ms=3, label="samples")
        column[0].plot(grid, values, color=plot.PREDICTED, label="network")
        column[0].set(ylim=(-0.15, 1.2), xlabel="x", title=f"t = {flow.snapshot_times[k]:.4g}")
        polar.neurons(column[1], theta, X, largest, crosses=False)
        panels[f"time{number}"] = {"x": grid, "h": values, "theta": theta, "time": np.array(flow.snapshot_times[k])}
    name_rows(axes)
    shared_legend(figure, *axes[:, 0])
    letter(axes)
    settings = {"width": width, "lambda": scale, "seed": 0, "end": agf.escape(problem, flow).sentence}
    return figure, panels, {"forty points": agf.compare(stairs, flow)}, settings
