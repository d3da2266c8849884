"""Neurons that activate with another, whatever the time they lack: those that started where it did, and its group.

[AGF] lets a neuron activate. Two that started at the same point cross together whatever rounding says; and at degree 2
aligned neurons are one neuron (`agf.coordinates.aligned`), whose members activate together. Where f has kinks a group
takes the direction of its largest member: what is left of its spread closes during the drop, which the frozen residual
does not show.
"""

from __future__ import annotations

import numpy as np

from agf.algorithm.crossings import TURN
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.sphere import lengths


def same(problem: Problem, start: FloatArray, rows: IntArray) -> BoolArray:
    """Neurons that started (m, P + 1) exactly where one of rows (k,) did, these included, (m,)."""
    out = np.zeros(len(start), dtype=bool)
    out[rows] = True
    if problem.interchangeable:
        for row in rows:
            out |= (start == start[row]).all(axis=1)
    return out


def members(
    problem: Problem,
    directions: FloatArray,
    log_norms: FloatArray,
    alive: BoolArray,
    row: int,
    log_group: float,
    rtol: float,
) -> BoolArray:
    """Neurons of the group of `row`, of log norm `log_group`, that make a visible share of it, (m,).

    Directions (m, P) of the group are made one where f has kinks. Those that make less than `rtol` of its squared norm,
    with all like them, follow.
    """
    near = (lengths(directions - directions[row]) < TURN) & alive
    if problem.kink > 0 or not problem.smooth:
        group = np.flatnonzero(near)
        directions[group] = directions[group[np.argmax(log_norms[group])]]
    least = 0.5 * np.log(rtol / max(int(near.sum()), 1))
    return np.asarray(near & (log_norms >= log_group + least))
