"""What competes: utilities of ReLU neurons on the circle and on the sphere ([BF24] extremal vectors)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, shared_legend, subplots
from agf.figures.two_edged import X, Y, start
from agf.results.comparison import Comparison

FOUR = np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6])
FIVE = (
    np.array([[1, 0.2, -0.1], [0.3, 1, 0.4], [-1, 0.5, 0.2], [-0.4, -1, 0.6], [0.1, 0.3, -1]]),
    np.array([1, -0.8, 1.2, 0.6, 0.9]),
)


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    three = agf.TwoLayer(X, Y, width=20)
    flow = agf.flow(three, start(20, 1e-3), t_max=150.0)
    stairs = agf.predict(three, start(20, 1e-3))
    figure, axes = subplots(2, 2, width=4.2, height=3.0)
    found = {
        "three": agf.landscape(three, at="three points, empty network"),
        "four": agf.landscape(agf.TwoLayer(*FOUR), at="four points"),
        "after": agf.escape(three, flow).landscape,
        "five": agf.landscape(agf.TwoLayer(*FIVE), at="five points in three dimensions"),
    }
    panels: dict[str, dict[str, np.ndarray]] = {}
    for ax, (name, seen) in zip(axes.flat, found.items(), strict=True):
        plot.landscape(seen, ax=ax)
        panels[name] = {"directions": seen.directions, "utilities": seen.utilities, "kinds": np.array(seen.kinds)}
    low, high = np.array([ax.get_ylim() for ax in axes[0]]).T
    for ax in axes[0]:
        ax.set_ylim(low.min(), high.max())
    axes[1, 0].set(title="three points, end of the flow")
    shared_legend(figure, *axes.flat, columns=4)
    letter(axes)
    counts = {name: {kind: seen.count(kind) for kind in sorted(set(seen.kinds))} for name, seen in found.items()}
    return figure, panels, {"three points": agf.compare(stairs, flow)}, {"fast": fast, "kinds": counts}
