"""One predicted drop and what was observed of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.records.table import number, percent

if TYPE_CHECKING:
    from agf.results.staircase import Staircase
    from agf.results.trajectory import Trajectory

#: Relative change of an observed time under the repeat, up to which the drop counts as reproducible. Limit:
#: of one beyond it the table says so; half-drop times at the usual tolerance repeat to a tenth of it.
REPRODUCIBLE = 3e-3
#: Relative difference of first losses up to which they are of one normalisation. Limit: nothing is said below; weights
#: at the start make some.
_ALIKE = 0.01
#: Steps to the middle of a drop beyond which descent is a flow. Cost: of counting, some hundredths of a second.
_MOST_STEPS = 100_000
#: Consecutive drops that are listed one by one, at most. Cost: of reading.
_FEW = 3


@dataclass(frozen=True, repr=False)
class Match:
    """One predicted drop and what was observed of it. Times are flow times.

    Parameters
    ----------
    k : int
        Number of the predicted drop, from 1.
    label : str
        What was learned there, and what left.
    predicted_time : float
        Half-drop time.
    observed_time : float
        When the curve first falls below the predicted mid-level; inf if it never does.
    predicted_level : float
        Level after the drop.
    observed_level : float
        Level after the visible drop; NaN where the next predicted drop is part of the same visible one, and where the
        curve ends before the drop is over.
    visible : int or None
        Number, from 1, of the visible drop it belongs to, or None.
    bundled : bool
        Whether other predicted drops belong to the same visible one.
    conditioning : float
        Relative change of the predicted time under a change of settings, NaN if not measured.
    bar : float
        Error bar of the predicted time, relative (`Drop.error`); NaN where it has none.
    spread : float
        Relative change of the observed time in the repeat, NaN if there was none.
    visible_to : int or None
        Number of the last one, where the curve takes it in several drops, between the levels predicted before and
        after it; else the same.
    """

    k: int
    label: str
    predicted_time: float
    observed_time: float
    predicted_level: float
    observed_level: float
    start_level: float
    visible: int | None
    bundled: bool
    conditioning: float = np.nan
    bar: float = np.nan
    spread: float = np.nan
    visible_to: int | None = None

    def __repr__(self) -> str:
        times = f"predicted at {number(self.predicted_time)}, observed at {number(self.observed_time)}"
        return f"<Match of drop {self.k}, {times}>"

    @property
    def seen(self) -> list[int]:
        """Numbers of the visible drops it belongs to or consists of."""
        return [] if self.visible is None else list(range(self.visible, (self.visible_to or self.visible) + 1))

    @property
    def time_error(self) -> float:
        """predicted / observed - 1; NaN when the drop was not observed."""
        if not np.isfinite(self.observed_time):
            return np.nan
        return relative(self.predicted_time - self.observed_time, self.observed_time)

    @property
    def level_error(self) -> float:
        """(predicted - observed level) / predicted L(0)."""
        return relative(self.predicted_level - self.observed_level, self.start_level)

    @property
    def relative_level_error(self) -> float:
        """(predicted - observed level) / observed level."""
        return relative(self.predicted_level - self.observed_level, self.observed_level)

    @property
    def reproducible(self) -> bool | None:
        """Whether the repeat has the drop at the same time, to 0.3 %; None without a repeat."""
        return None if np.isnan(self.spread) else bool(self.spread <= REPRODUCIBLE)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "k": self.k,
            "label": self.label,
            "predicted_time": self.predicted_time,
            "observed_time": self.observed_time,
            "time_error": self.time_error,
            "predicted_level": self.predicted_level,
            "observed_level": self.observed_level,
            "level_error": self.level_error,
            "relative_level_error": self.relative_level_error,
            "visible": self.visible,
            "visible_to": self.visible_to,
            "bundled": self.bundled,
            "conditioning": self.conditioning,
            "bar": self.bar,
            "spread": self.spread,
            "reproducible": self.reproducible,
        }


def grown(stairs: Staircase) -> int | None:
    """Number of the first drop that neurons make which grow from tiny weights, as an output bias does not."""
    return next((k for k, drop in enumerate(stairs.drops, 1) if drop.utility.size), None)


def first_ratio(stairs: Staircase, trajectory: Trajectory) -> float:
    """First loss of a curve over that of the prediction, 1 where one of them has none."""
    begins = float(stairs.level(0.0))
    return float(trajectory.losses[0]) / begins if trajectory.losses.size and begins > 0 else 1.0


def alike(ratio: float) -> bool:
    """Whether two losses with this ratio are of one normalisation, as far as can be told."""
    return not abs(ratio - 1) > _ALIKE


def lateness(stairs: Staircase, trajectory: Trajectory) -> float:
    """By which share gradient descent is later than the flow at the drop `grown`, a neuron that grows from very little.

    Where the flow grows by exp(h), h = rate lr, a step with momentum m multiplies by the larger root z of
    z^2 - (1 + m + h) z + m = 0: late by h / ((1 - m) log z) - 1, which is h (1 + m) / (2 (1 - m)^2) for small h.
    """
    lr, momentum = trajectory.settings.get("lr"), trajectory.settings.get("momentum", 0.0)
    k = grown(stairs)
    if lr is None or stairs.degree != 2 or k is None:
        return 0.0
    h, rest = _rate(stairs, k) * trajectory.settings.get("loss_scale", 1.0) * lr, 1 - momentum
    if not h > 0:
        return 0.0
    above = h * (h + 2 * (1 + momentum))  # the discriminant less rest^2: z - 1 keeps its digits
    growth = np.log1p((h + above / (np.sqrt(rest**2 + above) + rest)) / 2)
    return float(h / (rest * growth) - 1)


def _rate(stairs: Staircase, k: int) -> float:
    """Growth rate of the neurons that make drop k: that of their utility where they join, or, where a bias still moves
    then, at least what brings them from their norms at the start to those after the drop in its time."""
    drop, init = stairs.drops[k - 1], stairs.init
    rate = stairs.degree * float(drop.utility.max())
    if init is None or drop.log_norms is None or not drop.half_time > 0:
        return rate
    return max(rate, float(np.max((drop.log_norms - init.log_norms)[drop.neurons])) / drop.half_time)


def lateness_at_rest(stairs: Staircase, trajectory: Trajectory) -> float:
    """By which share gradient descent is later than the flow at a first drop that no neuron makes by growing.

    What relaxes at a rate halves its loss at half_time = log(2) / (2 rate). With h = rate lr its distances x_k from
    rest obey x_{k+1} = (1 + m - h) x_k - m x_{k-1}, and momentum starts from rest, x_{-1} = x_0.
    """
    lr, momentum = trajectory.settings.get("lr"), trajectory.settings.get("momentum", 0.0)
    time = stairs.drops[0].half_time if grown(stairs) not in (None, 1) else 0.0
    if lr is None or not time > 0:
        return 0.0
    h, unit = np.log(2) / (2 * time) * lr, lr / (1 - momentum)
    before, now, steps = 1.0, 1.0, 0
    while now * now > 0.5 and steps < _MOST_STEPS:
        before, now, steps = now, (1 + momentum - h) * now - momentum * before, steps + 1
    if steps == _MOST_STEPS:
        return 0.0
    inside = (before - np.sqrt(0.5)) / (before - now)
    return float((steps - 1 + inside) * unit / time - 1)


def delay(stairs: Staircase, trajectory: Trajectory) -> str:
    """Both in words."""
    k = grown(stairs)
    drop = "the first drop" if k == 1 else f"drop {k}"
    words, off = f"{drop} late by about {percent(lateness(stairs, trajectory))}", lateness_at_rest(stairs, trajectory)
    if abs(off) > REPRODUCIBLE:
        words += f", and drop 1, which relaxes, {'late' if off > 0 else 'early'} by about {percent(abs(off))}"
    return words


def listed(numbers: list[int]) -> str:
    """Numbers of drops, in order, in a sentence: "1, 2, 4 to 9"."""
    runs: list[list[int]] = []
    for k in numbers:
        if runs and k == runs[-1][-1] + 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    words = ([f"{run[0]} to {run[-1]}"] if len(run) > _FEW else map(str, run) for run in runs)
    return ", ".join(word for run in words for word in run)


def drops(numbers: list[int]) -> str:
    """They, as drops: "drop 1", "drops 1, 2"."""
    return f"drop{'s' * (len(numbers) > 1)} {listed(numbers)}"


def relative(difference: float, unit: float) -> float:
    """difference / unit; 0 where both vanish, NaN where only the unit does."""
    if unit == 0:
        return 0.0 if difference == 0 else np.nan
    return float(difference / unit)
