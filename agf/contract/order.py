"""Which order of the activation decides whether neurons grow: utilities may vanish by a symmetry of the data.

Where targets are uncorrelated with all that neurons make to leading order (XOR for tanh, even targets for gelu) the
utility is 0, and what sums of floats leave of it says nothing, while training grows the neurons by the next order, at a
rate that depends on their norms.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.interaction import SOME, largest_pull
from agf.rounding import SUM

if TYPE_CHECKING:
    from agf.contract.problem import Problem


class Order(Enum):
    """The order in the parameters of a neuron that decides whether it grows."""

    LEADING = "leading"  # utilities are what they are
    NEXT = "next"  # they vanish by symmetry, and the next order does not
    NONE = "none"  # all orders vanish: nothing ever grows


def order(problem: Problem, directions: FloatArray, neurons: IntArray, residual: Any, loss: float) -> Order:
    """Which order of neurons, unit rows (m, P), stands out of rounding at a residual of this loss; the pull at norm 1
    has all of them. Neurons with kinks are homogeneous, with one order, and where nothing pulls them they are dead."""
    if neurons.size == 0 or problem.kink > 0 or not rounded(problem, directions, neurons, residual, loss):
        return Order.LEADING
    chosen = _chosen(neurons)
    pull = problem.pull(directions[chosen], np.zeros(chosen.size), neurons[chosen], residual)
    drowns = np.linalg.norm(pull, axis=1).max() <= noise(problem, directions, neurons, loss)
    return Order.NONE if drowns else Order.NEXT


def rounded(problem: Problem, directions: FloatArray, neurons: IntArray, residual: Any, loss: float) -> bool:
    """Whether the utilities of these neurons, unit rows (m, P), are rounding at a residual of this loss."""
    gradient = problem.utility(directions, neurons, residual)[1]
    return bool(np.linalg.norm(gradient, axis=1).max() <= noise(problem, directions, neurons, loss))


def noise(problem: Problem, directions: FloatArray, neurons: IntArray, loss: float) -> float:
    """Length of the gradient of a utility up to which it is rounding."""
    return SUM * largest(problem, directions, neurons, loss)


def largest(problem: Problem, directions: FloatArray, neurons: IntArray, loss: float) -> float:
    """Length that the gradient of a utility of these neurons, unit rows (m, P), may have at a residual of this loss."""
    chosen = _chosen(neurons)
    alone = problem.self_interaction(directions[chosen], neurons[chosen], *problem.empty)
    return largest_pull(problem.degree, float(np.max(alone)), loss)


def _chosen(neurons: IntArray) -> IntArray:
    return np.linspace(0, neurons.size - 1, min(SOME, neurons.size)).astype(np.int64)
