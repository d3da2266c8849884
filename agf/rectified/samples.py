"""A problem as the exact methods for ReLU networks of one output see it: inputs, leak, and weighted residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import FloatArray
from agf.contract.problem import Problem
from agf.networks.two_layer import TwoLayer


@dataclass(frozen=True)
class Samples:
    """Inputs of a (leaky) ReLU problem with one output; U(w, a) = a sum_k c_k sigma(w . x_k), c = `weights`(theta).

    X : (n, d).  leak : slope left of 0.  problem : the problem itself.
    """

    X: FloatArray
    leak: float
    problem: TwoLayer

    @classmethod
    def of(cls, problem: Problem) -> Samples | None:
        """None where neurons are not a relu(w . x) or a leaky-relu(w . x), with one output and no output bias."""
        if not isinstance(problem, TwoLayer) or problem.n_outputs != 1 or problem.permanent:
            return None
        if problem.activation.name not in ("relu", "leaky-relu"):
            return None
        return cls(problem.X, 0.0 - float(problem.activation.left), problem)  # never -0

    def weights(self, theta: FloatArray) -> FloatArray:
        """c (n,) at the network of the rows of theta (m, d + 1)."""
        return self.problem.weigh(self.problem.residual(theta, np.arange(theta.shape[0])))[:, 0]

    def weigh(self, residual: FloatArray) -> FloatArray:
        """c (n,) for residuals -dl/df (n,)."""
        return self.problem.weigh(self.problem._backend.array(residual[:, None]))[:, 0]

    def curved(self, theta: FloatArray, out: FloatArray) -> FloatArray:
        """Outputs (m, n) in the metric of the loss at this network: half their squares is what they cost."""
        problem, b = self.problem, self.problem._backend
        curvature = problem.loss.curvature(b, problem._predict(theta, np.arange(theta.shape[0])), problem._y)
        rooted = b.numpy(curvature.root(b.array(out[:, :, None])))[:, :, 0]
        return np.asarray(rooted * np.sqrt(self.weigh(np.ones(out.shape[1]))))
