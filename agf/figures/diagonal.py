"""Figure 3: a sweep over alpha, and the coefficients of the smallest one."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, observed, power_of_ten, predicted, shades, shared_legend, subplots
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison

#: From weights as large as what they have to learn, where there is no staircase, to the limit.
ALPHAS = (0.99, 0.9, 0.5, 0.1, 1e-2, 1e-4, 1e-8, 1e-16, 1e-50)
#: Up to this the assumption of a small start is good enough to be compared with.
_SMALL = 1e-2
#: Accelerated time at which all curves end: long enough for alpha = 0.99, whose unit of time is a hundredth.
_END = 1e3


def data() -> dict[str, np.ndarray]:
    """The regression of the authors' notebook: n = 20, d = 5, input variances 1/k, numpy legacy seed 10."""
    state = np.random.RandomState(10)
    x = state.multivariate_normal(np.zeros(5), np.diag(1.0 / np.arange(1, 6)), size=20)
    return {"X": x, "y": x @ (10 * state.randn(5))}


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    problem = agf.problem("diagonal-linear", **data())
    theory = problem.theory()
    alphas = (0.99, 1e-4, 1e-8, 1e-16) if fast else ALPHAS
    figure, axes = subplots(1, 2, width=4.6, height=3.6)
    left, right = axes[0]
    panels: dict[str, dict[str, np.ndarray]] = {"losses": {}, "coefficients": {}}
    reports = {}
    begin, last = 0.3 * float(theory.accelerated_times[1]), 2.5 * float(theory.accelerated_times[-1])
    for ax in axes[0]:
        log_time(ax)
        ax.set_xlabel(r"flow time / $-\log \alpha$")
    left.set(xlim=(begin, _END), yscale="log", ylim=(1e-3, 2 * theory.levels[0]), ylabel="loss", title="losses")
    right.set(xlim=(begin, last), ylabel=r"$\beta_i$")
    for alpha, shade in zip(alphas, shades(len(alphas)), strict=True):
        init = problem.init(alpha)
        unit = -np.log(alpha)
        flow = agf.flow(problem, init, t_max=_END * unit, snapshots=1500)
        if alpha <= _SMALL:
            reports[f"alpha = {alpha:g}"] = agf.compare(agf.predict(problem, init, mode="agf"), flow)
        label = rf"$\alpha$ = {power_of_ten(alpha)}"
        observed(left, flow.times / unit, flow.losses, color=shade, label=label, lw=1.8, alpha=1.0)
        panels["losses"] |= {f"time_{alpha:g}": flow.times / unit, f"loss_{alpha:g}": flow.losses}
    predicted(left, theory.accelerated_times[1:], theory.levels, _END, ls="--", label=_LIMIT)
    panels["losses"] |= {"limit_time": theory.accelerated_times, "limit_level": theory.levels}
    beta, moments = flow.features("coefficients"), flow.snapshot_times / unit
    expected = np.vstack([np.zeros(problem.width), theory.features("coefficients")])
    for i in range(problem.width):
        colour = plot.PALETTE[i]
        observed(right, moments, beta[:, i], color=colour, label=rf"$\beta_{i}$")
        predicted(right, theory.accelerated_times[1:], expected[:, i], last, color=colour, ls="--")
        right.annotate(rf"$\beta_{i}$", (last, expected[-1, i]), (4, 0), textcoords="offset points", color=colour,
                       va="center", annotation_clip=False)  # fmt: skip
    right.set_title(rf"coefficients, $\alpha$ = {power_of_ten(alphas[-1])}")
    panels["coefficients"] = {"time": moments, "flow": beta, "limit_time": theory.accelerated_times, "limit": expected}
    shared_legend(figure, left, right, columns=5)
    letter(axes)
    return figure, panels, reports, {"alphas": list(alphas), "seed": 10, "n": 20, "d": 5}


_LIMIT = r"limit $\alpha \to 0$ (dashed)"
