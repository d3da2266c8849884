"""Capacity against the scale of the weights: four directions, or as many as there are neurons ([Pinson] figure 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.blobs import blobs, degrees, start
from agf.figures.figure import letter, subplots
from agf.results.comparison import Comparison

_RATE = 0.01
SCALES = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0)


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    width, steps = (40, 1000) if fast else (200, 6000)
    X, labels = blobs((2.0,) * 4, sd=0.2, each=20 if fast else 50)
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=width)
    figure, axes = subplots(1, 2, width=4.2, height=3.2)
    turned, capacity, change = [], [], []
    for scale in SCALES[:: 2 if fast else 1]:
        run = agf.descend(problem, start(width, 4, scale), lr=_RATE, momentum=0.9, steps=steps, snapshots=2)
        theta = run.params(-1)
        turned.append(degrees(theta))
        few = agf.merge(problem, theta)
        capacity.append(few.neurons)
        change.append(few.relative_change)
    scales = np.array(SCALES[:: 2 if fast else 1])
    for place, row in enumerate(turned):
        jitter = np.random.default_rng(0).uniform(-0.3, 0.3, row.size)
        axes[0, 0].plot(place + jitter, row, "o", ms=1.5, color=plot.OBSERVED, alpha=0.6)
    axes[0, 0].set(xticks=range(scales.size), xticklabels=[f"{scale:g}" for scale in scales], yticks=range(0, 361, 45),
                   xlabel="std of the initial weights", ylabel="direction of w, degrees",
                   title="neurons at the end")  # fmt: skip
    axes[0, 1].semilogx(scales, capacity, "o-", color=plot.PREDICTED)
    for scale, number, before in zip(scales, capacity, [None, *capacity], strict=False):
        if number != before:
            axes[0, 1].annotate(str(number), (scale, number), textcoords="offset points", xytext=(-3, 4), ha="right",
                                fontsize="small")  # fmt: skip
    axes[0, 1].set(xlabel="std of the initial weights", ylabel="neurons after merging", ylim=(0, 1.12 * width),
                   title="capacity")  # fmt: skip
    letter(axes)
    panels = {
        "directions": {"scale": scales, "degrees": np.array(turned)},
        "capacity": {"scale": scales, "neurons": np.array(capacity), "relative_change": np.array(change)},
    }
    settings = {"width": width, "steps": steps, "lr": _RATE, "momentum": 0.9, "distance": 2.0, "seed": 0,
                "cosine": 0.999, "neurons after merging": ", ".join(map(str, capacity))}  # fmt: skip
    return figure, panels, {}, settings
