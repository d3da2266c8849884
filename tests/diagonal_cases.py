"""Diagonal problems with known answers, and a second route to the limit sequence, for the tests of diagonal nets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.optimize import nnls

import agf


def diagonal(x: np.ndarray, y: np.ndarray) -> agf.Problem:
    return agf.problem("diagonal-linear", X=x, y=y)


def returning_problem() -> tuple[np.ndarray, np.ndarray]:
    """The 2-d problem of [PF23] in which coordinate 0 enters, leaves, and re-enters with the other sign."""
    angle = np.deg2rad(150.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x = np.linalg.cholesky(turn @ np.diag([1.0, 25.0]) @ turn.T)
    return x, x @ np.array([-0.2, 2.0])


def five_coordinates() -> tuple[np.ndarray, np.ndarray]:
    """The d = 5 problem of the authors' notebook."""
    legacy = np.random.RandomState(10)
    x = legacy.multivariate_normal(np.zeros(5), np.diag(1 / np.arange(1, 6)), size=20)
    return x, x @ (10 * legacy.randn(5))


def random_problem(rng: np.random.Generator, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """ "tall" (n > d), "wide" (n < d) or "correlated" (n > d)."""
    d = int(rng.integers(2, 13))
    n = int(rng.integers(1, d)) if kind == "wide" else int(rng.integers(d + 1, 4 * d + 8))
    x = rng.standard_normal((n, d))
    if kind == "correlated":
        x = x @ rng.standard_normal((d, d)) + 2.0 * rng.standard_normal((n, 1))
    y = x @ rng.standard_normal(d) + (0.5 * rng.standard_normal(n) if n > d else 0.0)
    return x, y


def oracle(x: np.ndarray, y: np.ndarray) -> list[tuple[float, float, np.ndarray]]:
    """(time, level, coefficients) of every plateau: exact boundaries, each stage solved anew by scipy's nnls."""
    n, d = x.shape
    s, time, beta = np.zeros(d), 0.0, np.zeros(d)
    sizes = np.linalg.norm(x, axis=0) * np.linalg.norm(y)
    out = []
    while True:
        v = x.T @ (y - x @ beta)
        v[(beta != 0) | (np.abs(v) < 1e-11 * sizes)] = 0.0
        if not v.any():
            return out
        waits = np.full(d, np.inf)
        waits[v != 0] = (np.sign(v) - s)[v != 0] / v[v != 0]
        i = int(np.argmin(waits))
        s += v * waits[i]
        s[i] = np.sign(v[i])
        time += n * waits[i]
        edge = np.flatnonzero(np.abs(s) == 1.0)
        beta = np.zeros(d)
        beta[edge] = s[edge] * nnls(x[:, edge] * s[edge], y)[0]
        out.append((time, 0.5 * float(np.sum((y - x @ beta) ** 2)) / n, beta))


def coefficients(stairs: agf.Staircase) -> np.ndarray:
    return stairs.features("coefficients")


def kkt_violation(x: np.ndarray, y: np.ndarray, drop: agf.Drop) -> float:
    """Largest violation of stationarity on the support, relative to |x_i| (|y| + sum_j |x_j beta_j|) / n."""
    beta = drop.features["coefficients"]
    v = np.abs(x.T @ (y - x @ beta))[beta != 0]
    norms = np.linalg.norm(x, axis=0)
    scale = (norms * (np.linalg.norm(y) + norms @ np.abs(beta)))[beta != 0]
    return float(np.max(v / scale, initial=0.0))


def observed_half_times(flow: agf.Trajectory, stairs: agf.Staircase) -> np.ndarray:
    """(K,) first times at which the curve is below the middle of each predicted drop."""
    return np.array([flow.time_at(0.5 * (a + b)) for a, b in pairwise(stairs.levels)])
