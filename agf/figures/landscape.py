"""Figure 8: two coordinates, one of which enters, leaves and comes back with the other sign."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, steps, subplots
from agf.results.comparison import Comparison


def data() -> dict[str, np.ndarray]:
    """[PF23] in two dimensions: Gram matrix with eigenvalues 1 and 25 turned by 150 degrees, beta = (-0.2, 2)."""
    angle = np.deg2rad(150.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x = np.linalg.cholesky(turn @ np.diag([1.0, 25.0]) @ turn.T)
    return {"X": x, "y": x @ np.array([-0.2, 2.0])}


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    inputs = data()
    problem = agf.problem("diagonal-linear", **inputs)
    theory = problem.theory()
    alphas = (1e-4, 1e-16) if fast else (1e-1, 1e-2, 1e-4, 1e-16)
    figure, axes = subplots(1, 3, width=3.7, height=3.3)
    losses, landscape, charges = axes[0]
    end = 1.3 * float(theory.accelerated_times[-1])
    panels: dict[str, dict[str, np.ndarray]] = {"losses": {}, "landscape": {}, "charge": {}}
    reports = {}
    _contours(landscape, inputs, panels["landscape"])
    for k, alpha in enumerate(alphas):
        init, unit = problem.init(alpha), -np.log(alpha)
        flow = agf.flow(problem, init, t_max=end * unit, snapshots=1500)
        reports[f"alpha = {alpha:g}"] = agf.compare(agf.predict(problem, init, mode="agf"), flow)
        shade = 0.3 + 0.7 * k / (len(alphas) - 1)
        losses.plot(
            flow.times / unit, flow.losses, color=plot.OBSERVED, alpha=shade, lw=1.5, label=rf"$\alpha$ = {alpha:g}"
        )
        beta = flow.features("coefficients")
        landscape.plot(beta[:, 0], beta[:, 1], color=plot.OBSERVED, alpha=shade, lw=1.5)
        panels["losses"] |= {f"time_{alpha:g}": flow.times / unit, f"loss_{alpha:g}": flow.losses}
        panels["landscape"][f"path_{alpha:g}"] = beta
    losses.plot(*steps(theory.accelerated_times[1:], theory.levels, end), "k--", lw=1.2, label=r"limit $\alpha \to 0$")
    losses.set(xlabel=r"flow time / $-\log \alpha$", ylabel="loss", xlim=(0, end), title="losses")
    losses.legend(frameon=False, fontsize="small")
    saddles = np.vstack([np.zeros(2), theory.features("coefficients")])
    landscape.plot(saddles[:, 0], saddles[:, 1], "--o", color="black", lw=1, ms=4, label="predicted saddles")
    landscape.set(xlabel=r"$\beta_0$", ylabel=r"$\beta_1$", title="landscape and paths")
    landscape.legend(frameon=False, fontsize="small")
    panels["landscape"]["saddles"] = saddles
    norms = flow.log_norms - init.log_norms  # charge of each coordinate: kappa is 2
    for i in range(2):
        charges.plot(
            flow.snapshot_times / unit, norms[:, i] / unit, color=plot.PALETTE[i], lw=1.5, label=f"coordinate {i}"
        )
    charges.axhline(1.0, color=plot.RULE, ls=":", lw=1, label="threshold")
    charges.set(xlabel=r"flow time / $-\log \alpha$", ylabel=r"charge $S_i$ / $-\log \alpha$", xlim=(0, end),
                title=rf"accumulated utility, $\alpha$ = {alpha:g}")  # fmt: skip
    charges.legend(frameon=False, fontsize="small")
    panels["charge"] = {"time": flow.snapshot_times / unit, "charge": norms / unit}
    letter(axes)
    return figure, panels, reports, {"alphas": list(alphas), "rotation_degrees": 150, "eigenvalues": [1, 25]}


def _contours(ax: Any, inputs: dict[str, np.ndarray], panel: dict[str, np.ndarray]) -> None:
    grid = np.linspace(-1.2, 1.6, 141), np.linspace(-0.4, 2.4, 141)
    b0, b1 = np.meshgrid(*grid)
    rest = inputs["y"][:, None, None] - np.einsum("ni,iab->nab", inputs["X"], np.stack([b0, b1]))
    loss = np.sum(rest**2, axis=0) / (2 * inputs["y"].size)
    ax.contour(b0, b1, loss, levels=np.geomspace(1e-2, loss.max(), 14), colors=plot.RULE, linewidths=0.6)
    panel |= {"beta0": grid[0], "beta1": grid[1], "loss": loss}
