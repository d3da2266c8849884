"""Figure 5: linear attention learns in-context regression one principal component after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import bounds, letter, number_drops, observed, predicted, rules, shared_legend, subplots
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    eigenvalues = 1.0 / np.arange(1, 5)
    eigenvalues *= 2.0 / eigenvalues.sum()
    alpha, context, heads = 1e-2 if fast else 1e-3, 32, 5
    problem: Any = agf.problem("linear-attention", covariance=np.diag(eigenvalues), context=context, heads=heads)
    init = problem.init(alpha, seed=0)
    stairs = agf.predict(problem, init, mode="agf")
    theory = problem.theory(init=init)
    flow = agf.flow(problem, init, t_max=2.0 * float(stairs.times[-1]), snapshots=1500)
    report = agf.compare(stairs, flow)
    least = np.full(len(theory.drops), np.nan) if theory.bounds is None else theory.bounds
    begin, end = 0.5 * float(least[0]), float(flow.times[-1])
    figure, axes = subplots(1, 3, width=3.8, height=3.1)
    losses, amplitudes, norms = axes[0]
    for ax in axes[0]:
        log_time(ax)
        ax.set(xlim=(begin, end), xlabel="flow time")
        bounds(ax, least)
    observed(losses, flow.times, flow.losses, label="gradient flow")
    predicted(losses, stairs.half_times[1:], stairs.levels, end, label="predicted (thin)")
    rules(losses, theory.levels, "levels of the theory", across=True)
    losses.set(ylabel="loss", title="loss", ylim=(0, 1.06 * theory.start_level))
    values, expected = flow.features("amplitudes"), stairs.features("amplitudes")
    rules(amplitudes, problem.amplitudes, r"final amplitudes $A_k$", across=True, color="black", ls=(0, (1, 3)))
    component = flow.features("component")[-1].astype(int)
    grown = flow.log_norms[-1] > np.log(0.1)
    for i in range(values.shape[1]):
        observed(amplitudes, flow.snapshot_times, values[:, i], color=plot.PALETTE[i], label=f"component {i + 1}")
        predicted(amplitudes, stairs.half_times[1:], np.append(0.0, expected[:, i]), end, color=plot.PALETTE[i])
        amplitudes.annotate(rf"$A_{i + 1}$", (begin, problem.amplitudes[i]), (3, -2), textcoords="offset points",
                            va="top", fontsize="small", color=plot.PALETTE[i])  # fmt: skip
    amplitudes.set(ylabel=r"$v_i^T\, (\Sigma_h\, V_h K_h Q_h^T)\, v_i$", title="principal components learned")
    amplitudes.set_ylim(-0.004, 1.12 * problem.amplitudes.max())
    for h in range(heads):
        colour = plot.PALETTE[component[h] - 1] if grown[h] else plot.RULE
        word = f"component {component[h]}" if grown[h] else "head that is not needed"
        observed(norms, flow.snapshot_times, flow.log_norms[:, h] / np.log(10.0), color=colour, label=word)
    norms.set(ylabel=r"$\log_{10}$ of the norm", title="heads, by the component they learn")
    for ax in axes[0]:
        number_drops(ax, stairs.half_times[1:])
        ax.set_title(ax.get_title(), fontsize="medium", pad=16)
    shared_legend(figure, *axes[0], columns=5)
    panels = {
        "losses": {"time": flow.times, "loss": flow.losses, "predicted_half_time": stairs.half_times,
                   "predicted_level": stairs.levels, "theory_level": theory.levels, "bound": least},
        "amplitudes": {"time": flow.snapshot_times, "amplitudes": values, "predicted": expected,
                       "final": problem.amplitudes},
        "norms": {"time": flow.snapshot_times, "log_norms": flow.log_norms, "component": component},
    }  # fmt: skip
    letter(axes)
    settings = {"alpha": alpha, "seed": 0, "context": context, "heads": heads, "eigenvalues": eigenvalues.tolist()}
    return figure, panels, {"heads": report}, settings
