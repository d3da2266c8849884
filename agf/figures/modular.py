"""Figure 6: modular addition, the case p = 20 with spectrum {1: 10, 3: 5, 5: 2.5} and 18 neurons."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import bounds, letter, observed, predicted, rules, shared_legend, subplots
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison
from agf.results.trajectory import Trajectory

#: The pair whose output is followed over time, and those whose outputs at the end are drawn.
_FOLLOWED = (1, 3)
_PAIRS = [(0, 0), (1, 3), (4, 5)]
#: A neuron of a smaller norm at the end has learned nothing.
_LARGE = 0.1


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
    flow = agf.flow(problem, init, t_max=1e2 if fast else 3e3, snapshots=600)
    reports = {
        "mode agf": agf.compare(agf.predict(problem, init, mode="agf"), flow),
        "mode resolved": agf.compare(agf.predict(problem, init, mode="resolved", t_max=flow.times[-1]), flow),
    }
    figure, panels = _draw(problem, flow, reports, spectrum)
    words = {str(k): v for k, v in spectrum.items()}
    return figure, panels, reports, {"p": p, "width": width, "alpha": alpha, "seed": 0, "spectrum": words}


def _draw(
    problem: Any, flow: Trajectory, reports: dict[str, Comparison], spectrum: dict[Any, float]
) -> tuple[Any, dict[str, dict[str, np.ndarray]]]:
    """Figure and panels."""
    p, width = problem.p, problem.width
    figure, axes = subplots(2, 3, width=4.1, height=3.2)
    losses, power, history, outputs, spectra, phases = axes.flat
    stairs, resolved = reports["mode agf"].stairs, reports["mode resolved"].stairs
    theory = problem.theory(init=flow.init)
    least = np.zeros(0) if theory.bounds is None else theory.bounds
    begin, end = 0.8 * float(np.append(least, stairs.half_times[1])[0]), float(flow.times[-1])
    moments = flow.snapshot_times
    for ax in (losses, power, history, phases):
        log_time(ax)
        ax.set(xlim=(begin, end), xlabel="flow time")
    observed(losses, flow.times, flow.losses, label="gradient flow")
    predicted(losses, stairs.half_times[1:], stairs.levels, end, label="predicted, mode agf")
    losses.plot(resolved.curve_times, resolved.curve_losses, "k--", lw=1.0, label="predicted, mode resolved")
    rules(losses, theory.levels, "levels of the theory", across=True)
    bounds(losses, least)
    lowest = float(flow.losses.min())
    losses.set(yscale="log", ylim=(0.5 * lowest, 2 * theory.start_level), ylabel="loss", title="loss")
    frequencies = problem.characters.frequencies
    colours = {k: plot.PALETTE[3 + i] for i, k in enumerate(spectrum)}
    learned, expected = flow.features("power"), stairs.features("power")
    full = np.abs(problem.template.spectrum) ** 2
    for k, colour in colours.items():
        at = int(np.flatnonzero(frequencies == k)[0])
        observed(power, moments, learned[:, at] / full[at], color=colour, label=f"frequency {k}")
        predicted(power, stairs.half_times[1:], np.append(0.0, expected[:, at]) / full[at], end, color=colour)
    bounds(power, least)
    power.set(ylabel="power / that of the target", title="power of the output (thin: mode agf)")
    over_time, target = _outputs(flow, problem, [_FOLLOWED])
    largest = float(np.abs(target).max())
    image = history.pcolormesh(
        moments[1:], np.arange(p), over_time[1:, 0].T, cmap="PuOr_r", vmin=-largest, vmax=largest, shading="nearest"
    )
    figure.colorbar(image, ax=history, label="value")
    a, b = _FOLLOWED
    history.set(ylabel="output", title=f"output for the pair ({a}, {b}) over time")
    finals, targets = _outputs(flow, problem, _PAIRS)
    for k, pair in enumerate(_PAIRS):
        outputs.plot(targets[k], color=plot.RULE, lw=4, label="target" if k == 0 else None)
        outputs.plot(finals[-1, k], color=plot.PALETTE[k], lw=1.3, label=f"output for {pair}")
    outputs.set(xlabel="output", ylabel="value", title="outputs at the end")
    last = problem.features(flow.params(-1), np.arange(width))
    owner, large = last["neuron_frequency"], flow.log_norms[-1] > np.log(_LARGE)
    order = np.lexsort((-flow.log_norms[-1], ~large, owner))
    theta = flow.params(-1)[order].reshape(width, 3, p)
    transformed = np.abs(np.fft.rfft(theta, axis=2))[:, :, 1:].mean(axis=1)
    image = spectra.pcolormesh(
        np.arange(1, p // 2 + 1), np.arange(width), transformed, cmap="viridis", shading="nearest"
    )
    figure.colorbar(image, ax=spectra, label="amplitude, mean of u, v, w")
    spectra.set(xlabel="frequency", ylabel="neuron, by frequency", title="spectra of the neurons")
    gaps = np.array([problem.features(flow.params(k), np.arange(width))["phase_gap"] for k in range(moments.size)])
    gaps = np.angle(np.exp(1j * gaps))
    for k, colour in colours.items():
        for i in np.flatnonzero((owner == k) & large):
            turns = np.abs(np.diff(gaps[:, i], prepend=gaps[0, i])) > np.pi  # the angle has gone round, no line there
            phases.plot(moments, np.where(turns, np.nan, gaps[:, i]), color=colour, lw=1.0)
    rules(phases, np.zeros(1), "phases of the largest utility", across=True, color="black")
    phases.set(ylabel=r"$s_u + s_v - s_w - s_x$", ylim=(-np.pi, np.pi), title="phases of the large neurons")
    phases.set(yticks=[-np.pi, 0, np.pi], yticklabels=[r"$-\pi$", "0", r"$\pi$"])
    for ax in (outputs, spectra):
        ax.xaxis.get_major_locator().set_params(integer=True)
    for ax in axes.flat:
        ax.set_title(ax.get_title(), fontsize="medium")
    shared_legend(figure, *axes.flat, columns=5)
    letter(axes)
    panels = {
        "losses": {"time": flow.times, "loss": flow.losses, "bound": least, "theory_level": theory.levels},
        "power": {"time": moments, "power": learned, "predicted": expected, "frequency": frequencies},
        "history": {"time": moments, "output": over_time[:, 0]},
        "outputs": {"output": finals[-1], "target": targets},
        "spectra": {"spectrum": transformed, "neuron": order},
        "phases": {"time": moments, "gap": gaps, "frequency": owner, "log_norms": flow.log_norms[-1]},
        "accuracy": {"time": moments, "accuracy": flow.features("accuracy")},
    }
    for name, report in reports.items():
        panels["losses"] |= {f"half_time {name}": report.stairs.half_times, f"level {name}": report.stairs.levels}
    return figure, panels


def _outputs(flow: Trajectory, problem: Any, pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Outputs (T, len(pairs), p) of f = sum_i (<u_i, a.x> + <v_i, b.x>)^2 w_i at the snapshots, and the targets."""
    translates = problem.template.translates()
    p = translates.shape[0]
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    outputs = []
    for k in range(flow.snapshot_times.size):
        u, v, w = np.split(flow.params(k), 3, axis=1)
        outputs.append(((u @ translates[:, a] + v @ translates[:, b]) ** 2).T @ w)
    return np.array(outputs), translates[:, (a + b) % p].T
