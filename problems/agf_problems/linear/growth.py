"""Growth in a frozen residual: the singular modes that are left to learn, block by block.

Q = [[0, M^T], [M, 0]] has the eigenvectors (v, +-u)/sqrt 2 of the singular pairs (u, v) of M, with the rates +-sigma.
What the active modes account for is projected out of M first: their flow undoes what a dormant mode would do there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.factored import Factored
from agf.rounding import EPS, RANK
from agf_problems.linear.moments import Moments

#: Difference of log norms of hidden units above which they are kept apart. Derived: a common factorization leaves the
#: smaller of two its digits down to RANK only while their ratio is below RANK / EPS.
SPREAD = float(np.log(RANK / EPS))


@dataclass(frozen=True)
class _BlockModes:
    """Eigenvectors of Q in one block: vectors (n', n'), rates (n',) with the g growing modes first.

    Parameters
    ----------
    inside : int ndarray, shape (n',)
        Coordinates.
    labels : int ndarray, shape (g,)
        Mode numbers.
    log_radius : float ndarray, shape (g,)
        Log of the norm each activates at.
    gains : float ndarray, shape (g,)
        What each takes off the loss, alone and in its direction.
    """

    inside: IntArray
    vectors: FloatArray
    rates: FloatArray
    labels: IntArray
    log_radius: FloatArray
    gains: FloatArray


@dataclass(frozen=True)
class Modes:
    """The same for all blocks: vectors (n, n), exact zeros between blocks, rates (n,), the g growing modes first."""

    vectors: FloatArray
    rates: FloatArray
    labels: IntArray
    log_radius: FloatArray
    gains: FloatArray


class Growth:
    """How dormant modes grow while the residual stands still.

    Parameters
    ----------
    moments : Moments
        The data, in the basis of their singular modes.
    natural : bool
        Whether modes activate at the norm where they saturate; else at norm 1.
    """

    def __init__(self, moments: Moments, natural: bool) -> None:
        self.moments, self.natural = moments, natural
        self.n_inputs = moments.sxx.shape[0]
        self.size = self.n_inputs + moments.syx.shape[0]
        no_neurons = np.zeros((0, self.size))
        self._untouched = [self._block(r, c, moments.syx, no_neurons, r) for r, c in moments.blocks]

    def modes(self, residual: FloatArray, theta: FloatArray, order: IntArray) -> Modes:
        """Singular modes of the residual block by block, what the active theta (k, n) account for projected out."""
        parts = []
        for fresh, (rows, columns) in zip(self._untouched, self.moments.blocks, strict=True):
            mine = np.isin(order, rows)
            if mine.any():
                parts.append(self._block(rows, columns, residual, theta[mine], np.setdiff1d(rows, order)))
            else:
                parts.append(fresh)
        return _join(parts, self.size)

    def _block(
        self, rows: IntArray, columns: IntArray, residual: FloatArray, theta: FloatArray, labels: IntArray
    ) -> _BlockModes:
        d = self.n_inputs
        w, a = theta[:, columns], theta[:, d + rows]
        sxx = self.moments.sxx[np.ix_(columns, columns)]
        left, sigma, right_t = np.linalg.svd(_outside(a) @ residual[np.ix_(rows, columns)] @ _outside(w))
        right = right_t.T
        pairs = sigma.size
        growing = min(labels.size, int(np.count_nonzero(sigma > RANK * self.moments.sigma[0])))
        # Half of E|f|^2 that no change of the active modes could produce instead, at norm 1: v^T free v / 4.
        free = sxx - sxx @ w.T @ np.linalg.pinv(w @ sxx @ w.T, hermitian=True) @ w @ sxx
        energy = np.einsum("ij,ik,kj->j", right[:, :growing], free, right[:, :growing])
        log_radius = 0.5 * np.log(2.0 * sigma[:growing] / energy) if self.natural else np.zeros(growing)
        inputs, outputs = columns.size, rows.size
        vectors = np.zeros((inputs + outputs, inputs + outputs))
        vectors[:inputs, :pairs] = vectors[:inputs, pairs : 2 * pairs] = right[:, :pairs] * np.sqrt(0.5)
        vectors[inputs:, :pairs] = left[:, :pairs] * np.sqrt(0.5)
        vectors[inputs:, pairs : 2 * pairs] = -vectors[inputs:, :pairs]
        vectors[:inputs, 2 * pairs : pairs + inputs] = right[:, pairs:]
        vectors[inputs:, pairs + inputs :] = left[:, pairs:]
        rates = np.concatenate([sigma, -sigma, np.zeros(inputs + outputs - 2 * pairs)])
        gains = 0.5 * sigma[:growing] ** 2 / energy
        return _BlockModes(np.concatenate([columns, d + rows]), vectors, rates, labels[:growing], log_radius, gains)

    def waits(self, modes: Modes, dormant: Factored) -> FloatArray:
        """Flow time until each growing mode is at its threshold, (g,)."""
        growing = modes.labels.size
        gaps = modes.log_radius - dormant.log_amplitudes(modes.vectors[:, :growing])
        return np.maximum(gaps, 0.0) / modes.rates[:growing]

    def carries(self, row: FloatArray, modes: Modes, dormant: Factored) -> bool:
        """Whether a new active mode holds far more of some other growing mode than what is dormant."""
        growing = modes.vectors[:, : modes.labels.size]
        with np.errstate(divide="ignore"):
            held = np.log(np.abs(row @ growing))
        return dormant.logs.size > 0 and bool((held > dormant.log_amplitudes(growing) + SPREAD).sum() > 1)


def _outside(rows: FloatArray) -> FloatArray:
    """Projection on the complement of the span of the rows (k, p), (p, p)."""
    _, values, basis = np.linalg.svd(rows, full_matrices=False)
    span = basis[values > RANK * values.max(initial=0.0)]
    return np.eye(rows.shape[1]) - span.T @ span


def _join(parts: list[_BlockModes], size: int) -> Modes:
    """All blocks side by side, growing modes first; coordinates of no block stand still."""
    growing, other = [], []
    covered = np.zeros(size, dtype=bool)
    for part in parts:
        covered[part.inside] = True
        columns = np.zeros((size, part.rates.size))
        columns[part.inside] = part.vectors
        count = part.labels.size
        growing.append((columns[:, :count], part.rates[:count]))
        other.append((columns[:, count:], part.rates[count:]))
    rest = np.eye(size)[:, ~covered]
    ordered = [*growing, *other, (rest, np.zeros(rest.shape[1]))]
    none: list[FloatArray] = [np.zeros(0)]
    return Modes(
        np.concatenate([columns for columns, _ in ordered], axis=1),
        np.concatenate([rates for _, rates in ordered]),
        np.concatenate([part.labels for part in parts] or none).astype(np.int64),
        np.concatenate([part.log_radius for part in parts] or none),
        np.concatenate([part.gains for part in parts] or none),
    )
