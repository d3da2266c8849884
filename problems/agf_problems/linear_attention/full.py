"""Linear attention with whole value, key and query matrices of any rank, to see which blocks matter.

The rank-one heads that the theory speaks of are in `attention`; the task is in `in_context`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray, count
from agf.errors import DataError, explain
from agf_problems.linear_attention.in_context import ContextRegression, default_eigenvalues


@dataclass(frozen=True)
class _Even:
    """An even function of beta as what it does to heads: pairing with T (d, d, d) and with c (d,)."""

    tensor: FloatArray
    vector: FloatArray


class FullLinearAttention(ContextRegression):
    """Linear attention with whole matrices W_V, W_K, W_Q of rank R, on tokens (x_n, y_n) and query (x, 0). [Zhang25].

    Network: f = last entry of sum_h W_V Z Z^T W_K^T W_Q z, the sum over all N+1 tokens, not its mean. Task: x_n and x
    from N(0, S), y_n = beta . x_n, y = beta . x, beta from N(0, I). Loss: expectation of (y - f)^2 / 2.

    Head h adds W_V Z Z^T W_K^T W_Q z to the last token z, Z (d+1, N+1) the sequence, and the prediction is the last
    entry; so of W_V only the last row w = (u, V) matters. A row of theta is (w, W_K, W_Q) with W_K and W_Q (R, d+1),
    P = (d+1) (1 + 2R).

    The blocks u, W_K[:, d] and W_Q[:, d] are zero in every published construction and in `init`. The flow keeps them
    zero: beta -> -beta makes the prediction even plus odd, the loss is the odd part's (that of `LinearAttention`, with
    M = sum_h (V_h K_h^T + u_h k_h^T) Q_h) plus half the even part's mean square, and the even part is at least linear
    in (u, k). Both are exact here for all values of all blocks; the even one needs the sixth moments of a Gaussian.

    A call costs O(H R d^2) while u and k are zero, else O(H R d^2 + H d^3 + d^4) and d^3 numbers of memory.

    Parameters
    ----------
    covariance : array_like, shape (d, d)
        Covariance of the inputs, or its (d,) eigenvalues in the standard basis. Default: 1, 1/2, 1/3, 1/4 scaled to
        trace 2.
    context : int
        N >= 1, number of pairs before the query.
    heads : int or None
        H >= 1; default d.
    rank : int
        R, 1 <= R <= d, of the matrices of one head.
    """

    name = "full-linear-attention"

    def __init__(self, covariance: Any = None, context: int = 32, heads: int | None = None, rank: int = 1) -> None:
        self._set_task(covariance, context)
        where = f"problem {self.name!r}"
        self.width = self.dimension if heads is None else count(heads, "heads", where=where)
        self.head_rank = count(rank, "rank", where=where)
        if self.head_rank > self.dimension:
            raise DataError(
                explain("`rank` is larger than the dimension of the inputs.", where=where, found=rank,
                        expected=f"at most {self.dimension}")
            )  # fmt: skip
        self.n_params = (self.dimension + 1) * (1 + 2 * self.head_rank)

    @classmethod
    def example(cls) -> dict[str, Any]:
        return {"covariance": default_eigenvalues(), "context": 32, "heads": 3, "rank": 2}

    def describe(self) -> str:
        heads, pairs = (f"{n} {word}{'s' * (n != 1)}" for n, word in ((self.width, "head"), (self.context, "pair")))
        return (
            f"linear attention, {heads} of rank {self.head_rank} with whole matrices, inputs of dimension "
            f"{self.dimension} (rank {self.rank}), {pairs} in context"
        )

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """ "gaussian": entries N(0, 1) in the blocks that matter and exact zeros elsewhere."""
        del alpha, kind
        theta = rng.standard_normal((self.width, self.n_params))
        theta[:, self.zero_blocks()] = 0.0
        return theta

    def zero_blocks(self) -> IntArray:
        """Columns of theta in the blocks that start at zero and stay there: u, W_K[:, d] and W_Q[:, d]."""
        d, r = self.dimension, self.head_rank
        last = (d + 1) * (1 + np.arange(2 * r)) + d
        return np.concatenate([np.arange(d), last])

    def merged(self, theta: FloatArray) -> FloatArray:
        left, queries = self._odd(theta)
        return np.einsum("hri,hrj->ij", left, queries)

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        residual = self.residual(theta, neurons)
        utilities, gradient = self.utility(theta, neurons, residual)
        driven = float(np.sum(self.merged(theta) * self.correlation))
        return 0.5 * (self.trace - driven - float(utilities.sum())), -gradient

    def residual(self, theta: FloatArray, neurons: IntArray) -> tuple[FloatArray, _Even | None]:
        """What is left of the odd part, (d, d), and minus the even part, None where it is zero."""
        del neurons
        merged = self.merged(theta)
        odd = self.correlation - self.gram @ merged @ self.covariance
        return odd, self._even_moments(theta)

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """E<f_h, r>, the odd part against what is left of it, the even part against minus the even part."""
        del neurons
        odd, even = residual
        d = self.dimension
        u, values, keys, tags, queries = self._blocks(theta)
        left, _ = self._odd(theta)
        from_query = queries @ odd.T  # (m, R, d)
        utilities = np.einsum("hri,hri->h", left, from_query)
        gradient = np.zeros((theta.shape[0], 1 + 2 * self.head_rank, d + 1))
        g_keys, g_queries = gradient[:, 1 : 1 + self.head_rank], gradient[:, 1 + self.head_rank :]
        gradient[:, 0, :d] = np.einsum("hr,hri->hi", tags, from_query)
        gradient[:, 0, d] = np.einsum("hri,hri->h", keys, from_query)
        g_keys[:, :, :d] = values[:, None, None] * from_query
        g_keys[:, :, d] = np.einsum("hi,hri->hr", u, from_query)
        g_queries[:, :, :d] = left @ odd
        if even is not None:
            product = np.einsum("hri,hrj->hij", keys, queries)
            by_u = np.einsum("ha,abc->hbc", u, even.tensor)
            along = queries @ even.vector  # (m, R)
            tagged = np.einsum("hr,hr->h", tags, along)
            utilities = utilities + np.einsum("hbc,hbc->h", by_u, product) + values * tagged
            gradient[:, 0, :d] += np.einsum("abc,hbc->ha", even.tensor, product)
            gradient[:, 0, d] += tagged
            g_keys[:, :, :d] += np.einsum("hbc,hrc->hrb", by_u, queries)
            g_keys[:, :, d] += values[:, None] * along
            g_queries[:, :, :d] += np.einsum("hrb,hbc->hrc", keys, by_u)
            g_queries[:, :, :d] += (values[:, None] * tags)[:, :, None] * even.vector
        return utilities, gradient.reshape(theta.shape)

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """Amplitudes and singular values of M, (d,) each, and "zero_blocks", the largest entry there, (1,)."""
        del neurons
        largest = np.abs(theta[:, self.zero_blocks()]).max(initial=0.0)
        return {**self.spectrum(theta), "zero_blocks": np.array([largest])}

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """The components of which the chosen heads hold more than half, with their eigenvalues."""
        held = self.spectrum(theta[np.isin(neurons, chosen)])["amplitudes"] / self.amplitudes
        learned = np.flatnonzero((held > 0.5) & (self.eigenvalues > 0))
        return self.component_words(learned) or super().label(theta, neurons, chosen)

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """|w|^2 - |W_K|^2 and |W_K|^2 - |W_Q|^2 of each head, (m,)."""
        del neurons
        shaped = theta.reshape(theta.shape[0], 1 + 2 * self.head_rank, self.dimension + 1)
        squares = np.sum(shaped**2, axis=2)
        key = squares[:, 1 : 1 + self.head_rank].sum(axis=1)
        return {"value2-key2": squares[:, 0] - key, "key2-query2": key - squares[:, 1 + self.head_rank :].sum(axis=1)}

    def _derivatives(
        self, theta: FloatArray, x: FloatArray, y: FloatArray, query: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        size, d, r = query.shape[0], self.dimension, self.head_rank
        tokens = np.concatenate([x, y[:, :, None]], axis=2)
        last = np.concatenate([query, np.zeros((size, 1))], axis=1)
        second = np.einsum("bni,bnj->bij", tokens, tokens) + last[:, :, None] * last[:, None, :]
        shaped = theta.reshape(theta.shape[0], 1 + 2 * r, d + 1)
        value, keys, queries = shaped[:, 0], shaped[:, 1 : 1 + r], shaped[:, 1 + r :]
        read = np.einsum("bij,hj->bhi", second, value)
        by_key, by_query = np.einsum("hri,bhi->bhr", keys, read), np.einsum("hri,bi->bhr", queries, last)
        out = np.empty((size, *shaped.shape))
        out[:, :, 0] = np.einsum("bij,hrj,bhr->bhi", second, keys, by_query, optimize=True)
        out[:, :, 1 : 1 + r] = by_query[:, :, :, None] * read[:, :, None, :]
        out[:, :, 1 + r :] = by_key[:, :, :, None] * last[:, None, None, :]
        return np.einsum("bhr,bhr->b", by_key, by_query), out.reshape(size, *theta.shape)

    def _blocks(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """u (m, d), V (m,), K (m, R, d), k (m, R) and Q (m, R, d)."""
        d, r = self.dimension, self.head_rank
        shaped = theta.reshape(theta.shape[0], 1 + 2 * r, d + 1)
        keys, queries = shaped[:, 1 : 1 + r], shaped[:, 1 + r :]
        return shaped[:, 0, :d], shaped[:, 0, d], keys[:, :, :d], keys[:, :, d], queries[:, :, :d]

    def _odd(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """V K + k u^T (m, R, d) and Q (m, R, d): M is the sum over heads of the transpose of one times the other."""
        u, values, keys, tags, queries = self._blocks(theta)
        return values[:, None, None] * keys + tags[:, :, None] * u[:, None, :], queries

    def _even_moments(self, theta: FloatArray) -> _Even | None:
        """Minus the derivative of half the even part's mean square; None where the even part vanishes.

        The even part is e = T_abc (Xhat + x x^T)_ab x_c + (beta^T Xhat beta) (c . x), T the sum of u (x) K^T Q made
        symmetric in its first two indices, c = sum V Q^T k. Xhat is Wishart with N degrees of freedom, independent of
        x ~ N(0, S); E[e^2] follows from its second moments and from the 15 pairings of six x's.
        """
        u, values, keys, tags, queries = self._blocks(theta)
        if not (u.any() or tags.any()):
            return None
        n, s, cov = self.context, self.trace, self.covariance
        tensor = np.einsum("ha,hrb,hrc->abc", u, keys, queries, optimize=True)
        tensor = 0.5 * (tensor + tensor.transpose(1, 0, 2))
        vector = np.einsum("h,hr,hrc->c", values, tags, queries)
        squared = cov @ cov
        cubed = np.einsum("abc,ai,bj,ck->ijk", tensor, cov, cov, cov, optimize=True)
        inner, outer = np.einsum("abc,ab->c", tensor, cov), np.einsum("abc,ac->b", tensor, cov)
        twice = np.einsum("abc,ab->c", tensor, squared)
        total = cov @ (inner + 2.0 * outer)  # E[x g(x)], g the cubic part
        mean = n * cov @ (inner + s * vector)
        both = total + mean
        of_square = n**2 * s**2 + 2 * n * s**2 + 2 * n * (n + 2) * np.trace(squared)  # E[(beta^T Xhat beta)^2]
        d_tensor = (
            2 * n * cubed
            + 2 * (cubed + cubed.transpose(1, 2, 0) + cubed.transpose(2, 0, 1))
            + cov[:, :, None] * (n**2 * cov @ (inner + s * vector) + n * total + both)
            + 2 * n * squared[:, :, None] * (cov @ vector)
            + both[None, :, None] * cov[:, None, :]
            + both[:, None, None] * cov[None, :, :]
        )
        d_vector = cov @ (n**2 * s * inner + 2 * n * twice + of_square * vector) + n * s * total
        return _Even(-d_tensor, -d_vector)
