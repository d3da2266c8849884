"""How small is small: the loss at the end against the scale of the weights, by flow and by prediction ([BF24])."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, shared_legend, subplots
from agf.figures.two_edged import X, Y, start
from agf.results.comparison import Comparison

DATA = {
    "three points": (X, Y),
    "assumption 3 holds": (np.array([[-0.9, 1.0], [0.0, 1.0], [0.9, 1.0]]), np.array([1.0, 0.1, 1.1])),
    "nearly opposite": (np.array([[-0.99, 1.0], [0.0, 1.0], [0.99, 1.0]]), np.array([1.0, 0.01, 1.0])),
}


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    scales = (1e-4, 0.3) if fast else (1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
    figure, axes = subplots(1, len(DATA), width=3.2, height=2.7)
    panels: dict[str, dict[str, np.ndarray]] = {}
    highest = 0.0
    reports: dict[str, Comparison] = {}
    for ax, (name, (inputs, labels)) in zip(axes[0], DATA.items(), strict=True):
        problem = agf.TwoLayer(inputs, labels, width=20)
        level = problem.theory().levels[-1]
        highest = max(highest, level)
        observed, predicted, verdicts = [], [], []
        for scale in scales:
            init = start(20, scale)
            flow = agf.flow(problem, init, t_max=2000.0)
            stairs = agf.predict(problem, init) if scale <= _LARGEST else None
            observed.append(float(flow.losses[-1]))
            predicted.append(np.nan if stairs is None else float(stairs.levels[-1]))
            verdicts.append(agf.escape(problem, flow).verdict)
            if stairs is not None:
                reports.setdefault(f"{name}, lambda = {scale:g}", agf.compare(stairs, flow))
        ax.axhline(level, color=plot.RULE, ls=":", label="theory, scale to 0")
        ax.semilogx(scales, observed, "o", color=plot.OBSERVED, alpha=0.55, ms=9, label="gradient flow")
        ax.semilogx(scales, predicted, "x", color=plot.PREDICTED, label="prediction, where weights are small")
        ax.set(xlabel=r"scale $\lambda$ of the weights", ylabel="loss at the end", title=name)
        key = name.replace(" ", "-")
        panels[key] = {
            "scale": np.array(scales), "flow": np.array(observed), "predicted": np.array(predicted),
            "verdict": np.array(verdicts),
        }  # fmt: skip
    for ax in axes[0]:
        ax.set_ylim(-0.06 * highest, 1.1 * highest)
    shared_legend(figure, axes[0, 0])
    letter(axes)
    return figure, panels, reports, {"scales": list(scales), "width": 20, "seed": 0}


#: Scale above which weights are no longer small, and nothing is predicted.
_LARGEST = 0.05
