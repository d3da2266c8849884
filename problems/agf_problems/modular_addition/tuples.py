"""The Hessian of a network of sums of k terms and z^k, from a list of all p^k tuples while that is short.

For k = 2 the couplings of pairs of neurons give it in closed form (`modular_kernels.Quadratic.hessian`). Beyond, the
joint moments that a closed form would need, conditional on one or two terms, are more work than the list itself.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray

#: Longest list: neurons (or outputs) times tuples. Cost: memory; beyond it there is no Hessian, and steps are explicit.
_MOST = 2**21


class Tuples:
    """All sums of k terms over the group.

    Parameters
    ----------
    translates : float ndarray, shape (p, p)
        Column a encodes the element a.
    sums : int ndarray, shape (p, p)
        The number of a + b.
    terms : int
        k.
    """

    def __init__(self, translates: FloatArray, sums: IntArray, terms: int):
        self.order, self.terms, self._translates = translates.shape[0], terms, translates
        self._sums = sums

    def fits(self, neurons: int) -> bool:
        """Whether the list is short enough for that many neurons."""
        return max(neurons, self.order) * self.order**self.terms <= _MOST

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Second derivatives of the loss, (P m, P m) with P = (k+1) p. O(m^2 k^2 p^k + m p^(k+1)) work."""
        m, p, k = theta.shape[0], self.order, self.terms
        total = p**k
        weights = theta.reshape(m, k + 1, p)
        w = weights[:, k]
        inner = weights[:, :k] @ self._translates  # <u_l, a.x> at each a
        s = np.zeros((m, *[p] * k))
        for term in range(k):
            s += inner[:, term].reshape(m, *[p if axis == term else 1 for axis in range(k)])
        powers = s**k
        left = w.T @ powers.reshape(m, total) - self._target()  # what is made less the target, (p, T)
        slope = k * s ** (k - 1) / np.sqrt(total)
        powers /= np.sqrt(total)
        bend = k * (k - 1) * s ** (k - 2) * (w @ left).reshape(s.shape) / total
        left = left.reshape(p, *[p] * k) / np.sqrt(total)

        each, residue = np.arange(m), np.arange(p)
        outer = w @ w.T
        full = np.zeros((m, k + 1, p, m, k + 1, p))
        full[:, k, residue, :, k, residue] = powers.reshape(m, total) @ powers.reshape(m, total).T
        for one in range(k):
            near = np.moveaxis(slope, one + 1, 1).reshape(m, p, -1)  # (m, a, the other terms)
            far = np.moveaxis(powers, one + 1, 1).reshape(m, p, -1)
            meet = near.transpose(1, 0, 2) @ far.transpose(1, 2, 0)  # (a, i, j)
            cross = np.einsum("aij,ic->iajc", meet, w)
            cross[each, :, each] += np.einsum("iat,cat->iac", near, np.moveaxis(left, one + 1, 1).reshape(p, p, -1))
            full[:, one, :, :, k] = cross
            full[:, k, :, :, one] = cross.transpose(2, 3, 0, 1)
            block = (near.transpose(1, 0, 2) @ near.transpose(1, 2, 0)) * outer
            block[:, each, each] += np.moveaxis(bend, one + 1, 1).reshape(m, p, -1).sum(axis=2).T
            full[:, one, residue, :, one, residue] = block
            for two in range(one):
                pair = np.moveaxis(slope, (one + 1, two + 1), (1, 2)).reshape(m, p, p, -1)
                mixed = (pair.transpose(1, 2, 0, 3) @ pair.transpose(1, 2, 3, 0)) * outer  # (a, b, i, j)
                mixed[:, :, each, each] += (
                    np.moveaxis(bend, (one + 1, two + 1), (1, 2)).reshape(m, p, p, -1).sum(axis=3).transpose(1, 2, 0)
                )
                full[:, one, :, :, two] = mixed.transpose(2, 0, 3, 1)
                full[:, two, :, :, one] = mixed.transpose(3, 1, 2, 0)
        full[:, :k] = np.einsum("ra,iqajkc->iqrjkc", self._translates, full[:, :k], optimize=True)
        full[..., :k, :] = full[..., :k, :] @ self._translates.T
        return full.reshape(theta.size, theta.size)

    def _target(self) -> FloatArray:
        """The encoding of the sum of every tuple, (p, p^k)."""
        element = np.arange(self.order)
        for _ in range(self.terms - 1):
            element = self._sums[element].ravel()
        return self._translates[:, element]
