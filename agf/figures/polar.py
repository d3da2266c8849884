"""Neurons of two inputs in the plane: direction as angle, norm above a ring that stands for 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from agf import plot

#: Radius of the ring.
RING = 0.35


def neurons(ax: Any, theta: np.ndarray, inputs: np.ndarray, largest: float, crosses: bool = True) -> None:
    """Draw theta (m, 3) of a network on inputs (n, 2), in the color of the sign of a; each kind of mark has a label.

    largest : norm that reaches from the ring to the frame.  crosses : whether to mark the directions of the inputs.
    """
    size = np.linalg.norm(theta[:, :2], axis=1)
    kept = size > 0
    at = theta[kept, :2] / size[kept, None] * (RING + (0.95 - RING) * size[kept] / largest)[:, None]
    turn = np.linspace(0, 2 * np.pi, 181)
    ax.plot(RING * np.cos(turn), RING * np.sin(turn), color=plot.RULE, lw=0.6, label="ring: norm 0")
    for k, x in enumerate(inputs):
        unit, first = x / np.linalg.norm(x), "_" * bool(k)
        ax.plot(*np.outer([-unit[1], unit[0]], (-1.0, 1.0)), ":", color=plot.PALETTE[2], lw=0.8 if crosses else 0.3,
                label=first + "where an input switches")  # fmt: skip
        if crosses:
            ax.plot(*unit, "x", color="black", ms=4, label=first + "direction of an input")
    # Rings under dots: where neurons of both signs stand, both are seen.
    for sign, style in ((-1, {"color": plot.PREDICTED, "mfc": "none", "mew": 0.8, "ms": 4.5}),
                        (1, {"color": plot.PALETTE[3], "ms": 2.5})):  # fmt: skip
        ax.plot(*at[np.sign(theta[kept, 2]) == sign].T, "o", label=f"neuron of a {'>' if sign > 0 else '<'} 0", **style)
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xticks=[], yticks=[])
    ax.set_aspect("equal")
