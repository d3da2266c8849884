"""What no two-layer network of a power of its inputs can fit: its outputs are polynomials of one degree, or lines."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import numpy as np

from agf.arrays import FloatArray
from agf.sphere import norms


def least_squares(x: FloatArray, y: FloatArray, power: int, *, constant: bool, weights: int) -> float:
    """Mean over the samples of |y - f|^2 / 2 for the best polynomial f, a lower bound for every network; 0 where it is
    not worth the work.

    Worth it is what a network can come to: it has at least as many weights as there are coefficients, and the samples
    are more than the monomials, so that these do not fit anything.

    Parameters
    ----------
    x : float ndarray, shape (n, d)
        Inputs.
    y : float ndarray, shape (n, c)
        Targets.
    power : int
        Degree of all monomials.
    constant : bool
        Whether f may add a constant.
    weights : int
        Of the network.
    """
    count = comb(x.shape[1] + power - 1, power) + constant
    if count >= x.shape[0] or count * y.shape[1] > weights:
        return 0.0
    which = combinations_with_replacement(range(x.shape[1]), power)
    columns = [np.prod(x[:, list(factors)], axis=1) for factors in which]
    monomials = np.column_stack([*columns, *[np.ones(x.shape[0])] * constant])
    sizes = norms(monomials.T)
    monomials = monomials[:, sizes > 0] / sizes[sizes > 0]  # however unlike the units of the inputs are
    left = y - monomials @ np.linalg.lstsq(monomials, y)[0]
    return 0.5 * float(np.mean(np.sum(left**2, axis=1)))
