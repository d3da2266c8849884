"""The saddle graph: critical points visited by predicted staircases, and the transitions between them.

A node is what the network has learned, not which run it was in: the active features (labels of the drops at which the
active neurons joined), so that runs over seeds, scales or widths merge into one transition graph of the landscape.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agf import files, plot
from agf.errors import RequestError, explain
from agf.staircase import Drop, Staircase

if TYPE_CHECKING:
    import networkx as nx

START = "nothing"


def feature(label: str) -> str:
    """The part of a drop's label that means the same in every run.

    "mode 2 (sigma 3.1)" -> "mode 2"; "neuron 7 (class 3)" -> "class 3", because an index of an interchangeable neuron
    says nothing across seeds; labels without a parenthesis are kept.
    """
    inside = re.search(r"\(([^()]*)\)\s*$", label)
    if inside is None:
        return label
    return inside.group(1) if label.startswith("neuron") else re.sub(r"\s*\([^()]*\)", "", label)


def _name(learned: dict[int, str]) -> str:
    """What is learned, as one name: "coordinate 1, 4 + mode 2 x2"; labels of the same kind share their word."""
    counts = Counter(learned.values())
    kinds: dict[str, list[tuple[float, str]]] = {}
    for label, count in counts.items():
        numbered = re.fullmatch(r"(\D+) (\d+)", label)
        kind, item, order = (numbered[1], numbered[2], float(numbered[2])) if numbered else (label, "", 0.0)
        kinds.setdefault(kind, []).append((order, f"{item} x{count}".strip() if count > 1 else item))
    words = [f"{kind} {', '.join(item for _, item in sorted(items))}".strip() for kind, items in sorted(kinds.items())]
    return " + ".join(words) if words else START


def _change(before: dict[int, str], after: dict[int, str]) -> str:
    """What a transition changes: "+coordinate 4, -coordinate 5"."""
    joined, left = Counter(after.values()), Counter(before.values())
    words = [f"+{label}" for label in sorted((joined - left).elements())]
    words += [f"-{label}" for label in sorted((left - joined).elements())]
    return ", ".join(words) or "nothing new"


def _advance(learned: dict[int, str], drop: Drop) -> dict[int, str]:
    after = dict(learned)
    joined = feature(drop.label)
    for neuron in drop.neurons.tolist():
        after[neuron] = joined if drop.neurons.size == 1 else f"{joined} [{neuron}]"
    for neuron in drop.collapsed.tolist():
        after.pop(neuron, None)
    return after


def saddles(stairs: Iterable[Staircase]) -> nx.DiGraph:
    """Transition graph of one or many staircases of the same problem.

    Returns a DiGraph. Graph attributes: `problem`, `runs`. Node attributes: `level` (mean loss), `visits`, `ends` (runs
    that ended there). Edge attributes: `change` (what joins and leaves), `count`, `probability` (of leaving its source
    this way), `time` and `accelerated_time` (means of the jump times), `utility` (mean, loss), `runner_up_gap` (mean
    accelerated time the runner-up lacked; NaN where there was none).

    Raises RequestError when the staircases belong to different problems, or there are none.
    """
    import networkx as nx

    runs = list(stairs)
    names = sorted({run.problem for run in runs})
    if len(names) != 1:
        raise RequestError(
            explain(
                "a saddle graph merges runs of one problem.",
                found=", ".join(names) or "no run",
                remedy="Give run files of one problem.",
            )
        )
    graph = nx.DiGraph(problem=names[0], runs=len(runs))
    levels: dict[str, list[float]] = {}
    edges: dict[tuple[str, str], list[Drop]] = {}
    changes: dict[tuple[str, str], str] = {}
    ends: Counter[str] = Counter()
    for run in runs:
        learned: dict[int, str] = {}
        here = START
        levels.setdefault(here, []).append(run.start_level)
        for drop in run.drops:
            after = _advance(learned, drop)
            there = _name(after)
            changes.setdefault((here, there), _change(learned, after))
            learned = after
            edges.setdefault((here, there), []).append(drop)
            levels.setdefault(there, []).append(drop.level)
            here = there
        ends[here] += 1
    for name, values in levels.items():
        graph.add_node(name, level=_mean(values), visits=len(values), ends=ends[name])
    leaving: Counter[str] = Counter()
    for (source, _), drops in edges.items():
        leaving[source] += len(drops)
    for (source, target), drops in edges.items():
        graph.add_edge(
            source,
            target,
            change=changes[source, target],
            count=len(drops),
            probability=len(drops) / (leaving[source] + ends[source]),
            time=_mean([drop.time for drop in drops]),
            accelerated_time=_mean([drop.accelerated_time for drop in drops]),
            utility=_mean([float(drop.utility.max()) for drop in drops if drop.utility.size]),
            runner_up_gap=_mean([drop.runner_up[1] for drop in drops if drop.runner_up]),
        )
    return graph


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def most_likely_path(graph: nx.DiGraph) -> list[str]:
    """The path from nothing learned to an end that maximizes the product of the transition and ending probabilities.

    Shortest path with weights -log probability, so returns to earlier saddles cost what they should.
    """
    import networkx as nx

    def cost(source: str, target: str, attributes: dict[str, Any]) -> float:
        del source, target
        return -math.log(attributes["probability"])

    lengths, paths = nx.single_source_dijkstra(graph, START, weight=cost)
    total = {node: graph.nodes[node]["ends"] for node in paths if graph.nodes[node]["ends"] > 0}
    stay = {node: ends / graph.nodes[node]["visits"] for node, ends in total.items()}
    best = min(stay, key=lambda node: (lengths[node] - math.log(stay[node]), node))
    return list(paths[best])


def story(graph: nx.DiGraph) -> str:
    """The most likely path as a chain of changes."""
    path = most_likely_path(graph)
    return " > ".join([path[0], *[graph.edges[step]["change"] for step in itertools.pairwise(path)]])


def write(graph: nx.DiGraph, path: str | os.PathLike[str]) -> None:
    """Export by suffix: `.graphml` or `.dot`. Raises RequestError for another suffix, FileError when unwritable."""
    text = os.fspath(path)
    if text.endswith(".graphml"):
        import networkx as nx

        content = "\n".join(nx.generate_graphml(graph))
    elif text.endswith(".dot"):
        content = _dot(graph)
    else:
        raise RequestError(explain(f"unknown graph format {text!r}.", expected="a name ending in .graphml or .dot"))
    with files.atomic(path, "w") as handle:
        handle.write(content + "\n")


def _dot(graph: nx.DiGraph) -> str:
    quote = json.dumps  # DOT strings escape quotes and backslashes as JSON does
    lines = ["digraph saddles {", "  rankdir=TB;"]
    for node, data in graph.nodes(data=True):
        words = f"{node}\nL = {data['level']:.4g}"
        lines.append(f"  {quote(node)} [label={quote(words)}];")
    for source, target, data in graph.edges(data=True):
        words = f"{data['probability']:.0%}, t = {data['accelerated_time']:.4g}"
        lines.append(f"  {quote(source)} -> {quote(target)} [label={quote(words)}, weight={data['count']}];")
    lines.append("}")
    return "\n".join(lines)


#: With more nodes than this, their names would not fit beside the picture and are left to the table.
_LISTED = 20


def draw(graph: nx.DiGraph, *, ax: Any = None) -> Any:
    """Draw the graph with the level (loss) as height, against the number of drops from the start.

    Up to 20 nodes are numbered by depth and level, and named beside the picture; those of one depth stand side by side.
    Width of an edge is the probability of the transition, written beside it where it is below 1 (one run: its
    accelerated time); the most likely path is blue, ends are orange. Returns the axes.
    """
    ax = plot.new_axes() if ax is None else ax
    depth = _depths(graph)
    order = sorted(graph, key=lambda node: (depth[node], -graph.nodes[node]["level"]))
    number = {node: k for k, node in enumerate(order, 1)}
    position = _positions(graph, depth, order)
    on_path = set(itertools.pairwise(most_likely_path(graph)))
    many, few = graph.graph["runs"] > 1, len(order) <= _LISTED
    for source, target, data in graph.edges(data=True):
        colour = plot.OBSERVED if (source, target) in on_path else plot.RULE
        _arrow(ax, position[source], position[target], colour, 0.8 + 2.2 * data["probability"])
        words = f"{data['probability']:.0%}" if many else f"t = {data['accelerated_time']:.3g}"
        if few and not (many and data["probability"] == 1):
            (x0, y0), (x1, y1) = position[source], position[target]
            _write_on(ax, words, (x0 + 0.7 * (x1 - x0), y0 + 0.7 * (y1 - y0)), (4, 8), color=colour)
    for node, (x, y) in position.items():
        face = plot.PREDICTED if graph.nodes[node]["ends"] else "black"
        ax.plot([x], [y], "o", color=face, ms=11 if few else 6, zorder=2)
        if few:
            ax.annotate(
                str(number[node]), (x, y), ha="center", va="center", color="white", fontsize="x-small", zorder=4
            )
    if few:
        lines = [f"{number[node]}: {textwrap.shorten(node, 44)}" for node in order]
        ax.text(1.02, 1.0, "\n".join(lines), transform=ax.transAxes, va="top", fontsize="small")
    ax.margins(x=0.08, y=0.1)
    ax.set_xlabel("drops from the start")
    ax.set_ylabel("level (loss)")
    ax.set_title(f"Saddles of {graph.graph['problem']}" + (f", {graph.graph['runs']} runs" if many else ""))
    ax.xaxis.get_major_locator().set_params(integer=True)
    return ax


def _positions(graph: nx.DiGraph, depth: dict[str, int], order: list[str]) -> dict[str, tuple[float, float]]:
    """(drops, level) of every node; nodes of one depth spread over half a drop, so that none hides another."""
    out = {}
    for level in set(depth.values()):
        row = [node for node in order if depth[node] == level]
        for k, node in enumerate(row):
            shift = 0.5 * (k / (len(row) - 1) - 0.5) if len(row) > 1 else 0.0
            out[node] = (level + shift, graph.nodes[node]["level"])
    return out


def _arrow(ax: Any, start: tuple[float, float], end: tuple[float, float], colour: str, width: float) -> None:
    style = {"arrowstyle": "-|>", "shrinkA": 6, "shrinkB": 6, "connectionstyle": "arc3,rad=0.08"}
    ax.annotate("", end, start, arrowprops={**style, "lw": width, "color": colour}, zorder=1)


def _write_on(ax: Any, words: str, at: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    paper = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    ax.annotate(words, at, textcoords="offset points", xytext=offset, fontsize="small", bbox=paper, zorder=3, **style)


def _depths(graph: nx.DiGraph) -> dict[str, int]:
    import networkx as nx

    return dict(nx.single_source_shortest_path_length(graph, START))
