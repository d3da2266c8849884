"""Neurons that activate with another, whatever the time they lack: those that started where it did, and its group.

[AGF] lets a neuron activate. Two that started at the same point cross together whatever rounding says; and at degree 2
aligned neurons are one neuron (`agf.coordinates.aligned`), whose members activate together.

Where f has kinks, mode "agf" has a group take the direction of its largest member: what is left of its spread closes
while it grows, which the frozen residual does not show. Only its jumps need that. Where all move in real time members
keep their directions: on data which all members see on one side of their kinks they are a linear network, and what is
left of their spread grows on the plateau at the rate of the next singular value, to a drop of its own.
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
    directions: FloatArray, log_norms: FloatArray, alive: BoolArray, row: int, log_group: float, rtol: float
) -> tuple[BoolArray, BoolArray]:
    """The group of `row`, of log norm `log_group`, and those that make a visible share of it, (m,) both.

    Those that make less than `rtol` of its squared norm, with all like them, follow.
    """
    near = np.asarray((lengths(directions - directions[row]) < TURN) & alive)
    least = 0.5 * np.log(rtol / max(int(near.sum()), 1))
    return near, np.asarray(near & (log_norms >= log_group + least))


def align(problem: Problem, directions: FloatArray, log_norms: FloatArray, group: BoolArray) -> None:
    """Give a group (m,) the direction of its largest member, in directions (m, P), where f has kinks."""
    if problem.cornered:
        rows = np.flatnonzero(group)
        directions[rows] = directions[rows[np.argmax(log_norms[rows])]]
