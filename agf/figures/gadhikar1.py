"""The fate of one neuron: by the signs and sizes of its weights, and by how long it may turn ([GB24] figure 1)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, subplots
from agf.figures.one_neuron import SUCCEEDED, many_learn, teacher
from agf.results.comparison import Comparison

#: Opacity of what the law says. Setting: of pictures.
_PALE = 0.35
#: Flow time over d of the restart in (b): long, so that it is the dense training that decides.
_RESTART = 40.0


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    figure, axes = subplots(1, 2, width=3.9, height=3.4)
    plane, turning = axes[0]
    edge = np.linspace(-1.5, 1.5, 6 if fast else 10)
    outer = 0.93 * edge  # none of them on the diagonal, which is where the two fates meet
    found = np.array([[_one_input(a, w) for w in edge] for a in outer])
    grid = np.linspace(-1.6, 1.6, 321)
    w, a = np.meshgrid(grid, grid)
    _painted(plane, grid, grid, (w > 0) & ((a > 0) | (np.abs(w) > np.abs(a))))
    _dotted(plane, *np.meshgrid(edge, outer), found)
    plane.axhline(0, color="black", lw=0.6)
    plane.axvline(0, color="black", lw=0.6)
    plane.set(xlabel=r"$w_0$", ylabel=r"$a_0$", title="one input", xlim=(-1.6, 1.6), ylim=(-1.6, 1.6))
    plane.set_aspect("equal")
    inputs = 2
    theory = teacher(inputs).theory()
    angles, times = np.linspace(1.7, 3.0, 7 if fast else 14), np.geomspace(1.0, 30.0, 5 if fast else 10)
    starts = np.stack([np.cos(angles), np.sin(angles), np.ones(angles.size)], axis=1)
    ends = np.array([many_learn(starts, "lrr", T * inputs, after=_RESTART * inputs) for T in times])
    fine, late = np.linspace(1.6, 3.1, 201), np.geomspace(0.8, 40.0, 201)

    def flips_at(angles: np.ndarray) -> np.ndarray:
        return np.array([theory.flip_time(angle) / inputs for angle in angles])

    flips = flips_at(fine)
    _painted(turning, fine, late, flips[None] < late[:, None])
    _dotted(turning, *np.meshgrid(angles, times), ends)
    turning.set(xlabel="angle to the teacher at the start, radians",
                ylabel="dense training, flow time over d", yscale="log",
                title="two inputs, LRR with the right mask", xlim=(1.6, 3.1), ylim=(0.8, 40.0))  # fmt: skip
    handles = [turning.plot([], [], mark, color="black", mfc=fill, ms=4, ls="")[0] for mark, fill in
               (("o", "black"), ("o", "white"))]  # fmt: skip
    handles += turning.fill([], [], color=plot.PALETTE[2], alpha=_PALE)
    words = ["run that learns", "run that fails", "learns, by the law"]
    figure.legend(handles, words, loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    letter(axes)
    panels = {
        "one-input": {"w": edge, "a": outer, "learns": found},
        "two-inputs": {"angle": angles, "time": times, "learns": ends, "flip_angle": fine, "flip_time": flips},
    }
    w, a = np.meshgrid(edge, outer)
    agree = found == ((w > 0) & ((a > 0) | (w > -a)))
    turned = ends == (flips_at(angles) < times[:, None])
    return figure, panels, {}, {
        "one input: dots as the law has it": float(agree.mean()),
        "two inputs: dots as the law has it": float(turned.mean()), "a0 with two inputs": 1.0,
    }  # fmt: skip


def _one_input(a: float, w: float) -> bool:
    """Whether descent from (w, a) ends at the teacher."""
    problem = teacher(1)
    theta = np.array([[w, a]])
    run = agf.descend(problem, agf.Init.from_params(theta), lr=0.6, steps=120, snapshots=2)
    return bool(run.losses[-1] < SUCCEEDED * 0.25)


def _painted(ax: Any, x: np.ndarray, y: np.ndarray, learned: np.ndarray) -> None:
    """Where the law has it learn, in colour."""
    ax.contourf(x, y, learned.astype(float), levels=[-0.5, 0.5, 1.5], colors=["white", plot.PALETTE[2]], alpha=_PALE)


def _dotted(ax: Any, x: np.ndarray, y: np.ndarray, learned: np.ndarray) -> None:
    """Runs: full where they learn."""
    ax.plot(x[learned], y[learned], "o", color="black", ms=3)
    ax.plot(x[~learned], y[~learned], "o", color="black", mfc="white", ms=3, mew=0.7)
