"""Predictions do not depend on the order of samples, of inputs or of neurons, for every system."""

import numpy as np
import pytest

import agf

RNG = np.random.default_rng(4)
X = RNG.standard_normal((24, 3))
Y = np.tanh(X @ [1.0, 0.0, 0.0]) - 0.6 * np.tanh(X @ [0.0, 1.0, 0.3])
TWO = np.c_[Y, X[:, 2]]


def network(name, x, y):
    """A system of this name on data x, y."""
    if name == "diagonal-linear":
        return agf.problem(name, X=x, y=y[:, 0])
    if name == "linear":
        return agf.problem(name, X=x, Y=y, width=4)
    return agf.TwoLayer(x, y[:, 0], activation=name, width=4)


def predict(problem, theta, mode):
    return agf.predict(problem, agf.Init.from_params(theta), mode=mode, conditioning=False, max_drops=3)


def assert_same(one, two):
    """The same drops. What differs is rounding, of steps with an error of 1e-6, which a drop amplifies to its root."""
    assert one.status is two.status
    assert len(one.drops) == len(two.drops)
    assert two.half_times == pytest.approx(one.half_times, rel=1e-3)
    assert two.levels == pytest.approx(one.levels, abs=1e-5 * one.levels[0])


def test_coordinates_of_a_teacher_may_be_listed_in_any_order():
    teacher, outer = RNG.standard_normal((2, 3)), np.array([1.0, -0.5])
    columns = np.array([2, 0, 1])
    one, two = (
        agf.problem("gaussian-teacher", teacher=w, outer=outer, width=3) for w in (teacher, teacher[:, columns])
    )
    theta = one.init(1e-4, seed=0).params()
    moved = np.c_[theta[:, columns], theta[:, 3:]]
    assert_same(predict(one, theta, "agf"), predict(two, moved, "agf"))


@pytest.mark.parametrize("mode", ["agf", "resolved"])
@pytest.mark.parametrize("name", ["diagonal-linear", "linear", "relu", "leaky-relu", "tanh", "gelu", "square"])
def test_samples_inputs_and_neurons_may_be_listed_in_any_order(name, mode):
    problem = network(name, X, TWO)
    theta = problem.init(1e-2 if name == "square" else 1e-4, seed=1).params()
    plain = predict(problem, theta, mode)
    rows = RNG.permutation(X.shape[0])
    assert_same(plain, predict(network(name, X[rows], TWO[rows]), theta, mode))
    neurons = RNG.permutation(theta.shape[0])
    if problem.interchangeable:
        assert_same(plain, predict(problem, theta[neurons], mode))
    columns = np.array([2, 0, 1])
    moved = theta[columns] if name == "diagonal-linear" else np.c_[theta[:, columns], theta[:, 3:]]
    assert_same(plain, predict(network(name, X[:, columns], TWO), moved, mode))


@pytest.mark.parametrize("name", ["linear-attention", "full-linear-attention", "modular-addition", "gaussian-teacher"])
def test_heads_and_neurons_of_the_other_systems_as_well(name):
    problem = agf.problem(name, **agf.registry.find(name).example())
    theta = problem.init(1e-2, seed=0).params()
    neurons = np.random.default_rng(0).permutation(theta.shape[0])
    plain, other = (
        agf.predict(problem, agf.Init.from_params(rows), mode="agf", max_drops=2) for rows in (theta, theta[neurons])
    )
    assert_same(plain, other)
