"""Linear attention with rank-one heads on in-context linear regression (`in_context`), from exact moments.

yhat = sum_h V_h sum_n y_n (x_n . K_h)(Q_h . x). Nothing is sampled unless asked for. Whole value, key and query
matrices are in `attention_full`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from agf import Critical, Init, Staircase, sphere
from agf.arrays import FloatArray, IntArray, count, positive, vector
from agf.clock import HALF, threshold
from agf.errors import DataError, explain
from agf.rounding import RANK
from agf_problems.linear_attention.in_context import ContextRegression, default_eigenvalues
from agf_problems.linear_attention.theory import staircase


class LinearAttention(ContextRegression):
    """Linear attention with rank-one heads; rows of theta are (V, K, Q), P = 1 + 2d. [AGF] section 4.3, [Zhang25].

    Network: f = sum_h V_h sum_n y_n (x_n . K_h) (Q_h . x), n = 1..N: the sum over the context, not its mean. Task:
    x_n and x from N(0, S), y_n = beta . x_n, y = beta . x, beta from N(0, I). Loss: expectation of (y - f)^2 / 2.

    A call costs O(H d^2).

    Parameters
    ----------
    covariance : array_like, shape (d, d)
        Covariance S of the inputs, or its (d,) eigenvalues in the standard basis. Default: 1, 1/2, 1/3, 1/4 scaled to
        trace 2.
    context : int
        N >= 1, number of pairs before the query.
    heads : int or None
        H >= 1; default d.

    Raises
    ------
    DataError
        For a covariance that is not symmetric, not positive semidefinite or zero, and for bad counts.
    """

    name = "linear-attention"
    kinds = ("gaussian", "positive-values")

    def __init__(self, covariance: Any = None, context: int = 32, heads: int | None = None) -> None:
        self._set_task(covariance, context)
        self.width = self.dimension if heads is None else count(heads, "heads", where=f"problem {self.name!r}")
        self.n_params = 1 + 2 * self.dimension

    @classmethod
    def example(cls) -> dict[str, Any]:
        return {"covariance": default_eigenvalues(), "context": 32, "heads": 5}

    def describe(self) -> str:
        sizes = ((self.width, "rank-one head"), (self.context, "pair"))
        heads, pairs = (f"{count} {word}{'s' * (count != 1)}" for count, word in sizes)
        return f"linear attention, {heads}, inputs of dimension {self.dimension} (rank {self.rank}), {pairs} in context"

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """Parameters before scaling by alpha.

        "gaussian" : every entry N(0, 1), so alpha is the standard deviation of an entry (as the paper's experiments,
        whose text says variance) and norms are about alpha sqrt(1 + 2d). "positive-values" : the same with |V|, as the
        authors' code has it.
        """
        del alpha
        theta = rng.standard_normal((self.width, self.n_params))
        if kind == "positive-values":
            theta[:, 0] = np.abs(theta[:, 0])
        return theta

    # -- loss ---------------------------------------------------------------------------------------------------

    def merged(self, theta: FloatArray) -> FloatArray:
        values, keys, queries = self.split(theta)
        return (values[..., None] * keys).mT @ queries

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        residual = self.residual(theta, neurons)
        utilities, gradient = self.utility(theta, neurons, residual)
        values, keys, queries = self.split(theta)
        driven = values @ np.add.reduce(keys * np.dot(queries, self.correlation), axis=1)
        np.negative(gradient, out=gradient)
        return float(0.5 * (self.trace - driven - np.add.reduce(utilities))), gradient

    def residual(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """E[Xhat beta r x^T] = N S^2 - G M S, (d, d): all that a head can see of what is left to fit."""
        del neurons
        values, keys, queries = self.split(theta)
        seen = np.dot(keys, self.gram)  # a third faster than `@` of small matrices
        seen *= values[:, None]
        return np.asarray(self.correlation - np.dot(seen.T, np.dot(queries, self.covariance)))

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """V K^T R Q with R the residual; at the start V K^T (N S^2) Q, at most N lam_1^2 / (3 sqrt 3) at unit norm."""
        del neurons
        values, keys, queries = self.split(theta)
        seen_by_key = np.dot(queries, residual.T)
        slope = np.add.reduce(keys * seen_by_key, axis=1)
        gradient = np.empty_like(theta)
        own, by_key, by_query = self.split(gradient)
        own[:] = slope
        np.multiply(values[:, None], seen_by_key, out=by_key)
        np.multiply(values[:, None], np.dot(keys, residual), out=by_query)
        return values * slope, gradient

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """C_i = (1/2) E|f_i - P_A f_i|^2 of unit heads, (m,), in closed form.

        E[f f'] = tr(M^T G M' S), so heads are matrices G^(1/2) V K Q^T S^(1/2), and the span of the active Jacobian is
        every matrix whose columns lie in the span of the active keys or whose rows lie in that of the active queries
        (both so weighted). What is left of a rank-one head is the product of what is left of its key and its query.
        """
        del neurons, active_neurons
        values, keys, queries = self.split(directions)
        _, active_keys, active_queries = self.split(active)
        left_key = _beyond(self._weighted_keys(keys), self._weighted_keys(active_keys))
        left_query = _beyond(self._weighted_queries(queries), self._weighted_queries(active_queries))
        return 0.5 * values**2 * np.sum(left_key**2, axis=1) * np.sum(left_query**2, axis=1)

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Dense Hessian (mP, mP), exact; None above 2,000 parameters, where products or differences are cheaper."""
        m, d = neurons.size, self.dimension
        if m * self.n_params > 2000:
            return None
        values, keys, queries = self.split(theta)
        residual = self.residual(theta, neurons)
        gk, sq = keys @ self.gram, queries @ self.covariance
        kk, qq = gk @ keys.T, sq @ queries.T  # (m, m) inner products of keys and of queries
        vv = np.outer(values, values)
        out = np.empty((m, self.n_params, m, self.n_params))
        key, query = slice(1, 1 + d), slice(1 + d, None)
        out[:, 0, :, 0] = kk * qq
        out[:, 0, :, key] = (qq * values)[:, :, None] * gk[:, None, :]
        out[:, 0, :, query] = (kk * values)[:, :, None] * sq[:, None, :]
        out[:, key, :, key] = (vv * qq)[:, None, :, None] * self.gram[None, :, None, :]
        out[:, query, :, query] = (vv * kk)[:, None, :, None] * self.covariance[None, :, None, :]
        out[:, key, :, query] = np.einsum("hg,gi,hj->higj", vv, gk, sq)
        for h in range(m):  # each head's own second derivative, -R contracted with it
            out[h, 0, h, key] -= residual @ queries[h]
            out[h, 0, h, query] -= residual.T @ keys[h]
            out[h, key, h, query] -= values[h] * residual
        out[:, key, :, 0] = out[:, 0, :, key].transpose(1, 2, 0)
        out[:, query, :, 0] = out[:, 0, :, query].transpose(1, 2, 0)
        out[:, query, :, key] = out[:, key, :, query].transpose(2, 3, 0, 1)
        return out.reshape(m * self.n_params, m * self.n_params)

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """V^2 - |K|^2 and |K|^2 - |Q|^2 of each head, (m,)."""
        del neurons
        values, keys, queries = self.split(theta)
        key = np.sum(keys**2, axis=1)
        return {"value2-key2": values**2 - key, "key2-query2": key - np.sum(queries**2, axis=1)}

    # -- what is learned ----------------------------------------------------------------------------------------

    def theory(
        self, alpha: float | None = None, *, init: Init | None = None, radius: float | None = None, **options: Any
    ) -> Staircase:
        """Levels and amplitudes of min(rank S, H) drops; with `init`, their times and lower bounds on them too.

        Parameters
        ----------
        alpha : float or None, optional
            Scale; alone it gives no times, for they depend on the heads.
        init : Init or None, optional
            The heads that start. Times then follow from `attention_race`: right as alpha -> 0, up to a time that stays
            bounded while they grow as 1/alpha. (The paper has only bounds.)
        radius : float or None, optional
            Norm that counts as learned in the bounds. Default: `learned_norm`; the paper has 1, which heads of usual
            spectra never reach.

        Returns
        -------
        Staircase
            Staircase with `levels` of [AGF] eq. 57, features "amplitudes" and "singular_values" after each drop, and
            bounds (K,) on the half-drop times, flow time. bounds[k-1] is the time at which jump k-1 leaves the others
            to themselves, plus `least_wait` from the largest of them then ([AGF] eq. 58 with its misprint mended):
            right as alpha -> 0, as the times are. The first holds at any alpha.
        """
        if options:
            raise DataError(
                explain(
                    f"unknown option `{next(iter(options))}`.",
                    where=f"{self.name}.theory",
                    expected="alpha, init or radius",
                )
            )
        return staircase(self, alpha, init, radius)

    def learned_norm(self, k: int | IntArray) -> FloatArray:
        """Norm of a balanced head (V = |K| = |Q|) that has component k (from 0) when half of that drop is done."""
        return np.sqrt(3.0) * np.cbrt(HALF * self.amplitudes[k])

    def least_wait(self, k: int, log_norms: Any, radius: float | None = None) -> float:
        """Least flow time from the start of a phase until a dormant head reaches norm `radius`.

        sqrt(3) (1/mu - 1/radius) / (N lam^2), mu the largest dormant norm at the start of the phase, lam the eigenvalue
        of component k (from 0), the largest that is not yet learned. The printed bound ([AGF] eq. 58) drops 1/radius
        and exceeds the blow-up time (docs/errata.md). radius : default `learned_norm(k)`.
        """
        log_norms = vector(np.atleast_1d(log_norms), "log_norms", where=f"{self.name}.least_wait")
        log_radius = np.log(self.learned_norm(k) if radius is None else positive(radius, "radius"))
        wait = np.maximum(threshold(log_norms.max(), 3, log_radius), 0.0) / (3 * self.largest_utility(k))
        return float(wait[0])

    def largest_utility(self, k: int | IntArray) -> FloatArray:
        """N lam_k^2 / (3 sqrt 3), the maximum of the utility at unit norm when component k (from 0) is the next."""
        return self.context * np.atleast_1d(self.eigenvalues[k]) ** 2 / (3 * np.sqrt(3.0))

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """Amplitudes (d,) and singular values (d,) of M; and for each of the H heads the component it points at.

        "component" (H,) counts from 1, 0 for a head that is not among `neurons`; "overlap" (H,) is
        |K^T P Q| / (|K| |Q|) with P the projection on that component, or on its equals.
        """
        return {name: values[0] for name, values in self.features_along(theta[None], neurons).items()}

    def features_along(self, thetas: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """`features` at each of `thetas` (T, m, P)."""
        component, overlap = self._pointing(thetas)
        out = self.spectrum(thetas)
        out["component"], out["overlap"] = np.zeros((2, len(thetas), self.width))
        out["component"][:, neurons], out["overlap"][:, neurons] = component + 1, overlap
        return out

    def critical(self, theta: FloatArray, neurons: IntArray) -> list[Critical]:
        """The singular pairs (K, Q) of the residual with V, all at equal norms: utility sigma / (3 sqrt 3)."""
        keys, sigma, queries = np.linalg.svd(self.residual(theta, neurons))
        rows = np.concatenate([np.ones((sigma.size, 1)), keys.T, queries], axis=1) / np.sqrt(3)
        top = sigma >= (1 - 1e-9) * sigma[0]  # equal ones span a continuum of maxima
        words = self.component_words
        return [
            Critical(
                rows[k],
                float(sigma[k]) / (3 * np.sqrt(3)),
                "saddle" if not top[k] else "maximum" if top.sum() == 1 else "degenerate",
                words(self._pointing(rows[k : k + 1])[0]),
                share=0.0 if not top[k] else 1.0 if top.sum() == 1 else np.nan,
            )
            for k in range(sigma.size)
            if sigma[k] > 1e-12 * np.abs(self.correlation).max()
        ]

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """The principal component that each chosen head took, with its eigenvalue."""
        component = self._pointing(theta)[0]
        return self.component_words(component[np.isin(neurons, chosen)])

    def _pointing(self, theta: FloatArray) -> tuple[IntArray, FloatArray]:
        """The first component of the group that each head overlaps with most (..., m), and that overlap (..., m)."""
        _, keys, queries = self.split(theta)
        products = (sphere.normalize(keys) @ self.components) * (sphere.normalize(queries) @ self.components)
        starts = self._firsts
        overlaps = np.abs(np.add.reduceat(products, starts, axis=-1))
        return starts[np.argmax(overlaps, axis=-1)], np.max(overlaps, axis=-1)

    @cached_property
    def _firsts(self) -> IntArray:
        """The first component of each group of equals."""
        return np.flatnonzero(np.diff(self.equals(), prepend=-1))

    # -- helpers ------------------------------------------------------------------------------------------------

    def _derivatives(
        self, theta: FloatArray, x: FloatArray, y: FloatArray, query: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        values, keys, queries = self.split(theta)
        moment = np.einsum("bn,bnd->bd", y, x)
        by_key, by_query = moment @ keys.T, query @ queries.T
        out = np.empty((query.shape[0], *theta.shape))
        out[:, :, 0] = by_key * by_query
        out[:, :, 1 : 1 + self.dimension] = (values * by_query)[:, :, None] * moment[:, None, :]
        out[:, :, 1 + self.dimension :] = (values * by_key)[:, :, None] * query[:, None, :]
        return (by_key * by_query) @ values, out

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values (..., m), keys (..., m, d) and queries (..., m, d) of rows (V, K, Q)."""
        return theta[..., 0], theta[..., 1 : 1 + self.dimension], theta[..., 1 + self.dimension :]

    def _weighted_keys(self, keys: FloatArray) -> FloatArray:
        """Rows times G^(1/2), in the principal basis."""
        root = np.sqrt(self.context * self.eigenvalues / self.amplitudes)
        return (keys @ self.components) * root

    def _weighted_queries(self, queries: FloatArray) -> FloatArray:
        """Rows times S^(1/2), in the principal basis."""
        return (queries @ self.components) * np.sqrt(self.eigenvalues)


def _beyond(rows: FloatArray, span: FloatArray) -> FloatArray:
    """Rows minus their projection on the span of other rows, exactly zero where only rounding is left.

    The rank is decided at 1e-10 of the largest singular value of the normalised rows that span.
    """
    if span.shape[0] == 0:
        return rows
    _, values, basis = np.linalg.svd(sphere.normalize(span), full_matrices=False)
    basis = basis[values > 1e-10 * values[0]]
    left = rows - (rows @ basis.T) @ basis
    return np.where(sphere.norms(left)[:, None] > RANK * sphere.norms(rows)[:, None], left, 0.0)
