"""Levels that no critical point has: neurons that move off to infinity with outputs that cancel.

[AGF] minimizes to a critical point. Where there is none, the loss falls like a power of time to an infimum, or as far
as float64 resolves it (`agf.stopping.remaining_loss` tells which, by the Hessian). Such a level says so, and where the
flow still drifts when nothing else is to come, or before a neuron whose gain is less than what the drift may yet take
away, the run ends as `no_critical_point`.
"""

from __future__ import annotations

from agf.algorithm.active import ActiveEnd
from agf.records.status import Status

#: Loss that one more horizon would take off, over the level and over the drop, below which the level is a critical
#: point. Result: of `Drop.critical`, and of how a run ends whose last level drifts; at 0.1 a level that is off by a
#: tenth of the drop would be one, at 1e-4 none would be that settles to `settle`.
CRITICAL = 1e-2
#: Gain U^2 / 4C of a neuron, over what the active ones may still lose, below which it is not announced. Result: by
#: Cauchy-Schwarz they may then change its utility by up to (left / gain)^(1/2), three times itself; at 1, where its
#: sign is proved, neurons that come are held back (three of ten in a sum of three terms), at 0.01 those would be
#: announced whose utility may change tenfold.
_UNDECIDED = 0.1
#: What is noted, by `ActiveEnd.how`.
_NOTES = {
    "infimum": 'Levels marked "infimum" are not attained: active neurons move off to infinity with outputs that '
    "cancel, and the loss falls to that level like a power of time.",
    "rounding": 'Levels marked "rounding" are as far as float64 resolves the flow of the active neurons, some of which '
    "cancel; predicted_decrease says how much may be left.",
}


def critical(rest: ActiveEnd, before: float, negligible: float) -> bool:
    """Whether the active neurons rest at a critical point, after a drop from the loss `before`."""
    scale = min(abs(before - rest.level), max(rest.level, negligible))
    return rest.how == "flow" or rest.predicted_decrease <= CRITICAL * scale


def note(rest: ActiveEnd) -> str | None:
    """What is to be said of such a level."""
    return _NOTES.get(rest.how)


def why_undecided(gain: float, left: float) -> str | None:
    """Why a neuron of this gain is not announced, next to active ones that may lose `left`; None where it is."""
    if not gain < _UNDECIDED * left:
        return None
    return (
        f"The next neuron would take {gain:.2g} off the loss, and the active ones may lose {left:.2g} before by "
        "themselves: whether it ever activates is not decided."
    )


def end_status(drifting: bool, status: Status) -> Status:
    """The status of a run that ends so, its active neurons drifting or not."""
    return Status.NO_CRITICAL_POINT if drifting else status
