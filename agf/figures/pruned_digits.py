"""A network on digits, small enough to prune over and over: data of two figures, in place of CIFAR-10."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf


def setting(fast: bool, seed: int = 0) -> tuple[agf.TwoLayer, agf.Init, Any]:
    """64-60-10 on 600 digits, Kaiming weights of a seed, and accuracy on 600 others."""
    data = agf.datasets.load("digits")
    X, labels = np.asarray(data["X"]), np.asarray(data["labels"])
    order = np.random.default_rng(100).permutation(labels.size)
    train, held = order[: 200 if fast else 600], order[600:1200]
    width = 20 if fast else 60
    problem = agf.TwoLayer(X[train], labels[train], loss="cross-entropy", width=width, kink=0)
    rng = np.random.default_rng(seed)
    inner, outer = rng.standard_normal((width, 64)) * np.sqrt(2 / 64), rng.standard_normal((width, 10))
    theta = np.c_[inner, outer * np.sqrt(2 / width)]

    def accuracy(problem: Any, theta: np.ndarray) -> float:
        scores = np.maximum(X[held] @ theta[:, :64].T, 0) @ theta[:, 64:]
        return float((scores.argmax(axis=1) == labels[held]).mean())

    return problem, agf.Init.from_params(theta), accuracy
