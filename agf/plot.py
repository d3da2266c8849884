"""Pictures of predictions, trajectories and comparisons: axes in, axes out.

Every function takes results (stairs, traj, report) and `ax=`, matplotlib axes that it returns, so that plots compose;
with `ax=None` a figure is made in the user's style. color and label are those of the line.
Time is logarithmic, colours are safe for colour-blind readers (Okabe and Ito), and what a result lacks is said in the
picture. `save` chooses the format by suffix (pdf, svg, eps for vectors).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray
from agf.clock import charge
from agf.errors import RequestError, explain
from agf.pictures.axes import (
    OBSERVED,
    PALETTE,
    PREDICTED,
    RULE,
    check_path,
    drop_rules,
    legend_below,
    loss_scale,
    new_axes,
    plain,
    save,
    say,
)
from agf.pictures.dormant_phase import dormant_phase
from agf.pictures.landscape import landscape
from agf.pictures.ticks import log_time
from agf.records import naming

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import TypeIs

    from agf.results.comparison import Comparison
    from agf.results.drop import Drop
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

#: Lines drawn in colours of their own; the rest is grey, because more colours cannot be told apart.
_MOST_COLOURED = len(PALETTE)
#: Curves with fewer points than this show them, since they are polygons between them.
_FEW_POINTS = 150
#: Share of a log time axis below which an error bar is not drawn: thinner than a line of the picture.
_THIN = 2e-3

# -- staircase --------------------------------------------------------------------------------------------------


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
    seen = ax.get_xlim() if ax.has_data() else (np.inf, -np.inf)
    times, in_flow_time = _drop_times(stairs)
    left, right = _span(times, in_flow_time)
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
    ax.set_xlabel(_clock(in_flow_time))
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


def _clock(in_flow_time: bool) -> str:
    return "flow time" if in_flow_time else "accelerated time"


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


def _first_positive(times: FloatArray) -> float:
    positive = times[times > 0]
    return float(positive[0]) if positive.size else 1.0


# -- trajectory -------------------------------------------------------------------------------------------------


def trajectory(
    traj: Trajectory, *, ax: Axes | None = None, color: str = OBSERVED, label: str | None = None, marks: bool = True
) -> Axes:
    """The loss curve against log flow time. marks : whether to mark half-way down each drop found in it."""
    alone = ax is None
    ax = new_axes() if ax is None else ax
    seen = ax.get_xlim() if ax.has_data() else (np.inf, -np.inf)
    later = traj.times > 0
    found = traj.drops if later.sum() > 1 else []
    if later.sum() < 2:
        say(ax, f"no loss was recorded after the start ({traj.status.word})")
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
    log_time(ax)
    if found:
        left, right = _eventful(traj)
        ax.set_xlim(min(seen[0], left), max(seen[1], right))
    ax.set_xlabel("flow time")
    ax.set_ylabel("loss")
    loss_scale(ax, [traj.levels])
    if alone and marks and found:
        legend_below(ax)
    return ax


def _eventful(traj: Trajectory) -> tuple[float, float]:
    """From a stretch of the first plateau to the end; for a curve with drops."""
    return min(drop.start for drop in traj.drops) / 3, float(traj.times[-1])


# -- both -------------------------------------------------------------------------------------------------------


def comparison(report: Comparison, *, ax: Axes | None = None) -> Axes:
    """The trained loss curve with the predicted steps over it, and the rules and names of the predicted drops."""
    ax = new_axes() if ax is None else ax
    _under(report.trajectory, ax=ax)
    staircase(report.stairs, ax=ax)
    loss_scale(ax, [report.stairs.levels, report.trajectory.levels])
    legend_below(ax)
    return ax


def _under(curve: Trajectory, *, ax: Axes, **how: Any) -> None:
    """Draw a curve twice as wide: a prediction that lies on it must not hide it."""
    before = len(ax.lines)
    trajectory(curve, ax=ax, **how)
    ax.lines[before].set_linewidth(2 * ax.lines[before].get_linewidth())


def overlay(results: Sequence[Staircase | Trajectory | Comparison], *, ax: Axes | None = None) -> Axes:
    """Several results on one pair of axes, each in a colour of its own where there are several of a kind.

    Raises
    ------
    RequestError
        When a prediction without flow times is to share axes with others.
    """

    parts = [part for result in results for part in _parts(result)]
    curves = [part for part in parts if not _predicted(part)]
    stairs = [part for part in parts if _predicted(part)]
    if len(parts) > 1 and not all(_drop_times(one)[1] for one in stairs):
        raise RequestError(
            explain("a prediction in accelerated time cannot share axes in flow time.", remedy="Draw it alone.")
        )
    ax = new_axes() if ax is None else ax
    both = len(curves) > 1 and len(stairs) > 1  # a colour for each run then, and dashes for what is predicted
    many = len({part.problem for part in parts}) > 1
    for k, curve in enumerate(curves):
        several = len(curves) > 1
        label = _words(curve, curve.kind, many) if several else None
        color = PALETTE[k % len(PALETTE)] if several else OBSERVED
        if stairs:
            _under(curve, ax=ax, color=color, label=label, marks=not several)
        else:
            trajectory(curve, ax=ax, color=color, label=label, marks=not several)
    for k, one in enumerate(stairs):
        several, drawn = len(stairs) > 1, len(ax.lines)
        label = _words(one, one.mode, many) if several else "predicted"
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


def _predicted(run: Staircase | Trajectory) -> TypeIs[Staircase]:
    return hasattr(run, "mode")


def _words(run: Staircase | Trajectory, what: str, named: bool) -> str:
    """What a run is called in a legend; named : by its problem too, where runs of others are drawn beside it."""
    start = "" if run.init is None else f", {run.init.description}"
    return f"{plain(run.problem)}, {what}{start}" if named else what + start


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
    stairs = [part for part in parts if _predicted(part)]
    if not all(_drop_times(one)[1] for one in stairs):
        raise RequestError(explain("a band needs flow times.", found="a prediction in accelerated time"))
    curves = [part for part in parts if not _predicted(part)]
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
        ax.plot(grid, middle, color=color, label=word + told)
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
    if not _predicted(run):
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

    Parameters
    ----------
    names : Sequence[str] or None, optional
        (H,) what to call the neurons in the legend; default the names of coordinates, or indices.
    """
    ax = new_axes() if ax is None else ax
    ax.set_xlabel("flow time")
    ax.set_ylabel("log10 of the neuron's norm")
    if traj.log_norms.size == 0:
        say(ax, "this trajectory recorded no norms")
        return ax
    values = traj.log_norms / np.log(10.0)
    names = naming.neurons(traj, values.shape[1]) if names is None else names
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

    A result without features says so in the picture.

    Parameters
    ----------
    name : str or None, optional
        Which; default the first.
    names : Sequence[str] or None, optional
        What to call its components in the legend.

    Raises
    ------
    RequestError
        For an unknown name.
    """

    ax = new_axes() if ax is None else ax
    ax.set_xlabel("flow time")
    if _predicted(result):
        known = sorted({key for drop in result.drops for key in drop.features})
    else:
        known = sorted(result.features_over_time)
    if not known:
        empty = _predicted(result) and not result.drops
        say(ax, f"{'no drop is predicted' if empty else 'this result holds no features'} ({result.status.word})")
        return ax
    name = known[0] if name is None else name
    if name not in known:
        raise RequestError(
            explain(f"there is no feature {name!r}.", where=result.problem, expected="one of " + ", ".join(known))
        )
    values = result.features(name)
    values = values.reshape(values.shape[0], -1)
    names = naming.components(result, name, values.shape[1]) if names is None else names
    if _predicted(result):
        times, log = _drop_times(result)
        left, right = _time_axis(ax, times, log)
        edges = np.concatenate([[left], times, [right]])
        padded = np.concatenate([np.zeros_like(values[:1]), values, values[-1:]])
        _lines(ax, edges, padded, names, np.abs(values[-1]), drawstyle="steps-post", log=log)
    else:
        _lines(ax, result.snapshot_times, values, names, np.abs(values[-1]))
        if result.drops:
            ax.set_xlim(*_eventful(result))
    ax.set_ylabel(name)
    return ax


# -- charges and utilities --------------------------------------------------------------------------------------


def charges(result: Staircase | Trajectory, *, ax: Axes | None = None, names: Sequence[str] | None = None) -> Axes:
    """Charge of every neuron over its threshold for norm 1, against log flow time; a neuron activates near 1.

    The charge is read off the norm ([AGF] eq. 15). A prediction knows norms at its drops: dots are activations, and
    between drops the charge of a dormant neuron is drawn linear in time, as it is at constant utility.

    Parameters
    ----------
    names : Sequence[str] or None, optional
        (H,) for the legend; default the labels of the drops, the names of coordinates, or indices.
    """
    ax = new_axes() if ax is None else ax
    ax.set_ylabel("charge over threshold")
    norms = _norms(result, ax)
    if norms is None:
        return ax
    with np.errstate(invalid="ignore"):  # exactly zero neurons have no charge
        ratio = norms.charges / charge(-norms.start, 0 * norms.start, result.degree)
    names = _neuron_names(result, ratio.shape[1]) if names is None else names
    if norms.drops:
        left, right = _time_axis(ax, norms.times[1:], norms.log)
        grid = np.geomspace(left, right, 600) if norms.log else np.linspace(left, right, 600)
        grid = np.union1d(grid, norms.times[1:])
        lines = np.column_stack([np.interp(grid, norms.times, column) for column in ratio.T])
        for k, drop in enumerate(norms.drops, 1):
            at = np.full(drop.neurons.size, norms.times[k])
            ax.plot(at, ratio[k, drop.neurons], "o", color="black", ms=4, zorder=3)
        _lines(ax, grid, lines, names, ratio[-1], log=norms.log)
    else:
        _lines(ax, norms.times, ratio, names, ratio[-1])
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
    ax = new_axes() if ax is None else ax
    ax.set_ylabel("mean utility between recorded times")
    norms = _norms(result, ax)
    if norms is None:
        return ax
    degree, times = result.degree, norms.times
    scale = 0.0 if result.clock is None else result.clock.log_scale
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        unit = np.exp(-scale - (degree - 2) * norms.start)  # charges per unit of time are formed in accelerated time
        gained = np.diff(norms.charges * unit, axis=0)
        took = np.diff(times * np.exp(-scale) if norms.log else times)
        mean = gained / (degree * took[:, None])
    if norms.drops:
        known = [np.zeros(mean.shape[1], bool), *[drop.active for drop in norms.drops]]
        mean = np.where(np.array(known[:-1]), np.nan, mean)
        left, _ = _time_axis(ax, times[1:], norms.log)
        times = np.concatenate([[left], times[1:]])
    mean = np.concatenate([mean, mean[-1:]])
    highest = np.max(np.where(np.isfinite(mean), mean, -np.inf), axis=0)
    names = _neuron_names(result, mean.shape[1]) if names is None else names
    _lines(ax, times, mean, names, highest, drawstyle="steps-post", log=norms.log)
    return ax


@dataclass(frozen=True)
class _Norms:
    """Norms of neurons over time, and the charges they stand for.

    Parameters
    ----------
    times : float ndarray, shape (T,)
        Flow times when `log`, else accelerated.
    start : float ndarray, shape (H,)
        Initial log norms.
    charges : float ndarray, shape (T, H)
        In units of the initial norm.
    drops : tuple[Drop, ...]
        Of a prediction; none of a trajectory.
    """

    times: FloatArray
    log: bool
    start: FloatArray
    charges: FloatArray
    drops: tuple[Drop, ...] = ()


def _norms(result: Staircase | Trajectory, ax: Axes) -> _Norms | None:
    """What a result holds of norms over time; where it holds none, None, and the axes say so."""
    ax.set_xlabel("flow time")
    if _predicted(result):
        norms = [drop.log_norms for drop in result.drops if drop.log_norms is not None and drop.active is not None]
        complete = 0 < len(norms) == len(result.drops)
        log, drops = bool(np.isfinite(result.times).all()), result.drops
        times = result.times if log else result.accelerated_times
    else:
        norms, complete, log, drops = [result.log_norms], result.log_norms.size > 0, True, ()
        times = result.snapshot_times
    if result.init is None or not complete:
        say(ax, f"this result holds no norms over time ({result.status.word})")
        return None
    start = result.init.log_norms
    if drops and norms[0].shape != start.shape:  # a plugin may follow modes, which are not the rows of theta
        say(ax, f"this prediction follows {norms[0].size} modes, not its {start.size} neurons")
        return None
    over_time = np.array([start, *norms]) if drops else norms[0]
    with np.errstate(invalid="ignore"):
        return _Norms(times, log, start, charge(over_time - start, np.zeros_like(start), result.degree), drops)


def _time_axis(ax: Axes, times: FloatArray, log: bool) -> tuple[float, float]:
    """Limits and label of the time axis of a prediction with drops at `times`; returns the limits."""
    ends = _span(times, log)
    ax.set_xlim(*ends)
    ax.set_xlabel(_clock(log))
    return ends


def _neuron_names(result: Staircase | Trajectory, count: int) -> list[str]:
    """Neurons by the label of the drop at which they joined alone, the others by name or index."""
    drops = [drop for drop in getattr(result, "drops", ()) if getattr(drop, "neurons", np.zeros(0)).size]
    word = naming.word_of(*[drop.label for drop in drops])
    by_number = all(re.match(rf"{word}s? {drop.neurons[0]}\b", drop.label) for drop in drops)
    found = naming.neurons(result, count, word if by_number else "neuron")
    for drop in drops:
        if drop.neurons.size == 1:
            found[int(drop.neurons[0])] = drop.label
    return found


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
    points = drawstyle == "default" and keep.sum() < _FEW_POINTS
    order = np.argsort(-np.where(np.isfinite(prominence), prominence, -np.inf), kind="stable")
    for rank, column in enumerate(order):
        coloured = rank < _MOST_COLOURED
        ax.plot(
            times[keep],
            values[keep, column],
            color=PALETTE[rank] if coloured else RULE,
            linewidth=None if coloured else 0.6,
            zorder=2 if coloured else 1,
            label=plain(names[column]) if coloured else None,
            drawstyle=drawstyle,
            marker="o" if coloured and points else None,
            markersize=2.5,
        )
    if log:
        log_time(ax)
    if len(order) > 1:
        ax.legend(fontsize="x-small", title=f"largest {_MOST_COLOURED}" if len(order) > _MOST_COLOURED else None)
