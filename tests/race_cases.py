"""Four blobs in the plane, opposite ones of one class, at four distances: the race of [Pinson]."""

from __future__ import annotations

import numpy as np

import agf


def blobs(norms=(8, 4, 2, 1), sd=0.1, each=20, seed=1):
    """Inputs (4 each, 2) and class labels 1 and 2."""
    rng = np.random.default_rng(seed)
    angles = np.deg2rad([45, 135, 225, 315])
    centres = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.array(norms)[:, None]
    X = np.concatenate([centre + sd * rng.standard_normal((each, 2)) for centre in centres])
    return X, np.repeat([1, 2, 1, 2], each)


def network(width=40, **options):
    """Its ReLU network with softmax."""
    X, y = blobs(**options)
    return agf.TwoLayer(X, y, loss="cross-entropy", width=width)


def start(width=40, scale=1e-4, seed=0, parameters=4):
    """All weights N(0, scale^2), as in the paper."""
    return agf.Init.from_params(scale * np.random.default_rng(seed).standard_normal((width, parameters)), alpha=scale)
