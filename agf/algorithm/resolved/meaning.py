"""What the end of a flow means for a prediction that is resolved in time."""

from __future__ import annotations

from agf.arrays import BoolArray
from agf.records.status import Status
from agf.stopping.driver import End, Why


def meaning(end: End, active: BoolArray, *, least: float, tolerated: float) -> Status | None:
    """The status, or None where the rules of the end have to say it (`agf.stopping.ending.Ending.status`).

    active : (H,) neurons.  least : lower bound on every loss.  tolerated : loss above it at which all is fitted.
    """
    if end.why is Why.SETTLED:
        if end.at.loss - least <= tolerated:
            return Status.FITTED
        return Status.ALL_ACTIVE if active.all() else Status.NO_GROWTH
    return {Why.TIME: Status.MAX_TIME, Why.PASSED: Status.MAX_DROPS}.get(end.why)
