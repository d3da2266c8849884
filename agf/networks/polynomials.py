"""What no two-layer network of a power of its inputs can fit: its outputs are polynomials of one degree, or lines."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import numpy as np

from agf.arrays import FloatArray
from agf.rounding import EPS, SUM
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
    units = norms(x.T)
    basis, spread = _basis(x[:, units > 0] / units[units > 0])
    count = comb(basis.shape[1] + power - 1, power) + constant
    if count >= x.shape[0] or count * y.shape[1] > weights:
        return 0.0
    which = combinations_with_replacement(range(basis.shape[1]), power)
    columns = [np.prod(basis[:, list(factors)], axis=1) for factors in which]
    monomials = np.column_stack([*columns, *[np.ones(x.shape[0])] * constant])
    sizes = norms(monomials.T)
    monomials = monomials[:, sizes > 0] / sizes[sizes > 0]
    left = float(np.linalg.norm(y - monomials @ np.linalg.lstsq(monomials, y)[0]))
    blurred = power * SUM * spread * float(np.linalg.norm(y))
    return 0.5 * max(left - blurred, 0.0) ** 2 / x.shape[0]


def _basis(x: FloatArray) -> tuple[FloatArray, float]:
    """Orthogonal inputs (n, r) whose monomials of one degree span those of x (n, d), and by how much x magnifies what
    rounding makes of them: off-centre columns and near-copies are almost dependent, and their monomials more so."""
    if not x.size:
        return x, 1.0
    vectors, values, _ = np.linalg.svd(x, full_matrices=False)
    told = values > max(x.shape) * EPS * values[0]
    return vectors[:, told] * np.sqrt(x.shape[0]), float(values[0] / values[told][-1])
