"""The neurons that a result holds: after a drop, or at its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import BoolArray, FloatArray, number
from agf.contract.problem import Problem
from agf.coordinates.mode_system import ACTIVE
from agf.errors import RequestError, explain, shown
from agf.init import Init
from agf.results.comparison import Comparison
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory


@dataclass(frozen=True)
class Neurons:
    """All neurons at one moment.

    directions : (H, P) unit rows.  log_norms : (H,).  active : (H,) those that make the function.
    moment : which moment it is.  time : flow time of it, NaN where there is none.
    origin : where a flow took them from: what it conserves is as it was there. None where no flow did.
    """

    directions: FloatArray
    log_norms: FloatArray
    active: BoolArray
    moment: str
    time: float = np.nan
    origin: Init | None = None

    def network(self, problem: Problem) -> FloatArray:
        """(m, P) parameters of the active ones; all (H, P), the others 0, of a problem in which each has its place."""
        if problem.interchangeable:
            return self.directions[self.active] * np.exp(self.log_norms[self.active])[:, None]
        return self.directions * np.where(self.active, np.exp(self.log_norms), 0.0)[:, None]


def neurons(run: Staircase | Trajectory | Comparison, drop: int | None = None) -> Neurons:
    """The neurons of a result after drop number `drop` (0: at the start), or at its end.

    Raises RequestError where the result has no such drop, or does not hold its neurons.
    """
    if isinstance(run, Comparison):
        run = run.trajectory if run.trajectory.directions.size else run.stairs
    return _of_stairs(run, drop) if isinstance(run, Staircase) else _of_trajectory(run, drop)


def _of_stairs(stairs: Staircase, drop: int | None) -> Neurons:
    count = len(stairs.drops)
    k = _checked(drop, count)
    if k == 0:
        if stairs.init is None:
            raise _lost(f"the staircase of {stairs.problem}")
        init = stairs.init
        return Neurons(init.directions, init.log_norms, np.zeros(init.width, dtype=bool), "the start", 0.0)
    chosen = stairs.drops[k - 1]
    if chosen.directions is None or chosen.log_norms is None or chosen.active is None:
        raise _lost(f"drop {k} of {stairs.problem}")
    active = chosen.active.astype(bool)
    return Neurons(chosen.directions, chosen.log_norms, active, f"drop {k}", chosen.time, stairs.init)


def _of_trajectory(curve: Trajectory, drop: int | None) -> Neurons:
    k = _checked(drop, len(curve.drops)) if drop is not None else None
    if curve.directions.shape[0] == 0:
        raise _lost(f"the trajectory of {curve.problem}")
    at, moment = -1, "the end of the flow"
    if k == 0:
        at, moment = 0, "the start"
    elif k is not None and k < len(curve.drops):  # on the plateau: half-way, in log time, to where the next drop begins
        middle = np.sqrt(max(curve.drops[k - 1].end, 1e-300) * max(curve.drops[k].start, 1e-300))
        at, moment = int(np.argmin(np.abs(curve.snapshot_times - middle))), f"drop {k}"
    log_norms = curve.log_norms[at]
    active = log_norms > log_norms.max(initial=-np.inf) + np.log(ACTIVE) if k != 0 else np.zeros(log_norms.size, bool)
    origin = curve.init if curve.kind == "gradient flow" else None
    return Neurons(curve.directions[at], log_norms, active, moment, float(curve.snapshot_times[at]), origin)


def _checked(drop: int | None, count: int) -> int:
    if drop is None:
        return count
    if number(drop) not in range(count + 1):
        raise RequestError(explain(f"there is no drop {shown(drop)}.", expected=f"a number from 0 to {count}"))
    return int(drop)


def _lost(what: str) -> RequestError:
    return RequestError(explain(f"{what} holds no directions of neurons.", remedy="Predict or train again."))
