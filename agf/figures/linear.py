"""Figure 4: singular modes learned one by one, with commuting and with non-commuting input covariance."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf.figures.figure import letter, number_drops, observed, predicted, shared_legend, subplots
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison

#: Losses below this fraction of the first are not drawn.
_LEAST = 1e-7


def authors(commuting: bool = False) -> dict[str, np.ndarray]:
    """The problem of the authors' notebook, numpy legacy seed 0; `commuting`: Sxx turned into the right basis of B."""
    state, size = np.random.RandomState(0), 10
    state.randn(size, size)
    u, v = (np.linalg.qr(state.randn(size, size))[0] for _ in range(2))
    m = u @ np.diag(1.0 / np.arange(1, size + 1)) @ v
    b = state.randn(size, size)
    if not commuting:
        return {"Sxx": m @ m.T, "B": b}
    right = np.linalg.svd(b)[2].T
    return {"Sxx": (right * np.linalg.svd(m @ m.T)[1]) @ right.T, "B": b}


def swapped() -> dict[str, np.ndarray]:
    """Sxx and B diagonal in one basis, where singular value (6, 1.6, .8, .3, .1) and energy order modes differently.

    The second mode of five takes off 1.0, the third 1.6.
    """
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    sigma, energy = np.array([6.0, 1.6, 0.8, 0.3, 0.1]), np.array([60.0, 2.0, 3.2, 0.09, 0.02])
    return {"Sxx": (basis * (sigma**2 / energy)) @ basis.T, "B": (basis * (energy / sigma)) @ basis.T}


def turned() -> dict[str, np.ndarray]:
    """Sxx and B with unrelated bases."""
    rng, size = np.random.default_rng(3), 5
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    return {"Sxx": (basis / np.arange(1, size + 1)) @ basis.T, "B": 3 * rng.standard_normal((size, size))}


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    alpha = 1e-8
    cases: dict[str, dict[str, np.ndarray]] = {"orders disagree": swapped(), "not commuting": turned()}
    if not fast:
        cases = {"commuting": authors(commuting=True), "not commuting": authors(), "orders disagree": swapped()}
    figure, axes = subplots(2, len(cases), width=3.9, height=3.0)
    panels: dict[str, dict[str, np.ndarray]] = {}
    reports = {}
    largest = 0.0
    for (top, bottom), (name, inputs) in zip(axes.T, cases.items(), strict=True):
        problem: Any = agf.problem("linear", **inputs)
        init = problem.init(alpha, seed=0)
        stairs = agf.predict(problem, init, mode="agf")
        end = 2.0 * float(stairs.times[-1])
        flow = agf.flow(problem, init, t_max=end, snapshots=1500)
        reports[name] = agf.compare(stairs, flow)
        start = stairs.start_level
        for ax in (top, bottom):
            log_time(ax)
            ax.set(xlim=(0.4 * float(stairs.half_times[1]), end), xlabel="flow time")
        top.set_yscale("log")
        observed(top, flow.times, np.maximum(flow.losses / start, 1e-30), label="gradient flow")
        predicted(
            top, stairs.half_times[1:], np.maximum(stairs.levels / start, 1e-30), end, label="predicted, mode agf"
        )
        published = problem.theory(alpha=alpha, rule="conjecture")
        if name == "orders disagree":
            predicted(top, published.times[1:], np.maximum(published.levels / start, 1e-30), end, color="black", ls=":",
                      label="published recursion, where it differs")  # fmt: skip
        top.set(ylim=(_LEAST, 2.0), ylabel="loss / L(0)")
        top.set_title(name, fontsize="medium", pad=16)
        number_drops(top, stairs.half_times[1:])
        # Ordered by size, values change places when a larger one overtakes: one colour for all of them.
        values, expected = flow.features("singular_values"), stairs.features("singular_values")
        for k, (found, foreseen) in enumerate(zip(values.T, expected.T, strict=True)):
            observed(bottom, flow.snapshot_times, found, label="_" * bool(k) + "gradient flow")
            predicted(bottom, stairs.half_times[1:], np.append(0.0, foreseen), end)
        bottom.set_ylabel("singular values of AW")
        largest = max(largest, float(expected.max()))
        panels[name.replace(" ", "-")] = {
            "time": flow.times, "loss": flow.losses, "snapshot_time": flow.snapshot_times, "singular_values": values,
            "predicted_half_time": stairs.half_times, "predicted_level": stairs.levels,
            "published_time": published.times, "published_level": published.levels,
        }  # fmt: skip
    for bottom in axes[1]:
        bottom.set_ylim(-0.03 * largest, 1.06 * largest)
    shared_legend(figure, *axes.flat)
    letter(axes)
    return figure, panels, reports, {"alpha": alpha, "seed": 0, "cases": list(cases)}
