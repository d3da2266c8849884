"""The staircase of rank-one heads as alpha -> 0: `race` gives the times, [AGF] eq. 57 the levels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from agf import Clock, Drop, Init, Settings, Staircase, Status, sphere
from agf.arrays import FloatArray, positive
from agf_problems.linear_attention.race import Jump, race

if TYPE_CHECKING:
    from agf_problems.linear_attention.problem import LinearAttention


def staircase(problem: LinearAttention, alpha: float | None, init: Init | None, radius: float | None) -> Staircase:
    """Drops and bounds; `LinearAttention.theory` says what it takes."""
    clock = _clock(problem, alpha, init)
    if init is None:
        no_neurons = np.zeros(0, dtype=np.int64)
        unknown = Jump(np.nan, np.nan, no_neurons, no_neurons, np.nan, np.nan)
        jumps = [replace(unknown, components=np.array([k])) for k in range(min(problem.rank, problem.width))]
        notes = ["Times depend on the heads: give init=problem.init(alpha, seed) for times and bounds."]
    else:
        jumps = _race(problem, init)
        notes = ["Times are right as alpha -> 0: of order 1/alpha, up to a bounded time."]
    if problem.width < problem.rank:
        notes.append(f"{problem.width} heads learn {problem.width} of {problem.rank} components.")
    learned = np.zeros(problem.dimension, dtype=bool)
    drops = []
    for jump in jumps:
        learned[jump.components] = True
        amplitudes = np.where(learned, problem.amplitudes, 0.0)
        drops.append(
            Drop(
                time=jump.time,
                half_time=jump.half_time,
                accelerated_time=float(clock.accelerated(jump.time)),
                level=problem.level(learned),
                neurons=jump.heads,
                label=problem.component_words(jump.components),
                utility=problem.largest_utility(jump.components),
                how="closed form",
                features={"amplitudes": amplitudes, "singular_values": np.sort(amplitudes)[::-1]},
            )
        )
    return Staircase(
        problem=problem.name,
        degree=problem.degree,
        clock=clock,
        start_level=0.5 * problem.trace,
        drops=tuple(drops),
        status=Status.THEORY,
        settings=Settings(mode="limit"),
        init=init,
        arguments=problem.arguments,
        bounds=_bounds(problem, jumps, init, radius),
        notes=tuple(notes),
    )


def _race(problem: LinearAttention, init: Init) -> list[Jump]:
    alive = np.flatnonzero(np.isfinite(init.log_norms))
    log_scale = float(init.log_norms[alive].mean())
    values, keys, queries = problem.split(sphere.cartesian(init.directions, init.log_norms - log_scale)[alive])
    jumps = race(
        (values, keys @ problem.components, queries @ problem.components),
        log_scale,
        problem.context * problem.eigenvalues**2,
        problem.equals(),
        problem.amplitudes,
    )
    return [replace(jump, heads=alive[jump.heads]) for jump in jumps]


def _bounds(problem: LinearAttention, jumps: list[Jump], init: Init | None, radius: float | None) -> FloatArray:
    if init is None:
        return np.full(len(jumps), np.nan)
    left = np.ones(problem.dimension, dtype=bool)
    bounds = np.zeros(len(jumps))
    for k, jump in enumerate(jumps):
        bounds[k] = jump.began + problem.least_wait(int(np.argmax(left)), jump.log_norm, radius)
        left[jump.components] = False
    return bounds


def _clock(problem: LinearAttention, alpha: float | None, init: Init | None) -> Clock:
    if init is not None:
        return Clock.from_norms(problem.degree, init.log_norms)
    if alpha is not None:
        return Clock.from_norms(problem.degree, np.log([positive(alpha, "alpha") * np.sqrt(problem.n_params)]))
    return Clock(problem.degree, 0.0)
