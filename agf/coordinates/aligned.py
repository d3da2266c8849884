"""Neurons that share a direction: for degree 2 they are one neuron, of norm rho^2 = sum rho_i^2.

The flow of a direction does not know the norm there, and the network hears of an aligned group only sum rho_i^2: so a
group grows, saturates and competes as the one neuron would, and its members keep their shares.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.rounding import LOG_FAINT

#: Entries of a block of distances. Cost: memory, 4 MB at any width, which caches hold.
_BLOCK = 1 << 19
#: Log norm over the largest below which a neuron counts as one of this. Derived: its square is a normal number.
_LEAST = 0.5 * LOG_FAINT


def groups(problem: Problem) -> bool:
    """Whether aligned neurons of this problem are one: degree 2, and no neuron's index means anything."""
    return problem.degree == 2 and problem.interchangeable


def homogeneous(problem: Problem) -> bool:
    """Whether neurons of any norm move as small ones do, so that aligned ones stay aligned: tried on one random neuron.

    A tanh neuron does not: of a group those that grow large see another gradient than those that are still small, and
    the small ones are free to learn something else.
    """
    rng = np.random.default_rng(0)
    direction = rng.standard_normal((1, problem.n_params))
    direction /= np.linalg.norm(direction)
    first = np.zeros(1, dtype=np.int64)
    residual = problem.residual(np.zeros((0, problem.n_params)), first[:0])
    small = problem.utility(direction, first, residual)[1]
    return bool(np.allclose(problem.pull(direction, np.zeros(1), first, residual), small, rtol=1e-6, atol=0.0))


def log_group_norms(directions: FloatArray, log_norms: FloatArray, rows: IntArray, close: float) -> FloatArray:
    """Log norm of the group that each of rows (k,) belongs to, (k,): of all neurons within `close` of its direction.

    Parameters
    ----------
    directions : float ndarray, shape (m, P)
        Unit rows.
    log_norms : float ndarray, shape (m,)
        Natural logs of the norms, -inf for none.
    rows : int ndarray, shape (k,)
        Whose groups.
    close : float
        Largest distance of two unit directions of one group; the whole sphere is within 2.
    """
    top = float(np.max(log_norms, initial=-np.inf))
    if not np.isfinite(top):
        return np.full(rows.size, -np.inf)
    if close >= 2.0:
        with np.errstate(divide="ignore"):
            return np.full(rows.size, 0.5 * np.logaddexp.reduce(2.0 * log_norms))
    squares = np.exp(2.0 * np.maximum(log_norms - top, _LEAST))
    squares[np.isinf(log_norms)] = 0.0
    out, size = np.empty(rows.size), max(1, _BLOCK // log_norms.size)
    for some in (slice(k, k + size) for k in range(0, rows.size, size)):
        cosines = directions[rows[some]] @ directions.T
        out[some] = np.greater_equal(cosines, 1.0 - 0.5 * close**2, out=cosines) @ squares
    with np.errstate(divide="ignore"):  # a group of one has the norm of that one, to the last bit
        return np.where(out == squares[rows], log_norms[rows], top + 0.5 * np.log(out))
