"""Silent alignment, the law of norm against angle, and final norms known before training ([Pinson] figure 1).

Digits 0 and 3 against 1 and 2 stand in for CIFAR-10.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, subplots
from agf.results.comparison import Comparison

#: Flow times of the scatters: the start, and two moments of the plateau (updates 250 and 500 of the paper).
TIMES = (0.0, 2.5, 5.0)


def setting(each: int, width: int) -> tuple[agf.TwoLayer, agf.Init]:
    """Digits, `each` of a kind, raw pixels; all weights N(0, 1e-8), hidden biases at zero."""
    data = agf.datasets.load("digits")
    labels = np.asarray(data["labels"])
    rows = np.concatenate([np.flatnonzero(labels == k)[:each] for k in (0, 3, 1, 2)])
    problem = agf.TwoLayer(
        np.asarray(data["X"])[rows], np.isin(labels[rows], (0, 3)), loss="cross-entropy", width=width, bias="hidden"
    )
    scale = 1e-4
    theta = scale * np.random.default_rng(0).standard_normal((width, problem.n_params))
    theta[:, problem.n_inputs - 1] = 0.0
    return problem, agf.Init.from_params(theta, alpha=scale)


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    each, width, lr, steps = (15, 40, 1e-2, 400) if fast else (50, 250, 2e-3, 4000)
    problem, init = setting(each, width)
    run = agf.descend(problem, init, lr=lr, momentum=0.9, batch_size=4, steps=steps, snapshots=100)
    tickets = agf.tickets(problem, init, until=float(run.snapshot_times[-1]))
    d = problem.n_inputs
    final = _product(run.params(-1), d)
    figure, axes = subplots(2, 3, width=3.3, height=2.7)
    axes[1, 0].semilogx(run.times, run.losses, color=plot.OBSERVED, lw=0.8, label="descent")
    axes[1, 0].set(xlabel="flow time", ylabel="loss", ylim=(0, 0.75))
    axes[1, 0].set_title("loss", fontsize="medium")
    axes[1, 0].legend(frameon=False, fontsize="small", loc="lower left")
    panels: dict[str, dict[str, np.ndarray]] = {"loss": {"t": run.times, "loss": run.losses}}
    spread = init.alpha**2 * (d - 1)
    grid = np.linspace(0.01, 0.999, 400)
    moments = [int(np.argmin(np.abs(run.snapshot_times - time))) for time in TIMES]
    products = [_product(run.params(k), d) for k in moments]
    range_ = 0.03 * min(now.min() for now in products), 3.0 * max(now.max() for now in products)
    sizes = np.log10(final[final > 0])
    for ax, time, k, now in zip(axes[0], TIMES, moments, products, strict=True):
        cosine = agf.alignment(problem, run.params(k)).cos_delta[0]
        known = np.isfinite(cosine)
        dots = ax.scatter(
            cosine[known], now[known], s=5, c=np.log10(final[known]), cmap="viridis_r", vmin=sizes.min(),
            vmax=sizes.max(), label="a neuron",
        )  # fmt: skip
        if time:
            law = spread * grid / (1 - grid**2)
            ax.plot(grid, law, "--", color=plot.PREDICTED, lw=0.9, label="law without parameters")
        ax.legend(frameon=False, fontsize="small", loc="lower left")
        ax.set(xlabel=r"$\cos \delta$", yscale="log", xlim=(-1.05, 1.05), ylim=range_)
        ax.set_title(f"t = {run.snapshot_times[k]:.3g}", fontsize="medium")
        panels[f"time{time:g}"] = {"cos_delta": cosine, "a": now, "final": final}
    axes[0, 0].set_ylabel("norm of w times norm of a")
    figure.colorbar(dots, ax=list(axes[0]), label="log10 of its final norm")
    last = axes[1, 1]
    last.semilogy(cosine[known], final[known], "o", ms=2, color=plot.OBSERVED, label="a neuron")
    last.legend(frameon=False, fontsize="small", loc="lower right")
    last.set(
        xlabel=rf"$\cos \delta$ at t = {run.snapshot_times[k]:.3g}",
        ylabel="final norm of w times norm of a",
        xlim=(-1.05, 1.05),
    )
    last.set_title("the angle", fontsize="medium")
    living = np.setdiff1d(np.arange(width), tickets.dead)
    scores = tickets.scores(run)["tickets"]
    axes[1, 2].plot(tickets.log_norms[living] / np.log(10), run.log_norms[-1][living] / np.log(10), "o", ms=2,
                    color=plot.PREDICTED, label="a neuron")  # fmt: skip
    axes[1, 2].axline((0, 0), slope=1, color=plot.RULE, lw=0.8, label="as predicted")
    axes[1, 2].legend(frameon=False, fontsize="small")
    axes[1, 2].set(xlabel="log10 of the predicted norm", ylabel="log10 of the final norm")
    axes[1, 2].set_title(f"the race: Spearman {scores['spearman']:.4f}", fontsize="medium")
    panels["tickets"] = {"predicted": tickets.log_norms, "final": run.log_norms[-1], "dead": tickets.dead}
    letter(axes)
    settings = {
        "data": "digits 0, 3 against 1, 2 (in place of CIFAR-10)", "samples": 4 * each, "width": width, "std": 1e-4,
        "lr": lr, "momentum": 0.9, "batch": 4, "steps": steps, "dead": tickets.dead.size,
        "Spearman of predicted and final norms": scores["spearman"],
    }  # fmt: skip
    return figure, panels, {}, settings


def _product(theta: np.ndarray, inputs: int) -> np.ndarray:
    """|w| |a| of every row."""
    return np.asarray(np.linalg.norm(theta[:, :inputs], axis=1) * np.linalg.norm(theta[:, inputs:], axis=1))
