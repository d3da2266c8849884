"""Features of many moments at once are those of each, one by one, in whatever coordinates the moments are."""

import numpy as np
import pytest

import agf
from agf.coordinates.polar_system import PolarSystem
from agf.coordinates.stand_ins import tied


def attention():
    return agf.problem("linear-attention", heads=3)


def modular(terms=2):
    return agf.problem("modular-addition", p=5, template={1: 3.0, 2: 1.0}, width=4, terms=terms)


def twins():
    problem = attention()
    theta = problem.init(1e-2).params()
    theta[1] = theta[0]
    return tied(problem, agf.Init.from_params(theta)).problem


def half(problem):
    return agf.masked(problem, np.arange(problem.width * problem.n_params).reshape(problem.width, -1) % 3 > 0)


@pytest.mark.parametrize(
    "problem",
    [attention(), modular(), modular(3), twins(), half(attention()), half(modular())],
    ids=["attention", "modular", "three terms", "twins", "masked attention", "masked modular"],
)
@pytest.mark.parametrize("several", [0, 1, 2])
def test_features_of_many_moments_are_those_of_each(problem, several, rng):
    neurons = np.arange(problem.width)[:several]
    thetas = rng.standard_normal((5, several, problem.n_params))
    found = problem.features_along(thetas, neurons)
    each = [problem.features(theta, neurons) for theta in thetas]
    assert found.keys() == each[0].keys()
    for name, values in found.items():
        np.testing.assert_allclose(values, [one[name] for one in each], rtol=1e-12, atol=1e-13)
    assert type(problem).features_along is not agf.Problem.features_along


class Sizes(type(attention())):
    """Other features than those of the class that has them together."""

    def features(self, theta, neurons):
        return {"sizes": np.sum(theta**2, axis=1)}


def test_a_class_with_features_of_its_own_has_them_one_by_one(rng):
    thetas = rng.standard_normal((4, 2, 9))
    found = Sizes(heads=2).features_along(thetas, np.arange(2))
    assert list(found) == ["sizes"]
    np.testing.assert_array_equal(found["sizes"], np.sum(thetas**2, axis=2))


def test_snapshots_and_conserved_quantities_of_many_states_are_those_of_each(rng):
    """In polar coordinates, in weights, and with some neurons in either; one neuron is zero."""
    problem = attention()
    theta = problem.init(0.3, seed=1).params()
    theta[1] = 0.0
    polar = PolarSystem(problem, agf.Init.from_params(theta))
    split, _ = polar.apart(polar.start(), np.array([True, False, False]))
    for system in (polar, polar.in_weights(), split):
        ys = system.start() + 1e-2 * rng.standard_normal((6, 1)) * system.start()
        shots, each = system.snapshots(ys), [system.snapshot(y) for y in ys]
        np.testing.assert_array_equal(shots.log_norms, [one.log_norms for one in each])
        np.testing.assert_array_equal(shots.directions, [one.directions for one in each])
        np.testing.assert_array_equal(shots.features["overlap"], [one.features["overlap"] for one in each])
        assert np.ptp(shots.features["amplitudes"][:, 0]) > 0
        for found, one in zip(system.conserved_along(ys), map(system.conserved, ys), strict=True):
            np.testing.assert_allclose(found["value2-key2"], one["value2-key2"], rtol=1e-12, atol=1e-15)
