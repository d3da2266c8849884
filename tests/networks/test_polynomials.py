"""The least loss of polynomials, where columns are almost dependent."""

from __future__ import annotations

import numpy as np
import pytest

import agf
from agf.networks.polynomials import least_squares

NORMAL = np.random.default_rng(0).standard_normal((60, 1))


@pytest.mark.parametrize("power", [2, 3, 4, 6])
@pytest.mark.parametrize("off", [30.0, 2e3, 1e7])
def test_off_centre_inputs_have_no_bound_above_what_a_network_has(power, off):
    """(x - off)^power is one neuron with a bias: 0 is right. Monomials of the columns told up to .53 of the loss."""
    x = off + NORMAL
    inputs, targets = np.column_stack([x, np.ones(60)]), (x - off) ** power
    assert least_squares(inputs, targets, power, constant=False, weights=1000) <= 1e-12 * float(np.mean(targets**2))


@pytest.mark.parametrize("apart", [1e-3, 1e-9, 1e-12])
def test_near_copies_are_two_columns_and_what_rounding_leaves_of_a_fit_is_no_bound(apart):
    x = np.column_stack([NORMAL, NORMAL + apart * np.random.default_rng(1).standard_normal((60, 1))])
    targets = ((x[:, 1:] - x[:, :1]) / apart) ** 2
    assert least_squares(x, targets, 2, constant=False, weights=1000) == 0.0  # 7e-9 of the targets at 1e-12


def test_a_bound_is_the_least_squares_loss_where_that_is_told_and_copies_change_nothing():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((30, 2)), rng.standard_normal((30, 1))
    monomials = np.column_stack([x[:, 0] ** 2, x[:, 0] * x[:, 1], x[:, 1] ** 2])
    least = 0.5 * np.linalg.lstsq(monomials, y)[1][0] / 30
    copies = np.column_stack([x, 2.0 * x[:, 0], np.zeros(30)])
    for inputs in (x, copies):
        assert least_squares(inputs, y, 2, constant=False, weights=1000) == pytest.approx(least, rel=1e-10)


def test_a_flow_beside_a_minimum_that_float64_holds_is_not_told_to_be_at_one():
    x = 1e7 + NORMAL
    problem = agf.TwoLayer(x, (x - 1e7) ** 2, activation="square", bias="hidden", width=6)
    theta = np.full((6, 3), 1e-9)
    theta[0] = 1.0, -1e7, 1.1
    flow = agf.flow(problem, agf.Init.from_params(theta), max_gradients=2e4)
    assert "no network" not in flow.evidence
