"""The saddle graph: critical points visited by predicted staircases, and the transitions between them.

A node is what the network has learned, not which run it was in: the active features (labels of the drops at which the
active neurons joined), so that runs over seeds, scales or widths merge into one transition graph of the landscape.
`saddles` makes the graph, a networkx DiGraph; an edge is a pair of names, and every other function takes the graph.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from agf import plot
from agf.arrays import FloatArray
from agf.asked import asked
from agf.errors import RequestError, explain, shown
from agf.pictures.axes import loss_scale, plain, short
from agf.records import files
from agf.records.naming import GREW, given, word_of
from agf.records.table import Table, counted, percent
from agf.records.table import number as rounded

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.transforms import Bbox

    from agf.results.drop import Drop
    from agf.results.staircase import Staircase

START = "nothing"
#: Neurons of one drop that are told apart in the name of a saddle; more have one name together.
_MOST_TOLD = 20


@asked
def feature(label: str) -> str:
    """The part of a drop's label that means the same in every run.

    "mode 2 (sigma 3.1)" -> "mode 2"; "neuron 7 (class 3)" -> "class 3", because an index of an interchangeable neuron
    says nothing across seeds; "neurons 1 (class 4), 2 (class 5)" -> "class 4, 5"; other labels are kept, and so is
    " grew on" behind any.
    """
    return (_joined(_parts(label)) or label.removesuffix(GREW)) + _grew(label)


@asked
def learned(drop: Drop) -> str:
    """The same of a `drop`; coordinates with names, their numbers mean the same in all runs: "coordinate 1 (bmi)"."""
    if word_of(drop.label) == "coordinate" and _grew(drop.label):  # nobody joined
        return drop.label.replace("coordinates ", "coordinate ", 1)
    return _joined(f"coordinate {i} ({name})" for i, name in _named(drop, None).items()) or feature(drop.label)


def _grew(label: str) -> str:
    """What a label ends in where its neurons had been learned before."""
    return GREW if label.endswith(GREW) else ""


def _named(drop: Drop, known: list[str] | None) -> dict[int, str]:
    """Names of the coordinates that a drop learns: from `known`, else from its label."""
    items = sorted(drop.neurons.tolist())
    if not 0 < len(items) <= _MOST_TOLD or word_of(drop.label) != "coordinate":
        return {}
    if known is not None:
        return {i: known[i] for i in items} if items[-1] < len(known) else {}
    words = drop.label.partition(" ")[2].partition("; leaves: ")[0]
    names = {}
    for i in reversed(items):  # from the last, as a name may hold parentheses and commas
        words, found, name = words.rpartition(f"{i} (")
        if not (found and name.endswith(")")):
            return {}
        names[i] = name[:-1]
        words = words.removesuffix(", ")
    return {} if words else {i: names[i] for i in items}


#: "modes 1 (sigma 3.1), 2": a word, and numbers that may have a parenthesis each.
_NUMBERED = re.compile(r"(?P<kind>\D*?) (?P<items>\d+(?: \([^()]*\))?(?:, \d+(?: \([^()]*\))?)*)")


def _parts(label: str) -> list[str]:
    """What was learned, one a tied neuron: ["class 4", "class 5"]; labels of another form as they are."""
    label = label.removesuffix(GREW)
    found = _NUMBERED.fullmatch(label)
    if found is None:
        return [re.sub(r"\s*\([^()]*\)", "", label)]
    items = re.findall(r"(\d+)(?: \(([^()]*)\))?(?:, |$)", found["items"])
    kind = found["kind"] if len(items) == 1 else found["kind"].removesuffix("s")
    return [_part(kind, item, inside) for item, inside in items]


def _part(kind: str, item: str, inside: str) -> str:
    """What one item is: a neuron is what stands for its feature, "class 4"; of a mere sign, "neuron (+)"."""
    if kind != "neuron" or not inside:
        return f"{kind} {item}"
    return f"{kind} ({inside})" if inside in ("+", "-") else inside


def _joined(labels: Iterable[str]) -> str:
    """Labels as one name, in order: "coordinate 1, 4 + mode 2 x2"; labels of the same kind share their word."""
    counts = Counter(label for label in labels if label)
    kinds: dict[str, list[tuple[float, str]]] = {}
    for label, count in counts.items():
        numbered = re.fullmatch(r"(\D+) ((\d+)(?: \(.*\))?)", label, flags=re.DOTALL)
        kind, item, order = (numbered[1], numbered[2], float(numbered[3])) if numbered else (label, "", 0.0)
        kinds.setdefault(kind, []).append((order, f"{item} x{count}".strip() if count > 1 else item))
    words = [f"{kind} {', '.join(item for _, item in sorted(items))}".strip() for kind, items in sorted(kinds.items())]
    return " + ".join(words)


def _name(learned: dict[int, str]) -> str:
    """What is learned, as the name of a saddle."""
    return _joined(learned.values()) or START


def _change(before: dict[int, str], after: dict[int, str]) -> str:
    """What a transition changes: "+coordinate 4, -coordinate 5"."""
    joined, left = (Counter(label for label in learned.values() if label) for learned in (after, before))
    words = [f"+{label}" for label in sorted((joined - left).elements())]
    words += [f"-{label}" for label in sorted((left - joined).elements())]
    return ", ".join(words) or "nothing new"


def _advance(learned: dict[int, str], drop: Drop, known: list[str] | None) -> dict[int, str]:
    """What is learned after a drop; known : names of the coordinates, where they have some."""
    after = dict(learned)
    if named := _named(drop, known):
        return _without(after | {i: f"coordinate {i} ({name})" for i, name in named.items()}, drop)
    parts = _parts(drop.label)
    if len(parts) != drop.neurons.size:  # one name for all that joined, once where they are many
        together = drop.neurons.size > _MOST_TOLD
        parts = [_joined(parts), *["" if together else _joined(parts)] * (drop.neurons.size - 1)][: drop.neurons.size]
    after |= zip(drop.neurons.tolist(), parts, strict=True)
    return _without(after, drop)


def _without(after: dict[int, str], drop: Drop) -> dict[int, str]:
    for neuron in drop.collapsed.tolist():
        after.pop(neuron, None)
    return after


@asked
def saddles(stairs: Iterable[Staircase]) -> nx.DiGraph:
    """Transition graph of one or many staircases `stairs` of the same problem.

    Returns a DiGraph. Graph attributes: `problem`, `runs`, and `clock`, the one on which to read the times of edges:
    "flow time", or "accelerated time" where flow times are unknown or the clocks of the runs differ (as over alphas).
    Node attributes: `level` (mean loss), `visits`, `ends` (runs that ended there). Edge attributes: `change` (what
    joins and leaves), `count`, `probability` (of leaving its source this way), `time` and `accelerated_time` (means of
    the jump times), `utility` (mean, loss), `runner_up_gap` (mean accelerated time the runner-up lacked; NaN where
    there was none).

    Raises
    ------
    RequestError
        When the staircases belong to different problems, or there are none.
    """
    import networkx as nx

    runs = list(stairs)
    odd = [shown(run) for run in runs if not hasattr(run, "start_level")]
    if odd:
        raise RequestError(explain("`stairs` holds no predictions only.", found=odd[0], expected="agf.Staircase"))
    names = sorted({run.problem for run in runs})
    if len(names) != 1:
        raise RequestError(
            explain(
                "a saddle graph merges runs of one problem.",
                found=", ".join(names) or "no run",
                remedy="Give run files of one problem.",
            )
        )
    graph = nx.DiGraph(problem=names[0], runs=len(runs), clock=_clock(runs))
    levels: dict[str, list[float]] = {}
    edges: dict[tuple[str, str], list[Drop]] = {}
    changes: dict[tuple[str, str], str] = {}
    ends: Counter[str] = Counter()
    for run in runs:
        learned: dict[int, str] = {}
        here = START
        known = given(run.arguments, run.init.width) if run.init is not None else None
        levels.setdefault(here, []).append(run.start_level)
        for drop in run.drops:
            after = _advance(learned, drop, known)
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


#: Clocks whose units differ by more than this factor are different clocks.
_SAME_CLOCK = 1.25


def _clock(runs: list[Staircase]) -> str:
    units = [run.clock.log_scale for run in runs]
    known = all(math.isfinite(drop.time) for run in runs for drop in run.drops)
    return "flow time" if known and max(units) - min(units) <= math.log(_SAME_CLOCK) else "accelerated time"


def _check(graph: nx.DiGraph) -> None:
    """Raise RequestError where a graph is not one of `saddles`."""
    if "clock" not in graph.graph:
        raise RequestError(
            explain("the graph is none of saddles.", found=str(graph), expected="one of agf.graph.saddles")
        )


@asked
def edge_time(graph: nx.DiGraph, edge: tuple[str, str]) -> float:
    """Mean jump time of a transition on the clock of the graph (its attribute `clock`).

    Raises
    ------
    RequestError
        Where the graph has no such transition.
    """
    _check(graph)
    if tuple(edge) not in list(graph.edges):
        there = "; ".join(map(" -> ".join, graph.edges)) or "none"
        raise RequestError(explain("there is no such transition.", found=shown(edge), expected=f"one of {there}"))
    return float(graph.edges[edge]["time" if graph.graph["clock"] == "flow time" else "accelerated_time"])


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


@asked
def most_likely_path(graph: nx.DiGraph) -> list[str]:
    """The path from nothing learned to an end that maximizes the product of the transition and ending probabilities.

    Shortest path with weights -log probability, so returns to earlier saddles cost what they should.
    """
    import networkx as nx

    _check(graph)

    def cost(source: str, target: str, attributes: dict[str, Any]) -> float:
        del source, target
        return -math.log(attributes["probability"])

    lengths, paths = nx.single_source_dijkstra(graph, START, weight=cost)
    total = {node: graph.nodes[node]["ends"] for node in paths if graph.nodes[node]["ends"] > 0}
    stay = {node: ends / graph.nodes[node]["visits"] for node, ends in total.items()}
    best = min(stay, key=lambda node: (lengths[node] - math.log(stay[node]), node))
    return list(paths[best])


@asked
def numbered(graph: nx.DiGraph) -> dict[str, int]:
    """Number of each saddle, in order: from 1, where nothing is learned, by the fewest drops from there, and level."""
    _check(graph)
    depth = _depths(graph)
    return {node: k for k, node in enumerate(sorted(graph, key=lambda n: (depth[n], -graph.nodes[n]["level"])), 1)}


@asked
def table(graph: nx.DiGraph) -> Table:
    """The transitions of a graph, a row each; its saddles by their numbers (`numbered`), as pictures have them."""
    numbers, nodes = numbered(graph), graph.nodes
    rows = []
    for source, target in sorted(graph.edges, key=lambda edge: (numbers[edge[0]], numbers[edge[1]])):
        data = graph.edges[source, target]
        moment, level = rounded(edge_time(graph, (source, target))), rounded(nodes[target]["level"])
        ends = [str(numbers[source]), str(numbers[target])]
        rows.append([*ends, percent(data["probability"]), str(data["count"]), moment, level, data["change"]])
    return Table(
        f"Transitions between saddles of {graph.graph['problem']}, {counted(graph.graph['runs'], 'run')}",
        ["from", "to", "share", "runs", "time", "level", "change"],
        rows,
        [
            f"Time: mean {graph.graph['clock']} of the drop. Saddles are numbered from 1, where nothing is learned; "
            "pictures name them.",
            f"Most likely: {story(graph)}",
        ],
    )


@asked
def story(graph: nx.DiGraph) -> str:
    """The most likely path as a chain of changes."""
    path = most_likely_path(graph)
    return " > ".join([path[0], *[graph.edges[step]["change"] for step in itertools.pairwise(path)]])


@asked
def write(graph: nx.DiGraph, path: str | os.PathLike[str]) -> None:
    """Export to `path` by suffix, .graphml or .dot.

    Raises
    ------
    RequestError
        For another one.
    FileError
        When unwritable.
    """
    _check(graph)
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
        words = f"{data['probability']:.0%}, {graph.graph['clock']} {edge_time(graph, (source, target)):.4g}"
        lines.append(f"  {quote(source)} -> {quote(target)} [label={quote(words)}, weight={data['count']}];")
    lines.append("}")
    return "\n".join(lines)


#: Saddles that are numbered and named, at most; size of their discs, and of the dots of all others, in points.
_NAMED = 30
_DISC = 11.0
_DOT = 4.0
#: Letters of the longest name beside the picture.
_LONGEST_NAME = 44
#: Sagitta of an arrow over its length.
_BEND = 0.08


@asked
def draw(graph: nx.DiGraph, *, ax: Any = None) -> Any:
    """Draw the graph with the level (loss) as height, against the fewest drops from the start.

    Saddles are numbered as by `numbered`, and named beside the picture with the runs that visited them: those of the
    most likely path, then the most visited ones, 30 at most and as many as stand apart; the others are dots. Those of
    one depth stand side by side. Beside an arrow: the probability of the transition with its runs (where there are
    several), and the mean jump time, where the words touch no saddle, no other words and no arrow; the most likely path
    has its words across other arrows where it must. The rest is in the attributes of the graph. Width of an arrow is
    its probability; the most likely path is blue, ends are orange. ax : matplotlib axes; a new figure when None.
    Returns the axes.
    """
    _check(graph)
    ax = plot.new_axes(1.5) if ax is None else ax
    depth, path, numbers = _depths(graph), most_likely_path(graph), numbered(graph)
    order = list(numbers)
    position = _positions(graph, depth, order)
    on_path = set(itertools.pairwise(path))
    edges = sorted(graph.edges, key=lambda edge: (edge not in on_path, -graph.edges[edge]["count"]))
    for edge in edges:
        start, end = (position[node] for node in edge)
        style = {"arrowstyle": "-|>", "shrinkA": 6, "shrinkB": 6, "connectionstyle": f"arc3,rad={_BEND}"}
        style |= {"lw": 0.8 + 2.2 * graph.edges[edge]["probability"]}
        style |= {"color": plot.OBSERVED if edge in on_path else plot.RULE}
        ax.annotate("", end, start, arrowprops=style, zorder=1.5 if edge in on_path else 1)
    ax.update_datalim(list(position.values()))
    ax.autoscale_view()
    ax.margins(x=0.06, y=0.1)
    ax.set_xlabel("fewest drops from the start")
    ax.set_ylabel("level (loss)")
    loss_scale(ax, [np.array([graph.nodes[node]["level"] for node in path])])
    runs = graph.graph["runs"]
    words = f"mean {graph.graph['clock']} of the drop"
    words = f"probability (runs), {words}" if runs > 1 else words.removeprefix("mean ")
    ax.set_title(f"Saddles of {plain(graph.graph['problem'])}" + (f", {runs} runs" if runs > 1 else ""), pad=18)
    ax.text(0.5, 1.01, f"beside arrows: {words}", transform=ax.transAxes, ha="center", va="bottom", fontsize="small")
    ax.xaxis.get_major_locator().set_params(integer=True)
    importance = sorted(order, key=lambda node: (node not in path, -graph.nodes[node]["visits"]))[:_NAMED]
    number = {node: str(k) for node, k in numbers.items() if node in set(importance)}
    beside = {"transform": ax.transAxes, "va": "top", "fontsize": "small", "linespacing": 1.3}
    names = ax.text(1.02, 1.0, _names(graph, number), **beside)
    ax.get_figure(root=True).draw_without_rendering()  # the layout decides where things are
    apart = _apart(ax, [position[node] for node in importance])
    roomy = {node for node, room in zip(importance, apart, strict=True) if room}
    number = {node: k for node, k in number.items() if node in roomy}
    names.set_text(_names(graph, number))
    for node, (x, y) in position.items():
        face = plot.PREDICTED if graph.nodes[node]["ends"] else "black" if node in number else plot.RULE
        ax.plot([x], [y], "o", color=face, ms=_DISC if node in number else _DOT, zorder=3 if node in number else 2)
        if node in number:
            ax.annotate(number[node], (x, y), ha="center", va="center", color="white", fontsize="x-small", zorder=5)
    _label_edges(ax, graph, edges, position, on_path, roomy)
    return ax


def _names(graph: nx.DiGraph, number: dict[str, str]) -> str:
    """The list beside the picture: number, name and visits of the saddles named, and what is left out."""
    runs = graph.graph["runs"]
    lines = []
    for node, k in number.items():
        visits = f"  ({graph.nodes[node]['visits']})" if runs > 1 else ""
        lines.append(f"{k}: {plain(short(node, _LONGEST_NAME))}{visits}")
    rest = [graph.nodes[node]["visits"] for node in graph if node not in number]
    if rest:
        lines.append(f"and {len(rest)} more, visited at most {max(rest)} times")
    return "\n".join(([f"saddle (visits in {runs} runs)"] if runs > 1 else []) + lines)


def _apart(ax: Any, places: list[tuple[float, float]]) -> list[bool]:
    """Which discs can be drawn, each where it touches none before it."""
    centres = ax.transData.transform(places) * 72 / ax.get_figure(root=True).dpi
    kept: list[int] = []
    for k, centre in enumerate(centres):
        if not kept or np.hypot(*(centres[kept] - centre).T).min() > _DISC + 2:
            kept.append(k)
    return [k in set(kept) for k in range(len(places))]


def _label_edges(
    ax: Any,
    graph: nx.DiGraph,
    edges: list[tuple[str, str]],
    position: dict[str, tuple[float, float]],
    on_path: set[tuple[str, str]],
    numbered: set[str],
) -> None:
    """Words beside the arrows, in the order of `edges`, each where it touches nothing, or nowhere.

    The words of `on_path` come before the others and may cover arrows, if they fit nowhere else.
    """
    from matplotlib.transforms import Bbox

    figure = ax.get_figure(root=True)
    figure.draw_without_rendering()
    point, inside = figure.dpi / 72, ax.get_window_extent()
    place_of = dict(zip(position, ax.transData.transform(list(position.values())), strict=True))
    taken = []
    for node, centre in place_of.items():
        reach = (0.5 * (_DISC if node in numbered else _DOT) + 2.0) * point
        taken.append(Bbox([centre - reach, centre + reach]))
    curves = {edge: _arrow(place_of[edge[0]], place_of[edge[1]], np.linspace(0, 1, 41)) for edge in edges}
    arrows = np.concatenate([np.zeros((0, 2)), *curves.values()])
    for edge in edges:
        data, blue = graph.edges[edge], edge in on_path
        words = rounded(edge_time(graph, edge), 3)
        if graph.graph["runs"] > 1:
            words = f"{data['probability']:.0%} ({data['count']}), {words}"
        paper = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        style = {"ha": "center", "va": "center", "fontsize": "x-small", "zorder": 4, "bbox": paper}
        text = ax.text(0.5, 0.5, words, transform=ax.transAxes, color=plot.OBSERVED if blue else "0.35", **style)
        box = text.get_window_extent()
        size = np.array([box.width, box.height]) + 2 * (0.1 * text.get_fontsize() + 1.0) * point
        fitting: list[tuple[bool, int, FloatArray]] = []  # the freest, then the first, is best
        for k, middle in enumerate(_beside(place_of[edge[0]], place_of[edge[1]], size)):
            covers = bool((np.abs(arrows - middle) < size / 2).all(axis=1).any())
            place = Bbox([middle - size / 2, middle + size / 2])
            if covers <= blue and not place.count_overlaps(taken) and _within(place, inside):
                fitting.append((not covers, -k, middle))
        if fitting:
            middle = max(fitting, key=lambda one: one[:2])[2]
            taken.append(Bbox([middle - size / 2, middle + size / 2]))
            text.set_position(ax.transAxes.inverted().transform(middle))
        else:
            text.remove()


def _arrow(start: FloatArray, end: FloatArray, shares: FloatArray) -> FloatArray:
    """Points of a bent arrow, (k, 2), at these shares of its length."""
    along = end - start
    across = np.array([along[1], -along[0]])
    at = shares[:, None]
    return start + at * along + 2 * at * (1 - at) * _BEND * across


def _beside(start: FloatArray, end: FloatArray, size: FloatArray) -> FloatArray:
    """Where the middle of a box of this size may stand: on both sides of an arrow, clear of it; the best come first."""
    along = end - start
    unit = np.array([along[1], -along[0]]) / (np.hypot(*along) or 1.0)
    reach = 0.5 * float(np.abs(unit) @ size) + 0.1 * size[1]
    on = np.repeat(_arrow(start, end, np.array([0.5, 0.4, 0.6, 0.3, 0.7])), 2, axis=0)
    sides = np.tile([-1.0, 1.0], on.shape[0] // 2)
    return on + reach * sides[:, None] * unit


def _within(box: Bbox, frame: Bbox) -> bool:
    return frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1


def _positions(graph: nx.DiGraph, depth: dict[str, int], order: list[str]) -> dict[str, tuple[float, float]]:
    """(drops, level) of every node; nodes of one depth spread over most of a drop, so that none hides another."""
    out = {}
    for level in set(depth.values()):
        row = [node for node in order if depth[node] == level]
        for k, node in enumerate(row):
            shift = 0.8 * (k / (len(row) - 1) - 0.5) if len(row) > 1 else 0.0
            out[node] = (level + shift, graph.nodes[node]["level"])
    return out


def _depths(graph: nx.DiGraph) -> dict[str, int]:
    import networkx as nx

    return dict(nx.single_source_shortest_path_length(graph, START))
