"""Figure 6: modular addition, the case p = 20 with spectrum {1: 10, 3: 5, 5: 2.5} and 18 neurons."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, subplots
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison


def start(p: int, width: int, alpha: float, seed: int) -> agf.Init:
    """U, V ~ N(0, 1/(2p)) and W ~ N(0, 1/p) times alpha, drawn in this order from `default_rng(seed)`."""
    rng = np.random.default_rng(seed)
    u, v, w = (rng.standard_normal((width, p)) for _ in range(3))
    theta = np.hstack([u / np.sqrt(2 * p), v / np.sqrt(2 * p), w / np.sqrt(p)])
    return agf.Init.from_params(alpha * theta, alpha=alpha, seed=seed, kind="paper")


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    p, width, alpha = (7, 8, 1e-2) if fast else (20, 18, 1e-2)
    spectrum: dict[Any, float] = {1: 10.0, 3: 5.0} if fast else {1: 10.0, 3: 5.0, 5: 2.5}
    problem: Any = agf.problem("modular-addition", p=p, template=spectrum, width=width)
    init = start(p, width, alpha, 0)
    flow = agf.flow(problem, init, t_max=1e2 if fast else 3e3)
    reports = {
        "mode agf": agf.compare(agf.predict(problem, init, mode="agf"), flow),
        "mode resolved": agf.compare(agf.predict(problem, init, mode="resolved", t_max=flow.times[-1]), flow),
    }
    figure, axes = subplots(2, 3, width=3.7, height=2.9)
    losses, power, accuracy, outputs, weights, phases = axes.flat
    agf_steps, resolved = reports["mode agf"].stairs, reports["mode resolved"].stairs
    plot.trajectory(flow, ax=losses, marks=False)
    losses.lines[-1].set(linewidth=3, alpha=0.6)
    plot.staircase(agf_steps, ax=losses, label="mode agf", rules=False)
    plot.staircase(resolved, ax=losses, label="mode resolved", color="black", rules=False)
    losses.lines[-1].set(linestyle="--", linewidth=1)
    shown = (0.3 * float(agf_steps.half_times[1]), float(flow.times[-1]))
    losses.set(xlim=shown)
    losses.legend(frameon=False, fontsize="small")
    frequencies = problem.characters.frequencies
    colours = {k: plot.PALETTE[i] for i, k in enumerate(spectrum)}
    learned, moments = flow.features("power"), flow.snapshot_times
    full = np.abs(problem.template.spectrum) ** 2
    for k, colour in colours.items():
        at = int(np.flatnonzero(frequencies == k)[0])
        share = learned[1:, at] / full[at]
        power.plot(moments[1:], share, color=colour, lw=1.5)
        rise = float(moments[1 + int(np.argmax(share > 0.5))])
        power.annotate(f"frequency {k}", (rise, 0.75), (-9, 0), textcoords="offset points", color=colour, rotation=90,
                       ha="right", va="center", fontsize="small")  # fmt: skip
    log_time(power)
    power.set(xlabel="flow time", ylabel="output power / target power", xlim=shown)
    right = flow.features("accuracy")
    accuracy.plot(moments[1:], right[1:], color="black", lw=1.5)
    log_time(accuracy)
    accuracy.set(xlabel="flow time", ylabel="accuracy of the sum", ylim=(0, 1.05), xlim=shown)
    pairs = [(0, 0), (1, 3), (4, 5)]
    answers, targets = _outputs(flow.params(-1), problem.template.translates(), pairs)
    for k, (answer, target) in enumerate(zip(answers, targets, strict=True)):
        outputs.plot(target, color=plot.RULE, lw=4, label="target" if k == 0 else None)
        outputs.plot(answer, color=plot.PALETTE[k], lw=1.3, label=str(pairs[k]))
    outputs.set(xlabel="output", ylabel="value", title="outputs for pairs (a, b)")
    low, high = outputs.get_ylim()
    outputs.set_ylim(low, high + 0.35 * (high - low))  # room for the legend
    outputs.legend(frameon=False, fontsize="small", ncols=2)
    last = problem.features(flow.params(-1), np.arange(width))
    gap, owner, strong = last["phase_gap"], last["neuron_frequency"], flow.log_norms[-1] > np.log(0.1)
    order = np.lexsort((-flow.log_norms[-1], ~strong, owner))
    w = flow.params(-1)[order, 2 * p :]
    largest = float(np.abs(w).max())
    image = weights.imshow(w, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=weights)
    weights.set(xlabel="output", ylabel="neuron, by frequency", title="output weights w")
    for k, colour in colours.items():
        mine = np.flatnonzero((owner == k) & strong)
        phases.plot(mine, np.angle(np.exp(1j * gap[mine])), "o", color=colour, label=f"frequency {k}")
    phases.axhline(0.0, color=plot.RULE, lw=0.8, ls=":")
    phases.set(xlabel="neuron", ylabel=r"$s_u + s_v - s_w - s_x$", ylim=(-np.pi, np.pi), title="phases")
    phases.xaxis.get_major_locator().set_params(integer=True)
    panels = {
        "losses": {"time": flow.times, "loss": flow.losses},
        "power": {"time": moments, "power": learned, "frequency": frequencies},
        "outputs": {"output": answers, "target": targets},
        "weights": {"w": w, "neuron": order},
        "phases": {"gap": gap, "frequency": owner, "log_norms": flow.log_norms[-1]},
        "accuracy": {"time": moments, "accuracy": right},
    }
    for name, report in reports.items():
        stairs = report.stairs
        panels["losses"] |= {f"half_time {name}": stairs.half_times, f"level {name}": stairs.levels}
    letter(axes)
    words = {str(k): v for k, v in spectrum.items()}
    return figure, panels, reports, {"p": p, "width": width, "alpha": alpha, "seed": 0, "spectrum": words}


def _outputs(theta: np.ndarray, translates: np.ndarray, pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and targets (len(pairs), p) of the network f = sum_i (<u_i, a.x> + <v_i, b.x>)^2 w_i."""
    p = translates.shape[0]
    u, v, w = theta[:, :p], theta[:, p : 2 * p], theta[:, 2 * p :]
    outputs = [(u @ translates[:, a] + v @ translates[:, b]) ** 2 @ w for a, b in pairs]
    return np.array(outputs), np.array([translates[:, (a + b) % p] for a, b in pairs])
