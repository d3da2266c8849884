"""Pictures of predictions, trajectories and comparisons: axes in, axes out.

Every function takes results (stairs, traj, report) and `ax=`, matplotlib axes that it returns, so that plots compose;
with `ax=None` a figure is made in the user's style. color and label are those of the line.
Time is logarithmic, colours are safe for colour-blind readers (Okabe and Ito), and what a result lacks is said in the
picture. `save` chooses the format by suffix (pdf, svg, eps for vectors).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray
from agf.asked import asked
from agf.errors import RequestError, explain, shown
from agf.pictures.axes import (
    OBSERVED,
    PALETTE,
    PREDICTED,
    RULE,
    check_path,
    drop_rules,
    half_way,
    legend_below,
    loss_scale,
    new_axes,
    plain,
    save,
    say,
    told_apart,
)
from agf.pictures.dormant_phase import dormant_phase
from agf.pictures.landscape import landscape
from agf.pictures.neurons import charges, features, neurons, utilities
from agf.pictures.ticks import log_time
from agf.pictures.time_axis import clock_word, drop_times, eventful, predicted, span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import TypeIs

    from agf.results.comparison import Comparison
    from agf.results.staircase import Staircase
    from agf.results.trajectory import Trajectory

__all__ = [
    "OBSERVED",
    "PALETTE",
    "PREDICTED",
    "RULE",
    "bands",
    "charges",
    "check_path",
    "comparison",
    "dormant_phase",
    "features",
    "landscape",
    "neurons",
    "new_axes",
    "overlay",
    "save",
    "staircase",
    "trajectory",
    "utilities",
]  # fmt: skip

#: Share of a log time axis below which an error bar is not drawn: thinner than a line of the picture.
_THIN = 2e-3

# -- staircase --------------------------------------------------------------------------------------------------


def _check_colour(color: str) -> None:
    """Raise RequestError where matplotlib, which is there with the axes, knows no such colour."""
    from matplotlib.colors import is_color_like

    if not is_color_like(color):
        expected = "one of matplotlib, as in 'tab:blue' or '#1f77b4'"
        raise RequestError(explain("there is no such colour.", found=shown(color), expected=expected))


@asked
def staircase(
    stairs: Staircase, *, ax: Axes | None = None, color: str = PREDICTED, label: str = "predicted", rules: bool = True
) -> Axes:
    """The predicted levels against log flow time, each step at its half-drop time, with a rule, a name and its band.

    The axis begins a stretch of plateau before the first drop.

    Where no flow times are known (a theory as alpha -> 0), the axis is accelerated time and linear. A resolved
    prediction is drawn as its curve. An empty staircase is a level line with a sentence.

    Parameters
    ----------
    rules : bool, optional
        Whether to draw the rules and names.
    """
    alone = ax is None
    ax = new_axes() if ax is None else ax
    _check_colour(color)
    seen = ax.get_xlim() if ax.has_data() else (np.inf, -np.inf)
    times, in_flow_time = drop_times(stairs)
    left, right = span(times, in_flow_time)
    if stairs.curve_times.size:
        left = left if times.size else min(left, _first_positive(stairs.curve_times))
        right = max(right, float(stairs.curve_times[-1]))
        ax.plot(stairs.curve_times, stairs.curve_losses, color=color, label=label)
    else:
        left, right = min(left, seen[0]), max(right, seen[1])
        edges = np.concatenate([[left], times, [right]])
        ax.step(edges, np.append(stairs.levels, stairs.levels[-1]), where="post", color=color, label=label)
    if in_flow_time:
        log_time(ax)
        _bars(ax, stairs, left, right, color)
    ax.set_xlabel(clock_word(in_flow_time))
    ax.set_xlim(min(left, seen[0]), max(right, seen[1]))
    ax.set_ylabel("loss")
    loss_scale(ax, [stairs.levels])
    if rules and times.size:
        drop_rules(ax, times, [drop.label for drop in stairs.drops])
    if not stairs.drops:
        say(ax, f"no drop is predicted ({stairs.status.word})")
    if alone and len(ax.get_legend_handles_labels()[1]) > 1:
        legend_below(ax)
    return ax


def _bars(ax: Axes, stairs: Staircase, left: float, right: float, color: str) -> None:
    """The error bars of the half-drop times as bands between the levels, cut at the ends of the axis."""
    label = "error bar of a half-drop time"
    for time, error, high, low in zip(
        stairs.half_times[1:], (drop.error for drop in stairs.drops), stairs.levels, stairs.levels[1:], strict=False
    ):
        if not np.isnan(error):
            ends = np.clip([time * max(1.0 - error, 0.0), time * (1.0 + error)], left, right)
            if ends[1] < ends[0] * (right / left) ** _THIN:  # a line, and not one that is explained
                continue
            ax.fill_between(ends, low, high, color=color, alpha=0.2, linewidth=0, label=label)
            label = "_" + label


def _first_positive(times: FloatArray) -> float:
    positive = times[times > 0]
    return float(positive[0]) if positive.size else 1.0


# -- trajectory -------------------------------------------------------------------------------------------------


@asked
def trajectory(
    traj: Trajectory, *, ax: Axes | None = None, color: str = OBSERVED, label: str | None = None, marks: bool = True
) -> Axes:
    """The loss curve against log flow time. marks : whether to mark half-way down each drop found in it."""
    alone = ax is None
    ax = new_axes() if ax is None else ax
    _check_colour(color)
    seen = ax.get_xlim() if ax.has_data() else (np.inf, -np.inf)
    later = traj.times > 0
    found = traj.drops if later.sum() > 1 else []
    if later.sum() < 2:
        say(ax, f"no loss was recorded after the start ({traj.status.word})")
    ax.plot(traj.times[later], traj.losses[later], color=color, label=label or traj.kind)
    if marks and found:
        half_way(ax, [(drop.time, (drop.before + drop.after) / 2) for drop in found], color)
    log_time(ax)
    if found:
        left, right = eventful(traj)
        ax.set_xlim(min(seen[0], left), max(seen[1], right))
    ax.set_xlabel("flow time")
    ax.set_ylabel("loss")
    loss_scale(ax, [traj.levels])
    if alone and marks and found:
        legend_below(ax)
    return ax


# -- both -------------------------------------------------------------------------------------------------------


@asked
def comparison(report: Comparison, *, ax: Axes | None = None) -> Axes:
    """The trained loss curve with the predicted steps over it, and the rules and names of the predicted drops.

    Marks on it are where the table reads it, in the middle of predicted levels, or of a drop that was not predicted.
    """
    ax = new_axes() if ax is None else ax
    _under(report.trajectory, ax=ax, marks=False)
    levels = report.stairs.levels
    read = [(match.observed_time, (levels[match.k - 1] + levels[match.k]) / 2) for match in report.matches]
    read += [(d.time, (d.before + d.after) / 2) for d in (report.drops[j - 1] for j in report.unmatched_observed)]
    half_way(ax, [one for one in read if 0 < one[0] < np.inf], OBSERVED)
    staircase(report.stairs, ax=ax)
    loss_scale(ax, [levels, report.trajectory.levels])
    legend_below(ax)
    return ax


def _under(curve: Trajectory, *, ax: Axes, **how: Any) -> None:
    """Draw a curve twice as wide: a prediction that lies on it must not hide it."""
    before = len(ax.lines)
    trajectory(curve, ax=ax, **how)
    ax.lines[before].set_linewidth(2 * ax.lines[before].get_linewidth())


@asked
def overlay(results: Sequence[Staircase | Trajectory | Comparison], *, ax: Axes | None = None) -> Axes:
    """Several results on one pair of axes, each in a colour of its own where there are several of a kind.

    Raises
    ------
    RequestError
        When a prediction without flow times is to share axes with others.
    """
    if len(results) == 1 and _compared(results[0]):
        return comparison(results[0], ax=ax)
    parts = [part for result in results for part in _parts(result)]
    curves = [part for part in parts if not predicted(part)]
    stairs = [part for part in parts if predicted(part)]
    if len(parts) > 1 and not all(drop_times(one)[1] for one in stairs):
        raise RequestError(
            explain("a prediction in accelerated time cannot share axes in flow time.", remedy="Draw it alone.")
        )
    ax = new_axes() if ax is None else ax
    both = len(curves) > 1 and len(stairs) > 1  # a colour for each run then, and dashes for what is predicted
    many = len({part.problem for part in parts}) > 1
    names = told_apart([_words(curve, curve.kind, many) for curve in curves])
    for k, curve in enumerate(curves):
        several = len(curves) > 1
        label = names[k] if several else None
        color = PALETTE[k % len(PALETTE)] if several else OBSERVED
        if stairs:
            _under(curve, ax=ax, color=color, label=label, marks=not several)
        else:
            trajectory(curve, ax=ax, color=color, label=label, marks=not several)
    for line in ax.lines if both else ():  # so that dashes of the same colour are seen on it
        line.set_alpha(0.4)
    names = told_apart([_words(one, one.mode, many) for one in stairs])
    for k, one in enumerate(stairs):
        several, drawn = len(stairs) > 1, len(ax.lines)
        label = names[k] if several else "predicted"
        color = PALETTE[(k if both else k + 1) % len(PALETTE)] if several else PREDICTED
        staircase(one, ax=ax, color=color, label=label, rules=not several)
        if both:
            ax.lines[drawn].set_linestyle("--")
    if len(parts) > 1:
        loss_scale(ax, [part.levels for part in parts])
    if len(ax.get_legend_handles_labels()[1]) > 1:
        legend_below(ax)
    return ax


def _parts(result: Staircase | Trajectory | Comparison) -> list[Staircase | Trajectory]:
    return [result.trajectory, result.stairs] if _compared(result) else [result]


# Results draw themselves with this module, so it knows them by what they have and imports none of them.


def _compared(result: Staircase | Trajectory | Comparison) -> TypeIs[Comparison]:
    return hasattr(result, "stairs")


def _words(run: Staircase | Trajectory, what: str, named: bool) -> str:
    """What a run is called in a legend; named : by its problem too, where runs of others are drawn beside it."""
    start = "" if run.init is None else f", {run.init.description}"
    return f"{plain(run.problem)}, {what}{start}" if named else what + start


@asked
def bands(
    results: Sequence[Staircase | Trajectory | Comparison], *, ax: Axes | None = None, share: float = 0.9
) -> Axes:
    """Several runs, say over seeds, as the median of the loss at each time and a band with `share` of the runs.

    Trajectories and predictions each have a line and a band, on log flow time; a run that ended for good keeps its last
    loss, and times beyond the end of a run that was cut short are left out.

    Raises
    ------
    RequestError
        When a prediction has no flow times.
    """
    parts = [part for result in results for part in _parts(result)]
    ax = new_axes() if ax is None else ax
    stairs = [part for part in parts if predicted(part)]
    if not all(drop_times(one)[1] for one in stairs):
        raise RequestError(explain("a band needs flow times.", found="a prediction in accelerated time"))
    curves = [part for part in parts if not predicted(part)]
    if not parts:
        say(ax, "no run was given")
    grid = _common_times(stairs, curves)
    for runs, color, word in ((curves, OBSERVED, "trained"), (stairs, PREDICTED, "predicted")):
        if not runs:
            continue
        losses = np.array([_loss_on(run, grid) for run in runs])
        low, middle, high = np.quantile(losses, [(1 - share) / 2, 0.5, (1 + share) / 2], axis=0)
        ax.fill_between(grid, low, high, color=color, alpha=0.25, linewidth=0)
        told = f": median and {share:.0%} of {len(runs)} runs" if len(runs) > 1 else ""
        over = "--" if runs is stairs and curves else "-"  # what it lies on is seen through the gaps
        ax.plot(grid, middle, over, color=color, label=word + told)
    log_time(ax)
    ax.set_xlabel("flow time")
    ax.set_ylabel("loss")
    if parts:
        ax.set_xlim(grid[0], grid[-1])
        loss_scale(ax, [part.levels for part in parts])
        legend_below(ax)
    return ax


def _loss_on(run: Staircase | Trajectory, grid: FloatArray) -> FloatArray:
    """Loss at these flow times: the recorded curve; the resolved curve; or the steps at the half-drop times."""
    if not predicted(run):
        return run.loss_at(grid)
    if run.curve_times.size:
        return run.curve(grid)
    return run.levels[np.searchsorted(np.sort(run.half_times[1:]), grid, side="right")]


def _common_times(stairs: Sequence[Staircase], curves: Sequence[Trajectory]) -> FloatArray:
    """A log-spaced grid over the drops of all runs and the plateaus around them."""
    drops = [one.half_times[1:] for one in stairs]
    drops += [np.array([drop.start for drop in one.drops] + [drop.end for drop in one.drops]) for one in curves]
    left, right = span(np.concatenate([np.zeros(0), *drops]), log=True)
    ends = [float(one.times[-1]) for one in curves if one.status.cut_short and one.times[-1] > left]
    return np.geomspace(left, min([right, *ends]), 1000)
