"""Weights whose parts differ by hundreds of orders of magnitude, as products of factors with logarithmic sizes.

Where hidden units mix, a dormant phase is linear, Z' = Z Q with one symmetric matrix Q for all rows of Z (H, n): the
component of Z along an eigenvector of rate L grows as exp(L t). Components of 1e-100 live next to others of 1, so Z is
carried as Z^T = basis diag(exp logs) hidden, basis (n, r) and hidden (r, H) of order one, and a phase is one LDU
factorization with pivots chosen on the scaled entries: exp(Q t) basis diag(exp logs) = V [exp(L t) G exp(logs)],
G = V^T basis = lower D upper, where exp(L t) lower exp(-L t) and exp(-logs) upper exp(logs) stay of order one however
far apart the components are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.rounding import RANK

#: Range of the log norms of rows that may be mixed from the start. Derived: their sizes then differ by e^3, and mixing
#: costs a digit of the smallest.
_ALIKE = 3.0


@dataclass(frozen=True)
class Factored:
    """Weights Z (H, n) as Z^T = basis diag(exp logs) hidden.

    Parameters
    ----------
    basis : float ndarray, shape (n, r)
        Columns of order one.
    logs : float ndarray, shape (r,)
        Natural logs of sizes.
    hidden : float ndarray, shape (r, H)
        Unit rows.
    """

    basis: FloatArray
    logs: FloatArray
    hidden: FloatArray

    @classmethod
    def of(cls, directions: FloatArray, log_norms: FloatArray) -> Factored:
        """Of rows given as unit `directions` (H, n) and `log_norms` (H,); rows of norm 0 are left out.

        More rows of about one size than columns are n mixtures of them.
        """
        alive = np.isfinite(log_norms)
        logs = log_norms[alive]
        if logs.size > directions.shape[1] and np.ptp(logs) <= _ALIKE:
            top = float(logs.max())
            q, r = np.linalg.qr(directions[alive] * np.exp(logs - top)[:, None])
            hidden = np.zeros((r.shape[0], log_norms.size))
            hidden[:, alive] = q.T
            sizes = np.linalg.norm(r, axis=1)
            kept = sizes > 0
            return cls((r[kept] / sizes[kept, None]).T, top + np.log(sizes[kept]), hidden[kept])
        return cls(directions[alive].T, log_norms[alive], np.eye(log_norms.size)[alive])

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return self.logs.size == 0

    def log_amplitudes(self, vectors: FloatArray) -> FloatArray:
        """Log of |Z v|, the norm over the hidden units, for each column v of vectors (n, m): (m,), -inf for none."""
        weights = vectors.T @ self.basis
        with np.errstate(divide="ignore"):
            logs = np.log(np.abs(weights)) + self.logs
            top = logs.max(axis=1, initial=-np.inf)
            finite = np.where(np.isfinite(top), top, 0.0)
            rows = (np.sign(weights) * np.exp(logs - finite[:, None])) @ self.hidden
            return np.where(np.isfinite(top), finite + np.log(np.linalg.norm(rows, axis=1)), -np.inf)

    def grown(self, vectors: FloatArray, rates: FloatArray, time: float) -> Factored:
        """After a time in which the components along `vectors` (n, n), orthonormal, grow at `rates` (n,)."""
        basis, logs, hidden = self._factor(vectors, rates, time, None)
        return _scaled(basis, logs, hidden, np.linalg.norm(hidden, axis=1))

    def taken(self, vectors: FloatArray, rates: FloatArray, time: float, chosen: int) -> tuple[Factored, FloatArray]:
        """Grown for a `time` at `rates` along `vectors`, then split at the component along vector `chosen`.

        The first pivot row of the factorization is the chosen vector, so that its first hidden direction q is the
        amplitude along it. Z^T Z = Z^T q q^T Z + the same of the rest, exactly.

        Returns
        -------
        Factored
            The rest, orthogonal to q in hidden space.
        float ndarray, shape (n,)
            The row q^T Z that was taken.
        """
        basis, logs, hidden = self._factor(vectors, rates, time, chosen)
        sizes = np.linalg.norm(hidden, axis=1)
        q = hidden[0] / sizes[0]
        along = hidden @ q
        rest = hidden[1:] - np.outer(along[1:], q)
        return _scaled(basis[:, 1:], logs[1:], rest, sizes[1:]), basis @ (np.exp(logs) * along)

    def _factor(
        self, vectors: FloatArray, rates: FloatArray, time: float, first: int | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Factors after a time, the first pivot row given or free."""
        r = self.logs.size
        gains = rates * time
        work = vectors.T @ self.basis
        rank = min(gains.size, r)
        lower, upper = np.zeros((gains.size, rank)), np.zeros((rank, r))
        logs, signs = np.full(rank, -np.inf), np.ones(rank)
        free_rows, free_columns = np.ones(gains.size, dtype=bool), np.ones(r, dtype=bool)
        for k in range(rank):
            i, j = self._pivot(work, gains, free_rows, free_columns, first if k == 0 else None)
            pivot = work[i, j]
            if pivot == 0:
                break
            with np.errstate(over="ignore", invalid="ignore"):
                column = np.where(free_rows & (work[:, j] != 0), work[:, j] / pivot, 0.0)
                row = np.where(free_columns & (work[i] != 0), work[i] / pivot, 0.0)
                lower[:, k] = column * np.exp(np.where(column != 0, gains - gains[i], 0.0))
                upper[k] = row * np.exp(np.where(row != 0, self.logs - self.logs[j], 0.0))
            logs[k], signs[k] = np.log(abs(pivot)) + gains[i] + self.logs[j], np.sign(pivot)
            work = work - np.outer(column, row) * pivot
            free_rows[i] = free_columns[j] = False
        return vectors @ lower, logs, signs[:, None] * (upper @ self.hidden)

    def _pivot(
        self, work: FloatArray, gains: FloatArray, free_rows: BoolArray, free_columns: BoolArray, row: int | None
    ) -> tuple[int, int]:
        """An entry that is the largest of its row and of its column after scaling; if `row` is given, of that row."""

        def best_row(j: int) -> int:
            with np.errstate(divide="ignore"):
                return int(np.argmax(np.where(free_rows, np.log(np.abs(work[:, j])) + gains, -np.inf)))

        def best_column(i: int) -> int:
            with np.errstate(divide="ignore"):
                return int(np.argmax(np.where(free_columns, np.log(np.abs(work[i])) + self.logs, -np.inf)))

        if row is not None:
            return row, best_column(row)
        j = int(np.argmax(np.where(free_columns, self.logs, -np.inf)))
        i = best_row(j)
        while True:  # each turn goes to a strictly larger entry
            better = best_column(i)
            if better == j:
                return i, j
            j = better
            again = best_row(j)
            if again == i:
                return i, j
            i = again


def _scaled(basis: FloatArray, logs: FloatArray, hidden: FloatArray, sizes: FloatArray) -> Factored:
    """Unit hidden rows; those that fell far below their former sizes are rounding, and go."""
    left = np.linalg.norm(hidden, axis=1)
    keep = (left > RANK * sizes) & np.isfinite(logs)
    return Factored(basis[:, keep], logs[keep] + np.log(left[keep]), hidden[keep] / left[keep, None])
