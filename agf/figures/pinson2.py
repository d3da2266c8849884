"""Four blobs at four distances: four groups of neurons, four drops ([Pinson] figure 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.blobs import DISTANCES, blobs, degrees, start
from agf.figures.figure import letter, rules, subplots
from agf.results.comparison import Comparison


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    width, scale, horizon = (30 if fast else 120), 1e-4, 60.0
    X, labels = blobs(tuple(DISTANCES.values()), each=20 if fast else 50)
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=width)
    init = start(width, 4, scale, seed=2)  # no neuron joins beside the end of a drop
    flow = agf.flow(problem, init, t_max=horizon, snapshots=200)
    stairs = agf.predict(problem, init, t_max=horizon)
    report = agf.compare(stairs, flow)
    figure, axes = subplots(1, 3, width=3.6, height=3.0)
    loss, turn, norms = axes[0]
    times = np.linspace(0.0, horizon, 600)
    loss.plot(times, flow.loss_at(times), color=plot.OBSERVED, label="gradient flow")
    loss.plot(stairs.curve_times, stairs.curve_losses, "--", color=plot.PREDICTED, label="prediction")
    rules(loss, stairs.half_times[1:], "half-drop times")
    loss.set(xlabel="flow time", ylabel="loss", xlim=(0, horizon), ylim=(0, None), title="loss")
    loss.legend(frameon=False, fontsize="small")
    theta = np.array([flow.params(k) for k in range(flow.snapshot_times.size)])
    turned, at = degrees(theta), flow.snapshot_times
    last = turned[-1]
    for k, (angle, distance) in enumerate(DISTANCES.items()):
        mine = np.abs((last - angle + 180) % 360 - 180) < 15
        color = plot.PALETTE[k]
        lines = np.where(np.abs(np.diff(turned[:, mine], axis=0, prepend=np.nan)) > 90, np.nan, turned[:, mine])
        turn.plot(at, lines, color=color, lw=0.5)
        size = flow.log_norms[:, mine] / np.log(10)
        norms.plot(at, size, color=color, lw=0.5)
        norms.plot([], [], color=color, label=f"blob at {distance:g}")
    turn.set(xlabel="flow time", ylabel="direction of w, degrees", yticks=range(0, 361, 45), xlim=(0, horizon),
             title="directions")  # fmt: skip
    norms.set(xlabel="flow time", ylabel="log10 of the norm of a neuron", xlim=(0, horizon), title="norms")
    norms.legend(frameon=False, fontsize="small")
    letter(axes)
    panels = {
        "loss": {"t": times, "flow": flow.loss_at(times), "predicted_t": stairs.curve_times,
                 "predicted": stairs.curve_losses},
        "neurons": {"t": at, "degrees": turned, "log_norms": flow.log_norms},
    }  # fmt: skip
    settings = {"width": width, "std": scale, "distances": list(DISTANCES.values()), "seed": 2}
    return figure, panels, {"four blobs": report}, settings
