"""Early alignment on two digits, full-batch and in epochs ([Min23] figures 5, 12 and 13; digits stand in for MNIST)."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.datasets import load
from agf.figures.figure import letter, subplots
from agf.figures.orthogonal import bands, start
from agf.records.table import number
from agf.results.comparison import Comparison

WIDTH = 50
NOTE = "the 8x8 digits of scikit-learn stand in for MNIST, which is not bundled"


def digits(first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
    """Two digits, pixels in [0, 1] minus their mean image; the first is the positive class."""
    data = load("digits")
    labels = np.asarray(data["Y"]).argmax(axis=1)
    chosen = (labels == first) | (labels == second)
    X = np.asarray(data["X"])[chosen]
    return X - X.mean(axis=0), np.where(labels[chosen] == first, 1.0, -1.0)


def pair(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Correlations, cosines to the class sums, loss and ranks, mean neurons beside class sums."""
    X, y = digits(0, 1)
    rate, steps = (4e-2, 620) if fast else (1e-2, 6000)
    problem = agf.TwoLayer(X, y, loss="exponential", width=WIDTH, kink=0)
    run = agf.descend(problem, start(WIDTH, X.shape[1]), lr=rate, steps=steps, snapshots=100)
    along = agf.course(problem, run)
    figure, axes = subplots(1, 4, width=2.9, height=2.7)
    order = np.argsort(-y, kind="stable")
    gram = X[order] @ X[order].T
    bound = float(np.abs(gram).max())
    image = axes[0, 0].imshow(gram, cmap="RdBu_r", vmin=-bound, vmax=bound, rasterized=True)
    axes[0, 0].set(xticks=[], yticks=[], title="inner products")
    figure.colorbar(image, ax=axes[0, 0], shrink=0.8)
    bands(axes[0, 1], along)
    loss, rank = axes[0, 2], axes[0, 2].twinx()
    loss.plot(run.times, run.losses, color=plot.OBSERVED, label="loss")
    loss.plot(along.times, along.spectral / max(float(along.spectral.max()), 1e-300), color=plot.PALETTE[2], ls="--",
              label=r"$|W|_2^2$ / its largest")  # fmt: skip
    rank.semilogy(along.times, along.stable_rank, color=plot.PREDICTED, ls=":", label="stable rank")
    loss.set(xlabel="flow time", ylabel="mean loss", xlim=(0, run.times[-1]), title="loss, norm and rank")
    rank.set(ylabel="stable rank of W", ylim=(0.9, 50))
    handles = [*loss.get_lines(), *rank.get_lines()]
    loss.legend(handles, [str(h.get_label()) for h in handles], frameon=False, fontsize="x-small", loc="center right",
                bbox_to_anchor=(1.0, 0.36))  # fmt: skip
    theta = run.params(len(run.snapshot_times) - 1)
    sums = [X[y > 0].mean(axis=0), X[y < 0].mean(axis=0)]
    means = [theta[np.sign(theta[:, -1]) == sign, :-1].sum(axis=0) for sign in (1, -1)]
    tiles = [each.reshape(8, 8) / np.abs(each).max() for each in (means[0], sums[0], means[1], sums[1])]
    mosaic = np.block([[tiles[0], tiles[1]], [tiles[2], tiles[3]]])
    axes[0, 3].imshow(mosaic, cmap="RdBu_r", vmin=-1, vmax=1)
    axes[0, 3].axhline(7.5, color="black", lw=0.8)
    axes[0, 3].axvline(7.5, color="black", lw=0.8)
    axes[0, 3].set(xticks=[3.5, 11.5], yticks=[3.5, 11.5], xticklabels=["neurons", "class mean"],
                   yticklabels=["0", "1"], title="weights at the end")  # fmt: skip
    letter(axes)
    panels = {
        "loss": {"time": run.times, "loss": run.losses},
        "course": {"time": along.times, "means": along.means, "cosines": along.cosines, "signs": along.signs,
                   "rank": along.stable_rank, "spectral": along.spectral},
        "images": {"mosaic": mosaic}, "gram": {"gram": gram},
    }  # fmt: skip
    settings = {"width": WIDTH, "lr": rate, "steps": steps, "seed": 0, "half loss at step": run.time_at(0.5) / rate,
                "data": NOTE}  # fmt: skip
    return figure, panels, {}, settings


def phases(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Minibatches: first directions change, then norms, where both layers are trained; with the second layer frozen
    at +-1 both change at once."""
    X, y = digits(0, 1)
    rate, batch, epochs = (8e-2, 90, 65) if fast else (2e-2, 90, 400)
    steps = epochs * -(-X.shape[0] // batch)
    problem = agf.TwoLayer(X, y, loss="exponential", width=WIDTH, kink=0)
    small = start(WIDTH, X.shape[1])
    fixed = small.params()
    fixed[:, -1] = np.random.default_rng(1).choice([-1.0, 1.0], WIDTH)
    runs = {"both layers": (small, ()), "first layer": (agf.Init.from_params(fixed), (-1,))}
    figure, axes = subplots(1, 2, width=3.6, height=2.8)
    panels: dict[str, dict[str, np.ndarray]] = {}
    for ax, (name, (init, frozen)) in zip(axes[0], runs.items(), strict=True):
        run = agf.descend(problem, init, lr=rate, steps=steps, batch_size=batch, snapshots=200, frozen=frozen)
        along = agf.course(problem, run, frozen=frozen)
        epoch = along.times / (rate * steps / epochs)
        tops = [float(np.max(values[1:])) for values in (along.norm_change, along.direction_change)]
        words = [f"{word} / {number(top, 2)}" for word, top in zip(("norms", "directions"), tops, strict=False)]
        ax.plot(epoch, along.direction_change / tops[1], color=plot.PREDICTED, label=words[1])
        ax.plot(epoch, along.norm_change / tops[0], color=plot.PALETTE[2], ls="--", label=words[0])
        ax.plot(run.times / (rate * steps / epochs), run.losses, color=plot.OBSERVED, ls=":", label="loss")
        ax.set(xlabel="epoch", ylabel="change, over its largest; loss", title=f"{name} trained", xlim=(0, epochs),
               ylim=(0, 1.5))  # fmt: skip
        if frozen:
            ax.set_xscale("log", nonpositive="mask")  # else a line comes from what 0 is clipped to
            ax.set_xlim(epochs / steps, epochs)
        ax.legend(frameon=False, fontsize="small", loc="upper right")
        panels[name.replace(" ", "-")] = {"epoch": epoch, "norms": along.norm_change,
                                          "directions": along.direction_change}  # fmt: skip
    letter(axes)
    return figure, panels, {}, {"width": WIDTH, "lr": rate, "batch": batch, "epochs": epochs, "seed": 0, "data": NOTE}
