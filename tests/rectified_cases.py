"""Data sets of [BF24] and [Min23] that several tests share."""

import numpy as np

import agf
from agf.rectified.dormant_flow import DormantFlow
from agf.rectified.walls import Walls

#: [BF24] section 6: three points that gradient flow fits by a line.
T3 = np.array([[-0.75, 1.0], [-0.5, 1.0], [0.125, 1.0]]), np.array([1.1, 0.1, 0.8])
M4 = np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6])
M5D3 = (
    np.array([[1, 0.2, -0.1], [0.3, 1, 0.4], [-1, 0.5, 0.2], [-0.4, -1, 0.6], [0.1, 0.3, -1]]),
    np.array([1, -0.8, 1.2, 0.6, 0.9]),
)


def linear_residual(X, y):
    """What is left of y after least squares."""
    return y - X @ np.linalg.lstsq(X, y, rcond=None)[0]


def alignment(X, c, leak, w):
    """G at the rows of w, by its definition."""
    z = w @ X.T
    return np.maximum(z, leak * z) @ c


def at(*degrees):
    turn = np.deg2rad(np.array(degrees, dtype=float))
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


D1 = at(20, 50, 210, 240), np.array([1.0, 1.0, -1.0, -1.0])
D2 = at(20, 30, 230, 240), np.array([1.0, 1.0, -1.0, -1.0])
D3 = at(20, 35, 50, 225), np.array([1.0, 1.0, 1.0, -1.0])
GRID = at(*(11.25 + 22.5 * np.arange(16)))


def problem(data, width=2, loss="exponential"):
    return agf.TwoLayer(*data, width=width, loss=loss, kink=0)


def pair(a, b, scale=1e-4):
    """One neuron of either sign, unit shapes."""
    return agf.Init.scaled(np.column_stack([at(a, b), [1.0, -1.0]]), scale)


def grid(scale):
    shapes = np.column_stack([np.vstack([GRID, GRID]), np.repeat([1.0, -1.0], 16)])
    return agf.Init.scaled(shapes, scale)


def slowest(X, y, theta):
    """Time of the last event of the limit flow, loss summed."""
    flow = DormantFlow(Walls.of(X, y), theta, np.zeros(theta.shape[0]))
    events = flow.run()
    return float(events.time.max(initial=0.0))


def teacher40(seed=0):
    """[BF24] appendix B.2: 40 points of a piecewise linear function of eight ReLU units, and a column of ones."""
    knots = [-1, -0.7, -0.55, -0.4, 0, 0.5, 0.6, 0.7, 1]
    x = np.random.default_rng(seed).uniform(-1, 1, 40)
    return np.column_stack([x, np.ones(40)]), np.interp(x, knots, [0, 0.7, 0.5, 1, 0, 1, 0.6, 0.7, 0])


def balanced(m, d, scale, seed=0):
    """m balanced neurons of scale / sqrt m, their directions drawn before their signs."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((m, d))
    signs = np.where(rng.random(m) < 0.5, -1.0, 1.0)
    return agf.Init.scaled(np.column_stack([w, signs * np.linalg.norm(w, axis=1)]) / np.sqrt(m), scale)
