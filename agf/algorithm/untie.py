"""A prediction of the smaller problem that ties leave, told of the neurons that were given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf.clock import Clock
from agf.contract.problem import Problem
from agf.contract.ties import Ties
from agf.init import Init
from agf.results.drop import Drop, kept
from agf.results.staircase import Staircase


def untie(stairs: Staircase, ties: Ties, problem: Problem, init: Init) -> Staircase:
    """The prediction of `problem` from `init` that one of `ties.problem` is."""
    if not ties.any:
        return stairs
    clock = Clock.from_norms(problem.degree, init.log_norms)
    drops = tuple(_untie(drop, stairs.clock, clock, ties, problem) for drop in stairs.drops)
    return replace(stairs, drops=drops, clock=clock, init=init, arguments=problem.arguments)


def _untie(drop: Drop, before: Clock, clock: Clock, ties: Ties, problem: Problem) -> Drop:
    assert drop.log_norms is not None
    assert drop.active is not None
    log_norms, active = ties.log_norms(drop.log_norms), drop.active[ties.of]
    some = np.flatnonzero(active)
    directions = None if drop.directions is None else drop.directions[ties.of]
    features = {}
    if directions is not None:
        features = problem.features(np.exp(log_norms[some])[:, None] * directions[some], some)
    return replace(
        drop,
        accelerated_time=float(clock.accelerated(before.flow(drop.accelerated_time))),
        neurons=ties.neurons(drop.neurons),
        collapsed=ties.neurons(drop.collapsed),
        features=features,
        log_norms=log_norms,
        active=active,
        directions=None if directions is None else kept(directions),
    )
