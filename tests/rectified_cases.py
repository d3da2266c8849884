"""Data sets of [BF24] and [Min23] that several tests share."""

import numpy as np

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
