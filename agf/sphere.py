"""Geometry of the unit sphere, for arrays of neurons: one row a neuron, every function vectorised over rows.

No state, no randomness without a generator `rng`. theta (m, P) are parameters, directions (m, P) unit rows, log_norms
(m,) natural logs of norms.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray

#: Squares below this lose digits. Derived: the smallest normal number of float64.
_SUBNORMAL = float(np.finfo(np.float64).tiny)


def norms(theta: FloatArray) -> FloatArray:
    """Euclidean norms of the rows, (m,), without underflow or overflow of the squares."""
    scale = np.maximum.reduce(np.abs(theta), axis=-1, initial=0.0)
    squares = theta / (scale + (scale == 0))[..., None]
    squares *= squares
    return np.asarray(scale * np.sqrt(np.add.reduce(squares, axis=-1)))


def lengths(rows: FloatArray) -> FloatArray:
    """Euclidean norms of rows of order one, (m,): `norms` in a third of the time, without its care for squares."""
    return np.asarray(np.sqrt(np.vecdot(rows, rows)))


def polar(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Unit directions (m, P) and log norms (m,) of the rows. A zero row keeps direction 0 and log norm -inf."""
    rho = norms(theta)
    if (
        (rho > 0) & (rho < _SUBNORMAL)
    ).any():  # such norms have few digits, the entries beside each other all of theirs
        scale = np.where(rho > 0, np.max(np.abs(theta), axis=-1, initial=0.0), 1.0)
        directions, log_norms = polar(theta / scale[..., None])
        return directions, log_norms + np.log(scale)
    safe = np.where(rho > 0, rho, 1.0)
    with np.errstate(divide="ignore"):
        return theta / safe[..., None], np.log(rho)


def cartesian(directions: FloatArray, log_norms: FloatArray) -> FloatArray:
    """Parameters (m, P) from unit directions and log norms; what underflows becomes 0."""
    return directions * np.exp(log_norms)[..., None]


def normalize(directions: FloatArray) -> FloatArray:
    """Rows scaled to unit norm; zero rows stay zero."""
    rho = norms(directions)
    if not (rho >= _SUBNORMAL).all():
        return polar(directions)[0]
    return directions / rho[..., None]


def tangent(directions: FloatArray, vectors: FloatArray) -> FloatArray:
    """Component of each row of `vectors` orthogonal to the unit row of `directions`, (m, P)."""
    radial = np.sum(directions * vectors, axis=-1, keepdims=True)
    return vectors - radial * directions


def random(rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
    """`count` independent uniform points on the unit sphere of R^dimension, (count, dimension)."""
    return normalize(rng.standard_normal((count, dimension)))
