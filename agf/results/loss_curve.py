"""What a recorded loss curve says: its drops, down to which size and up to when, and the loss between its points."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from agf.arrays import FloatArray, numbers
from agf.asked import asked
from agf.records.settings import DEPTH, FINE_DEPTH, Settings
from agf.records.status import Status
from agf.records.table import Tabular
from agf.results.curve import RELAXES, CurveDrop, detect, swinging
from agf.results.interpolant import crossing, interpolate


@asked
class LossCurve(Tabular):
    """Losses over flow time, what was asked for, and how it ended; a `Trajectory` says what else was recorded."""

    times: FloatArray
    losses: FloatArray
    slopes: FloatArray
    status: Status
    settings: dict[str, Any]
    stats: dict[str, float]

    @cached_property
    def drops(self) -> list[CurveDrop]:
        """Drops found in the curve, in log time (`curve.detect`); none smaller than twice the run's tolerance."""
        left = self.stats.get("left") if self.status in (Status.SETTLED, Status.QUIET) else None
        if left is not None:  # as of a prediction: where its slowest mode stops is no matter of how a run was ended
            left = max(left, RELAXES * Settings.rtol * float(self.losses[-1]))
        if self.settings.get("momentum"):
            return swinging(self.times, self.losses, depth=self.depth, left=left)
        return detect(self.times, self.losses, slopes=self.slopes, depth=self.depth, left=left)

    @property
    def levels(self) -> FloatArray:
        """Losses on the plateaus found in the curve, from before its first drop to after the last; empty without."""
        return np.array([drop.before for drop in self.drops] + [drop.after for drop in self.drops[-1:]])

    @property
    def depth(self) -> float:
        """Smallest drop looked for in the curve, as a fraction of the loss before it."""
        rtol = self.settings.get("rtol")
        if rtol is not None:
            return max(FINE_DEPTH, 2 * rtol)
        return FINE_DEPTH if self.slopes.size else DEPTH

    @property
    def complete_until(self) -> float:
        """Flow time up to which it shows whole drops: its end, or the start of a drop that is not over there.

        A drop is over when its last tenth took as long as the 40 % before (of an exponential approach, 97 % are then
        done, and of a logistic fall 98 %), and wherever the flow settled.
        """
        end = float(self.times[-1]) if self.times.size else 0.0
        if self.status is Status.SETTLED or not self.drops:
            return end
        last = self.drops[-1]
        return last.start if end - last.end < last.end - last.time else end

    def loss_at(self, t: FloatArray | float) -> FloatArray:
        """Loss at flow times t, interpolated between recorded points (cubic where slopes are known)."""
        return interpolate(self.times, self.losses, self.slopes, numbers(t, "t"))

    def time_at(self, loss: float) -> float:
        """First flow time at which the loss is below `loss`; inf if it never is. Located on the dense solution."""
        return crossing(self.times, self.losses, self.slopes, loss)
