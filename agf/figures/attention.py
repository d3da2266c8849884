"""Figure 5: linear attention learns in-context regression one principal component after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, number_drops, shared_legend, subplots
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    eigenvalues = 1.0 / np.arange(1, 5)
    eigenvalues *= 2.0 / eigenvalues.sum()
    alpha, context, heads = 1e-2 if fast else 1e-3, 32, 5
    problem = agf.problem("linear-attention", covariance=np.diag(eigenvalues), context=context, heads=heads)
    init = problem.init(alpha, seed=0)
    stairs = agf.predict(problem, init, mode="agf")
    theory = problem.theory(init=init)
    flow = agf.flow(problem, init, t_max=2.0 * float(stairs.times[-1]))
    report = agf.compare(stairs, flow)
    figure, axes = subplots(1, 3, width=3.7, height=3.0)
    losses, singular, norms = axes[0]
    plot.comparison(report, ax=losses)
    number_drops(losses)
    for level in theory.levels:
        losses.axhline(level, color=plot.RULE, lw=0.6, ls=":")
    bounds = np.zeros(0) if theory.bounds is None else theory.bounds
    for k, bound in enumerate(bounds[np.isfinite(bounds)]):
        losses.axvline(bound, color=plot.PALETTE[2], lw=0.8, ls="-.", label=None if k else "lower bounds")
    shared_legend(figure, losses)
    values = flow.features("singular_values")
    for i in range(values.shape[1]):
        singular.plot(flow.snapshot_times[1:], values[1:, i], color=plot.PALETTE[i], lw=1.5, label=f"{i + 1}")
    for drop in stairs.drops:
        singular.axvline(drop.half_time, color=plot.RULE, lw=0.6, ls=":")
    log_time(singular)
    singular.set(xlabel="flow time", ylabel="singular value", xlim=losses.get_xlim())
    singular.set_title(r"singular values of $\Sigma_h\, V_h K_h Q_h^T$", fontsize="medium")
    plot.neurons(flow, ax=norms)
    norms.set(xlim=losses.get_xlim(), ylabel=r"$\log_{10}$ of the norm")
    norms.set_title("norms of the heads", fontsize="medium")
    norms.get_legend().remove()
    panels = {
        "losses": {"time": flow.times, "loss": flow.losses, "predicted_half_time": stairs.half_times,
                   "predicted_level": stairs.levels, "theory_level": theory.levels, "bound": bounds},
        "singular": {"time": flow.snapshot_times, "singular_values": values},
        "norms": {"time": flow.snapshot_times, "log_norms": flow.log_norms},
    }  # fmt: skip
    letter(axes)
    settings = {"alpha": alpha, "seed": 0, "context": context, "heads": heads, "eigenvalues": eigenvalues.tolist()}
    return figure, panels, {"heads": report}, settings
