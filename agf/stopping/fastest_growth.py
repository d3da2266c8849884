"""How fast the fastest perturbation of a point of a flow grows: what tells a minimum from a saddle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.formulas.explicit import length_of


def fastest_growth(
    velocity: Callable[[FloatArray], FloatArray], scale: FloatArray, y: FloatArray
) -> tuple[float, float, int]:
    """Largest growth rate of a small perturbation of y, the spectral radius, and the evaluations it took.

    Eigenvalues of the Jacobian of the velocity by central differences: dense up to 16 entries, else Arnoldi for the
    rightmost one to 1 % of the radius. Rates are per unit of s.
    """
    length, evaluations = float(np.finfo(np.float64).eps) ** (1 / 3), 0

    def product(v: FloatArray) -> FloatArray:
        nonlocal evaluations
        evaluations += 2
        if (size := length_of(v)) == 0:
            return np.zeros_like(v)
        shift = length / size * scale * v.ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            change = (velocity(y + shift) - velocity(y - shift)) * (size / (2 * length)) / scale
        return np.where(np.isfinite(change), change, 0.0)

    if y.size == 0:
        return 0.0, 0.0, 0  # no mode is there
    if y.size <= 16:
        values = np.linalg.eigvals(np.column_stack([product(column) for column in np.eye(y.size)]))
        return float(values.real.max()), float(np.abs(values).max()), evaluations
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

    operator = LinearOperator((y.size, y.size), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(y.size)
    if not product(start).any():
        return 0.0, 0.0, evaluations  # nothing moves, as where every neuron is dead
    found: list[Any] = []
    for which in ("LM", "LR"):
        try:
            found.append(eigs(operator, k=1, which=which, v0=start, tol=1e-2, maxiter=20, return_eigenvectors=False))
        except ArpackNoConvergence as error:
            found.append(error.eigenvalues)
    radius = float(np.max(np.abs(found[0]), initial=0.0))
    return float(np.max(found[1].real, initial=0.0)), radius, evaluations
