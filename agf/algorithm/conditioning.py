"""How much predicted times move when what they should not hang on is changed a little: their conditioning.

A drop that moves far more than the change is decided by a competition that grows exponentially, and neither a
prediction nor a training run at another tolerance will repeat its time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from agf.arrays import FloatArray
from agf.init import Init
from agf.records.settings import Settings
from agf.records.status import Status
from agf.records.table import number, those
from agf.results.drop import Drop
from agf.results.interpolant import crossing, monotone
from agf.results.staircase import Staircase

#: Relative change of every initial weight in a repeated prediction. Result: of the conditioning alone, which is the
#: answer to such a change; at 1e-2 ties of weights would come apart, at 1e-4 a chaotic drop may hide in the tolerance.
WEIGHTS = 1e-3
#: Factor of the tolerance in a repeated prediction. Result: of the conditioning alone; at 1 what the tolerance itself
#: moves would not be seen, at 100 it would cover what the weights move.
TOLERANCE = 10.0
#: Largest tolerance of a repeat. Derived: the largest that settings take.
_COARSEST = 0.1
#: Difference of a half-drop time between the two ways on from a fork, beyond which drops have no bars (inf). Limit: the
#: flow may take any way in between, and then these two bound nothing; smaller ones are covered by bars as others are.
_FORKED = 1e-2
#: Factor of a bound on the time in a repeat: its drops may be late. Cost: of following; a drop later than that has no
#: conditioning.
LONGER = 1.1


def perturb(init: Init, settings: Settings) -> tuple[Init, Settings]:
    """The start and settings of the repeat: weights times 1 + 1e-3 N(0, 1) (signs and zeros stay), ten times the rtol.

    Always the same change for the same shape, so that a prediction is repeatable.
    """
    factors = 1.0 + WEIGHTS * np.random.default_rng(0).standard_normal(init.directions.shape)
    rows = init.directions * factors
    lengths = np.linalg.norm(rows, axis=1)
    lengths = np.where(lengths > 0, lengths, 1.0)
    moved = replace(init, directions=rows / lengths[:, None], log_norms=init.log_norms + np.log(lengths))
    return moved, replace(
        settings,
        rtol=min(TOLERANCE * settings.rtol, _COARSEST),
        t_max=None if settings.t_max is None else LONGER * settings.t_max,
        max_drops=None if settings.max_drops is None else settings.max_drops + 1,
        conditioning=False,
    )


def condition_staircase(stairs: Staircase, again: Staircase) -> Staircase:
    """`stairs` with the conditioning of each drop by the repeat `again`, and the cost of both.

    An interrupt of the repeat is one of the prediction.
    """
    halves, levels = np.repeat(again.half_times[1:], 2), np.repeat(again.levels, 2)[1:-1]
    times = np.concatenate([[0.0], halves])
    losses = np.concatenate([[again.start_level], levels])
    drops, notes = condition_drops(stairs.drops, stairs.start_level, times, losses, again.status)
    stats = {name: stairs.stats.get(name, 0) + again.stats.get(name, 0) for name in {**stairs.stats, **again.stats}}
    status = again.status if again.status is Status.INTERRUPTED else stairs.status
    return replace(stairs, drops=drops, status=status, stats=stats, notes=(*stairs.notes, *notes))


def condition_drops(
    drops: Sequence[Drop], start_level: float, times: FloatArray, losses: FloatArray, ended: Status
) -> tuple[tuple[Drop, ...], tuple[str, ...]]:
    """Drops with the relative change of their half-drop time on the curve (times, losses) of a repeat, in flow time.

    The time on the repeat is when it first passes the middle of the drop; inf where it ended, with the status `ended`,
    before it did, and NaN where it was interrupted before. Returns the drops, and a note on those that are inf.
    """
    never = np.nan if ended is Status.INTERRUPTED else np.inf
    lowest = np.minimum.accumulate(losses)
    slopes = monotone(times, lowest)  # read as the prediction is
    out: list[Drop] = []
    before = start_level
    for drop in drops:
        middle = 0.5 * (before + drop.level)
        change, moved = never, crossing(times, lowest, slopes, middle)
        if np.isfinite(moved):
            change = float(abs(moved / drop.half_time - 1.0)) if drop.half_time > 0 else 0.0
        out.append(replace(drop, conditioning=change))
        before = drop.level
    lost = [k for k, drop in enumerate(out, 1) if np.isinf(drop.conditioning)]
    if not lost:
        return tuple(out), ()
    note = (
        f"The repeat that measures conditioning ended ({ended.word}) at time {number(float(times[-1]))} and loss "
        f"{number(float(lowest[-1]))}, before {those('drop', lost)}: unbounded conditioning (inf)."
    )
    return tuple(out), (note,)


def mark_lost(drops: Sequence[Drop], since: float) -> list[Drop]:
    """Drops, those later than this flow time with infinite conditioning: they hang on what steps do not hold."""
    return [replace(drop, conditioning=np.inf) if drop.half_time > since else drop for drop in drops]


def mark_forks(drops: Sequence[Drop], forked: Collection[int]) -> tuple[list[Drop], list[str]]:
    """Drops, those from the first one that hangs on a fork on with infinite conditioning, and a note on them.

    A neuron whose output weight has changed sign goes back the way it came, and stands then on a kink that pushes it
    away to both sides: which way it goes, and when, is decided by rounding, of the flow as well.

    Parameters
    ----------
    drops : sequence of Drop
        With their conditioning by a repeat in which neurons went the other way.
    forked : collection of int
        Neurons that have passed a fork.
    """
    first = next((k for k, drop in enumerate(drops) if drop.conditioning > _FORKED), len(drops))
    if not forked or first == len(drops):
        return list(drops), []
    who, what = those("neuron", sorted(forked)), those("drop", range(first + 1, len(drops) + 1))
    note = (
        f"Fork: a kink pushes {who} to both sides, and which one is taken decides {what}. "
        "Rounding decides that, in training as well: one of several courses is shown, and its bars are inf."
    )
    return [replace(drop, conditioning=np.inf) if k >= first else drop for k, drop in enumerate(drops)], [note]
