"""Three points that a ReLU network of any width fits by a line from small weights ([BF24] figure 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures import polar
from agf.figures.figure import letter, shared_legend, subplots
from agf.results.comparison import Comparison

#: Inputs (the second is 1, for a hidden bias), labels; flow times that are drawn.
X = np.array([[-0.75, 1.0], [-0.5, 1.0], [0.125, 1.0]])
Y = np.array([1.1, 0.1, 0.8])
TIMES = (0.0, 8.0, 12.0, 150.0)


def start(width: int, scale: float, seed: int = 0) -> agf.Init:
    """Balanced neurons of either sign in random directions, of scale lambda / sqrt(m)."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((width, 2))
    a = rng.choice([-1.0, 1.0], width) * np.linalg.norm(w, axis=1)
    return agf.Init.scaled(np.column_stack([w, a]) / np.sqrt(width), scale)


def name_rows(axes: np.ndarray) -> None:
    """Functions above, neurons below."""
    axes[0, 0].set_ylabel("function h(x)")
    axes[1, 0].set_ylabel("neurons: direction of w,\nnorm above the ring")


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    width, scale = (30 if fast else 200), 1e-3
    problem = agf.TwoLayer(X, Y, width=width)
    init = start(width, scale)
    flow = agf.flow(problem, init, t_max=TIMES[-1], snapshots=400)
    stairs = agf.predict(problem, init)
    figure, axes = subplots(2, len(TIMES), width=2.9, height=2.8)
    grid = np.linspace(-1.2, 0.6, 181)
    inputs = np.column_stack([grid, np.ones(grid.size)])
    panels: dict[str, dict[str, np.ndarray]] = {}
    moments = [int(np.argmin(np.abs(flow.snapshot_times - time))) for time in TIMES]
    largest = max(float(np.linalg.norm(flow.params(k)[:, :2], axis=1).max()) for k in moments)
    for column, time, k in zip(axes.T, TIMES, moments, strict=True):
        theta = flow.params(k)
        values = np.maximum(inputs @ theta[:, :2].T, 0.0) @ theta[:, 2]
        column[0].plot(grid, values, color=plot.PREDICTED, label="network")
        column[0].plot(X[:, 0], Y, ".", color="black", label="samples")
        column[0].set(ylim=(-0.2, 1.4), xlabel="x", title=f"t = {flow.snapshot_times[k]:.3g}")
        polar.neurons(column[1], theta, X, largest)
        panels[f"time{time:g}"] = {"x": grid, "h": values, "theta": theta}
    name_rows(axes)
    shared_legend(figure, *axes[:, 0])
    letter(axes)
    reports = {"three points": agf.compare(stairs, flow)}
    end = agf.escape(problem, flow).sentence
    settings = {"width": width, "lambda": scale, "seed": 0, "times": list(TIMES), "end": end}
    return figure, panels, reports, settings
