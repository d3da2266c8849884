"""The race inside a group: shares are kept, and without its leaders the losers take over the whole total."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf import plot
from agf.figures.blobs import DISTANCES, blobs, degrees, start
from agf.figures.figure import letter, subplots
from agf.results.comparison import Comparison


def draw(fast: bool) -> tuple[Any, dict[str, dict[str, np.ndarray]], dict[str, Comparison], dict[str, Any]]:
    """Figure, panels, comparisons, settings."""
    width, horizon = (30 if fast else 100), 30.0
    X, labels = blobs(tuple(DISTANCES.values()), each=20 if fast else 50)
    problem = agf.TwoLayer(X, labels, loss="cross-entropy", width=width)
    init = start(width, 4, 1e-4)
    flow = agf.flow(problem, init, t_max=horizon, snapshots=300)
    stairs = agf.predict(problem, init, t_max=horizon)
    fastest = max(agf.groups(flow, at=int(np.argmax(flow.snapshot_times > 5.0))).groups, key=lambda g: g.total)
    members = fastest.members
    leaders = members[: max(members.size // 4, 1)]
    rest = np.setdiff1d(members, leaders)
    others = np.setdiff1d(np.arange(width), leaders)
    smaller = agf.TwoLayer(X, labels, loss="cross-entropy", width=others.size)
    alone = agf.flow(smaller, agf.Init(init.directions[others], init.log_norms[others], init.alpha), t_max=horizon,
                     snapshots=300)  # fmt: skip
    figure, axes = subplots(1, 3, width=3.5, height=2.9)
    total, shares, taken = axes[0]
    panels: dict[str, dict[str, np.ndarray]] = {}
    distances = list(DISTANCES.values())
    for number, group in enumerate(agf.groups(flow).groups[: len(distances)]):
        sizes = np.exp(2 * flow.log_norms[:, group.members]).sum(axis=1)
        off = np.abs((degrees(flow.params(-1)[group.members[0]]) - np.array(list(DISTANCES)) + 180) % 360 - 180)
        k = int(np.argmin(off))
        total.semilogy(flow.snapshot_times, sizes, color=plot.PALETTE[k],
                       label=f"{distances[k]:g}: {group.members.size} neurons")  # fmt: skip
        panels[f"group{number}"] = {"t": flow.snapshot_times, "total": sizes, "members": group.members}
    total.set(xlabel="flow time", ylabel=r"$\sum \rho^2$ of a group", xlim=(0, horizon), title="groups")
    total.set_ylim(top=1e4 * total.get_ylim()[1])  # room for the legend
    handles, words = total.get_legend_handles_labels()
    order = np.argsort([-float(word.split(":")[0]) for word in words])  # as the drops come
    total.legend([handles[k] for k in order], [words[k] for k in order], frameon=False, fontsize="small", ncols=2,
                 loc="upper center", title="distance of the blob", title_fontsize="small")  # fmt: skip
    sizes = np.exp(2 * flow.log_norms[:, members])
    part = sizes / sizes.sum(axis=1, keepdims=True)
    shares.stackplot(flow.snapshot_times, part.T, colors=[plot.PALETTE[k % 4] for k in range(members.size)], alpha=0.75,
                     lw=0)  # fmt: skip
    shares.set(xlabel="flow time", ylabel="share of a neuron", xlim=(0, horizon), ylim=(0, 1),
               title="inside the fastest group")  # fmt: skip
    whole, losers = (np.exp(2 * run.log_norms[:, rows]).sum(axis=1) for run, rows in (
        (flow, members), (flow, rest)))  # fmt: skip
    later = np.exp(2 * alone.log_norms[:, np.searchsorted(others, rest)]).sum(axis=1)
    taken.plot(flow.snapshot_times, whole, color=plot.OBSERVED, label="whole group")
    taken.plot(flow.snapshot_times, losers, ":", color=plot.OBSERVED, label="its losers")
    taken.plot(alone.snapshot_times, later, "--", color=plot.PREDICTED, label="losers, without the leaders")
    taken.set(xlabel="flow time", ylabel=r"$\sum \rho^2$", xlim=(0, horizon), ylim=(0, None),
              title="without its leaders")  # fmt: skip
    taken.legend(frameon=False, fontsize="small", loc="center right", bbox_to_anchor=(1.0, 0.37))
    letter(axes)
    panels["shares"] = {"t": flow.snapshot_times, "shares": part, "members": members}
    panels["losers"] = {"t": flow.snapshot_times, "whole": whole, "losers": losers, "alone_t": alone.snapshot_times,
                        "alone": later, "deleted": leaders}  # fmt: skip
    settings = {"width": width, "std": 1e-4, "seed": 0, "deleted": leaders.tolist(),
                "taken_over": float(later[-1] / whole[-1]), "share_before": float(losers[-1] / whole[-1])}  # fmt: skip
    return figure, panels, {"four blobs": agf.compare(stairs, flow)}, settings
