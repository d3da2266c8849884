"""Utilities that vanish by symmetry, to rounding: the next order of the activation decides.

[AGF] takes the leading order of a neuron in its parameters for its utility. Where targets are uncorrelated with all
that neurons make to this order (XOR for tanh, even targets for gelu) it is 0, and what sums of floats leave of it says
nothing, while training grows the neurons by the next order, at a rate that depends on their norms. No phase of the
algorithm does: such a network is followed in real time (mode "resolved"), from weights large enough for the next order
to stand out of the rounding of the first.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from agf.algorithm.threshold import Threshold
from agf.arrays import FloatArray, IntArray
from agf.contract.interaction import SOME, largest_pull
from agf.contract.problem import Problem
from agf.rounding import SUM

_VANISH = (
    "To leading order the utilities of all dormant neurons vanish at this loss, by symmetry: they are rounding. They "
    "grow by the next order of their activation, at a rate that depends on their norms"
)
HANDED = _VANISH + ", which mode agf does not know; the network was followed in real time instead (mode resolved)."
UNTIMED = _VANISH + ": in units of -log alpha they never activate. Mode resolved follows them at a finite alpha."


class Order(Enum):
    """The order in the parameters of a neuron that decides whether it grows."""

    LEADING = "leading"  # utilities are what they are
    NEXT = "next"  # they vanish by symmetry, and the next order does not
    NONE = "none"  # all orders vanish: nothing ever grows


def order(
    problem: Problem, threshold: Threshold, directions: FloatArray, neurons: IntArray, residual: Any, loss: float
) -> Order:
    """Which order of neurons, unit rows (m, P), stands out of rounding at a residual of this loss; the pull at norm 1
    has all of them. Neurons with kinks are homogeneous, with one order, and where nothing pulls them they are dead."""
    if neurons.size == 0 or problem.kink > 0 or not rounded(problem, threshold, directions, neurons, residual, loss):
        return Order.LEADING
    chosen = _chosen(neurons)
    pull = problem.pull(directions[chosen], np.zeros(chosen.size), neurons[chosen], residual)
    drowns = np.linalg.norm(pull, axis=1).max() <= SUM * _largest(problem, threshold, directions, neurons, loss)
    return Order.NONE if drowns else Order.NEXT


def rounded(
    problem: Problem, threshold: Threshold, directions: FloatArray, neurons: IntArray, residual: Any, loss: float
) -> bool:
    """Whether the utilities of these neurons, unit rows (m, P), are rounding at a residual of this loss."""
    gradient = problem.utility(directions, neurons, residual)[1]
    largest = _largest(problem, threshold, directions, neurons, loss)
    return bool(np.linalg.norm(gradient, axis=1).max() <= SUM * largest)


def _largest(problem: Problem, threshold: Threshold, directions: FloatArray, neurons: IntArray, loss: float) -> float:
    """What the gradient of a utility may be at most."""
    chosen = _chosen(neurons)
    return largest_pull(problem.degree, float(threshold.alone(directions[chosen], neurons[chosen]).max()), loss)


def _chosen(neurons: IntArray) -> IntArray:
    return np.linspace(0, neurons.size - 1, min(SOME, neurons.size)).astype(np.int64)
