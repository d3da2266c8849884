"""Pictures of neurons over time: norms, features, charges and utilities.

As in `agf.plot`: every function takes a result (of training alone: traj) and `ax=`, axes that it returns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import FloatArray
from agf.clock import charge
from agf.pictures.axes import PALETTE, RULE, new_axes, plain, say
from agf.pictures.ticks import log_time
from agf.pictures.time_axis import drop_times, eventful, predicted, time_axis
from agf.records import naming

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from agf.results.drop import Drop
    from agf.results.staircase import Staircase
    from agf.results.trajectory import Trajectory

#: Lines drawn in colours of their own; the rest is grey, because more colours cannot be told apart.
_MOST_COLOURED = len(PALETTE)
#: Curves with fewer points than this show them, since they are polygons between them.
_FEW_POINTS = 150


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
        Which; default the first vector in the alphabet, else the first feature.
    names : Sequence[str] or None, optional
        What to call its components in the legend.

    Raises
    ------
    RequestError
        For an unknown name.
    """

    ax = new_axes() if ax is None else ax
    ax.set_xlabel("flow time")
    if predicted(result):
        held = {key: np.asarray(value) for drop in result.drops for key, value in drop.features.items()}
    else:
        held = {key: values[-1] for key, values in result.features_over_time.items() if len(values)}
    # what there is one of a drop, as singular values and coefficients, before matrices and lone numbers
    known = sorted(held, key=lambda key: (held[key].ndim != 1 or held[key].size < 2, key))
    if not known:
        empty = predicted(result) and not result.drops
        say(ax, f"{'no drop is predicted' if empty else 'this result holds no features'} ({result.status.word})")
        return ax
    name = known[0] if name is None else naming.feature(name, known, result.problem)
    values = result.features(name)
    values = values.reshape(values.shape[0], -1)
    names = naming.components(result, name, values.shape[1]) if names is None else names
    if predicted(result):
        times, log = drop_times(result)
        left, right = time_axis(ax, times, log)
        edges = np.concatenate([[left], times, [right]])
        padded = np.concatenate([np.zeros_like(values[:1]), values, values[-1:]])
        _lines(ax, edges, padded, names, np.abs(values[-1]), drawstyle="steps-post", log=log)
    else:
        _lines(ax, result.snapshot_times, values, names, np.abs(values[-1]))
        if result.drops:
            ax.set_xlim(*eventful(result))
    ax.set_ylabel(name)
    return ax


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
        left, right = time_axis(ax, norms.times[1:], norms.log)
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
        left, _ = time_axis(ax, times[1:], norms.log)
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
    if predicted(result):
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
