"""Four blobs in the plane, opposite ones of one class, and the starts of [Pinson]: data of several figures."""

from __future__ import annotations

import numpy as np

import agf

#: Four distances, by the angle of the blob in degrees: slower the nearer.
DISTANCES = {45: 8.0, 135: 4.0, 225: 2.0, 315: 1.0}


def blobs(norms: tuple[float, ...], sd: float = 0.1, each: int = 50, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (4 each, 2) at 45, 135, 225, 315 degrees and these distances, and class labels 1, 2, 1, 2."""
    rng = np.random.default_rng(seed)
    angles = np.deg2rad([45, 135, 225, 315])
    centres = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.array(norms)[:, None]
    X = np.concatenate([centre + sd * rng.standard_normal((each, 2)) for centre in centres])
    return X, np.repeat([1, 2, 1, 2], each)


def start(width: int, parameters: int, scale: float, seed: int = 0) -> agf.Init:
    """All weights N(0, scale^2)."""
    theta = scale * np.random.default_rng(seed).standard_normal((width, parameters))
    return agf.Init.from_params(theta, alpha=scale)


def degrees(theta: np.ndarray) -> np.ndarray:
    """Angle of the input weights of each row, in [0, 360)."""
    return np.degrees(np.arctan2(theta[..., 1], theta[..., 0])) % 360
