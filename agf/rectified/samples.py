"""A problem as the exact methods for ReLU networks of one output see it: inputs, leak, and weighted residuals."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.networks.two_layer import TwoLayer


@dataclass(frozen=True)
class Samples:
    """Inputs of a (leaky) ReLU problem with one output; U(w, a) = a sum_k c_k sigma(w . x_k), c = `weights`(theta).

    X : (n, d).  leak : slope left of 0.  problem : the problem itself.
    bias : (0 or 1, d + 1) row of the output bias, which belongs to every network; none where it is 0.
    """

    X: FloatArray
    leak: float
    problem: TwoLayer
    bias: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> Samples | None:
        """None where neurons are not a relu(w . x) or a leaky-relu(w . x), with one output; an output bias is 0."""
        if not isinstance(problem, TwoLayer) or problem.n_outputs != 1:
            return None
        if problem.activation.name not in ("relu", "leaky-relu"):
            return None
        leak = 0.0 - float(problem.activation.left)  # never -0
        return cls(problem.X, leak, problem, np.zeros((0, problem.n_params)))

    def beside(self, theta: FloatArray) -> tuple[Samples, FloatArray]:
        """With the output bias of a network, all rows of theta (m, d + 1), and its neurons, the other rows."""
        biased = np.isin(np.arange(theta.shape[0]) % self.problem.width, self.problem.permanent)
        return replace(self, bias=theta[biased]), theta[~biased]

    def whole(self, neurons: FloatArray) -> tuple[FloatArray, IntArray]:
        """The network of these neurons (m, d + 1), as methods of the problem take it."""
        rows = np.append(np.zeros(neurons.shape[0], dtype=np.int64), self.problem.permanent[: self.bias.shape[0]])
        return np.concatenate([neurons, self.bias]), rows.astype(np.int64)

    @property
    def constant(self) -> FloatArray:
        """What an output bias makes, (1, n); (0, n) without one."""
        return np.ones((len(self.problem.permanent), self.X.shape[0]))

    def weights(self, neurons: FloatArray) -> FloatArray:
        """c (n,) at the network of these neurons (m, d + 1)."""
        return self.problem.weigh(self.problem.residual(*self.whole(neurons)))[:, 0]

    def weigh(self, residual: FloatArray) -> FloatArray:
        """c (n,) for residuals -dl/df (n,)."""
        return self.problem.weigh(self.problem._backend.array(residual[:, None]))[:, 0]

    def curved(self, neurons: FloatArray, out: FloatArray) -> FloatArray:
        """Outputs (m, n) in the metric of the loss at this network: half their squares is what they cost."""
        problem, b = self.problem, self.problem._backend
        curvature = problem.loss.curvature(b, problem._predict(*self.whole(neurons)), problem._y)
        rooted = b.numpy(curvature.root(b.array(out[:, :, None])))[:, :, 0]
        return np.asarray(rooted * np.sqrt(self.weigh(np.ones(out.shape[1]))))
