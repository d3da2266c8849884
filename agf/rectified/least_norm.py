"""The field of least norm between those on both sides of walls: on it a neuron slides along them (Filippov)."""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray
from agf.rounding import SUM

#: Pivots after which a slide on several walls is left to bounded least squares. Cost: both end at the same point.
_PIVOTS = 60


def least_norm(base: FloatArray, halves: FloatArray) -> FloatArray:
    """Shares s (m, k) in [-1, 1] that make base + sum_i s_i halves_i shortest; base (m, d), halves (m, k, d).

    Principal pivoting by least index, finite for independent halves; bounded least squares for the others. A share that
    is at a bound is exactly that.
    """
    m, k = halves.shape[:2]
    gram = halves @ halves.transpose(0, 2, 1)
    pull = np.einsum("mkd,md->mk", halves, base)
    scale = np.einsum("mkk->mk", gram)
    if k == 1:
        return np.clip(-pull / scale, -1.0, 1.0)
    bound = np.zeros((m, k))  # -1 or 1 where at a bound, 0 where free
    shares = np.zeros((m, k))
    todo = np.arange(m)
    eye = np.eye(k)
    for _ in range(_PIVOTS):
        g, b, at = gram[todo], pull[todo], bound[todo]
        free = (at == 0)[:, :, None]
        matrix = np.where(free, g, eye)
        right = np.where(at == 0, -b, at)
        try:
            s = np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            break
        slope = np.einsum("mij,mj->mi", g, s) + b
        slack = SUM * (scale[todo] + np.abs(b))
        wrong = np.where(at == 0, np.abs(s) > 1.0 + SUM, at * slope > slack)
        shares[todo] = s
        bad = wrong.any(axis=1)
        if not bad.any():
            todo = todo[:0]
            break
        todo, first = todo[bad], np.argmax(wrong[bad], axis=1)
        j = np.arange(todo.size)
        moved = np.where(bound[todo, first] == 0, np.sign(s[bad][j, first]), 0.0)
        bound[todo, first] = moved
    for i in todo:
        shares[i] = _bounded(base[i], halves[i])
    return shares


def _bounded(base: FloatArray, halves: FloatArray) -> FloatArray:
    from scipy.optimize import lsq_linear

    found = lsq_linear(halves.T, -base, (-1.0, 1.0), method="bvls", tol=1e-14)
    return np.where(np.abs(found.x) > 1.0 - 1e-9, np.sign(found.x), found.x)
