"""What float64 cannot hold in the coordinates of neurons, in sentences."""

from __future__ import annotations

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.coordinates.mode_system import turns
from agf.records.table import those
from agf.rounding import EPS

#: Initial weights, over the final ones, that drown in their rounding where hidden units mix. Limit: a note says so.
MIXING_FLOOR = 4 * EPS
#: Norm over a former norm at which a difference of squares of that former size is lost. Derived: half the digits.
_IMBALANCE = EPS**0.5
#: States of a run at which it is looked whether a neuron rests where nothing drives it. Cost: a gradient each, where
#: runs take thousands; they rest for whole plateaus, which have several of these.
_LOOKS = 32
#: Log norm, in e-folds, over that of its start up to which a neuron counts as one that has not grown. Limit: of what is
#: said; one at rest beside what it has learned feels nothing either, and of those that grew before nothing is told.
_UNGROWN = 1.0


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


def of_rests(problem: Problem, directions: FloatArray, log_norms: FloatArray, rtol: float) -> tuple[IntArray, int]:
    """Neurons that grew from where nothing drove them, which they had come closer to than steps hold; from when on.

    At degree 3 and more the whole field of a neuron may vanish in some directions: in that of the output weight of a
    square neuron, say, whose input weights decay as long as the output weight has the wrong sign. How far they have
    decayed decides when the neuron leaves once the residual has changed; steps hold that down to their error alone.

    Parameters
    ----------
    problem : Problem
        Whose run.
    directions : float ndarray, shape (T, H, P)
        Unit rows along it.
    log_norms : float ndarray, shape (T, H)
        Logs of their norms.
    rtol : float
        Error of a direction.

    Returns
    -------
    tuple[IntArray, int]
        The neurons, and the first state at which one of them has grown; T for none.
    """
    length, width = log_norms.shape
    if problem.degree == 2 or not problem.smooth or width < 2:
        return np.zeros(0, dtype=np.int64), length
    looks = np.unique(np.linspace(0, length - 1, _LOOKS).astype(np.int64))
    alive = np.isfinite(log_norms[0]).nonzero()[0]
    drives = np.full((looks.size, width), np.inf)
    for k, look in enumerate(looks):
        theta = directions[look] * np.exp(log_norms[look])[:, None]
        residual = problem.residual(theta[alive], alive)
        drives[k, alive] = np.linalg.norm(problem.utility(directions[look, alive], alive, residual)[1], axis=1)
    grown = log_norms > log_norms[0] + _UNGROWN
    faintest = np.minimum.accumulate(np.where(grown[looks], np.inf, drives), axis=0)
    lost = grown.any(axis=0) & (faintest <= rtol * np.where(np.isfinite(drives), drives, 0.0)).any(axis=0)
    since = np.where(lost, np.argmax(grown, axis=0), length)
    return lost.nonzero()[0], int(since.min(initial=length))


def told_of_rests(neurons: IntArray) -> str:
    """The sentence on these neurons (k,)."""
    return (
        f"Steps do not hold how close {those('neuron', neurons.tolist())} had come to where nothing drives a neuron: "
        "the time of leaving, and what comes later, hang on rounding. A larger alpha, or smaller rtol, holds more."
    )
