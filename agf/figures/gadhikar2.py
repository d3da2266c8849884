"""Success of restarts by the signs of the start and the number of inputs ([GB24] figures 2a and 18)."""

from __future__ import annotations

from typing import Any

import numpy as np

from agf import plot
from agf.figures.figure import letter, subplots
from agf.figures.one_neuron import METHODS, many_learn, start, teacher
from agf.results.comparison import Comparison

SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
#: Flow times over d: of a cycle, and of the moment that WR goes back to.
_TIME, _REWIND = 20.0, 2.0


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    sizes, runs = ((2,), 40) if fast else ((1, 2, 5, 10), 200)
    figure, axes = subplots(1, len(sizes), width=2.5 if len(sizes) > 1 else 4.5, height=2.8)
    panels: dict[str, dict[str, np.ndarray]] = {}
    for ax, d in zip(axes[0], sizes, strict=True):
        theory = teacher(d).theory()
        share, law = np.zeros((len(METHODS), len(SIGNS))), np.zeros((len(METHODS), len(SIGNS)))
        for s, signs in enumerate(SIGNS):
            rng = np.random.default_rng([d, s])  # the same starts for every method
            starts = np.concatenate([start(d, signs, rng) for _ in range(runs)])
            for m, method in enumerate(METHODS):
                rewind = _REWIND * d if method == "wr" else 0.0
                share[m, s] = many_learn(starts, method, _TIME * d, rewind).mean()
        for m, method in enumerate(METHODS):
            flipped = {"imp": 0.0, "wr": theory.flipped(_REWIND * d), "lrr": theory.flipped(_TIME * d)}[method]
            law[m] = [1.0, flipped, 0.0, 0.0]
            places = np.arange(len(SIGNS)) + 0.27 * (m - 1)
            ax.bar(places, share[m], 0.25, color=plot.PALETTE[m], label=method.upper())
            ax.plot(places, law[m], "_", color="black", ms=9, mew=1.5,
                    label="theory, with the standard deviation of so many runs" if m == 2 else None)  # fmt: skip
            spread = np.sqrt(law[m] * (1 - law[m]) / runs)
            ax.vlines(places, law[m] - spread, np.minimum(law[m] + spread, 1.0), color="black", lw=1.0)
        ax.set(xticks=range(len(SIGNS)), xlabel=r"signs of $(a_0, w_{0,1})$", ylim=(0, 1.08), title=f"d = {d}")
        ax.set_xticklabels([f"({'+' if a > 0 else '-'},{'+' if w > 0 else '-'})" for a, w in SIGNS])
        panels[f"d{d}"] = {"share": share, "theory": law, "methods": np.array(METHODS), "signs": np.array(SIGNS)}
    axes[0, 0].set_ylabel("fraction that learns")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False,
                  fontsize="small")  # fmt: skip
    letter(axes)
    away = max(float(np.abs(panel["share"] - panel["theory"]).max()) for panel in panels.values())
    settings = {"runs a bar": runs, "farthest from theory": away, "flow time over d": _TIME,
                "rewind over d": _REWIND, "start": "balanced, IMP and WR re-balanced after masking"}  # fmt: skip
    return figure, panels, {}, settings
