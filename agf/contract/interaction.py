"""Self-interaction of a neuron beside the active ones, from a problem's outputs or from its loss alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.numerics.derivatives import LENGTH, central

if TYPE_CHECKING:
    from agf.contract.problem import Problem

#: Neurons that are looked at for a symmetry. Cost: it is the same for all.
SOME = 8
#: Of rows (m, P) and their indices (m,): (m, N).
Outputs = Callable[[FloatArray, IntArray], FloatArray | None]


def of_loss(problem: Problem, directions: FloatArray, neurons: IntArray) -> FloatArray:
    """L(unit neuron) - L(nothing) + U of each row, (m,): exact for a half-squared loss, without active neurons."""
    zero = problem.loss_grad(*problem.empty)[0]
    utilities = problem.utility(directions, neurons, problem.residual(*problem.empty))[0]
    losses = [problem.loss_grad(directions[i : i + 1], neurons[i : i + 1])[0] for i in range(neurons.size)]
    return np.maximum(np.asarray(losses) - zero + utilities, 0.0)


class Span:
    """What active neurons can make by moving a little, kept for the last network: a dormant phase needs one again and
    again."""

    def __init__(self) -> None:
        self._last: tuple[bytes, FloatArray] | None = None

    def beyond(self, out: FloatArray, outputs: Outputs, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """The part of outputs `out` (m, N) that the active neurons, rows theta, cannot make."""
        if not neurons.size:
            return out
        key = theta.tobytes() + neurons.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, _rows(_jacobian(outputs, theta, neurons))
        span = self._last[1]
        return out - (out @ span.T) @ span


def _rows(jacobian: FloatArray) -> FloatArray:
    """Orthonormal rows that span those of the Jacobian, rank decided at 1e-10 of the largest."""
    _, values, rows = np.linalg.svd(jacobian, full_matrices=False)
    return rows[values > 1e-10 * values.max(initial=0.0)]


def _jacobian(outputs: Outputs, theta: FloatArray, neurons: IntArray) -> FloatArray:
    """Derivatives (mP, N) of the outputs of rows theta (m, P)."""

    def made(at: FloatArray) -> FloatArray:
        out = outputs(at, neurons)
        assert out is not None
        return out

    rows = []
    for p in range(theta.shape[1]):  # over parameters, not over neurons: all neurons move together
        step = LENGTH * np.maximum(np.abs(theta).max(axis=1, initial=0.0), 1e-8)
        shift = np.zeros_like(theta)
        shift[:, p] = step
        rows.append(central(made, theta, shift) / step[:, None])
    return np.concatenate(rows)


def largest_pull(degree: int, alone: float, loss: float) -> float:
    """What the gradient of the utility of a unit neuron of self-interaction C = `alone` may be at most.

    By Cauchy-Schwarz |grad U| <= degree (2 C)^(1/2) |r|, with |r|^2 = 2 L for half-squared loss, and of the size of the
    loss for others.
    """
    return float(degree * np.sqrt(4.0 * max(alone, 0.0) * max(loss, 0.0)))
