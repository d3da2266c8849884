"""Three ReLU neurons on iris, one-hot targets as given: where sharp flows end at .12045 is a minimum, not a saddle."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

import agf

#: The end of the flow from 1e-4, seed 0, to two digits.
END = np.array([
    [-0.12, -0.17, 0.65, 0.48, 0.0, 0.03, 0.83],
    [0.0, 0.04, -0.46, -0.24, 1.07, -0.05, 0.02],
    [0.21, -0.56, 0.35, -0.66, -0.02, 0.94, -0.26],
])  # fmt: skip


def test_the_end_on_iris_is_a_minimum_inside_its_cone():
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    Y = np.eye(3)[y]
    active = (X @ END[:, :4].T > 0).astype(float)

    def gradient(u):
        u = u.reshape(3, 7)
        seen = active * (X @ u[:, :4].T)
        rest = (Y - seen @ u[:, 4:]) / 150
        return -np.hstack([(active * (rest @ u[:, 4:].T)).T @ X, seen.T @ rest]).ravel()

    def hessian(u):
        columns = [(gradient(u + e) - gradient(u - e)) / 2e-5 for e in 1e-5 * np.eye(u.size)]
        return 0.5 * (np.array(columns) + np.array(columns).T)

    u = END.ravel().copy()
    for _ in range(8):  # Newton's method across the scale of each neuron, which changes nothing
        u -= np.linalg.pinv(hessian(u), rcond=1e-4, hermitian=True) @ gradient(u)
    theta = u.reshape(3, 7)
    heights = X @ theta[:, :4].T
    assert np.abs(gradient(u)).max() < 1e-12
    assert np.array_equal(heights > 0, active > 0)
    angles = np.abs(heights) / np.linalg.norm(X, axis=1)[:, None] / np.linalg.norm(theta[:, :4], axis=1)
    assert angles.min() > 0.01  # no kink is near
    values = np.linalg.eigvalsh(hessian(u))
    assert np.abs(values[:3]).max() < 1e-8
    assert values[3] > 1e-3
    assert 0.5 * np.mean(np.sum((Y - np.maximum(heights, 0) @ theta[:, 4:]) ** 2, axis=1)) == pytest.approx(
        0.1204501867, rel=1e-9
    )


def test_a_prediction_on_iris_ends_where_training_does_for_fewer_gradients():
    """It followed the loss to a millionth where the trainer leaves 1e-4: 7,826 gradients and 43 Hessians."""
    X, y = load_iris(return_X_y=True)
    problem = agf.problem("relu", X=(X - X.mean(axis=0)) / X.std(axis=0), Y=y, width=3)
    init = problem.init(1e-6, seed=0)
    stairs, flow = agf.predict(problem, init), agf.flow(problem, init)
    spent = sum(count for name, count in stairs.stats.items() if name.endswith("evaluations"))
    assert spent < flow.stats["evaluations"]
    assert stairs.stats["hessians"] < 10
    assert stairs.levels[-1] == pytest.approx(0.1204502, rel=1e-4)
    middles = 0.5 * (stairs.levels[:-1] + stairs.levels[1:])
    for drop, middle in zip(stairs.drops, middles, strict=True):
        assert abs(drop.half_time / flow.time_at(middle) - 1.0) < drop.error
