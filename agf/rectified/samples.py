"""A problem as the exact methods for ReLU networks of one output see it: inputs, leak, and weighted residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import FloatArray
from agf.contract.problem import Problem
from agf.networks.two_layer import TwoLayer


@dataclass(frozen=True)
class Samples:
    """Inputs of a (leaky) ReLU problem with one output; U(w, a) = a sum_k c_k sigma(w . x_k), c = `weigh`(theta).

    X : (n, d).  leak : slope left of 0.  problem : the problem itself.
    """

    X: FloatArray
    leak: float
    problem: TwoLayer

    @classmethod
    def of(cls, problem: Problem) -> Samples | None:
        """None where neurons are not a relu(w . x) or a leaky-relu(w . x), with one output."""
        if not isinstance(problem, TwoLayer) or problem.n_outputs != 1:
            return None
        if problem.activation.name not in ("relu", "leaky-relu"):
            return None
        return cls(problem.X, -float(problem.activation.left), problem)

    @property
    def weight(self) -> float:
        """Weight of one sample in the loss, 1/n for a mean; measured, so that no convention is repeated."""
        k = int(np.argmax(np.sum(self.X**2, axis=1)))  # the longest input is far from the kink of a neuron along it
        one = np.zeros((self.X.shape[0], 1))
        one[k] = 1.0
        length = float(np.linalg.norm(self.X[k]))
        theta = np.append(self.X[k] / length, 1.0)[None]
        seen, _ = self.problem.utility(theta, np.zeros(1, dtype=np.int64), self.problem._backend.array(one))
        return float(seen[0]) / length

    def residual(self, theta: FloatArray) -> FloatArray:
        """-dl/df (n,) at the network of the rows of theta (m, d + 1)."""
        found = self.problem.residual(theta, np.arange(theta.shape[0]))
        return self.problem._backend.numpy(found).reshape(-1)

    def weigh(self, residual: FloatArray) -> FloatArray:
        """c (n,), such that U(w, a) = a sum_k c_k sigma(w . x_k)."""
        return self.weight * residual
