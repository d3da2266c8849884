"""Figure 7: ReLU networks of growing width on whitened images; the staircase becomes a slide."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import agf
from agf import datasets
from agf.figures import cifar
from agf.figures.figure import letter, observed, predicted, rules, shared_legend, subplots
from agf.results.comparison import Comparison

#: Scale of the weights, as in the authors' notebook.
_ALPHA = 1e-20
#: The figure ends at this many times the first drop of the narrowest network.
_LENGTH = 1.6


def draw(
    fast: bool, data: str | os.PathLike[str] | None = None
) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings. data : a folder with CIFAR-10, drawn in a second row where given."""
    digits = datasets.load("digits")
    rows = {"digits": {name: digits[name][:: 4 if fast else 1] for name in ("X", "Y")}}
    if data is not None:
        rows["CIFAR-10"] = {name: part[:: 10 if fast else 1] for name, part in cifar.load(data).items()}
    widths = (1, 3) if fast else (1, 2, 3, 10)
    figure, axes = subplots(len(rows), len(widths), width=2.7, height=2.8)
    panels: dict[str, dict[str, np.ndarray]] = {}
    reports = {}
    linear = {}
    for row, (name, inputs) in zip(axes, rows.items(), strict=True):
        end = 0.0
        for ax, width in zip(row, widths, strict=True):
            problem: Any = agf.problem("relu", **inputs, width=width, scale="whiten", centre="targets")
            init = problem.init(_ALPHA, seed=0)
            end = end or _LENGTH * float(agf.predict(problem, init, max_drops=1, mode="agf").half_times[1])
            stairs = agf.predict(problem, init, t_max=end, mode="agf", rtol=1e-8)
            resolved = agf.predict(problem, init, t_max=end, mode="resolved")
            flow = agf.flow(problem, init, t_max=end)
            reports[f"{name}, width {width}, agf"] = agf.compare(stairs, flow)
            reports[f"{name}, width {width}, resolved"] = agf.compare(resolved, flow)
            linear[name] = _linear(problem.X, problem.Y)
            ax.set_xlim(0.5 * end, end)
            observed(ax, flow.times, flow.losses, label="gradient flow")
            predicted(ax, stairs.half_times[1:], stairs.levels, end, label="predicted, mode agf")
            ax.plot(resolved.curve_times, resolved.curve_losses, "k--", lw=1.0, label="predicted, mode resolved")
            rules(ax, np.array([linear[name]]), "best linear predictor", across=True, color="black")
            ax.set(ylim=(0, 1.06 * stairs.start_level), xlabel="flow time")
            ax.set_title(f"{name}, width {width}", fontsize="medium")
            panels[f"{name}-width{width}"] = {
                "time": flow.times, "loss": flow.losses, "predicted_time": stairs.half_times,
                "predicted_level": stairs.levels, "resolved_time": resolved.curve_times,
                "resolved_loss": resolved.curve_losses,
            }  # fmt: skip
        row[0].set_ylabel("loss")
    shared_legend(figure, axes[0, 0])
    letter(axes)
    settings = {"alpha": _ALPHA, "seed": 0, "widths": list(widths), "best linear predictor": linear}
    return figure, panels, reports, settings


def _linear(inputs: np.ndarray, targets: np.ndarray) -> float:
    """Least half-squared loss of a linear map of the inputs."""
    fit = np.linalg.lstsq(inputs, targets, rcond=None)[0]
    return float(0.5 * np.mean(np.sum((targets - inputs @ fit) ** 2, axis=1)))
