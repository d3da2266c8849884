"""What float64 cannot hold in the coordinates of neurons, in sentences."""

from __future__ import annotations

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.contract.problem import Problem
from agf.coordinates.mode_system import turns
from agf.rounding import EPS

#: Initial weights, over the final ones, that drown in their rounding where hidden units mix. Limit: a note says so.
MIXING_FLOOR = 4 * EPS
#: Norm over a former norm at which a difference of squares of that former size is lost. Derived: half the digits.
_IMBALANCE = EPS**0.5


def of_small_weights(problem: Problem, width: int, shrunk: float) -> list[str]:
    """Where small neurons all turn alike, modes below 1e-16 of the weights are rounding.

    shrunk : log of the initial weights over the final ones.
    """
    if width < 2 or shrunk > np.log(MIXING_FLOOR) or not turns(problem):
        return []
    return [
        "Small neurons of this network all turn to the same directions, and its initial weights are "
        f"{np.exp(shrunk):.0e} of the final ones: rounding of the large weights replaces smaller modes, and drops "
        "after the first come early. Use a larger alpha, or coordinates that keep the modes apart (flow_system)."
    ]


def of_returns(problem: Problem, alive: BoolArray, log_norms: FloatArray) -> list[str]:
    """A neuron that grew 1e8-fold has lost the difference of its two layers, which it needs to change sign should it
    shrink again.

    alive : (H,) neurons that are not zero.  log_norms : (T, H) of a run.
    """
    if problem.degree != 2 or problem.n_params < 2:
        return []
    log_norms = np.where(alive, log_norms, 0.0)
    peak = np.maximum.accumulate(log_norms, axis=0)
    lost = (peak - log_norms[0] > -np.log(_IMBALANCE)) & (peak - log_norms > np.log(10.0))
    neurons = np.flatnonzero(lost.any(axis=0))
    if neurons.size == 0:
        return []
    named = ", ".join(map(str, neurons[:8])) + (", ..." if neurons.size > 8 else "")
    return [
        f"Neuron(s) {named} grew more than 1e8-fold and shrank again: rounding has lost the difference "
        "between their layers, so a later change of sign may come at a wrong time or never. Use a larger alpha, or "
        "coordinates that keep it (flow_system)."
    ]
