"""Largest eigenvalues of many small symmetric maps at once, known by their products only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agf.arrays import FloatArray
from agf.rounding import EPS

#: Length, relative to what the map does, of a vector that orthogonalization leaves, below which the space is complete.
#: Derived: half the digits, which is what maps known by differences are good for.
_GONE = EPS**0.5


def largest(apply: Callable[[FloatArray], FloatArray], unit: FloatArray, size: int) -> FloatArray:
    """Largest eigenvalue of m symmetric maps on the space orthogonal to `unit`, (m,), by `size` Lanczos steps.

    Parameters
    ----------
    apply : callable, shape (m, P)
        -> (m, P), each row by its own map.
    unit : float ndarray, shape (m, P)
        Unit rows.
    size : int
        Steps, at most P - 1; a lower estimate for fewer. -inf for none.
    """
    m, p = unit.shape
    if size == 0:
        return np.full(m, -np.inf)
    v = np.cos(np.arange(1.0, p + 1.0) ** 2) * np.ones((m, 1))  # any fixed vector in general position
    basis = np.zeros((size, m, p))
    alpha, beta = np.zeros((m, size)), np.zeros((m, size))
    for k in range(size):
        for _ in range(2):  # orthogonal to the unit row itself and to the vectors so far
            v = v - np.sum(v * unit, axis=1, keepdims=True) * unit
            for q in basis[:k]:
                v = v - np.sum(v * q, axis=1, keepdims=True) * q
        norm = np.linalg.norm(v, axis=1)
        scale = np.abs(alpha).max(axis=1, initial=0.0) + np.abs(beta).max(axis=1, initial=0.0)
        gone = norm <= (_GONE * scale if k else 0.0)
        beta[:, k] = np.where(gone, 0.0, norm)
        basis[k] = np.where(gone[:, None], 0.0, v / np.where(gone, 1.0, norm)[:, None])
        v = apply(basis[k])
        alpha[:, k] = np.sum(v * basis[k], axis=1)
    matrices = np.zeros((m, size, size))
    index = np.arange(size)
    matrices[:, index, index] = alpha
    matrices[:, index[1:], index[:-1]] = matrices[:, index[:-1], index[1:]] = beta[:, 1:]
    return np.asarray(np.linalg.eigvalsh(matrices)[:, -1])
