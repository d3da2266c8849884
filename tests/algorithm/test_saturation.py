"""Half-drop times of losses that are not quadratic: by a quadrature of their own, and against the flow."""

from __future__ import annotations

import numpy as np
import pytest
import race_cases
from scipy.integrate import quad

import agf
from agf.algorithm.saturation import later


@pytest.mark.parametrize("size", [2.0, 3.0, 6.0])
def test_the_delay_of_one_logistic_neuron_is_its_quadrature(size):
    """f = a w, L = log(1 + exp(-s^2 a w)): A = a w / 2, B = (a w)^2 / 8 by Taylor, times from s = 1e-4 on."""
    problem = agf.TwoLayer([[1.0], [-1.0]], [1, 2], activation="linear", loss="logistic", width=1)
    sign = np.sign(problem.Y[0, 0])
    theta = np.sqrt(size) * np.array([[1.0, sign]])
    z = size
    middle = 0.5 * (np.log(2) + np.log1p(np.exp(-z)))
    low, first, second = 1e-4, z / 2, z**2 / 8
    s_half = np.sqrt(-np.log(np.expm1(middle)) / z)
    norm = 2 * size  # |theta|^2, s' = -dL/ds / |theta|^2
    spent = quad(lambda log: norm * (1 + np.exp(z * np.exp(2 * log))) / (2 * z), np.log(low), np.log(s_half))[0]
    x = 1 - 0.5**0.5
    quadratic = norm / (4 * first) * np.log(x / (1 - x) / (2 * second * low**2 / first))
    found = later(problem, theta, np.array([0]), np.array([0]), middle)
    assert found == pytest.approx(spent - quadratic, rel=5e-3)
    assert later(problem, theta, np.array([0]), np.array([0]), -1.0) == 0.0  # it never is


def test_a_quadratic_loss_has_no_delay():
    problem = agf.TwoLayer([[1.0], [-1.0]], [1.0, -1.0], activation="linear", width=1)
    assert later(problem, np.ones((1, 2)), np.array([0]), np.array([0]), 0.25) == 0.0


@pytest.mark.parametrize("scale", [1e-4, 1e-8])
def test_mode_agf_is_half_way_with_the_softmax(scale):
    """Four blobs: 3 to 4 % early from 1e-4 and 2 % from 1e-8 by the quadratic part, whose bar was .06 % at first."""
    problem, init = race_cases.network(30), race_cases.start(30, scale=scale)
    # where the first drop comes to rest decides the second one (at 1e-6 to 1.7 %): neurons turn on rounded kinks
    stairs = agf.predict(problem, init, mode="agf", max_drops=2, rtol=1e-8)
    flow = agf.flow(problem, init, t_max=13.0 if scale == 1e-4 else 26.0)
    levels = stairs.levels
    for drop, middle, most in zip(stairs.drops, 0.5 * (levels[1:] + levels[:-1]), (5e-4, 0.012), strict=True):
        error = abs(drop.half_time / flow.time_at(middle) - 1)
        assert error < most
        assert error < drop.error
