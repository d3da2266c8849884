"""Figure 6: modular addition, the case p = 20 with spectrum {1: 10, 3: 5, 5: 2.5} and 18 neurons."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.comparison import Comparison
from agf.figures.rendition import letter, subplots


def start(p: int, width: int, alpha: float, seed: int) -> agf.Init:
    """U, V ~ N(0, 1/(2p)) and W ~ N(0, 1/p) times alpha, drawn in this order from `default_rng(seed)`."""
    rng = np.random.default_rng(seed)
    u, v, w = (rng.standard_normal((width, p)) for _ in range(3))
    theta = np.hstack([u / np.sqrt(2 * p), v / np.sqrt(2 * p), w / np.sqrt(p)])
    return agf.Init.from_params(alpha * theta, alpha=alpha, seed=seed, kind="paper")


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    p, width, alpha = (11, 12, 1e-2) if fast else (20, 18, 1e-2)
    spectrum: dict[Any, float] = {1: 10.0, 3: 5.0} if fast else {1: 10.0, 3: 5.0, 5: 2.5}
    problem = agf.problem("modular-addition", p=p, template=spectrum, width=width)
    init = start(p, width, alpha, 0)
    flow = agf.flow(problem, init, t_max=1e3 if fast else 3e3)
    reports = {
        "mode agf": agf.compare(agf.predict(problem, init), flow),
        "mode resolved": agf.compare(agf.predict(problem, init, mode="resolved", max_time=flow.times[-1]), flow),
    }
    figure, axes = subplots(2, 2, width=4.2, height=2.9)
    losses, power, phases, accuracy = axes.flat
    plot.overlay([reports["mode agf"], reports["mode resolved"].stairs], ax=losses)
    spectra = flow.features("power")
    moments = flow.snapshot_times
    shown = [k for k in spectrum if k < spectra.shape[1]]
    for i, k in enumerate(shown):
        power.plot(moments[1:], spectra[1:, k], color=plot.PALETTE[i], lw=1.5, label=f"frequency {k}")
    power.set(xscale="log", xlabel="flow time", ylabel="output power", xlim=losses.get_xlim())
    power.legend(frameon=False, fontsize="small")
    last = problem.features(flow.params(-1), np.arange(width))
    gap, owner, strong = last["phase_gap"], last["neuron_frequency"], flow.log_norms[-1] > np.log(0.1)
    for i, k in enumerate(shown):
        mine = np.flatnonzero((owner == k) & strong)
        phases.plot(mine, np.angle(np.exp(1j * gap[mine])), "o", color=plot.PALETTE[i], label=f"frequency {k}")
    phases.axhline(0.0, color=plot.RULE, lw=0.8, ls=":")
    phases.set(xlabel="neuron", ylabel=r"$s_u + s_v - s_w - s_x$", ylim=(-np.pi, np.pi))
    learned = flow.features("accuracy")
    accuracy.plot(moments[1:], learned[1:], color="black", lw=1.5)
    accuracy.set(xscale="log", xlabel="flow time", ylabel="accuracy of the sum", ylim=(0, 1.05), xlim=losses.get_xlim())
    panels = {
        "losses": {"time": flow.times, "loss": flow.losses},
        "power": {"time": moments, "power": spectra},
        "phases": {"gap": gap, "frequency": owner, "log_norms": flow.log_norms[-1]},
        "accuracy": {"time": moments, "accuracy": learned},
    }
    for name, report in reports.items():
        stairs = report.stairs
        panels["losses"] |= {f"half_time {name}": stairs.half_times, f"level {name}": stairs.levels}
    letter(axes)
    words = {str(k): v for k, v in spectrum.items()}
    return figure, panels, reports, {"p": p, "width": width, "alpha": alpha, "seed": 0, "spectrum": words}
