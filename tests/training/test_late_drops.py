"""Half-drop times of drops that are small next to the loss that stays, against a quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import agf


@pytest.mark.parametrize(("depth", "accuracy"), [(1e-3, 1e-5), (1e-5, 1e-4), (1e-6, 1e-3)])
def test_a_small_late_drop_is_timed_as_the_exact_flow_has_it(depth, accuracy):
    """Two orthogonal columns; the second takes `depth` off a loss of 1/2 that stays: at 1e-6 it was .3 % early.

    z' = b - alpha^2 sinh 2z of a coordinate alone. What is left at the end moves the middle by half of it.
    """
    alpha, b = 1e-6, np.sqrt(2 * depth)
    x = np.sqrt(2.0) * np.repeat(np.eye(2), 4, axis=0)
    problem = agf.problem("diagonal-linear", X=x, y=x @ [1.0, b] + np.tile([1.0, -1.0], 4))
    flow = agf.flow(problem, problem.init(alpha))
    half = 0.5 * np.arcsinh(b * (1 - np.sqrt(0.5)) / alpha**2)
    # as a function of the distance from its end, where the integrand has its last e-folds
    exact = quad(lambda z: 1 / (b - alpha**2 * np.sinh(2 * z)), 0.0, half, points=[half - 1.0], limit=200)[0]
    assert flow.drops[-1].time == pytest.approx(exact, rel=accuracy)
    assert flow.time_at(flow.losses[-1] + 0.5 * depth) == pytest.approx(exact, rel=accuracy)
