"""Linear problems with known answers, and what is read off a curve, for the tests of linear networks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

EXAMPLE = {"Sxx": np.diag([0.1, 1.0]), "B": np.diag([10.0, 1.5])}


def rotation(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def commuting(rng, k=5, low=0.1):
    """A rotated commuting problem: b, s, and the arguments of `Linear`."""
    b = rng.uniform(0.5, 5, k)
    s = np.exp(rng.uniform(np.log(low), 0, k))
    inputs, outputs = rotation(rng, k), rotation(rng, k)
    return b, s, {"Sxx": inputs * s @ inputs.T, "B": outputs * b @ inputs.T}


def generic(seed, d=5, c=5):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((d, d))
    return {"Sxx": x @ x.T / d, "B": rng.standard_normal((c, d))}


def authors():
    """The 10-10-10 problem of the notebooks of [AGF], draw by draw."""
    draw = np.random.RandomState(0).randn
    draw(10, 10)
    u, v = (np.linalg.qr(draw(10, 10))[0] for _ in range(2))
    m = u @ np.diag(1 / np.arange(1, 11)) @ v
    s = np.linalg.svd(m @ m.T, compute_uv=False)
    target = draw(10, 10)
    inputs = np.linalg.svd(target)[2].T
    return {"Sxx": inputs * s @ inputs.T, "B": target}


def exact_half_times(b, s, alpha):
    """Half-drop times of the modes of an aligned commuting problem, (1 - beta/b)^2 = 1/2, weights alpha each."""
    start = np.log(b) - 2 * np.log(alpha)  # of b / alpha^2, which overflows
    return (start + np.log1p(-np.exp(-start)) + np.log(np.sqrt(2) - 1)) / (2 * b * s)


def observed(flow, levels):
    """First times at which the loss is halfway between successive levels."""
    return np.array([flow.time_at(0.5 * (a + b)) for a, b in pairwise(levels)])
