"""What a run hands back: the one place where the parts of a prediction become a `Staircase`."""

from __future__ import annotations

import time as wall
from collections.abc import Mapping, Sequence

import numpy as np

from agf.algorithm.task import Task
from agf.arrays import FloatArray
from agf.records.status import Status
from agf.results.drop import Drop
from agf.results.staircase import Staircase

_NO_CURVE = (np.zeros(0), np.zeros(0))


def staircase(
    task: Task,
    status: Status,
    drops: Sequence[Drop],
    *,
    stats: Mapping[str, float],
    notes: Sequence[str],
    began: float,
    curve: tuple[FloatArray, FloatArray] = _NO_CURVE,
) -> Staircase:
    """The prediction so far, of no more drops than were requested.

    stats, notes : counters and sentences of the run.  began : of `time.perf_counter`.  curve : flow times and losses,
    mode resolved.
    """
    problem, most = task.problem, task.settings.max_drops
    if most is not None and len(drops) > most:  # a curve shows a drop beyond, by which the last one is known to be over
        drops, status = drops[:most], status if status is Status.INTERRUPTED else Status.MAX_DROPS
    return Staircase(
        problem=problem.name,
        degree=problem.degree,
        clock=task.clock,
        start_level=task.start_level,
        drops=tuple(drops),
        status=status,
        settings=task.settings,
        init=task.init,
        arguments=problem.arguments,
        stats={**stats, "seconds": wall.perf_counter() - began},
        notes=(*problem.remarks(), *notes),
        curve_times=curve[0],
        curve_losses=curve[1],
    )
