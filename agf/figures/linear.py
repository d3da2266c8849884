"""Figure 4: singular modes learned one by one, with commuting and with non-commuting input covariance."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, number_drops, shared_legend, steps, subplots
from agf.pictures.ticks import log_time
from agf.results.comparison import Comparison


def commuting(size: int = 5, seed: int = 0) -> dict[str, np.ndarray]:
    """Sxx and B diagonal in one basis, the learning order b s and the energy order b^2 s disagreeing."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    s = 2.0 ** -np.arange(size, dtype=np.float64)[::-1]
    b = np.array([6.0, 5.0, 2.4, 1.0, 0.4])[:size]
    return {"Sxx": (basis * s) @ basis.T, "B": (basis * b) @ basis.T}


def authors(size: int = 10) -> dict[str, np.ndarray]:
    """The problem of the authors' notebook, numpy legacy seed 0: Sxx is diagonal in the right singular basis of B."""
    state = np.random.RandomState(0)
    state.randn(size, size)
    u, v = (np.linalg.qr(state.randn(size, size))[0] for _ in range(2))
    m = u @ np.diag(1.0 / np.arange(1, size + 1)) @ v
    s = np.linalg.svd(m @ m.T)[1]
    b = state.randn(size, size)
    right = np.linalg.svd(b)[2].T
    return {"Sxx": (right * s) @ right.T, "B": b}


def turned(size: int = 5, seed: int = 3) -> dict[str, np.ndarray]:
    """Sxx and B with unrelated bases."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    return {"Sxx": (basis / np.arange(1, size + 1)) @ basis.T, "B": 3 * rng.standard_normal((size, size))}


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    alpha = 1e-8
    cases: dict[str, tuple[dict[str, np.ndarray], int | None]] = {
        "commuting": (commuting(), None),
        "non-commuting": (turned(), None),
    }
    if not fast:
        cases["10-10-10"] = (authors(), 10)
    figure, axes = subplots(2, len(cases), width=3.6, height=2.7)
    panels: dict[str, dict[str, np.ndarray]] = {}
    reports = {}
    for column, (name, (inputs, width)) in enumerate(cases.items()):
        problem = agf.problem("linear", **inputs, width=width)
        init = problem.init(alpha, seed=0)
        stairs = agf.predict(problem, init, mode="agf")
        flow = agf.flow(problem, init, t_max=2.0 * float(stairs.times[-1]))
        reports[name] = agf.compare(stairs, flow)
        top, bottom = axes[:, column]
        plot.comparison(reports[name], ax=top)
        number_drops(top)
        top.set_title(name, pad=16)
        top.get_legend().remove()
        values, expected = flow.features("singular_values"), stairs.features("singular_values")
        # Ordered by size, values change places when a larger one overtakes: one colour for all of them.
        bottom.plot(flow.snapshot_times[1:], values[1:], color=plot.OBSERVED, lw=2.5, alpha=0.6)
        left, right = top.get_xlim()
        for column in expected.T:
            bottom.plot(*steps(stairs.half_times[1:], np.append(0.0, column), right, left), color=plot.PREDICTED, lw=1)
        log_time(bottom)
        bottom.set(xlabel="flow time", ylabel="singular values of AW", xlim=(left, right))
        panels[name] = {
            "time": flow.times, "loss": flow.losses, "snapshot_time": flow.snapshot_times, "singular_values": values,
            "predicted_half_time": stairs.half_times, "predicted_level": stairs.levels,
        }  # fmt: skip
    shared_legend(figure, axes[0, 0])
    letter(axes)
    return figure, panels, reports, {"alpha": alpha, "seed": 0, "cases": list(cases)}
