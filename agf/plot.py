"""Pictures of predictions, trajectories and comparisons: axes in, axes out.

Every function takes `ax=` and returns it, so that plots compose; with `ax=None` a figure is made in the user's style.
Time is logarithmic, colours are safe for colour-blind readers (Okabe and Ito), and what a result lacks is said in the
picture. `save` chooses the format by suffix (pdf, svg, eps for vectors).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agf import files
from agf.arrays import FloatArray
from agf.clock import charge
from agf.errors import FileError, RequestError, explain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from agf.comparison import Comparison
    from agf.staircase import Staircase
    from agf.trajectory import Trajectory

ACCELERATED = "accelerated time"
#: Okabe and Ito, in the order used for features and neurons.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
PREDICTED = "#D55E00"
OBSERVED = "#0072B2"
RULE = "#999999"
#: Formats that matplotlib writes without further software.
SUFFIXES = (".pdf", ".svg", ".eps", ".ps", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
#: Lines drawn in colours of their own; the rest is grey, because more colours cannot be told apart.
_MOST_COLOURED = len(PALETTE)
#: Least distance between two drop labels, in widths of the axes.
_LABEL_GAP = 0.032
#: More labels than this are left to the table; letters of the longest one.
_MOST_LABELS = 24
_LONGEST_LABEL = 24


def new_axes() -> Axes:
    """Axes of a new figure in the user's style.

    The figure belongs to pyplot only if the session already uses pyplot (so that notebooks show it); otherwise no
    global state is touched, and no display is needed.
    """
    if "matplotlib.pyplot" in sys.modules:
        return sys.modules["matplotlib.pyplot"].subplots(layout="constrained")[1]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a picture that could not be written, before anything is computed. Raises FileError."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(
            explain(
                f"cannot draw {str(path)!r}: its suffix names no picture format.",
                expected="one of " + ", ".join(SUFFIXES),
            )
        )
    files.check_writable(path)


def save(ax: Axes, path: str | os.PathLike[str] | None) -> Axes:
    """Write the figure of `ax` in the format of the suffix; nothing when path is None. Returns `ax`.

    The file appears complete or not at all, and holds no date, so that equal pictures are equal files.
    Raises FileError for an unknown suffix or a path that cannot be written.
    """
    if path is None:
        return ax
    check_path(path)
    import matplotlib as mpl

    suffix = Path(path).suffix.lower()[1:]
    undated: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    figure = ax.get_figure(root=True)
    assert figure is not None  # axes without a figure cannot be drawn on either
    with mpl.rc_context({"svg.hashsalt": "agf"}), files.atomic(path) as handle:
        figure.savefig(handle, format=suffix, dpi=200, metadata=undated.get(suffix))
    return ax


# -- staircase --------------------------------------------------------------------------------------------------


def staircase(
    stairs: Staircase, *, ax: Axes | None = None, color: str = PREDICTED, label: str = "predicted", rules: bool = True
) -> Axes:
    """The predicted levels against log flow time, each step at its half-drop time, with a rule and a name.

    Where no flow times are known (a theory as alpha -> 0), the axis is accelerated time and linear. A resolved
    prediction is drawn as its curve. An empty staircase is a level line with a sentence.
    rules : whether to draw the rules and names.
    """
    ax = new_axes() if ax is None else ax
    seen = ax.get_xlim() if ax.has_data() else (np.inf, -np.inf)
    times, in_flow_time = _drop_times(stairs)
    left, right = _span(times, in_flow_time)
    if stairs.curve_times.size:
        left, right = min(left, _first_positive(stairs.curve_times)), max(right, float(stairs.curve_times[-1]))
        ax.plot(stairs.curve_times, stairs.curve_losses, color=color, label=label)
    else:
        left, right = min(left, seen[0]), max(right, seen[1])
        edges = np.concatenate([[left], times, [right]])
        ax.step(edges, np.append(stairs.levels, stairs.levels[-1]), where="post", color=color, label=label)
    if in_flow_time:
        ax.set_xscale("log")
        ax.set_xlabel("flow time")
    else:
        ax.set_xlabel(ACCELERATED)
    ax.set_xlim(min(left, seen[0]), max(right, seen[1]))
    ax.set_ylabel("loss")
    if rules and times.size:
        _drop_rules(ax, times, [drop.label for drop in stairs.drops])
    if not stairs.drops:
        _say(ax, f"no drop is predicted ({stairs.status.word})")
    return ax


def _drop_times(stairs: Staircase) -> tuple[FloatArray, bool]:
    """Half-drop times in flow time where all are finite, else accelerated switch times."""
    times = stairs.half_times[1:]
    if np.isfinite(times).all():
        return times, True
    times = stairs.accelerated_times[1:]
    return np.where(np.isfinite(times), times, np.nan), False


def _span(times: FloatArray, log: bool) -> tuple[float, float]:
    """Where the time axis begins and ends: a stretch of plateau on both sides of the drops."""
    inside = times[np.isfinite(times) & (times > 0)]
    if not inside.size:
        return (0.1, 10.0) if log else (0.0, 1.0)
    first, last = float(inside.min()), float(inside.max())
    if not log:
        return 0.0, 1.15 * last
    room = max((last / first) ** 0.15, 1.5)
    return first / room, last * room


def _drop_rules(ax: Axes, times: FloatArray, labels: Sequence[str]) -> None:
    """A thin vertical rule at each time, and the labels above the axes, pushed apart where they would overlap."""
    for time in times:
        ax.axvline(time, color=RULE, linewidth=0.6, linestyle=":", zorder=0)
    if len(times) > _MOST_LABELS or not any(labels):
        return
    to_fraction = ax.transScale + ax.transLimits
    at = np.array([to_fraction.transform((time, ax.get_ylim()[0]))[0] for time in times])
    order = np.argsort(at, kind="stable")
    placed = _spread(at[order], _LABEL_GAP)
    for index, x in zip(order, placed, strict=True):
        if not 0 <= at[index] <= 1:
            continue
        ax.annotate(
            _short(labels[index]),
            (times[index], 1.0),
            (x, 1.03),
            xycoords=ax.get_xaxis_transform(),
            textcoords="axes fraction",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize="x-small",
            arrowprops={"arrowstyle": "-", "color": RULE, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0},
            annotation_clip=False,
        )


def _short(label: str) -> str:
    """A label that leaves room for the picture: a long one without its parenthesis, or cut."""
    if len(label) > _LONGEST_LABEL:
        label = label.split(" (")[0]
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 3] + "..."


def _spread(positions: FloatArray, gap: float) -> FloatArray:
    """Sorted positions moved as little as possible (least squares) so that neighbours are `gap` apart.

    Isotonic regression of positions - k gap by pooling adjacent violators.
    """
    blocks: list[tuple[float, int]] = []
    for k, position in enumerate(positions):
        mean, count = float(position) - k * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, size = blocks.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        blocks.append((mean, count))
    flat = np.repeat([mean for mean, _ in blocks], [count for _, count in blocks])
    return flat + gap * np.arange(len(positions))


def _first_positive(times: FloatArray) -> float:
    positive = times[times > 0]
    return float(positive[0]) if positive.size else 1.0


def _say(ax: Axes, words: str) -> None:
    ax.text(0.5, 0.6, words, transform=ax.transAxes, ha="center", va="center", wrap=True)


# -- trajectory -------------------------------------------------------------------------------------------------


def trajectory(
    traj: Trajectory, *, ax: Axes | None = None, color: str = OBSERVED, label: str | None = None, marks: bool = True
) -> Axes:
    """The loss curve against log flow time. marks : whether to mark half-way down each drop found in it."""
    ax = new_axes() if ax is None else ax
    seen = ax.get_xlim() if ax.has_data() else (np.inf, -np.inf)
    later = traj.times > 0
    found = traj.drops if later.sum() > 1 else []
    if later.sum() < 2:
        _say(ax, f"no loss was recorded after the start ({traj.status.word})")
    ax.plot(traj.times[later], traj.losses[later], color=color, label=label or traj.kind)
    if marks and found:
        ax.plot(
            [drop.time for drop in found],
            [(drop.before + drop.after) / 2 for drop in found],
            linestyle="none",
            marker="o",
            markersize=4,
            markerfacecolor="white",
            color=color,
            label="half-way down a drop",
        )
    ax.set_xscale("log")
    if found:
        ax.set_xlim(min(seen[0], min(drop.start for drop in found) / 3), max(seen[1], float(traj.times[-1])))
    ax.set_xlabel("flow time")
    ax.set_ylabel("loss")
    return ax


# -- both -------------------------------------------------------------------------------------------------------


def comparison(report: Comparison, *, ax: Axes | None = None) -> Axes:
    """The trained loss curve with the predicted steps over it, and the rules and names of the predicted drops."""
    ax = new_axes() if ax is None else ax
    before = len(ax.lines)
    trajectory(report.trajectory, ax=ax)
    ax.lines[before].set_linewidth(2 * ax.lines[before].get_linewidth())  # the steps lie on it and must not hide it
    staircase(report.stairs, ax=ax)
    ax.legend()
    return ax


def overlay(results: Sequence[Staircase | Trajectory | Comparison], *, ax: Axes | None = None) -> Axes:
    """Several results on one pair of axes, each in a colour of its own where there are several of a kind.

    Raises RequestError when a prediction without flow times is to share axes with others.
    """
    from agf.staircase import Staircase
    from agf.trajectory import Trajectory

    parts = [part for result in results for part in _parts(result)]
    curves = [part for part in parts if isinstance(part, Trajectory)]
    stairs = [part for part in parts if isinstance(part, Staircase)]
    if len(parts) > 1 and not all(_drop_times(one)[1] for one in stairs):
        raise RequestError(
            explain("a prediction in accelerated time cannot share axes in flow time.", remedy="Draw it alone.")
        )
    ax = new_axes() if ax is None else ax
    for k, curve in enumerate(curves):
        several = len(curves) > 1
        label = f"{curve.kind}{_scale(curve)}" if several else None
        trajectory(
            curve, ax=ax, color=PALETTE[k % len(PALETTE)] if several else OBSERVED, label=label, marks=not several
        )
    for k, one in enumerate(stairs):
        several = len(stairs) > 1
        label = f"{one.mode}{_scale(one)}" if several else "predicted"
        staircase(
            one, ax=ax, color=PALETTE[(k + 1) % len(PALETTE)] if several else PREDICTED, label=label, rules=not several
        )
    if len(parts) > 1:
        ax.legend()
    return ax


def _parts(result: Staircase | Trajectory | Comparison) -> list[Staircase | Trajectory]:
    from agf.comparison import Comparison

    return [result.trajectory, result.stairs] if isinstance(result, Comparison) else [result]


def _scale(result: Staircase | Trajectory) -> str:
    return "" if result.init is None else f", alpha = {result.init.alpha:g}"


def bands(
    results: Sequence[Staircase | Trajectory | Comparison], *, ax: Axes | None = None, share: float = 0.9
) -> Axes:
    """Several runs, say over seeds, as the median of the loss at each time and a band with `share` of the runs.

    Trajectories and predictions each have a line and a band, on log flow time; a run that ended for good keeps its last
    loss, and times beyond the end of a run that was cut short are left out.
    Raises RequestError when a prediction has no flow times.
    """
    from agf.staircase import Staircase

    parts = [part for result in results for part in _parts(result)]
    ax = new_axes() if ax is None else ax
    stairs = [part for part in parts if isinstance(part, Staircase)]
    if not all(_drop_times(one)[1] for one in stairs):
        raise RequestError(explain("a band needs flow times.", found="a prediction in accelerated time"))
    curves = [part for part in parts if not isinstance(part, Staircase)]
    if not parts:
        _say(ax, "no run was given")
    grid = _common_times(stairs, curves)
    for runs, color, word in ((curves, OBSERVED, "trained"), (stairs, PREDICTED, "predicted")):
        if not runs:
            continue
        losses = np.array([_loss_on(run, grid) for run in runs])
        low, middle, high = np.quantile(losses, [(1 - share) / 2, 0.5, (1 + share) / 2], axis=0)
        ax.fill_between(grid, low, high, color=color, alpha=0.25, linewidth=0)
        ax.plot(grid, middle, color=color, label=f"{word}: median and {share:.0%} of {len(runs)} runs")
    ax.set_xscale("log")
    ax.set_xlabel("flow time")
    ax.set_ylabel("loss")
    if parts:
        ax.set_xlim(grid[0], grid[-1])
        ax.legend()
    return ax


def _loss_on(run: Staircase | Trajectory, grid: FloatArray) -> FloatArray:
    """Loss at these flow times: the recorded curve; the resolved curve; or the steps at the half-drop times."""
    from agf.staircase import Staircase

    if not isinstance(run, Staircase):
        return run.loss_at(grid)
    if run.curve_times.size:
        return run.curve(grid)
    return run.levels[np.searchsorted(np.sort(run.half_times[1:]), grid, side="right")]


def _common_times(stairs: Sequence[Staircase], curves: Sequence[Trajectory]) -> FloatArray:
    """A log-spaced grid over the drops of all runs and the plateaus around them."""
    drops = [one.half_times[1:] for one in stairs]
    drops += [np.array([drop.start for drop in one.drops] + [drop.end for drop in one.drops]) for one in curves]
    left, right = _span(np.concatenate([np.zeros(0), *drops]), log=True)
    ends = [float(one.times[-1]) for one in curves if one.status.cut_short and one.times[-1] > left]
    return np.geomspace(left, min([right, *ends]), 1000)


# -- neurons and features ---------------------------------------------------------------------------------------


def neurons(traj: Trajectory, *, ax: Axes | None = None, names: Sequence[str] | None = None) -> Axes:
    """Norm of every neuron against log flow time, both logarithmic; those that end largest in colour.

    names : (H,) what to call the neurons in the legend; default their indices.
    """
    ax = new_axes() if ax is None else ax
    ax.set_xlabel("flow time")
    ax.set_ylabel("log10 of the neuron's norm")
    if traj.log_norms.size == 0:
        _say(ax, "this trajectory recorded no norms")
        return ax
    values = traj.log_norms / np.log(10.0)
    names = [f"neuron {i}" for i in range(values.shape[1])] if names is None else names
    _lines(ax, traj.snapshot_times, values, names, values[-1])
    return ax


def features(
    result: Staircase | Trajectory,
    name: str | None = None,
    *,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """One feature of the problem over log flow time: steps for a prediction, curves for a trajectory.

    name : which; default the first. names : what to call its components in the legend. Raises RequestError for an
    unknown name; a result without features says so in the picture.
    """
    from agf.staircase import Staircase

    ax = new_axes() if ax is None else ax
    ax.set_xlabel("flow time")
    if isinstance(result, Staircase):
        known = sorted({key for drop in result.drops for key in drop.features})
    else:
        known = sorted(result.features_over_time)
    if not known:
        empty = isinstance(result, Staircase) and not result.drops
        _say(ax, f"{'no drop is predicted' if empty else 'this result holds no features'} ({result.status.word})")
        return ax
    name = known[0] if name is None else name
    if name not in known:
        raise RequestError(
            explain(f"there is no feature {name!r}.", where=result.problem, expected="one of " + ", ".join(known))
        )
    values = result.features(name)
    values = values.reshape(values.shape[0], -1)
    names = _component_names(result, name, values.shape[1]) if names is None else names
    if isinstance(result, Staircase):
        times, log = _drop_times(result)
        left, right = _span(times, log)
        edges = np.concatenate([[left], times, [right]])
        padded = np.concatenate([np.zeros_like(values[:1]), values, values[-1:]])
        _lines(ax, edges, padded, names, np.abs(values[-1]), drawstyle="steps-post", log=log)
        ax.set_xlim(left, right)
        if not log:
            ax.set_xlabel(ACCELERATED)
    else:
        _lines(ax, result.snapshot_times, values, names, np.abs(values[-1]))
    ax.set_ylabel(name)
    return ax


# -- charges and utilities --------------------------------------------------------------------------------------


def charges(result: Staircase | Trajectory, *, ax: Axes | None = None, names: Sequence[str] | None = None) -> Axes:
    """Charge of every neuron over its threshold for norm 1, against log flow time; a neuron activates near 1.

    The charge is read off the norm ([AGF] eq. 15). A prediction knows norms at its drops: dots are activations, and
    between drops the charge of a dormant neuron is drawn linear in time, as it is at constant utility.
    names : (H,) for the legend; default the labels of the drops, or indices.
    """
    from agf.staircase import Staircase

    ax = new_axes() if ax is None else ax
    ax.set_xlabel("flow time")
    ax.set_ylabel("charge over threshold")
    times, norms, log = _norms(result)
    if result.init is None or not norms.size:
        _say(ax, f"this result holds no norms over time ({result.status.word})")
        return ax
    start = result.init.log_norms
    with np.errstate(invalid="ignore"):  # exactly zero neurons have no charge
        ratio = charge(norms - start, np.zeros_like(start), result.degree) / charge(-start, 0 * start, result.degree)
    names = _neuron_names(result, ratio.shape[1]) if names is None else names
    if isinstance(result, Staircase):
        left, right = _span(times[1:], log)
        grid = np.geomspace(left, right, 600) if log else np.linspace(left, right, 600)
        grid = np.union1d(grid, times[1:])
        lines = np.column_stack([np.interp(grid, times, column) for column in ratio.T])
        for k, drop in enumerate(result.drops, 1):
            ax.plot(np.full(drop.neurons.size, times[k]), ratio[k, drop.neurons], "o", color="black", ms=4, zorder=3)
        _lines(ax, grid, lines, names, ratio[-1], log=log)
        ax.set_xlim(left, right)
        if not log:
            ax.set_xlabel(ACCELERATED)
    else:
        _lines(ax, times, ratio, names, ratio[-1])
    ax.axhline(1.0, color=RULE, linestyle="--", linewidth=1, zorder=0)
    ax.text(0.01, 1.0, "threshold", transform=ax.get_yaxis_transform(), va="bottom", fontsize="small", color="0.35")
    low, high = ax.get_ylim()
    ax.set_ylim(low, max(high, 1.08))  # room for the word
    return ax


def utilities(result: Staircase | Trajectory, *, ax: Axes | None = None, names: Sequence[str] | None = None) -> Axes:
    """Mean utility of every neuron between two recorded times (loss, at unit norm), against log flow time.

    It is what the charge gained, over kappa and the time it took, so no code of the problem is needed. Of a prediction,
    it is drawn while the neuron is dormant. names : as for `charges`.
    """
    from agf.staircase import Staircase

    ax = new_axes() if ax is None else ax
    ax.set_xlabel("flow time")
    ax.set_ylabel("utility")
    times, norms, log = _norms(result)
    if result.init is None or not norms.size:
        _say(ax, f"this result holds no norms over time ({result.status.word})")
        return ax
    start, degree = result.init.log_norms, result.degree
    scale = 0.0 if result.clock is None else result.clock.log_scale
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        unit = np.exp(-scale - (degree - 2) * start)  # charges per unit of time are formed in accelerated time
        gained = np.diff(charge(norms - start, np.zeros_like(start), degree) * unit, axis=0)
        took = np.diff(times * np.exp(-scale) if log else times)
        mean = gained / (degree * took[:, None])
    if isinstance(result, Staircase):
        known = [np.zeros(norms.shape[1], bool), *[drop.active for drop in result.drops]]
        mean = np.where(np.array(known[:-1]), np.nan, mean)
    mean = np.concatenate([mean, mean[-1:]])
    edges = times
    if isinstance(result, Staircase):
        left, right = _span(times[1:], log)
        edges = np.concatenate([[left], times[1:]])
        ax.set_xlim(left, right)
        if not log:
            ax.set_xlabel(ACCELERATED)
    with np.errstate(invalid="ignore"):
        highest = np.max(np.where(np.isfinite(mean), mean, -np.inf), axis=0)
    names = _neuron_names(result, mean.shape[1]) if names is None else names
    _lines(ax, edges, mean, names, highest, drawstyle="steps-post", log=log)
    return ax


def _norms(result: Staircase | Trajectory) -> tuple[FloatArray, FloatArray, bool]:
    """Times, log norms (T, H) and whether the times are flow times; T = 0 where none were recorded."""
    from agf.staircase import Staircase

    if not isinstance(result, Staircase):
        return result.snapshot_times, result.log_norms, True
    known = [drop.log_norms for drop in result.drops if drop.log_norms is not None and drop.active is not None]
    if result.init is None or not known or len(known) != len(result.drops):
        return np.zeros(0), np.zeros((0, 0)), True
    log = bool(np.isfinite(result.times).all())
    times = result.times if log else result.accelerated_times
    return times, np.array([result.init.log_norms, *known]), log


def _neuron_names(result: Staircase | Trajectory, count: int) -> list[str]:
    """Neurons by the label of the drop at which they joined alone, the others by index."""
    names = [f"neuron {i}" for i in range(count)]
    for drop in getattr(result, "drops", ()):
        if getattr(drop, "neurons", np.zeros(0)).size == 1:
            names[int(drop.neurons[0])] = drop.label
    return names


def _component_names(result: Staircase | Trajectory, name: str, count: int) -> Sequence[str]:
    """The `names` that the problem was given, where there is one a component; else numbers."""
    given = result.arguments.get("names")
    if given is not None and len(given) == count:
        return [str(one) for one in given]
    return [f"{name} {i}" for i in range(count)]


def _lines(
    ax: Axes,
    times: FloatArray,
    values: FloatArray,
    names: Sequence[str],
    prominence: FloatArray,
    drawstyle: str = "default",
    log: bool = True,
) -> None:
    """One line a column; the most prominent columns in colour, the others grey behind them."""
    keep = times > 0 if log else np.ones(times.size, dtype=bool)
    order = np.argsort(-np.where(np.isfinite(prominence), prominence, -np.inf), kind="stable")
    for rank, column in enumerate(order):
        coloured = rank < _MOST_COLOURED
        ax.plot(
            times[keep],
            values[keep, column],
            color=PALETTE[rank] if coloured else RULE,
            linewidth=None if coloured else 0.6,
            zorder=2 if coloured else 1,
            label=str(names[column]) if coloured else None,
            drawstyle=drawstyle,
        )
    if log:
        ax.set_xscale("log")
    if len(order) > 1:
        ax.legend(fontsize="x-small", title=f"largest {_MOST_COLOURED}" if len(order) > _MOST_COLOURED else None)
