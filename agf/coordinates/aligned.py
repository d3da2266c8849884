"""Neurons that share a direction: for degree 2 they are one neuron, of norm rho^2 = sum rho_i^2.

The flow of a direction does not know the norm there, and the network hears of an aligned group only sum rho_i^2: so a
group grows, saturates and competes as the one neuron would, and its members keep their shares.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem

#: Entries of a block of distances: bounded memory at any width.
_BLOCK = 1 << 22


def groups(problem: Problem) -> bool:
    """Whether aligned neurons of this problem are one: degree 2, and no neuron's index means anything."""
    return problem.degree == 2 and problem.interchangeable


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
    out = np.empty(rows.size)
    size = max(1, _BLOCK // max(log_norms.size, 1))
    with np.errstate(divide="ignore"):
        for some in (slice(k, k + size) for k in range(0, rows.size, size)):
            cosines = directions[rows[some]] @ directions.T
            inside = np.where(cosines >= 1.0 - 0.5 * close**2, 2.0 * log_norms, -np.inf)
            out[some] = 0.5 * np.logaddexp.reduce(inside, axis=1)
    return out
