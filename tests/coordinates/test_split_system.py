"""Large neurons in their weights, small ones in polar coordinates: the same flow, with a Hessian of the large ones."""

import numpy as np
import pytest

import agf
from agf.coordinates.polar_system import PolarSystem
from agf.coordinates.split_system import SplitSystem

LARGE = np.array([True, False, True, False])


@pytest.fixture(params=[2, 3])
def pair(request):
    """Polar coordinates of four neurons, two of them 1e-7 of the others, and their state."""
    rng = np.random.default_rng(request.param)
    activation = {2: "tanh", 3: "square"}[request.param]
    problem = agf.TwoLayer(rng.standard_normal((20, 3)), rng.standard_normal((20, 2)), activation, width=4)
    assert problem.degree == request.param
    theta = rng.standard_normal((4, problem.n_params)) * np.where(LARGE, 1.0, 1e-7)[:, None]
    polar = PolarSystem(problem, problem.init(1e-5, seed=0))
    return SplitSystem(polar, LARGE), polar.at(theta)


def test_states_go_there_and_back(pair):
    split, at = pair
    assert split.in_polar(split.of_polar(at)) == pytest.approx(at, rel=1e-14, abs=1e-15)


def test_velocity_is_that_of_the_polar_flow(pair):
    split, at = pair
    y = split.of_polar(at)
    velocity, h = split.velocity(y), 1e-6 / np.abs(split.velocity(y) / split.scale(y)).max()
    moved = (split.in_polar(y + h * velocity) - split.in_polar(y - h * velocity)) / (2 * h)
    error = np.abs(moved - split.polar.velocity(at)) / split.polar.scale(at)
    assert error.max() < 1e-8 * np.abs(split.polar.velocity(at) / split.polar.scale(at)).max()


def test_hessian_is_the_jacobian_of_the_large_ones_and_no_other(pair):
    split, at = pair
    y = split.of_polar(at)
    matrix, h = split.hessian(y), 1e-6
    rows = np.arange(at.size - LARGE.size).reshape(LARGE.size, -1)
    large = rows[LARGE].ravel()
    for k in large:
        step = np.where(np.arange(y.size) == k, h, 0.0)
        column = (split.velocity(y + step) - split.velocity(y - step)) / (2 * h)
        assert column[large] == pytest.approx(-matrix[large, k], rel=1e-6, abs=1e-6 * np.abs(matrix).max())
    others = np.setdiff1d(np.arange(y.size), large)
    assert not matrix[others].any()
    assert not matrix[:, others].any()


def test_loss_and_scale_are_those_of_the_network(pair):
    split, at = pair
    y = split.of_polar(at)
    assert split.loss_and_rate(y) == pytest.approx(split.polar.loss_and_rate(at), rel=1e-12)
    sizes = np.linalg.norm(split.polar.params(at)[LARGE], axis=1)
    rows = split.scale(y)[: -LARGE.size].reshape(LARGE.size, -1)
    assert np.linalg.norm(rows[LARGE], axis=1) == pytest.approx(sizes)


def test_a_small_neuron_that_is_about_to_matter_ends_it(pair):
    split, at = pair
    assert not split.over(split.of_polar(at))
    grown = split.polar.params(at) * np.where(LARGE, 1.0, 1e4)[:, None]
    assert split.over(split.of_polar(split.polar.at(grown)))
