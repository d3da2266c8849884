"""In-context linear regression: the task that linear attention networks are trained on, its moments and its solutions.

A sequence is N pairs (x_n, y_n = beta . x_n) and a query x; x ~ N(0, S), beta ~ N(0, I). A network that reads it
through sum_n y_n x_n predicts yhat = sum_n y_n x_n^T M x, and its loss depends on M only, by exact moments. What is
here is common to the parameterizations of M (`attention`, `attention_full`): checks at the door, levels, the predictor
that a trained network amounts to, and sampling.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agf import Init, Problem
from agf.arrays import FloatArray, IntArray, count, in_range, matrix, vector
from agf.errors import DataError, explain
from agf.rounding import EPS, TIED

#: Entries of per-sequence gradients held at once when sampling. Cost: memory, 16 MB.
_CHUNK = 2**21


@dataclass(frozen=True)
class ContextPredictor:
    """What a trained network computes in context: yhat(x) = sum_n y_n x_n^T M x, with M fixed by training.

    Parameters
    ----------
    weights : float ndarray, shape (d, d)
        The matrix M = sum_h V_h K_h Q_h^T.
    context : int
        N, the number of pairs it was trained for. The sum is not an average, so it is right for N pairs only.
    """

    weights: FloatArray
    context: int

    def coefficients(self, X: Any, y: Any) -> FloatArray:
        """Regression coefficients (d,) inferred from pairs X (N, d) and y (N,). Raises DataError for other shapes."""
        X = matrix(X, "X", where="predictor", rows=self.context, columns=self.weights.shape[0])
        y = vector(y, "y", where="predictor", length=self.context)
        return self.weights.T @ (X.T @ y)

    def __call__(self, X: Any, y: Any, query: Any) -> FloatArray:
        """Predictions for queries (..., d) from the context X (N, d), y (N,): an array of shape (...)."""
        query = np.asarray(query, dtype=np.float64)
        d = self.weights.shape[0]
        if query.ndim == 0 or query.shape[-1] != d or not np.isfinite(query).all():
            raise DataError(
                explain(f"`query` has shape {query.shape}.", where="predictor", expected=f"finite numbers, (..., {d})")
            )
        return query @ self.coefficients(X, y)


@dataclass(frozen=True)
class Sampled:
    """Loss and gradient estimated from sampled sequences, with the standard errors of the estimates.

    Parameters
    ----------
    loss : float
        Estimate.
    loss_error : float
        Its standard error.
    grad : float ndarray, shape (m, P)
        Estimate.
    grad_error : float ndarray, shape (m, P)
        Its standard errors.
    """

    loss: float
    loss_error: float
    grad: FloatArray
    grad_error: FloatArray


class ContextRegression(Problem):
    """The task and what depends on the network only through M, yhat(x) = sum_n y_n x_n^T M x.

    With G = E[Xhat^2] = N tr(S) S + N(N+1) S^2, Xhat = sum_n x_n x_n^T, the loss is
    (1/2) [tr S - 2 N tr(S^2 M) + tr(M^T G M S)] and minus its gradient in M is N S^2 - G M S.
    """

    degree = 3
    #: Rank of one head.
    head_rank = 1
    data_arguments: ClassVar[tuple[str, ...]] = ("covariance",)

    def _set_task(self, covariance: Any, context: Any) -> None:
        where = f"problem {self.name!r}"
        self.covariance = _covariance(covariance, where)
        self.context = count(context, "context", where=where)
        in_range(np.asarray(self.context, dtype=np.float64), "context", where=where, power=8)
        values, vectors = np.linalg.eigh(self.covariance)
        order = np.argsort(-values, kind="stable")
        self.dimension = values.size
        #: (d,) eigenvalues of S, decreasing, and (d, d) principal components, one a column.
        self.eigenvalues = np.where(values[order] > self.dimension * EPS * values.max(), values[order], 0.0)
        self.components = vectors[:, order]
        self.trace = float(self.eigenvalues.sum())
        #: (d,) amplitudes A_i = 1 / (tr S + (N+1) lam_i) at which component i is fully learned ([AGF] section 4.3).
        self.amplitudes = 1.0 / (self.trace + (self.context + 1) * self.eigenvalues)
        self.correlation = self.context * self.covariance @ self.covariance
        #: G of the loss, (d, d)
        self.gram = self.trace * self.context * self.covariance + (self.context + 1) * self.correlation

    @property
    def rank(self) -> int:
        """Rank of the covariance: the number of components there are to learn."""
        return int(np.count_nonzero(self.eigenvalues))

    @abstractmethod
    def merged(self, theta: FloatArray) -> FloatArray:
        """M (d, d) of theta (m, P), all that the prediction depends on once the blocks that start at zero are zero."""

    @abstractmethod
    def _derivatives(
        self, theta: FloatArray, x: FloatArray, y: FloatArray, query: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Predictions (B,) and their derivatives (B, m, P) on sequences x (B, N, d), y (B, N), query (B, d)."""

    def level(self, learned: Any) -> float:
        """Loss when exactly the components `learned` (d,) bool are: (1/2) (tr S - sum N lam_i^2 A_i), [AGF] eq. 57.

        Summed without cancellation. The main text's eq. 7 lost the square of lam_i (docs/errata.md).
        """
        lam = self.eigenvalues
        return float(0.5 * np.sum(np.where(learned, lam * (self.trace + lam) * self.amplitudes, lam)))

    def plateaus(self) -> FloatArray:
        """(r+1,) losses with the first 0, 1, ..., r = rank principal components learned."""
        return np.array([self.level(np.arange(self.dimension) < k) for k in range(self.rank + 1)])

    def least_loss(self, init: Init) -> float:
        """Least loss of a matrix M whose rank is that of all heads that are not zero.

        The loss is half the distance of G^(1/2) M S^(1/2) from a matrix whose singular values increase with those of S,
        and what no M fits.
        """
        most = self.head_rank * int(np.isfinite(init.log_norms).sum())
        return self.level(np.arange(self.dimension) < min(most, self.rank))

    def predictor(self, theta: Any) -> ContextPredictor:
        """The regression that parameters (m, P) perform in context. Raises DataError for a wrong shape."""
        theta = matrix(theta, "theta", where=f"problem {self.name!r}", columns=self.n_params)
        return ContextPredictor(self.merged(theta), self.context)

    def limit_predictor(self, learned: int) -> ContextPredictor:
        """The regression after `learned` drops as alpha -> 0: shrunken principal component regression.

        M = sum_{i<=k} A_i v_i v_i^T ([AGF] section 4.3). N lam_i A_i -> 1 for a long context, and then this is
        principal component regression on the first k components. Raises DataError unless 0 <= learned <= rank.
        """
        learned = count(learned, "learned", where=f"problem {self.name!r}", least=0)
        if learned > self.rank:
            raise DataError(explain("there are fewer components.", found=learned, expected=f"at most {self.rank}"))
        v = self.components[:, :learned]
        return ContextPredictor((v * self.amplitudes[:learned]) @ v.T, self.context)

    def sample(self, rng: np.random.Generator, size: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Sequences drawn by `rng`: x (size, N, d), y (size, N), query (size, d) and its target (size,)."""
        root = (self.components * np.sqrt(self.eigenvalues)).T
        tokens = rng.standard_normal((size, self.context + 1, self.dimension)) @ root
        beta = rng.standard_normal((size, self.dimension, 1))
        y = (tokens @ beta)[:, :, 0]
        return tokens[:, :-1], y[:, :-1], tokens[:, -1], y[:, -1]

    def sampled_loss_grad(
        self, theta: FloatArray, neurons: IntArray, rng: np.random.Generator, batch_size: int
    ) -> Sampled:
        """Loss and gradient (m, P) over `batch_size` sequences of `rng`, what the population values are means of."""
        size = count(batch_size, "batch_size", where=f"problem {self.name!r}", least=2)
        loss = np.zeros(2)
        grad = np.zeros((2, neurons.size, self.n_params))
        for rows in _chunks(size, max(neurons.size * self.n_params, self.context * self.dimension)):
            x, y, query, target = self.sample(rng, rows)
            prediction, derivative = self._derivatives(theta, x, y, query)
            error = target - prediction
            each = -error[:, None, None] * derivative
            loss += [np.sum(0.5 * error**2), np.sum(0.25 * error**4)]
            grad += [each.sum(axis=0), np.sum(each**2, axis=0)]
        loss, grad = loss / size, grad / size
        spread = np.sqrt(np.maximum(loss[1] - loss[0] ** 2, 0.0) / (size - 1))
        grad_spread = np.sqrt(np.maximum(grad[1] - grad[0] ** 2, 0.0) / (size - 1))
        return Sampled(float(loss[0]), float(spread), grad[0], grad_spread)

    def spectrum(self, theta: FloatArray) -> dict[str, FloatArray]:
        """Amplitudes v_i^T M v_i, to compare with `amplitudes`, and the singular values of M; (..., d) each, where
        `merged` takes heads (..., m, P)."""
        merged = self.merged(theta)
        return {
            "amplitudes": np.sum(self.components * (merged @ self.components), axis=-2),
            "singular_values": np.linalg.svd(merged, compute_uv=False),
        }

    def equals(self) -> IntArray:
        """(d,) number of the group of equal eigenvalues that each component belongs to, from 0."""
        apart = -np.diff(self.eigenvalues) > TIED * self.eigenvalues[:-1]
        return np.concatenate([[0], np.cumsum(apart)])

    def component_words(self, components: IntArray) -> str:
        """Words for components (from 0), each once; those of equal eigenvalues cannot be told apart and say so."""
        groups = self.equals()
        words = []
        for k in components:
            members = np.flatnonzero(groups == groups[k])
            value = f"eigenvalue {self.eigenvalues[k]:.3g}"
            if members.size == 1:
                words.append(f"principal component {k + 1} ({value})")
            else:
                words.append(f"one of principal components {members[0] + 1}-{members[-1] + 1} (equal {value}s)")
        return ", ".join(dict.fromkeys(words))


def default_eigenvalues() -> FloatArray:
    """1, 1/2, 1/3, 1/4 scaled to trace 2: the spectrum of the authors' experiment."""
    values = 1.0 / np.arange(1, 5)
    return 2.0 * values / values.sum()


def _covariance(given: Any, where: str) -> FloatArray:
    """The covariance (d, d) from a matrix or from eigenvalues; refused unless symmetric, semidefinite and not zero."""
    if given is None:
        given = default_eigenvalues()
    array = in_range(matrix(given, "covariance", where=where), "covariance", where=where, power=8)
    if 1 in array.shape:  # eigenvalues, however they are laid out
        cov = np.diag(array.reshape(-1))
    elif array.shape[0] != array.shape[1]:
        raise DataError(
            explain(f"`covariance` has shape {array.shape}.", where=where, expected="(d, d), or (d,) eigenvalues")
        )
    else:
        cov = 0.5 * (array + array.T)
        if np.abs(array - array.T).max() > 1e-10 * np.abs(array).max():
            raise DataError(
                explain("`covariance` is not symmetric.", where=where, remedy="Give (S + S.T) / 2 if that is meant.")
            )
    values = np.linalg.eigvalsh(cov)
    largest = np.abs(values).max()
    if largest == 0:
        raise DataError(explain("`covariance` is zero: the inputs vanish, nothing is learned.", where=where))
    if values[0] < -1e-10 * largest:
        raise DataError(
            explain("`covariance` has a negative eigenvalue.", where=where, found=f"{values[0]:.6g}",
                    expected="a positive semidefinite matrix")
        )  # fmt: skip
    return cov


def _chunks(size: int, each: int) -> Iterator[int]:
    """Sizes that sum to `size`, none holding more than about _CHUNK numbers."""
    largest = max(_CHUNK // max(each, 1), 1)
    while size > 0:
        yield min(size, largest)
        size -= largest
