"""Random points at which a problem is tested, and calls that check what comes back.

Points have the problem's natural size, so that units do not matter.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from agf import sphere
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.contract.returns import verify
from agf.rounding import SUM

#: Steps of a Taylor remainder, relative to the size of the point: all, and as few as tell its order.
STEPS = 2.0 ** -np.arange(3.0, 24.0)
FEW_STEPS = STEPS[[5, 7, 9, 11]]
#: Neurons that take part, at most. Cost: of the laws; they hold for each neuron.
_MOST = 6


class Violation(Exception):
    """A broken law. method : whose fault; found, expected, cause : the three things a reader needs."""

    def __init__(self, method: str, found: str, expected: str, cause: str) -> None:
        super().__init__(f"{method}: found {found}, expected {expected}. Likely cause: {cause}.")
        self.method, self.found, self.expected, self.cause = method, found, expected, cause


class NotApplicable(Exception):
    """The problem does not offer what this check is about; str() says what."""


class Probe:
    """A problem with random points to test it at; every call is checked for shape, finiteness and changed inputs.

    Parameters
    ----------
    steps : float ndarray or None
        Of Taylor remainders, default `STEPS`.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator, steps: FloatArray | None = None) -> None:
        self.problem = problem
        self.steps = STEPS if steps is None else steps
        self.rng = rng
        self.last = "Problem"
        rows = np.setdiff1d(np.arange(problem.width), problem.permanent)
        self.neurons: IntArray = np.sort(rng.choice(rows, min(rows.size, _MOST), replace=False)).astype(np.int64)
        self.no_neurons: IntArray = np.zeros(0, dtype=np.int64)

    @cached_property
    def empty(self) -> FloatArray:
        return np.zeros((0, self.problem.n_params))

    @cached_property
    def directions(self) -> FloatArray:
        """Unit rows for `neurons`."""
        return sphere.random(self.rng, self.neurons.size, self.problem.n_params)

    @cached_property
    def _targets(self) -> tuple[float, float]:
        """Loss of nothing, and the largest utility of `directions` on the targets."""
        loss = abs(self.loss_grad(self.empty, self.no_neurons)[0])
        utility = np.abs(self.utility(self.directions, self.neurons, self.residual(self.empty, self.no_neurons))[0])
        return loss, float(utility.max(initial=0.0))

    @cached_property
    def _made(self) -> float:
        """By how much `directions` change the loss; NaN where that is not known."""
        return abs(float(self.ask("loss_grad", self.directions, self.neurons)[0]) - self._targets[0])

    @cached_property
    def unseen(self) -> bool:
        """Whether utilities on the targets are rounding, by a symmetry: |U|^2 may be 4 L times what neurons make."""
        loss, best = self._targets
        return bool(loss > 0 and self._made > 0 and best <= SUM * np.sqrt(loss * self._made))

    @cached_property
    def size(self) -> float:
        """Norm at which a neuron would take a fifth of the loss: the natural unit of theta."""
        loss, best = self._targets
        if self.unseen:
            return float((0.2 * loss / self._made) ** (0.5 / self.problem.degree))
        return float((0.2 * loss / best) ** (1.0 / self.problem.degree)) if best > 0 and loss > 0 else 1.0

    @cached_property
    def theta(self) -> FloatArray:
        """A network of `neurons`, norms between half and one and a half of the natural size."""
        return self.directions * self.size * self.rng.uniform(0.5, 1.5, (self.neurons.size, 1))

    @cached_property
    def seen(self) -> Any:
        """The residual of nothing, or, where utilities do not see it, of a network."""
        return self.residual(self.theta, self.neurons) if self.unseen else self.residual(self.empty, self.no_neurons)

    def sharp(self) -> Probe:
        """The same points of the problem with sharp corners: where slopes are rounded, a force is no derivative."""
        problem = self.problem.rounded(0.0)
        if problem is self.problem:
            return self
        if problem is None:
            raise NotApplicable("slopes at corners are rounded, and `rounded` does not say how to make them sharp")
        _ = self.theta
        other = copy(self)
        other.problem = problem
        return other

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        loss, gradient = self.ask("loss_grad", theta, neurons)
        if not np.isfinite(loss):
            raise Violation("loss_grad", f"a loss of {loss}", "a finite number", "a log, a root or an overflow")
        return float(loss), self.finite("loss_grad", gradient)

    def residual(self, theta: FloatArray, neurons: IntArray) -> Any:
        return self.ask("residual", theta, neurons)

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        values, gradients = self.ask("utility", theta, neurons, residual)
        return self.finite("utility", values), self.finite("utility", gradients)

    def pull(self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any) -> FloatArray:
        return self.finite("pull", self.ask("pull", directions, log_norms, neurons, residual))

    def network_pull(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, members: BoolArray
    ) -> FloatArray:
        return self.finite("network_pull", self.ask("network_pull", directions, log_norms, neurons, members))

    def gain(self, theta: FloatArray, neurons: IntArray, extra: FloatArray, which: IntArray) -> float:
        """Loss that neurons `extra` take away when they are added to a network."""
        both = np.concatenate([theta, extra]), np.concatenate([neurons, which])
        return self.loss_grad(theta, neurons)[0] - self.loss_grad(*both)[0]

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method returns, which is of the right kind; its arguments are as they were."""
        self.last = method
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        out = getattr(self.problem, method)(*copies)
        for k, (given, now) in enumerate(zip(arguments, copies, strict=True)):
            if isinstance(given, np.ndarray) and not np.array_equal(given, now, equal_nan=True):
                raise Violation(
                    method, f"argument {k + 1} changed by the call", "inputs left alone",
                    "an in-place operation such as theta *= s, or a view written to; copy first",
                )  # fmt: skip
        return out if method == "residual" else verify(method, out, self.problem, arguments)

    def finite(self, method: str, value: Any) -> FloatArray:
        """The array itself; a Violation where it is not finite."""
        array: FloatArray = np.asarray(value)
        if not np.isfinite(array).all():
            bad = np.argwhere(~np.isfinite(array))[0].tolist()
            raise Violation(
                method, f"{array[tuple(bad)]} at index {bad}", "finite values", "a division by zero, log or root at 0"
            )
        return array
