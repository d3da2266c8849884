"""Figure 8: two coordinates, one of which enters, leaves and comes back with the other sign."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.figure import letter, observed, power_of_ten, predicted, rules, shades, shared_legend, subplots
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
    figure, axes = subplots(2, 3, width=3.9, height=3.4)
    losses, landscape, coefficients, weights, charges, angles = axes.flat
    end = 1.3 * float(theory.accelerated_times[-1])
    panels: dict[str, dict[str, np.ndarray]] = {"losses": {}, "landscape": {}, "weights": {}}
    reports = {}
    _contours(landscape, inputs, panels["landscape"])
    for alpha, shade in zip(alphas, shades(len(alphas)), strict=True):
        init, unit = problem.init(alpha), -np.log(alpha)
        flow = agf.flow(problem, init, t_max=end * unit, snapshots=1500)
        reports[f"alpha = {alpha:g}"] = agf.compare(agf.predict(problem, init, mode="agf"), flow)
        style = {"color": shade, "lw": 1.8}
        losses.plot(flow.times / unit, flow.losses, label=rf"$\alpha$ = {power_of_ten(alpha)}", **style)
        beta = flow.features("coefficients")
        landscape.plot(beta[:, 0], beta[:, 1], **style)
        theta = np.array([flow.params(k) for k in range(flow.snapshot_times.size)])
        for i, marks in enumerate(("-", "--")):
            weights.plot(theta[:, i, 0], theta[:, i, 1], ls=marks, **style)
        panels["losses"] |= {f"time_{alpha:g}": flow.times / unit, f"loss_{alpha:g}": flow.losses}
        panels["landscape"][f"path_{alpha:g}"] = beta
        panels["weights"][f"theta_{alpha:g}"] = theta
    jumps = theory.accelerated_times[1:]
    losses.set(xlim=(0, end), ylabel="loss", title="losses")
    predicted(losses, jumps, theory.levels, end, ls="--", label=r"limit $\alpha \to 0$")
    _paths(landscape, np.vstack([np.zeros(2), theory.features("coefficients")]), panels["landscape"])
    _weights(weights)
    moments = flow.snapshot_times / unit
    fine, charge, angle = _between(flow, moments, alphas[-1], unit)
    expected = _limit(inputs, jumps, panels["landscape"]["saddles"], end)
    grid = np.unique(np.concatenate([expected["time"], *(_turns(expected, i) for i in range(2))]))
    size = np.abs(np.column_stack([np.interp(grid, expected["time"], one) for one in expected["charge"].T]))
    last = rf"$\alpha$ = {power_of_ten(alphas[-1])}"
    rules(charges, np.array([1.0]), "threshold", across=True)
    rules(angles, np.array([-45.0, 45.0]), "directions of largest utility", across=True, ls="-.")
    for i in range(2):
        colour, word = plot.PALETTE[(0, 2)[i]], f"coordinate {i}, {last}"
        observed(coefficients, moments, beta[:, i], color=colour, label=word)
        observed(charges, fine, charge[:, i], color=colour, label=word)
        observed(angles, fine, angle[:, i], color=colour, label=word)
        predicted(coefficients, jumps, panels["landscape"]["saddles"][:, i], end, ls="--")
        charges.plot(grid, size[:, i], color=plot.PREDICTED, lw=1.2, ls="--")
        x = np.concatenate([[0.0], np.repeat(_turns(expected, i), 2), [end]])
        angles.plot(x, np.repeat(_signs(expected, i) * 45.0, 2), color=plot.PREDICTED, lw=1.2, ls="--")
    coefficients.set(xlim=(0, end), ylabel=r"$\beta_i$", title="coefficients")
    charges.set(xlim=(0, end), ylabel=r"charge $S_i$ / $-\log \alpha$", title="accumulated utility")
    angles.set(xlim=(0, end), ylim=(-60, 60), yticks=[-45, 0, 45], ylabel=r"angle of $(u_i, v_i)$, degrees")
    angles.set_title("directions")
    for ax in (losses, coefficients, charges, angles):
        ax.set_xlabel(r"flow time / $-\log \alpha$")
    panels["charge"] = {"time": fine, "charge": charge, "limit_time": grid, "limit": size}
    panels["angle"] = {"time": fine, "degrees": angle}
    panels["coefficients"] = {"time": moments, "coefficients": beta}
    shared_legend(figure, *axes.flat, columns=5)
    letter(axes)
    return figure, panels, reports, {"alphas": list(alphas), "rotation_degrees": 150, "eigenvalues": [1, 25]}


def _between(
    flow: agf.Trajectory, moments: np.ndarray, alpha: float, unit: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times (T,), charges in units of -log alpha and angles in degrees (T, 2), also between the snapshots of a run.

    Both are functions of the signed coordinate z, which moves on straight lines on plateaus: u^2 + v^2 = 2 alpha^2
    cosh(2 z), v / u = tanh z.
    """
    sign = np.sign(flow.directions[:, :, 0] * flow.directions[:, :, 1])
    growth = np.maximum(2.0 * (flow.log_norms - np.log(alpha)) - np.log(2.0), 0.0)  # log cosh(2 z)
    z = sign * 0.5 * (growth + np.log1p(np.sqrt(-np.expm1(-2.0 * growth))))
    fine = np.unique(np.concatenate([moments, np.linspace(0.0, moments[-1], 2001)]))
    z = np.column_stack([np.interp(fine, moments, one) for one in z.T])
    charge = 0.5 * (np.logaddexp(2.0 * z, -2.0 * z) - np.log(2.0)) / unit
    return fine, charge, np.rad2deg(np.arctan(np.tanh(z)))


def _limit(inputs: dict[str, np.ndarray], jumps: np.ndarray, saddles: np.ndarray, end: float) -> dict[str, np.ndarray]:
    """The signed charges of the limit at its jumps: between them each grows with minus the gradient at the saddle."""
    x, y = inputs["X"], inputs["y"]
    time, charge = [0.0], [np.zeros(2)]
    for until, beta in zip([*jumps, end], saddles, strict=True):
        slope = x.T @ (y - x @ beta) / y.size
        time.append(float(until))
        charge.append(np.clip(charge[-1] + slope * (time[-1] - time[-2]), -1.0, 1.0))
    return {"time": np.array(time), "charge": np.array(charge)}


def _turns(expected: dict[str, np.ndarray], i: int) -> np.ndarray:
    """Times at which the charge of a coordinate is zero: its direction turns from one maximum to the other."""
    time, charge = expected["time"], expected["charge"][:, i]
    at = np.flatnonzero(charge[:-1] * charge[1:] < 0)
    return time[at] - charge[at] * (time[at + 1] - time[at]) / (charge[at + 1] - charge[at])


def _signs(expected: dict[str, np.ndarray], i: int) -> np.ndarray:
    """The sign of the charge of a coordinate, before, between and after these times."""
    signs = np.sign(expected["charge"][1:, i])
    return signs[np.append(True, signs[1:] != signs[:-1])]


def _contours(ax: Any, inputs: dict[str, np.ndarray], panel: dict[str, np.ndarray]) -> None:
    grid = np.linspace(-1.2, 1.6, 141), np.linspace(-0.4, 2.4, 141)
    b0, b1 = np.meshgrid(*grid)
    rest = inputs["y"][:, None, None] - np.einsum("ni,iab->nab", inputs["X"], np.stack([b0, b1]))
    loss = np.sum(rest**2, axis=0) / (2 * inputs["y"].size)
    ax.contour(b0, b1, loss, levels=np.geomspace(1e-2, loss.max(), 14), colors=plot.RULE, linewidths=0.6)
    panel |= {"beta0": grid[0], "beta1": grid[1], "loss": loss}


def _paths(ax: Any, saddles: np.ndarray, panel: dict[str, np.ndarray]) -> None:
    """The saddles in the order in which they are visited, named; the paths are there already."""
    ax.plot(*saddles.T, "o", color=plot.PREDICTED, ms=5, label="predicted saddles, in order")
    for k, (at, shift) in enumerate(zip(saddles, ((-6, -11), (6, -11), (7, 0), (-14, 2)), strict=True)):
        ax.annotate(f"{k}", at, shift, textcoords="offset points", fontsize="small", color=plot.PREDICTED)
    ax.set(xlabel=r"$\beta_0$", ylabel=r"$\beta_1$", title="landscape and paths", aspect="equal")
    panel["saddles"] = saddles


def _weights(ax: Any) -> None:
    """Both coordinates in the plane of their weights, with the hyperbolas' common asymptotes."""
    reach = 1.6
    ax.plot([0, reach], [0, reach], color=plot.RULE, lw=0.8, ls="-.")
    ax.plot([0, reach], [0, -reach], color=plot.RULE, lw=0.8, ls="-.")
    ax.annotate("coordinate 0\n(solid)", (0.05, 0.1), xycoords="axes fraction", fontsize="small")
    ax.annotate("coordinate 1\n(dashed)", (0.05, 0.85), xycoords="axes fraction", fontsize="small")
    ax.set(xlabel=r"$u_i$", ylabel=r"$v_i$", title="paths of the weights", aspect="equal")
    ax.set(xlim=(-0.6, reach), ylim=(-0.8, reach))
