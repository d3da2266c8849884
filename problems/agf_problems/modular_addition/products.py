"""The sums of `modular_kernels.Quadratic` for few residues and frequencies, in as few array operations as possible.

Over all pairs (a, b), s_i^2 = (A_i[a] + B_i[b])^2 is a combination of the same products of two linear forms for every
neuron: the squares of A and B at each residue, and the products of a wave of A and one of B. So a network is one matrix
of q products by p outputs, sum_j phi_j w_j, and what it leaves to fit is the target less that. At p = 20 a gradient
costs two thirds of what it does through the Gram matrix of the neurons, whose work is less but comes in more pieces.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray
from agf_problems.modular_addition.kernels import Correlations

#: Neurons times residues times products up to which this way is taken. Cost: it is faster up to there (measured at p =
#: 7 to 59, 3 to 1024 neurons).
_MOST_WORK = 10**5


class Products:
    """Loss, gradient and utility of a quadratic network, two terms, p residues in all.

    The coordinates are scaled so that E s_i^2 s_j^2 = phi_i . K phi_j, where K is the identity but for the means: a
    square of A meets one of B in their means alone, which is 1/p for each pair of residues.
    """

    def __init__(self, correlations: Correlations):
        p = correlations.order
        low, waves = correlations.coordinates(), correlations.waves
        used = np.any(waves, axis=1)  # the sine of a real character is nothing
        low, waves = low[:, used], waves[used]
        d = waves.shape[0]
        none = np.zeros_like
        squares = low @ waves * p**0.25
        first, second = np.sqrt(2.0) * np.repeat(low, d, axis=1), np.sqrt(2.0) * np.tile(low, (1, d))
        left = np.block([[squares, none(squares), first], [none(squares), squares, none(second)]])
        right = np.block([[squares, none(squares), none(first)], [none(squares), squares, second]])
        self.order, self.size, self._squares = p, left.shape[1], 2 * p
        self._forms = np.concatenate([left, right], axis=1)
        self._others_adjoint = np.ascontiguousarray(np.concatenate([right, left], axis=1).T)
        # at each residue of A the mean over those of B, and the other way round
        self._means = np.repeat(np.eye(2)[::-1], p, axis=1) / p
        self._target = np.zeros((self.size, p))
        # `low` is 1/sqrt(2) of the forms
        self._target[2 * p :] = 0.5 * correlations.target(used).reshape(-1, p)

    def loss_grad(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Loss and its gradient (m, 3p); the loss is a sum of squares, exact however small."""
        forms, products = self._expand(theta)
        w = theta[:, 2 * self.order :]
        made = products.T @ w
        left = self._left(made)
        n = self._squares
        loss = np.vdot(left[n:], left[n:]) - np.vdot(made[:n], left[:n])
        return 0.5 * float(loss), -self._pull(forms, products, w, left)

    def residual(self, theta: FloatArray) -> FloatArray:
        """What the network leaves to fit, (q, p)."""
        _, products = self._expand(theta)
        return self._left(products.T @ theta[:, 2 * self.order :])

    def utility(self, theta: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(m,), and its gradient (m, 3p)."""
        forms, products = self._expand(theta)
        w = theta[:, 2 * self.order :]
        gradient = self._pull(forms, products, w, residual)
        return np.vecdot(w, gradient[:, 2 * self.order :]), gradient

    def network_pull(self, directions: FloatArray, weights: FloatArray) -> FloatArray:
        """Gradient of the utilities, (m, 3p), on what the network of these neurons, weighted, leaves to fit."""
        forms, products = self._expand(directions)
        w = directions[:, 2 * self.order :]
        return self._pull(forms, products, w, self._left(np.dot(products.T, w * weights[:, None])))

    def _expand(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The linear forms (m, 2q) and their products (m, q)."""
        forms = np.dot(theta[:, : 2 * self.order], self._forms)
        return forms, forms[:, : self.size] * forms[:, self.size :]

    def _left(self, made: FloatArray) -> FloatArray:
        """The target less K times what the network makes."""
        left = self._target - made
        squares = left[: self._squares].reshape(2, self.order, -1)
        squares -= np.dot(self._means, made[: self._squares])[:, None]
        return left

    def _pull(self, forms: FloatArray, products: FloatArray, w: FloatArray, left: FloatArray) -> FloatArray:
        m, n = w.shape[0], 2 * self.order
        # the slope in each form is that in the product times the other form
        slopes = np.dot(w, left.T)[:, None] * forms.reshape(m, 2, self.size)
        out = np.empty((m, n + self.order))
        out[:, :n] = np.dot(slopes.reshape(forms.shape), self._others_adjoint)
        out[:, n:] = np.dot(products, left)
        return out


def products_of(correlations: Correlations, width: int) -> Products | None:
    """None where there is nothing to learn, or so much work that the number of operations does not matter."""
    p, d = correlations.order, int(correlations.waves.any(axis=1).sum())
    small = d > 0 and width * p * (2 * p + d * d) <= _MOST_WORK
    return Products(correlations) if small and correlations.dense else None
