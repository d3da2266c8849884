"""What is observed in a recorded loss curve: its drops, down to which size, and up to when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agf.records.settings import DEPTH, FINE_DEPTH, Settings
from agf.records.status import Status
from agf.records.table import Table, level, number
from agf.results.curve import RELAXES, CurveDrop, detect, swinging

if TYPE_CHECKING:
    from agf.results.trajectory import Trajectory


def depth(run: Trajectory) -> float:
    """Smallest drop looked for, as a fraction of the loss before it."""
    rtol = run.settings.get("rtol")
    if rtol is not None:
        return max(FINE_DEPTH, 2 * rtol)
    return FINE_DEPTH if run.slopes.size else DEPTH


def drops(run: Trajectory) -> list[CurveDrop]:
    """Drops found in log time, none smaller than `depth`."""
    left = run.stats.get("left") if run.status in (Status.SETTLED, Status.QUIET) else None
    if left is not None:  # as of a prediction: where its slowest mode stops is no matter of how a run was ended
        left = max(left, RELAXES * Settings.rtol * float(run.losses[-1]))
    if run.settings.get("momentum"):
        return swinging(run.times, run.losses, depth=depth(run), left=left)
    return detect(run.times, run.losses, slopes=run.slopes, depth=depth(run), left=left)


def complete_until(run: Trajectory) -> float:
    """Flow time up to which it shows whole drops: its end, or the start of a drop that is not over there.

    A drop is over when its last tenth took as long as the 40 % before (of an exponential approach, 97 % are then done,
    and of a logistic fall 98 %), and wherever the flow settled.
    """
    end = float(run.times[-1]) if run.times.size else 0.0
    if run.status is Status.SETTLED or not run.drops:
        return end
    last = run.drops[-1]
    return last.start if end - last.end < last.end - last.time else end


def table(run: Trajectory) -> Table:
    """The drops, a row each."""
    rows = [
        [str(k), number(d.time, 6), number(d.before, 6), level(d.after, run.losses[0], 6)]
        for k, d in enumerate(run.drops, 1)
    ]
    return Table(
        f"Drops found in the {run.kind} of {run.problem}",
        ["drop", "half-drop time", "level before", "level after"],
        rows,
        [f"{run.status.word}: {run.ending}", *run.notes],
    )
