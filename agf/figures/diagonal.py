"""Figure 3: a sweep over alpha, and the coefficients of the smallest one."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, steps, subplots
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison

ALPHAS = (1e-2, 1e-4, 1e-8, 1e-16, 1e-50)


def data() -> dict[str, np.ndarray]:
    """The regression of the authors' notebook: n = 20, d = 5, input variances 1/k, numpy legacy seed 10."""
    state = np.random.RandomState(10)
    x = state.multivariate_normal(np.zeros(5), np.diag(1.0 / np.arange(1, 6)), size=20)
    return {"X": x, "y": x @ (10 * state.randn(5))}


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    problem = agf.problem("diagonal-linear", **data())
    theory = problem.theory()
    alphas = ALPHAS[1:4] if fast else ALPHAS
    figure, axes = subplots(1, 2, width=4.2, height=3.2)
    left, right = axes[0]
    panels: dict[str, dict[str, np.ndarray]] = {"losses": {}, "coefficients": {}}
    reports = {}
    end = 1.35 * float(theory.accelerated_times[-1])
    shades = np.linspace(0.25, 1.0, len(alphas))
    for alpha, shade in zip(alphas, shades, strict=True):
        init = problem.init(alpha)
        unit = -np.log(alpha)
        stairs = agf.predict(problem, init, mode="agf")
        flow = agf.flow(problem, init, t_max=end * unit, snapshots=1500)
        reports[f"alpha = {alpha:g}"] = agf.compare(stairs, flow)
        left.plot(
            flow.times / unit, flow.losses, color=plot.OBSERVED, alpha=shade, lw=1.5, label=rf"$\alpha$ = {alpha:g}"
        )
        panels["losses"] |= {f"time_{alpha:g}": flow.times / unit, f"loss_{alpha:g}": flow.losses}
    x, y = steps(theory.accelerated_times[1:], theory.levels, end)
    left.plot(x, y, color="black", ls="--", lw=1.2, label=r"limit $\alpha \to 0$")
    panels["losses"] |= {"limit_time": theory.accelerated_times, "limit_level": theory.levels}
    begin = 0.3 * float(theory.accelerated_times[1])
    left.set(xlabel=r"flow time / $-\log \alpha$", ylabel="loss", title="losses")
    log_time(left)
    left.set(xlim=(begin, end), yscale="log", ylim=(0.3 * theory.levels[-2], 2 * theory.levels[0]))
    left.legend(frameon=False, fontsize="small", loc="lower left")
    beta = flow.features("coefficients")
    moments = flow.snapshot_times / unit
    predicted = np.vstack([np.zeros(problem.width), theory.features("coefficients")])
    for i in range(problem.width):
        colour = plot.PALETTE[i]
        right.plot(moments, beta[:, i], color=colour, lw=1.5)
        right.plot(*steps(theory.accelerated_times[1:], predicted[:, i], end), color=colour, ls="--", lw=1)
        right.annotate(
            f"{i}", (end, beta[-1, i]), (4, 0), textcoords="offset points", color=colour, va="center",
            annotation_clip=False,
        )  # fmt: skip
    panels["coefficients"] = {"time": moments, "flow": beta, "limit_time": theory.accelerated_times, "limit": predicted}
    log_time(right)
    right.set(
        xlabel=r"flow time / $-\log \alpha$",
        ylabel=r"$\beta_i$",
        xlim=(begin, end),
        title=rf"coefficients, $\alpha$ = {alpha:g}",
    )
    letter(axes)
    return figure, panels, reports, {"alphas": list(alphas), "seed": 10, "n": 20, "d": 5}
