"""The door of predictions: initial weights are small next to what the data ask for, in the units of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from agf.algorithm.threshold import ExactThreshold
from agf.arrays import FloatArray
from agf.contract.faint import Nothing, refuse_faint
from agf.contract.order import rounded
from agf.contract.problem import Problem
from agf.coordinates.mode_system import ACTIVE
from agf.errors import RequestError, explain
from agf.init import Init
from agf.integrators import NonFinite
from agf.records.state import State
from agf.records.table import percent, those
from agf.results.drop import Drop, kept
from agf.results.staircase import Staircase
from agf.rounding import TINY
from agf.sphere import lengths, norms

#: Neurons that are looked at, the smallest. Cost: where these start too large, so do the others.
_LOOKED_AT = 16
#: Change of the loss by the initial weights, over that of the zero function, that is said. Limit: smaller ones are in
#: the error bars alone.
SAID = 0.01


def refuse_size(problem: Problem, init: Init) -> float:
    """Refuse a start at which no neuron is below its natural norm R*, the one at which it alone would saturate, or at
    which all together are further from the targets than the zero function is, by as much again.

    A prediction expands in small weights, and R* is what they are small against: it scales with the targets, so that a
    start is refused, or not, whatever the units of the data. Neurons without a pull (dead, nothing to fit, or none to
    leading order) do not count. What is too small for float64 is refused as well (`refuse_faint`).

    Returns
    -------
    float
        Loss of the initial weights.

    Raises
    ------
    RequestError
        With the norm, or the loss, found and the one expected.
    """
    nothing = Nothing.of(problem)
    _refuse_norms(problem, init, nothing)
    first = float(problem.loss_grad(init.params(), np.arange(init.width))[0])
    change = _change(first, nothing.loss, nothing.loss)
    if change > 1.0:
        raise RequestError(
            explain(
                "the initial weights are larger than what the data ask for, and a prediction expands in small ones.",
                where=f"problem {problem.name!r}",
                found=f"a loss of {1.0 + change:.3g} times that of the zero function",
                expected="about that of the zero function",
                remedy=_smaller(init),
            )
        )
    refuse_faint(problem, init, "predict", nothing)
    return first


def _refuse_norms(problem: Problem, init: Init, nothing: Nothing) -> None:
    alive = np.isfinite(init.log_norms)
    alive[list(problem.permanent)] = False
    rows = alive.nonzero()[0]
    if rows.size > _LOOKED_AT:
        rows = rows[np.argsort(init.log_norms[rows], kind="stable")[:_LOOKED_AT]]
    if rows.size == 0:
        return
    try:
        directions, residual = init.directions[rows], nothing.residual
        pull = problem.utility(directions, rows, residual)[1]
        # where the neuron turns to: a coordinate of a diagonal network starts without any output
        ahead = directions + pull / np.maximum(norms(pull), TINY)[:, None]
        ahead /= np.maximum(lengths(ahead), TINY)[:, None]
        aligned = norms(problem.utility(ahead, rows, residual)[1]) / problem.degree
        threshold = ExactThreshold(problem, True, *problem.empty)
        radii = threshold.log_radius(aligned, threshold.log_self_interaction(ahead, rows))
        pulled = np.isfinite(radii)
        if not pulled.any() or (init.log_norms[rows] < radii)[pulled].any():
            return
        if rounded(problem, ahead, rows, residual, nothing.loss):
            return  # there is no pull
    except NonFinite:
        return  # the first phase meets it again, and reports it
    with np.errstate(over="ignore"):
        nearest = np.argmin((init.log_norms[rows] - radii)[pulled])  # each has a natural norm of its own
        norm, natural = np.exp([init.log_norms[rows][pulled][nearest], radii[pulled][nearest]])
    raise RequestError(
        explain(
            "the initial weights are larger than what the data ask for, and a prediction expands in small ones.",
            where=f"problem {problem.name!r}",
            found=f"norm {norm:.3g} of the neuron that comes nearest",
            expected=f"norms well below {natural:.3g}, at which it alone has learned what it can",
            remedy=_smaller(init),
        )
    )


def _smaller(init: Init) -> str:
    return f"{'Scale the weights down' if init.seed is None else 'Choose a smaller alpha'}; agf.flow trains from any."


def left_out(stairs: Staircase, first: float) -> float:
    """What the initial weights do to the loss, which is `first`, and the prediction does not follow, of that of the
    zero function; 0 where that function has no loss."""
    followed = float(stairs.curve_losses[0]) if stairs.curve_losses.size else stairs.start_level
    return _change(first, followed, stairs.start_level)


def _change(first: float, followed: float, zero: float) -> float:
    return abs(first - followed) / zero if zero > 0 and not np.isnan(first) else 0.0


def level_before(level: float, first: float) -> float:
    """Level from which the first drop falls: that of the zero function, `level`, or what the initial weights have
    learned, `first`, where that is worth saying."""
    return first if level - first > SAID * level else level


def from_level(losses: FloatArray, slopes: FloatArray, begins: float) -> tuple[FloatArray, FloatArray]:
    """Losses (T,) of a curve and its slopes (T,), or none, as they fall from the level before the first drop."""
    above = losses > begins
    above[:1] = losses[:1] != begins
    return np.where(above, begins, losses), np.where(above, 0.0, slopes) if slopes.size else slopes


def learned_before(problem: Problem, level: float, first: float, state: State[Any]) -> list[Drop]:
    """What the initial weights have learned when training begins, as a drop at time 0, where it is worth saying.

    Parameters
    ----------
    problem : Problem
        Of which network.
    level : float
        Loss of the zero function.
    first : float
        Loss at which a prediction starts that follows the weights from where they are.
    state : State
        There.
    """
    if level_before(level, first) == level:
        return []
    nobody = np.zeros(0, dtype=np.int64)
    return [
        Drop(
            time=0.0,
            half_time=0.0,
            accelerated_time=0.0,
            level=first,
            neurons=nobody,
            collapsed=nobody,
            label="what the initial weights have learned",
            utility=np.zeros(0),
            how="curve",
            features=problem.features(state.params, np.arange(problem.width)),
            log_norms=state.log_norms,
            active=state.active | (state.log_norms > state.log_norms.max() + np.log(ACTIVE)),  # who makes that loss
            directions=kept(state.directions),
            conditioning=0.0,
        )
    ]


def of_start(stairs: Staircase, first: float) -> Staircase:
    """With error bars of half-drop times no narrower than what is left out of initial weights of loss `first`."""
    change = left_out(stairs, first)
    if change == 0.0:
        return stairs
    note = (
        f"The initial weights are not negligible: they change the loss by {percent(change)} of that of the zero "
        "function, and bars of times are at least that."
    )
    drops = tuple(replace(drop, error=float(np.maximum(drop.error, change))) for drop in stairs.drops)
    vague = [k for k, drop in enumerate(drops, 1) if drop.error >= 1.0]
    if vague:
        note += f' No time is known of {those("drop", vague)}; mode "resolved" follows weights from where they are.'
    return replace(stairs, drops=drops, notes=(*stairs.notes, *[note] * (change > SAID)))
