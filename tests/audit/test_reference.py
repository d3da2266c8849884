"""The truth of the audit, by exact answers and by another solver: none of it is code of the package."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from audit import measure, reference
from audit.tables import Table


def test_one_coordinate_takes_the_time_of_its_quadrature():
    # z' = b - beta with beta = alpha^2 sinh 2z; a quarter of the loss is left where beta = b / 2
    alpha, b = 1e-6, 1.5
    found = reference.flow(np.array([[1.0], [-1.0]]), np.array([b, -b]), alpha).passes(0.125 * b**2)
    exact, _ = quad(lambda z: 1.0 / (b - alpha**2 * np.sinh(2 * z)), 0.0, 0.5 * np.arcsinh(0.5 * b / alpha**2))
    assert found == pytest.approx(exact, rel=1e-7)  # the solver's own 1e-9 in z, over a growth by e^14


def test_another_solver_and_other_coordinates_agree():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((30, 3)) @ np.array([[1, 0.6, 0], [0, 1, 0.5], [0, 0, 1.0]])
    y = x @ np.array([1.0, -0.7, 0.4])
    alpha, n = 1e-4, y.size
    truth = reference.flow(x, y, alpha)
    assert truth.whole

    def layers(_: float, w: np.ndarray) -> np.ndarray:
        u, v = w[:3], w[3:]
        pull = x.T @ (y - x @ (u * v)) / n
        return np.concatenate([v * pull, u * pull])

    start = np.concatenate([np.full(3, np.sqrt(2) * alpha), np.zeros(3)])
    other = solve_ivp(layers, (0, 200), start, method="DOP853", rtol=1e-10, atol=1e-10 * alpha, dense_output=True)
    for share in (0.9, 0.5, 0.1, 0.01):
        time = truth.passes(share * truth.data.start)
        w = other.sol(time)
        loss = 0.5 * np.mean((y - x @ (w[:3] * w[3:])) ** 2)
        assert loss == pytest.approx(share * truth.data.start, rel=1e-6)


def test_a_loss_that_is_never_reached_is_infinite_and_one_at_the_minimum_is_not_timed():
    x, y = np.array([[1.0], [1.0]]), np.array([2.0, 1.0])
    truth = reference.flow(x, y, 1e-6)
    assert truth.data.minimum == pytest.approx(0.125)
    assert np.isnan(truth.passes(0.1))
    assert np.isnan(truth.passes(0.125))
    assert 0 < truth.passes(0.2) < truth.times[-1]


def test_the_limit_of_two_orthogonal_coordinates():
    x = np.diag([1.0, 2.0])
    times, levels = reference.limit(x, np.array([1.0, 1.0]))
    np.testing.assert_allclose(times, [1.0, 2.0])  # pulls 2/2 and 1/2
    np.testing.assert_allclose(levels, [0.25, 0.0], atol=1e-15)


def test_the_last_level_is_where_the_flow_ends():
    """A target that is fitted to the end has a loss whose logarithm falls all the way: it is flattest at the middle."""
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.5], [0.0, -0.5]])
    drops = measure.measure(Table("exact", x, x @ np.array([1.0, 1.0])), 1e-6)["auto"]["drops"]
    assert len(drops) == 2
    assert all(abs(drop["level_error"]) < drop["level_bar"] for drop in drops)
