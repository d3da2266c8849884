"""A prediction of the smaller problem that ties leave, told of the neurons that were given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf.clock import Clock
from agf.contract.problem import Problem
from agf.contract.ties import Ties
from agf.coordinates.mode_system import mixes
from agf.init import Init
from agf.results.drop import Drop, kept
from agf.results.staircase import Staircase


def untie(stairs: Staircase, ties: Ties, problem: Problem, init: Init) -> Staircase:
    """The prediction of `problem` from `init` that one of `ties.problem` is."""
    if not ties.any:
        return stairs
    clock = Clock.from_norms(problem.degree, init.log_norms)
    of_modes = stairs.settings.mode != "limit" and ties.init.width > 1 and mixes(ties.problem)
    told = [_padded(drop, ties) if of_modes else _untie(drop, ties, problem) for drop in stairs.drops]
    drops = tuple(
        replace(drop, accelerated_time=float(clock.accelerated(stairs.clock.flow(drop.accelerated_time))))
        for drop in told
    )
    return replace(stairs, drops=drops, clock=clock, init=init, arguments=problem.arguments)


def _padded(drop: Drop, ties: Ties) -> Drop:
    """A drop of modes, which has no copies: what hidden units beyond these turn into is 0."""
    assert drop.log_norms is not None
    assert drop.active is not None
    more = ties.of.size - drop.log_norms.size
    directions = None if drop.directions is None else kept(np.pad(drop.directions, ((0, more), (0, 0))))
    log_norms = np.pad(drop.log_norms, (0, more), constant_values=-np.inf)
    return replace(drop, log_norms=log_norms, active=np.pad(drop.active, (0, more)), directions=directions)


def _untie(drop: Drop, ties: Ties, problem: Problem) -> Drop:
    assert drop.log_norms is not None
    assert drop.active is not None
    log_norms, active = ties.log_norms(drop.log_norms), drop.active[ties.of]
    some = np.flatnonzero(active)
    directions = None if drop.directions is None else ties.directions(drop.directions)
    features = {}
    if directions is not None:
        features = problem.features(np.exp(log_norms[some])[:, None] * directions[some], some)
    return replace(
        drop,
        neurons=ties.neurons(drop.neurons),
        collapsed=ties.neurons(drop.collapsed),
        features=features,
        log_norms=log_norms,
        active=active,
        directions=None if directions is None else kept(directions),
    )
