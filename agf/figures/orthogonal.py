"""Early alignment with two classes: toy data of two inputs, and how separable they must be ([Min23] figures 6 to 9)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures import polar
from agf.figures.figure import letter, shared_legend, steps, subplots
from agf.results.comparison import Comparison

#: Norms of single weights at the start, and the learning rate whose steps the paper counts times in.
SCALE, RATE = 1e-6, 2e-3


def start(width: int, inputs: int, seed: int = 0) -> agf.Init:
    """Gaussian weights of both layers, the inner ones drawn first."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((width, inputs))
    return agf.Init.scaled(np.column_stack([w, rng.standard_normal(width)]), SCALE)


def circle(*degrees: float) -> np.ndarray:
    """Unit vectors (k, 2) at these angles."""
    turn = np.deg2rad(degrees)
    return np.column_stack([np.cos(turn), np.sin(turn)])


def at(run: agf.Trajectory, step: int) -> np.ndarray:
    """Parameters of a run after so many steps of `RATE`."""
    return run.params(int(np.argmin(np.abs(run.snapshot_times - step * RATE))))


def toy(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Three positives, one negative: neurons at three times, the loss with its two drops, alignment."""
    X, y = circle(20, 35, 50, 225), np.array([1.0, 1.0, 1.0, -1.0])
    width, end = 50, (30_000 if fast else 45_000)
    problem = agf.TwoLayer(X, y, loss="exponential", width=width)
    init = start(width, 2)
    flow = agf.flow(problem, init, t_max=end * RATE, snapshots=400)
    stairs = agf.predict(problem, init, t_max=end * RATE)
    along = agf.course(problem, flow)
    figure, axes = subplots(2, 3, width=2.9, height=2.6)
    panels: dict[str, dict[str, np.ndarray]] = {}
    for ax, step, words in zip(axes[0], (0, 6000, end), ("start", "aligned", "fitted"), strict=True):
        theta = at(flow, step)
        polar.neurons(ax, theta, X, float(np.linalg.norm(theta[:, :2], axis=1).max()))
        ax.set_title(f"{words}, t = {step * RATE:.3g}")
        panels[words] = {"theta": theta}
    loss, cosines, rank = axes[1]
    loss.plot(flow.times, flow.losses, color=plot.OBSERVED, label="flow")
    halves = np.array([drop.half_time for drop in stairs.drops])
    loss.plot(*steps(halves, stairs.levels, end * RATE), color=plot.PREDICTED, ls="--", label="prediction")
    loss.set(xlabel="flow time", ylabel="mean loss", xlim=(0, end * RATE), title="loss")
    loss.legend(frameon=False, fontsize="small")
    bands(cosines, along)
    rank.plot(along.times, along.stable_rank, color=plot.OBSERVED)
    rank.set(xlabel="flow time", ylabel="stable rank of W", xlim=(0, end * RATE), ylim=(0.9, 2.2), title="rank")
    panels["course"] = {"time": along.times, "means": along.means, "rank": along.stable_rank, "own": along.own_cone}
    panels["loss"] = {"time": flow.times, "loss": flow.losses}
    shared_legend(figure, axes[0, 0])
    letter(axes)
    return figure, panels, {"toy": agf.compare(stairs, flow)}, {"width": width, "scale": SCALE, "lr": RATE, "seed": 0}


def bands(ax: Any, along: agf.Course) -> None:
    """Cosines to the class sums: of the summed neurons of either sign, with smallest and largest of one neuron."""
    for column, sign, color in ((0, 1, plot.OBSERVED), (1, -1, plot.PREDICTED)):
        which = f"a {'>' if sign > 0 else '<'} 0"
        ax.fill_between(along.times, along.smallest(sign), along.largest(sign), color=color, alpha=0.2, lw=0,
                        label=f"{which}, every neuron")  # fmt: skip
        ax.plot(along.times, along.means[:, column], color=color, label=f"{which}, their sum")
    ax.set(xlabel="flow time", ylabel="cosine to class sum", xlim=(0, along.times[-1]), ylim=(-1.05, 1.05),
           title="alignment")  # fmt: skip
    ax.legend(frameon=False, fontsize="x-small", loc="lower right")


def separability(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Two positives at a right angle less s: how long neurons stand at single samples grows as log(1/s)."""
    gaps, moments, width = (0.1, 1e-3, 0.0), (2000, 7000, 21_000), 50
    figure, axes = subplots(len(gaps), len(moments), width=2.4, height=2.4)
    panels: dict[str, dict[str, np.ndarray]] = {}
    outside: dict[str, list[int]] = {}
    for row, gap in zip(axes, gaps, strict=True):
        X = np.array([[1.0, 0.0], [np.sin(gap), np.cos(gap)]])
        problem = agf.TwoLayer(X, np.ones(2), loss="exponential", width=width, kink=0)
        last = moments[-2] if fast else moments[-1]
        flow = agf.flow(problem, start(width, 2), t_max=last * RATE, snapshots=400)
        counts = []
        for ax, step in zip(row, moments, strict=True):
            theta = at(flow, min(step, last))
            polar.neurons(ax, theta, X, float(np.linalg.norm(theta[:, :2], axis=1).max()))
            seen = theta[:, :2] @ X.T > 0
            live = (theta[:, 2] > 0) & seen.any(axis=1)
            counts.append(int((live & ~seen.all(axis=1)).sum()))
            ax.set_title(f"s = {gap:g}, step {min(step, last)}:\n{counts[-1]} of {int(live.sum())} outside",
                         fontsize="small")  # fmt: skip
            panels[f"s{gap:g}-step{step}"] = {"theta": theta}
        outside[f"{gap:g}"] = counts
    shared_legend(figure, axes[0, 0])
    letter(axes)
    return figure, panels, {}, {"width": width, "scale": SCALE, "lr": RATE, "seed": 0, "outside": outside}
