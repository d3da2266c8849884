"""What a run hands back: the one place where the parts of a prediction become a `Staircase`."""

from __future__ import annotations

import time as wall
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from agf.arrays import FloatArray
from agf.clock import Clock
from agf.contract.problem import Problem
from agf.init import Init
from agf.records.settings import Settings
from agf.records.status import Status
from agf.results.drop import Drop
from agf.results.staircase import Staircase

_NO_CURVE = (np.zeros(0), np.zeros(0))


class Run(Protocol):
    """What every mode keeps while it predicts."""

    clock: Clock
    start_level: float
    stats: dict[str, float]
    notes: list[str]


def staircase(
    problem: Problem,
    init: Init,
    settings: Settings,
    run: Run,
    status: Status,
    drops: Sequence[Drop],
    began: float,
    curve: tuple[FloatArray, FloatArray] = _NO_CURVE,
) -> Staircase:
    """The prediction so far. began : of `time.perf_counter`.  curve : flow times and losses, mode resolved."""
    return Staircase(
        problem=problem.name,
        degree=problem.degree,
        clock=run.clock,
        start_level=run.start_level,
        drops=tuple(drops),
        status=status,
        settings=settings,
        init=init,
        arguments=problem.arguments,
        stats={**run.stats, "seconds": wall.perf_counter() - began},
        notes=(*problem.remarks(), *run.notes),
        curve_times=curve[0],
        curve_losses=curve[1],
    )
