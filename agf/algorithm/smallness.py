"""The door of predictions: initial weights are small next to what the data ask for, in the units of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf.algorithm.threshold import ExactThreshold
from agf.contract.faint import Nothing, refuse_faint
from agf.contract.order import rounded
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.init import Init
from agf.integrators import NonFinite
from agf.records.table import percent
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
        `start_change`.

    Raises
    ------
    RequestError
        With the norm, or the loss, found and the one expected.
    """
    nothing = Nothing.of(problem)
    _refuse_norms(problem, init, nothing)
    change = start_change(problem, init, nothing)
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
    return change


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
        drive = norms(problem.utility(ahead, rows, residual)[1]) / problem.degree
        threshold = ExactThreshold(problem, True, *problem.empty)
        radii = threshold.log_radius(drive, threshold.log_self_interaction(ahead, rows))
        pulled = np.isfinite(radii)
        if not pulled.any() or (init.log_norms[rows] < radii)[pulled].any():
            return
        if rounded(problem, ahead, rows, residual, nothing.loss):
            return  # there is no pull
    except NonFinite:
        return  # the first phase meets it again, and reports it
    with np.errstate(over="ignore"):
        norm, natural = np.exp([init.log_norms[rows][pulled].min(), radii[pulled].max()])
    raise RequestError(
        explain(
            "the initial weights are larger than what the data ask for, and a prediction expands in small ones.",
            where=f"problem {problem.name!r}",
            found=f"neurons of norm {norm:.3g} or more",
            expected=f"norms well below {natural:.3g}, at which one neuron alone has learned what it can",
            remedy=_smaller(init),
        )
    )


def _smaller(init: Init) -> str:
    return f"{'Scale the weights down' if init.seed is None else 'Choose a smaller alpha'}; agf.flow trains from any."


def start_change(problem: Problem, init: Init, nothing: Nothing) -> float:
    """|L / L(0) - 1| at the initial weights, L(0) the loss of the zero function, from which a prediction starts.

    0 where that function has no loss.
    """
    zero = nothing.loss
    with np.errstate(over="ignore", invalid="ignore"):
        first = float(problem.loss_grad(init.params(), np.arange(init.width))[0])
    if not zero > 0 or np.isnan(first):
        return 0.0
    return abs(first - zero) / zero


def of_start(problem: Problem, init: Init, stairs: Staircase, change: float) -> Staircase:
    """With error bars of half-drop times no narrower than the part of the loss that the initial weights make, which is
    `start_change`."""
    if change == 0:
        return stairs
    if stairs.curve_times.size:
        system = problem.flow_system(init)
        if system is not None and system.contracts:
            return stairs  # all weights are followed from where they are
    note = (
        f"The initial weights are not negligible: they change the loss by {percent(change)} of that of the zero "
        "function, and bars of times are at least that."
    )
    drops = tuple(replace(drop, error=float(np.maximum(drop.error, change))) for drop in stairs.drops)
    return replace(stairs, drops=drops, notes=(*stairs.notes, *[note] * (change > SAID)))
