"""Utilities that vanish by symmetry, to rounding: the next order of the activation decides.

[AGF] takes the leading order of a neuron in its parameters for its utility. Where targets are uncorrelated with all
that neurons make to this order (XOR for tanh, even targets for gelu) it is 0, and what sums of floats leave of it says
nothing, while training grows the neurons by the next order, at a rate that depends on their norms. No phase of the
algorithm does: such a network is followed in real time (mode "resolved"), from weights large enough for the next order
to stand out of the rounding of the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.algorithm.threshold import Threshold
from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.rounding import SUM

#: Neurons that are looked at. Cost: a symmetry is the same for all.
_SOME = 8

VANISH = (
    "To leading order the utilities of all dormant neurons vanish at this loss, by symmetry: they are rounding. They "
    "grow by the next order of their activation, at a rate that depends on their norms, which mode agf does not know; "
)
HANDED = VANISH + "the network was followed in real time instead (mode resolved)."


def vanish(
    problem: Problem, threshold: Threshold, directions: FloatArray, neurons: IntArray, residual: Any, loss: float
) -> bool:
    """Whether the utilities of these neurons, unit rows (m, P), are rounding at a residual of this loss, and their pull
    at norm 1 is not."""
    if neurons.size == 0 or not rounded(problem, threshold, directions, neurons, residual, loss):
        return False
    chosen = _chosen(neurons)
    pull = problem.pull(directions[chosen], np.zeros(chosen.size), neurons[chosen], residual)
    return bool(np.linalg.norm(pull, axis=1).max() > SUM * _largest(problem, threshold, directions, neurons, loss))


def rounded(
    problem: Problem, threshold: Threshold, directions: FloatArray, neurons: IntArray, residual: Any, loss: float
) -> bool:
    """Whether the utilities of these neurons, unit rows (m, P), are rounding at a residual of this loss."""
    gradient = problem.utility(directions, neurons, residual)[1]
    largest = _largest(problem, threshold, directions, neurons, loss)
    return bool(np.linalg.norm(gradient, axis=1).max() <= SUM * largest)


def _largest(problem: Problem, threshold: Threshold, directions: FloatArray, neurons: IntArray, loss: float) -> float:
    """What the gradient of a utility may be at most.

    By Cauchy-Schwarz |grad U| <= degree (2 C)^(1/2) |r|, with |r|^2 = 2 L for half-squared loss, and of the size of the
    loss for others.
    """
    chosen = _chosen(neurons)
    alone = threshold.alone(directions[chosen], neurons[chosen]).max()
    return float(problem.degree * np.sqrt(4.0 * alone * loss))


def _chosen(neurons: IntArray) -> IntArray:
    return np.linspace(0, neurons.size - 1, min(_SOME, neurons.size)).astype(np.int64)
