"""Central differences against derivatives that are known."""

import numpy as np
import pytest

from agf.numerics.derivatives import LENGTH, central, hessian


@pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
def test_the_hessian_of_a_quartic_is_found_at_any_scale(length):
    """L = sum theta^4 / 4 + (sum theta)^2 / 2: Hessian 3 theta^2 + 1 in units of length."""
    theta = length * np.array([[0.3, -1.0], [0.7, 0.2]])

    def gradient(at):
        return at**3 / length**2 + np.sum(at)

    exact = np.diag(3.0 * (theta.ravel() / length) ** 2) + 1.0
    found = hessian(gradient, theta, length)
    assert found == pytest.approx(exact, abs=10 * LENGTH**2)  # the error of a central difference
    assert np.array_equal(found, found.T)


def test_a_derivative_along_a_move_is_exact_on_parabolas():
    assert central(lambda at: float(at @ at), np.array([2.0, 1.0]), np.array([0.5, 0.0])) == 2.0
