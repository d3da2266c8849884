"""One drop of a predicted staircase."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.records.table import number, one_line

#: Numbers of the directions that a drop keeps. Limit: 8 MB a drop; of wider networks none are kept.
MAX_KEPT = 10**6
_NOBODY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, repr=False)
class Drop:
    """One drop of the loss.

    Parameters
    ----------
    time : float
        Flow time of the switch; NaN where a theory gives no time.
    half_time : float
        Flow time at which the loss has fallen half-way: what one reads off a curve.
    accelerated_time : float
        `time` over clock.scale.
    level : float
        Loss on the plateau after it.
    neurons : int ndarray
        Indices that became active.
    collapsed : int ndarray
        Indices that returned to dormancy.
    label : str
        What was learned, in words.
    utility : float ndarray, shape (k,)
        Utility of the activated neurons at unit norm.
    runner_up : tuple[int, float] or None
        (index of the next neuron, accelerated time it lacked), or None.
    grad_norm : float
        Norm of the loss gradient over the active neurons at the level.
    predicted_decrease : float
        Loss the flow could still lose before the next activation (`agf.Settled`).
    how : str
        How the active neurons settled, for the record (`agf.Settled`).
    critical : bool
        Whether the level is that of a critical point, not just the loss at a horizon.
    conditioning : float
        Relative change of half_time in a repeat under slightly changed settings (`conditioning`); inf if it does not
        come there, NaN if not measured.
    error : float
        Error bar of half_time, relative: an estimate of its deviation from gradient flow at this alpha, from what the
        mode leaves out (`agf.algorithm.deviation`); NaN where there is none.
    level_error : float
        The same of the level, relative to the loss of the zero function.
    overlap : bool or None
        Whether the drop is not over, or another neuron grows, before the next one begins: Algorithm 1 assumes the
        opposite. None where it was not looked at.
    features : dict[str, FloatArray]
        Problem features after the drop.
    log_norms : float ndarray or None, shape (H,)
        After the drop.
    active : ndarray or None, shape (H,)
        After the drop.
    directions : float ndarray or None, shape (H, P)
        Unit rows after the drop, of dormant and active neurons; None where they are more than `MAX_KEPT` numbers.
    """

    #: Part of a drop, over that of the first one, from which on a neuron or a frequency shares its name. Result: of
    #: the label of such a drop alone; above 1 it would have one name, at 0.025 that of each that moved a little.
    SHARED: ClassVar[float] = 0.25

    time: float
    half_time: float
    accelerated_time: float
    level: float
    neurons: IntArray = field(default_factory=_NOBODY.copy)
    collapsed: IntArray = field(default_factory=_NOBODY.copy)
    label: str = ""
    utility: FloatArray = field(default_factory=lambda: np.zeros(0))
    runner_up: tuple[int, float] | None = None
    grad_norm: float = np.nan
    predicted_decrease: float = np.nan
    how: str = ""
    critical: bool = True
    conditioning: float = np.nan
    error: float = np.nan
    level_error: float = np.nan
    overlap: bool | None = None
    features: dict[str, FloatArray] = field(default_factory=dict)
    log_norms: FloatArray | None = None
    active: np.ndarray | None = None
    directions: FloatArray | None = None

    def __repr__(self) -> str:
        label = self.label[:100]  # which may name a million coordinates
        return one_line(f"<Drop at time {number(self.half_time)} to level {number(self.level)}, {label}>")

    def barred(self, error: float, level_error: float, overlap: bool) -> Drop:
        """The same with its error bars; `dataclasses.replace` takes ten times as long."""
        out = object.__new__(type(self))
        vars(out).update(vars(self), error=error, level_error=level_error, overlap=overlap)
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the JSON of one drop."""
        return {
            "time": self.time,
            "half_time": self.half_time,
            "accelerated_time": self.accelerated_time,
            "level": self.level,
            "neurons": self.neurons.tolist(),
            "collapsed": self.collapsed.tolist(),
            "label": self.label,
            "utility": self.utility.tolist(),
            "runner_up": list(self.runner_up) if self.runner_up else None,
            "grad_norm": self.grad_norm,
            "predicted_decrease": self.predicted_decrease,
            "how": self.how,
            "critical": self.critical,
            "conditioning": self.conditioning,
            "error": self.error,
            "level_error": self.level_error,
            "overlap": self.overlap,
        }


def kept(directions: FloatArray) -> FloatArray | None:
    """A copy for a `Drop`, or None where it would be too large to keep."""
    return directions.copy() if directions.size <= MAX_KEPT else None
